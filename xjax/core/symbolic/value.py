"""`dim_as_value_p`: the size of a symbolic dimension as an array, for arithmetic with arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xjax.core.hlo import Builder, Value
from xjax.core.primitive import ZERO, Missing, Primitive
from xjax.core.types import ShapedArray

if TYPE_CHECKING:
    from xjax.core.symbolic.dims import Dim


def _type(*, dim: Dim, dtype: np.dtype) -> ShapedArray:
    return ShapedArray((), dtype, True)


def _lower(b: Builder, out: ShapedArray, *, dim: Dim, dtype: np.dtype) -> Value:
    return b.convert(b.size(dim), dtype)


def _batch(axis: object, args: tuple, bdims: tuple, **params: object):
    return dim_as_value_p.bind(**params), None


dim_as_value_p = Primitive(
    "dim_as_value", type_rule=_type, lower=_lower, jvp=ZERO, batch=_batch,
    transpose=Missing("a size is not linear in anything"))
