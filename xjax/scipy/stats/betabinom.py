"""The beta-binomial distribution: a binomial distribution of n trials whose probability is drawn from ``beta(a, b)``.

>>> round(float(pmf(1, 2, 1.0, 1.0)), 4)
0.3333
"""

from __future__ import annotations

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core.public import attributes_of
from xjax.scipy.special import betaln
from xjax.scipy.stats.binom import log_choices
from xjax.scipy.stats.distribution import NONNEGATIVE, POSITIVE, Distribution
from xjax.typing import Array, ArrayLike

__all__ = ["logpmf", "pmf"]

_betabinom = Distribution("betabinom", n=NONNEGATIVE, a=POSITIVE, b=POSITIVE)


@_betabinom
def logpmf(k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Logarithm of the probability of ``floor(k)``, as in JAX; -inf outside of [loc, loc + n]."""
    x = lax.floor(k) - loc
    outside = (x < 0) | (x > n)
    x = jnp.where(outside, 0, x)
    log_mass = log_choices(n, x) + betaln(x + a, n - x + b) - betaln(a, b)
    return jnp.where(outside, -np.inf, jnp.where((n == 0) & (x == 0), 0, log_mass))


pmf = _betabinom.exp("pmf", logpmf)


__getattr__ = attributes_of(__name__)
