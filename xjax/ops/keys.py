"""Random keys and their words: random_wrap and its inverse random_unwrap, and keys filled with one value.

Other operations on keys (indexing, stacking, selection ...) are those for arrays; `xjax.transforms.physical` describes
how they are computed.
"""

from __future__ import annotations

import numpy as np

from xjax.core.errors import bad
from xjax.core.key_types import KEY_TYPES, KeyKind, KeyType, is_key, physical
from xjax.core.primitive import ZERO, Missing, Primitive
from xjax.core.types import ShapedArray, typeof
from xjax.ops.checks import NOT_LINEAR
from xjax.ops.shape import broadcast_in_dim, move_axis_to_front
from xjax.typing import Array, ArrayLike

_REPLACED = Missing("a program of keys is lowered as a program of their words, in which this operation does not occur",
                    fix="lower it with lower_program.")

# -- keys from words ----------------------------------------------------------------------------------------------

def random_wrap(words: ArrayLike, kind: KeyKind) -> Array:
    """Keys of a generator from their words, uint32[..., kind.words]."""
    return random_wrap_p.bind(words, impl=kind)


def _wrap_type(words, *, impl):
    if words.dtype != np.uint32 or words.shape[-1:] != (impl.words,):
        raise bad("random_wrap", f"these are not the words of keys of {impl.name!r}",
                  given={"words": words.str_short()}, fix=f"pass an array uint32[..., {impl.words}].")
    return ShapedArray(words.shape[:-1], KEY_TYPES[impl.name])


def _wrap_batch(axis, args, bdims, *, impl):
    (words,), (bdim,) = args, bdims
    if bdim == typeof(words).ndim - 1:
        words, bdim = move_axis_to_front(words, bdim), 0
    return random_wrap_p.bind(words, impl=impl), bdim


random_wrap_p = Primitive("random_wrap", type_rule=_wrap_type, lower=_REPLACED, jvp=ZERO, transpose=NOT_LINEAR,
                          batch=_wrap_batch)

# -- words of keys ------------------------------------------------------------------------------------------------

def random_unwrap(keys: ArrayLike) -> Array:
    """The words of keys, uint32[..., n]."""
    return random_unwrap_p.bind(keys)


def _unwrap_type(keys):
    if not is_key(keys):
        raise bad("random_unwrap", "the argument is not an array of random keys", given={"keys": keys.str_short()},
                  fix="create keys with random.key(seed).")
    return physical(keys)


def _unwrap_batch(axis, args, bdims):
    return random_unwrap_p.bind(*args), bdims[0]


random_unwrap_p = Primitive("random_unwrap", type_rule=_unwrap_type, lower=_REPLACED, jvp=ZERO, transpose=NOT_LINEAR,
                            batch=_unwrap_batch)


# -- keys of one value --------------------------------------------------------------------------------------------

def filled_keys(shape: tuple[int, ...], dtype: KeyType, value: int) -> Array:
    """Keys in which each word is `value`; used to initialise memory of keys."""
    words = broadcast_in_dim(np.uint32(value), (*shape, dtype.kind.words), ())
    return random_wrap(words, dtype.kind)
