"""Formulas computed in single precision where their operands are halves."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from xjax.core.dtypes import accumulator_dtype
from xjax.core.types import typeof
from xjax.ops.convert import convert_element_type


def in_single(formula: Callable) -> Callable:
    """Decorator of a formula of arrays of one dtype: halves and narrower floats become float32 before it, and its
    results have their dtype again. Each operation of a formula in halves would round, and overflow from 65504 on."""
    @functools.wraps(formula)
    def apply(*xs: Any, **params: Any) -> Any:
        dtype = typeof(xs[0]).dtype
        wide = accumulator_dtype(dtype)
        if wide == dtype:
            return formula(*xs, **params)
        results = formula(*[convert_element_type(x, wide) for x in xs], **params)
        if isinstance(results, tuple):
            return tuple(convert_element_type(y, dtype) for y in results)
        return convert_element_type(results, dtype)

    return apply
