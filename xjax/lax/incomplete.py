"""Incomplete gamma and beta functions: element-wise operations that are computed by loops.

Each is a primitive whose lowering is the program of an ordinary function below. An element that has converged keeps its
value while others continue, so that no result depends on its neighbours.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.hlo import Builder, Value
from xjax.core.jaxpr import ClosedJaxpr
from xjax.core.lowering import lower_closed
from xjax.core.staging import trace_to_jaxpr
from xjax.core.types import ShapedArray, typeof
from xjax.lax.double_word import Pair, pair, sum_of
from xjax.lax.gamma.quotients import beta_term, gamma_term
from xjax.lax.reductions import reduce_or
from xjax.lax.while_loop import while_loop
from xjax.ops.bitwise import bitwise_and, bitwise_not, bitwise_or
from xjax.ops.checks import FLOAT
from xjax.ops.compare import eq, ge, gt, le, lt, ne, select
from xjax.ops.convert import convert_element_type
from xjax.ops.elementwise import add, div, mul, neg, sub
from xjax.ops.halves import in_single
from xjax.ops.makers import broadcast_shape, fill, filled_like, match_scalars, nary, scalar_like
from xjax.ops.piecewise import abs as absolute
from xjax.ops.special import digamma, lgamma, no_derivative
from xjax.ops.transcendental import exp, expm1, log
from xjax.transforms.custom_jvp import custom_jvp
from xjax.typing import Array, ArrayLike

_LIMIT = 10_000                     # terms; if these do not suffice, the last value is returned


# -- lowering by a program ----------------------------------------------------------------------------------------

def _by_program(f: Callable) -> Callable:
    """Emitter of an element-wise operation that computes `f`; half-precision types are computed in single precision."""
    def emit(b: Builder, out: ShapedArray, *xs: Value) -> Value:
        return lower_closed(b, _program(f, out.shape, out.dtype, len(xs)), xs)[0]
    return emit


@functools.lru_cache(256)
def _program(f: Callable, shape: tuple[int, ...], dtype: np.dtype, count: int) -> ClosedJaxpr:
    wide = dtypes.accumulator_dtype(dtype)

    def widened(*xs: Array) -> Sequence[Any]:
        return [convert_element_type(f(*[convert_element_type(x, wide) for x in xs]), dtype)]

    return trace_to_jaxpr(widened, [ShapedArray(shape, dtype)] * count, f.__name__)


def _where(mask: Array, value: float, x: Array) -> Array:
    """`x`, with a number in place of the elements where `mask` is true."""
    return select(mask, filled_like(x, value), x)


def _any_of(*masks: Array) -> Array:
    return functools.reduce(bitwise_or, masks)


def _is(x: ArrayLike, value: float) -> Array:
    return eq(x, scalar_like(x, value))


def _plus(x: ArrayLike, number: float) -> Array:
    return add(x, scalar_like(x, number))


def _times(x: ArrayLike, number: float) -> Array:
    return mul(x, scalar_like(x, number))


def _iterate(step: Callable, state: Sequence[Any], results: Sequence[Any], active: Array) -> Sequence[Any]:
    """Repeat `step(n, *state, *results) -> (active, *state, *results)` for n = 1, 2 ... on the elements that are
    `active`.

    Returns: the results. An element that is no longer active keeps its result; its state is still updated.
    """
    def cond(carry: tuple) -> Array:
        n, active, *_ = carry
        return bitwise_and(lt(n, np.int32(_LIMIT)), reduce_or(active, tuple(range(typeof(active).ndim))))

    def body(carry: tuple) -> tuple:
        n, active, *old = carry
        number = fill(convert_element_type(n, old[0].dtype), old[0].aval)
        still_active, *new = step(number, *old)
        kept = [select(active, x, y) for x, y in zip(new[len(state):], old[len(state):], strict=True)]
        return (add(n, np.int32(1)), bitwise_and(active, still_active), *new[:len(state)], *kept)

    return while_loop(cond, body, (np.int32(1), active, *state, *results))[2 + len(state):]


# -- incomplete gamma ---------------------------------------------------------------------------------------------

def _series(a: Array, x: Array, active: Array, slope: bool) -> Sequence[Any]:
    """``1 + x / (a + 1) + x**2 / ((a + 1) (a + 2)) + ...`` and its derivative in a.

    `slope`: whether to iterate until the derivative has converged, instead of the sum.
    """
    eps = float(dtypes.finfo(a.dtype).eps)

    def step(_, r, term, dterm, total, dtotal):
        r = _plus(r, 1)
        ratio = div(x, r)
        dterm = mul(ratio, sub(dterm, div(term, r)))
        term = mul(term, ratio)
        total, dtotal = add(total, term), add(dtotal, dterm)
        last, whole = (absolute(dterm), absolute(dtotal)) if slope else (term, total)
        return gt(last, _times(whole, eps)), r, term, dterm, total, dtotal

    one, zero = filled_like(a, 1), filled_like(a, 0)
    return _iterate(step, (a, one, zero), (one, zero), active)


def _fraction(a: Array, x: Array, active: Array, slope: bool) -> tuple[Any, Any]:
    """``1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / ...))`` and the derivative of its logarithm in a.

    `slope`: whether to iterate until the derivative has converged. Steed's method: the value is a sum of differences of
    convergents, which are products of ``-numerator d d`` with inverse denominators d (DLMF 8.9.2, 3.10.8); later
    differences have small rounding errors.
    """
    eps = float(dtypes.finfo(a.dtype).eps)

    def step(n, b, d, term, dd, dterm, total, dtotal):
        b = _plus(b, 2)
        numerator = mul(n, sub(a, n))
        old, dold = d, dd
        d = div(scalar_like(d, 1), add(b, mul(numerator, old)))
        dd = neg(mul(mul(d, d), _plus(add(mul(n, old), mul(numerator, dold)), -1)))
        ratio = neg(mul(numerator, mul(old, d)))
        dratio = neg(add(mul(n, mul(old, d)), mul(numerator, add(mul(dold, d), mul(old, dd)))))
        dterm = add(mul(dratio, term), mul(ratio, dterm))
        term = mul(ratio, term)
        total, dtotal = add(total, term), add(dtotal, dterm)
        last, whole = (dterm, add(absolute(dtotal), absolute(total))) if slope else (term, absolute(total))
        return gt(absolute(last), _times(whole, eps)), b, d, term, dd, dterm, total, dtotal

    b = _plus(sub(x, a), 1)
    d = div(scalar_like(b, 1), b)
    square = mul(d, d)
    total, dtotal = _iterate(step, (b, d, d, square, square), (d, square), active)
    return total, _where(_is(total, 0), 0, div(dtotal, total))          # 0: the sum has underflowed


def _regions(a: ArrayLike, x: ArrayLike) -> tuple[Any, Any, Any]:
    """(elements for the series, for the fraction, outside the domain); the other elements have limit values."""
    wrong = _any_of(ne(a, a), ne(x, x), lt(x, scalar_like(x, 0)), lt(a, scalar_like(a, 0)))
    limit = _any_of(wrong, _is(x, 0), _is(a, 0), _is(x, math.inf), _is(a, math.inf))
    far = bitwise_and(ge(x, scalar_like(x, 1)), gt(x, a))
    inside = bitwise_not(limit)
    return bitwise_and(inside, bitwise_not(far)), bitwise_and(inside, far), wrong


def _shares(a: Array, x: Array) -> tuple[Any, Any, Any]:
    """(whether the smaller share is the upper one, the smaller share, outside the domain)."""
    near, far, wrong = _regions(a, x)
    term = gamma_term(a, x, pair(a))
    counts = gt(term, scalar_like(term, 0))
    low = mul(term, _series(a, x, bitwise_and(near, counts), slope=False)[0])
    high = mul(mul(term, a), _fraction(a, x, bitwise_and(far, counts), slope=False)[0])
    return far, select(far, high, low), wrong


@functools.cache
def _lgamma1p_terms() -> list[float]:
    """``(-1)**k zeta(k) / k`` for k = 2 ... 18, after minus Euler's constant; zeta by Euler and Maclaurin."""
    k = np.arange(2.0, 19)
    first = np.sum(np.arange(1.0, 40)[:, None] ** -k, 0)
    rise = k * (k + 1) * (k + 2)
    correction = 40 / (k - 1) + 1 / 2 + k / 480 - rise / (720 * 40**3) + rise * (k + 3) * (k + 4) / (30240 * 40**5)
    zeta_k = first + 40 ** -k * correction
    return [-np.euler_gamma, *((-1) ** k * zeta_k / k).tolist()]


def _lgamma1p(a: Array) -> Array:
    """``lgamma(1 + a)`` for 0 <= a <= 1; below 1/8 by a series, since 1 + a would be rounded."""
    total = filled_like(a, 0)
    for c in reversed(_lgamma1p_terms()):
        total = _plus(mul(total, a), c)
    return select(lt(a, scalar_like(a, 0.125)), mul(total, a), lgamma(_plus(a, 1)))


def _small_upper_share(a: Array, x: Array, active: Array) -> Array:
    """For a and x up to 1, where the lower share may be close to 1: ``1 - g + g (1 - lower / g)`` with
    ``g = x**a / gamma(a + 1)`` and ``1 - lower / g = -a`` times the sum of ``(-x)**k / (k! (a + k))`` over k >= 1."""
    eps = float(dtypes.finfo(a.dtype).eps)

    def step(k, power, total):
        power = neg(mul(power, div(x, k)))
        term = div(power, add(a, k))
        total = add(total, term)
        return gt(absolute(term), _times(absolute(total), eps)), power, total

    total, = _iterate(step, (filled_like(a, 1),), (filled_like(a, 0),), active)
    log_g = sub(mul(a, log(x)), _lgamma1p(a))
    return neg(add(expm1(log_g), mul(exp(log_g), mul(a, total))))


def _limits(a: Array, x: Array, share: Array, wrong: Array, below: float) -> Array:
    """A share with its values at the ends: `below` at x = 0, and 1 - `below` at infinity."""
    share = _where(bitwise_or(_is(x, 0), _is(a, math.inf)), below, share)
    share = _where(bitwise_or(_is(x, math.inf), _is(a, 0)), 1 - below, share)
    both = bitwise_or(bitwise_and(_is(a, 0), _is(x, 0)), bitwise_and(_is(a, math.inf), _is(x, math.inf)))
    return _where(bitwise_or(wrong, both), math.nan, share)


def _lower_share(a: Array, x: Array) -> Array:
    far, share, wrong = _shares(a, x)
    return _limits(a, x, select(far, sub(filled_like(share, 1), share), share), wrong, 0)


def _upper_share(a: Array, x: Array) -> Array:
    far, share, wrong = _shares(a, x)
    one = scalar_like(a, 1)
    small = bitwise_and(bitwise_and(_regions(a, x)[0], lt(a, one)), lt(x, one))
    share = select(far, share, sub(filled_like(share, 1), share))
    share = select(small, _small_upper_share(_where(bitwise_not(small), 0.5, a), x, small), share)
    return _limits(a, x, share, wrong, 1)


def _quantile_slope(a: Array, x: Array) -> Array:
    """The derivative in a of the x that has a given lower share: ``-(dP/da) / (dP/dx)``."""
    near, far, wrong = _regions(a, x)
    total, dtotal = _series(a, x, near, slope=True)
    value, dlog = _fraction(a, x, far, slope=True)
    low = neg(div(mul(x, add(mul(total, sub(log(x), digamma(_plus(a, 1)))), dtotal)), a))
    high = mul(mul(x, value), add(sub(log(x), digamma(a)), dlog))
    slope = _where(_is(x, 0), 0, select(far, high, low))
    return _where(bitwise_or(wrong, _is(a, 0)), math.nan, slope)


def _lower_share_slope(a: Array, x: Array) -> Array:
    slope = neg(mul(_gamma_density(a, x), _quantile_slope(a, x)))
    ends = _any_of(_is(x, 0), _is(x, math.inf), _is(a, math.inf))
    slope = _where(ends, 0, slope)
    _, _, wrong = _regions(a, x)
    return _where(bitwise_or(wrong, _is(a, 0)), math.nan, slope)


def _gamma_density(a: ArrayLike, x: ArrayLike) -> Array:
    """``x**(a - 1) exp(-x) / gamma(a)``; at x = 0 it is inf for a < 1, 1 for a = 1, and 0 for a > 1."""
    out = ShapedArray(broadcast_shape("igamma", typeof(a).shape, typeof(x).shape), typeof(x).dtype)
    return _density(fill(a, out), fill(x, out))


@custom_jvp
@in_single
def _density(a: Array, x: Array) -> Array:
    power = sum_of(a, filled_like(a, -1))
    share = select(lt(a, scalar_like(a, 1)), div(a, _plus(a, 1)), filled_like(a, 1))
    density = mul(share, gamma_term(a, x, power))
    at_zero = select(lt(a, scalar_like(a, 1)), filled_like(a, math.inf), filled_like(a, 0))
    density = select(_is(x, 0), _where(_is(a, 1), 1, at_zero), density)
    density = _where(_any_of(_is(x, math.inf), _is(a, 0), _is(a, math.inf)), 0, density)
    return _where(_regions(a, x)[2], math.nan, density)


@in_single
def _density_slope(dx: Array, y: Array, a: Array, x: Array) -> Array:
    less = sum_of(a, filled_like(a, -1))
    slope = mul(y, div(add(sub(less.high, x), less.low), x))
    return mul(dx, _where(_any_of(_is(y, 0), _is(x, 0)), 0, slope))


@in_single
def _density_slope_in_shape(da: Array, y: Array, a: Array, x: Array) -> Array:
    return mul(da, _where(_any_of(_is(y, 0), _is(x, 0)), 0, mul(y, sub(log(x), digamma(a)))))


_density.defjvps(_density_slope_in_shape, _density_slope)


igamma_grad_a_p = nary("igamma_grad_a", FLOAT, _by_program(_lower_share_slope),
                       (no_derivative("igamma_grad_a", "a"), no_derivative("igamma_grad_a", "x")))
igamma_p = nary("igamma", FLOAT, _by_program(_lower_share),
                (lambda da, y, a, x: mul(da, igamma_grad_a(a, x)),
                 lambda dx, y, a, x: mul(dx, _gamma_density(a, x))))
igammac_p = nary("igammac", FLOAT, _by_program(_upper_share),
                 (lambda da, y, a, x: neg(mul(da, igamma_grad_a(a, x))),
                  lambda dx, y, a, x: neg(mul(dx, _gamma_density(a, x)))))


def igamma(a: ArrayLike, x: ArrayLike) -> Array:
    """Regularised lower incomplete gamma function, element-wise: the share of ``t**(a-1) exp(-t)`` below x.

    Args: a, x: floats of one dtype, both >= 0 (else nan).
    Derivatives: of first order in a, of any order in x.
    """
    return igamma_p.bind(*match_scalars(a, x))


def igammac(a: ArrayLike, x: ArrayLike) -> Array:
    """``1 - igamma(a, x)``, element-wise, computed without cancellation where it is small."""
    return igammac_p.bind(*match_scalars(a, x))


def igamma_grad_a(a: ArrayLike, x: ArrayLike) -> Array:
    """Derivative of `igamma` in its first argument, element-wise."""
    return igamma_grad_a_p.bind(*match_scalars(a, x))


def random_gamma_grad(a: ArrayLike, x: ArrayLike) -> Array:
    """Derivative in a of a sample x of the gamma distribution with shape a, at a fixed quantile; element-wise."""
    a, x = match_scalars(a, x)
    shape = broadcast_shape("random_gamma_grad", typeof(a).shape, typeof(x).shape)
    dtype = typeof(x).dtype
    wide = dtypes.accumulator_dtype(dtype)
    out = ShapedArray(shape, wide)
    a, x = (fill(convert_element_type(v, wide), out) for v in (a, x))
    return convert_element_type(_quantile_slope(a, x), dtype)


# -- incomplete beta ----------------------------------------------------------------------------------------------

def _beta_fraction(a: Array, b: Array, x: Array, active: Array) -> Array:
    """``1 / (1 + d1 / (1 + d2 / ...))`` of DLMF 8.17.22, by Steed's method as in `_fraction`, two terms per step."""
    info = dtypes.finfo(a.dtype)
    tiny = float(info.tiny) * 4

    def next_term(numerator, d, term, total):
        denominator = _plus(mul(numerator, d), 1)
        new = div(scalar_like(d, 1), _where(lt(absolute(denominator), scalar_like(d, tiny)), tiny, denominator))
        term = neg(mul(term, mul(numerator, mul(d, new))))
        return new, term, add(total, term)

    def step(m, d, term, total):
        place = add(a, _times(m, 2))
        even = div(mul(mul(m, sub(b, m)), x), mul(_plus(place, -1), place))
        odd = neg(div(mul(mul(add(a, m), add(add(a, b), m)), x), mul(place, _plus(place, 1))))
        d, term, total = next_term(odd, *next_term(even, d, term, total))
        return gt(absolute(term), _times(absolute(total), float(info.eps))), d, term, total

    one = filled_like(a, 1)
    start = next_term(neg(div(mul(add(a, b), x), _plus(a, 1))), one, one, one)
    return _iterate(step, start[:2], start[2:], active)[0]


def _beta_share(a: Array, b: Array, x: Array) -> Array:
    zero, one = scalar_like(a, 0), scalar_like(a, 1)
    all_low = bitwise_or(_is(a, 0), _is(b, math.inf))           # all mass of the distribution is at 0
    all_high = bitwise_or(_is(b, 0), _is(a, math.inf))
    wrong = _any_of(ne(a, a), ne(b, b), ne(x, x), lt(a, zero), lt(b, zero), lt(x, zero), gt(x, one),
                    bitwise_and(all_low, all_high))
    limit = _any_of(wrong, all_low, all_high, _is(x, 0), _is(x, 1))
    # The fraction converges fast below the mean; above it, the fraction of the mirrored distribution is used.
    mirrored = ge(x, div(_plus(a, 1), _plus(add(a, b), 2)))
    a1, b1 = select(mirrored, b, a), select(mirrored, a, b)
    shares = pair(x), sum_of(neg(x), filled_like(x, 1))
    x1, y1 = (Pair(*[select(mirrored, v, u) for u, v in zip(*order, strict=True)]) for order in (shares, shares[::-1]))
    front = div(beta_term(a1, b1, x1, y1, 0), a1)
    share = mul(front, _beta_fraction(a1, b1, x1.high, bitwise_not(limit)))
    share = select(mirrored, sub(filled_like(share, 1), share), share)
    share = _where(bitwise_or(_is(x, 0), all_high), 0, share)
    share = _where(_any_of(_is(x, 1), bitwise_and(all_low, gt(x, zero))), 1, share)
    return _where(wrong, math.nan, select(bitwise_and(all_low, le(x, zero)), filled_like(share, 0), share))


@custom_jvp
@in_single
def _beta_density(a: Array, b: Array, x: Array) -> Array:
    """``x**(a - 1) (1 - x)**(b - 1) / beta(a, b)``; at x = 0 it is inf for a < 1, b for a = 1, 0 for a > 1; 1 likewise.
    """
    density = beta_term(a, b, pair(x), sum_of(neg(x), filled_like(x, 1)), 1)
    for end, shape, other in ((0, a, b), (1, b, a)):
        limit = select(lt(shape, scalar_like(shape, 1)), filled_like(shape, math.inf), filled_like(shape, 0))
        density = select(_is(x, end), select(_is(shape, 1), other, limit), density)
    outside = _any_of(lt(x, scalar_like(x, 0)), gt(x, scalar_like(x, 1)))
    return _where(outside, math.nan, density)


@in_single
def _beta_density_slope(dx: Array, y: Array, a: Array, b: Array, x: Array) -> Array:
    slope = sub(div(_plus(a, -1), x), div(_plus(b, -1), sub(scalar_like(x, 1), x)))
    return mul(dx, _where(_any_of(_is(y, 0), _is(x, 0), _is(x, 1)), 0, mul(y, slope)))


@in_single
def _beta_density_slope_in_shape(da: Array, y: Array, a: Array, b: Array, x: Array) -> Array:
    slope = add(log(x), sub(digamma(add(a, b)), digamma(a)))
    return mul(da, _where(_any_of(_is(y, 0), _is(x, 0), _is(x, 1)), 0, mul(y, slope)))


_beta_density.defjvps(
    _beta_density_slope_in_shape,
    lambda db, y, a, b, x: _beta_density_slope_in_shape(db, y, b, a, sub(scalar_like(x, 1), x)),
    _beta_density_slope)


def _betainc_slope(dx: ArrayLike, y: Array, a: Array, b: Array, x: ArrayLike) -> Array:
    shape = typeof(y)
    return mul(dx, _beta_density(*[fill(v, shape) for v in (a, b, x)]))


regularized_incomplete_beta_p = nary(
    "regularized_incomplete_beta", FLOAT, _by_program(_beta_share),
    (no_derivative("betainc", "a", ValueError), no_derivative("betainc", "b", ValueError), _betainc_slope))


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Regularised incomplete beta function, element-wise: the share of ``t**(a-1) (1-t)**(b-1)`` below x.

    Args: a, b: floats >= 0; x: of the same dtype, in [0, 1]; elsewhere nan. Only x has a derivative.
    """
    return regularized_incomplete_beta_p.bind(*match_scalars(a, b, x))
