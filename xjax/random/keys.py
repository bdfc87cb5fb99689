"""Random keys: making, splitting and deriving them.

A key is an array uint32[2] that is passed explicitly to whatever draws numbers; the same key gives the same numbers on
every device and under every transform. Use a key once, then split it.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from xjax import lax
from xjax.core import dtypes
from xjax.core.config import config
from xjax.core.errors import bad, did_you_mean
from xjax.core.types import typeof
from xjax.ops.prng import threefry2x32
from xjax.random.arguments import check_key, compiled
from xjax.random.threefry import key_words, split_key
from xjax.runtime.array import to_array

_IMPLS = ("threefry2x32",)
_MASK = 0xFFFFFFFF


def PRNGKey(seed: Any, *, impl: str | None = None) -> Any:
    """A key from an integer.

    Args:
      seed: an integer; it takes the width of an integer array, so that without jax_enable_x64 only its lower 32 bits
        count.
      impl: "threefry2x32", or None for it.
    Returns: uint32[2].
    Raises: TypeError if the seed is no integer or not a scalar; OverflowError beyond 64 bits.

    >>> PRNGKey(7)
    Array([0, 7], dtype=uint32)
    """
    return _from_seed("PRNGKey", seed, impl)


def key(seed: Any, *, impl: str | None = None) -> Any:
    """A key from an integer; the same array uint32[2] as `PRNGKey` gives."""
    return _from_seed("key", seed, impl)


def _from_seed(where: str, seed: Any, impl: str | None) -> Any:
    _check_impl(where, impl)
    where = f"random.{where}"
    if config.random_seed_offset:
        seed = seed + config.random_seed_offset
    if type(seed) in (int, bool):
        return _from_number(int(seed), _canonical_width(where, int(seed)))
    aval = typeof(seed)
    if not dtypes.is_int(aval.dtype):
        raise bad(where, "the seed must be an integer", given={"seed": aval.str_short()},
                  fix="convert it with int(seed).")
    if aval.shape:
        raise bad(where, "the seed must be a scalar", given={"seed": aval.str_short()},
                  fix="use vmap(random.PRNGKey)(seeds), or random.split of one key.")
    if not hasattr(seed, "aval"):                       # NumPy's
        return _from_number(int(seed), dtypes.bit_width(aval.dtype))
    return compiled(_seed_words)(seed)


def _canonical_width(where: str, seed: int) -> int:
    if not -2**63 <= seed < 2**63:
        raise bad(where, f"the seed {seed} does not fit 64 bits", fix="take it modulo 2**63.", exc=OverflowError)
    return dtypes.bit_width(dtypes.canonicalize_dtype(int))


def _from_number(seed: int, width: int) -> Any:
    high = seed >> 32 & _MASK if width == 64 else 0
    return to_array(np.array([high, seed & _MASK], np.uint32))


def _seed_words(seed: Any) -> Any:
    low = lax.convert_element_type(seed, np.uint32)
    high = np.uint32(0)
    if dtypes.bit_width(seed.dtype) == 64:
        high = lax.convert_element_type(lax.shift_right_logical(seed, seed.dtype.type(32)), np.uint32)
    return lax.concatenate([lax.broadcast_in_dim(w, (1,), ()) for w in (high, low)], 0)


def _check_impl(where: str, impl: str | None) -> None:
    impl = config.default_prng_impl if impl is None else impl
    if impl not in _IMPLS:
        hint = did_you_mean(impl, _IMPLS) if isinstance(impl, str) else None
        raise bad(f"random.{where}", f"there is no generator {impl!r}", given={"generators": ", ".join(_IMPLS)},
                  fix=hint or "use 'threefry2x32', the default.", exc=ValueError)


def split(key: Any, num: int | Sequence[int] = 2) -> Any:
    """New, independent keys from one key, which is not to be used again.

    Args: key: uint32[2]; num: how many, or the shape of the array of keys.
    Returns: uint32[num, 2], or uint32[*num, 2].

    >>> k1, k2 = split(PRNGKey(0))
    """
    key = check_key("split", key)
    shape = (num,) if type(num) is int else _split_shape(num)
    if min(shape, default=0) < 0:
        raise bad("random.split", "cannot make a negative number of keys", given={"num": str(num)},
                  fix="pass a number >= 0.", exc=ValueError)
    return compiled(split_key, shape)(key)


def _split_shape(num: Any) -> tuple[int, ...]:
    try:
        return tuple(map(operator.index, num)) if isinstance(num, Sequence) else (operator.index(num),)
    except TypeError as error:
        raise bad("random.split", "`num` must be an integer or a shape known while tracing",
                  given={"num": repr(num)[:60]}, fix="pass a Python int, or mark the argument with static_argnums."
                  ) from error


def fold_in(key: Any, data: Any) -> Any:
    """A new key from a key and a number, such as a step or the index of a layer.

    Args: key: uint32[2]; data: a number, converted to uint32 (arrays wrap around, Python ints must fit).
    Returns: uint32[2]. Equal arguments give equal keys, others give independent ones.
    """
    key = check_key("fold_in", key)
    aval = typeof(data)
    if aval.shape:
        raise bad("random.fold_in", "`data` must be a scalar", given={"data": aval.str_short()},
                  fix="use vmap(random.fold_in, in_axes=(None, 0))(key, data).")
    if type(data) is int:
        dtypes.check_int_range(data, dtypes.uint32, "random.fold_in")
    if not hasattr(data, "aval") and dtypes.is_int(aval.dtype):
        data = np.asarray(data).astype(np.uint32)           # on the host: beyond 31 bits there is no int32
    return compiled(_fold_in)(key, data)


def _fold_in(key: Any, data: Any) -> Any:
    words = threefry2x32(*key_words(key), np.uint32(0), lax.convert_element_type(data, np.uint32))
    return lax.concatenate([lax.expand_dims(w, (0,)) for w in words], 0)


def clone(key: Any) -> Any:
    """The same key, to be used again on purpose."""
    return check_key("clone", key, batched=True)


def key_data(keys: Any) -> Any:
    """The bits of keys, uint32[..., 2]: a key is these bits."""
    return check_key("key_data", keys, batched=True)


def wrap_key_data(key_bits_array: Any, *, impl: str | None = None) -> Any:
    """Keys from their bits, uint32[..., 2]: the inverse of `key_data`."""
    _check_impl("wrap_key_data", impl)
    return check_key("wrap_key_data", key_bits_array, batched=True)


def key_impl(keys: Any) -> str:
    """Name of the generator that keys belong to."""
    check_key("key_impl", keys, batched=True)
    return _IMPLS[0]
