"""Integrals of oscillating functions: of sin(t) / t and cos(t) / t, and Fresnel's, of sin and cos of a square.

Near 0 they are computed by power series. Farther out each is its limit minus a sine and a cosine times two auxiliary
functions that do not oscillate (DLMF 6.2.17 and 7.2.10). These are integrals of ``exp(-t) / (t**2 + z**2)`` with a
power of t, which Gauss-Laguerre quadrature gives as sums of positive terms.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy

import xjax.numpy as jnp
from xjax.lax.double_word import guarded, square_of, sum_of
from xjax.runtime.jit import library_jit
from xjax.scipy.arguments import horner, of_reals, rational
from xjax.transforms.custom_jvp import custom_jvp
from xjax.typing import Array, ArrayLike

# Not `import numpy.polynomial.polynomial`: if another thread imports `numpy.polynomial` through SciPy, the two imports
# can deadlock, and Python then gives one of them an incomplete module.
polyadd, polymul = np.polynomial.polynomial.polyadd, np.polynomial.polynomial.polymul

_START = 4.0                # for z up to this the power series lose at most two bits to cancellation


@functools.lru_cache
def _auxiliary_terms(count: int, power: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Coefficients of two numerators and their common denominator, polynomials in y with positive coefficients.

    The quotients are the sums of ``w / (1 + t**2 y)`` and of ``w t / (1 + t**2 y)`` over `count` nodes t, weights w.
    """
    nodes, weights = scipy.special.roots_genlaguerre(count, power)
    keep = weights > 1e-19
    across, along, below = np.zeros(1), np.zeros(1), np.ones(1)
    for t, w in zip(nodes[keep], weights[keep], strict=True):
        factor = np.array([1, t * t])
        across = polyadd(polymul(across, factor), w * below)
        along = polyadd(polymul(along, factor), w * t * below)
        below = polymul(below, factor)
    return across, along, below


def _auxiliary(inverse: Array, power: float) -> tuple[Any, Any]:
    """Integrals of ``t**power exp(-t) / (t**2 + z**2)`` times z and times t, for inverse = 1 / z from 0 to 1 / 4.

    The error with n nodes is about ``exp(-sqrt(8 n z))``.
    """
    across, along, below = _auxiliary_terms(45 if inverse.dtype == np.float64 else 11, power)
    square = inverse * inverse
    return inverse * rational(square, across, below), square * rational(square, along, below)


def _waves(inverse: Array, power: float, sin: Array, cos: Array) -> tuple[Any, Any]:
    """The limit of a sine integral minus its value, and the value of a cosine integral minus its limit."""
    across, along = _auxiliary(inverse, power)
    return across * cos + along * sin, across * sin - along * cos


# -- sine and cosine integrals --------------------------------------------------------------------------------------

_CI_START, _CI_CENTRE = 2.0, 3.0        # from _CI_START on, the cosine integral is its Taylor series at _CI_CENTRE


@functools.cache
def _ci_terms() -> list[float]:
    """The Taylor series of Ci at 3: by the recurrence ``3 c(k) + c(k-1) = C(k)`` of its slope, ``cos(x) / x``."""
    waves, slope = (math.cos(_CI_CENTRE), -math.sin(_CI_CENTRE)), [0.0]
    for k in range(42):
        wave = waves[k % 2] * (-1) ** (k // 2) / math.factorial(k)
        slope.append((wave - slope[-1]) / _CI_CENTRE)
    return [0.11962978600800033, *(c / k for k, c in enumerate(slope[1:], 1))]


def _sici_series(x: Array) -> tuple[Any, Any]:
    """Both integrals for 0 <= x <= 4, by sums of ``(-1)**k x**m / (m m!)``, m = 2 k + 1 for the sine, m = 2 k > 0 for
    the cosine. From x = 2 on the terms of the cosine would cancel in part; there its Taylor series is used."""
    terms = [(-1) ** (m // 2) / (m * math.factorial(m)) for m in range(1, 33)]
    square, low = x * x, jnp.minimum(x, _CI_START)
    low_square = low * low
    cosine = np.euler_gamma + jnp.log(jnp.where(x > 0, low, 1)) + low_square * horner(low_square, terms[1::2])
    high = jnp.maximum(x, _CI_START) - _CI_CENTRE
    terms_of_high = _ci_terms() if x.dtype == np.float64 else _ci_terms()[:20]
    cosine = jnp.where(x > _CI_START, horner(high, terms_of_high), cosine)
    return x * horner(square, terms[::2]), jnp.where(x > 0, cosine, -np.inf)


@custom_jvp
def _sici(x: Array) -> tuple[Any, Any]:
    size = jnp.abs(x)
    near = size <= _START
    turning = jnp.where(jnp.isfinite(size), size, 0)                # both auxiliary functions are 0 at infinity
    lack, excess = _waves(1 / jnp.maximum(size, _START), 0.0, jnp.sin(turning), jnp.cos(turning))
    sine, cosine = _sici_series(jnp.minimum(size, _START))
    sine = jnp.where(near, sine, 0.5 * math.pi - lack)
    cosine = jnp.where(near, cosine, excess)
    return jnp.copysign(sine, x), jnp.where(x == -np.inf, np.nan, cosine)


@functools.partial(custom_jvp, nondiff_argnums=(1,))
def _sinc(x: Array, n: int) -> Array:
    """The n-th derivative of ``sin(x) / x``. Near 0 it is a series whose terms hardly cancel. Farther out it is
    computed from the derivative of order n - 1 and the n-th derivative of the sine."""
    near = jnp.abs(x) < n + 1
    inside, beyond = jnp.where(near, x, 0), jnp.where(near | jnp.isinf(x), 1, x)
    first = n % 2                                                   # the lowest power
    terms = [(-1) ** k * math.perm(2 * k, n) / math.factorial(2 * k + 1) for k in range((n + 1) // 2, 14 + n)]
    series = horner(inside * inside, terms)
    if first:
        series = inside * series
    wave = (jnp.sin, jnp.cos)[first](beyond) * (1, 1, -1, -1)[n % 4]
    far = (wave - n * _sinc(beyond, n - 1) if n else wave) / beyond
    return jnp.where(near, series, jnp.where(jnp.isinf(x), 0, far))


@_sinc.defjvp
def _sinc_jvp(n: int, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    (x,), (dx,) = primals, tangents
    return _sinc(x, n), dx * _sinc(x, n + 1)


@_sici.defjvp
def _sici_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    (x,), (dx,) = primals, tangents
    turning = jnp.where(jnp.isinf(x), 0, x)
    return _sici(x), (dx * _sinc(x, 0), dx * (jnp.cos(turning) / x))


@library_jit
def sici(x: ArrayLike) -> tuple[Any, Any]:
    """The integrals of ``sin(t) / t`` from 0 to x and of ``cos(t) / t`` from infinity to ``abs(x)``, element-wise.

    Returns: (Si, Ci), floats like x.

    >>> [round(float(y), 4) for y in sici(1.0)]
    [0.9461, 0.3374]
    """
    return of_reals("sici", _sici, x)


# -- Fresnel's integrals ------------------------------------------------------------------------------------------

_FRESNEL_START = 1.6        # where z, which is pi x**2 / 2, is 4.02


@custom_jvp
def _quarter_turns(x: Array) -> tuple[Any, Any]:
    """``sin(pi x**2 / 2)`` and ``cos(pi x**2 / 2)``, exact for large x and near the roots.

    With x = 2 m + f and a whole m, the angle in turns is ``x**2 / 4 = m**2 + m f + f**2 / 4``, of which m**2 is whole
    and ``f**2 / 4`` is a pair of floats. Quarters of a turn are subtracted before the turns become radians.
    """
    x = jnp.where(jnp.isfinite(x), x, 0)
    m = jnp.round(x / 2)
    f = x - 2 * m
    turns = guarded(m * f)                                              # exact
    quarter_square = square_of(f).times(0.25)
    total, lost = sum_of(turns - jnp.round(turns), quarter_square.high)
    quarters = jnp.round(4 * total)
    angle = 2 * math.pi * ((total - 0.25 * quarters) + (lost + quarter_square.low))
    sin, cos, odd = jnp.sin(angle), jnp.cos(angle), quarters - 2 * jnp.round(0.5 * quarters) != 0
    half = quarters - 4 * jnp.round(0.25 * quarters)                    # -2, -1, 0, 1 or 2
    sin, cos = jnp.where(odd, cos, sin), jnp.where(odd, sin, cos)
    return (jnp.where((half < 0) | (half == 2), -sin, sin), jnp.where((half == 1) | (jnp.abs(half) == 2), -cos, cos))


@_quarter_turns.defjvp
def _quarter_turns_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    (x,), (dx,) = primals, tangents
    sin, cos = _quarter_turns(x)
    speed = math.pi * x
    return (sin, cos), (dx * (speed * cos), dx * (-speed * sin))


def _fresnel_series(x: Array) -> tuple[Any, Any]:
    """Power series of both, for 0 <= x <= 1.6: terms ``(pi/2)**k x**(2k+1) / (k! (2k+1))``, alternating in pairs."""
    fourth = jnp.square(jnp.square(x))
    terms = [(math.pi / 2) ** k / (math.factorial(k) * (2 * k + 1)) * (-1) ** (k // 2) for k in range(36)]
    return x ** 3 * horner(fourth, terms[1::2]), x * horner(fourth, terms[::2])


@custom_jvp
def _fresnel(x: Array) -> tuple[Any, Any]:
    size = jnp.abs(x)
    near = size <= _FRESNEL_START
    inverse = 1 / jnp.maximum(size, _FRESNEL_START)
    lack, excess = _waves(2 / math.pi * inverse * inverse, -0.5, *_quarter_turns(size))
    scale = 0.5 / math.sqrt(math.pi) / inverse
    sine, cosine = _fresnel_series(jnp.minimum(size, _FRESNEL_START))
    sine = jnp.where(near, sine, 0.5 - scale * lack)
    cosine = jnp.where(near, cosine, 0.5 + scale * excess)
    sine, cosine = (jnp.copysign(jnp.where(jnp.isinf(size), 0.5, part), x) for part in (sine, cosine))
    return sine, cosine


@_fresnel.defjvp
def _fresnel_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    return _fresnel(*primals), tuple(tangents[0] * part for part in _quarter_turns(*primals))


@library_jit
def fresnel(x: ArrayLike) -> tuple[Any, Any]:
    """Fresnel's integrals of real numbers, element-wise: of ``sin(pi t**2 / 2)`` and ``cos(pi t**2 / 2)`` from 0 to x.

    Returns: (S, C), floats like x.

    >>> [round(float(y), 4) for y in fresnel(1.0)]
    [0.4383, 0.7799]
    """
    return of_reals("fresnel", _fresnel, x)
