"""The normal distribution function, its logarithm and inverse."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core.errors import bad
from xjax.ops.checks import static_int
from xjax.runtime.jit import jit
from xjax.scipy.arguments import single_or_double
from xjax.scipy.error_functions import erfcx
from xjax.transforms.custom_jvp import custom_jvp

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def _is_double(x: Any) -> bool:
    return x.dtype == np.float64


@jit
def ndtr(x: Any) -> Any:
    """Distribution function of the standard normal distribution, element-wise, exact where it is small.

    Raises: TypeError unless x is (or, as an integer, becomes) a float of 32 or 64 bits.
    """
    x, = single_or_double("ndtr", x)
    return lax.erfc(-x * math.sqrt(0.5)) * 0.5


@functools.partial(custom_jvp, nondiff_argnums=(1,))
def log_ndtr(x: Any, series_order: int = 3) -> Any:
    """Logarithm of `ndtr`, element-wise, also where that is 0 or 1.

    Args: series_order: how many terms of the asymptotic series are taken far below 0, from 0 to 30; 12 at the least.
    Raises: TypeError or ValueError for another series_order; TypeError unless x is a float of 32 or 64 bits.
    """
    order = static_int(series_order, "series_order", "scipy.special.log_ndtr")
    if not 0 <= order <= 30:
        raise bad("scipy.special.log_ndtr", "`series_order` is out of range", given={"series_order": str(order)},
                  fix="use a value from 0 to 30.", exc=ValueError)
    return _log_ndtr(x, order)


@functools.partial(jit, static_argnums=1)
def _log_ndtr(x: Any, order: int) -> Any:
    x, = single_or_double("log_ndtr", x)
    start = -30.0 if _is_double(x) else -10.0       # below, erfc would leave the normal numbers
    far = lax.min(x, lax.full_like(x, start))
    term, series = lax.full_like(x, 1), lax.full_like(x, 1)
    for k in range(max(order, 12)):
        term = term * (-(2 * k + 1) / (far * far))
        series = series + term
    below = -0.5 * far * far - lax.log(-far) - _HALF_LOG_2PI + lax.log(series)
    middle = lax.log(ndtr(lax.clamp(x.dtype.type(start), x, x.dtype.type(0))))
    above = lax.log1p(-ndtr(-lax.max(x, lax.full_like(x, 0))))
    return jnp.where(x < start, below, jnp.where(x > 0, above, middle))


@log_ndtr.defjvp
def _log_ndtr_jvp(series_order: int, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    (x,), (dx,) = primals, tangents
    y = log_ndtr(x, series_order)
    # exp(-x ** 2 / 2) / sqrt(2 pi) / ndtr(x); far below 0 both are 0, their quotient, in erfcx, is not
    return y, dx * math.sqrt(2 / math.pi) / erfcx(-x / math.sqrt(2))


@custom_jvp
@jit
def ndtri(p: Any) -> Any:
    """Inverse of `ndtr`, element-wise: -inf at 0, inf at 1, nan outside of [0, 1].

    Raises: TypeError unless p is (or, as an integer, becomes) a float of 32 or 64 bits.
    """
    p, = single_or_double("ndtri", p)
    tail = lax.min(p, 1 - p)
    log_tail = lax.log(jnp.where((tail > 0) & (tail < 0.1), tail, 0.1))
    # Newton's method on the logarithm of the tail, which is nearly a parabola.
    x = -jnp.sqrt(-2 * log_tail - lax.log(-4 * math.pi * log_tail))
    for _ in range(5):
        y = _log_ndtr(x, 12)
        x = x - (y - log_tail) * lax.exp(y + 0.5 * x * x + _HALF_LOG_2PI)
    middle = math.sqrt(2) * lax.erf_inv(2 * p - 1)
    found = jnp.where(tail < 0.1, jnp.where(p < 0.5, x, -x), middle)
    end = jnp.where(p == 0, -np.inf, jnp.where(p == 1, np.inf, np.nan))
    return jnp.where(tail > 0, found, end)


# Half a square needs no square of a root.
ndtri.defjvps(lambda dp, x, p: dp * jnp.exp(0.5 * jnp.square(x) + _HALF_LOG_2PI))
