"""`dim_as_value_p`: the size of a symbolic dimension as an array, for arithmetic with arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xjax.core.hlo import Builder, Value
from xjax.core.primitive import ZERO, Missing, Primitive
from xjax.core.types import ShapedArray

if TYPE_CHECKING:
    from xjax.core.symbolic.dims import Dim


def _type(*, dim: Dim) -> ShapedArray:
    return ShapedArray((), np.int32, True)


def _lower(b: Builder, out: ShapedArray, *, dim: Dim) -> Value:
    return b.size(dim)


dim_as_value_p = Primitive(
    "dim_as_value", type_rule=_type, lower=_lower, jvp=ZERO, transpose=Missing("a size is not linear in anything"),
    batch=Missing("a size has no operands to batch"))
