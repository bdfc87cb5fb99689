"""The error function of complex numbers, and functions derived from it: wofz, erfcx, dawsn.

All use ``w(z) = exp(-z**2) erfc(-i z) = (i / pi) * integral of exp(-t**2) / (z - t) over the real line``. The
trapezoidal rule with a dozen nodes on each side gives it to rounding if the residue at the pole t = z is added (Al Azah
and Chandler-Wilde 2021). There are two sets of nodes, the multiples of the step and the middles between them. For each
element the set with the greater distance from its z is used.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core import dtypes
from xjax.core.types import number_of, typeof
from xjax.lax.double_word import square_of
from xjax.runtime.jit import library_jit
from xjax.scipy.arguments import chebyshev_series, floats, horner, of_reals, rational
from xjax.transforms.autodiff import jvp
from xjax.transforms.custom_jvp import custom_jvp
from xjax.typing import Array, ArrayLike


class _Rule(NamedTuple):
    """A trapezoidal rule: its step, (square of the node, weight) for the nodes t >= 0 of both sets, and the size of z
    from which the first term of the asymptotic series suffices."""

    step: float
    multiples: list[tuple[float, float]]
    between: list[tuple[float, float]]
    far: float


def _rule(dtype: np.dtype, more: int = 0) -> _Rule:
    """The rule that is as exact as numbers of this dtype, real or complex: 12 nodes for double precision, 6 for single.

    Args: more: number of additional nodes, for a derivative, which increases faster near a node.
    """
    count, far = (6, 1e4) if dtype in (np.float32, np.complex64) else (12, 1e8)
    step = math.sqrt(math.pi / count)   # the errors of the step and of the truncated sum are then equal

    def nodes(first: float) -> list[tuple[float, float]]:
        squares = [((first + k) * step) ** 2 for k in range(count + more)]
        return [(square, math.exp(-square) * (1.0 if square else 0.5)) for square in squares]
    return _Rule(step, nodes(0.0), nodes(0.5), far)


def _is_between(x: Array, step: float) -> Array:
    """Whether the nodes between the multiples of the step are farther from x than the multiples."""
    phase = x / step - jnp.floor(x / step)
    return jnp.abs(phase - 0.5) > 0.25


def _trapezoid(re: Array, im: Array, is_between: Array, rule: _Rule) -> tuple[Any, Any]:
    """Real and imaginary part of ``(2 step / pi) * sum of weight / (s - square of the node)``, s = re + i im."""
    real, imaginary = lax.full_like(re, 0), lax.full_like(re, 0)
    number, c = re.dtype.type, 2 * rule.step / math.pi
    for (square, weight), (square_between, weight_between) in zip(rule.multiples, rule.between, strict=True):
        gap = re - jnp.where(is_between, number(square_between), number(square))
        weight, size = jnp.where(is_between, number(c * weight_between), number(c * weight)), gap * gap + im * im
        # A common quotient weight / size would be used twice, and XLA would store it in memory.
        real, imaginary = real + weight * gap / size, imaginary - weight * im / size
    return real, imaginary


def _tangent(x: Array) -> Array:
    """The tangent of x up to pi / 4, by Lambert's continued fraction ``x / (1 - x**2 / (3 - x**2 / (5 - ...)))``."""
    square = x * x
    return x * rational(square, (34459425.0, -4729725.0, 135135.0, -990.0, 1.0),
                        (34459425.0, -16216200.0, 945945.0, -13860.0, 45.0))


def _tangent_of_phase(x: Array, is_between: Array, step: float) -> Array:
    """The tangent of pi times the distance, in steps, of x from the middle between two nodes: angles up to pi / 4."""
    turns = x / step - jnp.where(is_between, number_of(x.dtype, 0), number_of(x.dtype, 0.5))
    return _tangent(math.pi * (turns - jnp.round(turns)))


@custom_jvp
def _wofz(z: Array) -> Array:
    """w(z) from its values in the first quadrant: ``w(-conj(z)) = conj(w(z))``, ``w(-z) = 2 exp(-z**2) - w(z)``.

    It is computed in real numbers, since complex ones would take several times as many operations. Derivatives do not
    pass through it, so the unused branch of a `where` may be infinite.
    """
    x, y = jnp.abs(jnp.real(z)), jnp.abs(jnp.imag(z))
    rule = _rule(z.dtype)
    is_between, square_re, square_im = _is_between(x, rule.step), (x - y) * (x + y), 2 * x * y
    total_re, total_im = _trapezoid(square_re, square_im, is_between, rule)
    re, im = -(total_re * y + total_im * x), total_re * x - total_im * y            # i z total
    size = jnp.exp(-square_re)
    bell_re, bell_im = (jnp.where(size == 0, 0, size * part * 2) for part in (jnp.cos(square_im), -jnp.sin(square_im)))
    # The residue is 2 exp(-z**2) / (1 + exp(-i phase) / q), where the tangent of half the phase is t.
    q, t = jnp.exp(-2 * math.pi / rule.step * y), _tangent_of_phase(x, is_between, rule.step)
    up, down = 1 + t * t, 1 - t * t
    across, along = q * up + down, 2 * t
    share = q / (up * (1 + q * q) + 2 * q * down)
    has_pole = y < math.pi / rule.step                                              # else the residue is below rounding
    re = re + jnp.where(has_pole, share * (bell_re * across - bell_im * along), 0)
    im = im + jnp.where(has_pole, share * (bell_re * along + bell_im * across), 0)
    longer = jnp.maximum(x, y)
    unit_x, unit_y = (jnp.where(part == longer, 1, part / longer) for part in (x, y))
    inverse = 1 / (math.sqrt(math.pi) * (unit_x * unit_x + unit_y * unit_y) * longer)
    far = longer > rule.far
    re, im = jnp.where(far, unit_y * inverse, re), jnp.where(far, unit_x * inverse, im)
    below, mirrored = jnp.signbit(jnp.imag(z)), jnp.signbit(jnp.real(z)) != jnp.signbit(jnp.imag(z))
    re, im = jnp.where(below, bell_re - re, re), jnp.where(below, bell_im - im, im)
    value = lax.complex(re, jnp.where(mirrored, -im, im))
    return jnp.where(jnp.isnan(z), complex(math.nan, math.nan), value)


_wofz.defjvps(lambda dz, w, z: dz * jnp.where(w == 0, 0, 2j / math.sqrt(math.pi) - 2 * z * w))


@library_jit
def wofz(z: ArrayLike) -> Array:
    """Faddeeva's function ``exp(-z**2) * erfc(-i z)``, element-wise.  z: real or complex numbers -> complex.

    >>> round(float(wofz(1j).real), 4)
    0.4276
    """
    z, = floats("wofz", z)
    return _wofz(lax.convert_element_type(z, dtypes.to_complex_dtype(z.dtype)))


# -- erfcx ----------------------------------------------------------------------------------------------------------

_DECAY_SCALE, _DECAY_NODES = 3.75, 40


def exact_decay(n: int, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points x >= 0 with ``u = (x - 3.75) / (x + 3.75)``, and the n-th derivative of erfcx at x times
    ``(1 + 2 x) (1 + x)**n``, in extended precision if the platform has it.

    The derivative is ``2 / sqrt(pi)`` times the integral of ``(-2 t)**n exp(-t**2 - 2 x t)`` over t > 0, by the
    trapezoidal rule in s after the substitution ``t = exp(s - exp(-s)) / (1 + x)``.
    """
    s, step = np.arange(-80, 90) * np.longdouble(0.06), np.longdouble(0.06)
    x = (_DECAY_SCALE * (1 + u) / (1 - u))[:, None]
    t = np.exp(s - np.exp(-s)) / (1 + x)
    parts = (-2 * t) ** n * np.exp(-t * t - 2 * x * t) * t * (1 + np.exp(-s))
    values = 2 * step / np.sqrt(np.arccos(np.longdouble(-1))) * np.sum(parts, 1)
    return x[:, 0], values * ((1 + 2 * x) * (1 + x) ** n)[:, 0]


def decay_variable(x: Array) -> Array:
    near = jnp.minimum(x, 1e30)                             # beyond it the result is 1
    return (near - _DECAY_SCALE) / (near + _DECAY_SCALE)


@functools.cache
def _decay_series(n: int) -> np.ndarray:
    """The Chebyshev coefficients of `exact_decay`."""
    return chebyshev_series(lambda u: exact_decay(n, u)[1], _DECAY_NODES).astype(float)


@functools.cache
def _decay_terms(n: int, dtype: np.dtype) -> list[float]:
    """The coefficients of `exact_decay` in powers of u, up to the last one that matters in this dtype.

    For n = 0 the polynomial is 1 at u = -1; the coefficients are those of (polynomial - 1) / (1 + u).
    """
    series = _decay_series(n)
    count = np.flatnonzero(np.abs(series) > float(dtypes.finfo(dtype).eps) / 8)[-1] + 1
    terms = np.polynomial.chebyshev.cheb2poly(series[:count])
    if n == 0:
        terms, _ = np.polynomial.polynomial.polydiv([terms[0] - 1, *terms[1:]], [1, 1])
    return [float(c) for c in np.atleast_1d(terms)]


# erfcx in single precision, a quotient fitted to a relative error of 2**-29 up to 1e4, with positive terms only.
_IN_SINGLE = ((0.9999999989453389, 1.5527948701761725, 1.1562832687083393, 0.49894920273324794, 0.12492784926648792,
               0.01504752365011581),
              (1.0, 2.681173913611712, 3.18166636625742, 2.160137304224879, 0.8977011292846218, 0.22142883295392762,
               0.026671041268600586))


def _scaled_erfc_in_single(x: Array) -> Array:
    far, near = x > 1e4, jnp.minimum(x, 1e4)
    return (jnp.where(far, math.sqrt(1 / math.pi), horner(near, _IN_SINGLE[0]))
            / jnp.where(far, x, horner(near, _IN_SINGLE[1])))


@functools.partial(custom_jvp, nondiff_argnums=(1,))
def scaled_erfc(x: ArrayLike, n: int) -> Array:
    """The n-th derivative of ``exp(x**2) erfc(x)`` at x >= 0. The terms of a recurrence in n would cancel."""
    if n == 0 and x.dtype == np.float32:
        return _scaled_erfc_in_single(x)
    u, growth = decay_variable(x), 1 + 2 * x
    for _ in range(n):
        growth = growth * (1 + x)
    polynomial = horner(u, _decay_terms(n, typeof(x).dtype))
    return (polynomial if n else 1 + (1 + u) * polynomial) / growth        # exactly 1 where n and x are 0


@scaled_erfc.defjvp
def _scaled_erfc_jvp(n: int, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    (x,), (dx,) = primals, tangents
    return scaled_erfc(x, n), dx * scaled_erfc(x, n + 1)


@custom_jvp
def _twice_growth(x: Array) -> Array:
    """``2 exp(x**2)``."""
    square = square_of(jnp.clip(x, -30.0, 30.0))
    return 2 * jnp.exp(square.high) * (1 + square.low)


_twice_growth.defjvps(lambda dx, y, x: dx * (2 * x * y))


def _erfcx(x: Array) -> Array:
    """erfcx of real numbers; for x < 0 it is ``2 exp(x**2) - erfcx(-x)``."""
    below, decay = x < 0, scaled_erfc(jnp.abs(x), 0)
    return jnp.where(below, _twice_growth(jnp.where(below, x, 0)) - decay, decay)


@library_jit
def erfcx(x: ArrayLike) -> Array:
    """``exp(x**2) * erfc(x)`` of real or complex numbers, element-wise, also where this product is 0 times infinity."""
    x, = floats("erfcx", x)
    if dtypes.is_complex(x.dtype):
        return _wofz(lax.complex(-jnp.imag(x), jnp.real(x)))
    return of_reals("erfcx", _erfcx, x)


# -- Dawson's integral --------------------------------------------------------------------------------------------

_DAWSON_TERMS = 1 / np.cumprod(np.arange(1.0, 30, 2))           # 1 / (1 * 3 * 5 ...)


@custom_jvp
def _dawsn(x: Array) -> Array:
    """``sqrt(pi) / 2`` times the imaginary part of w(x). For real x the residue is ``exp(-x**2)`` times a tangent."""
    size, rule = jnp.abs(x), _rule(x.dtype)
    near = jnp.minimum(size, rule.far)
    is_between, square = _is_between(near, rule.step), near * near
    total, _ = _trapezoid(square, lax.full_like(square, 0), is_between, rule)
    value = near * total + jnp.exp(-square) * _tangent_of_phase(near, is_between, rule.step)
    # For small x the two terms would cancel in part; those of the power series do not.
    small = jnp.minimum(size, 0.5)
    series = small * horner(-2 * small * small, _DAWSON_TERMS)
    value = jnp.where(size < 0.5, series, 0.5 * math.sqrt(math.pi) * value)
    return jnp.copysign(jnp.where(size > rule.far, 0.5 / jnp.maximum(size, rule.far), value), x)


_DAWSON_SPLIT = 2.0


def _slope_terms(centre: Fraction, count: int) -> list[float]:
    """Coefficients of the slope in powers of ``x**2 / 2 - centre``, from the series in x**2, in exact arithmetic."""
    terms, term, number = [], Fraction(1), 50 + int(5 * centre)
    for k in range(number):
        terms.append(term * (2 * k + 1) * 2**k)             # coefficient of (x**2 / 2)**k
        term *= Fraction(-2, 2 * k + 3)
    powers = [centre**k for k in range(number)]
    return [float(sum(terms[j] * math.comb(j, k) * powers[j - k] for j in range(k, number))) for k in range(count)]


_DAWSON_SLOPE = _slope_terms(Fraction(1), 26)
_DAWSON_SLOPE_IN_SINGLE = _DAWSON_SLOPE[:17]


@custom_jvp
def _dawsn_slope(x: Array) -> Array:
    """The slope of dawsn, ``1 - 2 x dawsn(x)``, by formulas whose terms do not cancel."""
    near = jnp.clip(x, -_DAWSON_SPLIT, _DAWSON_SPLIT)
    inside = horner(0.5 * near * near - 1, _DAWSON_SLOPE if x.dtype == np.float64 else _DAWSON_SLOPE_IN_SINGLE)
    return jnp.where(jnp.abs(x) < _DAWSON_SPLIT, inside, _dawsn_slope_beyond(x))


def _dawsn_slope_beyond(x: Array) -> Array:
    """The slope of dawsn for abs(x) >= 2: the derivative of the rule in `_dawsn`, whose terms have one sign. For large
    x it is the asymptotic series ``-r (1 + 3 r + 3 5 r**2 ...)`` in ``r = 1 / (2 x**2)``."""
    end = 8.0 if x.dtype == np.float64 else 6.0
    size, rule = jnp.abs(x), _rule(x.dtype, more=2)
    near, far = jnp.where(size < end, size, _DAWSON_SPLIT), jnp.where(size < end, end, size)
    is_between, square = _is_between(near, rule.step), near * near
    total, number = lax.full_like(x, 0), x.dtype.type
    for (node, weight), (node_between, weight_between) in zip(rule.multiples, rule.between, strict=True):
        node = jnp.where(is_between, number(node_between), number(node))
        gap = square - node
        total = total + jnp.where(is_between, number(weight_between), number(weight)) * (square + node) / (gap * gap)
    tangent = _tangent_of_phase(near, is_between, rule.step)
    residue = jnp.exp(-square) * (math.pi / rule.step * (1 + tangent * tangent) - 2 * near * tangent)
    inverse = 1 / far
    ratio, series = 0.5 * inverse * inverse, lax.full_like(x, 1)
    for k in range(21 if x.dtype == np.float64 else 11, 1, -1):
        series = 1 + (2 * k - 1) * ratio * series
    middle = 0.5 * math.sqrt(math.pi) * (residue - 2 * rule.step / math.pi * total)
    return jnp.where(size < end, middle, -ratio * series)


# (end, centre): the second derivative is x times a series in ``x**2 / 2 - centre``, for abs(x) up to each end.
_BENDS = ((1.15, Fraction(3, 8)), (2.0, Fraction(5, 4)), (2.8, Fraction(3)), (3.6, Fraction(21, 4)),
          (4.6, Fraction(17, 2)), (5.1, Fraction(12)))


@functools.cache
def _bend_terms(size: int) -> list[list[float]]:
    """Coefficients of each series of `_BENDS`; size: bytes of the dtype."""
    slopes = [_slope_terms(centre, 31 if size == 8 else 19) for _, centre in _BENDS]
    return [[k * c for k, c in enumerate(terms)][1:] for terms in slopes]


def _dawsn_bend(x: Array) -> Array:
    size, (start, _) = jnp.abs(x), _BENDS[-1]
    near = size < start

    def by_place(*values: float) -> Array:
        number = x.dtype.type
        return functools.reduce(lambda rest, at: jnp.where(size < _BENDS[at][0], number(values[at]), rest),
                                range(len(values) - 2, -1, -1), lax.full_like(x, values[-1]))

    inside = jnp.where(near, x, 0)
    half_square = square_of(inside).times(0.5)
    t = half_square.high - by_place(*(float(centre) for _, centre in _BENDS)) + half_square.low
    total = lax.full_like(x, 0)
    for terms in zip(*(terms[::-1] for terms in _bend_terms(x.dtype.itemsize)), strict=True):
        total = total * t + by_place(*terms)
    beyond = jvp(_dawsn_slope_beyond, (jnp.where(near, start, x),), (lax.full_like(x, 1),))[1]
    return jnp.where(near, inside * total, beyond)


@_dawsn_slope.defjvp
def _dawsn_slope_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    (x,), (dx,) = primals, tangents
    return _dawsn_slope(x), dx * _dawsn_bend(x)


_dawsn.defjvps(lambda dx, y, x: dx * _dawsn_slope(x))


@library_jit
def dawsn(x: ArrayLike) -> Array:
    """Dawson's integral of real numbers, element-wise: ``exp(-x**2)`` times the integral of ``exp(t**2)`` from 0 to x.

    >>> round(float(dawsn(1.0)), 4)
    0.5381
    """
    return of_reals("dawsn", _dawsn, x)
