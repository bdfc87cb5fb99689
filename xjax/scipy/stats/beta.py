"""The beta distribution: density ``z**(a - 1) (1 - z)**(b - 1) / (beta(a, b) scale)`` for z in [0, 1].

Here ``z = (x - loc) / scale``. Like `scipy.special.betainc`, the probabilities have no derivative in a and b.

>>> round(float(pdf(0.5, 2.0, 3.0)), 4), round(float(cdf(0.5, 2.0, 3.0)), 4)
(1.5, 0.6875)
"""

from __future__ import annotations

from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core.public import attributes_of
from xjax.scipy.special import betainc, betaln, xlog1py, xlogy
from xjax.scipy.stats.distribution import POSITIVE, Distribution, standard
from xjax.typing import Array, ArrayLike

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]

_beta = Distribution("beta", a=POSITIVE, b=POSITIVE, scale=POSITIVE)


@_beta
def logpdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density at x; -inf outside of [loc, loc + scale]."""
    outside = (x < loc) | (x > loc + scale)
    z = jnp.where(outside, 0.5, standard(x, loc, scale))
    return jnp.where(outside, -np.inf, xlogy(a - 1, z) + xlog1py(b - 1, -z) - betaln(a, b) - lax.log(scale))


@_beta
def cdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of values <= x."""
    z, below, above = _inside(x, loc, scale)
    return jnp.where(below, 0, jnp.where(above, 1, betainc(a, b, z)))


@_beta
def sf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of values > x."""
    z, below, above = _inside(x, loc, scale)
    low = z < a / (a + b)                   # compared with the mean: below it 1 - cdf is exact, above it 1 - z is
    mass = betainc(jnp.where(low, a, b), jnp.where(low, b, a), jnp.where(low, z, 1 - z))
    return jnp.where(below, 1, jnp.where(above, 0, jnp.where(low, 1 - mass, mass)))


def _inside(x: ArrayLike, loc: ArrayLike, scale: ArrayLike) -> tuple[Any, Any, Any]:
    """z, replaced by 0.5 where it is outside of [0, 1]; whether it is below; whether it is above."""
    z = standard(x, loc, scale)
    below, above = z < 0, z > 1
    return jnp.where(below | above, 0.5, z), below, above


pdf = _beta.exp("pdf", logpdf)
logcdf, logsf = _beta.log("logcdf", cdf), _beta.log("logsf", sf)


__getattr__ = attributes_of(__name__)
