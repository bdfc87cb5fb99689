"""Types of random keys: `KeyType`, a dtype that NumPy does not have, and the words that represent keys on a device.

A key of a generator is a few uint32 words. On a device, an array of keys of shape S is an array uint32[S, words].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xjax.core import dtypes
from xjax.core.types import ShapedArray


class KeyKind(NamedTuple):
    """A generator of random bits: its name, its short name, and the number of words of its keys."""

    name: str
    tag: str
    words: int

    def __str__(self) -> str:
        return self.tag


class KeyType(dtypes.ExtendedDType):
    """Dtype of the keys of one generator; there is one object for each generator.

    >>> KEY_TYPES["threefry2x32"], KEY_TYPES["rbg"].itemsize
    (key<fry>, 16)
    """

    __slots__ = ("kind", "name", "itemsize")
    type = dtypes.prng_key

    def __init__(self, kind: KeyKind):
        self.kind = kind
        self.name = f"key<{kind.tag}>"
        self.itemsize = 4 * kind.words

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self):
        return _key_type, (self.kind.name,)


KEY_TYPES: dict[str, KeyType] = {
    name: KeyType(KeyKind(name, tag, words))
    for name, tag, words in (("threefry2x32", "fry", 2), ("rbg", "rbg", 4), ("unsafe_rbg", "urbg", 4))}


def _key_type(name: str) -> KeyType:
    return KEY_TYPES[name]


def is_key(aval: ShapedArray) -> bool:
    """Whether values of this type are random keys."""
    return type(aval.dtype) is KeyType


def physical(aval: ShapedArray) -> ShapedArray:
    """The type of values of type `aval` on a device: the words of keys are along an additional last axis."""
    if type(aval.dtype) is not KeyType:
        return aval
    return ShapedArray((*aval.shape, aval.dtype.kind.words), np.uint32)
