"""Derivatives over the whole range of a dtype, where intermediate results must not leave it."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import xjax
from xjax import lax

DTYPES = ["float16", "bfloat16", "float32", "float64"]


def whole_range(dtype: np.dtype) -> np.ndarray:
    """Numbers of both signs from the smallest normal one to the largest, at 24 exponents between them."""
    info = ml_dtypes.finfo(dtype)
    exponents = np.linspace(info.minexp, info.maxexp, 25)[:-1]
    mantissas = 1 + np.random.default_rng(0).random(24)
    x = [*np.ldexp(mantissas, exponents.astype(int)), float(info.smallest_normal), float(info.max)]
    return np.array([x, np.negative(x)]).reshape(-1).astype(dtype)


def assert_near(found: np.ndarray, exact: list[Fraction], ulps: float, dtype: np.dtype) -> None:
    """Within so many units in the last place; what is too large is infinite, what is too small may be zero."""
    info = ml_dtypes.finfo(dtype)
    largest, tiny, eps = float(info.max), Fraction(float(info.smallest_normal)), Fraction(float(info.eps))
    for got, want in zip(found.astype(np.float64).tolist(), exact, strict=True):
        limit = ulps * eps * max(abs(want), tiny)
        if abs(want) < tiny:
            limit = max(limit, abs(want))
        if np.isinf(got):
            assert abs(want) + limit >= largest and (got > 0) == (want > 0), (got, float(want))
        else:
            assert abs(Fraction(got) - want) <= limit, (got, want)


@pytest.mark.parametrize("dtype", DTYPES)
def test_quotients(dtype):
    """x / y and its slopes 1 / y and -x / y**2; the last is the quotient, rounded, divided once more: 1 unit each."""
    dtype = np.dtype(dtype)
    x, y = (each.reshape(-1) for each in np.meshgrid(whole_range(dtype), whole_range(dtype)))
    with xjax.enable_x64(True):
        value, back = xjax.vjp(lax.div, x, y)
        of_x, of_y = map(np.asarray, back(np.ones_like(x)))
    a, b = ([Fraction(float(each)) for each in given] for given in (x, y))
    assert_near(np.asarray(value), [p / q for p, q in zip(a, b, strict=True)], 1, dtype)
    assert_near(of_x, [1 / q for q in b], 1, dtype)
    assert_near(of_y, [-p / q ** 2 for p, q in zip(a, b, strict=True)], 2, dtype)
