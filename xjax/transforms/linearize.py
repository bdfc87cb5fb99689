"""Linearization: run a function at a point and record its derivative as a linear program.

`LinearizeTrace` runs the jvp rule of each operation under a `SplitTrace`. This trace records operations on tangents in
the tangent program, and passes all others to the parent, where they run or are staged as usual. The primal values that
the tangent program captures are the residuals. There is no other partial evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xjax.core.calls import Flat
from xjax.core.context import context, current_trace
from xjax.core.depth import deep
from xjax.core.errors import bad
from xjax.core.jaxpr import ClosedJaxpr, Jaxpr, Literal, dce, program_cache
from xjax.core.primitive import Primitive
from xjax.core.staging import StagingTrace, StagingTracer, hoist_consts, trace_to_jaxpr
from xjax.core.trace import Tag, Trace
from xjax.core.types import Zero, typeof
from xjax.ops.zeros import instantiate
from xjax.transforms.jvp import DualTrace, DualTracer
from xjax.typing import Array, ArrayLike


class SplitTrace(Trace):
    """Records operations on tangents in the tangent program; all others are passed to the parent."""

    __slots__ = ("tangent",)

    parent: Trace

    def __init__(self, parent: Trace, tangent: StagingTrace):
        super().__init__(parent, tangent.tag)
        self.tangent = tangent

    def process(self, p: Primitive, args: tuple, params: dict) -> Any:
        tag = self.tag
        for x in args:
            if type(x) is StagingTracer and x.tag is tag:
                if p.split is not None:
                    return p.split(self, args, params)
                return self.tangent.process(p, args, params)
        return self.parent.process(p, args, params)

    def is_tangent(self, x: ArrayLike) -> bool:
        return type(x) is StagingTracer and x.tag is self.tag


class LinearizeTrace(DualTrace):
    """Computes primal values in the parent, and records the derivative in `tangent`."""

    __slots__ = ("tangent", "split_trace")

    def __init__(self, parent: Trace, caller: str = "grad"):
        super().__init__(parent, Tag(caller))
        self.tangent = StagingTrace(parent, caller)
        self.split_trace = SplitTrace(parent, self.tangent)

    def join(self, primal: ArrayLike, tangent: Array | Zero) -> ArrayLike:
        if type(primal) is StagingTracer and primal.tag is self.tangent.tag:
            raise bad("linearize", "a derivative rule made a result depend on a tangent",
                      given={"result": primal.aval.str_short()},
                      fix="compute the primal result of a custom rule from the primal inputs only.")
        return super().join(primal, tangent)

    def differentiate(self, p: Primitive, primals: tuple, tangents: tuple, params: dict) -> tuple[Any, Any]:
        if p.linearize is not None:
            context.trace = self.parent
            return p.linearize(self, primals, tangents, **params)
        context.trace = self.split_trace
        return p.jvp(primals, tangents, **params)

    def close(self) -> None:
        super().close()
        self.tangent.close()


class Linearized(NamedTuple):
    """Results of a function at a point, and its derivative there as a linear program.

    `program` maps the tangents of the inputs flagged in `active` to the tangents of the outputs flagged in `nonzero`;
    its constants are the residuals.
    """

    outs: list[Any]
    program: ClosedJaxpr
    active: tuple[bool, ...]
    nonzero: tuple[bool, ...]


@deep
def linearize_flat(f: Callable[..., Sequence[Any]], primals: Sequence[Any],
                   active: Sequence[bool] | None = None, caller: str = "grad") -> Linearized:
    """Linearize `f(*flat) -> flat` at a point, with respect to the inputs flagged `active` (None: all)."""
    trace = LinearizeTrace(context.trace, caller)
    active = tuple(active) if active is not None else (True,) * len(primals)
    args, tangents = [], []
    for x, flag in zip(primals, active, strict=True):
        if flag:
            tangents.append(trace.tangent.new_arg(typeof(x).tangent()))
            x = DualTracer(trace.tag, x, tangents[-1])
        args.append(x)
    saved = context.trace
    context.trace = trace
    try:
        pairs = [trace.split(y) for y in f(*args)]
        if isinstance(f, Flat):
            f.leave_trace(trace.split)
        nonzero = tuple(type(dy) is not Zero for _, dy in pairs)
        program = trace.tangent.finish(tangents, [dy for _, dy in pairs if type(dy) is not Zero])
    finally:
        context.trace = saved
        trace.close()
    return Linearized([y for y, _ in pairs], program, active, nonzero)


def only_live(lin: Linearized) -> Linearized:
    """The same without equations whose results are unused, and without the residuals that only they use."""
    j, _ = dce(lin.program.jaxpr, (True,) * len(lin.program.jaxpr.outvars))
    read = {v for eqn in j.eqns for v in eqn.invars if type(v) is not Literal}.union(
        v for v in j.outvars if type(v) is not Literal)
    kept = [(v, x) for v, x in zip(j.constvars, lin.program.consts, strict=True) if v in read]
    program = ClosedJaxpr(Jaxpr([v for v, _ in kept], j.invars, j.eqns, j.outvars), [x for _, x in kept])
    return lin._replace(program=program)


class LinearizedProgram(NamedTuple):
    """A program split into its value and its derivative.

    `forward`: inputs -> outputs and residuals; `tangent`: residuals and input tangents -> output tangents.
    `forwarded[i]`: index of the input equal to residual i, or None if the residual is an output of `forward`.
    """

    forward: ClosedJaxpr
    tangent: ClosedJaxpr
    nonzero: tuple[bool, ...]
    forwarded: tuple[int | None, ...]


@program_cache
def linearize_program(closed: ClosedJaxpr, active: tuple[bool, ...],
                      instantiated: tuple[bool, ...] | None = None) -> LinearizedProgram:
    """Linearize a program; outputs flagged in `instantiated` always get a tangent."""
    lin: Linearized | None = None

    def forward(*args: ArrayLike) -> list[Any]:
        nonlocal lin

        lin = linearize_flat(closed, args, active, "linearize")
        if instantiated is not None:
            lin = _instantiate(lin, instantiated)
        return [*lin.outs, *lin.program.consts]

    program = trace_to_jaxpr(forward, closed.in_avals, "linearize")
    j = program.jaxpr
    n = len(closed.out_avals)
    position = {v: i for i, v in enumerate(j.invars)}
    forwarded = tuple(None if type(v) is Literal else position.get(v) for v in j.outvars[n:])
    kept = [v for v, i in zip(j.outvars[n:], forwarded, strict=True) if i is None]
    t = lin.program.jaxpr
    tangent = Jaxpr((), [*t.constvars, *t.invars], t.eqns, t.outvars)
    return LinearizedProgram(ClosedJaxpr(Jaxpr(j.constvars, j.invars, j.eqns, [*j.outvars[:n], *kept]), program.consts),
                             ClosedJaxpr(tangent), lin.nonzero, forwarded)


def _instantiate(lin: Linearized, instantiated: Sequence[bool]) -> Linearized:
    """Add a tangent of zeros for outputs flagged in `instantiated` that have no tangent."""
    tangents = iter(lin.program.jaxpr.outvars)
    outvars, nonzero, extra = [], [], []
    for y, has, force in zip(lin.outs, lin.nonzero, instantiated, strict=True):
        if has:
            outvars.append(next(tangents))
        elif force:
            extra.append((len(outvars), typeof(y).tangent()))
            outvars.append(None)
        nonzero.append(has or force)
    if extra:
        j = lin.program.jaxpr
        zeros = trace_to_jaxpr(lambda: [instantiate(Zero(a)) for _, a in extra], (), "zeros")
        for (k, _), v in zip(extra, zeros.jaxpr.outvars, strict=True):
            outvars[k] = v
        j = Jaxpr([*j.constvars, *zeros.jaxpr.constvars], j.invars, [*j.eqns, *zeros.jaxpr.eqns], outvars)
        lin = lin._replace(program=ClosedJaxpr(j, [*lin.program.consts, *zeros.consts]))
    else:
        j = lin.program.jaxpr
        lin = lin._replace(program=ClosedJaxpr(Jaxpr(j.constvars, j.invars, j.eqns, outvars), lin.program.consts))
    return lin._replace(nonzero=tuple(nonzero))


@program_cache
def split_program(closed: ClosedJaxpr, tangent: tuple[bool, ...]) -> tuple[ClosedJaxpr, ClosedJaxpr, tuple[bool, ...]]:
    """Partition a program into the part that does not depend on the flagged inputs, and the part that does.

    Returns: the first program: other inputs -> independent outputs, residuals; the second program: residuals, flagged
      inputs -> dependent outputs; a flag for each output, True if it depends on the flagged inputs.
    """
    from_tangent: tuple[bool, ...] = ()
    second: ClosedJaxpr | None = None

    def run(*known: ArrayLike) -> list[Any]:
        nonlocal from_tangent, second
        inner = StagingTrace(context.trace, "split")
        split = SplitTrace(context.trace, inner)
        unknown = [inner.new_arg(a) for a, t in zip(closed.in_avals, tangent, strict=True) if t]
        unknowns, others = iter(unknown), iter(known)
        with current_trace(split):
            outs = closed(*[next(unknowns) if t else next(others) for t in tangent])
        from_tangent = tuple(split.is_tangent(y) for y in outs)
        second = inner.finish(unknown, [y for y, t in zip(outs, from_tangent, strict=True) if t])
        return [*(y for y, t in zip(outs, from_tangent, strict=True) if not t), *second.consts]

    first = trace_to_jaxpr(run, [a for a, t in zip(closed.in_avals, tangent, strict=True) if not t], "split")
    return first, hoist_consts(second)[0], from_tangent
