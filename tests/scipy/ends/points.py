"""The ends of a dtype: numbers at which functions have limits, poles or kinks, or leave the range of floats."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any

import numpy as np

INF, NAN = np.inf, np.nan
SIZES = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 8.0, 30.0, 34.5, 90.0, 170.5, 750.0, 1e4, 1e8, 1e-10, INF)
FEW_SIZES = (0.0, 0.5, 1.0, 2.0, 2.5, 30.0, 1e4, INF)


def real(dtype: Any) -> list[float]:
    """With both signs: 0, infinity, whole and half numbers, the largest number, and numbers down to denormal ones."""
    info = np.finfo(dtype)
    sizes = (*SIZES, *map(float, (info.smallest_normal, info.smallest_subnormal, info.eps, info.max, info.max / 4,
                                  2 * np.sqrt(info.max))))
    return [sign * x for x in sizes for sign in (1.0, -1.0)] + [NAN]


def few(dtype: Any) -> list[float]:
    """A selection of these numbers, for functions of several arguments."""
    info = np.finfo(dtype)
    sizes = (*FEW_SIZES, 1e-10, float(info.max), float(info.smallest_subnormal), float(np.sqrt(info.smallest_normal)))
    return [sign * x for x in sizes for sign in (1.0, -1.0)] + [NAN]


def order(dtype: Any) -> list[float]:
    """Whole numbers >= 0."""
    return [0.0, 1.0, 2.0, 3.0, 4.0, 7.0, 20.0]


def count(dtype: Any) -> list[float]:
    """Whole numbers, and other numbers."""
    return [-1.0, 0.0, -0.0, 0.5, 1.0, 2.0, 2.5, 7.0, 50.0, INF, -INF, NAN]


def trials(dtype: Any) -> list[float]:
    return [-1.0, 0.0, 1.0, 2.0, 7.0, 50.0, NAN]


def shape(dtype: Any) -> list[float]:
    """Parameters that must be above 0."""
    return [-INF, -1.0, 0.0, 1e-3, 0.5, 1.0, 2.0, 9.0, 10.0, 60.0, NAN]


def share(dtype: Any) -> list[float]:
    """Probabilities, and numbers outside of [0, 1]."""
    info = np.finfo(dtype)
    return [-1.0, 0.0, -0.0, float(info.smallest_subnormal), float(info.smallest_normal), 1e-10, 0.25, 0.5,
            1 - float(info.epsneg), 1.0, 2.0, INF, NAN]


def scale(dtype: Any) -> list[float]:
    return [-1.0, 0.0, 0.5, 1.0, 3.0, NAN]


def loc(dtype: Any) -> list[float]:
    return [0.0, -1.5, NAN]


def grid(axes: Sequence[Sequence[float]], dtype: Any) -> list[np.ndarray]:
    """All combinations of up to two axes; of more, a sample with each pair of numbers of each two axes."""
    if len(axes) <= 2:
        rows = list(product(*axes))
    else:
        rng = np.random.default_rng(0)
        rows = []
        for i, k in combinations(range(len(axes)), 2):
            for x, y in product(axes[i], axes[k]):
                row = [axis[rng.integers(len(axis))] for axis in axes]
                row[i], row[k] = x, y
                rows.append(tuple(row))
    return [np.array(column, dtype) for column in zip(*rows, strict=True)]
