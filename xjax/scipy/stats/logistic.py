"""The logistic distribution: ``cdf(x) = 1 / (1 + exp(-z))`` with ``z = (x - loc) / scale``.

>>> float(pdf(0.0)), float(cdf(0.0)), round(float(ppf(0.75)), 4)
(0.25, 0.5, 1.0986)
"""

from __future__ import annotations

import xjax.numpy as jnp
from xjax import lax
from xjax.core.public import attributes_of
from xjax.scipy.special import expit, logit
from xjax.scipy.stats.distribution import NONNEGATIVE, Distribution, standard
from xjax.typing import Array, ArrayLike

__all__ = ["cdf", "isf", "logpdf", "pdf", "ppf", "sf"]

_logistic = Distribution("logistic", scale=NONNEGATIVE)


@_logistic
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density at x."""
    half = 0.5 * standard(x, loc, scale)
    return -2 * jnp.logaddexp(half, -half) - lax.log(scale)


@_logistic
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of values <= x."""
    return expit(standard(x, loc, scale))


@_logistic
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of values > x."""
    return expit(-standard(x, loc, scale))


pdf = _logistic.exp("pdf", logpdf)


@_logistic
def ppf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The value at which `cdf` is x; nan unless 0 <= x <= 1."""
    return loc + scale * logit(x)


@_logistic
def isf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The value at which `sf` is x; nan unless 0 <= x <= 1."""
    return loc - scale * logit(x)


__getattr__ = attributes_of(__name__)
