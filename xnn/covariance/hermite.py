"""The kernel of any elementwise function, by an expansion in Hermite polynomials, with a bound of its error.

For u of variance a, ``f(u) = sum over k of h_k(a) He_k(u / sqrt(a))`` with the normalized polynomials He_k, and so the
expectation of ``f(u) f(v)`` is ``sum over k of h_k(a) h_k(b) r**k``, r the correlation (Mehler's formula; Daniely et
al., 2016). The coefficients are integrals over one variable for each input, so that a pair of inputs costs one
polynomial in r. The sum ends after `TERMS` terms. The part that it lacks at r = 1 is known, because the whole sum is
the expectation of ``f(u)**2`` there. This part is added as the next even and odd powers, which makes the kernel of
equal inputs exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import xjax
import xjax.numpy as jnp
from xjax import lax
from xjax.errors import bad
from xjax.typing import Array, ArrayLike
from xnn.covariance.elementwise import Moments, root_of

TERMS = 64
# Integrals are sums over equally spaced nodes. For smooth functions they converge faster than any power of the spacing.
_NODES = np.linspace(-13, 13, 1301)
_WEIGHTS = np.exp(-_NODES**2 / 2) * (_NODES[1] - _NODES[0]) / np.sqrt(2 * np.pi)


def expansion(name: str, fun: Callable[[Array], Array]) -> Moments:
    """The moments of an elementwise function. Raises: ValueError if a value depends on other entries of the array."""
    check_elementwise(name, fun)

    def moments(c: Array, a: Array, b: Array, gap: Array) -> tuple[Array, Array]:
        size = jnp.sqrt(jnp.where(a * b > 0, a * b, 1))
        r = jnp.clip(jnp.where(gap == 0, jnp.sign(c), c / size), -1, 1)
        (value1, slope1), (value2, slope2) = (_expanded(fun, variance) for variance in (a, b))
        return _series(r, value1, value2), _series(r, slope1, slope2)

    return moments


def check_elementwise(name: str, fun: Callable[[Array], Array]) -> None:
    """Raises: ValueError for a function in which entries of an array affect each other."""
    points = np.linspace(-2, 2, 12).reshape(3, 4)
    with xjax.ensure_compile_time_eval():
        together = np.asarray(fun(jnp.asarray(points)))
        alone = [np.asarray(fun(jnp.asarray(points[i:i + 1, j:j + 1]))) for i, j in ((0, 0), (1, 2), (2, 3))]
    kept = together.shape == points.shape
    if not kept or not np.allclose(np.ravel(alone), together[(0, 1, 2), (0, 2, 3)], 1e-4, 1e-5, equal_nan=True):
        raise bad(f"{name}.kernel", "the function is not elementwise: its value at an entry depends on other entries",
                  {"function": name}, "only elementwise functions have a kernel; LayerNorm normalizes.", ValueError)


class _Coefficients(NamedTuple):
    """The expansion of a function at each variance.

    Attributes:
      terms: [TERMS, *variance]
      even, odd: square roots of the parts of the expectation of the square that are beyond the terms, of even and of
        odd degree.
    """

    terms: Array
    even: Array
    odd: Array


def _expanded(fun: Callable[[Array], Array], variance: Array) -> tuple[_Coefficients, _Coefficients]:
    """The expansions of a function and of its derivative."""
    dtype = variance.dtype
    nodes = jnp.asarray(_NODES, dtype)
    x = jnp.multiply.outer(root_of(variance), nodes)
    value, slope = xjax.jvp(fun, (x,), (jnp.ones_like(x),))
    return _coefficients(value, dtype), _coefficients(slope, dtype)


def _coefficients(values: Array, dtype: np.dtype) -> _Coefficients:
    """Args: values: those of the function at the nodes, in the last axis."""
    terms = jnp.moveaxis(jnp.matmul(values, jnp.asarray(_weighted_polynomials().T, dtype), precision="highest"), -1, 0)
    weights = jnp.asarray(_WEIGHTS, dtype)
    square = jnp.matmul(values * values, weights, precision="highest")
    mirrored = jnp.matmul(values * values[..., ::-1], weights, precision="highest")
    even = (square + mirrored) / 2 - jnp.sum(terms[::2] ** 2, 0)
    odd = (square - mirrored) / 2 - jnp.sum(terms[1::2] ** 2, 0)
    return _Coefficients(terms, root_of(even), root_of(odd))


def _weighted_polynomials() -> np.ndarray:
    """The normalized polynomials at the nodes, times the weights of the integral: [TERMS, nodes]."""
    rows = [np.ones_like(_NODES), _NODES]
    for k in range(1, TERMS - 1):
        rows.append((_NODES * rows[-1] - np.sqrt(k) * rows[-2]) / np.sqrt(k + 1))
    return np.stack(rows) * _WEIGHTS


def _series(r: Array, one: _Coefficients, other: _Coefficients) -> Array:
    """The sum over k of ``one[k] * other[k] * r**k``, with the powers beyond the terms."""
    return (_power_series(r, one.terms, other.terms) + one.even * other.even * r**TERMS
            + one.odd * other.odd * r ** (TERMS + 1))


@xjax.custom_jvp
def _power_series(r: Array, one: Array, other: Array) -> Array:
    return _horner(r, (one, other), lambda k, one, other: one * other)


@_power_series.defjvp
def _power_series_jvp(values: Sequence[Array], tangents: Sequence[Array]) -> tuple[Array, Array]:
    # Reverse mode through the loop would store an array of the size of r for each term.
    (r, one, other), (dr, d_one, d_other) = values, tangents
    slope = _horner(r, (one, other), lambda k, one, other: k * one * other, first=1)
    by_terms = _horner(r, (one, other, d_one, d_other),
                       lambda k, one, other, d_one, d_other: d_one * other + one * d_other)
    return _power_series(r, one, other), slope * dr + by_terms


def _horner(r: Array, terms: Sequence[Array], coefficient: Callable[..., Array], first: int = 0) -> Array:
    """The sum over k >= first of ``coefficient(k, *terms[k]) * r**(k - first)``, in a loop with 8 terms a step."""
    def step(total: Array, at: Any) -> tuple[Array, None]:
        k, *of_k = at
        return total * r + coefficient(k, *of_k), None

    degrees = jnp.arange(first, TERMS, dtype=r.dtype)
    return lax.scan(step, jnp.zeros_like(r), (degrees, *(term[first:] for term in terms)), reverse=True, unroll=8)[0]


def expansion_error(fun: Callable[[Array], Array], variance: ArrayLike) -> tuple[Array, Array]:
    """Bounds of the relative errors of the two expectations, for two values of this variance and any correlation.

    The exact sum beyond the terms, and the powers that are added for it, are both at most as large as the missing part
    of the expectation at r = 1. So their difference is at most this part, for the degrees of each parity. Rounding is
    not included.

    Returns: the bound for the NNGP kernel, and the bound for the derivative, by which a layer multiplies the NTK; both
      relative to the kernel of equal inputs, of the shape of `variance`. NaN for a function that is 0 almost
      everywhere, such as the derivative of a step.
    """
    variance = jnp.asarray(variance, jnp.zeros(()).dtype)
    result = []
    for part in _expanded(fun, variance):
        missing = part.even**2 + part.odd**2
        whole = missing + jnp.sum(part.terms**2, 0)
        result.append(jnp.where(whole > 0, missing / jnp.where(whole > 0, whole, 1), jnp.nan))
    return result[0], result[1]
