"""The Bernoulli distribution: probability p of 1, 1 - p of 0.

>>> round(float(pmf(1, 0.25)), 4), float(cdf(0, 0.25)), float(ppf(0.9, 0.25))
(0.25, 0.75, 1.0)
"""

from __future__ import annotations

import numpy as np

import xjax.numpy as jnp
from xjax.core.public import attributes_of
from xjax.scipy.special import xlog1py, xlogy
from xjax.scipy.stats.distribution import FRACTION, Distribution, of_powers
from xjax.typing import Array, ArrayLike

__all__ = ["cdf", "logpmf", "pmf", "ppf"]

_bernoulli = Distribution("bernoulli", p=FRACTION, q=FRACTION)


@_bernoulli
def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Logarithm of the probability of k; linear between loc and loc + 1, as in JAX; -inf outside."""
    x = k - loc
    return jnp.where((x < 0) | (x > 1), -np.inf, xlogy(x, p) + xlog1py(1 - x, -p))


@_bernoulli
def pmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Probability of k: ``exp(logpmf(k, p, loc))``; 0 outside of [loc, loc + 1]."""
    x = k - loc
    outside = (x < 0) | (x > 1)
    x = jnp.where(outside, 0, x)
    return jnp.where(outside, 0, of_powers(0.0, p, x, 1 - x))


@_bernoulli
def cdf(k: ArrayLike, p: ArrayLike) -> Array:
    """Probability of values <= k."""
    return jnp.where(k != k, np.nan, jnp.where(k < 0, 0, jnp.where(k < 1, 1 - p, 1)))


@_bernoulli
def ppf(q: ArrayLike, p: ArrayLike) -> Array:
    """The least k, 0 or 1, with ``cdf(k) >= q``; nan unless 0 <= q <= 1."""
    return jnp.where((q <= 1 - p) & ((q < 1) | (p <= 0)), jnp.zeros_like(q), 1)         # 1 - p may round to 1


__getattr__ = attributes_of(__name__)
