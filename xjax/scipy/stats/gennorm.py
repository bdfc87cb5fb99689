"""The generalized normal distribution: density ``beta / (2 gamma(1 / beta)) exp(-abs(x)**beta)``.

>>> round(float(pdf(0.0, 2.0)), 4), float(cdf(0.0, 2.0))
(0.5642, 0.5)
"""

from __future__ import annotations

import xjax.numpy as jnp
from xjax import lax
from xjax.core import dtypes
from xjax.core.public import attributes_of
from xjax.scipy.special import gammaincc, gammaln
from xjax.scipy.stats.distribution import POSITIVE, Distribution
from xjax.typing import Array, ArrayLike

__all__ = ["cdf", "logpdf", "pdf"]

_gennorm = Distribution("gennorm", beta=POSITIVE)


@_gennorm
def logpdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """Logarithm of the density at x."""
    return lax.log(0.5 * beta) - gammaln(lax.div(1.0, beta)) - _power(x, beta)


def _power(x: ArrayLike, beta: ArrayLike) -> Array:
    """``abs(x)**beta``, constant where it overflows, so that the functions that vanish there have the slope 0."""
    size = lax.abs(x)
    end = lax.pow(lax.full_like(beta, float(dtypes.finfo(size.dtype).max)), lax.div(1.0, beta))
    return lax.pow(jnp.where(size < end, size, lax.stop_gradient(size)), beta)


@_gennorm
def cdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """Probability of values <= x."""
    tail = 0.5 * gammaincc(lax.div(1.0, beta), _power(x, beta))
    return jnp.where(x < 0, tail, 1 - tail)


pdf = _gennorm.exp("pdf", logpdf)


__getattr__ = attributes_of(__name__)
