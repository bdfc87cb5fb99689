"""Relative entropies: `rel_entr` and `kl_div`, by the logarithm of the quotient of two positive numbers.

With ``s = (p - q) / (p + q)`` the logarithm of ``p / q`` is ``2 atanh(s)``, and

    p log(p / q) - p + q = (p - q) s (1 + s (1 + s) B(s**2)),   B(s**2) = (atanh(s) - s) / s**3,

in which nothing cancels. This holds for quotients from about 1/3 to 3; otherwise p is first divided by a power of 2.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core import dtypes
from xjax.core.types import typeof
from xjax.lax.double_word import log_2
from xjax.runtime.one_launch import one_launch
from xjax.scipy.arguments import chebyshev_series, horner, of_reals, weak_as
from xjax.transforms.custom_jvp import custom_jvp
from xjax.typing import Array, ArrayLike


@functools.cache
def _atanh_terms(size: int) -> list[float]:
    """B as a polynomial in ``t = 8 s**2 - 1``, for s**2 up to 1/4. size: bytes of the dtype."""
    power_series = 1 / (2 * np.arange(40) + np.longdouble(3))
    series = chebyshev_series(lambda t: np.polynomial.polynomial.polyval((1 + t) / 8, power_series),
                              7 if size == 4 else 15)
    return np.polynomial.chebyshev.cheb2poly(series).astype(float).tolist()


class _Quotient(NamedTuple):
    """The quotient ``p / q = 2**k (1 + s) / (1 - s)``; k is 0 for quotients near 1."""

    k: Any
    s: Any
    b: Any                      # B(s**2)
    difference: Any             # where k is 0: (p - q) / scale
    scale: Any                  # a power of 2


def _bits(x: Array) -> tuple[Array, Array]:
    """(The bits of ``factor * x`` as integers, factor); the factor makes subnormal numbers normal, else it is 1."""
    factor = jnp.where(x < float(dtypes.finfo(x.dtype).smallest_normal), 2.0 ** (_digits(x) + 1), 1)
    return lax.bitcast_convert_type(x * factor, np.int64 if x.dtype == np.float64 else np.int32), factor


def _digits(x: Array) -> int:
    return dtypes.finfo(x.dtype).nmant


def _quotient(p: Array, q: Array) -> _Quotient:
    """The quotient, from the bits of p and q. It is only valid for positive finite numbers."""
    digits = _digits(p)
    (bits_p, grown_p), (bits_q, grown_q) = _bits(p), _bits(q)
    number = bits_p.dtype.type
    mantissa = number((1 << digits) - 1)
    apart = bits_p - bits_q                                     # about log2(p / q), in units of 2**-digits
    near = jnp.abs(apart) <= number(3 << (digits - 1))
    k = jnp.where(near, 0, lax.shift_right_arithmetic(apart + number(1 << (digits - 1)), number(digits)))
    bits_below = (bits_q & mantissa) | np.ones((), p.dtype).view(number)
    below = lax.bitcast_convert_type(bits_below, p.dtype)
    above = lax.bitcast_convert_type(bits_below + (apart - (k << number(digits))), p.dtype)
    difference = above - below
    s = difference / (above + below)
    scale = lax.bitcast_convert_type(bits_q & ~mantissa, p.dtype) / grown_q
    k = k.astype(p.dtype) + jnp.where(grown_q > grown_p, digits + 1, jnp.where(grown_q < grown_p, -digits - 1, 0))
    return _Quotient(k, s, horner(8 * s * s - 1, _atanh_terms(p.dtype.itemsize)), difference, scale)


@custom_jvp
def _log_ratio(p: Array, q: Array) -> Array:
    """``log(p / q)`` of positive numbers."""
    at = _quotient(p, q)
    high, low = log_2(p.dtype)
    log_ratio = at.k * high + (2 * at.s * (1 + at.s * at.s * at.b) + at.k * low)
    end = jnp.where(p < np.inf, -np.inf, jnp.where(q < np.inf, np.inf, np.nan))
    return jnp.where((p < np.inf) & (q < np.inf), log_ratio, jnp.where((p == p) & (q == q), end, np.nan))


def _inverse(x: Array) -> Array:
    return jnp.where(x > 0, 1 / jnp.where(x > 0, x, 1), 0)              # the logarithm is only used for x > 0


_log_ratio.defjvps(lambda dp, y, p, q: dp * _inverse(p), lambda dq, y, p, q: -dq * _inverse(q))


@custom_jvp
def _rel_entr(p: Array, q: Array) -> Array:
    return _at_edges(p, q, p * _log_ratio(p, q), 0)


@custom_jvp
def _kl_div(p: Array, q: Array) -> Array:
    at, entropy = _quotient(p, q), p * _log_ratio(p, q)
    near = at.difference * at.s * (1 + at.s * (1 + at.s) * at.b) * at.scale
    inside = jnp.where((at.k == 0) & (p < np.inf) & (q < np.inf), near, entropy - (p - q))
    return _at_edges(p, q, jnp.where(p < np.inf, inside, entropy), q)


def _at_edges(p: Array, q: Array, inside: Array, at_zero: ArrayLike) -> Array:
    """`inside` for p, q > 0 or nan, `at_zero` where p is 0 and q >= 0, inf elsewhere."""
    outside = (p <= 0) & (q == q) | (q <= 0) & (p == p)
    return jnp.where(outside, jnp.where((p == 0) & (q >= 0), at_zero, np.inf), inside)


def _where_both_positive(slope: Array, p: Array, q: Array, at_zero: float) -> Array:
    """`slope` for p, q > 0, `at_zero` where p is 0 and q >= 0, 0 elsewhere."""
    smallest = float(dtypes.finfo(typeof(p).dtype).smallest_normal)         # the quotient of subnormal numbers is 0 / 0
    return jnp.where((p >= smallest) & (q >= smallest), slope, jnp.where((p == 0) & (q >= 0), at_zero, 0))


@custom_jvp
def _ratio(p: Array, q: Array) -> Array:
    return jnp.divide(p, q)


@custom_jvp
def _share_off(p: Array, q: Array) -> Array:
    """``1 - p / q`` of positive numbers."""
    info = dtypes.finfo(typeof(q).dtype)
    small = q < float(info.smallest_normal) / float(info.eps)             # the difference may be subnormal
    scale = jnp.where(small, 1 / float(info.eps), 1)
    return jnp.where(q < np.inf, (q * scale - p * scale) / (q * scale), jnp.where(p < np.inf, 1, np.nan))


_ratio.defjvps(lambda dp, y, p, q: dp * _inverse(q), lambda dq, y, p, q: dq * -(p * _inverse(q) * _inverse(q)))
_share_off.defjvps(lambda dp, y, p, q: dp * -_inverse(q), lambda dq, y, p, q: dq * (p * _inverse(q) * _inverse(q)))
# Values and slopes contain the same terms, outside of any `where`, so that XLA computes them once.
_rel_entr.defjvps(
    lambda dp, y, p, q: dp * _where_both_positive(_log_ratio(p, q) + 1, p, q, 0),
    lambda dq, y, p, q: dq * _where_both_positive(-_ratio(p, q), p, q, 0))
_kl_div.defjvps(
    lambda dp, y, p, q: dp * _where_both_positive(_log_ratio(p, q), p, q, -1),
    lambda dq, y, p, q: dq * _where_both_positive(_share_off(p, q), p, q, 1))


@one_launch(arrays=2)
def rel_entr(p: ArrayLike, q: ArrayLike) -> Array:
    """``p * log(p / q)``, element-wise: 0 where p is 0 and q >= 0; inf where p or q is negative, or only q is 0.

    Raises: ValueError for complex numbers.
    """
    return weak_as(of_reals("rel_entr", _rel_entr, p, q), p, q)


@one_launch(arrays=2)
def kl_div(p: ArrayLike, q: ArrayLike) -> Array:
    """``p * log(p / q) - p + q``, element-wise: q where p is 0 and q >= 0; inf where `rel_entr` is."""
    return weak_as(of_reals("kl_div", _kl_div, p, q), p, q)
