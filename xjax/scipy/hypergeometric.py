"""The hypergeometric functions 1F1 and 2F1 of real numbers.

Every series is summed by `_series`. An element that has converged keeps its value while others are still summed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core.types import number_of
from xjax.runtime.jit import library_jit
from xjax.scipy.arguments import of_reals
from xjax.scipy.gamma_functions import gamma
from xjax.transforms.autodiff import jvp
from xjax.transforms.custom_jvp import custom_jvp
from xjax.transforms.rule_functions import SymbolicZero
from xjax.typing import Array, ArrayLike

_LIMIT = 10_000                         # maximum number of terms; the sum up to there is returned


def _series(x: Array, ups: Sequence[Any], downs: Sequence[Any]) -> Array:
    """The sum of ``prod((u)_k) / prod((d)_k) * x**k / k!`` over k = 0, 1 ..., ``(u)_k = u (u + 1) ... (u + k - 1)``.

    It ends when a bound of the terms is below rounding. In the bound, factors less than 1 are replaced by 1, so that it
    also holds for the derivatives of the terms, which may continue after a finite series has ended.
    """
    eps = float(np.finfo(x.dtype).eps)

    def cond(state: tuple) -> Array:
        k, active, *_ = state
        return (k < _LIMIT) & jnp.any(active)

    def step(state: tuple) -> tuple:
        k, active, term, bound, total = state
        factor, size = x / (k + 1), jnp.abs(x) / (k + 1)
        for u in ups:
            factor, size = factor * (u + k), size * jnp.maximum(jnp.abs(u + k), 1)
        for d in downs:
            factor, size = factor / (d + k), size / jnp.abs(d + k)
        new, new_bound = term * factor, bound * size
        total = jnp.where(active, total + new, total)
        # While factors are large, later terms may be larger than a small term.
        active = active & ((new_bound > 0.1 * eps * jnp.maximum(jnp.abs(total), 1e-30)) | (size > 0.9))
        return k + 1, active, jnp.where(active, new, 0), jnp.where(active, new_bound, 0), total

    one = lax.full_like(x, 1)
    start = (number_of(x.dtype, 0), lax.full_like(x, True, dtype=bool), one, one, one)
    return lax.while_loop(cond, step, start)[-1]


def _is_end(x: Array) -> Array:
    """Whether x is 0, -1, -2 ..., for which ``(x)_k`` becomes 0."""
    return (x <= 0) & (x == jnp.floor(x))


def _over_gamma(x: Array) -> Array:
    """``1 / gamma(x)``."""
    end = _is_end(x)
    return jnp.where(end, 0, 1 / gamma(jnp.where(end, 1, x)))


def _rule(function: custom_jvp, value: Callable, slope: Callable) -> None:
    """Define the derivative: in the last argument by a formula, in the others by differentiating the series.

    The derivative in the others has no second derivative in reverse mode.
    """
    @functools.partial(function.defjvp, symbolic_zeros=True)
    def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        change = lax.full_like(primals[-1], 0)
        for i, dx in enumerate(tangents):
            if isinstance(dx, SymbolicZero):
                continue
            if i == len(primals) - 1:
                share = slope(*primals)
            else:
                def alone(p: Array, i: int = i) -> Array:
                    return value(*primals[:i], p, *primals[i + 1:])
                share = jvp(alone, (primals[i],), (lax.full_like(primals[i], 1),))[1]
            change = change + dx * share
        return function(*primals), change


# -- 1F1 ----------------------------------------------------------------------------------------------------------

_FAR = {4: 50.0, 8: 100.0}              # by bytes of the dtype; exp(x) does not overflow up to there


def _far_below(a: Array, b: Array, x: Array) -> Array:
    """``gamma(b) / gamma(b - a) x**-a`` times the asymptotic series of 1F1(a, b, -x) for large x (DLMF 13.7.2)."""
    def add_term(k: Array, state: tuple) -> tuple:
        term, total = state
        term = term * (a + k) * (1 + a - b + k) / ((k + 1) * x)
        return term, total + term

    one = lax.full_like(x, 1)
    _, total = lax.fori_loop(0, 40, add_term, (one, one))
    return gamma(b) * _over_gamma(b - a) * x ** -a * total


def _value_1f1(a: Array, b: Array, x: Array) -> Array:
    """1F1(a, b, x); for x < 0 by Kummer's ``exp(x) 1F1(b - a, b, -x)``, whose terms do not cancel."""
    end = _FAR[x.dtype.itemsize]
    below, far = x < 0, x < -end
    single = _is_end(b)
    safe_b = jnp.where(single, 1, b)
    near = jnp.where(far, 0, jnp.abs(x))
    series = _series(near, [jnp.where(below, b - a, a)], [safe_b])
    series = jnp.where(below, jnp.exp(-near) * series, series)
    value = jnp.where(far, _far_below(a, safe_b, jnp.where(far, -x, end)), series)
    value = jnp.where(single, jnp.where(a == 0, 1, np.inf), value)
    return jnp.where(jnp.isnan(a + b + x), np.nan, value)


_hyp1f1 = custom_jvp(_value_1f1)
_rule(_hyp1f1, _value_1f1, lambda a, b, x: jnp.where(a == 0, 0, a / b * _hyp1f1(a + 1, b + 1, x)))


@library_jit
def hyp1f1(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Kummer's function 1F1, element-wise: the sum of ``(a)_k / (b)_k * x**k / k!``, where (a)_k is ``poch(a, k)``.

    Args: a, b, x: real numbers; for x < -50, a and b must be small compared with x.
    Returns: floats; inf where b is 0, -1 ..., but 1 where a is 0.

    >>> round(float(hyp1f1(1.0, 2.0, 1.0)), 4)
    1.7183
    """
    return of_reals("hyp1f1", _hyp1f1, a, b, x)


# -- 2F1 ----------------------------------------------------------------------------------------------------------

_TERMS = 80                             # number of terms of a Taylor series at half its radius of convergence


def _taylor(a: Array, b: Array, c: Array, rest: Array, step: Array, f: Array, slope: Array) -> tuple[Any, Any]:
    """2F1 and its slope at ``x + step`` from value f and slope at ``x = 1 - rest``, by the hypergeometric equation

        x (1 - x) f'' + (c - (a + b + 1) x) f' - a b f = 0.
    """
    x = 1 - rest

    def add_term(n: Array, state: tuple) -> tuple:
        low, high, total, weighted = state                      # terms n and n + 1, including powers of `step`
        n = n.astype(x.dtype)
        new = (n + a) * (n + b) * step * low - (n + 1) * ((1 - 2 * x) * n + c - (a + b + 1) * x) * high
        new = new * step / (x * rest * (n + 2) * (n + 1))
        return high, new, total + new, weighted + (n + 2) * new

    second = slope * step
    *_, value, weighted = lax.fori_loop(0, _TERMS, add_term, (f, second, f + second, second))
    return value, weighted / jnp.where(step == 0, 1, step)


def _towards_one(a: Array, b: Array, c: Array, x: Array) -> Array:
    """2F1 at 1/2 <= x < 1, by Taylor series from 1/2 on, each of which halves the distance to the singularity at 1."""
    half, end = lax.full_like(x, 0.5), 1 - x

    def cond(state: tuple) -> Array:
        return jnp.any(state[0] > end)

    def move(state: tuple) -> tuple:
        rest, *at_rest = state
        active = rest > end
        new = jnp.maximum(0.5 * rest, end)
        moved = _taylor(a, b, c, rest, rest - new, *at_rest)
        return jnp.where(active, new, rest), *[jnp.where(active, y, old) for y, old in zip(moved, at_rest, strict=True)]

    start = half, _series(half, [a, b], [c]), a * b / c * _series(half, [a + 1, b + 1], [c + 1])
    return lax.while_loop(cond, move, start)[1]


def _at_one(a: Array, b: Array, c: Array) -> Array:
    """2F1 at x = 1, by Gauss's formula; infinite unless c > a + b."""
    gap = c - a - b
    fine = gap > 0
    value = gamma(c) * gamma(jnp.where(fine, gap, 1)) * _over_gamma(c - a) * _over_gamma(c - b)
    return jnp.where(fine, value, np.inf)


def _value_2f1(a: Array, b: Array, c: Array, x: Array) -> Array:
    """2F1; for x < 0 by Pfaff's ``(1 - x)**-a 2F1(a, c - b, c, x / (x - 1))``; a polynomial if a or b is 0, -1 ..."""
    constant, single = (x == 0) | ((a == 0) | (b == 0)) & (c != 0), _is_end(c)
    polynomial = _is_end(a) | _is_end(b)
    below, whole = x < 0, (x >= 1) & polynomial
    c_safe = jnp.where(single, 1, c)
    b_inside = jnp.where(below, c_safe - b, b)
    inside = jnp.where(below, x / (x - 1), x)
    beyond = (inside > 0.5) & (inside < 1)
    near = jnp.where((inside <= 0.5) | whole, inside, 0)
    value = jnp.where(beyond, _towards_one(a, b_inside, c_safe, jnp.where(beyond, inside, 0.5)),
                      _series(near, [a, b_inside], [c_safe]))
    value = jnp.where(below, (1 - jnp.where(below, x, 0)) ** -a * value, value)
    value = jnp.where((x == 1) & ~polynomial, _at_one(a, b, c_safe), value)
    value = jnp.where(((x > 1) & ~polynomial) | single, np.inf, value)
    value = jnp.where(constant, 1, value)
    return jnp.where(jnp.isnan(a + b + c + x), np.nan, value)


_hyp2f1 = custom_jvp(_value_2f1)
_rule(_hyp2f1, _value_2f1, lambda a, b, c, x: jnp.where(
    (a == 0) | (b == 0), 0, a * b / c * _hyp2f1(a + 1, b + 1, c + 1, x)))


@library_jit
def hyp2f1(a: ArrayLike, b: ArrayLike, c: ArrayLike, x: ArrayLike) -> Array:
    """Gauss's function 2F1, element-wise: the sum of ``(a)_k (b)_k / (c)_k * x**k / k!``, continued to x < -1.

    Args: a, b, c, x: real numbers.
    Returns: floats; inf where c is 0, -1 ..., and for x >= 1 where the series diverges.

    >>> round(float(hyp2f1(1.0, 1.0, 2.0, 0.5)), 4)
    1.3863
    """
    return of_reals("hyp2f1", _hyp2f1, a, b, c, x)
