"""Formulas computed in single precision for half-precision operands."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from xjax.core.dtypes import accumulator_dtype
from xjax.core.types import typeof
from xjax.ops.convert import convert_element_type
from xjax.typing import ArrayLike


def in_single(formula: Callable) -> Callable:
    """Decorator of a formula of arrays of one dtype. float16 and narrower floats are converted to float32, and the
    results are converted back. In half precision, each operation would round, and overflow above 65504."""
    @functools.wraps(formula)
    def apply(*xs: ArrayLike, **params: object) -> Any:
        dtype = typeof(xs[0]).dtype
        wide = accumulator_dtype(dtype)
        if wide == dtype:
            return formula(*xs, **params)
        results = formula(*[convert_element_type(x, wide) for x in xs], **params)
        if isinstance(results, tuple):
            return tuple(convert_element_type(y, dtype) for y in results)
        return convert_element_type(results, dtype)

    return apply
