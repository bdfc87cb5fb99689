"""Logarithms and products to more digits than a float has, as the sum of two floats. A number that is multiplied by a
large exponent before `exp` needs them.

A product is exact if both factors have at most half of the bits of a float. Only such products occur where a rounding
error is computed, since compilers may fuse a product with a sum, which changes how it is rounded. (Splitting of floats:
Dekker 1971; sums: Knuth, TAOCP 4.2.2.)
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
from xjax.ops.compare import eq, lt, select
from xjax.ops.convert import bitcast_convert_type, convert_element_type
from xjax.ops.elementwise import add, div, mul, sub
from xjax.ops.makers import filled_like, scalar_like
from xjax.ops.piecewise import abs as absolute
from xjax.ops.piecewise import max as larger
from xjax.ops.piecewise import min as smaller
from xjax.ops.transcendental import exp


class Pair(NamedTuple):
    """The exact sum of a float and a correction."""

    high: Any
    low: Any

    def times(self, number: float) -> Pair:
        """The product with a power of 2, which is exact."""
        return Pair(*[mul(x, scalar_like(x, number)) for x in self])


def pair(x: Any) -> Pair:
    return Pair(x, filled_like(x, 0))


def sum_of(x: Any, y: Any) -> Pair:
    """x + y and its rounding error. Only y may be a constant: XLA simplifies ``(x + 1) - 1`` to x,
    but not ``(x + 1) - x`` to 1.
    """
    total = add(x, y)
    rest = sub(total, x)
    return Pair(total, add(sub(x, sub(total, rest)), sub(y, rest)))


def sum_of_pairs(x: Pair, y: Pair) -> Pair:
    total = sum_of(x.high, y.high)
    return sum_of(total.high, add(total.low, add(x.low, y.low)))


def split(x: Any) -> Pair:
    """The upper half of the bits, and the rest."""
    dtype = typeof(x).dtype
    integers = _SERIES[dtype].integers
    dropped = integers.type(-1) << integers.type((dtypes.finfo(dtype).nmant + 2) // 2)
    high = bitcast_convert_type(bitwise_and(bitcast_convert_type(x, integers), dropped), dtype)
    return Pair(high, sub(x, high))


def polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    """The polynomial with these coefficients, the constant term first."""
    y = filled_like(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        y = add(mul(y, x), scalar_like(x, c))
    return y


def product(x: Pair, y: Pair) -> Pair:
    """The product, exact to 1.5 times the digits of a float; y.high has half of the bits, as in `log_of_quotient`."""
    high, rest = split(x.high)
    return Pair(mul(high, y.high), add(mul(add(rest, x.low), y.high), mul(x.high, y.low)))


def sum_of_all(*terms: Pair) -> Pair:
    """The sum; where a term is infinite, corrections may be nan and are left out."""
    total, plain = terms[0], terms[0].high
    for term in terms[1:]:
        total, plain = sum_of_pairs(total, term), add(plain, term.high)
    total = sum_of(*total)
    known = eq(total.high, total.high)
    return Pair(select(known, total.high, plain), select(known, total.low, filled_like(plain, 0)))


def exp_of_sum(*terms: Pair) -> Any:
    """The exponential of a sum of pairs."""
    total = sum_of_all(*terms)
    y = exp(total.high)
    # The correction is subnormal for small numbers and nan for infinite ones; there its value does not matter.
    moderate = lt(absolute(total.high), scalar_like(y, math.log(2) / 2 * dtypes.finfo(typeof(y).dtype).maxexp))
    factor = larger(add(total.low, scalar_like(y, 1)), scalar_like(y, 0.5))
    return select(moderate, add(y, mul(y, total.low)), mul(y, factor))


class _Series(NamedTuple):
    """Constants of one dtype. ``log((1 + s) / (1 - s)) = 2 s + s**3 (2/3 + s**2 P(s**2))``.

    terms: coefficients of P, interpolated at Chebyshev points for s up to 1/5: errors are at most 2**-38 or 2**-66.
    log_2: log(2) as two parts; the first part times any exponent is exact.
    """

    integers: np.dtype
    terms: Sequence[float]
    log_2: tuple[float, float]


_SERIES = {
    np.dtype(np.float32): _Series(
        np.dtype(np.int32), (0.3999999966652055, 0.28571694400304304, 0.22189271069711006, 0.19477190725303437),
        (0.693145751953125, 1.4286068203094172e-06)),
    np.dtype(np.float64): _Series(
        np.dtype(np.int64),
        (0.4, 0.28571428571428487, 0.22222222222278695, 0.18181818167391273, 0.15384617228261813, 0.1333320125384769,
         0.11770245498984806, 0.10391790132801734, 0.11256990431013299),
        (0.6931471805598903, 5.497923018708371e-14)),
}


_LESS = 4               # top and bottom are scaled by 2**-_LESS


def _clipped(k: Any, bias: np.generic) -> Any:
    """k, limited to exponents for which ``2**-k`` is a normal number."""
    return larger(smaller(k, bias - bias.dtype.type(1)), bias.dtype.type(1) - bias)


def log_of_quotient(x: Pair, y: Pair, difference: Pair | None = None) -> Pair:
    """``log(x / y)`` of positive numbers to 1.5 times the digits of a float, also where x and y are close.

    Args: difference: ``x - y`` where it is known to more digits than x and y have.
    Returns: a pair whose high part has half of the bits of a float.
    """
    dtype = typeof(x.high).dtype
    integers, terms, log_2 = _SERIES[dtype]
    info = dtypes.finfo(dtype)
    mantissa, bias = integers.type(info.nmant), integers.type(info.maxexp - 1)
    # The quotient is 2**k times a number between 2/3 and 3/2; the logarithm is nearly linear in the bits.
    bits = bitcast_convert_type(x.high, integers)
    apart = sub(bits, bitcast_convert_type(y.high, integers))
    k = shift_right_arithmetic(add(apart, integers.type(1 << (info.nmant - 1))), mantissa)
    near = eq(k, integers.type(0))
    # Both are scaled down, so that their sum and its inverse are normal numbers.
    top = bitcast_convert_type(sub(bits, shift_left(add(k, integers.type(_LESS)), mantissa)), dtype)
    part = scalar_like(top, 2.0**-_LESS)
    top_low = mul(x.low, mul(part, bitcast_convert_type(shift_left(sub(bias, _clipped(k, bias)), mantissa), dtype)))
    bottom, bottom_low = mul(y.high, part), mul(y.low, part)
    k = convert_element_type(k, dtype)
    off = sum_of(sub(top, bottom), sub(top_low, bottom_low))
    if difference is not None:
        off = Pair(*[select(near, mul(known, part), rough) for known, rough in zip(difference, off, strict=True)])
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
    large = mul(k, scalar_like(k, log_2[0]))
    twice = add(s, s)
    total = add(large, twice)
    lost = sub(twice, sub(total, large))
    small = add(mul(s, add(rest, v_low)), mul(s_low, add(add(v, v_low), scalar_like(v, 2))))
    small = add(small, mul(k, scalar_like(k, log_2[1])))
    total = sum_of(total, mul(s, v_short))
    high, rest = split(total.high)
    return Pair(high, add(rest, add(add(total.low, lost), small)))
