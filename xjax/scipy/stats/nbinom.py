"""The negative binomial distribution: the number of failures before the n-th success, in trials of probability p.

>>> round(float(pmf(1, 2, 0.5)), 4)
0.25
"""

from __future__ import annotations

from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core.public import attributes_of
from xjax.scipy.special import betaln, xlog1py, xlogy
from xjax.scipy.stats.distribution import FRACTION, POSITIVE, Distribution, of_powers
from xjax.typing import Array, ArrayLike

__all__ = ["logpmf", "pmf"]

_nbinom = Distribution("nbinom", n=POSITIVE, p=FRACTION)


@_nbinom
def logpmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Logarithm of the probability of k; interpolated between integers, as in JAX; -inf for k < loc."""
    x, n, outside, log_count = _parts(k, n, loc)
    return jnp.where(outside, -np.inf, log_count + xlogy(n, p) + xlog1py(x, -p))


@_nbinom
def pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Probability of k: ``exp(logpmf(k, n, p, loc))``; 0 for k < loc."""
    x, n, outside, log_count = _parts(k, n, loc)
    return jnp.where(outside, 0, of_powers(log_count, p, n, x))


def _parts(k: ArrayLike, n: ArrayLike, loc: ArrayLike) -> tuple[Any, Any, Any, Any]:
    """(x, n, outside, log_count): x is 0 and n is 1 where x is outside of the support.

    log_count is the logarithm of the number of orders of the trials.
    """
    x = k - loc
    outside = (x < 0) | (x == np.inf)
    x, n = jnp.where(outside, 0, x), jnp.where(outside, 1, n)
    return x, n, outside, -lax.log(n + x) - betaln(n, x + 1)


__getattr__ = attributes_of(__name__)
