"""How far results are from exact ones, in units in the last place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import ml_dtypes
import mpmath
import numpy as np


class Error(NamedTuple):
    """The error of one result in units in the last place, with the result, what it should be, and where."""

    units: float
    found: float
    exact: float
    args: tuple[float, ...]


def worst(found: np.ndarray, exact: list[Any], args: list[tuple[float, ...]],
          scale: float | Sequence[Any] = 0.0) -> Error:
    """The largest error of `found`, an array of the tested dtype, beside numbers of mpmath.

    Args: scale: as in `units`, one for all results or one for each.
    """
    scales = scale if isinstance(scale, Sequence) else [scale] * len(args)
    errors = [Error(units(got, want, found.dtype, scale), got, float(want), at)
              for got, want, at, scale in zip(found.astype(np.float64).tolist(), exact, args, scales, strict=True)]
    return max(errors, key=lambda error: error.units)


def units(found: float, exact: Any, dtype: Any, scale: Any = 0) -> float:
    """The error in units in the last place of `exact`, or of `scale` if that is larger.

    It is inf for a nan or an infinity in the wrong place.

    An exact result beyond the largest number may be infinite, and one below the smallest normal number 0.
    """
    info = ml_dtypes.finfo(dtype)
    largest, tiny, eps = float(info.max), float(info.smallest_normal), float(info.eps)
    if mpmath.isnan(exact) or math.isnan(found):
        return 0.0 if mpmath.isnan(exact) and math.isnan(found) else math.inf
    if math.isinf(found):
        beyond = abs(exact) >= largest * (1 - eps) and (exact > 0) == (found > 0)
        return 0.0 if beyond else math.inf
    if mpmath.isinf(exact):
        return math.inf
    if not found and abs(exact) < tiny:
        return 0.0
    unit = mpmath.ldexp(eps, int(mpmath.floor(mpmath.log(max(abs(exact), tiny, scale), 2))))
    return float(abs(found - exact) / unit)
