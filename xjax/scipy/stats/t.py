"""Student's t distribution with df degrees of freedom: density proportional to ``(1 + z**2 / df)**(-(df + 1) / 2)``.

Here ``z = (x - loc) / scale``. The density is that of ``abs(scale)`` where the scale is negative, as in JAX.

>>> round(float(pdf(0.0, 1.0)), 4), round(float(logpdf(1.0, 30.0)), 4)
(0.3183, -1.4355)
"""

from __future__ import annotations

from typing import Any

from xjax import lax
from xjax.scipy.special import betaln
from xjax.scipy.stats.distribution import POSITIVE, Distribution, log1p_square, standard

__all__ = ["logpdf", "pdf"]

_t = Distribution("t", df=POSITIVE)


@_t
def logpdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the density at x."""
    z, root = standard(x, loc, scale), lax.sqrt(df)
    constant = -betaln(0.5 * df, 0.5) - lax.log(root) - lax.log(lax.abs(scale))
    return constant - 0.5 * (df + 1) * log1p_square(lax.div(z, root))


pdf = _t.exp("pdf", logpdf)
