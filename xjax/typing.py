"""Types for annotations: `Array`, `ArrayLike`, `DTypeLike`, `Shape`, `Axis`, `PyTree`, `Params`, `PRNGKey`.

`Array` and `ArrayLike` work with `isinstance` too. All of xjax, xnn and recipes use these names; `xnn.Layer` is the
type of a layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from xjax.core.array_type import Array
from xjax.core.public import attributes_of


class SupportsDType(Protocol):
    """An object with a dtype: an array, or a scalar type such as `xjax.numpy.float32`."""

    @property
    def dtype(self) -> np.dtype: ...


# The values that functions of `xjax.numpy` accept as an array.
ArrayLike: TypeAlias = Array | np.ndarray | np.generic | bool | int | float | complex
DTypeLike: TypeAlias = str | type[Any] | np.dtype | SupportsDType
# Sizes of axes; as an argument, a single size is a shape too.
Shape: TypeAlias = tuple[int, ...]
ShapeLike: TypeAlias = int | Sequence[int]
# The axes of a reduction, counted from the end if negative; None: all.
Axis: TypeAlias = int | Sequence[int] | None
# Nested containers of leaves, of any depth: type checkers cannot express the structure.
PyTree: TypeAlias = Any
# The parameters of a layer or a model: a pytree of arrays.
Params: TypeAlias = PyTree
PRNGKey: TypeAlias = Array

__all__ = ["Array", "ArrayLike", "Axis", "DTypeLike", "PRNGKey", "Params", "PyTree", "Shape", "ShapeLike",
           "SupportsDType"]

__getattr__ = attributes_of(__name__)
