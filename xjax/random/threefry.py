"""Threefry on words: random bits and new keys from a key, with the two numberings of counters that JAX has.

With `threefry_partitionable` (the default) element i of the result is the encrypted 64-bit number i, so that any part
of the result can be computed separately. The older numbering encrypts the numbers 0 ... n - 1 in pairs (i, i + n/2).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xjax import lax
from xjax.core.config import config, enable_x64
from xjax.core.symbolic.dims import is_above
from xjax.ops.convert import size_as
from xjax.ops.prng import threefry2x32
from xjax.random.arguments import UINTS, compiled
from xjax.typing import Array, ArrayLike, PRNGKey

_WORDS = 2**32
_BLOCK = _WORDS - 1                 # words that the older numbering draws with one key


def threefry_bits(width: int, shape: tuple[int, ...], key: PRNGKey) -> Array:
    """Bits as unsigned integers of 8, 16, 32 or 64 bits."""
    draw = _bits_by_position if config.threefry_partitionable else _bits_in_pairs
    return draw(width, shape, key)


def key_words(key: PRNGKey) -> tuple[Array, Array]:
    """The two words of a key, uint32[] each."""
    first, second = (lax.squeeze(lax.slice(key, (i,), (i + 1,)), (0,)) for i in (0, 1))
    return first, second


def threefry_split(shape: tuple[int, ...], key: PRNGKey) -> Array:
    """Keys uint32[*shape, 2] from one key.

    In a trace this and `threefry_fold_in` are calls, so that XLA computes keys once, not again in each loop that uses
    them.
    """
    return compiled(_split, shape)(key)


def _split(shape: tuple[int, ...], key: PRNGKey) -> Array:
    if not config.threefry_partitionable:
        count = 2 * math.prod(shape)
        return lax.reshape(encrypt_in_pairs(key_words(key), lax.iota(np.uint32, count)), (*shape, 2))
    words = threefry2x32(*key_words(key), *_positions(shape))
    return lax.concatenate([lax.expand_dims(w, (len(shape),)) for w in words], len(shape))


def threefry_fold_in(key: PRNGKey, data: ArrayLike) -> Array:
    """A key from a key and a number, uint32[]."""
    return compiled(_fold_in)(key, data)


def _fold_in(key: PRNGKey, data: Array) -> Array:
    words = threefry2x32(*key_words(key), np.uint32(0), data)
    return lax.concatenate([lax.expand_dims(w, (0,)) for w in words], 0)


# -- by position --------------------------------------------------------------------------------------------------

def _bits_by_position(width: int, shape: tuple[int, ...], key: PRNGKey) -> Array:
    high, low = threefry2x32(*key_words(key), *_positions(shape))
    if width == 64:
        return _join(high, low)
    out = lax.bitwise_xor(high, low)
    return out if width == 32 else lax.convert_element_type(out, UINTS[width])


def _join(high: Array, low: Array) -> Array:
    """64-bit numbers from their two halves."""
    high, low = (lax.convert_element_type(x, np.uint64) for x in (high, low))
    return lax.bitwise_or(lax.shift_left(high, np.uint64(32)), low)


def _positions(shape: tuple[int, ...]) -> tuple[Any, Any]:
    """High and low word of each element's position in row-major order."""
    if not is_above(math.prod(shape), _WORDS):
        return np.uint32(0), _linear_index(shape, np.dtype(np.uint32))
    return _wide_positions(shape)


def _wide_positions(shape: tuple[int, ...]) -> tuple[Any, Any]:
    with enable_x64():              # 64-bit integers are needed here, even if the user's dtypes have 32 bits
        index = _linear_index(shape, np.dtype(np.uint64))
        high = lax.shift_right_logical(index, np.uint64(32))
        return lax.convert_element_type(high, np.uint32), lax.convert_element_type(index, np.uint32)


def _linear_index(shape: tuple[int, ...], dtype: np.dtype) -> ArrayLike:
    """Position of each element in row-major order, as a sum over the axes, which XLA can shard along any of them."""
    if not shape:
        return dtype.type(0)
    index, stride = lax.broadcasted_iota(dtype, shape, len(shape) - 1), 1
    for axis in range(len(shape) - 2, -1, -1):
        stride *= max(shape[axis + 1], 1)       # the stride must not be 0 for an empty array
        scale = size_as(stride % 2 ** (8 * dtype.itemsize) if type(stride) is int else stride, dtype)
        index = lax.add(lax.mul(lax.broadcasted_iota(dtype, shape, axis), scale), index)
    return index


# -- in pairs -----------------------------------------------------------------------------------------------------

def encrypt_in_pairs(key: tuple[Array, Array], counters: Array) -> Array:
    """Encrypt the numbers along the last axis: the first half has the high words of the blocks, the second the low."""
    count = counters.shape[-1]
    half = (count + 1) // 2
    if count % 2:
        counters = lax.pad(counters, np.uint32(0), [(0, 0, 0)] * (counters.ndim - 1) + [(0, 1, 0)])
    halves = (lax.slice_in_dim(counters, 0, half, axis=-1), lax.slice_in_dim(counters, half, 2 * half, axis=-1))
    out = lax.concatenate(threefry2x32(*key, *halves), counters.ndim - 1)
    return lax.slice_in_dim(out, 0, count, axis=-1) if count % 2 else out


def _bits_in_pairs(width: int, shape: tuple[int, ...], key: PRNGKey) -> Array:
    size = math.prod(shape)
    words = _words_in_pairs(-(-width * size // 32), key)
    if width == 64:
        words = _join(lax.slice(words, (0,), (size,)), lax.slice(words, (size,), (2 * size,)))
    elif width < 32:
        words = lax.slice(_narrow_words(words, width), (0,), (size,))
    return lax.reshape(words, shape)


def _words_in_pairs(count: int, key: PRNGKey) -> Array:
    """`count` random words; more than _BLOCK are drawn with several keys."""
    blocks, rest = divmod(count, _BLOCK)
    if not blocks:
        return encrypt_in_pairs(key_words(key), lax.iota(np.uint32, rest))
    keys = threefry_split((blocks + 1,), key)
    full = [encrypt_in_pairs(key_words(_row(keys, i)), lax.iota(np.uint32, _BLOCK)) for i in range(blocks)]
    return lax.concatenate([*full, encrypt_in_pairs(key_words(_row(keys, blocks)), lax.iota(np.uint32, rest))], 0)


def _row(keys: Array, i: int) -> Array:
    return lax.squeeze(lax.slice_in_dim(keys, i, i + 1), (0,))


def _narrow_words(words: Array, width: int) -> Array:
    """Each 32-bit word as 32 / width narrower numbers, low bits first."""
    count, parts = words.shape[0], 32 // width
    distances = np.arange(parts, dtype=np.uint32) * np.uint32(width)
    shifted = lax.shift_right_logical(lax.broadcast_in_dim(words, (count, parts), (0,)),
                                      lax.broadcast_in_dim(distances, (count, parts), (1,)))
    return lax.reshape(lax.convert_element_type(shifted, UINTS[width]), (count * parts,))
