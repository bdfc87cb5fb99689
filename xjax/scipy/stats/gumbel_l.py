"""The Gumbel distribution of minima, the mirror image of `gumbel_r`: ``sf(x) = exp(-exp(z))``.

Here ``z = (x - loc) / scale``.

>>> round(float(pdf(0.0)), 4), round(float(cdf(0.0)), 4), float(logcdf(-200.0))
(0.3679, 0.6321, -200.0)
"""

from __future__ import annotations

import xjax.numpy as jnp
from xjax import lax
from xjax.core.public import attributes_of
from xjax.scipy.stats import gumbel_r
from xjax.scipy.stats.distribution import FRACTION, POSITIVE, Distribution, mirrored
from xjax.typing import Array, ArrayLike

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

_gumbel_l = Distribution("gumbel_l", scale=POSITIVE, p=FRACTION)

pdf = mirrored(_gumbel_l, "pdf", gumbel_r.pdf, "Density at x.")
logpdf = mirrored(_gumbel_l, "logpdf", gumbel_r.logpdf, "Logarithm of the density at x.")
cdf = mirrored(_gumbel_l, "cdf", gumbel_r.sf, "Probability of values <= x.")
logcdf = mirrored(_gumbel_l, "logcdf", gumbel_r.logsf, "Logarithm of the probability of values <= x.")
sf = mirrored(_gumbel_l, "sf", gumbel_r.cdf, "Probability of values > x.")
logsf = mirrored(_gumbel_l, "logsf", gumbel_r.logcdf, "Logarithm of the probability of values > x.")


@_gumbel_l
def ppf(p: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The x at which `cdf` is p: -inf at 0, inf at 1, nan outside of [0, 1]."""
    return jnp.add(loc, scale * lax.log(-lax.log1p(-p)))


__getattr__ = attributes_of(__name__)
