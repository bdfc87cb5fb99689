"""Sorting on a CPU, by unsigned integers.

XLA's sort calls its comparator for each pair of elements. A comparison of floats, which may be NaN, takes 4 times as
long as one of unsigned integers; a comparator of several operands takes longer still. So one array is sorted as
integers in the same order. For several arrays, one integer per position is sorted, with the key in its high half and
the position in its low half, which keeps the order of equal keys. Measured on 1e6 float32: 4 and 5 times as fast.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xjax.core import dtypes
from xjax.core.forms import limits
from xjax.core.hlo import Builder, Value, tensor_type
from xjax.core.lowering import lower_function
from xjax.core.types import ShapedArray
from xjax.ops.gather import take_all_along

_U32, _U64 = np.dtype(np.uint32), np.dtype(np.uint64)
# dtype of a key -> unsigned integers of its size
_WORDS = {np.dtype(d): np.dtype(f"uint{8 * np.dtype(d).itemsize}") for d in (
    np.float16, dtypes.bfloat16, np.float32, np.float64, np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32)}


def has_words(avals: Sequence[ShapedArray], dimension: int, num_keys: int) -> bool:
    """Whether arrays of these types are sorted as integers."""
    bounds, key = limits("sort by integers", "cpu"), avals[0]
    if bounds is None or num_keys != 1 or key.dtype not in _WORDS or not bounds["row"] <= key.shape[dimension] < 2**32:
        return False
    return dtypes.is_float(key.dtype) if len(avals) == 1 else key.dtype.itemsize <= 4


def sort_by_words(b: Builder, outs: Sequence[ShapedArray], *xs: Value, dimension, is_stable,
                  num_keys) -> list[Value] | None:
    """Lowering rule of sort."""
    if not has_words(outs, dimension, num_keys):
        return None
    if len(xs) == 1:
        return [_sort_floats(b, xs[0], dimension)]
    positions = _sorted_positions(b, xs[0], dimension)
    return lower_function(b, lambda order, *arrays: take_all_along(arrays, order, dimension), [positions, *xs])


def _sort_words(b: Builder, words: Value, dimension: int) -> Value:
    """One array of unsigned integers, sorted in ascending order."""
    scalar = ShapedArray((), words.aval.dtype)
    comparator = b.region([scalar, scalar], lambda inner, x, y: [inner.compare("LT", x, y)])
    return b.generic("stablehlo.sort", [words], [words.aval], f"dimension = {dimension} : i64, is_stable = false",
                     [comparator])[0]


def _sort_floats(b: Builder, x: Value, dimension: int) -> Value:
    """One array of floats, sorted in ascending order: -0 before 0, and NaN, which loses its payload, at the end."""
    word = _WORDS[x.aval.dtype]
    words = _sort_words(b, _words_of(b, x), dimension)
    top = b.constant(1 << (8 * word.itemsize - 1), words.aval)
    positive = b.compare("GE", words, top)
    bits = b.select(positive, b.binary("stablehlo.xor", words, top), b.unary("stablehlo.not", words))
    return _bitcast(b, bits, x.aval.dtype)


def _sorted_positions(b: Builder, key: Value, dimension: int) -> Value:
    """uint32: original positions of the sorted keys; equal keys keep their order, 0 equals -0, NaN is at the end."""
    if dtypes.is_float(key.aval.dtype):
        zero = b.constant(0, key.aval)
        key = b.select(b.compare("EQ", key, zero), zero, key)
    aval = ShapedArray(key.aval.shape, _U64)
    high = b.binary("stablehlo.shift_left", b.convert(_words_of(b, key), _U64), b.constant(32, aval))
    positions = b.op(f"stablehlo.iota dim = {dimension} : {tensor_type(aval)}", aval)
    packed = _sort_words(b, b.binary("stablehlo.or", high, positions), dimension)
    return b.convert(b.binary("stablehlo.and", packed, b.constant(2**32 - 1, aval)), _U32)


def _words_of(b: Builder, x: Value) -> Value:
    """Unsigned integers in the order of `x`: negative floats are complemented, since their bits have reverse order."""
    dtype = x.aval.dtype
    word = _WORDS[dtype]
    if dtype == word:
        return x
    words = _bitcast(b, x, word)
    top = b.constant(1 << (8 * word.itemsize - 1), words.aval)
    shifted = b.binary("stablehlo.xor", words, top)
    if not dtypes.is_float(dtype):
        return shifted
    ordered = b.select(b.compare("LT", words, top), shifted, b.unary("stablehlo.not", words))
    return b.select(b.compare("NE", x, x), b.constant(np.iinfo(word).max, words.aval), ordered)


def _bitcast(b: Builder, x: Value, dtype: np.dtype) -> Value:
    out = ShapedArray(x.aval.shape, dtype)
    return b.op(f"stablehlo.bitcast_convert {x} : ({x.type}) -> {tensor_type(out)}", out)
