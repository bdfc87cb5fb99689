"""The gamma distribution: density ``z**(a - 1) exp(-z) / (gamma(a) scale)`` for ``z = (x - loc) / scale >= 0``.

>>> round(float(pdf(1.0, 2.0)), 4), round(float(cdf(1.0, 2.0)), 4), float(sf(50.0, 1.0))
(0.3679, 0.2642, 1.92...e-22)
"""

from __future__ import annotations

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core.public import attributes_of
from xjax.scipy.special import gammainc, gammaincc, gammaln, xlogy
from xjax.scipy.stats.distribution import NONNEGATIVE, POSITIVE, Distribution, standard
from xjax.typing import Array, ArrayLike

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]

_gamma = Distribution("gamma", a=POSITIVE, scale=NONNEGATIVE)


@_gamma
def logpdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density at x; -inf below loc."""
    outside = x < loc
    z = jnp.where(outside, 1, standard(x, loc, scale))
    log_density = xlogy(a - 1, z) - z - gammaln(a) - lax.log(scale)
    return jnp.where(outside | (z == np.inf), -np.inf, log_density)


def _inside(z: Array) -> Array:
    """`z`, replaced where it is <= 0 by 0.5, for which the incomplete function needs few terms."""
    return jnp.where(z <= 0, 0.5, z)


@_gamma
def cdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of values <= x."""
    z = standard(x, loc, scale)
    return jnp.where(z <= 0, 0, gammainc(a, _inside(z)))


@_gamma
def sf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of values > x."""
    z = standard(x, loc, scale)
    return jnp.where(z <= 0, 1, gammaincc(a, _inside(z)))


pdf = _gamma.exp("pdf", logpdf)
logcdf, logsf = _gamma.log("logcdf", cdf), _gamma.log("logsf", sf)


__getattr__ = attributes_of(__name__)
