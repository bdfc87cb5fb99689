"""The logistic distribution: ``cdf(x) = 1 / (1 + exp(-z))`` with ``z = (x - loc) / scale``.

>>> float(pdf(0.0)), float(cdf(0.0)), round(float(ppf(0.75)), 4)
(0.25, 0.5, 1.0986)
"""

from __future__ import annotations

from typing import Any

import xjax.numpy as jnp
from xjax import lax
from xjax.scipy.special import expit, logit
from xjax.scipy.stats.distribution import NONNEGATIVE, Distribution, standard

__all__ = ["cdf", "isf", "logpdf", "pdf", "ppf", "sf"]

_logistic = Distribution("logistic", scale=NONNEGATIVE)


@_logistic
def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the density at x."""
    half = 0.5 * standard(x, loc, scale)
    return -2 * jnp.logaddexp(half, -half) - lax.log(scale)


@_logistic
def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Probability of values <= x."""
    return expit(standard(x, loc, scale))


@_logistic
def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Probability of values > x."""
    return expit(-standard(x, loc, scale))


pdf = _logistic.exp("pdf", logpdf)


@_logistic
def ppf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The value at which `cdf` is x; nan unless 0 <= x <= 1."""
    return loc + scale * logit(x)


@_logistic
def isf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The value at which `sf` is x; nan unless 0 <= x <= 1."""
    return loc - scale * logit(x)
