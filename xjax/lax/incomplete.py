"""Incomplete gamma and beta functions: element-wise operations that are computed by loops.

Each is a primitive whose lowering is the program of an ordinary function below. An element that has converged keeps its
value while others go on, so that no result depends on its neighbours.
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
from xjax.lax.reductions import reduce_or
from xjax.lax.while_loop import while_loop
from xjax.ops.bitwise import bitwise_and, bitwise_not, bitwise_or
from xjax.ops.checks import FLOAT
from xjax.ops.compare import eq, ge, gt, le, lt, ne, select
from xjax.ops.convert import convert_element_type
from xjax.ops.elementwise import add, div, mul, neg, sub
from xjax.ops.makers import broadcast_shape, fill, filled_like, match_scalars, nary, scalar_like
from xjax.ops.piecewise import abs as absolute
from xjax.ops.piecewise import max as larger
from xjax.ops.piecewise import min as smaller
from xjax.ops.special import digamma, lgamma, no_derivative
from xjax.ops.transcendental import exp, expm1, log, log1p

_LIMIT = 10_000                     # terms; where they do not suffice the last value is the best there is


# -- lowering by a program ----------------------------------------------------------------------------------------

def _by_program(f: Callable) -> Callable:
    """Emitter of an element-wise operation that computes `f`, for halves in single precision."""
    def emit(b: Builder, out: ShapedArray, *xs: Value) -> Value:
        return lower_closed(b, _program(f, out.shape, out.dtype, len(xs)), xs)[0]
    return emit


@functools.lru_cache(256)
def _program(f: Callable, shape: tuple[int, ...], dtype: np.dtype, count: int) -> ClosedJaxpr:
    wide = dtypes.accumulator_dtype(dtype)

    def widened(*xs: Any) -> Sequence[Any]:
        return [convert_element_type(f(*[convert_element_type(x, wide) for x in xs]), dtype)]

    return trace_to_jaxpr(widened, [ShapedArray(shape, dtype)] * count, f.__name__)


def _where(which: Any, value: float, x: Any) -> Any:
    """`x`, but a number where `which` holds."""
    return select(which, filled_like(x, value), x)


def _any_of(*masks: Any) -> Any:
    return functools.reduce(bitwise_or, masks)


def _is(x: Any, value: float) -> Any:
    return eq(x, scalar_like(x, value))


def _plus(x: Any, number: float) -> Any:
    return add(x, scalar_like(x, number))


def _times(x: Any, number: float) -> Any:
    return mul(x, scalar_like(x, number))


def _iterate(step: Callable, state: Sequence[Any], active: Any) -> Sequence[Any]:
    """Repeat `step(n, *state) -> (goes on, *state)` for n = 1, 2 ... on the elements that are `active`."""
    def goes_on(carry: tuple) -> Any:
        n, active, *_ = carry
        return bitwise_and(lt(n, np.int32(_LIMIT)), reduce_or(active, tuple(range(typeof(active).ndim))))

    def body(carry: tuple) -> tuple:
        n, active, *old = carry
        number = fill(convert_element_type(n, old[0].dtype), old[0].aval)
        more, *new = step(number, *old)
        return (add(n, np.int32(1)), bitwise_and(active, more),
                *[select(active, x, y) for x, y in zip(new, old, strict=True)])

    return while_loop(goes_on, body, (np.int32(1), active, *state))[2:]


# -- incomplete gamma ---------------------------------------------------------------------------------------------

def _series(a: Any, x: Any, active: Any, slope: bool) -> tuple[Any, Any]:
    """``1 + x / (a + 1) + x**2 / ((a + 1) (a + 2)) + ...`` and its derivative in a.

    `slope`: whether to go on until the derivative has converged, not the sum.
    """
    eps = float(dtypes.finfo(a.dtype).eps)

    def step(_, r, term, total, dterm, dtotal):
        r = _plus(r, 1)
        ratio = div(x, r)
        dterm = mul(ratio, sub(dterm, div(term, r)))
        term = mul(term, ratio)
        total, dtotal = add(total, term), add(dtotal, dterm)
        last, whole = (absolute(dterm), absolute(dtotal)) if slope else (term, total)
        return gt(last, _times(whole, eps)), r, term, total, dterm, dtotal

    one, zero = filled_like(a, 1), filled_like(a, 0)
    _, _, total, _, dtotal = _iterate(step, (a, one, one, zero, zero), active)
    return total, dtotal


def _fraction(a: Any, x: Any, active: Any, slope: bool) -> tuple[Any, Any]:
    """``1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / ...))`` and the derivative of its logarithm in a.

    `slope`: whether to go on until the derivative has converged. Lentz's method: the value is a product of ratios c d
    of neighbouring numerators and denominators (DLMF 8.9.2).
    """
    info = dtypes.finfo(a.dtype)
    eps, huge = float(info.eps), 1 / (4 * float(info.tiny))

    def step(n, b, c, d, dc, dd, value, dlog):
        b = _plus(b, 2)
        numerator = mul(n, sub(a, n))
        dc = sub(div(sub(n, mul(numerator, div(dc, c))), c), scalar_like(c, 1))
        c = add(b, div(numerator, c))
        slant = _plus(add(mul(n, d), mul(numerator, dd)), -1)
        d = div(scalar_like(d, 1), add(b, mul(numerator, d)))
        dd = neg(mul(mul(d, d), slant))
        ratio, change = mul(c, d), add(div(dc, c), div(dd, d))
        value, dlog = mul(value, ratio), add(dlog, change)
        error = absolute(change) if slope else absolute(_plus(ratio, -1))
        bound = _times(_plus(absolute(dlog), 1), eps) if slope else filled_like(a, eps)
        return gt(error, bound), b, c, d, dc, dd, value, dlog

    b = _plus(sub(x, a), 1)
    d = div(scalar_like(b, 1), b)
    start = (b, filled_like(a, huge), d, filled_like(a, 0), mul(d, d), d, d)
    *_, value, dlog = _iterate(step, start, active)
    return value, dlog


def stirling_tail(a: Any) -> Any:
    """``lgamma(a)`` less Stirling's formula for it, ``(a - 1/2) log(a) - a + log(2 pi) / 2``, of floats a >= 10."""
    inverse = div(scalar_like(a, 1), a)
    square = mul(inverse, inverse)
    tail = filled_like(a, 0)
    for coefficient in (-691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12):
        tail = _plus(mul(tail, square), coefficient)
    return mul(tail, inverse)


def _log_term(a: Any, x: Any) -> Any:
    """``log(x**a exp(-x) / gamma(a + 1))``; for large a by Stirling's formula, in which no large terms cancel."""
    plain = sub(sub(mul(a, log(x)), x), lgamma(_plus(a, 1)))
    off = div(sub(x, a), a)
    log_ratio = select(lt(off, scalar_like(a, -0.5)), log(div(x, a)), log1p(off))       # of x / a; off rounds x away
    stirling = sub(mul(a, sub(log_ratio, off)), add(_times(log(_times(a, 2 * math.pi)), 0.5), stirling_tail(a)))
    return select(ge(a, scalar_like(a, 10)), stirling, plain)


def lgamma_rise(x: Any, step: Any) -> Any:
    """``lgamma(x + step) - lgamma(x)`` by Stirling's formula, where x and x + step are 10 or more."""
    end = add(x, step)
    tails = sub(stirling_tail(end), stirling_tail(x))
    return add(half_less_log1p(x, step), add(mul(step, _plus(log(end), -1)), tails))


def half_less_log1p(x: Any, step: Any) -> Any:
    """``(x - 1/2) log(1 + step / x)`` for x >= 10, also where the quotient is below the normal numbers."""
    ratio = div(step, x)
    tiny = lt(absolute(ratio), scalar_like(x, float(dtypes.finfo(x.dtype).eps)))
    return select(tiny, step, mul(_plus(x, -0.5), log1p(ratio)))


def _regions(a: Any, x: Any) -> tuple[Any, Any, Any]:
    """(elements for the series, for the fraction, outside of the domain); what is in none is a limit."""
    wrong = _any_of(ne(a, a), ne(x, x), lt(x, scalar_like(x, 0)), lt(a, scalar_like(a, 0)))
    limit = _any_of(wrong, _is(x, 0), _is(a, 0), _is(x, math.inf), _is(a, math.inf))
    far = bitwise_and(ge(x, scalar_like(x, 1)), gt(x, a))
    inside = bitwise_not(limit)
    return bitwise_and(inside, bitwise_not(far)), bitwise_and(inside, far), wrong


def _shares(a: Any, x: Any) -> tuple[Any, Any, Any]:
    """(whether the upper share is known, the smaller share computed, outside of the domain)."""
    near, far, wrong = _regions(a, x)
    term = exp(_log_term(a, x))
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


def _lgamma1p(a: Any) -> Any:
    """``lgamma(1 + a)`` for 0 <= a <= 1, by its series where the sum is rounded too much."""
    total = filled_like(a, 0)
    for c in reversed(_lgamma1p_terms()):
        total = _plus(mul(total, a), c)
    return select(lt(a, scalar_like(a, 0.125)), mul(total, a), lgamma(_plus(a, 1)))


def _small_upper_share(a: Any, x: Any, active: Any) -> Any:
    """For a and x up to 1, where the lower share may be close to 1: ``1 - g + g (1 - lower / g)`` with
    ``g = x**a / gamma(a + 1)`` and ``1 - lower / g = -a`` times the sum of ``(-x)**k / (k! (a + k))`` over k >= 1."""
    eps = float(dtypes.finfo(a.dtype).eps)

    def step(k, power, total):
        power = neg(mul(power, div(x, k)))
        term = div(power, add(a, k))
        total = add(total, term)
        return gt(absolute(term), _times(absolute(total), eps)), power, total

    total = _iterate(step, (filled_like(a, 1), filled_like(a, 0)), active)[1]
    log_g = sub(mul(a, log(x)), _lgamma1p(a))
    return neg(add(expm1(log_g), mul(exp(log_g), mul(a, total))))


def _limits(a: Any, x: Any, share: Any, wrong: Any, below: float) -> Any:
    """A share with its values at the ends: `below` is that at x = 0, and 1 - `below` that at infinity."""
    share = _where(bitwise_or(_is(x, 0), _is(a, math.inf)), below, share)
    share = _where(bitwise_or(_is(x, math.inf), _is(a, 0)), 1 - below, share)
    both = bitwise_or(bitwise_and(_is(a, 0), _is(x, 0)), bitwise_and(_is(a, math.inf), _is(x, math.inf)))
    return _where(bitwise_or(wrong, both), math.nan, share)


def _lower_share(a: Any, x: Any) -> Any:
    far, share, wrong = _shares(a, x)
    return _limits(a, x, select(far, sub(filled_like(share, 1), share), share), wrong, 0)


def _upper_share(a: Any, x: Any) -> Any:
    far, share, wrong = _shares(a, x)
    one = scalar_like(a, 1)
    small = bitwise_and(bitwise_and(_regions(a, x)[0], lt(a, one)), lt(x, one))
    share = select(far, share, sub(filled_like(share, 1), share))
    share = select(small, _small_upper_share(_where(bitwise_not(small), 0.5, a), x, small), share)
    return _limits(a, x, share, wrong, 1)


def _quantile_slope(a: Any, x: Any) -> Any:
    """The derivative in a of the x that has a given lower share: ``-(dP/da) / (dP/dx)``."""
    near, far, wrong = _regions(a, x)
    total, dtotal = _series(a, x, near, slope=True)
    value, dlog = _fraction(a, x, far, slope=True)
    low = neg(div(mul(x, add(mul(total, sub(log(x), digamma(_plus(a, 1)))), dtotal)), a))
    high = mul(mul(x, value), add(sub(log(x), digamma(a)), dlog))
    slope = _where(_is(x, 0), 0, select(far, high, low))
    return _where(bitwise_or(wrong, _is(a, 0)), math.nan, slope)


def _lower_share_slope(a: Any, x: Any) -> Any:
    slope = neg(mul(_gamma_density(a, x), _quantile_slope(a, x)))
    ends = _any_of(_is(x, 0), _is(x, math.inf), _is(a, math.inf))
    slope = _where(ends, 0, slope)
    _, _, wrong = _regions(a, x)
    return _where(bitwise_or(wrong, _is(a, 0)), math.nan, slope)


def _gamma_density(a: Any, x: Any) -> Any:
    """``x**(a - 1) exp(-x) / gamma(a)``; at x = 0 inf, 1 or 0, as a < 1, = 1 or > 1."""
    out = ShapedArray(broadcast_shape("igamma", typeof(a).shape, typeof(x).shape), typeof(x).dtype)
    a, x = fill(a, out), fill(x, out)
    density = mul(a, exp(sub(_log_term(a, x), log(x))))
    at_zero = select(lt(a, scalar_like(a, 1)), filled_like(a, math.inf), filled_like(a, 0))
    density = select(_is(x, 0), _where(_is(a, 1), 1, at_zero), density)
    density = _where(_any_of(_is(x, math.inf), _is(a, 0), _is(a, math.inf)), 0, density)
    return _where(_regions(a, x)[2], math.nan, density)


igamma_grad_a_p = nary("igamma_grad_a", FLOAT, _by_program(_lower_share_slope),
                       (no_derivative("igamma_grad_a", "a"), no_derivative("igamma_grad_a", "x")))
igamma_p = nary("igamma", FLOAT, _by_program(_lower_share),
                (lambda da, y, a, x: mul(da, igamma_grad_a(a, x)),
                 lambda dx, y, a, x: mul(dx, _gamma_density(a, x))))
igammac_p = nary("igammac", FLOAT, _by_program(_upper_share),
                 (lambda da, y, a, x: neg(mul(da, igamma_grad_a(a, x))),
                  lambda dx, y, a, x: neg(mul(dx, _gamma_density(a, x)))))


def igamma(a: Any, x: Any) -> Any:
    """Regularised lower incomplete gamma function, element-wise: the share of ``t**(a-1) exp(-t)`` that lies below x.

    Args: a, x: floats of one dtype, both >= 0 (else nan).
    Derivatives in a and x of first order; in x of any.
    """
    return igamma_p.bind(*match_scalars(a, x))


def igammac(a: Any, x: Any) -> Any:
    """``1 - igamma(a, x)``, element-wise, exact where it is small."""
    return igammac_p.bind(*match_scalars(a, x))


def igamma_grad_a(a: Any, x: Any) -> Any:
    """Derivative of `igamma` in its first argument, element-wise."""
    return igamma_grad_a_p.bind(*match_scalars(a, x))


def random_gamma_grad(a: Any, x: Any) -> Any:
    """Derivative in a of a sample x of the gamma distribution of shape a, element-wise, its quantile held fixed."""
    a, x = match_scalars(a, x)
    shape = broadcast_shape("random_gamma_grad", typeof(a).shape, typeof(x).shape)
    dtype = typeof(x).dtype
    wide = dtypes.accumulator_dtype(dtype)
    out = ShapedArray(shape, wide)
    a, x = (fill(convert_element_type(v, wide), out) for v in (a, x))
    return convert_element_type(_quantile_slope(a, x), dtype)


# -- incomplete beta ----------------------------------------------------------------------------------------------

def _beta_fraction(a: Any, b: Any, x: Any, active: Any) -> Any:
    """``1 / (1 + d1 / (1 + d2 / ...))`` of DLMF 8.17.22, by Lentz's method, two terms a step."""
    info = dtypes.finfo(a.dtype)
    tiny = float(info.tiny) * 4

    def kept(v):
        return _where(lt(absolute(v), scalar_like(v, tiny)), tiny, v)

    def turn(coefficient, c, d, value):
        d = div(scalar_like(d, 1), kept(_plus(mul(coefficient, d), 1)))
        c = kept(_plus(div(coefficient, c), 1))
        ratio = mul(c, d)
        return c, d, mul(value, ratio), ratio

    def step(m, c, d, value):
        place = add(a, _times(m, 2))
        even = div(mul(mul(m, sub(b, m)), x), mul(_plus(place, -1), place))
        odd = neg(div(mul(mul(add(a, m), add(add(a, b), m)), x), mul(place, _plus(place, 1))))
        c, d, value, _ = turn(even, c, d, value)
        c, d, value, ratio = turn(odd, c, d, value)
        return gt(absolute(_plus(ratio, -1)), scalar_like(a, float(info.eps))), c, d, value

    first = neg(div(mul(add(a, b), x), _plus(a, 1)))
    d = div(scalar_like(x, 1), kept(_plus(first, 1)))
    return _iterate(step, (filled_like(a, 1), d, d), active)[2]


def _beta_share(a: Any, b: Any, x: Any) -> Any:
    zero, one = scalar_like(a, 0), scalar_like(a, 1)
    all_low = bitwise_or(_is(a, 0), _is(b, math.inf))           # the distribution sits at 0
    all_high = bitwise_or(_is(b, 0), _is(a, math.inf))
    wrong = _any_of(ne(a, a), ne(b, b), ne(x, x), lt(a, zero), lt(b, zero), lt(x, zero), gt(x, one),
                    bitwise_and(all_low, all_high))
    limit = _any_of(wrong, all_low, all_high, _is(x, 0), _is(x, 1))
    # The fraction converges fast below the mean; beyond it that of the mirrored distribution does.
    mirrored = ge(x, div(_plus(a, 1), _plus(add(a, b), 2)))
    a1, b1 = select(mirrored, b, a), select(mirrored, a, b)
    x1, y1 = select(mirrored, sub(filled_like(x, 1), x), x), select(mirrored, log(x), log1p(neg(x)))
    log_x1 = select(mirrored, log1p(neg(x)), log(x))
    front = div(exp(_log_beta_term(a1, b1, x1, log_x1, y1)), a1)
    share = mul(front, _beta_fraction(a1, b1, x1, bitwise_not(limit)))
    share = select(mirrored, sub(filled_like(share, 1), share), share)
    share = _where(bitwise_or(_is(x, 0), all_high), 0, share)
    share = _where(_any_of(_is(x, 1), bitwise_and(all_low, gt(x, zero))), 1, share)
    return _where(wrong, math.nan, select(bitwise_and(all_low, le(x, zero)), filled_like(share, 0), share))


def _log_beta_term(a: Any, b: Any, x: Any, log_x: Any, log_y: Any) -> Any:
    """``log(x**a y**b / beta(a, b))`` for y = 1 - x, whose large terms cancel: for large a and b by hand.

    With ``u = x (a + b) / a - 1`` and v likewise of y, it is then ``a (log1p(u) - u) + b (log1p(v) - v)`` and the
    logarithm of ``sqrt(a b / (2 pi (a + b)))`` with the tails of Stirling's series.
    """
    ten, low, high = scalar_like(a, 10), smaller(a, b), larger(a, b)
    one_large, both_large = ge(high, ten), ge(low, ten)
    log_beta = sub(add(lgamma(a), lgamma(b)), lgamma(add(a, b)))
    by_rise = sub(lgamma(low), lgamma_rise(_where(bitwise_not(one_large), 10, high), _where(both_large, 0, low)))
    plain = sub(add(_product_or_zero(a, log_x), _product_or_zero(b, log_y)), select(one_large, by_rise, log_beta))
    off = sub(mul(a, sub(filled_like(x, 1), x)), mul(b, x))
    u, v = neg(div(off, a)), div(off, b)
    bends = add(mul(a, sub(log1p(u), u)), mul(b, sub(log1p(v), v)))
    spread = _times(log(_times(div(low, _plus(div(low, high), 1)), 0.5 / math.pi)), 0.5)
    tails = sub(add(stirling_tail(a), stirling_tail(b)), stirling_tail(add(a, b)))
    return select(both_large, add(bends, sub(spread, tails)), plain)


def _product_or_zero(x: Any, y: Any) -> Any:
    return _where(_is(x, 0), 0, mul(x, y))


def _betainc_slope(dx: Any, y: Any, a: Any, b: Any, x: Any) -> Any:
    log_beta = sub(add(lgamma(a), lgamma(b)), lgamma(add(a, b)))
    powers = add(_product_or_zero(_plus(b, -1), log1p(neg(x))), _product_or_zero(_plus(a, -1), log(x)))
    return mul(dx, exp(sub(powers, log_beta)))


regularized_incomplete_beta_p = nary(
    "regularized_incomplete_beta", FLOAT, _by_program(_beta_share),
    (no_derivative("betainc", "a", ValueError), no_derivative("betainc", "b", ValueError), _betainc_slope))


def betainc(a: Any, b: Any, x: Any) -> Any:
    """Regularised incomplete beta function, element-wise: the share of ``t**(a-1) (1-t)**(b-1)`` that lies below x.

    Args: a, b: floats >= 0; x: of the same dtype, in [0, 1]; elsewhere nan. The derivative in x exists.
    """
    return regularized_incomplete_beta_p.bind(*match_scalars(a, b, x))
