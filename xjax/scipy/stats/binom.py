"""The binomial distribution: the number of successes in n trials of probability p.

>>> round(float(pmf(2, 4, 0.5)), 4)
0.375
"""

from __future__ import annotations

from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core.public import attributes_of
from xjax.scipy.special import betaln, xlog1py, xlogy
from xjax.scipy.stats.distribution import FRACTION, NONNEGATIVE, Distribution, of_powers
from xjax.typing import Array, ArrayLike

__all__ = ["logpmf", "pmf"]

_binom = Distribution("binom", n=NONNEGATIVE, p=FRACTION)


@_binom
def logpmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Logarithm of the probability of k; interpolated between integers, as in JAX; -inf outside of [loc, loc + n]."""
    x, outside, log_powers, log_rest = _parts(k, n, p, loc)
    return jnp.where(outside, -np.inf, log_powers + log_rest)


@_binom
def pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Probability of k: ``exp(logpmf(k, n, p, loc))``; 0 outside of [loc, loc + n]."""
    x, outside, _, log_rest = _parts(k, n, p, loc)
    return jnp.where(outside, 0, of_powers(log_rest, p, x, n - x))


def _parts(k: ArrayLike, n: ArrayLike, p: Array, loc: ArrayLike) -> tuple[Any, Any, Any, Any]:
    """(x, outside, log_powers, log_choices): x is 0 where it is outside of the support.

    log_powers is the logarithm of ``p**x (1 - p)**(n - x)``. Where it is 0 the outcome is certain, and log_choices is
    set to 0 without rounding errors.
    """
    x = k - loc
    outside = (x < 0) | (x > n)
    x = jnp.where(outside, 0, x)
    log_powers = xlogy(x, p) + xlog1py(n - x, -p)
    return x, outside, log_powers, jnp.where(log_powers == 0, 0, log_choices(n, x))


def log_choices(n: ArrayLike, k: ArrayLike) -> Array:
    """Logarithm of the number of ways to choose k of n things."""
    return -lax.log1p(n) - betaln(n - k + 1, k + 1)


__getattr__ = attributes_of(__name__)
