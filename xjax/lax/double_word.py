"""Double-word arithmetic: real numbers as the unevaluated sum of two floats, a rounded value and a correction.

The arguments of exp, sin and cos, and logarithms that are multiplied by a large number, need more digits than a float
has: the result multiplies their error.

Compilers may fuse a product with a sum, which changes the rounding of the product. So a product of which the rounding
error is computed is either exact (both factors have at most half of the bits of a float) or guarded: see `guarded`.
(Splitting of floats: Dekker 1971; sums: Knuth, TAOCP 4.2.2.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from xjax.core import dtypes
from xjax.core.types import typeof
from xjax.ops.bitwise import bitwise_and, shift_left, shift_right_arithmetic
from xjax.ops.compare import eq, gt, lt, select
from xjax.ops.convert import bitcast_convert_type, convert_element_type
from xjax.ops.elementwise import add, div, is_finite, mul, neg, sub
from xjax.ops.makers import filled_like, scalar_like
from xjax.ops.piecewise import abs as absolute
from xjax.ops.piecewise import max as larger
from xjax.ops.piecewise import min as smaller
from xjax.ops.transcendental import exp
from xjax.typing import Array


class Pair(NamedTuple):
    """The exact sum of a float and a correction."""

    high: Any
    low: Any

    def times(self, number: float) -> Pair:
        """The product with a power of 2, which is exact."""
        return Pair(*[mul(x, scalar_like(x, number)) for x in self])


def pair(x: Array) -> Pair:
    """A float as a pair without a correction."""
    return Pair(x, filled_like(x, 0))


def select_pair(which: Array, x: Pair, y: Pair) -> Pair:
    """Elements of x where `which` is true, else of y."""
    return Pair(*[select(which, u, v) for u, v in zip(x, y, strict=True)])


def split(x: Array) -> Pair:
    """The upper half of the bits of a float, and the rest."""
    dtype = typeof(x).dtype
    integers = _CONSTANTS[dtype].integers
    dropped = integers.type(-1) << integers.type((dtypes.finfo(dtype).nmant + 2) // 2)
    high = bitcast_convert_type(bitwise_and(bitcast_convert_type(x, integers), dropped), dtype)
    return Pair(high, sub(x, high))


# -- sums ---------------------------------------------------------------------------------------------------------

def sum_of(x: Array, y: Array) -> Pair:
    """``x + y`` of floats, exact. The correction is nan where the sum is not finite.

    Neither may be a rounded product that is not guarded. Only y may be a constant: XLA simplifies ``(x + 1) - 1`` to x,
    but not ``(x + 1) - x`` to 1.
    """
    total = add(x, y)
    rest = sub(total, x)
    return Pair(total, add(sub(x, sub(total, rest)), sub(y, rest)))


def sum_of_pairs(x: Pair, y: Pair) -> Pair:
    """``x + y`` of pairs."""
    total = sum_of(x.high, y.high)
    return sum_of(total.high, add(total.low, add(x.low, y.low)))


def sum_of_all(*terms: Pair) -> Pair:
    """The sum of pairs. For infinite terms, where corrections are nan, it is the plain sum of the high parts."""
    total, plain = terms[0], terms[0].high
    for term in terms[1:]:
        total, plain = sum_of_pairs(total, term), add(plain, term.high)
    total = sum_of(*total)
    known = eq(total.high, total.high)
    return Pair(select(known, total.high, plain), select(known, total.low, filled_like(plain, 0)))


# -- products -----------------------------------------------------------------------------------------------------

def guarded(x: Array) -> Array:
    """x, at most the largest number: the minimum keeps the compiler from fusing the product x with a sum."""
    return smaller(x, scalar_like(x, float(dtypes.finfo(typeof(x).dtype).max)))


def square_of(x: Array) -> Pair:
    """``x**2`` of a float. Both parts are exact where the square is finite and its correction is a normal number."""
    rounded, (high, low) = guarded(mul(x, x)), split(x)
    return Pair(rounded, add(sub(mul(high, high), rounded), mul(low, add(x, high))))


def product_of(x: Array, y: Array) -> Pair:
    """``x * y`` of floats. The correction is 0 where the product is not finite."""
    plain, (high_x, low_x), (high_y, low_y) = mul(x, y), split(x), split(y)
    rounded = guarded(plain)
    rest = add(sub(mul(high_x, high_y), rounded), add(mul(high_x, low_y), mul(low_x, high_y)))
    rest = add(rest, mul(low_x, low_y))
    finite = lt(absolute(rounded), scalar_like(rounded, float(dtypes.finfo(typeof(x).dtype).max)))
    return Pair(select(finite, rounded, plain), select(finite, rest, filled_like(rest, 0)))


def product_of_pairs(x: Pair, y: Pair) -> Pair:
    """``x * y`` to 1.5 times the digits of a float, if the high part of y has half of the bits, as a logarithm of
    `log_of_quotient` has."""
    high, rest = split(x.high)
    return Pair(mul(high, y.high), add(mul(add(rest, x.low), y.high), mul(x.high, y.low)))


# -- exponentials -------------------------------------------------------------------------------------------------

def exp_of(x: Pair) -> Array:
    """The exponential of a pair whose correction is small and finite. It has no guard against subnormal products."""
    y = exp(x.high)
    return select(lt(y, scalar_like(y, math.inf)), add(y, mul(y, x.low)), y)


def exp_of_sum(*terms: Pair) -> Array:
    """The exponential of a sum of pairs, also where a correction times the result would be subnormal or nan."""
    total = sum_of_all(*terms)
    y = exp(total.high)
    # Elsewhere `y * total.low` may be subnormal or nan, so that the factor is applied to y instead.
    moderate = lt(absolute(total.high), scalar_like(y, math.log(2) / 2 * dtypes.finfo(typeof(y).dtype).maxexp))
    factor = larger(add(total.low, scalar_like(y, 1)), scalar_like(y, 0.5))
    return select(moderate, add(y, mul(y, total.low)), mul(y, factor))


# -- logarithms ---------------------------------------------------------------------------------------------------

def polynomial(x: Array, coefficients: Sequence[float]) -> Array:
    """The polynomial with these coefficients, that of the lowest power first."""
    y = filled_like(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        y = add(mul(y, x), scalar_like(x, c))
    assert isinstance(y, Array)                 # there are at least two coefficients
    return y


class _Constants(NamedTuple):
    """Constants of one dtype. ``log((1 + s) / (1 - s)) = 2 s + s**3 (2/3 + s**2 P(s**2))``.

    Attributes:
      integers: the integers of the same size.
      log_2: log(2) in two parts. The first has few bits, so that its product with an exponent is exact.
      long_log_2: log(2) in two parts. The first has as many bits as an exact product with any exponent allows.
      series: coefficients of ``log((1 + s) / (1 - s)) / s`` after the first, by powers of s**2.
      terms: coefficients of P, interpolated at Chebyshev points for s up to 1/5: errors are at most 2**-38 or 2**-66.
    """

    integers: np.dtype
    log_2: tuple[float, float]
    long_log_2: tuple[float, float]
    series: Sequence[float]
    terms: Sequence[float]


_CONSTANTS = {
    np.dtype(np.float32): _Constants(
        np.dtype(np.int32), (0.693359375, -2.1219444005469058e-4), (0.693145751953125, 1.4286068203094172e-06),
        [2 / (2 * k + 1) for k in range(1, 6)],
        (0.3999999966652055, 0.28571694400304304, 0.22189271069711006, 0.19477190725303437)),
    np.dtype(np.float64): _Constants(
        np.dtype(np.int64), (0x162E42FEE / 2**33, 1.9082149292705877e-10), (0.6931471805598903, 5.497923018708371e-14),
        [2 / (2 * k + 1) for k in range(1, 12)],
        (0.4, 0.28571428571428487, 0.22222222222278695, 0.18181818167391273, 0.15384617228261813, 0.1333320125384769,
         0.11770245498984806, 0.10391790132801734, 0.11256990431013299)),
}


def log_2(dtype: np.dtype) -> tuple[float, float]:
    """log(2) in two parts. The first has few bits, so that its product with an exponent is exact."""
    return _CONSTANTS[dtype].log_2


def log_of(x: Array) -> Pair:
    """The natural logarithm of a float, about 30 times as exact as a float. The correction is 0 where the logarithm is
    not finite.

    With ``x = 2**k (1 + f)`` and ``s = f / (2 + f)`` it is ``k log(2) + f - f**2 / 2 + s (f**2 / 2 + series)``, of
    which only the last part is rounded.
    """
    dtype = typeof(x).dtype
    integers, (log_2_high, log_2_low), _, series, _ = _CONSTANTS[dtype]
    info = dtypes.finfo(dtype)
    zero, one, digits = filled_like(x, 0), scalar_like(x, 1), info.nmant
    subnormal = lt(x, scalar_like(x, float(info.smallest_normal)))
    grown = mul(x, select(subnormal, filled_like(x, 2.0 ** (digits + 1)), filled_like(x, 1)))
    offset = np.array(math.sqrt(0.5), dtype).view(integers)[()]
    bits = sub(bitcast_convert_type(grown, integers), offset)
    k = convert_element_type(shift_right_arithmetic(bits, integers.type(digits)), dtype)
    k = sub(k, select(subnormal, filled_like(x, digits + 1), zero))
    mantissa = bitwise_and(bits, integers.type((1 << digits) - 1))
    f = sub(bitcast_convert_type(add(mantissa, offset), dtype), one)
    half_square = square_of(f).times(0.5)
    s = div(f, add(f, scalar_like(f, 2)))
    s_square = mul(s, s)
    rounded = mul(s, add(half_square.high, mul(s_square, polynomial(s_square, series))))
    whole = mul(k, scalar_like(k, log_2_high))
    first = add(whole, f)
    total, lost = sum_of(first, neg(half_square.high))
    rest = add(sub(f, sub(first, whole)), lost)
    rest = add(rest, add(rounded, sub(mul(k, scalar_like(k, log_2_low)), half_square.low)))
    high = add(total, rest)
    infinity, nan = filled_like(x, math.inf), filled_like(x, math.nan)
    positive = gt(x, zero)
    finite = bitwise_and(positive, lt(x, infinity))
    end = select(eq(x, zero), neg(infinity), select(positive, infinity, nan))
    return Pair(select(finite, high, end), select(finite, sub(rest, sub(high, total)), zero))


def log1p_of(x: Array) -> Pair:
    """``log(1 + x)``, as exact as `log_of`."""
    zero = filled_like(x, 0)
    total, lost = sum_of(x, filled_like(x, 1))
    high, low = log_of(total)
    finite = bitwise_and(gt(total, zero), lt(total, scalar_like(x, math.inf)))
    low = add(low, select(finite, div(lost, total), zero))
    rounded = add(high, low)
    return Pair(rounded, select(is_finite(high), sub(low, sub(rounded, high)), zero))


_LESS = 4               # number of powers of 2 by which x and y are scaled down


def _clipped(k: Array, bias: np.generic) -> Array:
    """k, limited to exponents for which ``2**-k`` is a normal number."""
    return larger(smaller(k, bias - bias.dtype.type(1)), bias.dtype.type(1) - bias)


def log_of_quotient(x: Pair, y: Pair, difference: Pair | None = None) -> Pair:
    """``log(x / y)`` of positive numbers to 1.5 times the digits of a float, also where x and y are close.

    Args: difference: ``x - y`` where it is known to more digits than x and y have.
    Returns: a pair whose high part has half of the bits of a float.
    """
    dtype = typeof(x.high).dtype
    integers, _, (log_2_high, log_2_low), _, terms = _CONSTANTS[dtype]
    info = dtypes.finfo(dtype)
    places, bias = integers.type(info.nmant), integers.type(info.maxexp - 1)
    # The quotient is 2**k times a number between 2/3 and 3/2; k follows from the bits, which are nearly logarithms.
    bits = bitcast_convert_type(x.high, integers)
    apart = sub(bits, bitcast_convert_type(y.high, integers))
    k = shift_right_arithmetic(add(apart, integers.type(1 << (info.nmant - 1))), places)
    near = eq(k, integers.type(0))
    # x and y are scaled down, so that their sum and its inverse are normal numbers.
    top = bitcast_convert_type(sub(bits, shift_left(add(k, integers.type(_LESS)), places)), dtype)
    part = scalar_like(top, 2.0**-_LESS)
    top_low = mul(x.low, mul(part, bitcast_convert_type(shift_left(sub(bias, _clipped(k, bias)), places), dtype)))
    bottom, bottom_low = mul(y.high, part), mul(y.low, part)
    k = convert_element_type(k, dtype)
    off = sum_of(sub(top, bottom), sub(top_low, bottom_low))
    if difference is not None:
        off = select_pair(near, Pair(*[mul(known, part) for known in difference]), off)
    whole = sum_of(top, bottom)
    # s = off / whole, with the remainder of this division
    inverse = div(scalar_like(top, 1), whole.high)
    s, _ = split(mul(off.high, inverse))
    short, rest = split(whole.high)
    rest = add(rest, add(whole.low, add(top_low, bottom_low)))
    s_low = mul(add(sub(sub(off.high, mul(s, short)), mul(s, rest)), off.low), inverse)
    # v = s**2 (2/3 + ...)
    square, square_low = mul(s, s), mul(s_low, add(add(s, s), s_low))
    z = add(square, square_low)
    z_short, _ = split(z)
    z_low = add(sub(square, z_short), square_low)
    two_thirds = dtype.type(2 / 3)
    lost_third = float(Fraction(2, 3) - Fraction(float(two_thirds)))
    slope = mul(z, polynomial(z, terms))
    factor = add(slope, two_thirds)
    short, _ = split(factor)
    factor_low = add(sub(two_thirds, short), add(slope, scalar_like(z, lost_third)))
    v, v_low = mul(z_short, short), add(mul(z_short, factor_low), mul(z_low, factor))
    v_short, rest = split(v)
    # k log(2) + 2 s + s v
    large = mul(k, scalar_like(k, log_2_high))
    twice = add(s, s)
    total = add(large, twice)
    lost = sub(twice, sub(total, large))
    small = add(mul(s, add(rest, v_low)), mul(s_low, add(add(v, v_low), scalar_like(v, 2))))
    small = add(small, mul(k, scalar_like(k, log_2_low)))
    total = sum_of(total, mul(s, v_short))
    high, rest = split(total.high)
    return Pair(high, add(rest, add(add(total.low, lost), small)))
