"""Real numbers as sums of two floats: a rounded one, and what it lacks.

For arguments of exp, sin and cos, whose error the result has many times. A product that is rounded, and then subtracted
from something, is guarded: compilers fuse the two into one operation, which does not round it. All other products here
are exact, or too small for their rounding to count.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core import dtypes
from xjax.core.types import number_of
from xjax.scipy.arguments import horner

Parts = tuple[Any, Any]


def guarded(x: Any) -> Any:
    """x itself, at most the largest number: the minimum keeps the compiler from fusing x with a sum."""
    return jnp.minimum(x, float(dtypes.finfo(x.dtype).max))


def rounded_square(x: Any) -> Any:
    """``x**2``, guarded."""
    return guarded(x * x)


def upper(x: Any) -> Any:
    """The upper half of the digits of x."""
    ints, low = (np.int64, 27) if x.dtype == np.float64 else (np.int32, 12)
    return lax.bitcast_convert_type(lax.bitcast_convert_type(x, ints) & ints(-1 << low), x.dtype)


def rounding_of_square(x: Any) -> Any:
    """``x**2`` less its rounded value."""
    high = upper(x)
    return (high * high - rounded_square(x)) + (x - high) * (x + high)


def product(x: Any, y: Any) -> Parts:
    """``x * y``; the second part is 0 where the first is not finite."""
    rounded, high_x, high_y = guarded(x * y), upper(x), upper(y)
    low_x, low_y = x - high_x, y - high_y
    rest = ((high_x * high_y - rounded) + (high_x * low_y + low_x * high_y)) + low_x * low_y
    whole = jnp.abs(rounded) < float(dtypes.finfo(x.dtype).max)
    return jnp.where(whole, rounded, x * y), jnp.where(whole, rest, 0)


def sum_of(x: Any, y: Any) -> Parts:
    """``x + y`` of numbers that are no products; the second part is nan where the first is not finite."""
    total = x + y
    share = total - x
    return total, (x - (total - share)) + (y - share)


def exp_of(parts: Parts) -> Any:
    """The exponential of a sum whose second part is small and finite."""
    grown = jnp.exp(parts[0])
    return jnp.where(grown < np.inf, grown + grown * parts[1], grown)


# By bytes of the dtype: log(2) with so few digits that multiples are exact, the rest of it, and the coefficients of
# log((1 + s) / (1 - s)) / s beyond the first.
LOG_2 = {4: 0.693359375, 8: 0x162E42FEE / 2**33}
LOG_2_REST = {4: -2.1219444005469058e-4, 8: 1.9082149292705877e-10}
_LOG_TERMS = {4: [2 / (2 * k + 1) for k in range(1, 6)], 8: [2 / (2 * k + 1) for k in range(1, 12)]}


def log_in_parts(x: Any) -> Parts:
    """The natural logarithm, some 30 times as exact as a float; the second part is 0 where the first is not finite.

    With ``x = 2**k (1 + f)`` and ``s = f / (2 + f)`` it is ``k log(2) + f - f**2 / 2 + s (f**2 / 2 + a series)``, of
    which only the last part is rounded.
    """
    size = x.dtype.itemsize
    ints, digits = (np.int64, 52) if size == 8 else (np.int32, 23)
    tiny = x < float(dtypes.finfo(x.dtype).smallest_normal)
    bits = lax.bitcast_convert_type(x * jnp.where(tiny, 2.0 ** (digits + 1), 1), ints)
    offset = int(np.array(math.sqrt(0.5), x.dtype).view(ints))
    bits = bits - ints(offset)
    k = lax.shift_right_arithmetic(bits, ints(digits)).astype(x.dtype) - jnp.where(tiny, digits + 1, 0)
    f = lax.bitcast_convert_type((bits & ints((1 << digits) - 1)) + ints(offset), x.dtype) - 1
    half_square, half_rest = 0.5 * rounded_square(f), 0.5 * rounding_of_square(f)
    s = f / (2 + f)
    series = s * s * horner(s * s, _LOG_TERMS[size])
    whole = k * LOG_2[size]
    first = whole + f
    total, lost = sum_of(first, -half_square)
    rest = ((f - (first - whole)) + lost) + (s * (half_square + series) + (k * LOG_2_REST[size] - half_rest))
    found = total + rest
    inside = (x > 0) & (x < np.inf)
    end = jnp.where(x == 0, -np.inf, jnp.where(x > 0, np.inf, np.nan))
    return jnp.where(inside, found, end), jnp.where(inside, rest - (found - total), number_of(x.dtype, 0))


def log1p_in_parts(x: Any) -> Parts:
    """As `log_in_parts` of ``1 + x``."""
    one = lax.full_like(x, 1)
    total, lost = sum_of(one, x)
    high, low = log_in_parts(total)
    low = low + jnp.where((total > 0) & (total < np.inf), lost / total, 0)
    found = high + low
    return found, jnp.where(jnp.isfinite(high), low - (found - high), 0)
