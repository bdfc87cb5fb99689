"""The operations of the generators on keys: random bits, new keys, a key from a key and a number.

A generator is a set of functions of the words of one key. The operations on arrays of typed keys look them up.

  threefry2x32  counters encrypted with the key: the same numbers on every device; any part can be computed separately
  rbg           bits from XLA's generator of the device, which is fast; new keys by threefry
  unsafe_rbg    as rbg, but new keys are from XLA's generator too, and may depend on each other
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xjax import lax
from xjax.core import dtypes
from xjax.core.calls import constrained
from xjax.core.errors import bad
from xjax.core.key_types import KEY_TYPES, KeyKind, KeyType
from xjax.core.primitive import ZERO, ByProgram, Primitive
from xjax.core.types import ShapedArray
from xjax.ops.checks import NOT_LINEAR
from xjax.ops.keys import random_unwrap, random_wrap
from xjax.ops.makers import broadcast_shape, elementwise_batch
from xjax.random.arguments import UINTS, check_dtype, check_key, check_shape, compiled, operation
from xjax.random.threefry import threefry_bits, threefry_fold_in, threefry_split
from xjax.transforms.vmap import vmap
from xjax.typing import Array, ArrayLike, DTypeLike, PRNGKey
from xjax.typing import Array as AnyArray


class _Generator(NamedTuple):
    """The functions of one generator, of the words of one key."""

    bits: Callable[[int, tuple[int, ...], Any], Any]        # (width, shape, words) -> uint[*shape]
    split: Callable[[tuple[int, ...], Any], Any]            # (shape, words) -> uint32[*shape, n]
    fold_in: Callable[[Any, Any], Any]                      # (words, uint32) -> uint32[n]
    seed: Callable[[Any], Any] | None = None                # int[] -> uint32[n]; None: the words of the seed, repeated


def bits(key: PRNGKey, shape: Sequence[int] = (), dtype: DTypeLike | None = None, *,
         out_sharding: object = None) -> Array:
    """Uniform random bits.

    Args: key: a random key; shape: that of the result; dtype: unsigned, of 8, 16, 32 or 64 bits (default uint32, with
      jax_enable_x64 uint64).
    """
    if out_sharding is not None:
        return constrained("random.bits", bits(key, shape, dtype), out_sharding)
    key = check_key("bits", key)
    dtype = check_dtype("bits", dtype, "u", np.uint64)
    if dtype not in UINTS.values():
        raise bad("random.bits", f"cannot draw {dtype.name}", fix="draw uint8 and convert it.", exc=ValueError)
    return operation(random_bits, dtypes.itemsize_bits(dtype), check_shape("bits", shape))(key)


def seed_words(high: ArrayLike, low: ArrayLike, count: int) -> Array:
    """The words of the key of a seed, from its two words, uint32[] each."""
    return lax.concatenate([lax.broadcast_in_dim(w, (1,), ()) for w in (high, low)] * (count // 2), 0)


# -- operations on arrays of keys, with the names of JAX ----------------------------------------------------------

def key_operation(name: str, f: Callable, type_rule: Callable, batch: Callable, jvp: Any = ZERO) -> Primitive:
    """An operation on keys that is lowered to the program of `f(*args, **params)`."""
    def evaluate(*args: Any, **params: Any) -> Array:
        return compiled(_with_params, f, tuple(params.items()))(*args)

    return Primitive(name, type_rule=type_rule, lower=ByProgram(f), jvp=jvp, transpose=NOT_LINEAR, batch=batch,
                     evaluate=evaluate)


def _with_params(f: Callable, params: tuple, *args: AnyArray) -> Array:
    return f(*args, **dict(params))


def _elementwise(p: Callable[[], Primitive]) -> Callable:
    """Batch rule of an operation that works on each key separately."""
    return lambda axis, args, bdims, **params: (p().bind(*args, **params), bdims[0])


def _for_each(f: Callable, ndim: int) -> Callable:
    """`f`, a function of the words of one key, mapped over all axes of an array of keys."""
    for _ in range(ndim):
        f = vmap(f)
    return f


def _of(keys: Array) -> _Generator:
    return _GENERATORS[keys.dtype.kind.name]


def random_bits(width: int, shape: tuple[int, ...], keys: ArrayLike) -> Array:
    """Random bits from each key, as unsigned integers of 8, 16, 32 or 64 bits, uint[*keys.shape, *shape]."""
    return random_bits_p.bind(keys, bit_width=width, shape=shape)


def _bits(keys, *, bit_width, shape):
    draw = _for_each(lambda words: _of(keys).bits(bit_width, shape, words), keys.ndim)
    return draw(random_unwrap(keys))


def _bits_type(keys, *, bit_width, shape):
    return ShapedArray(keys.shape + shape, UINTS[bit_width])


random_bits_p = key_operation("random_bits", _bits, _bits_type, _elementwise(lambda: random_bits_p))


def split_key(shape: tuple[int, ...], keys: ArrayLike) -> Array:
    """New keys from each key, key[*keys.shape, *shape]."""
    return random_split_p.bind(keys, shape=shape)


def _split(keys, *, shape):
    divide = _for_each(lambda words: _of(keys).split(shape, words), keys.ndim)
    return random_wrap(divide(random_unwrap(keys)), keys.dtype.kind)


def _split_type(keys, *, shape):
    return ShapedArray(keys.shape + shape, keys.dtype)


random_split_p = key_operation("random_split", _split, _split_type, _elementwise(lambda: random_split_p))


def fold_in_key(key: PRNGKey, data: ArrayLike) -> Array:
    """A key from a key and a number, which is converted to uint32."""
    return random_fold_in_p.bind(key, lax.convert_element_type(data, np.uint32))


def _fold_in(keys, data):
    f = _of(keys).fold_in
    shapes = [(1,) * (max(keys.ndim, data.ndim) - x.ndim) + x.shape for x in (keys, data)]
    for n, m in reversed(list(zip(*shapes, strict=True))):      # an array is not mapped over an axis of broadcasting
        f = vmap(f, (None if n == 1 < m else 0, None if m == 1 < n else 0))
    words = random_unwrap(keys)
    args = [lax.reshape(words, (*_own_sizes(*shapes), words.shape[-1])), lax.reshape(data, _own_sizes(*shapes[::-1]))]
    return random_wrap(f(*args), keys.dtype.kind)


def _own_sizes(shape: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    """The sizes of an array without the axes along which it is broadcast."""
    return tuple(n for n, m in zip(shape, other, strict=True) if not n == 1 < m)


def _fold_in_type(keys, data):
    return ShapedArray(broadcast_shape("random_fold_in", keys.shape, data.shape), keys.dtype)


random_fold_in_p = key_operation("random_fold_in", _fold_in, _fold_in_type,
                                 elementwise_batch(lambda: random_fold_in_p))


# -- rbg: keys of four words, which are two keys of threefry ------------------------------------------------------

def _rbg_bits(width: int, shape: tuple[int, ...], words: Array) -> Array:
    return lax.rng_bit_generator(words, shape, UINTS[width])[1]


def _rbg_split(shape: tuple[int, ...], words: Array) -> Array:
    halves = vmap(lambda half: threefry_split(shape, half), out_axes=len(shape))(lax.reshape(words, (2, 2)))
    return lax.reshape(halves, (*shape, 4))


def _rbg_fold_in(words: Array, data: Array) -> Array:
    return lax.reshape(vmap(threefry_fold_in, (0, None))(lax.reshape(words, (2, 2)), data), (4,))


def _unsafe_split(shape: tuple[int, ...], words: Array) -> Array:
    """New keys: every tenth of the numbers of the generator."""
    drawn = _rbg_bits(32, (10 * math.prod(shape), 4), words)
    return lax.reshape(lax.slice_in_dim(drawn, 0, None, 10), (*shape, 4))


def _unsafe_fold_in(words: Array, data: Array) -> Array:
    """The key combined, by exclusive or, with the tenth number of the generator for the key of `data`."""
    drawn = _rbg_bits(32, (10, 4), seed_words(np.uint32(0), data, 4))
    return lax.bitwise_xor(words, lax.index_in_dim(drawn, 9, keepdims=False))


_GENERATORS: dict[str, _Generator] = {
    "threefry2x32": _Generator(threefry_bits, threefry_split, threefry_fold_in),
    "rbg": _Generator(_rbg_bits, _rbg_split, _rbg_fold_in),
    "unsafe_rbg": _Generator(_rbg_bits, _unsafe_split, _unsafe_fold_in)}


def define_generator(kind: KeyKind, seed: Callable, bits: Callable, split: Callable, fold_in: Callable) -> KeyType:
    """Add a generator of a user; the dtype of its keys.

    Args: seed, bits, split, fold_in: as the fields of `_Generator`.
    Raises: ValueError if there is a generator of this name.
    """
    if kind.name in KEY_TYPES:
        raise bad("define_prng_impl", "there is a generator of this name", {"name": kind.name},
                  "choose another name.", exc=ValueError)
    _GENERATORS[kind.name] = _Generator(bits, split, fold_in, seed)
    KEY_TYPES[kind.name] = KeyType(kind)
    return KEY_TYPES[kind.name]


def generator_of(kind: KeyKind) -> _Generator:
    """The functions of a generator."""
    return _GENERATORS[kind.name]
