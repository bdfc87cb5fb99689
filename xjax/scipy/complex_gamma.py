"""The gamma function of complex numbers and its logarithm.

In the right half-plane they are computed by Stirling's series, for small z after ten steps of
``gamma(z + 1) = z gamma(z)``; in the left half-plane by reflection.
"""

from __future__ import annotations

import math

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.scipy.arguments import horner
from xjax.typing import Array, ArrayLike

_STEPS = 10
# Coefficients of the powers 1, 3, 5 ... of 1 / z in Stirling's series.
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
_LARGE = 20.0                           # for larger abs(z) the series needs no steps, even near the imaginary axis
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def _stirling_tail(z: Array) -> Array:
    inverse = 1 / z
    return inverse * horner(inverse * inverse, _STIRLING)


def _right(z: Array) -> Array:
    """The logarithm for real parts >= 1/2. One logarithm serves two factors: their angles add up to less than pi."""
    near = jnp.abs(z) < _LARGE
    small = jnp.where(near, z, 1)
    factors = lax.full_like(z, 0)
    for k in range(0, _STEPS, 2):
        factors = factors + jnp.log((small + k) * (small + (k + 1)))
    large = jnp.where(near, z + _STEPS, z)
    stirling = (large - 0.5) * jnp.log(large) - large + _HALF_LOG_2PI + _stirling_tail(large)
    return stirling - jnp.where(near, factors, 0)


def _log_sine(z: Array) -> Array:
    """``log(sin(pi z))`` for imaginary parts >= 0, where it is continuous; it is real on (0, 1).

    It uses ``sin(pi z) = (i / 2) exp(-i pi z) (1 - q)`` with ``q = exp(2 i pi z)`` and ``abs(q) <= 1``.
    """
    y = jnp.minimum(jnp.imag(z), 7)     # for larger y, q is below rounding
    off = lax.complex(jnp.real(z) - jnp.round(jnp.real(z)), y)
    rest = jnp.log(-2j * jnp.exp(1j * math.pi * off) * jnp.sin(math.pi * off))
    return rest - math.log(2) + 1j * math.pi * (0.5 - z)


def loggamma_of_complex(z: ArrayLike) -> Array:
    """The logarithm of the gamma function, continuous except across the negative real axis; nan at 0, -1, -2 ..."""
    x, y = jnp.real(z), jnp.imag(z)
    pole = (y == 0) & (x <= 0) & (x == jnp.floor(x)) | jnp.isnan(z)
    safe = jnp.where(pole, 1, z)
    upper = jnp.where(jnp.signbit(y), jnp.conj(safe), safe)             # loggamma(conj(z)) = conj(loggamma(z))
    left = jnp.real(upper) < 0.5
    right = _right(jnp.where(left, 1 - upper, upper))
    reflected = math.log(math.pi) - _log_sine(jnp.where(left, upper, 0.25)) - right
    value = jnp.where(left, reflected, right)
    value = jnp.where(jnp.signbit(y), jnp.conj(value), value)
    return jnp.where(pole, complex(np.nan, np.nan), value)


def gamma_of_complex(z: ArrayLike) -> Array:
    """The gamma function; nan at 0, -1, -2 ..."""
    return jnp.exp(loggamma_of_complex(z))
