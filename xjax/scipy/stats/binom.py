"""The binomial distribution: how often n trials of probability p succeed.

>>> round(float(pmf(2, 4, 0.5)), 4)
0.375
"""

from __future__ import annotations

from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.scipy.special import betaln, xlog1py, xlogy
from xjax.scipy.stats.distribution import FRACTION, NONNEGATIVE, Distribution

__all__ = ["logpmf", "pmf"]

_binom = Distribution("binom", n=NONNEGATIVE, p=FRACTION)


@_binom
def logpmf(k: Any, n: Any, p: Any, loc: Any = 0) -> Any:
    """Logarithm of the probability of k; interpolated between integers, as in JAX; -inf outside of [loc, loc + n]."""
    x = k - loc
    outside = (x < 0) | (x > n)
    x = jnp.where(outside, 0, x)
    certain = xlogy(x, p) + xlog1py(n - x, -p)
    found = certain + log_choices(n, x)
    return jnp.where(outside, -np.inf, jnp.where(certain == 0, 0, found))


def log_choices(n: Any, k: Any) -> Any:
    """Logarithm of the number of ways to choose k of n things."""
    return -lax.log1p(n) - betaln(n - k + 1, k + 1)


pmf = _binom.exp("pmf", logpmf)
