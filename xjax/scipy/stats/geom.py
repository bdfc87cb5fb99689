"""The geometric distribution: at which trial of probability p the first success is, from 1.

>>> round(float(pmf(2, 0.25)), 4)
0.1875
"""

from __future__ import annotations

from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.scipy.special import xlog1py
from xjax.scipy.stats.distribution import FRACTION, Distribution

__all__ = ["logpmf", "pmf"]

_geom = Distribution("geom", p=FRACTION)


@_geom
def logpmf(k: Any, p: Any, loc: Any = 0) -> Any:
    """Logarithm of the probability of k; interpolated between integers, as in JAX; -inf for k <= loc."""
    x = k - loc
    return jnp.where(x <= 0, -np.inf, xlog1py(x - 1, -p) + lax.log(p))


pmf = _geom.exp("pmf", logpmf)
