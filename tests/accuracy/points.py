"""Arguments over the whole range of a dtype."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

DTYPES = ("float16", "bfloat16", "float32", "float64")


def whole_range(dtype: Any, count: int = 24) -> np.ndarray:
    """Numbers of both signs: `count` with exponents between the smallest and the largest normal number, and these two.

    Every second exponent is that of a number between 2**-12 and 2**12, where functions change most.
    """
    info = ml_dtypes.finfo(dtype)
    wide = np.linspace(info.minexp, info.maxexp, count // 2 + 1)[:-1]
    around_one = np.linspace(max(info.minexp, -12), min(info.maxexp - 1, 12), count - count // 2)
    mantissas = 1 + np.random.default_rng(0).random(count)
    x = np.ldexp(mantissas, np.rint([*wide, *around_one]).astype(int))
    x = np.array([*x, float(info.smallest_normal), float(info.max)])
    return np.concatenate([x, -x]).astype(dtype)


def moderate(dtype: Any, count: int = 12) -> np.ndarray:
    """Numbers of both signs between 1/8 and 8."""
    x = np.exp2(np.linspace(-3, 3, count) + np.random.default_rng(1).uniform(-0.1, 0.1, count))
    return np.concatenate([x, -x]).astype(dtype)


def denormal(dtype: Any) -> np.ndarray:
    """Numbers of both signs below the smallest normal one, down to the smallest of all."""
    info = ml_dtypes.finfo(dtype)
    x = float(info.smallest_normal) * np.exp2(-np.linspace(1, info.nmant, 4).round())
    return np.concatenate([x, -x]).astype(dtype)
