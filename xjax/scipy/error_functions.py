"""The error function of complex numbers and what follows from it: wofz, erfcx, dawsn.

All rest on ``w(z) = exp(-z**2) erfc(-i z) = (i / pi) * integral of exp(-t**2) / (z - t) over the real line``, which the
trapezoidal rule gives to rounding with a dozen nodes on each side once the residue at the pole t = z is put back
(Al Azah and Chandler-Wilde 2021). Of two sets of nodes, the multiples of the step and those in the middle between
them, each element takes the one that stays away from its z.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core import dtypes
from xjax.core.types import number_of
from xjax.runtime.jit import library_jit
from xjax.scipy.arguments import floats, horner, of_reals, rational
from xjax.transforms.custom_jvp import custom_jvp


class _Rule(NamedTuple):
    """A trapezoidal rule: its step, (square of the node, weight) of the nodes t >= 0 of both sets, and from where on
    the first term of the asymptotic series is all."""

    step: float
    multiples: list[tuple[float, float]]
    between: list[tuple[float, float]]
    far: float


def _rule(dtype: np.dtype) -> _Rule:
    """As exact as real or complex numbers of this type: 12 nodes are for double precision, 6 for single."""
    count, far = (6, 1e4) if dtype in (np.float32, np.complex64) else (12, 1e8)
    step = math.sqrt(math.pi / count)   # the two errors, of the step and of the end of the sum, are then equal

    def nodes(first: float) -> list[tuple[float, float]]:
        squares = [((first + k) * step) ** 2 for k in range(count)]
        return [(square, math.exp(-square) * (1.0 if square else 0.5)) for square in squares]
    return _Rule(step, nodes(0.0), nodes(0.5), far)


def _is_between(x: Any, step: float) -> Any:
    """Whether the nodes between the multiples of the step are farther from x than these."""
    phase = x / step - jnp.floor(x / step)
    return jnp.abs(phase - 0.5) > 0.25


def _trapezoid(re: Any, im: Any, is_between: Any, rule: _Rule) -> tuple[Any, Any]:
    """Real and imaginary part of ``(2 step / pi) * sum of weight / (s - square of the node)``, s = re + i im."""
    real, imaginary = lax.full_like(re, 0), lax.full_like(re, 0)
    number, c = re.dtype.type, 2 * rule.step / math.pi
    for (square, weight), (square_between, weight_between) in zip(rule.multiples, rule.between, strict=True):
        gap = re - jnp.where(is_between, number(square_between), number(square))
        weight, size = jnp.where(is_between, number(c * weight_between), number(c * weight)), gap * gap + im * im
        # One quotient times gap and im would be used twice, and so be kept in memory by XLA; these are not.
        real, imaginary = real + weight * gap / size, imaginary - weight * im / size
    return real, imaginary


def _tangent(x: Any) -> Any:
    """The tangent up to pi / 4, by Lambert's continued fraction ``x / (1 - x**2 / (3 - x**2 / (5 - ...)))``."""
    square = x * x
    return x * rational(square, (34459425.0, -4729725.0, 135135.0, -990.0, 1.0),
                        (34459425.0, -16216200.0, 945945.0, -13860.0, 45.0))


def _tangent_of_phase(x: Any, is_between: Any, step: float) -> Any:
    """The tangent of pi times the distance, in steps, of x from the middle between two nodes: of pi / 4 at most."""
    turns = x / step - jnp.where(is_between, number_of(x.dtype, 0), number_of(x.dtype, 0.5))
    return _tangent(math.pi * (turns - jnp.round(turns)))


@custom_jvp
def _wofz(z: Any) -> Any:
    """From the first quadrant: ``w(-conj(z)) = conj(w(z))`` and ``w(-z) = 2 exp(-z**2) - w(z)``.

    In real numbers, of which complex ones would take several times as many operations. There are no derivatives to
    pass through it, so what a choice leaves out may be infinite.
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
    has_pole = y < math.pi / rule.step                                              # above, it is below rounding
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
def wofz(z: Any) -> Any:
    """Faddeeva's function ``exp(-z**2) * erfc(-i z)``, element-wise.  z: real or complex numbers -> complex.

    >>> round(float(wofz(1j).real), 4)
    0.4276
    """
    z, = floats("wofz", z)
    return _wofz(lax.convert_element_type(z, dtypes.to_complex_dtype(z.dtype)))


def series_of_erfc(ratio: Any, terms: int) -> Any:
    """Asymptotic series of ``sqrt(pi) x exp(x**2) erfc(x)`` in ratio = 1 / (2 x**2): ``1 - 1 r + 1 3 r**2 - ...``."""
    series = lax.full_like(ratio, 1)
    for k in range(terms, 0, -1):
        series = 1 - (2 * k - 1) * ratio * series
    return series


@custom_jvp
def _erfcx(x: Any) -> Any:
    start = 10.0 if x.dtype == np.float64 else 4.0
    near, far = jnp.minimum(x, start), jnp.maximum(x, start)
    beyond = series_of_erfc(0.5 / (far * far), 12) / (far * math.sqrt(math.pi))
    return jnp.where(x < start, jnp.exp(near * near) * lax.erfc(near), beyond)


def _erfcx_slope(y: Any, x: Any) -> Any:
    """``2 x y - 2 / sqrt(pi)``; far out, where its terms cancel, ``-2 / pi`` times the integral of
    ``exp(-t**2) t**2 / (x**2 + t**2)`` over the real line, by the trapezoidal rule."""
    # The error of the rule is about ``exp(x**2 - 2 pi x / step)``.
    count, start = (18, 3.5) if x.dtype == np.float64 else (10, 2.0)
    step, far = math.sqrt(math.pi / count), x > start
    inverse = 1 / jnp.where(far, x, start)
    total = lax.full_like(x, 0)
    for k in range(1, count + 1):
        part = jnp.square(k * step * inverse)
        total = total + math.exp(-(k * step) ** 2) * part / (1 + part)
    near = 2 * jnp.where(far, 0, x) * jnp.where(far, 0, y) - 2 / math.sqrt(math.pi)
    return jnp.where(far, -4 * step / math.pi * total, near)


_erfcx.defjvps(lambda dx, y, x: dx * _erfcx_slope(y, x))


@library_jit
def erfcx(x: Any) -> Any:
    """``exp(x**2) * erfc(x)`` of real or complex numbers, element-wise, also where that is 0 times infinity."""
    x, = floats("erfcx", x)
    if dtypes.is_complex(x.dtype):
        return _wofz(lax.complex(-jnp.imag(x), jnp.real(x)))
    return of_reals("erfcx", _erfcx, x)


# -- Dawson's integral --------------------------------------------------------------------------------------------

_DAWSON_TERMS = 1 / np.cumprod(np.arange(1.0, 30, 2))           # 1 / (1 * 3 * 5 ...)


@custom_jvp
def _dawsn(x: Any) -> Any:
    """Half of ``sqrt(pi)`` times the imaginary part of w on the real line, where the residue is a tangent."""
    size, rule = jnp.abs(x), _rule(x.dtype)
    near = jnp.minimum(size, rule.far)
    is_between, square = _is_between(near, rule.step), near * near
    total, _ = _trapezoid(square, lax.full_like(square, 0), is_between, rule)
    value = near * total + jnp.exp(-square) * _tangent_of_phase(near, is_between, rule.step)
    # Below, the two would cancel in part; the power series does not.
    small = jnp.minimum(size, 0.5)
    series = small * horner(-2 * small * small, _DAWSON_TERMS)
    value = jnp.where(size < 0.5, series, 0.5 * math.sqrt(math.pi) * value)
    return jnp.copysign(jnp.where(size > rule.far, 0.5 / jnp.maximum(size, rule.far), value), x)


def _dawsn_slope(y: Any, x: Any) -> Any:
    """``1 - 2 x y``; far out, where the terms cancel, its asymptotic series ``-r (1 + 3 r + 3 5 r**2 ...)`` in
    ``r = 1 / (2 x**2)``."""
    far = jnp.abs(x) > (10.0 if x.dtype == np.float64 else 6.0)
    inverse = 1 / jnp.where(far, x, 10.0)
    ratio, series = 0.5 * inverse * inverse, lax.full_like(x, 1)
    for k in range(17, 1, -1):
        series = 1 + (2 * k - 1) * ratio * series
    return jnp.where(far, -ratio * series, 1 - 2 * jnp.where(far, 0, x) * jnp.where(far, 0, y))


_dawsn.defjvps(lambda dx, y, x: dx * _dawsn_slope(y, x))


@library_jit
def dawsn(x: Any) -> Any:
    """Dawson's integral of real numbers, element-wise: ``exp(-x**2)`` times the integral of ``exp(t**2)`` from 0 to x.

    >>> round(float(dawsn(1.0)), 4)
    0.5381
    """
    return of_reals("dawsn", _dawsn, x)
