"""Interpreters that libraries define: `Trace`, `Tracer` and `TraceTag` as in JAX."""

from __future__ import annotations

from typing import Any

from xjax.compat.linear_util import WrappedFun
from xjax.compat.primitive import Results
from xjax.core import trace as core
from xjax.core.context import context
from xjax.core.errors import bad
from xjax.core.primitive import Primitive
from xjax.core.types import ShapedArray
from xjax.transforms.custom_jvp import custom_jvp_call_p
from xjax.transforms.custom_vjp import custom_vjp_call_p
from xjax.typing import ArrayLike


def kind_of(original: type) -> type:
    """The metaclass of a class that stands for a class of xjax: instances of the latter are instances of the former.

    It does not hold for subclasses, which are ordinary classes.
    """
    class Kind(type(original)):                 # type: ignore[misc] - a class is a type
        def __instancecheck__(cls, x: object) -> bool:
            stands = Kind not in map(type, cls.__bases__)
            return isinstance(x, original) if stands else super().__instancecheck__(x)

        def __subclasscheck__(cls, other: type) -> bool:
            stands = Kind not in map(type, cls.__bases__)
            return issubclass(other, original) if stands else super().__subclasscheck__(other)

    return Kind


class TraceTag(core.Tag):
    """Identity of an interpretation of a library."""

    def __init__(self, caller: str = "an interpreter of a library"):
        super().__init__(caller)


class Trace(core.Trace, metaclass=kind_of(core.Trace)):
    """An interpreter of a library: a subclass defines `process_primitive`.

    Operations that hold functions (`custom_jvp`, `custom_vjp`) go to `process_custom_jvp_call` and
    `process_custom_vjp_call` of subclasses that have them.
    """

    # Subclasses set both as they like; `tag` and `parent` of the base class may not be set yet.
    tag: Any
    parent_trace: core.Trace

    def __init__(self, tag: core.Tag | None = None):
        super().__init__(context.trace, tag or TraceTag())

    def process(self, p: Primitive, args: tuple, params: dict) -> Results:
        if p is custom_jvp_call_p and hasattr(self, "process_custom_jvp_call"):
            return self.process_custom_jvp_call(p, WrappedFun(params["call_jaxpr"]), WrappedFun(params["jvp"]), args,
                                                symbolic_zeros=params["symbolic_zeros"])
        if p is custom_vjp_call_p and hasattr(self, "process_custom_vjp_call"):
            return self.process_custom_vjp_call(p, WrappedFun(params["call_jaxpr"]), WrappedFun(params["fwd"]),
                                                WrappedFun(params["bwd"]), args, out_trees=None,
                                                symbolic_zeros=params["symbolic_zeros"])
        return self.process_primitive(p, args, params)

    def process_primitive(self, p: Primitive, tracers: tuple, params: dict) -> Results:
        """Interpret one operation."""
        raise bad(type(self).__name__, "the interpreter does not define process_primitive",
                  {"operation": p.name}, "define process_primitive(self, primitive, tracers, params).",
                  NotImplementedError)

    def stage_value(self, x: ArrayLike) -> ArrayLike:
        """A value of the parent trace."""
        return x


class Tracer(core.Tracer, metaclass=kind_of(core.Tracer)):
    """A value in an interpreter of a library; each traced value of xjax is an instance of this class."""

    _trace: core.Trace = None  # type: ignore[assignment] - each value has its own

    def __init__(self, trace: core.Trace, aval: ShapedArray | None = None):
        self._trace, self.tag = trace, trace.tag
        if aval is not None:
            self.aval = aval

    def full_lower(self) -> ArrayLike:
        return self

