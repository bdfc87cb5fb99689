"""The gamma function of positive numbers, and its products and quotients, without the rounding errors of logarithms.

For x >= 1, R(x) is the correction of Stirling's formula: ``gamma(x) = sqrt(2 pi) x**(x - 1/2) exp(R(x) - x)``. It is
between 0 and 0.082, and is computed as a polynomial in 1 / x. The powers are exponentials of pairs
(`lax.double_word`), so that no digits are lost where large terms cancel: a quotient of powers uses the logarithm of a
quotient. Numbers below 1 are first raised by ``gamma(x + 1) = x gamma(x)``. (Similar formulas: Temme 1994, "A set of
algorithms for the incomplete gamma functions"; DLMF 5.11.)
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xjax.core import dtypes
from xjax.core.types import typeof
from xjax.lax.double_word import (
    Pair,
    exp_of_sum,
    log_of_quotient,
    pair,
    polynomial,
    product_of_pairs,
    select_pair,
    split,
    sum_of,
    sum_of_pairs,
)
from xjax.ops.compare import eq, gt, lt, select
from xjax.ops.elementwise import RoundingMethod, add, div, floor, mul, neg, sub
from xjax.ops.elementwise import round as nearest_whole
from xjax.ops.makers import filled_like, scalar_like
from xjax.ops.piecewise import abs as absolute
from xjax.ops.piecewise import min as smaller
from xjax.ops.transcendental import sin, sqrt
from xjax.typing import Array

# R(x) x as a polynomial in 1 / x, interpolated at Chebyshev points: errors of R are at most 5e-9 and 4e-17.
_REST = {
    np.dtype(np.float32): (
        0.08333333671699125, -3.4973453444711415e-07, -0.0027706881133663028, -6.0909733086584996e-05,
        0.0010635330933969423, -0.0006456698628269788, 0.00014221894067196995),
    np.dtype(np.float64): (
        0.0833333333333333, 3.2302836091810566e-14, -0.0027777777829594394, 3.292305857250617e-10,
        0.0007936397603098573, 2.2491224817581712e-07, -0.0005982660032098553, 2.8274855283877573e-05,
        0.0006539066370335416, 0.0008886856605161269, -0.004791501118442647, 0.005313130817249451,
        0.007183094947469427, -0.036300114897613575, 0.07066055393153046, -0.0894648808197021, 0.08094702366876606,
        -0.05333706092061831, 0.025190310297915346, -0.008117612393690323, 0.0016031253042551462,
        -0.00014662372361018463),
}
_HALF_LOG_2_PI = {          # and its rounding error
    np.dtype(np.float32): (0.9189385175704956, 1.563417713631158e-08),
    np.dtype(np.float64): (0.9189385332046728, -3.8782941580672414e-17),
}


def stirling_rest(x: Array) -> Array:
    """R(x) for x >= 1."""
    inverse = div(scalar_like(x, 1), x)
    return mul(inverse, polynomial(inverse, _REST[typeof(x).dtype]))


def raised(x: Pair) -> Pair:
    """x where x >= 1, else ``1 + abs(x)``: ``1 + x`` for 0 <= x < 1, and ``1 - x`` for x < 0, for the reflection."""
    below = lt(x.high, scalar_like(x.high, 1))
    sign = select(lt(x.high, scalar_like(x.high, 0)), filled_like(x.high, -1), filled_like(x.high, 1))
    above = sum_of(absolute(x.high), filled_like(x.high, 1))
    above = Pair(above.high, add(above.low, mul(sign, x.low)))
    return Pair(*[select(below, up, own) for up, own in zip(above, x, strict=True)])


def _negative(x: Pair) -> Pair:
    return Pair(neg(x.high), neg(x.low))


def _less_half(x: Pair) -> Pair:
    return sum_of_pairs(x, Pair(filled_like(x.high, -0.5), filled_like(x.high, 0)))


def gamma_from_1(x: Pair) -> Array:
    """``gamma(x)`` for x >= 1."""
    one = pair(filled_like(x.high, 1))
    power = product_of_pairs(_less_half(x), log_of_quotient(x, one))
    half_log, lost = (filled_like(x.high, c) for c in _HALF_LOG_2_PI[typeof(x.high).dtype])
    rest = sum_of(stirling_rest(x.high), half_log)
    return exp_of_sum(power, _negative(x), Pair(rest.high, add(rest.low, lost)))


def sine_of_turns(x: Pair) -> Array:
    """``sin(pi x)``, whose zeros are the integers."""
    nearest = nearest_whole(x.high, RoundingMethod.TO_NEAREST_EVEN)
    half = mul(nearest, scalar_like(nearest, 0.5))
    size = sin(mul(add(sub(x.high, nearest), x.low), scalar_like(nearest, math.pi)))
    return select(eq(half, floor(half)), size, neg(size))


# -- products and quotients -----------------------------------------------------------------------------------------

def gamma_quotient(x: Pair, y: Pair, as_product: Array) -> Array:
    """``gamma(x) / gamma(y)`` for x, y >= 1, or ``gamma(x) gamma(y)``."""
    choose = functools.partial(select_pair, as_product)
    one, difference = pair(filled_like(x.high, 1)), sum_of_pairs(x, _negative(y))
    known = choose(sum_of_pairs(x, _negative(one)), difference)
    first = log_of_quotient(x, choose(one, y), known)                       # log(x), or log(x / y)
    second = log_of_quotient(choose(y, x), one)                             # log(y), or log(x)
    # gamma(x) = exp((x - 1/2) log(x) - x + R(x)) sqrt(2 pi)
    left, right = _less_half(x), _less_half(y)
    rest, rest_y = stirling_rest(x.high), stirling_rest(y.high)
    rest = select(as_product, add(rest, rest_y), sub(rest, rest_y))
    value = exp_of_sum(product_of_pairs(choose(left, right), first),
                       product_of_pairs(choose(right, difference), second),
                       _negative(choose(sum_of_pairs(x, y), difference)), pair(rest))
    return select(as_product, mul(value, scalar_like(value, 2 * math.pi)), value)


_PART = 1 / 2            # scale of large numbers, so that the sum of two does not overflow


class BetaFactors(NamedTuple):
    """A beta function as `factor` times the exponential of the sum of `terms`."""

    factor: Any
    terms: Sequence[Pair]

    def value(self) -> Array:
        return mul(self.factor, exp_of_sum(*self.terms))


def beta_of_positive(a: Pair, b: Pair) -> BetaFactors:
    """``gamma(a) gamma(b) / gamma(a + b)`` for a, b > 0, by ``(a / c)**(a - 1/2) (b / c)**(b - 1/2) sqrt(2 pi / c)``
    with c = a + b. A number below 1 is first raised by a step a -> a + 1, each of which multiplies by ``c / a``."""
    one = scalar_like(a.high, 1)
    p, q = raised(a), raised(b)
    parts = p.times(_PART), q.times(_PART)
    whole = sum_of_pairs(*parts)
    factor = sqrt(div(scalar_like(a.high, 2 * math.pi * _PART), whole.high))
    total, lost = sum_of(a.high, b.high)
    # Next to so large a number, a step changes only a power, which could then overflow.
    huge = gt(total, scalar_like(total, 2 / _eps(total)))
    lost = select(lt(smaller(a.high, b.high), one), div(lost, total), filled_like(lost, 0))
    lost = select(huge, filled_like(lost, 0), lost)
    powers = []
    for x, up, part, other in ((a, p, parts[0], parts[1]), (b, q, parts[1], parts[0])):
        below = lt(x.high, one)
        factor = select(below, mul(factor, div(select(huge, up.high, total), x.high)), factor)
        total = select(below, add(total, one), total)
        base = log_of_quotient(part, whole, _negative(other))
        power = product_of_pairs(_less_half(select_pair(huge, x, up)), base)
        vanishing = lt(other.high, mul(part.high, scalar_like(total, _eps(total) / 8)))
        limit = _negative(other.times(1 / _PART))                       # of x log(x / (x + other)), as other / x -> 0
        powers.append(select_pair(vanishing, limit, power))
    rest = add(sub(add(stirling_rest(p.high), stirling_rest(q.high)), stirling_rest(total)), lost)
    return BetaFactors(factor, [*powers, pair(rest)])


def _eps(x: Array) -> float:
    return float(dtypes.finfo(typeof(x).dtype).eps)


# -- densities ------------------------------------------------------------------------------------------------------

def gamma_term(a: Array, x: Array, power: Pair) -> Array:
    """``x**a exp(-x) / gamma(a + 1)`` for `power` = a, as ``(x / c)**a exp(c - x)`` with c = a, or a + 1 for a < 1.
    For another `power` the result is multiplied by ``(x / c)**(power - a)``."""
    c = raised(pair(a))
    off = sum_of_pairs(pair(x), _negative(c))
    powers = product_of_pairs(power, log_of_quotient(pair(x), c, off))
    value = exp_of_sum(powers, _negative(off), pair(neg(stirling_rest(c.high))))
    return mul(value, sqrt(div(scalar_like(c.high, 0.5 / math.pi), c.high)))


def beta_term(a: Array, b: Array, x: Pair, y: Pair, less: int) -> Array:
    """``x**(a - less) y**(b - less) / beta(a, b)`` for y = 1 - x, by ``(x c / a)**a (y c / b)**b`` with c = a + b, in
    which no large terms cancel. a and b are raised by 1 where they are below 1, as in `beta_of_positive`."""
    one = scalar_like(a, 1)
    p, q = raised(pair(a)), raised(pair(b))
    parts = p.times(_PART), q.times(_PART)
    whole = sum_of_pairs(*parts)
    square, factor = mul(whole.high, scalar_like(a, 0.5 / (math.pi * _PART))), filled_like(a, 1)
    total = add(a, b)
    rest, powers = stirling_rest(mul(whole.high, scalar_like(a, 1 / _PART))), []
    power_of_2 = 2.0 ** (dtypes.finfo(typeof(a).dtype).maxexp // 2)         # scale of small numbers before a split
    for shape, up, part, share in ((a, p, parts[0], x), (b, q, parts[1], y)):
        below, ratio = lt(shape, one), div(part.high, whole.high)
        square = select(below, div(square, ratio), mul(square, ratio))
        factor = select(below, mul(factor, div(shape, total)), factor)
        total = select(below, add(total, one), total)
        rest = sub(rest, stirling_rest(up.high))
        factor = div(factor, ratio) if less else factor
        small = lt(share.high, scalar_like(a, 1 / power_of_2))
        scale = select(small, filled_like(a, power_of_2), filled_like(a, 1))
        high, low = split(mul(share.high, scale))
        scaled = sum_of(*product_of_pairs(whole, Pair(high, add(low, mul(share.low, scale)))))
        base = log_of_quotient(scaled, Pair(mul(part.high, scale), mul(part.low, scale)))
        powers.append(product_of_pairs(sum_of(shape, filled_like(a, -less)), base))
    return mul(mul(factor, sqrt(square)), exp_of_sum(*powers, pair(rest)))
