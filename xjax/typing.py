"""Types for annotations and `isinstance`: `Array`, `ArrayLike`, `DTypeLike`."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from xjax.core.errors import bad
from xjax.core.trace import Tracer
from xjax.runtime import array


class _AnyArray(type):
    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, (array.Array, Tracer))

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, (array.Array, Tracer))

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        raise bad("xjax.Array", "is a type to test for, not a constructor", fix="call xjax.numpy.array(x).")


class Array(metaclass=_AnyArray):
    """An array of xjax: a value on devices, or a traced value inside jit, grad or vmap.

    >>> isinstance(xjax.numpy.ones(3), xjax.Array), isinstance(3.0, xjax.Array)
    (True, False)
    """


# What functions of `xjax.numpy` take as an array.
ArrayLike: TypeAlias = Array | np.ndarray | np.generic | bool | int | float | complex
DTypeLike: TypeAlias = Any

__all__ = ["Array", "ArrayLike", "DTypeLike"]
