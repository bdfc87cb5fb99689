"""Forward-mode differentiation: `JVPTrace` computes a tangent together with each value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xjax.core.calls import Flat
from xjax.core.context import context
from xjax.core.depth import deep
from xjax.core.jaxpr import ClosedJaxpr, program_cache
from xjax.core.primitive import Primitive
from xjax.core.staging import trace_to_jaxpr
from xjax.core.trace import Tag, Trace, Tracer, known_value
from xjax.core.types import Zero, typeof, with_zeros
from xjax.core.varying import casts_needed
from xjax.ops.pvary import vary_to
from xjax.ops.zeros import instantiate
from xjax.typing import Array, ArrayLike


class DualTracer(Tracer):
    """A primal value and its tangent, which is not Zero. In linearize, the tangent is a variable of a program."""

    __slots__ = ("primal", "tangent")

    def __init__(self, tag: Tag, primal: ArrayLike, tangent: ArrayLike):
        self.tag, self.primal, self.tangent = tag, primal, tangent
        self.aval = typeof(primal)

    def concrete(self) -> ArrayLike | None:
        return known_value(self.primal)

    def origin(self) -> str:
        return self.primal.origin() if isinstance(self.primal, Tracer) else super().origin()


class DualTrace(Trace):
    """A trace of values with tangents: it differentiates operations on them, and the parent runs all others.

    A subclass defines the derivative: `differentiate(p, primals, tangents, params) -> (out, tangent)`.
    """

    __slots__ = ()

    parent: Trace

    def split(self, x: ArrayLike) -> tuple[Any, Any]:
        """(primal, tangent) of a value; a value of another trace is constant."""
        if type(x) is DualTracer and x.tag is self.tag:
            return x.primal, x.tangent
        return x, Zero(typeof(x).tangent())

    def join(self, primal: ArrayLike, tangent: Array | Zero) -> ArrayLike:
        return primal if type(tangent) is Zero else DualTracer(self.tag, primal, tangent)

    def process(self, p: Primitive, args: tuple, params: dict) -> Any:
        tag = self.tag
        for x in args:
            if type(x) is DualTracer and x.tag is tag:
                break
        else:
            return self.parent.process(p, args, params)
        if context.axes:
            args = self._cast(p, args, params)
        primals, tangents = zip(*[self.split(x) for x in args], strict=True)
        saved = context.trace
        try:
            out, dout = self.differentiate(p, primals, tangents, params)
        finally:
            context.trace = saved
        if p.multiple_results:
            return [self.join(y, dy) for y, dy in zip(out, dout, strict=True)]
        return self.join(out, dout)

    def _cast(self, p: Primitive, args: tuple, params: dict) -> tuple:
        """The operands; operands with a tangent are cast here to the types that the operation needs.

        So the cast is differentiated too.
        """
        wanted = casts_needed(p, [typeof(x) for x in args], params)
        if wanted is None:
            return args
        return tuple([vary_to(x, vma) if type(x) is DualTracer and x.tag is self.tag else x
                      for x, vma in zip(args, wanted, strict=True)])

    def differentiate(self, p: Primitive, primals: tuple, tangents: tuple, params: dict) -> tuple[Any, Any]:
        raise TypeError(f"{type(self).__name__} does not define how to differentiate")


class JVPTrace(DualTrace):
    """Computes tangents together with values, by the jvp rule of each operation."""

    __slots__ = ()

    def __init__(self, parent: Trace):
        super().__init__(parent, Tag("jvp"))

    def differentiate(self, p: Primitive, primals: tuple, tangents: tuple, params: dict) -> tuple[Any, Any]:
        context.trace = self.parent
        return p.jvp(primals, tangents, **params)


@deep
def jvp_flat(f: Callable[..., Sequence[Any]], primals: Sequence[Any],
             tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The values and tangents (possibly Zero) of `f(*flat) -> flat`."""
    trace = JVPTrace(context.trace)
    saved = context.trace
    context.trace = trace
    try:
        outs = f(*[trace.join(x, dx) for x, dx in zip(primals, tangents, strict=True)])
        pairs = [trace.split(y) for y in outs]
        if isinstance(f, Flat):
            f.leave_trace(trace.split)
    finally:
        context.trace = saved
        trace.close()
    return [y for y, _ in pairs], [dy for _, dy in pairs]


@program_cache
def jvp_program(closed: ClosedJaxpr, nonzero: tuple[bool, ...],
                instantiated: tuple[bool, ...]) -> tuple[ClosedJaxpr, tuple[bool, ...]]:
    """The program of (inputs, tangents of the inputs flagged `nonzero`) -> (outputs, tangents that are not Zero).

    Outputs flagged in `instantiated` always get a tangent. The second result flags the outputs with a tangent.
    """
    has_tangent: tuple[bool, ...] = ()

    def run(*args: ArrayLike) -> list[Any]:
        nonlocal has_tangent
        n = len(nonzero)
        outs, douts = jvp_flat(closed, args[:n], with_zeros(nonzero, args[n:], closed.in_avals))
        douts = [instantiate(d) if force else d for d, force in zip(douts, instantiated, strict=True)]
        has_tangent = tuple(type(d) is not Zero for d in douts)
        return [*outs, *(d for d in douts if type(d) is not Zero)]

    in_tangents = [a.tangent() for a, flag in zip(closed.in_avals, nonzero, strict=True) if flag]
    program = trace_to_jaxpr(run, [*closed.in_avals, *in_tangents], "jvp")
    return program, has_tangent
