"""The geometric distribution: the number, from 1, of the first successful trial, each of probability p.

>>> round(float(pmf(2, 0.25)), 4)
0.1875
"""

from __future__ import annotations

from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core.public import attributes_of
from xjax.scipy.special import xlog1py
from xjax.scipy.stats.distribution import FRACTION, Distribution, of_powers
from xjax.typing import Array, ArrayLike

__all__ = ["logpmf", "pmf"]

_geom = Distribution("geom", p=FRACTION)


@_geom
def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Logarithm of the probability of k; interpolated between integers, as in JAX; -inf for k < loc + 1."""
    fails, outside = _fails(k - loc)
    return jnp.where(outside, -np.inf, xlog1py(fails, -p) + lax.log(p))


@_geom
def pmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Probability of k: ``exp(logpmf(k, p, loc))``; 0 for k < loc + 1."""
    fails, outside = _fails(k - loc)
    return jnp.where(outside, 0, of_powers(0.0, p, 1.0, fails))


def _fails(x: ArrayLike) -> tuple[Any, Any]:
    """The number of failures, 0 where x is outside of the support; whether x is outside."""
    outside = (x < 1) | (x == np.inf)
    return jnp.where(outside, 0, x - 1), outside


__getattr__ = attributes_of(__name__)
