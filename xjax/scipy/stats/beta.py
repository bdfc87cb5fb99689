"""The beta distribution: density ``z**(a - 1) (1 - z)**(b - 1) / (beta(a, b) scale)`` for z in [0, 1].

Here ``z = (x - loc) / scale``. As `scipy.special.betainc`, the probabilities have no derivative in a and b.

>>> round(float(pdf(0.5, 2.0, 3.0)), 4), round(float(cdf(0.5, 2.0, 3.0)), 4)
(1.5, 0.6875)
"""

from __future__ import annotations

from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.scipy.special import betainc, betaln, xlog1py, xlogy
from xjax.scipy.stats.distribution import POSITIVE, Distribution, standard

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]

_beta = Distribution("beta", a=POSITIVE, b=POSITIVE, scale=POSITIVE)


@_beta
def logpdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the density at x; -inf outside of [loc, loc + scale]."""
    outside = (x < loc) | (x > loc + scale)
    z = jnp.where(outside, 0.5, standard(x, loc, scale))
    return jnp.where(outside, -np.inf, xlogy(a - 1, z) + xlog1py(b - 1, -z) - betaln(a, b) - lax.log(scale))


@_beta
def cdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Probability of values <= x."""
    return betainc(a, b, _clipped(x, loc, scale))


@_beta
def sf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Probability of values > x."""
    z = _clipped(x, loc, scale)
    below = z < a / (a + b)                         # the mean: below it 1 - cdf is exact, above it 1 - z is
    found = betainc(jnp.where(below, a, b), jnp.where(below, b, a), jnp.where(below, z, 1 - z))
    return jnp.where(below, 1 - found, found)


def _clipped(x: Any, loc: Any, scale: Any) -> Any:
    return jnp.clip(standard(x, loc, scale), 0, 1)


pdf = _beta.exp("pdf", logpdf)
logcdf, logsf = _beta.log("logcdf", cdf), _beta.log("logsf", sf)
