"""Integrals without elementary form: the exponential integrals, the dilogarithm, Owen's function."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core.errors import bad
from xjax.lax.double_word import product_of
from xjax.runtime.jit import library_jit
from xjax.scipy.arguments import chebyshev_series, horner, of_reals, single_or_double
from xjax.scipy.gamma_functions import bernoulli_numbers
from xjax.scipy.normal_distribution import bell, density, tail_of
from xjax.transforms.custom_jvp import custom_jvp
from xjax.transforms.rule_functions import SymbolicZero
from xjax.typing import Array, ArrayLike

# -- exponential integrals ------------------------------------------------------------------------------------------

_SERIES_END = 40.0                      # above it the asymptotic series of `expi` reaches terms below rounding
_UNIT = 32.0                            # unit of x in series with large coefficients, a power of 2 for exact division
_FACTORIALS = np.cumprod(np.concatenate([[1.0], np.arange(1.0, 41) / _UNIT]))


def _scaled_fraction(n: Array, x: Array, depth: int) -> Array:
    """``exp(x) E_n(x)`` as ``1 / (x + n - 1 n / (x + n + 2 - 2 (n + 1) / (x + n + 4 - ...)))``, innermost term first.

    The error is about ``exp(-4 sqrt(depth abs(x)) cos(arg(x) / 2))``.  n: real; x: real or complex.
    """
    def step(i: Array, rest: Array) -> Array:
        k = (depth - i).astype(n.dtype)
        return (k * (n + k - 1)).astype(x.dtype) / (x + (n + 2 * k).astype(x.dtype) - rest)
    return 1 / (x + n.astype(x.dtype) - lax.fori_loop(0, depth, step, lax.full_like(x, 0)))


_RECURRENCE_END = 20                    # for higher orders the fraction converges at every x


def _near(n: Array, x: Array) -> Array:
    """E_n(x) for whole n from 1 to 20 and 0 < x <= 1, from E_1 by ``n E_(n+1)(x) = exp(-x) - x E_n(x)``.

    For x >= 0.35 all terms are divided by ``exp(-x)``, which avoids its rounding error in the differences.
    """
    small, middle = jnp.minimum(x, _MIDDLE_START), jnp.maximum(x, _MIDDLE_START)
    is_small = x < _MIDDLE_START
    decay, shrink = jnp.exp(-small), jnp.exp(-middle)
    value, one = jnp.where(is_small, _exp1_near_0(small), _exp1_middle(middle)), jnp.where(is_small, decay, 1)
    for k in range(1, _RECURRENCE_END):
        value = jnp.where(n > k, (one - x * value) / k, value)
    return jnp.where(is_small, value, shrink * value)


def _depth(x: Array) -> int:
    """The depth at which the fraction is exact for x >= 1."""
    return 90 if x.dtype == np.float64 else 30


@custom_jvp
def _expn(n: Array, x: Array) -> Array:
    whole = n == jnp.floor(n)
    near = (x <= 1) & (n <= _RECURRENCE_END) & whole
    first = jnp.exp(-x) * _scaled_fraction(n, jnp.where(near | (x < 0), 2, x), _depth(x))
    value = jnp.where(near, _near(jnp.where(n >= 1, n, 1), jnp.where(near & (x > 0), x, 1)), first)
    value = jnp.where(n == 0, jnp.exp(-x) / x, value)
    value = jnp.where(x == 0, jnp.where(n > 1, 1 / jnp.where(n > 1, n - 1, 1), np.inf), value)
    return jnp.where((n < 0) | (x < 0) | ((x <= 1) & ~whole) | jnp.isnan(n + x), np.nan, value)


@functools.partial(_expn.defjvp, symbolic_zeros=True)
def _expn_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """``-E_(n - 1)(x)``; there is no derivative in the order."""
    (n, x), (dn, dx) = primals, tangents
    if not isinstance(dn, SymbolicZero):
        raise bad("scipy.special.expn", "there is no derivative with respect to `n`",
                  fix="pass `n` as a constant, or through lax.stop_gradient.", exc=ValueError)
    below = jnp.where(n == 0, jnp.exp(-x) * (1 / x + 1) / x, _expn(jnp.where(n == 0, 0, n - 1), x))
    return _expn(n, x), -dx * below


@library_jit
def expn(n: ArrayLike, x: ArrayLike) -> Array:
    """The exponential integral: ``x**(n-1)`` times the integral of ``exp(-t) / t**n`` from x to infinity, element-wise.

    Args: n: whole numbers >= 0 (for x > 1 also fractions); x: real numbers >= 0. The result is nan for others.

    >>> round(float(expn(2, 1.0)), 4)
    0.1485
    """
    return of_reals("expn", _expn, n, x)


_MIDDLE, _MIDDLE_WIDTH = 0.675, 0.325       # the series of E_1 cancels in part between 0.35 and 1
_MIDDLE_START = _MIDDLE - _MIDDLE_WIDTH


def _exponential_over(x: np.ndarray) -> np.ndarray:
    """``exp(x) E_1(x)``: the integral of ``exp(u - exp(u)) / (exp(u) + x)`` over all u, by the trapezoidal rule."""
    u = np.arange(-50, 6, np.longdouble(0.25))
    return np.sum(0.25 * np.exp(u - np.exp(u)) / (np.exp(u) + x[:, None]), 1)


_EXP1_MIDDLE = np.polynomial.chebyshev.cheb2poly(
    chebyshev_series(lambda t: _exponential_over(_MIDDLE + _MIDDLE_WIDTH * t), 28)).astype(float).tolist()
_EXP1_SERIES = [(-1) ** k / ((k + 1) * float(math.factorial(k + 1))) for k in range(20)]


def _exp1_near_0(x: Array) -> Array:
    """E_1(x) for x up to 0.35."""
    return x * horner(x, _EXP1_SERIES) - (np.euler_gamma + jnp.log(x))


def _exp1_middle(x: Array) -> Array:
    """``exp(x) E_1(x)`` for x between 0.35 and 1."""
    return horner((x - _MIDDLE) / _MIDDLE_WIDTH, _EXP1_MIDDLE)


@custom_jvp
def _exp1(x: Array) -> Array:
    middle, large = jnp.clip(x, _MIDDLE_START, 1), jnp.maximum(x, 1)
    between = jnp.exp(-middle) * _exp1_middle(middle)
    beyond = jnp.exp(-large) * _scaled_fraction(lax.full_like(x, 1), large, _depth(x))
    near = _exp1_near_0(jnp.clip(x, 0, _MIDDLE_START))
    value = jnp.where(x < _MIDDLE_START, near, jnp.where(x < 1, between, beyond))
    return jnp.where(x >= 0, value, np.nan)


_exp1.defjvps(lambda dx, y, x: dx * -(jnp.exp(-x) / x))


@library_jit
def exp1(x: ArrayLike) -> Array:
    """Exponential integral of ``exp(-t) / t`` from x to infinity, element-wise: `expn` of order 1; nan for x < 0."""
    return of_reals("exp1", _exp1, x)


_EULER_SERIES = [_UNIT ** k / (k * float(math.factorial(k))) for k in range(1, 145)]


@custom_jvp
def _expi(x: Array) -> Array:
    """For x > 0 ``euler + log(x)`` plus the sum of ``x**k / (k k!)``, with positive terms; for x > 40 asymptotic."""
    near = jnp.clip(x, 0, _SERIES_END) / _UNIT
    series = np.euler_gamma + jnp.log(jnp.where(x > 0, x, 1)) + near * horner(near, _EULER_SERIES)
    large = jnp.clip(x, _SERIES_END, 1e4)
    inverse, root = _UNIT / large, jnp.exp(0.5 * large)         # exp(x) may overflow where the result does not
    far = root * (root * (horner(inverse, _FACTORIALS) * inverse / _UNIT))
    below = -_exp1(jnp.where(x < 0, -x, 1))
    above = jnp.where(x > _SERIES_END, far, series)
    return jnp.where(x < 0, below, jnp.where(x == 0, -np.inf, jnp.where(jnp.isnan(x), np.nan, above)))


_expi.defjvps(lambda dx, y, x: dx * jnp.exp(x) / x)


@library_jit
def expi(x: ArrayLike) -> Array:
    """The exponential integral of ``exp(t) / t`` from -infinity to x, its principal value, element-wise; -inf at 0.

    >>> round(float(expi(1.0)), 4)
    1.8951
    """
    return of_reals("expi", _expi, x)


# -- dilogarithm ----------------------------------------------------------------------------------------------------

def _spence_terms() -> np.ndarray:
    """``B(2 k) / (2 k + 1)!`` for k = 1, 2 ..."""
    return np.array([bernoulli_numbers(22)[2 * k] / math.factorial(2 * k + 1) for k in range(1, 12)])


@custom_jvp
def _spence(x: Array) -> Array:
    inside = jnp.where((x > 0) & jnp.isfinite(x), x, 1)
    # x is reduced to [1/2, 2]. With u = -log(x) the value is u - u**2 / 4 + sum of B(2 k) u**(2 k + 1) / (2 k + 1)!.
    large = inside > 2
    reduced = jnp.where(large, 1 / inside, inside)
    tiny = reduced < 0.5
    u = -jnp.where(tiny, jnp.log1p(-jnp.where(tiny, reduced, 0)), jnp.log(jnp.where(tiny, 1, reduced)))
    series = u - u * u / 4 + u ** 3 * horner(u * u, _spence_terms())
    # For x > 2 the logarithm of 1 / x is that of x, negated, since 1 / x may be subnormal.
    log_reduced = jnp.where(large, -1, 1) * jnp.log(jnp.where(tiny, inside, 1))
    reflected = math.pi ** 2 / 6 + log_reduced * u - series
    series = jnp.where(tiny, reflected, series)
    value = jnp.where(large, -0.5 * jnp.square(jnp.log(inside)) - series, series)
    return jnp.where(x == 0, math.pi ** 2 / 6, jnp.where(x == np.inf, -np.inf, jnp.where(x > 0, value, np.nan)))


@custom_jvp
def _spence_slope(x: Array) -> Array:
    """``log(x) / (1 - x)``, near x = 1 by log1p; 0 at infinity."""
    off = jnp.where(jnp.isinf(x), 1, x - 1)
    log_x = jnp.where(jnp.abs(off) < 0.5, jnp.log1p(off), jnp.log(x))
    slope = jnp.where(off == 0, -1, -log_x / jnp.where(off == 0, 1, off))
    return jnp.where(x == np.inf, 0, slope)


def _spence_bend(y: Array, x: Array) -> Array:
    """The derivative ``(1 / x + y) / (1 - x)`` of the slope y; near 1 the sum of ``k / (k + 1) (1 - x)**(k - 1)``."""
    off = 1 - x
    near = jnp.abs(off) < 0.4
    series = horner(jnp.where(near, off, 0), [k / (k + 1) for k in range(1, 40)])
    return jnp.where(near, series, (1 / x + y) / jnp.where(near, 1, off))


_spence_slope.defjvps(lambda dx, y, x: dx * _spence_bend(y, x))
_spence.defjvps(lambda dx, y, x: dx * _spence_slope(x))


@library_jit
def spence(x: ArrayLike) -> Array:
    """The dilogarithm: the integral of ``log(t) / (1 - t)`` from 1 to x, element-wise; nan for x < 0.

    Raises: TypeError unless x is (or, as an integer, becomes) a float of 32 or 64 bits.

    >>> round(float(spence(0.0)), 4)
    1.6449
    """
    x, = single_or_double("spence", x)
    return _spence(x)


# -- Owen's function ------------------------------------------------------------------------------------------------

_OWEN_NODES = 32
_OWEN_END = 9.5                         # the h t at which exp(-(h t)**2 / 2) is below rounding


def _owen_integral(h: Array, a: Array) -> Array:
    """``exp(-h**2 / 2) / (2 pi)`` times the integral of ``exp(-(h t)**2 / 2) / (1 + t**2)`` over 0 <= t <= a <= 1, by
    Gauss-Legendre quadrature up to the t from which the integrand is below rounding."""
    nodes, weights = np.polynomial.legendre.leggauss(_OWEN_NODES)
    end = jnp.where(h * a > _OWEN_END, _OWEN_END / jnp.where(h * a > _OWEN_END, h, 1), a)
    total = lax.full_like(h, 0)
    for node, weight in zip(0.5 * (nodes + 1), 0.5 * weights, strict=True):
        t = end * float(node)
        total = total + float(weight) * jnp.exp(-0.5 * jnp.square(h * t)) / (1 + t * t)
    return bell(h) / (2 * math.pi) * end * total


@custom_jvp
def _owens_t(h: Array, a: Array) -> Array:
    """T(h, a); for a > 1 by ``T(h, a) = (q(h) + q(a h)) / 2 - q(h) q(a h) - T(a h, 1 / a)`` with q(x) = ndtr(-x)."""
    h, size = jnp.minimum(jnp.abs(h), 1e3), jnp.minimum(jnp.abs(a), 1e30)      # equivalent to infinity
    steep, (above, rest) = size > 1, product_of(h, size)
    low = _owen_integral(jnp.where(steep, above, h), jnp.where(steep, 1 / jnp.where(steep, size, 1), size))
    near, far = tail_of(h), tail_of(above) - density(above) * rest
    value = jnp.where(steep, 0.5 * (near + far) - near * far - low, low)
    return jnp.where(jnp.isnan(h) | jnp.isnan(a), np.nan, jnp.copysign(value, a))


@_owens_t.defjvp
def _owens_t_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    (h, a), (dh, da) = primals, tangents
    return _owens_t(h, a), dh * _slope_in_h(h, a) + da * (_joint_density(h, a) / (1 + a * a))


def _product_or_0(h: Array, a: Array) -> tuple[Array, Array]:
    """``h * a`` in two parts, of size at most 40; 0 also if one factor is 0 and the other infinite."""
    high, low = product_of(jnp.where(a == 0, 0, h), jnp.where(h == 0, 0, a))
    return jnp.clip(high, -40, 40), low


@custom_jvp
def _joint_density(h: Array, a: Array) -> Array:
    """The density of two independent normal variables at (h, a h); it is 0 beyond 40."""
    high, low = _product_or_0(h, a)
    rounded = bell(h) * bell(high) / (2 * math.pi)
    return rounded - rounded * jnp.where(rounded == 0, 0, high * low)


_joint_density.defjvps(lambda dh, y, h, a: dh * -(h * y * (1 + a * a)), lambda da, y, h, a: da * -(h * h * a * y))


@custom_jvp
def _slope_in_h(h: Array, a: Array) -> Array:
    high, _ = _product_or_0(h, a)
    return -0.5 * density(h) * lax.erf(high * math.sqrt(0.5))


_MORE_THAN_1 = (1 / np.cumprod(np.arange(3.0, 35, 2))).tolist()


def _bend_in_h(y: Array, h: Array, a: Array) -> Array:
    """``-h y - a j``, where y is the slope and j the joint density.

    For small a h, y is ``-a h j m`` with m near 1, and the terms would cancel near h = 1; so m - 1 and h - 1 are used.
    """
    r, joint = _product_or_0(h, a)[0], a * _joint_density(h, a)
    near = jnp.abs(r) < 1
    square = jnp.where(near, r * r, 0)
    more = square * horner(square, _MORE_THAN_1)
    near_h = jnp.where(near, h, 0)
    return jnp.where(near, joint * ((near_h - 1) * (near_h + 1) * (1 + more) + more), -h * y - joint)


_slope_in_h.defjvps(lambda dh, y, h, a: dh * _bend_in_h(y, h, a), lambda da, y, h, a: da * -(h * _joint_density(h, a)))


@library_jit
def owens_t(h: ArrayLike, a: ArrayLike) -> Array:
    """Owen's function of real numbers, element-wise.

    It is the integral of ``exp(-h**2 (1 + t**2) / 2) / (1 + t**2) / (2 pi)`` from t = 0 to a. For h > 0 this is the
    probability that X > h and 0 < Y < a X, where X and Y are independent standard normal variables.

    >>> round(float(owens_t(0.5, 1.0)), 4)
    0.1067
    """
    return of_reals("owens_t", _owens_t, h, a)
