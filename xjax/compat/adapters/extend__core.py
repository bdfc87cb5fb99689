"""`jax.extend.core`: programs, their parts, and primitives of libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from xjax.compat.primitive import Primitive
from xjax.compat.traces import TraceTag, kind_of
from xjax.core import jaxpr as core
from xjax.core import primitive as core_primitive
from xjax.core.context import Context, context, current_trace
from xjax.core.errors import ConcretizationTypeError
from xjax.core.jaxpr import DebugInfo, Literal, Var, check_jaxpr
from xjax.core.jaxpr import Eqn as JaxprEqn
from xjax.core.primitive import NO_EFFECTS as no_effects
from xjax.core.primitive import Effects
from xjax.core.trace import Trace, Tracer, abstract_value_error, known_value
from xjax.core.types import ShapedArray, is_array_like
from xjax.transforms.batching import with_axis, without_axis
from xjax.typing import ArrayLike

__all__ = ["AbstractValue", "ClosedJaxpr", "DebugInfo", "DropVar", "Effect", "Effects", "Jaxpr", "JaxprEqn", "Literal",
           "Primitive", "TraceTag", "Var", "check_jaxpr", "concrete_or_error", "find_top_trace",
           "get_opaque_trace_state", "jaxpr_as_fun", "jaxprs_in_params", "mapped_aval", "new_jaxpr_eqn", "no_effects",
           "set_current_trace", "subjaxprs", "take_current_trace", "unmapped_aval", "valid_jaxtype"]

_T = TypeVar("_T")


class AbstractValue(metaclass=kind_of(ShapedArray)):
    """A type of values: `ShapedArray` is the only kind."""


class DropVar(Var):
    """A variable whose value is not used; programs of xjax have ordinary variables there."""

    __slots__ = ()


class Effect:
    """A class for effects of libraries; effects of xjax are strings."""


class Jaxpr(metaclass=kind_of(core.Jaxpr)):
    """A program; the arguments have the order of JAX: `constvars`, `invars`, `outvars`, `eqns`."""

    def __new__(cls, constvars: Sequence[Var], invars: Sequence[Var], outvars: Sequence[Any], eqns: Sequence[JaxprEqn],
                effects: Effects = no_effects, debug_info: DebugInfo | None = None, is_high: bool = False,
                consts: Sequence[Any] | None = None) -> core.Jaxpr | core.ClosedJaxpr:
        program = core.Jaxpr(constvars, invars, eqns, outvars)
        return program if consts is None else core.ClosedJaxpr(program, consts)


class ClosedJaxpr(metaclass=kind_of(core.ClosedJaxpr)):
    """A program with the values of its constants."""

    def __new__(cls, jaxpr: core.Jaxpr, consts: Sequence[Any] = ()) -> core.ClosedJaxpr:
        return core.ClosedJaxpr(jaxpr.jaxpr, consts)


def new_jaxpr_eqn(invars: Sequence[Var | Literal], outvars: Sequence[Var], primitive: core_primitive.Primitive,
                  params: Mapping[str, Any], effects: Effects = no_effects, source_info: object = None,
                  ctx: object = None) -> JaxprEqn:
    """An equation.  Args: effects, ctx: without effect: both follow from the primitive and its parameters."""
    return JaxprEqn([*invars], [*outvars], primitive, dict(params), getattr(source_info, "source", None))


def jaxpr_as_fun(closed_jaxpr: core.ClosedJaxpr, *args: ArrayLike) -> list[Any] | Callable[..., list[Any]]:
    """The program as a function of flat arguments; its results if arguments are passed."""
    def program(*args: ArrayLike) -> list[Any]:
        return closed_jaxpr(*args)

    return program(*args) if args else program


def subjaxprs(jaxpr: core.Jaxpr) -> Iterator[core.Jaxpr]:
    """The programs among the parameters of all equations."""
    for eqn in jaxpr.eqns:
        yield from core.subjaxprs(eqn.params)


def jaxprs_in_params(params: dict[str, Any]) -> Iterator[core.Jaxpr]:
    """The programs among the parameters of an equation."""
    yield from core.subjaxprs(params)


def mapped_aval(size: int, axis: int | None, aval: ShapedArray) -> ShapedArray:
    """The type of one element of a mapped array."""
    return without_axis(aval, axis)


def unmapped_aval(size: int, axis: int | None, aval: ShapedArray, explicit_mesh_axis: object = None) -> ShapedArray:
    """The type of an array of `size` elements of type `aval` along a new axis."""
    return with_axis(aval, axis, size)


def valid_jaxtype(x: object) -> bool:
    """Whether `x` is an array, a traced value, a NumPy value or a number."""
    return is_array_like(x)


def concrete_or_error(force: Callable[[Any], _T] | None, val: ArrayLike, context: str = "") -> _T | ArrayLike:
    """``force(val)``, or `val` if `force` is None.  Raises: ConcretizationTypeError for a value not known yet."""
    if isinstance(val, Tracer):
        known = known_value(val)
        if known is None:
            raise abstract_value_error(f"the value of ({context or 'an argument'})", val, ConcretizationTypeError)
        val = known
    return val if force is None else force(val)


def find_top_trace(xs: object) -> Trace:
    """The current trace."""
    return context.trace


class _TraceState(NamedTuple):
    """The current trace; equal for equal traces."""

    trace: Trace
    tag: Any


def get_opaque_trace_state(convention: str | None = None) -> _TraceState:
    """A value that equals another one from this function if the same trace was current."""
    return _TraceState(context.trace, getattr(context.trace, "tag", None))


def set_current_trace(trace: Trace, check_leaks: bool = False) -> current_trace:
    """A context in which `trace` interprets operations.  Args: check_leaks: see `xjax.checking_leaks`; not needed."""
    return current_trace(trace)


@contextmanager
def take_current_trace() -> Iterator[Trace]:
    """The current trace, while operations in the context run eagerly."""
    trace = context.trace
    with current_trace(Context.trace):
        yield trace
