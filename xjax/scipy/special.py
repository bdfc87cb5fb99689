"""Special functions: the public namespace `xjax.scipy.special`.

All take integers as well, which become floats.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core import dtypes
from xjax.core.public import attributes_of
from xjax.core.types import typeof
from xjax.nn import normalize
from xjax.nn.logsumexp import logsumexp
from xjax.numpy.promote import promote_inexact, promote_shapes
from xjax.numpy.windows import bessel_i1
from xjax.runtime.jit import library_jit
from xjax.runtime.one_launch import one_launch
from xjax.scipy.arguments import reals
from xjax.scipy.box_cox import boxcox, boxcox1p
from xjax.scipy.error_functions import dawsn, erfcx, wofz
from xjax.scipy.gamma_functions import (
    bernoulli,
    beta,
    betainc,
    betaln,
    comb,
    factorial,
    gamma,
    gammainc,
    gammaincc,
    gammasgn,
    loggamma,
    multigammaln,
    poch,
    polygamma,
    zeta,
)
from xjax.scipy.hypergeometric import hyp1f1, hyp2f1
from xjax.scipy.integrals import exp1, expi, expn, owens_t, spence
from xjax.scipy.normal_distribution import erfcinv, log_ndtr, ndtr, ndtri
from xjax.scipy.oscillating_integrals import fresnel, sici
from xjax.scipy.recurrences import bessel_jn, sph_harm_y
from xjax.transforms.custom_jvp import custom_jvp

__all__ = [
    "bernoulli", "bessel_jn", "beta", "betainc", "betaln", "boxcox", "boxcox1p", "comb", "dawsn", "digamma", "entr",
    "erf", "erfc", "erfcinv", "erfcx", "erfinv", "exp1", "expi", "expit", "expn", "factorial", "fresnel", "gamma",
    "gammainc", "gammaincc", "gammaln", "gammasgn", "hyp1f1", "hyp2f1", "i0", "i0e", "i1", "i1e", "kl_div", "log_ndtr",
    "log_softmax", "loggamma", "logit", "logsumexp", "multigammaln", "ndtr", "ndtri", "owens_t", "poch", "polygamma",
    "rel_entr", "sici", "softmax", "spence", "sph_harm_y", "wofz", "xlog1py", "xlogy", "zeta"]


# -- one operation ------------------------------------------------------------------------------------------------

def _function(name: str, operation: Callable, doc: str) -> Callable:
    def special(x: Any) -> Any:
        x, = promote_inexact(f"scipy.special.{name}", x)
        return operation(x)

    special.__name__ = special.__qualname__ = name
    special.__doc__ = doc
    return special


erf = _function("erf", lax.erf, "Error function, element-wise.")
erfc = _function("erfc", lax.erfc, "``1 - erf(x)``, element-wise, exact for large x.")
erfinv = _function("erfinv", lax.erf_inv, "Inverse of the error function, element-wise; nan outside [-1, 1].")
expit = _function("expit", lax.logistic, "``1 / (1 + exp(-x))``, element-wise.")
gammaln = _function("gammaln", lax.lgamma, "Logarithm of the absolute value of the gamma function, element-wise.")
digamma = _function("digamma", lax.digamma, "Derivative of `gammaln`, element-wise.")
i0e = _function("i0e", lax.bessel_i0e, "Modified Bessel function of order 0 times ``exp(-abs(x))``, element-wise.")
i1e = _function("i1e", lax.bessel_i1e, "Modified Bessel function of order 1 times ``exp(-abs(x))``, element-wise.")


def i0(x: Any) -> Any:
    """Modified Bessel function of order 0, element-wise; `i0e` does not overflow."""
    return jnp.i0(x)


@one_launch
def i1(x: Any) -> Any:
    """Modified Bessel function of order 1, element-wise; `i1e` does not overflow."""
    x, = promote_inexact("scipy.special.i1", x)
    return bessel_i1(x)


# -- with a derivative of their own ---------------------------------------------------------------------------------

@custom_jvp
@library_jit
def logit(x: Any) -> Any:
    """``log(x / (1 - x))``, element-wise: the inverse of `expit`."""
    x, = promote_inexact("scipy.special.logit", x)
    return jnp.log(x / (1 - x))


logit.defjvps(lambda dx, y, x: dx / (x * (1 - x)))


def xlogy(x: Any, y: Any) -> Any:
    """``x * log(y)``, element-wise; 0 where x is 0 (nan if y is nan)."""
    where = "scipy.special.xlogy"
    return _xlogy(*promote_shapes(where, *promote_inexact(where, x, y)))


def xlog1py(x: Any, y: Any) -> Any:
    """``x * log(1 + y)``, element-wise, exact for small y; 0 where x is 0 (nan if y is nan)."""
    where = "scipy.special.xlog1py"
    return _xlog1py(*promote_shapes(where, *promote_inexact(where, x, y)))


@custom_jvp
@library_jit
def _xlogy(x: Any, y: Any) -> Any:
    return _product_or_zero(x, y, jnp.log)


@custom_jvp
@library_jit
def _xlog1py(x: Any, y: Any) -> Any:
    return _product_or_zero(x, y, jnp.log1p)


def _product_or_zero(x: Any, y: Any, logarithm: Callable) -> Any:
    return jnp.where((x != 0) | (y != y), x * logarithm(y), 0)


@_xlogy.defjvp
def _xlogy_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    (x, y), (dx, dy) = primals, tangents
    return _xlogy(x, y), dx * jnp.log(y) + dy * _share(x, y)


@_xlog1py.defjvp
def _xlog1py_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    (x, y), (dx, dy) = primals, tangents
    return _xlog1py(x, y), dx * jnp.log1p(y) + dy * _share(x, 1 + y)


def _share(x: Any, y: Any) -> Any:
    """``x / y``; 0 where x is 0 or both are below the normal numbers: XLA on CPUs divides 0 by 0 there."""
    smallest = float(dtypes.finfo(typeof(x).dtype).smallest_normal)
    vanishes = (x == 0) & (y == y) | (jnp.abs(x) < smallest) & (jnp.abs(y) < smallest)
    return jnp.where(vanishes, 0, jnp.divide(x, y))


@custom_jvp
def _xlogx(x: Any) -> Any:
    return xlogy(x, x)


# As a function of one argument its derivative needs no 0 / 0.
_xlogx.defjvps(lambda dx, y, x: dx * (jnp.log(x) + 1))


@library_jit
def entr(x: Any) -> Any:
    """``-x * log(x)``, element-wise: 0 at 0, -inf below.

    Raises: ValueError for complex numbers.
    """
    x, = reals("entr", x)
    return jnp.where(x < 0, -np.inf, 0 - _xlogx(x))


@one_launch(arrays=2)
def rel_entr(p: Any, q: Any) -> Any:
    """``p * log(p / q)``, element-wise: 0 where p is 0 and q >= 0, inf where one is negative or only q is 0.

    Raises: ValueError for complex numbers.
    """
    return _rel_entr(*jnp.broadcast_arrays(*reals("rel_entr", p, q)))


@one_launch(arrays=2)
def kl_div(p: Any, q: Any) -> Any:
    """``p * log(p / q) - p + q``, element-wise; the edges are those of `rel_entr`."""
    return _kl_div(*jnp.broadcast_arrays(*reals("kl_div", p, q)))


@custom_jvp
def _rel_entr(p: Any, q: Any) -> Any:
    return _at_edges(p, q, p * _log_ratio(p, q), 0)


@custom_jvp
def _kl_div(p: Any, q: Any) -> Any:
    entropy = p * _log_ratio(p, q)
    return _at_edges(p, q, jnp.where(p < np.inf, entropy - p + q, entropy), q)


def _at_edges(p: Any, q: Any, inside: Any, at_zero: Any) -> Any:
    """`inside` for p, q > 0 or nan, `at_zero` where p is 0 and q >= 0, inf elsewhere."""
    outside = (p <= 0) & (q == q) | (q <= 0) & (p == p)
    return jnp.where(outside, jnp.where((p == 0) & (q >= 0), at_zero, np.inf), inside)


def _both_positive(p: Any, q: Any) -> tuple[Any, Any, Any]:
    """Where p, q > 0; and these with 1 elsewhere, where slopes are 0."""
    positive = (p > 0) & (q > 0)
    return positive, jnp.where(positive, p, 1), jnp.where(positive, q, 1)


def _where_both_positive(slope: Callable, p: Any, q: Any, at_zero: float) -> Any:
    """``slope(p, q)`` for p, q > 0, `at_zero` where p is 0 and q >= 0, 0 elsewhere."""
    smallest = float(dtypes.finfo(typeof(p).dtype).smallest_normal)         # the quotient of smaller numbers is 0 / 0
    positive = (p >= smallest) & (q >= smallest)
    inside = slope(jnp.where(positive, p, 1), jnp.where(positive, q, 1))
    return jnp.where(positive, inside, jnp.where((p == 0) & (q >= 0), at_zero, 0))


_rel_entr.defjvps(lambda dp, y, p, q: dp * _where_both_positive(lambda p, q: _log_ratio(p, q) + 1, p, q, 0),
                  lambda dq, y, p, q: dq * _where_both_positive(lambda p, q: -p / q, p, q, 0))
_kl_div.defjvps(lambda dp, y, p, q: dp * _where_both_positive(_log_ratio, p, q, -1),
                lambda dq, y, p, q: dq * _where_both_positive(_share_off, p, q, 1))


@custom_jvp
def _share_off(p: Any, q: Any) -> Any:
    """``1 - p / q``."""
    return jnp.where((q > _exact_from(q)) & (q < np.inf), (q - p) / q, 1 - p / q)


_share_off.defjvps(lambda dp, y, p, q: -dp / q, lambda dq, y, p, q: dq * (p / q / q))


def _exact_from(x: Any) -> float:
    """The differences of larger numbers are normal numbers."""
    info = dtypes.finfo(typeof(x).dtype)
    return float(info.smallest_normal) / float(info.eps)


@custom_jvp
def _log_ratio(p: Any, q: Any) -> Any:
    """``log(p / q)`` for p, q > 0, exact where they are close and where the quotient overflows or underflows.

    One logarithm of u is taken: the quotient of p and q times powers of 2; where these are close, 1 plus that of their
    difference and q, and then what this sum loses is added.
    """
    power = dtypes.finfo(typeof(q).dtype).maxexp // 2
    large, small = p > q * 2.0**power, (p < q * 2.0**-power) & (q < np.inf)
    near = (p > 0.5 * q) & (p < 2 * q) & (q > _exact_from(q))
    up, down = 2.0**power, 2.0**-power
    top = jnp.where(near, p - q, p * jnp.where(large, down, jnp.where(small, up, 1)))
    ratio = top / (q * jnp.where(large, up, jnp.where(small, down, 1)))
    u = jnp.where(near, 1 + ratio, ratio)
    lost = jnp.where(near, (ratio - (u - 1)) * (2 - u), 0)
    shift = 2 * power * math.log(2)
    return jnp.log(u) + jnp.where(large, shift, jnp.where(small, -shift, lost))


_log_ratio.defjvps(lambda dp, y, p, q: dp / p, lambda dq, y, p, q: -dq / q)


def softmax(x: Any, /, *, axis: int | Sequence[int] | None = None) -> Any:
    """``exp(x) / sum(exp(x))`` along `axis`; None: over all elements."""
    return normalize.softmax(x, axis)


def log_softmax(x: Any, /, *, axis: int | Sequence[int] | None = None) -> Any:
    """Logarithm of `softmax`, exact where that is 0."""
    return normalize.log_softmax(x, axis)


__getattr__ = attributes_of(__name__)
