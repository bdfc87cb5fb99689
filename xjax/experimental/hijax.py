"""Types of values that libraries define ("hijax types"): the part of `jax.experimental.hijax` that works here.

Classes of types and operations can be defined, and operations run eagerly, by their method `expand`. Values of such
types cannot be traced, differentiated or mapped: register their class as a pytree instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from xjax.core.calls import check_callable
from xjax.core.context import at_root
from xjax.core.errors import bad
from xjax.core.public import attributes_of
from xjax.core.trace import Tracer
from xjax.core.tree import flatten
from xjax.core.types import ADVICE, ShapedArray, Zero, is_linear
from xjax.ops.zeros import instantiate
from xjax.ref import AbstractRef, TransformedRef
from xjax.transforms.refs import library_types
from xjax.typing import ArrayLike

__all__ = ["AbstractRef", "AbstractValue", "HiPrim", "HiPrimitive", "HiPspec", "HiType", "MappingSpec", "MutableHiType",
           "ShapedArray", "TransformedRef", "VJPHiPrimitive", "Zero", "aval_method", "aval_property",
           "control_flow_allowed_effects", "instantiate_zeros", "is_undefined_primal", "register_hitype"]


class AbstractValue:
    """The base class of types that libraries define."""

    __slots__ = ()


class HiType(AbstractValue):
    """A type of values that consist of arrays; a class derived from it says which."""

    __slots__ = ()

    is_high = True


class MutableHiType(HiType):
    """A type of values that change."""

    __slots__ = ()


class HiPspec:
    """The base class of the placements of such a value."""


class MappingSpec:
    """The base class of the descriptions of how `vmap` maps such a value."""


class aval_property:
    """A property that traced values would have, as an attribute of their type."""

    __slots__ = ("fget",)

    def __init__(self, fget: Callable | None):
        self.fget = fget


class aval_method:
    """A method that traced values would have, as an attribute of their type."""

    __slots__ = ("fun",)

    def __init__(self, fun: Callable):
        self.fun = fun


class HiPrim:
    """An operation on values of such types. A derived class defines `expand(*args)`, which computes it.

    `params` of a derived class are attributes of the object.
    """

    def __init__(self) -> None:
        for name, value in getattr(self, "params", {}).items():
            setattr(self, name, value)

    def expand(self, *args: object) -> Any:
        """The result for these arguments."""
        raise bad(f"hijax.{type(self).__name__}", "does not define expand(*args)", fix="define it in the class.",
                  exc=NotImplementedError)

    def __call__(self, *args: object) -> Any:
        """The result of `expand`.  Raises: NotImplementedError inside a transformation."""
        if not at_root() or any(isinstance(x, Tracer) for x in flatten(args)[0]):
            raise bad(f"hijax.{type(self).__name__}", "operations on hijax types run eagerly only, not under jit, "
                      "grad or vmap", fix="use the library's default mode, which has pytrees of arrays.",
                      exc=NotImplementedError)
        return self.expand(*args)


class HiPrimitive(HiPrim):
    """The name of `HiPrim` before JAX 0.12, for operations with rules of their own. Such an operation has a name."""

    def __init__(self, name: str = "") -> None:
        super().__init__()
        self.name = name

    def bind(self, *args: object, **params: object) -> Any:
        """Refused: the rules of such an operation need values of hijax types that are traced."""
        raise bad(f"hijax.{type(self).__name__}", "operations with rules of their own do not run",
                  {"operation": self.name}, "use the library's default mode, which has pytrees of arrays.",
                  NotImplementedError)


class _EffectTypes:
    """Types of effects that a library allows in loops and branches; operations with such effects are refused anyway."""

    def __init__(self) -> None:
        self._types: set[type] = set()

    def add_type(self, effect_type: type) -> None:
        """Allow effects of this type."""
        self._types.add(effect_type)

    def contains(self, effect: object) -> bool:
        """Whether an effect is of an allowed type."""
        return isinstance(effect, tuple(self._types))

    def filter_not_in(self, effects: Iterable[object]) -> list[object]:
        """The effects that are not allowed."""
        return [effect for effect in effects if not self.contains(effect)]


control_flow_allowed_effects = _EffectTypes()


class VJPHiPrimitive(HiPrim):
    """The name of `HiPrim` before JAX 0.12, for operations with a reverse-mode rule."""


def register_hitype(val_cls: type, typeof_fn: Callable[[Any], HiType]) -> None:
    """Set the function that computes `xjax.typeof(x)` for the values of a class.

    Where such a value is passed as an array, the error says that values of the class are not traced.
    """
    if not isinstance(val_cls, type):
        raise bad("register_hitype", "`val_cls` must be a class", {"val_cls": repr(val_cls)[:80]}, "pass the class.")
    check_callable("register_hitype", typeof_fn)
    library_types[val_cls] = typeof_fn
    ADVICE[val_cls] = "values of hijax types are not traced: use the library's default mode, or register a pytree."


def instantiate_zeros(tangent: ArrayLike | Zero) -> ArrayLike:
    """The tangent; an array of zeros for a symbolic zero."""
    return instantiate(tangent) if type(tangent) is Zero else tangent


def is_undefined_primal(x: object) -> bool:
    """Whether `x` is the placeholder of a linear argument in a transpose rule."""
    return is_linear(x)


__getattr__ = attributes_of(__name__)
