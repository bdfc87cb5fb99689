"""Random integers and bools: bernoulli, randint, rademacher, categorical."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xjax import lax
from xjax.core import dtypes
from xjax.core.array_type import converted
from xjax.core.calls import constrained
from xjax.core.errors import bad, check_choice
from xjax.core.types import typeof
from xjax.ops.checks import canonical_axis
from xjax.ops.shape import move_axis
from xjax.ops.sort import top_k
from xjax.random.arguments import UINTS, check_dtype, check_key, check_shape, common_shape, compiled
from xjax.random.continuous import gumbel_formula, unit_floats
from xjax.random.generators import random_bits, split_key
from xjax.typing import Array, ArrayLike, DTypeLike, PRNGKey

# -- bernoulli ----------------------------------------------------------------------------------------------------

def bernoulli(key: PRNGKey, p: ArrayLike = 0.5, shape: Sequence[int] | None = None, mode: str = "low",
              *, out_sharding: object = None) -> Array:
    """Bools that are true with probability `p`.

    Args:
      p: float[...] that broadcasts to `shape` (None: the shape of p).
      mode: "low" compares p with one random float, "high" with two, for p near the resolution of floats.
    """
    if out_sharding is not None:
        return constrained("random.bernoulli", bernoulli(key, p, shape, mode), out_sharding)
    key = check_key("bernoulli", key)
    aval = typeof(p)
    if not dtypes.is_float(aval.dtype):
        raise bad("random.bernoulli", "`p` must be a float", given={"p": aval.str_short()}, fix="pass a float such as "
                  "0.5; convert arrays with p.astype('float32').")
    check_choice("random.bernoulli", "mode", mode, ("low", "high"))
    sampler = _bernoulli if mode == "low" else _fine_bernoulli
    return compiled(sampler, common_shape("bernoulli", shape, p))(key, p)


def _bernoulli(shape: tuple[int, ...], key: PRNGKey, p: Array) -> Array:
    return lax.lt(unit_floats(shape, p.dtype, key), _of_rank(p, len(shape)))


def _fine_bernoulli(shape: tuple[int, ...], key: PRNGKey, p: Array) -> Array:
    dtype = p.dtype
    pair = unit_floats((2, *shape), dtype, key)
    u1, u2 = (lax.squeeze(lax.slice_in_dim(pair, i, i + 1), (0,)) for i in (0, 1))
    u2 = lax.mul(u2, dtype.type(2.0 ** -dtypes.finfo(dtype).nmant))
    return lax.lt(u2, lax.sub(_of_rank(p, len(shape)), u1))


def _of_rank(x: Array, rank: int) -> Array:
    return lax.broadcast_to_rank(x, rank) if np.ndim(x) else x


def rademacher(key: PRNGKey, shape: Sequence[int] = (), dtype: DTypeLike | None = None,
               *, out_sharding: object = None) -> Array:
    """Signs: -1 or 1, each with probability 1/2, as numbers of `dtype` (default int)."""
    if out_sharding is not None:
        return constrained("random.rademacher", rademacher(key, shape, dtype), out_sharding)
    key = check_key("rademacher", key)
    dtype = dtypes.canonicalize_dtype(int) if dtype is None else dtypes.user_dtype(dtype, "random.rademacher")
    return compiled(signs, check_shape("rademacher", shape), dtype)(key)


def signs(shape: tuple[int, ...], dtype: np.dtype, key: PRNGKey) -> Array:
    """Random signs, -1 or 1, as numbers of any dtype."""
    coin = unit_floats(shape, dtypes.canonicalize_dtype(float), key)
    ones = lax.convert_element_type(lax.lt(coin, coin.dtype.type(0.5)), dtype)
    if dtypes.is_bool(dtype):                   # -1 and 1 are both true
        return lax.full_like(ones, True)
    return lax.sub(lax.mul(dtype.type(2), ones), dtype.type(1))


# -- randint ------------------------------------------------------------------------------------------------------

def randint(key: PRNGKey, shape: Sequence[int], minval: ArrayLike, maxval: ArrayLike,
            dtype: DTypeLike | None = None, *, out_sharding: object = None) -> Array:
    """Integers of the uniform distribution on [minval, maxval); minval where maxval <= minval.

    Unless the range is a power of 2, small numbers are more likely, by a relative difference of about range / 2**64
    (2**128 for 64-bit dtypes).

    Args: minval, maxval: integers or arrays that broadcast to `shape`; maxval may be the largest number of `dtype` plus
      1. dtype: an integer dtype, default int32, with jax_enable_x64 int64.
    """
    if out_sharding is not None:
        return constrained("random.randint", randint(key, shape, minval, maxval, dtype), out_sharding)
    key = check_key("randint", key)
    dtype = check_dtype("randint", dtype, "i", exc=TypeError, default=int)
    shape = common_shape("randint", check_shape("randint", shape), minval, maxval)
    return compiled(_randint, shape, dtype)(key, minval, maxval)


def _randint(shape: tuple[int, ...], dtype: np.dtype, key: PRNGKey, low: Array, high: Array) -> Array:
    info = dtypes.iinfo(dtype)
    if info.bits >= 32:
        return integers_between(shape, dtype, key, _as_integer(low), _as_integer(high))
    low = lax.clamp(np.int32(info.min), lax.convert_element_type(low, np.int32), np.int32(info.max))
    high = lax.clamp(np.int32(info.min), lax.convert_element_type(high, np.int32), np.int32(info.max + 1))
    return lax.convert_element_type(integers_between(shape, np.dtype(np.int32), key, low, high), dtype)


def _as_integer(x: Array) -> Array:
    is_int = type(x) is int or dtypes.is_int(typeof(x).dtype)               # an integer of any size
    return x if is_int else lax.convert_element_type(x, dtypes.canonicalize_dtype(int))


def integers_between(shape: tuple[int, ...], dtype: np.dtype, key: PRNGKey, low: ArrayLike, high: ArrayLike) -> Array:
    """Integers of 32 or 64 bits in [low, high).

    A random number with twice the bits of the dtype is reduced modulo the range: (upper * 2**width + lower) % span. The
    power is reduced first, so that nothing overflows.
    """
    width = dtypes.itemsize_bits(dtype)
    uint = UINTS[width]
    too_high = lax.gt(high, high.dtype.type(min(dtypes.iinfo(dtype).max, dtypes.iinfo(high.dtype).max)))
    low, high, too_high = (_of_rank(x, len(shape)) for x in (_clipped(low, dtype), _clipped(high, dtype), too_high))
    keys = split_key((2,), key)
    upper, lower = (random_bits(width, shape, lax.squeeze(lax.slice_in_dim(keys, i, i + 1), (0,))) for i in (0, 1))

    span = lax.convert_element_type(lax.sub(high, low), uint)
    span = lax.select(lax.le(high, low), lax.full_like(span, 1), span)
    # If maxval exceeds the largest number, add 1 to the span. For the whole range of the dtype it is 0; x % 0 is x.
    longer = lax.bitwise_and(too_high, lax.gt(high, low))
    span = lax.select(longer, lax.add(span, uint.type(1)), span)
    half_power = lax.rem(uint.type(2 ** (width // 2)), span)
    power = lax.rem(lax.mul(half_power, half_power), span)
    offset = lax.rem(lax.add(lax.mul(lax.rem(upper, span), power), lax.rem(lower, span)), span)
    return lax.add(low, lax.convert_element_type(offset, dtype))


def _clipped(x: Array, dtype: np.dtype) -> Array:
    """Integers converted to another dtype, after clipping to its range."""
    old, new = dtypes.iinfo(x.dtype), dtypes.iinfo(dtype)
    ends = (x.dtype.type(max(old.min, new.min)), x.dtype.type(min(old.max, new.max)))
    return lax.convert_element_type(lax.clamp(ends[0], x, ends[1]), dtype)


# -- categorical --------------------------------------------------------------------------------------------------

def categorical(key: PRNGKey, logits: ArrayLike, axis: int = -1, shape: Sequence[int] | None = None,
                replace: bool = True, mode: str | None = None, *, out_sharding: object = None) -> Array:
    """Indices of categories, drawn with probabilities ``softmax(logits, axis)``.

    Args:
      logits: float[..., n, ...]: unnormalised log-probabilities, n categories along `axis`.
      shape: that of the result; the axes of logits without `axis` (the default) must broadcast to its last axes.
      replace: False: the samples along the leading axes of `shape` are distinct.
      mode: as in `gumbel`.
    Returns: integers of the default dtype.
    """
    if out_sharding is not None:
        return constrained("random.categorical", categorical(key, logits, axis, shape, replace, mode), out_sharding)
    key, logits = check_key("categorical", key), converted(logits)
    aval = typeof(logits)
    dtype = check_dtype("categorical", aval.dtype, "f")
    axis = canonical_axis(axis, aval.ndim, "random.categorical")
    batch = aval.shape[:axis] + aval.shape[axis + 1:]
    shape = batch if shape is None else check_shape("categorical", shape)
    _check_batch(shape, batch)
    formula = gumbel_formula(mode)
    if replace:
        return compiled(_categorical, shape, axis, dtype, formula)(key, logits)
    samples, categories = math.prod(shape[:len(shape) - len(batch)]), aval.shape[axis]
    if samples > categories or shape[len(shape) - len(batch):] != batch:
        raise bad("random.categorical", f"cannot draw {samples} distinct samples from {categories} categories",
                  given={"logits": aval.str_short(), "shape": str(shape)}, fix="draw fewer, or pass replace=True.",
                  exc=ValueError)
    return compiled(_distinct_categories, shape, axis, dtype, formula)(key, logits)


def _check_batch(shape: tuple[int, ...], batch: tuple[int, ...]) -> None:
    last = shape[len(shape) - len(batch):]
    if len(shape) < len(batch) or any(n not in (1, m) for n, m in zip(batch, last, strict=True)):
        raise bad("random.categorical", "the last axes of `shape` must be those of the logits without `axis`",
                  given={"shape": str(shape), "logits without axis": str(batch)},
                  fix=f"pass shape=(n, ...) + {batch}.", exc=ValueError)


def _categorical(shape: tuple[int, ...], axis: int, dtype: np.dtype, formula: Callable[..., Any], key: PRNGKey,
                 logits: Array) -> Array:
    new = len(shape) - logits.ndim + 1
    position = new + axis
    noise = formula((*shape[:position], logits.shape[axis], *shape[position:]), dtype, key)
    scores = lax.add(noise, lax.expand_dims(logits, tuple(range(new))))
    return lax.argmax(scores, position, dtypes.canonicalize_dtype(int))


def _distinct_categories(shape: tuple[int, ...], axis: int, dtype: np.dtype, formula: Callable[..., Any], key: PRNGKey,
                         logits: Array) -> Array:
    """The categories with the largest scores, log-probabilities plus Gumbel noise."""
    samples = math.prod(shape[:len(shape) - logits.ndim + 1])
    scores = lax.add(logits, formula(logits.shape, dtype, key))
    _, indices = top_k(move_axis(scores, axis, logits.ndim - 1), samples)
    return lax.reshape(move_axis(indices, logits.ndim - 1, 0), shape)
