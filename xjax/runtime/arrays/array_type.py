"""The type that users test for: `isinstance(x, xjax.Array)` holds for arrays on devices and for traced values."""

from __future__ import annotations

from typing import Any

from xjax.core.errors import bad
from xjax.core.trace import Tracer
from xjax.runtime.arrays import array


class _AnyArray(type):
    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, (array.Array, Tracer))

    def __subclasscheck__(cls, kind: type) -> bool:
        return kind is cls or issubclass(kind, (array.Array, Tracer))

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        raise bad("xjax.Array", "is a type to test for, not a constructor", fix="call xjax.numpy.array(x).")


class Array(metaclass=_AnyArray):
    """An array of xjax: a value on devices, or a traced value inside jit, grad or vmap.

    >>> isinstance(jnp.ones(3), xjax.Array), isinstance(3.0, xjax.Array)
    (True, False)
    """
