"""The error function of complex numbers and the integrals that follow from it: wofz, erfcx, dawsn, fresnel.

All rest on ``w(z) = exp(-z**2) erfc(-i z) = (i / pi) * integral of exp(-t**2) / (z - t) over the real line``, which the
trapezoidal rule gives to rounding with a dozen nodes on each side once the residue at the pole t = z is put back
(Al Azah and Chandler-Wilde 2021). Of two sets of nodes, the multiples of the step and those in the middle between
them, each element takes the one that stays away from its z.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core import dtypes
from xjax.runtime.jit import jit
from xjax.scipy.arguments import floats, horner, of_reals
from xjax.transforms.custom_jvp import custom_jvp

_FAR = 1e8                              # from here on the first term of the asymptotic series is all


class _Rule(NamedTuple):
    """A trapezoidal rule: its step, and (square of the node, weight) of the nodes t >= 0 of both sets."""

    step: float
    multiples: list[tuple[float, float]]
    between: list[tuple[float, float]]


def _rule(dtype: np.dtype) -> _Rule:
    """As exact as real or complex numbers of this type: 12 nodes are for double precision, 7 for single."""
    count = 7 if dtype in (np.float32, np.complex64) else 12
    step = math.sqrt(math.pi / count)   # the two errors, of the step and of the end of the sum, are then equal

    def nodes(first: float) -> list[tuple[float, float]]:
        squares = [((first + k) * step) ** 2 for k in range(count)]
        return [(square, math.exp(-square) * (1.0 if square else 0.5)) for square in squares]
    return _Rule(step, nodes(0.0), nodes(0.5))


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
        share = jnp.where(is_between, number(c * weight_between), number(c * weight)) / (gap * gap + im * im)
        real, imaginary = real + share * gap, imaginary - share * im
    return real, imaginary


def _upper_quadrant(z: Any) -> Any:
    """w(z) where real and imaginary part are >= 0."""
    x, y = jnp.real(z), jnp.imag(z)
    rule = _rule(z.dtype)
    far, pole = (x > _FAR) | (y > _FAR), y < math.pi / rule.step    # above, the residue is below rounding
    near = jnp.where(far, 1, z)
    is_between, square = _is_between(jnp.real(near), rule.step), near * near
    total = lax.complex(*_trapezoid(jnp.real(square), jnp.imag(square), is_between, rule))
    inside = jnp.where(pole & ~far, z, 1)
    turn = jnp.exp((-2j * math.pi / rule.step) * inside)
    residue = 2 * jnp.exp(-inside * inside) / (1 - jnp.where(is_between, -turn, turn))
    value = 1j * total * near + jnp.where(pole, residue, 0)
    return jnp.where(far, 1j / math.sqrt(math.pi) / jnp.where(far, z, 1), value)


@custom_jvp
def _wofz(z: Any) -> Any:
    """w(z) from the first quadrant: ``w(-conj(z)) = conj(w(z))`` and ``w(-z) = 2 exp(-z**2) - w(z)``."""
    x, y = jnp.real(z), jnp.imag(z)
    value = _upper_quadrant(lax.complex(jnp.abs(x), jnp.abs(y)))
    below, mirrored = jnp.signbit(y), jnp.signbit(x) != jnp.signbit(y)
    value = jnp.where(mirrored, jnp.conj(value), value)
    value = jnp.where(below, 2 * jnp.exp(-jnp.where(below, z * z, 0)) - value, value)
    return jnp.where(jnp.isnan(z), complex(math.nan, math.nan), value)


_wofz.defjvps(lambda dz, w, z: dz * (2j / math.sqrt(math.pi) - 2 * z * w))


@jit
def wofz(z: Any) -> Any:
    """Faddeeva's function ``exp(-z**2) * erfc(-i z)``, element-wise.  z: real or complex numbers -> complex.

    >>> round(float(wofz(1j).real), 4)
    0.4276
    """
    z, = floats("wofz", z)
    return _wofz(lax.convert_element_type(z, dtypes.to_complex_dtype(z.dtype)))


@custom_jvp
def _erfcx(x: Any) -> Any:
    start = 10.0 if x.dtype == np.float64 else 4.0
    near, far = jnp.minimum(x, start), jnp.maximum(x, start)
    ratio, series = 0.5 / (far * far), lax.full_like(x, 1)
    for k in range(12, 0, -1):                      # 1 - 1 r + 1 3 r**2 - 1 3 5 r**3 ..., from the inside
        series = 1 - (2 * k - 1) * ratio * series
    return jnp.where(x < start, jnp.exp(near * near) * lax.erfc(near), series / (far * math.sqrt(math.pi)))


_erfcx.defjvps(lambda dx, y, x: dx * (2 * x * y - 2 / math.sqrt(math.pi)))


@jit
def erfcx(x: Any) -> Any:
    """``exp(x**2) * erfc(x)`` of real or complex numbers, element-wise, also where that is 0 times infinity."""
    x, = floats("erfcx", x)
    if dtypes.is_complex(x.dtype):
        return _wofz(lax.complex(-jnp.imag(x), jnp.real(x)))
    return of_reals("erfcx", _erfcx, x)


# -- Dawson's integral --------------------------------------------------------------------------------------------

_DAWSON_TERMS = 1 / np.cumprod(np.arange(1.0, 30, 2))           # 1 / (1 * 3 * 5 ...)


def _tangent(x: Any) -> Any:
    """The tangent up to pi / 4, by Lambert's continued fraction ``x / (1 - x**2 / (3 - x**2 / (5 - ...)))``."""
    square = x * x
    above = horner(square, (34459425.0, -4729725.0, 135135.0, -990.0, 1.0))
    return x * above / horner(square, (34459425.0, -16216200.0, 945945.0, -13860.0, 45.0))


@custom_jvp
def _dawsn(x: Any) -> Any:
    """Half of ``sqrt(pi)`` times the imaginary part of w on the real line, where the residue is a tangent."""
    size = jnp.abs(x)
    near, rule = jnp.minimum(size, _FAR), _rule(x.dtype)
    is_between, square = _is_between(near, rule.step), near * near
    total, _ = _trapezoid(square, lax.full_like(square, 0), is_between, rule)
    turns = near / rule.step - jnp.where(is_between, x.dtype.type(0), x.dtype.type(0.5))
    residue = jnp.exp(-square) * _tangent(math.pi * (turns - jnp.round(turns)))
    value = 0.5 * math.sqrt(math.pi) * (near * total + residue)
    # Below, the two would cancel in part; the power series does not.
    small = jnp.minimum(size, 0.5)
    value = jnp.where(size < 0.5, small * horner(-2 * small * small, _DAWSON_TERMS), value)
    return jnp.copysign(jnp.where(size > _FAR, 0.5 / jnp.maximum(size, _FAR), value), x)


_dawsn.defjvps(lambda dx, y, x: dx * (1 - 2 * x * y))


@jit
def dawsn(x: Any) -> Any:
    """Dawson's integral of real numbers, element-wise: ``exp(-x**2)`` times the integral of ``exp(t**2)`` from 0 to x.

    >>> round(float(dawsn(1.0)), 4)
    0.5381
    """
    return of_reals("dawsn", _dawsn, x)


# -- Fresnel's integrals ------------------------------------------------------------------------------------------

def _quarter_turns(x: Any) -> tuple[Any, Any]:
    """``sin(pi x**2 / 2)`` and ``cos(pi x**2 / 2)``, exact for large x.

    With x = 2 m + f, of which m is whole, ``x**2 / 4`` is a whole number and ``m f + f**2 / 4``.
    """
    x = jnp.where(jnp.isfinite(x), x, 0)
    m = jnp.round(x / 2)
    f = x - 2 * m
    turns = m * f
    angle = 2 * math.pi * (turns - jnp.round(turns) + f * f / 4)
    return jnp.sin(angle), jnp.cos(angle)


def _fresnel_series(x: Any) -> tuple[Any, Any]:
    """Power series of both, for 0 <= x <= 1.6: terms ``(pi/2)**k x**(2k+1) / (k! (2k+1))``, alternating in pairs."""
    fourth = jnp.square(jnp.square(x))
    terms = [(math.pi / 2) ** k / (math.factorial(k) * (2 * k + 1)) * (-1) ** (k // 2) for k in range(36)]
    return x ** 3 * horner(fourth, terms[1::2]), x * horner(fourth, terms[::2])


@custom_jvp
def _fresnel(x: Any) -> tuple[Any, Any]:
    """``C + i S = (1 + i) / 2 * erf((1 - i) sqrt(pi) / 2 * x)``."""
    size = jnp.abs(x)
    sine, cosine = _quarter_turns(size)
    ray = 0.5 * math.sqrt(math.pi) * jnp.maximum(size, 1.6)
    rest = (0.5 + 0.5j) * (1 - lax.complex(cosine, sine) * _upper_quadrant(lax.complex(ray, ray)))
    near = size <= 1.6
    found = [jnp.where(near, series, part) for series, part in zip(
        _fresnel_series(jnp.minimum(size, 1.6)), (jnp.imag(rest), jnp.real(rest)), strict=True)]
    return tuple(jnp.copysign(jnp.where(jnp.isinf(size), 0.5, part), x) for part in found)


@_fresnel.defjvp
def _fresnel_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    return _fresnel(*primals), tuple(tangents[0] * part for part in _quarter_turns(*primals))


@jit
def fresnel(x: Any) -> tuple[Any, Any]:
    """Fresnel's integrals of real numbers, element-wise: of ``sin(pi t**2 / 2)`` and ``cos(pi t**2 / 2)`` from 0 to x.

    Returns: (S, C), floats like x.

    >>> [round(float(y), 4) for y in fresnel(1.0)]
    [0.4383, 0.7799]
    """
    return of_reals("fresnel", _fresnel, x)
