"""The Gumbel distribution of maxima: ``cdf(x) = exp(-exp(-z))`` with ``z = (x - loc) / scale``.

>>> round(float(pdf(0.0)), 4), round(float(cdf(0.0)), 4), float(logsf(200.0))
(0.3679, 0.3679, -200.0)
"""

from __future__ import annotations

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core.public import attributes_of
from xjax.nn.activations import log1mexp
from xjax.scipy.stats.distribution import FRACTION, POSITIVE, Distribution, standard
from xjax.typing import Array, ArrayLike

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

_gumbel_r = Distribution("gumbel_r", scale=POSITIVE, p=FRACTION)
# For larger z, ``log(1 - exp(-exp(-z)))`` is its series ``-z - exp(-z) / 2``, in which exp(-z) may underflow.
_FAR = 15
_BEYOND = 1000                          # below -_BEYOND ``exp(-z)`` overflows
_FLAT = 50                              # below -_FLAT ``exp(-exp(-z))`` is 0 with all its derivatives


@_gumbel_r
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density at x."""
    z = standard(x, loc, scale)
    # z is bounded below: where the exponential overflows, XLA might otherwise add z before rounding it to infinity.
    return -(jnp.maximum(z, -_BEYOND) + lax.exp(-z)) - lax.log(scale)


@_gumbel_r
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the probability of values <= x."""
    return -lax.exp(-standard(x, loc, scale))


def _growth(z: Array) -> Array:
    """``exp(-z)``, constant where it may overflow, so that the functions that vanish there have the slope 0."""
    return lax.exp(-jnp.maximum(z, -_FLAT))


@_gumbel_r
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density at x."""
    z = standard(x, loc, scale)
    z = jnp.where(z == np.inf, np.inf, z)                   # slope 0 at infinity
    return lax.exp(-(jnp.maximum(z, -_FLAT) + _growth(z))) / scale


@_gumbel_r
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of values <= x."""
    return lax.exp(-_growth(standard(x, loc, scale)))


@_gumbel_r
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of values > x."""
    return -lax.expm1(-_growth(standard(x, loc, scale)))


@_gumbel_r
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the probability of values > x, also where that is too small for a float."""
    z = standard(x, loc, scale)
    beyond = z > _FAR
    near, far = log1mexp(_growth(jnp.where(beyond, _FAR, z))), jnp.where(beyond, z, _FAR)
    return jnp.where(beyond, -far - 0.5 * lax.exp(-far), near)


@_gumbel_r
def ppf(p: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The x at which `cdf` is p: -inf at 0, inf at 1, nan outside of [0, 1]."""
    return jnp.subtract(loc, scale * lax.log(-lax.log(p)))


__getattr__ = attributes_of(__name__)
