"""The generalized normal distribution: density ``beta / (2 gamma(1 / beta)) exp(-abs(x)**beta)``.

>>> round(float(pdf(0.0, 2.0)), 4), float(cdf(0.0, 2.0))
(0.5642, 0.5)
"""

from __future__ import annotations

from typing import Any

import xjax.numpy as jnp
from xjax import lax
from xjax.scipy.special import gammaincc, gammaln
from xjax.scipy.stats.distribution import POSITIVE, Distribution

__all__ = ["cdf", "logpdf", "pdf"]

_gennorm = Distribution("gennorm", beta=POSITIVE)


@_gennorm
def logpdf(x: Any, beta: Any) -> Any:
    """Logarithm of the density at x."""
    return lax.log(0.5 * beta) - gammaln(lax.div(1.0, beta)) - lax.pow(lax.abs(x), beta)


@_gennorm
def cdf(x: Any, beta: Any) -> Any:
    """Probability of values <= x."""
    tail = 0.5 * gammaincc(lax.div(1.0, beta), lax.pow(lax.abs(x), beta))
    return jnp.where(x < 0, tail, 1 - tail)


pdf = _gennorm.exp("pdf", logpdf)
