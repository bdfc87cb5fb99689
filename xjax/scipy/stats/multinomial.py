"""The multinomial distribution: how often each of several outcomes occurs in n trials.

>>> round(float(pmf(np.array([1, 2, 1]), 4, np.array([0.25, 0.5, 0.25]))), 4)
0.1875
"""

from __future__ import annotations

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.public import attributes_of
from xjax.core.types import typeof
from xjax.numpy.promote import promote_inexact, promote_numeric
from xjax.runtime.one_launch import one_launch
from xjax.scipy.special import gammaln, xlogy
from xjax.typing import Array, ArrayLike

__all__ = ["logpmf", "pmf"]


@one_launch(arrays=3)
def logpmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """Logarithm of the probability of the counts x; -inf where they do not add up to n.

    Args: x: int[..., k]; n: int[...]; p: float[..., k], the probability of each outcome.
    Raises: ValueError unless the dtypes of x and n are integers.
    """
    caller = "scipy.stats.multinomial.logpmf"
    p, = promote_inexact(caller, p)
    x, n = promote_numeric(caller, x, n)
    if not dtypes.is_int(typeof(x).dtype):
        raise bad(caller, "the counts must be integers", given={"x": typeof(x), "n": typeof(n)},
                  fix="convert them with x.astype('int32').", exc=ValueError)
    dtype = typeof(p).dtype
    counts, trials = jnp.asarray(x, dtype), jnp.asarray(n, dtype)
    log_mass = gammaln(trials + 1) + jnp.sum(xlogy(counts, p) - gammaln(counts + 1), -1)
    drawn = jnp.sum(x, -1)
    return jnp.where(jnp.equal(drawn, jnp.asarray(n, drawn.dtype)), log_mass, -np.inf)


@one_launch(arrays=3)
def pmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """Probability of the counts x: ``exp(logpmf(x, n, p))``."""
    return lax.exp(logpmf(x, n, p))


__getattr__ = attributes_of(__name__)
