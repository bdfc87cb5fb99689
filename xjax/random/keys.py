"""Random keys: creating, splitting and deriving them.

Every function that draws numbers takes a key; the same key gives the same numbers under every transform. Use a key
once, and split it before further uses. There are typed keys, whose dtype names their generator (`key`), and words of
keys, arrays uint32[..., n] that are used as keys of the default generator (`PRNGKey`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NewType

import numpy as np

from xjax import lax
from xjax.core import dtypes
from xjax.core.array_type import converted
from xjax.core.config import config
from xjax.core.errors import bad, did_you_mean
from xjax.core.key_types import KEY_TYPES, KeyKind, KeyType, is_key
from xjax.core.types import type_of_numbers, typeof
from xjax.ops.checks import static_int
from xjax.random.arguments import check_key, compiled, default_kind, operation, unwrap_keys, wrap_words
from xjax.random.generators import fold_in_key, generator_of, seed_words, split_key
from xjax.runtime.arrays.array import Array
from xjax.runtime.arrays.moves import to_array
from xjax.runtime.placement.places import new_place
from xjax.runtime.watch import checker
from xjax.typing import Array as AnyArray
from xjax.typing import ArrayLike, DTypeLike, ShapeLike

_MASK = 0xFFFFFFFF

# The type of random keys, for annotations.
Key = NewType("Key", Array)


def key(seed: ArrayLike, *, impl: str | KeyType | None = None, dtype: DTypeLike | KeyType | None = None) -> AnyArray:
    """A typed key from an integer.

    Args:
      seed: an integer, converted to the default integer dtype: without jax_enable_x64 only its lower 32 bits are used.
      impl: the generator: "threefry2x32", "rbg", "unsafe_rbg" or a dtype of keys; None: jax_default_prng_impl.
      dtype: the dtype of the key, instead of `impl`.
    Returns: key[], an array whose dtype is `key_dtype(impl)`.
    Raises: TypeError unless the seed is a scalar integer; OverflowError beyond 64 bits; ValueError if both `impl`
      and `dtype` are given.

    >>> key(7)
    Array((), dtype=key<fry>) overlaying:
    [0 7]
    """
    kind = _chosen("key", impl, dtype)
    words = _seeded("key", seed, kind)
    if config.check:
        checker().created(words)
    return wrap_words("key", words, kind)


def PRNGKey(seed: ArrayLike, *, impl: str | None = None) -> AnyArray:
    """The words of `key(seed, impl=impl)`, or with jax_enable_custom_prng the typed key.

    Returns: uint32[2] for "threefry2x32", uint32[4] for the others.

    >>> PRNGKey(7)
    Array([0, 7], dtype=uint32)
    """
    kind = _kind("PRNGKey", impl)
    words = _seeded("PRNGKey", seed, kind)
    if config.check:
        checker().created(words)
    return wrap_words("PRNGKey", words, kind) if config.enable_custom_prng else words


def key_dtype(impl_spec: str | None = None) -> KeyType:
    """The dtype of the keys of a generator.

    >>> key_dtype("rbg")
    key<rbg>
    """
    return KEY_TYPES[_kind("key_dtype", impl_spec).name]


def _chosen(caller: str, impl: str | KeyType | None, dtype: DTypeLike | KeyType | None) -> KeyKind:
    """The generator named by `impl` or by `dtype`."""
    if impl is not None and dtype is not None:
        raise bad(f"random.{caller}", "takes `impl` or `dtype`, not both", given={"impl": impl, "dtype": dtype},
                  fix="leave `impl` out.", exc=ValueError)
    return _kind(caller, impl if dtype is None else dtype)


def _kind(caller: str, impl: DTypeLike | KeyType | None) -> KeyKind:
    if impl is None:
        return default_kind()
    if isinstance(impl, KeyType):
        return impl.kind
    if isinstance(impl, str) and impl in KEY_TYPES:
        return KEY_TYPES[impl].kind
    hint = did_you_mean(impl, list(KEY_TYPES)) if isinstance(impl, str) else None
    raise bad(f"random.{caller}", f"unknown generator {impl!r}", given={"generators": ", ".join(KEY_TYPES)},
              fix=hint or "use 'threefry2x32', the default.", exc=ValueError if isinstance(impl, str) else TypeError)


# -- seeds --------------------------------------------------------------------------------------------------------

def _seeded(caller: str, seed: ArrayLike, kind: KeyKind) -> AnyArray:
    """The words of the key of a seed."""
    caller, seed = f"random.{caller}", converted(seed)
    if config.random_seed_offset:
        seed = seed + config.random_seed_offset
    own = generator_of(kind).seed
    if own is not None:
        return own(seed if hasattr(seed, "aval") else to_array(np.int64(seed) if isinstance(seed, int) else seed))
    if type(seed) in (int, bool):
        return _from_number(int(seed), _canonical_width(caller, int(seed)), kind)
    aval = typeof(seed)
    if not dtypes.is_int(aval.dtype):
        raise bad(caller, "the seed must be an integer", given={"seed": aval.str_short()},
                  fix="convert it with int(seed).")
    if aval.shape:
        raise bad(caller, "the seed must be a scalar", given={"seed": aval.str_short()},
                  fix="use vmap(random.key)(seeds), or random.split of one key.")
    if not hasattr(seed, "aval"):                       # NumPy's
        return _from_number(int(seed), dtypes.itemsize_bits(aval.dtype), kind)
    return compiled(_from_array, kind.words)(seed)


def _canonical_width(caller: str, seed: int) -> int:
    if not -2**63 <= seed < 2**63:
        raise bad(caller, f"the seed {seed} does not fit 64 bits", fix="pass seed % 2**63.", exc=OverflowError)
    return dtypes.itemsize_bits(dtypes.canonicalize_dtype(int))


def _from_number(seed: int, width: int, kind: KeyKind) -> Array:
    high = seed >> 32 & _MASK if width == 64 else 0
    return to_array(np.array([high, seed & _MASK] * (kind.words // 2), np.uint32), new_place())


def _from_array(count: int, seed: AnyArray) -> AnyArray:
    low = lax.convert_element_type(seed, np.uint32)
    high = np.uint32(0)
    if dtypes.itemsize_bits(seed.dtype) == 64:
        high = lax.convert_element_type(lax.shift_right_logical(seed, seed.dtype.type(32)), np.uint32)
    return seed_words(high, low, count)


# -- keys from keys -----------------------------------------------------------------------------------------------

def split(key: AnyArray, num: ShapeLike = 2) -> AnyArray:
    """New, independent keys from one key, which should not be used again.

    Args: key: a random key; num: the number of keys, or the shape of the array of keys.
    Returns: key[num] or key[*num]; for words uint32[n] the words uint32[num, n] or uint32[*num, n].

    >>> k1, k2 = split(random.key(0))
    """
    typed = check_key("split", key)
    shape = (num,) if type(num) is int else _split_shape(num)
    if min(shape, default=0) < 0:
        raise bad("random.split", "cannot make a negative number of keys", given={"num": str(num)},
                  fix="pass a number >= 0.", exc=ValueError)
    return _as_given(key, operation(split_key, shape)(typed))


def _as_given(key: AnyArray, keys: AnyArray) -> AnyArray:
    """`keys` in the form of `key`, which the user passed: typed keys or words."""
    return keys if _is_typed(key) else unwrap_keys(keys)


def _is_typed(key: AnyArray) -> bool:
    return is_key(typeof(key))


def _split_shape(num: ShapeLike) -> tuple[int, ...]:
    return tuple([static_int(n, "num", "random.split") for n in (num if isinstance(num, Sequence) else (num,))])


def fold_in(key: AnyArray, data: ArrayLike) -> AnyArray:
    """A new key from a key and a number, such as a step or the index of a layer.

    Args: key: a random key; data: a number, converted to uint32 (arrays wrap around, Python ints must fit).
    Returns: a key. Equal arguments give equal keys, others give independent ones.
    """
    typed, data = check_key("fold_in", key), converted(data)
    aval = type_of_numbers(int) if type(data) is int else typeof(data)      # an int may need all 32 bits of a uint32
    if aval.shape:
        raise bad("random.fold_in", "`data` must be a scalar", given={"data": aval.str_short()},
                  fix="use vmap(random.fold_in, in_axes=(None, 0))(key, data).")
    if type(data) is int:
        dtypes.check_int_range(data, dtypes.uint32, "random.fold_in")
    if not hasattr(data, "aval") and dtypes.is_int(aval.dtype):
        data = np.asarray(data).astype(np.uint32)           # on the host, since numbers from 2**31 on exceed int32
    return _as_given(key, operation(fold_in_key)(typed, data))


def clone(key: AnyArray) -> AnyArray:
    """The same key, for intended reuse."""
    check_key("clone", key, batched=True)
    return key


# -- typed keys and words -----------------------------------------------------------------------------------------

def key_data(keys: ArrayLike) -> AnyArray:
    """The words of keys, uint32[..., n].

    >>> key_data(key(7, impl="rbg"))
    Array([0, 7, 0, 7], dtype=uint32)
    """
    return unwrap_keys(check_key("key_data", keys, batched=True))


def wrap_key_data(key_bits_array: ArrayLike, *, impl: str | KeyType | None = None,
                  dtype: DTypeLike | KeyType | None = None) -> AnyArray:
    """Typed keys from their words, uint32[..., n]: the inverse of `key_data`. `impl` and `dtype` are those of `key`."""
    return wrap_words("wrap_key_data", key_bits_array, _chosen("wrap_key_data", impl, dtype))


def key_impl(keys: ArrayLike) -> str:
    """The name of the generator of keys."""
    return check_key("key_impl", keys, batched=True).dtype.kind.name
