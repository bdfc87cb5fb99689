"""Distances of results from exact ones, in units in the last place (ulp)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import ml_dtypes
import mpmath
import numpy as np


class Error(NamedTuple):
    """The error of one result in units in the last place, with the result, the exact result and the arguments."""

    units: float
    result: float
    exact: float
    args: tuple[float, ...]


def worst(results: np.ndarray, exact: list[Any], args: list[tuple[float, ...]],
          scale: float | Sequence[Any] = 0.0) -> Error:
    """The largest error of `results`, an array of the tested dtype, compared with `exact` numbers of mpmath.

    Args: scale: as in `units`, one for all results or one for each result.
    """
    scales = scale if isinstance(scale, Sequence) else [scale] * len(args)
    errors = [Error(units(got, want, results.dtype, scale), got, float(want), at)
              for got, want, at, scale in zip(results.astype(np.float64).tolist(), exact, args, scales, strict=True)]
    return max(errors, key=lambda error: error.units)


def units(result: float, exact: Any, dtype: Any, scale: Any = 0) -> float:
    """The error in units in the last place of `exact`, or of `scale` if that is larger.

    It is inf if a nan or an infinity is in the wrong place. The result may be infinite where the exact one exceeds the
    largest number, and 0 where the exact one is below the smallest normal number.
    """
    info = ml_dtypes.finfo(dtype)
    largest, tiny, eps = float(info.max), float(info.smallest_normal), float(info.eps)
    if mpmath.isnan(exact) or math.isnan(result):
        return 0.0 if mpmath.isnan(exact) and math.isnan(result) else math.inf
    if math.isinf(result):
        beyond = abs(exact) >= largest * (1 - eps) and (exact > 0) == (result > 0)
        return 0.0 if beyond else math.inf
    if mpmath.isinf(exact):
        return math.inf
    if not result and abs(exact) < tiny:
        return 0.0
    unit = mpmath.ldexp(eps, int(mpmath.floor(mpmath.log(max(abs(exact), tiny, scale), 2))))
    return float(abs(result - exact) / unit)
