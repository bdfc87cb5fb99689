"""Staging: run a Python function on tracers that record a program instead of computing values.

`trace_to_jaxpr(f, avals)` is used by jit, make_jaxpr and the control-flow operations; linearize records its tangent
program with a `StagingTrace`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xjax.core.config import config
from xjax.core.context import context
from xjax.core.depth import deep
from xjax.core.errors import location_text, user_location
from xjax.core.interrupts import note_interrupt
from xjax.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var, called_by, check_jaxpr, is_plain_call
from xjax.core.primitive import Primitive, primitive_called
from xjax.core.trace import Tag, Trace, Tracer, escaped
from xjax.core.types import LinearInput, ShapedArray, Vma, not_an_array, typeof
from xjax.core.varying import OperandsVary, axes_in_order
from xjax.typing import ArrayLike

_SCALARS = (bool, int, float, complex)


class StagingTracer(Tracer):
    """A variable of the program being recorded."""

    __slots__ = ("variable", "source")

    def __init__(self, tag: Tag, var: Var, source: tuple | str | None = None):
        self.tag, self.variable, self.source = tag, var, source
        self.aval = var.aval

    def origin(self) -> str:
        if not self.source:
            return f"in {self.tag}"
        if isinstance(self.source, str):            # an argument
            return f"{self.source}, in {self.tag}"
        return f"made at {location_text(self.source)}, in {self.tag.caller}"


class StagingTrace(Trace):
    """Records every operation as an equation; values of other traces become constants."""

    __slots__ = ("eqns", "constvars", "consts", "_const_of", "refs")

    def __init__(self, parent: Trace, caller: str = "a staged function"):
        super().__init__(parent, Tag(caller))
        self.eqns: list[Eqn] = []
        self.constvars: list[Var] = []
        self.consts: list[Any] = []                 # also keeps the values alive, so that ids remain unique
        self._const_of: dict[int, Var] = {}
        self.refs: Any = None           # the mutable arrays that it uses; set by `transforms.refs`

    def new_arg(self, aval: ShapedArray, source: str = "") -> StagingTracer:
        """A tracer for a new input; `source` describes it in errors (``argument `x` ``)."""
        return StagingTracer(self.tag, Var(aval), source)

    def atom(self, x: ArrayLike) -> Atom:
        """The variable or literal for a value."""
        kind = type(x)
        if kind is StagingTracer and x.tag is self.tag:
            return x.variable
        if kind in _SCALARS or isinstance(x, np.generic) or (isinstance(x, np.ndarray) and x.ndim == 0):
            return Literal(x)
        return self._constant(x)

    def _constant(self, x: ArrayLike) -> Var:
        var = self._const_of.get(id(x))
        if var is None:
            if isinstance(x, Tracer) and x.tag.closed:
                raise escaped(x)
            if type(x) is LinearInput:          # it has a type, but not a value
                raise not_an_array(x)
            var = self._const_of[id(x)] = Var(typeof(x))
            self.constvars.append(var)
            self.consts.append(x)
        return var

    def process(self, p: Primitive, args: tuple, params: dict) -> Any:
        if p.stage is not None:
            return p.stage(self, args, params)
        return self.record(p, args, params)

    def record(self, p: Primitive, args: Sequence[Any], params: dict) -> Any:
        """Append the equation of `p` and return tracers for its results."""
        tag = self.tag
        if tag.closed:
            raise RuntimeError(f"internal error: {p} recorded after the end of {tag.caller}")
        invars = [x.variable if type(x) is StagingTracer and x.tag is tag else self.atom(x) for x in args]
        source = context.source or user_location()
        try:
            out = p.out_type(tuple([v.aval for v in invars]), params)
        except OperandsVary as casts:
            invars = [self._cast(v, vma, source) for v, vma in zip(invars, casts.wanted, strict=True)]
            out = p.out_type(tuple([v.aval for v in invars]), params)
        if p.multiple_results:
            outvars = [Var(aval) for aval in out]
            self.eqns.append(Eqn(invars, outvars, p, params, source))
            return [StagingTracer(tag, v, source) for v in outvars]
        var = Var(out)
        self.eqns.append(Eqn(invars, [var], p, params, source))
        return StagingTracer(tag, var, source)

    def _cast(self, v: Atom, vma: Vma, source: tuple | None) -> Atom:
        """The variable or literal, cast to a type that varies along the axes `vma`."""
        if v.aval.vma == vma:
            return v
        aval = v.aval.update(vma=vma)
        if type(v) is Literal:
            return Literal(v.val, aval)
        out = Var(aval)
        self.eqns.append(Eqn([v], [out], primitive_called("pvary"), {"axes": axes_in_order(vma - v.aval.vma)}, source))
        return out

    def finish(self, args: Sequence[StagingTracer], outs: Sequence[Any]) -> ClosedJaxpr:
        """The recorded program from `args` to `outs`; its constants may be tracers of outer traces."""
        outvars = [self.atom(x) for x in outs]
        self.close()
        jaxpr = Jaxpr(self.constvars, [a.variable for a in args], self.eqns, outvars)
        if config.enable_checks:
            check_jaxpr(jaxpr)
        return ClosedJaxpr(jaxpr, self.consts)


@deep
def trace_to_jaxpr(f: Callable[..., Sequence[Any]], in_avals: Sequence[ShapedArray], caller: str = "a staged function",
                   arg_names: Sequence[str] | None = None) -> ClosedJaxpr:
    """Record `f(*tracers) -> flat list of results` as a program."""
    saved, scope = context.trace, context.scope
    trace = StagingTrace(saved, caller)
    names = arg_names or [""] * len(in_avals)
    args = [trace.new_arg(aval, name) for aval, name in zip(in_avals, names, strict=True)]
    context.trace, context.scope = trace, ""            # scopes around the call are those of its equation
    try:
        outs = f(*args)
        return trace.finish(args, outs)
    except KeyboardInterrupt as error:
        note_interrupt(error, f"{caller} was traced")
        raise
    finally:
        context.trace, context.scope = saved, scope
        trace.close()


def hoist_consts(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[Any]]:
    """Convert the constants of a program to leading inputs. Returns: the program and the constants."""
    if not closed.consts:
        return closed, []
    hoisted = closed.memo.get("hoisted")
    if hoisted is None:                     # cached, since other caches are keyed on its identity
        j = closed.jaxpr
        hoisted = closed.memo["hoisted"] = ClosedJaxpr(Jaxpr((), [*j.constvars, *j.invars], j.eqns, j.outvars))
        hoisted.memo["constants"] = len(j.constvars)
    return hoisted, closed.consts


def with_inner_consts(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program in the form that JAX prints: values that a jitted function closed over are constants of its program.

    The inverse of `hoist_consts` for the calls in a program. Constants of loops and branches, and values that another
    trace computes, are not moved.
    """
    if not closed.consts or not any(map(is_plain_call, closed.jaxpr.eqns)):
        return closed
    made: dict[tuple, ClosedJaxpr] = {}         # two calls of one program remain calls of one program

    def rewritten(j: Jaxpr, known: dict[Var, Any]) -> Jaxpr:
        eqns = [call(eqn, known) if is_plain_call(eqn) else eqn for eqn in j.eqns]
        read = {v for eqn in eqns for v in eqn.invars}.union(j.outvars)
        return Jaxpr([v for v in known if v in read], [v for v in (*j.constvars, *j.invars) if v not in known], eqns,
                     j.outvars)

    def call(eqn: Eqn, known: dict[Var, Any]) -> Eqn:
        param = called_by(eqn)
        program = eqn.params[param]
        count = program.memo.get("constants", 0)
        consts = [known.get(v, closed) for v in eqn.invars[:count]]         # `closed` marks a missing one
        if not count or any(x is closed for x in consts):
            return eqn
        key = (id(program), *map(id, consts))
        if key not in made:
            inner = dict(zip(program.jaxpr.invars, consts, strict=False))
            j = rewritten(program.jaxpr, inner)
            made[key] = ClosedJaxpr(j, [inner[v] for v in j.constvars])
        return eqn.replace(invars=eqn.invars[count:], params={**eqn.params, param: made[key]})

    known = {v: x for v, x in zip(closed.jaxpr.constvars, closed.consts, strict=True) if not isinstance(x, Tracer)}
    j = rewritten(closed.jaxpr.replace(constvars=()), known)
    others = [v for v in closed.jaxpr.constvars if v not in known]
    values = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    j = j.replace(constvars=[v for v in closed.jaxpr.constvars if v in {*j.constvars, *others}])
    return ClosedJaxpr(j, [values[v] for v in j.constvars])
