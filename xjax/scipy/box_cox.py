"""The transformation of Box and Cox, its slopes and higher derivatives.

Let L be the logarithm of x (or of 1 + x), and ``t = power * L``. The n-th derivative with respect to the power is

    S(n) = L**(n+1) G(n, t),   G(n, t) = the integral of s**n exp(s t) over 0 <= s <= 1,

and S(0) is the function itself. The derivative of S(n) with respect to x is ``L**n x**(power-1)``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

import xjax.numpy as jnp
from xjax.core import dtypes
from xjax.lax.double_word import Pair, exp_of, log1p_of, log_of, product_of, sum_of
from xjax.runtime.one_launch import one_launch
from xjax.scipy.arguments import floats, horner, of_reals, weak_as
from xjax.transforms.custom_jvp import custom_jvp
from xjax.typing import Array, ArrayLike


class _Logarithm(NamedTuple):
    exact: Callable[[Any], Pair]
    rounded: Callable[[Any], Any]


_LOG, _LOG1P = _Logarithm(log_of, jnp.log), _Logarithm(log1p_of, jnp.log1p)


def _end(n: int) -> float:
    """The abs(t) up to which G is computed by a series; beyond it the terms of a formula do not cancel."""
    return 1.0 + n


@functools.cache
def _terms(n: int, eps: float) -> list[float]:
    """The series of ``exp(-c t) G(n, t)`` in t, from exact arithmetic.

    c is the mean of s under the density proportional to s**n, so that the terms of the series hardly cancel. Those of
    the series of G cancel for t < 0.
    """
    count, mean = 40 + 4 * n, Fraction(n + 1, n + 2)
    grown = [Fraction(1, math.factorial(k) * (k + n + 1)) for k in range(count)]
    decay = [(-mean) ** k / math.factorial(k) for k in range(count)]
    terms = [sum(grown[j] * decay[k - j] for j in range(k + 1)) for k in range(count)]
    last = max(k for k, c in enumerate(terms) if abs(c) * _end(n) ** k > eps / 16 * terms[0])
    return [float(c) for c in terms[:last + 1]]


def _power_of(log: Pair, power: Array) -> Pair:
    """``power * log``, 0 where the power is 0."""
    high, low = product_of(power, log.high)
    rest = low + power * log.low
    none = power == 0
    return Pair(jnp.where(none, 0, high), jnp.where(none | ~jnp.isfinite(high + rest), 0, rest))


@functools.partial(custom_jvp, nondiff_argnums=(0, 1))
def _scaled_power(logarithm: _Logarithm, n: int, x: Array, power: Array) -> Array:
    """S(n)."""
    log = logarithm.exact(x)
    high, low = _power_of(log, power)
    if n:
        high = jnp.where(log.high == 0, 0, high)            # also where the power is infinite
    near = jnp.abs(high) < _end(n)
    terms = _terms(n, float(np.finfo(x.dtype).eps))
    share = (n + 1) / (n + 2)
    if n:
        series = horner(jnp.where(near, high, 0), terms)
    else:
        square = jnp.where(near, high, 0)                   # for n = 0 the odd terms are 0
        series = horner(square * square, terms[::2])
    grown = exp_of(Pair(jnp.where(near, share * high, high), jnp.where(near, share * low, low)))
    inside = log.high
    for _ in range(n):
        inside = inside * log.high
    inside = inside * (grown * series)
    safe = jnp.where(near, 1, power)
    # Integrated by parts: (exp(t) q(t) - q(0)) / power**(n+1).
    q = [(-1) ** (n - k) * math.factorial(n) / math.factorial(k) for k in range(n + 1)]
    beyond = jnp.where(grown == 0, 0, grown * horner(high, q)) - q[0]
    for _ in range(n + 1):
        beyond = beyond / safe
    return jnp.where(near, inside, beyond)


@_scaled_power.defjvp
def _scaled_power_jvp(logarithm: _Logarithm, n: int, primals: Sequence[Array],
                      tangents: Sequence[Array]) -> tuple[Array, Array]:
    (x, power), (dx, dp) = primals, tangents
    by_x = _lower_power(logarithm, 1, x, power)
    if n:
        by_x = by_x * logarithm.rounded(x) ** n
    return _scaled_power(logarithm, n, x, power), dx * by_x + dp * _scaled_power(logarithm, n + 1, x, power)


@functools.partial(custom_jvp, nondiff_argnums=(0, 1))
def _lower_power(logarithm: _Logarithm, m: int, x: Array, power: Array) -> Array:
    """x, or 1 + x, to the power of ``power - m``."""
    difference, lost = sum_of(power, jnp.full_like(power, -m))
    log = logarithm.exact(x)
    high, low = _power_of(log, difference)
    rest = lost * log.high
    return exp_of(Pair(high, low + jnp.where(jnp.isfinite(rest), rest, 0)))


@_lower_power.defjvp
def _lower_power_jvp(logarithm: _Logarithm, m: int, primals: Sequence[Array],
                     tangents: Sequence[Array]) -> tuple[Array, Array]:
    (x, power), (dx, dp) = primals, tangents
    y = _lower_power(logarithm, m, x, power)
    return y, dx * ((power - m) * _lower_power(logarithm, m + 1, x, power)) + dp * (logarithm.rounded(x) * y)


def _of_complex(log: Array, power: Array) -> Array:
    """S(0) of complex numbers, without pairs; it is analytic, and is differentiated as it is."""
    t = jnp.where(power == 0, 0, power * log)
    near = jnp.abs(t) < _end(0)
    inside = jnp.where(near, t, 0)
    series = log * jnp.exp(0.5 * inside) * horner(inside * inside, _terms(0, float(np.finfo(t.dtype).eps))[::2])
    return jnp.where(near, series, jnp.expm1(jnp.where(near, 1, t)) / jnp.where(near, 1, power))


def _box_cox(name: str, logarithm: _Logarithm, x: ArrayLike, power: ArrayLike) -> Array:
    x, power = floats(name, x, power)
    if dtypes.is_complex(x.dtype):
        return _of_complex(logarithm.rounded(x), power)
    return weak_as(of_reals(name, functools.partial(_scaled_power, logarithm, 0), x, power), x, power)


@one_launch(arrays=2)
def boxcox(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """``(x ** lmbda - 1) / lmbda``, element-wise; ``log(x)`` where lmbda is 0."""
    return _box_cox("boxcox", _LOG, x, lmbda)


@one_launch(arrays=2)
def boxcox1p(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """``((1 + x) ** lmbda - 1) / lmbda``, element-wise; ``log(1 + x)`` where lmbda is 0."""
    return _box_cox("boxcox1p", _LOG1P, x, lmbda)
