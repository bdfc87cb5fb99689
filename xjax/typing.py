"""Types for annotations and `isinstance`: `Array`, `ArrayLike`, `DTypeLike`."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from xjax.core.public import attributes_of
from xjax.runtime.arrays.array_type import Array

# What functions of `xjax.numpy` take as an array.
ArrayLike: TypeAlias = Array | np.ndarray | np.generic | bool | int | float | complex
DTypeLike: TypeAlias = Any

__all__ = ["Array", "ArrayLike", "DTypeLike"]

__getattr__ = attributes_of(__name__)
