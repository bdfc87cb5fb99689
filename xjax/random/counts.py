"""Random counts: poisson, binomial, multinomial; large counts are drawn by rejection."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core import dtypes
from xjax.core.calls import constrained
from xjax.core.errors import bad
from xjax.core.types import typeof
from xjax.numpy.promote import promote_inexact
from xjax.random.arguments import check_dtype, check_key, check_method, check_shape, common_shape, compiled
from xjax.random.continuous import two_keys, unit_floats
from xjax.random.generators import split_key
from xjax.typing import Array, ArrayLike, DTypeLike, PRNGKey


def _until(done: Callable, step: Callable, state: tuple, limit: int) -> tuple:
    """Repeat ``state = step(*state)`` until `done(*state)`, an array, is true everywhere, at most `limit` times."""
    def cond(carry: tuple) -> Array:
        return jnp.any(~done(*carry[1:])) & (carry[0] < limit)

    return lax.while_loop(cond, lambda carry: (carry[0] + np.int32(1), *step(*carry[1:])), (np.int32(0), *state))[1:]


def _three_keys(key: PRNGKey) -> list[Any]:
    keys = split_key((3,), key)
    return [lax.squeeze(lax.slice_in_dim(keys, i, i + 1), (0,)) for i in range(3)]


_MOST = int(np.iinfo(np.int32).max)         # the largest possible limit of rounds; the loops end long before

# -- poisson ------------------------------------------------------------------------------------------------------

def poisson(key: PRNGKey, lam: ArrayLike, shape: Sequence[int] | None = None, dtype: DTypeLike | None = None, *,
            method: str = "exact", out_sharding: object = None) -> Array:
    """Counts of the Poisson distribution with mean `lam`.

    Args: lam: number or array >= 0 that broadcasts to `shape` (None: its shape), used in single precision; dtype: an
      integer dtype (default int32, with jax_enable_x64 int64); method: "exact" (JAX's "approximate" is not supported).
    Returns: integers; the largest of the dtype where lam is infinite; -1 where lam is nan or negative.

    >>> poisson(random.PRNGKey(0), 3.0, (5,)).dtype
    dtype('int32')
    """
    if out_sharding is not None:
        return constrained("random.poisson", poisson(key, lam, shape, dtype, method=method), out_sharding)
    check_method("poisson", method)
    key = check_key("poisson", key)
    dtype = check_dtype("poisson", dtype, "i", default=int)
    return compiled(_poisson, common_shape("poisson", shape, lam), dtype)(key, lam)


def _poisson(shape: tuple[int, ...], dtype: np.dtype, key: PRNGKey, lam: Array) -> Array:
    lam = lax.convert_element_type(jnp.broadcast_to(lam, shape), np.float32)
    small, endless = jnp.isnan(lam) | (lam < 10), lam == np.inf
    limit = min(dtypes.iinfo(dtype).max, _MOST)
    few = _by_waiting(dtype, key, lax.select(small, lam, lax.full_like(lam, 0)), limit)
    many = _by_ratio(dtype, key, lax.select(small | endless, lax.full_like(lam, 1e5), lam), limit)
    many = lax.select(endless, lax.full_like(many, dtypes.iinfo(dtype).max), many)
    return lax.select(lam == 0, lax.full_like(few, 0), lax.select(small, few, many))


def _by_waiting(dtype: np.dtype, key: PRNGKey, lam: Array, limit: int) -> Array:
    """The number of uniform factors until their product falls below exp(-lam), minus 1 (Knuth)."""
    def step(count: Array, key: PRNGKey, log_product: Array) -> tuple:
        key, subkey = two_keys(key)
        count = lax.select(log_product > -lam, count + dtype.type(1), count)
        return count, key, log_product + lax.log(unit_floats(lam.shape, np.dtype(np.float32), subkey))

    state = (lax.full(lam.shape, 0, dtype), key, lax.full_like(lam, 0))
    # Negated, so that elements with nan are done.
    return _until(lambda count, key, log_product: ~(log_product > -lam), step, state, limit)[0] - dtype.type(1)


def _by_ratio(dtype: np.dtype, key: PRNGKey, lam: Array, limit: int) -> Array:
    """Transformed rejection (Hörmann, The transformed rejection method for generating Poisson variables, 1993)."""
    log_lam = lax.log(lam)
    b = 0.931 + 2.53 * lax.sqrt(lam)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2)

    def step(counts: Array, accepted: Array, key: PRNGKey) -> tuple:
        key, u_key, v_key = _three_keys(key)
        u = unit_floats(lam.shape, lam.dtype, u_key) - 0.5
        v = unit_floats(lam.shape, lam.dtype, v_key)
        inner = 0.5 - lax.abs(u)
        k = lax.floor((2 * a / inner + b) * u + lam + 0.43)
        s = lax.log(v * inverse_alpha / (a / (inner * inner) + b))
        likely = s <= -lam + k * log_lam - lax.lgamma(k + 1)
        rejected = (k < 0) | ((inner < 0.013) & (v > inner))
        accept = ((inner >= 0.07) & (v <= v_r)) | (~rejected & likely)
        return lax.select(accept, k, counts), accepted | accept, key

    state = (lax.full_like(lam, -1), lax.full(lam.shape, False), key)
    return lax.convert_element_type(_until(lambda counts, accepted, key: accepted, step, state, limit)[0], dtype)


# -- binomial -----------------------------------------------------------------------------------------------------

def binomial(key: PRNGKey, n: ArrayLike, p: ArrayLike, shape: Sequence[int] | None = None,
             dtype: DTypeLike | None = None) -> Array:
    """Numbers of successes in n trials, each successful with probability p.

    Args: n, p: numbers or arrays that broadcast to `shape` (None: their common shape); dtype: a float dtype.
    Returns: whole numbers as floats; nan where n or p is negative or nan, or p > 1.
    """
    key = check_key("binomial", key)
    dtype = check_dtype("binomial", dtype, "f")
    return compiled(_binomial, common_shape("binomial", shape, n, p), dtype)(key, n, p)


def _binomial(shape: tuple[int, ...], dtype: np.dtype, key: PRNGKey, n: Array, p: Array) -> Array:
    p, = promote_inexact("random.binomial", p)
    n = jnp.broadcast_to(lax.convert_element_type(n, p.dtype), shape)
    p = jnp.broadcast_to(p, shape)
    rare = p < 0.5
    q = lax.select(rare, p, 1.0 - p)        # the less probable outcome is counted
    bad_n, bad_q, endless = jnp.isnan(n) | (n < 0), jnp.isnan(q) | (q < 0), jnp.isinf(n)
    q = lax.abs(lax.select(bad_q, lax.full_like(q, 0.01), q))           # -0 would give gaps of -inf, an endless loop
    few = bad_n | endless | (n * q <= 10)
    n = jnp.floor(n)
    counts = lax.select(few, _by_gaps(dtype, key, lax.select(few & ~endless, n, lax.full_like(n, 0)), q),
                        _by_transformed_ratio(dtype, key, lax.select(few, lax.full_like(n, 1e4), n),
                                              lax.select(few, lax.full_like(q, 0.5), q)))
    invalid = bad_q | bad_n
    counts = lax.select(invalid, lax.full_like(counts, np.nan), counts)
    counts = lax.select(endless & ~invalid, lax.full_like(counts, np.inf), counts)
    keep = rare | bad_n | jnp.isnan(p) | endless
    return lax.select(keep, counts, lax.convert_element_type(n, dtype) - counts)


def _by_gaps(dtype: np.dtype, key: PRNGKey, n: Array, p: Array) -> Array:
    """The number of gaps between successes, drawn from the geometric distribution, that fit into n trials."""
    log_failure = jnp.log1p(-p)

    def step(count: Array, total: Array, key: PRNGKey) -> tuple:
        subkey, key = two_keys(key)
        count = lax.select(total <= n, count + 1, count)
        gap = lax.ceil(lax.log(unit_floats(p.shape, p.dtype, subkey)) / log_failure)
        return count, total + gap, key

    state = (lax.full_like(p, 0), lax.full_like(p, 0), key)
    count = _until(lambda count, total, key: ~(total <= n), step, state, _MOST)[0]
    return lax.convert_element_type(count - 1, dtype)


def _by_transformed_ratio(dtype: np.dtype, key: PRNGKey, n: Array, p: Array) -> Array:
    """Transformed rejection (Hörmann, The generation of binomial random variates, 1993, algorithm BTRS)."""
    deviation = jnp.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    c = n * p + 0.5
    v_r = 0.92 - 4.2 / b
    odds = p / (1 - p)
    alpha = (2.83 + 5.1 / b) * deviation
    m = jnp.floor((n + 1) * p)

    def step(counts: Array, accepted: Array, key: PRNGKey) -> tuple:
        key, u_key, v_key = _three_keys(key)
        u = unit_floats(p.shape, p.dtype, u_key) - 0.5
        v = unit_floats(p.shape, p.dtype, v_key)
        inner = 0.5 - jnp.abs(u)
        k = jnp.floor((2 * a / inner + b) * u + c)
        bound = ((m + 0.5) * jnp.log((m + 1) / (odds * (n - m + 1)))
                 + (n + 1) * jnp.log((n - m + 1) / (n - k + 1))
                 + (k + 0.5) * jnp.log(odds * (n - k + 1) / (k + 1))
                 + _stirling_tail(m) + _stirling_tail(n - m) - _stirling_tail(k) - _stirling_tail(n - k))
        likely = jnp.log(v * alpha / (a / (inner * inner) + b)) <= bound
        accept = ((inner >= 0.07) & (v <= v_r)) | (~((k < 0) | (k > n)) & likely)
        return lax.select(accept, k, counts), accepted | accept, key

    state = (lax.full_like(p, -1), lax.full(p.shape, False), key)
    return lax.convert_element_type(_until(lambda counts, accepted, key: accepted, step, state, _MOST)[0], dtype)


# log(k!) minus Stirling's formula, for k = 0 ... 9.
_TAILS = np.array([math.lgamma(k + 1) - (0.5 * math.log(2 * math.pi) + (k + 0.5) * math.log(k + 1) - (k + 1))
                   for k in range(10)])


def _stirling_tail(k: Array) -> Array:
    """log(k!) minus Stirling's formula: from the table for k <= 9, else by its series."""
    exact = k <= 9
    k = lax.clamp(k.dtype.type(0), k, k.dtype.type(9))
    square = (k + 1) * (k + 1)
    series = (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1)
    return lax.select(exact, jnp.asarray(_TAILS, k.dtype)[jnp.floor(k).astype("int32")], series)


def multinomial(key: PRNGKey, n: ArrayLike, p: ArrayLike, *, shape: Sequence[int] | None = None,
                dtype: DTypeLike | None = None, unroll: int | bool = 1) -> Array:
    """How often each of several outcomes occurs in n trials.

    Args:
      n: number or array that broadcasts to `shape`; p: float[..., outcomes], probabilities along the last axis, whose
        other axes broadcast to `shape`.
      shape: that of the result without the axis of outcomes (None: from p); dtype: that of the result, default float;
      unroll: as in `scan`.
    Returns: whole numbers [*shape, outcomes], with sum n along the last axis.
    """
    key = check_key("multinomial", key)
    n, p = promote_inexact("random.multinomial", n, p)
    outcomes = typeof(p).shape
    if not outcomes:
        raise bad("random.multinomial", "`p` is a number", fix="pass the probability of each outcome.", exc=ValueError)
    shape = outcomes if shape is None else (*check_shape("multinomial", shape), outcomes[-1])
    dtype = dtypes.canonicalize_dtype(float) if dtype is None else dtypes.user_dtype(dtype, "random.multinomial")
    return compiled(_multinomial, shape, dtype, unroll)(key, n, p)


def _multinomial(shape: tuple[int, ...], dtype: np.dtype, unroll: int | bool, key: PRNGKey, n: Array,
                 p: Array) -> Array:
    """Counts outcome by outcome: each is a binomial number of the remaining trials."""
    p = jnp.moveaxis(jnp.broadcast_to(p, shape), -1, 0)
    left = lax.cumsum(p, 0, reverse=True)
    ratios = p / jnp.where(left == 0, 1, left)

    def outcome(trials: Array, ratio_and_key: tuple) -> tuple:
        ratio, key = ratio_and_key
        count = _binomial(shape[:-1], trials.dtype, key, trials, jnp.clip(ratio, 0, 1))
        return trials - count, count

    keys = split_key((ratios.shape[0],), key)
    _, counts = lax.scan(outcome, jnp.broadcast_to(n, shape[:-1]), (ratios, keys), unroll=unroll)
    return lax.convert_element_type(jnp.moveaxis(counts, 0, -1), dtype)
