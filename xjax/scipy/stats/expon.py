"""The exponential distribution: density ``exp(-z) / scale`` for ``z = (x - loc) / scale >= 0``.

>>> float(pdf(0.0)), round(float(cdf(1.0)), 4), round(float(ppf(0.5)), 4)
(1.0, 0.6321, 0.6931)
"""

from __future__ import annotations

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core.public import attributes_of
from xjax.nn.activations import log1mexp
from xjax.scipy.stats.distribution import FRACTION, NONNEGATIVE, Distribution, standard
from xjax.typing import Array, ArrayLike

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

_expon = Distribution("expon", scale=NONNEGATIVE, q=FRACTION)


@_expon
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density at x; -inf below loc."""
    return jnp.where(x < loc, -np.inf, -standard(x, loc, scale) - lax.log(scale))


@_expon
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the probability of values > x."""
    return jnp.where(x < loc, 0, -standard(x, loc, scale))


@_expon
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the probability of values <= x."""
    outside = x < loc
    return jnp.where(outside, -np.inf, log1mexp(jnp.where(outside, 1, standard(x, loc, scale))))


@_expon
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of values <= x."""
    return -lax.expm1(logsf(x, loc, scale))


pdf, sf = _expon.exp("pdf", logpdf), _expon.exp("sf", logsf)


@_expon
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The x at which `cdf` is q; nan unless 0 <= q <= 1."""
    return jnp.subtract(loc, scale * lax.log1p(-q))


__getattr__ = attributes_of(__name__)
