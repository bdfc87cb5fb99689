"""The gamma function and its family: beta, binomial coefficients, incomplete integrals, polygamma and zeta."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.types import typeof
from xjax.lax.incomplete import stirling_tail
from xjax.ops.checks import static_int
from xjax.runtime.jit import library_jit
from xjax.runtime.one_launch import one_launch
from xjax.scipy.arguments import floats, reals
from xjax.scipy.complex_gamma import gamma_of_complex, loggamma_of_complex
from xjax.transforms.autodiff import jvp
from xjax.transforms.custom_jvp import custom_jvp
from xjax.transforms.rule_functions import SymbolicZero

# -- gamma --------------------------------------------------------------------------------------------------------

@one_launch
def gammasgn(x: Any) -> Any:
    """Sign of the gamma function, element-wise: 1 or -1; nan at -1, -2 ...; that of x at 0 and -0."""
    x, = reals("gammasgn", x)
    below = lax.floor(x)
    odd = (x < 0) & (jnp.remainder(below, 2) != 0) | (x == 0) & jnp.signbit(x)
    return jnp.where((x < 0) & (x == below) | (x != x), np.nan, jnp.where(odd, -1, 1).astype(x.dtype))


@one_launch
def gamma(x: Any) -> Any:
    """Gamma function, element-wise: ``(x - 1)!`` at whole numbers > 0, nan at -1, -2 ...  x: real or complex numbers.

    >>> round(float(gamma(5.0)), 3)
    24.0
    """
    x, = floats("gamma", x)
    if dtypes.is_complex(x.dtype):
        return gamma_of_complex(x)
    return gammasgn(x) * lax.exp(lax.lgamma(x))


@one_launch
def loggamma(x: Any) -> Any:
    """Logarithm of the gamma function, element-wise: of real numbers nan where x <= 0, unlike `gammaln`; of complex
    ones continuous except across the negative real axis."""
    x, = floats("loggamma", x)
    if dtypes.is_complex(x.dtype):
        return loggamma_of_complex(x)
    return jnp.where(x > 0, lax.lgamma(x), np.nan)


def factorial(n: Any, exact: bool = False) -> Any:
    """``n!`` as floats, element-wise, for fractions by the gamma function; 0 for n < 0.

    Raises: NotImplementedError with `exact`, which would need integers without bound.
    """
    if exact:
        raise bad("scipy.special.factorial", "exact factorials do not fit the integers of arrays",
                  fix="use math.factorial(n) on a Python int.", exc=NotImplementedError)
    return _factorial(n)


@one_launch
def _factorial(n: Any) -> Any:
    n, = reals("factorial", n)
    return jnp.where(n < 0, 0, lax.exp(lax.lgamma(n + 1)))


def multigammaln(a: Any, d: int) -> Any:
    """Logarithm of the gamma function of dimension d, element-wise in a > (d - 1) / 2. Args: d: static int."""
    return _multigammaln(a, static_int(d, "d", "scipy.special.multigammaln"))


@one_launch
def _multigammaln(a: Any, d: int) -> Any:
    a, = reals("multigammaln", a)
    shifted = a[..., None] - np.arange(d, dtype=a.dtype).reshape((1,) * a.ndim + (d,)) / a.dtype.type(2)
    return jnp.sum(lax.lgamma(shifted), -1) + a.dtype.type(0.25 * d * (d - 1) * math.log(math.pi))


def poch(z: Any, m: Any) -> Any:
    """Pochhammer symbol ``gamma(z + m) / gamma(z)`` of real numbers, element-wise; 1 where m is 0."""
    return _poch(*jnp.broadcast_arrays(*reals("poch", z, m)))


@custom_jvp
@library_jit
def _poch(z: Any, m: Any) -> Any:
    large = (z >= 10) & (z + m >= 10)
    rise = jnp.where(large, _large_lgamma_rise(jnp.where(large, z, 10), jnp.where(large, m, 0)),
                     lax.lgamma(z + m) - lax.lgamma(z))
    return jnp.where(m == 0, 1, gammasgn(z + m) * gammasgn(z) * lax.exp(rise))


@_poch.defjvp
def _poch_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    (z, m), (dz, dm) = primals, tangents
    out, top = _poch(z, m), lax.digamma(z + m)
    return out, out * ((top - lax.digamma(z)) * dz + top * dm)


# -- beta ---------------------------------------------------------------------------------------------------------

@one_launch(arrays=2)
def betaln(a: Any, b: Any) -> Any:
    """Logarithm of the absolute value of the beta function, element-wise; large arguments lose no digits."""
    a, b = reals("betaln", a, b)
    a, b = lax.min(a, b), lax.max(a, b)
    safe_a, safe_b = jnp.where(a >= 10, a, 10), jnp.where(b >= 10, b, 10)
    # Of lgamma(b) - lgamma(a + b) and, if a is large as well, lgamma(a) the large terms cancel by hand.
    one_large = (b >= 10) & (a + b >= 10)
    rise = _large_lgamma_rise(safe_b, jnp.where(one_large, a, 0))
    below = -(safe_b - 0.5) * jnp.log1p(safe_a / safe_b) + stirling_tail(safe_b) - stirling_tail(safe_a + safe_b)
    both_large = (below - safe_a * jnp.log1p(safe_b / safe_a) + stirling_tail(safe_a)
                  + 0.5 * lax.log(2 * math.pi / safe_a))
    log_gamma = lax.lgamma(a)
    plain = log_gamma + lax.lgamma(b) - lax.lgamma(a + b)
    return jnp.where(a >= 10, both_large, jnp.where(one_large, log_gamma - rise, plain))


def _large_lgamma_rise(x: Any, step: Any) -> Any:
    """``lgamma(x + step) - lgamma(x)`` by Stirling's formula, where x and x + step are 10 or more."""
    end = x + step
    return (x - 0.5) * jnp.log1p(step / x) + step * (lax.log(end) - 1) + stirling_tail(end) - stirling_tail(x)


@one_launch(arrays=2)
def beta(a: Any, b: Any) -> Any:
    """Beta function ``gamma(a) gamma(b) / gamma(a + b)`` of real numbers, element-wise."""
    a, b = reals("beta", a, b)
    return gammasgn(a) * gammasgn(b) * gammasgn(a + b) * lax.exp(betaln(a, b))


def comb(N: Any, k: Any, *, repetition: bool = False) -> Any:
    """Ways to choose k of N things, as floats, element-wise; 0 where there are none.

    Args: repetition: whether a thing can be chosen several times.
    """
    return _choices_again(N, k) if repetition else _choices(N, k)


@one_launch(arrays=2)
def _choices(n: Any, k: Any) -> Any:
    n, k = reals("comb", n, k)
    some = (k <= n) & (n >= 0) & (k >= 0)
    n, k = jnp.where(some, n, 0), jnp.where(some, k, 0)
    return jnp.where(some, lax.exp(-betaln(n - k + 1, k + 1) - lax.log1p(n)), 0)


@one_launch(arrays=2)
def _choices_again(n: Any, k: Any) -> Any:
    n, k = reals("comb", n, k)
    return jnp.where((k == 0) & (n >= 0), 1, _choices(n + k - 1, k))


def betainc(a: Any, b: Any, x: Any) -> Any:
    """Regularised incomplete beta function of real numbers, element-wise; its derivative exists in x only."""
    return lax.betainc(*reals("betainc", a, b, x))


def gammainc(a: Any, x: Any) -> Any:
    """Regularised lower incomplete gamma function of real numbers, element-wise."""
    return lax.igamma(*reals("gammainc", a, x))


def gammaincc(a: Any, x: Any) -> Any:
    """``1 - gammainc(a, x)``, element-wise, exact where it is small."""
    return lax.igammac(*reals("gammaincc", a, x))


# -- polygamma and zeta -------------------------------------------------------------------------------------------

def polygamma(n: Any, x: Any) -> Any:
    """Derivative of order n of `digamma`, element-wise. Args: n: integers >= 0; x: real numbers.

    Raises: ValueError unless n is an integer.
    """
    if not dtypes.is_int(typeof(n).dtype):
        raise bad("scipy.special.polygamma", "the order must be an integer", given={"n": typeof(n)},
                  fix="pass an int, or convert it with n.astype('int32').", exc=ValueError)
    return lax.polygamma(*reals("polygamma", n, x))


def _zeta_sum(x: Any, q: Any) -> Any:
    """The first terms of the zeta function, and the others by Euler and Maclaurin (Johansson 2015, eq. 5)."""
    count = 12
    total = sum((q + k) ** -x for k in range(count))
    end = q + count
    factor, tail = x / end, 0.5
    for m in range(1, count):
        tail = tail + float(bernoulli_numbers(2 * count)[2 * m] / math.factorial(2 * m)) * factor
        factor = factor * ((x + (2 * m - 1)) / end) * ((x + 2 * m) / end)
    return total + end ** (1 - x) / (x - 1) + end ** -x * tail


@custom_jvp
def _zeta(x: Any, q: Any) -> Any:
    return lax.zeta(x, q)


@functools.partial(_zeta.defjvp, symbolic_zeros=True)
def _zeta_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    (x, q), (dx, dq) = primals, tangents
    change = lax.full_like(x, 0)
    if not isinstance(dx, SymbolicZero):
        change = change + dx * jvp(lambda x: _zeta_sum(x, q), (x,), (lax.full_like(x, 1),))[1]
    if not isinstance(dq, SymbolicZero):
        change = change - dq * x * _zeta(x + 1, q)
    return _zeta(x, q), change


def zeta(x: Any, q: Any = None) -> Any:
    """Hurwitz zeta function: the sum of ``1 / (k + q) ** x`` over k = 0, 1, 2 ...; None: Riemann's, which has q = 1."""
    return _zeta(*jnp.broadcast_arrays(*reals("zeta", x, 1 if q is None else q)))


def bernoulli(n: int) -> Any:
    """The Bernoulli numbers B(0) ... B(n), float[n + 1], with B(1) = -1/2. Args: n: static int >= 0.

    >>> bernoulli(2)
    Array([ 1.        , -0.5       ,  0.16666667], dtype=float32)
    """
    n = static_int(n, "n", "scipy.special.bernoulli")
    if n < 0:
        raise bad("scipy.special.bernoulli", "`n` must not be negative", given={"n": str(n)}, fix="pass n >= 0.",
                  exc=ValueError)
    return jnp.asarray(bernoulli_numbers(n), dtypes.canonicalize_dtype(float))


@functools.lru_cache(64)
def bernoulli_numbers(n: int) -> np.ndarray:
    """By Euler's formula ``2 m! zeta(m) / (2 pi)**m`` for even m, with alternating signs."""
    numbers = np.zeros(max(n, 1) + 1)
    numbers[:2] = 1, -0.5
    m = np.arange(2, n + 1, 2, dtype=float)
    if m.size:
        # What follows the first terms is an integral, corrected at its end; for m = 2 and 4 too little.
        sums = 1 + np.sum(np.arange(2.0, 60)[:, None] ** -m, 0) + 60 ** -m * (60 / (m - 1) + 1 / 2 + m / 720)
        sums[:2] = (math.pi**2 / 6, math.pi**4 / 90)[:m.size]
        with np.errstate(over="ignore"):
            numbers[2::2] = 2 * sums * np.cumprod(-(m - 1) * m / (4 * math.pi**2)) * -1
    return numbers[:n + 1]
