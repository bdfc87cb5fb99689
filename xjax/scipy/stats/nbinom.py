"""The negative binomial distribution: how many trials of probability p fail before the n-th success.

>>> round(float(pmf(1, 2, 0.5)), 4)
0.25
"""

from __future__ import annotations

from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.scipy.special import betaln, xlog1py, xlogy
from xjax.scipy.stats.distribution import FRACTION, POSITIVE, Distribution

__all__ = ["logpmf", "pmf"]

_nbinom = Distribution("nbinom", n=POSITIVE, p=FRACTION)


@_nbinom
def logpmf(k: Any, n: Any, p: Any, loc: Any = 0) -> Any:
    """Logarithm of the probability of k; interpolated between integers, as in JAX; -inf for k < loc."""
    x = k - loc
    outside = x < 0
    x = jnp.where(outside, 0, x)
    log_count = -lax.log(n + x) - betaln(n, x + 1)
    return jnp.where(outside, -np.inf, log_count + xlogy(n, p) + xlog1py(x, -p))


pmf = _nbinom.exp("pmf", logpmf)
