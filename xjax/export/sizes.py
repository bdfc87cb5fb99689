"""`dim_as_value_p`: the size of a symbolic dimension as an array, for arithmetic with arrays."""

from __future__ import annotations

import numpy as np

from xjax.core.hlo import Builder, Value
from xjax.core.primitive import ZERO, Missing, Primitive
from xjax.core.symbolic.dims import Dim, hooks
from xjax.core.types import ShapedArray
from xjax.typing import Array


def _lower(b: Builder, out: ShapedArray, *, dim: Dim) -> Value:
    return b.size(dim)                              # type: ignore[attr-defined]


dim_as_value_p = Primitive(
    "dim_as_value", type_rule=lambda *, dim: ShapedArray((), np.int32, True), lower=_lower, jvp=ZERO,
    transpose=Missing("a size is not linear in anything"),
    batch=Missing("a size has no operands to batch"))


def dim_as_value(dim: Dim) -> Array:
    """The size as a weakly typed int32 in the program that is traced now."""
    return dim_as_value_p.bind(dim=dim)


hooks["value"] = dim_as_value
