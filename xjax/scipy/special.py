"""Special functions: the public namespace `xjax.scipy.special`.

All functions accept integers too and convert them to floats.
"""

from __future__ import annotations

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
from xjax.numpy.windows import bessel_i
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
from xjax.scipy.relative_entropy import kl_div, rel_entr
from xjax.transforms.custom_jvp import custom_jvp
from xjax.typing import Array, ArrayLike

__all__ = [
    "bernoulli", "bessel_jn", "beta", "betainc", "betaln", "boxcox", "boxcox1p", "comb", "dawsn", "digamma", "entr",
    "erf", "erfc", "erfcinv", "erfcx", "erfinv", "exp1", "expi", "expit", "expn", "factorial", "fresnel", "gamma",
    "gammainc", "gammaincc", "gammaln", "gammasgn", "hyp1f1", "hyp2f1", "i0", "i0e", "i1", "i1e", "kl_div", "log_ndtr",
    "log_softmax", "loggamma", "logit", "logsumexp", "multigammaln", "ndtr", "ndtri", "owens_t", "poch", "polygamma",
    "rel_entr", "sici", "softmax", "spence", "sph_harm_y", "wofz", "xlog1py", "xlogy", "zeta"]


# -- functions that are one operation -----------------------------------------------------------------------------

def _function(name: str, operation: Callable, doc: str) -> Callable:
    def special(x: ArrayLike) -> Array:
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


def i0(x: ArrayLike) -> Array:
    """Modified Bessel function of order 0, element-wise; `i0e` does not overflow."""
    return jnp.i0(x)


@one_launch
def i1(x: ArrayLike) -> Array:
    """Modified Bessel function of order 1, element-wise; `i1e` does not overflow."""
    x, = promote_inexact("scipy.special.i1", x)
    return bessel_i(x, 1)


# -- functions with derivative rules --------------------------------------------------------------------------------

@custom_jvp
@library_jit
def logit(x: ArrayLike) -> Array:
    """``log(x / (1 - x))``, element-wise: the inverse of `expit`."""
    x, = promote_inexact("scipy.special.logit", x)
    return jnp.log(x / (1 - x))


logit.defjvps(lambda dx, y, x: dx / (x * (1 - x)))


def xlogy(x: ArrayLike, y: ArrayLike) -> Array:
    """``x * log(y)``, element-wise; 0 where x is 0 (nan if y is nan)."""
    caller = "scipy.special.xlogy"
    return _xlogy(*promote_shapes(caller, *promote_inexact(caller, x, y)))


def xlog1py(x: ArrayLike, y: ArrayLike) -> Array:
    """``x * log(1 + y)``, element-wise, exact for small y; 0 where x is 0 (nan if y is nan)."""
    caller = "scipy.special.xlog1py"
    return _xlog1py(*promote_shapes(caller, *promote_inexact(caller, x, y)))


@custom_jvp
@library_jit
def _xlogy(x: Array, y: Array) -> Array:
    return _product_or_zero(x, y, jnp.log)


@custom_jvp
@library_jit
def _xlog1py(x: Array, y: Array) -> Array:
    return _product_or_zero(x, y, jnp.log1p)


def _product_or_zero(x: Array, y: Array, logarithm: Callable) -> Array:
    return jnp.where((x != 0) | (y != y), x * logarithm(y), 0)


@_xlogy.defjvp
def _xlogy_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    (x, y), (dx, dy) = primals, tangents
    return _xlogy(x, y), dx * jnp.log(y) + dy * _share(x, y)


@_xlog1py.defjvp
def _xlog1py_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    (x, y), (dx, dy) = primals, tangents
    return _xlog1py(x, y), dx * jnp.log1p(y) + dy * _share(x, 1 + y)


def _share(x: ArrayLike, y: ArrayLike) -> Array:
    """``x / y``; 0 where x is 0, or both are subnormal, which XLA on CPUs replaces by 0."""
    smallest = float(dtypes.finfo(typeof(x).dtype).smallest_normal)
    vanishes = (x == 0) & (y == y) | (jnp.abs(x) < smallest) & (jnp.abs(y) < smallest)
    return jnp.where(vanishes, 0, jnp.divide(x, y))


@custom_jvp
def _xlogx(x: Array) -> Array:
    return xlogy(x, x)


# The derivative as a function of one argument avoids 0 / 0.
_xlogx.defjvps(lambda dx, y, x: dx * (jnp.log(x) + 1))


@library_jit
def entr(x: ArrayLike) -> Array:
    """``-x * log(x)``, element-wise: 0 at 0, -inf for x < 0.

    Raises: ValueError for complex numbers.
    """
    x, = reals("entr", x)
    return jnp.where(x < 0, -np.inf, 0 - _xlogx(x))


def softmax(x: ArrayLike, /, *, axis: int | Sequence[int] | None = None) -> Array:
    """``exp(x) / sum(exp(x))`` along `axis`; None: over all elements."""
    return normalize.softmax(x, axis)


def log_softmax(x: ArrayLike, /, *, axis: int | Sequence[int] | None = None) -> Array:
    """Logarithm of `softmax`, exact also where `softmax` underflows to 0."""
    return normalize.log_softmax(x, axis)


__getattr__ = attributes_of(__name__)
