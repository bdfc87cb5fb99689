"""The chi-squared distribution with df degrees of freedom: the gamma distribution with a = df / 2 and twice the scale.

>>> round(float(pdf(2.0, 2.0)), 4), round(float(cdf(3.84, 1.0)), 2)
(0.1839, 0.95)
"""

from __future__ import annotations

from collections.abc import Callable

from xjax.core.public import attributes_of
from xjax.scipy.stats import gamma
from xjax.scipy.stats.distribution import NONNEGATIVE, POSITIVE, Distribution
from xjax.typing import Array, ArrayLike

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]

_chi2 = Distribution("chi2", df=POSITIVE, scale=NONNEGATIVE)


def _as_gamma(name: str) -> Callable:
    of_gamma = getattr(gamma, name)

    def function(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
        return of_gamma(x, 0.5 * df, loc, 2 * scale)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = of_gamma.__doc__
    return _chi2(function)


pdf, cdf, sf = _as_gamma("pdf"), _as_gamma("cdf"), _as_gamma("sf")
logpdf, logcdf, logsf = _as_gamma("logpdf"), _as_gamma("logcdf"), _as_gamma("logsf")


__getattr__ = attributes_of(__name__)
