"""cumsum on a CPU by loops: along an axis with rows behind it row by row, of a vector in 16 streams side by side.

XLA's own form is a tree of windows: n log n additions and several passes over memory. A loop makes one pass. Its error
would grow with the length, so it adds up pieces of 1,024 elements, each on top of the total of the pieces before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xjax.core.hlo import Builder, Value, tensor_type
from xjax.core.types import ShapedArray
from xjax.ops.arrange import concatenate_text, reshape_text, slice_text

_STREAMS, _PIECE = 16, 1024
_FROM = 1 << 14             # elements: a loop costs 10 us before it begins
_I32 = np.dtype(np.int32)


def has_loop(x: ShapedArray, axis: int) -> bool:
    """Whether a running sum of this type is made by a loop."""
    rest = math.prod(x.shape[axis + 1:])
    return x.size >= _FROM and x.shape[axis] >= 16 and (rest >= 64 or x.size == x.shape[axis])


def running_sum(b: Builder, x: Value, axis: int, reverse: bool) -> Value:
    shape = x.aval.shape
    n, rest = shape[axis], math.prod(shape[axis + 1:])
    if rest > 1:
        blocks = reshape_text(b, x, (math.prod(shape[:axis]), n, rest))
        return reshape_text(b, _loop(b, blocks, reverse), shape)
    length = -(-n // _STREAMS)
    flat = _padded(b, reshape_text(b, x, (n,)), length * _STREAMS, reverse)
    streams = reshape_text(b, flat, (_STREAMS, length, 1))
    sums = _loop(b, streams, reverse)
    sums = b.binary("stablehlo.add", sums, b.broadcast(_before(b, sums, reverse), sums.aval, (0, 1, 2)))
    flat = reshape_text(b, sums, flat.aval.shape)
    first = flat.aval.size - n if reverse else 0
    return reshape_text(b, slice_text(b, flat, [first], [first + n]), shape)


def _loop(b: Builder, x: Value, reverse: bool) -> Value:
    """Running sums of [m, n, k] along the middle axis."""
    m, n, k = x.aval.shape
    row = ShapedArray((m, 1, k), x.aval.dtype)
    start, nothing = b.constant(0, ShapedArray((), _I32)), b.constant(0, row)
    length = _PIECE if n > 2 * _PIECE and x.aval.dtype.kind not in "iu" else n

    def in_piece(b: Builder, i: Value, stop: Value, *_: Value) -> list[Value]:
        return [b.compare("LT", i, stop)]

    def add_one(b: Builder, i: Value, stop: Value, x: Value, piece: Value, total: Value, sums: Value) -> list[Value]:
        at = b.binary("stablehlo.subtract", b.constant(n - 1, i.aval), i) if reverse else i
        zero = b.constant(0, i.aval)
        place, types = f"{zero}, {at}, {zero}", ", ".join([i.type] * 3)
        element = b.op(f"stablehlo.dynamic_slice {x}, {place}, sizes = [{m}, 1, {k}] : ({x.type}, {types}) -> "
                       f"{tensor_type(row)}", row)
        piece = b.binary("stablehlo.add", piece, element)
        found = piece if length == n else b.binary("stablehlo.add", total, piece)
        sums = b.op(f"stablehlo.dynamic_update_slice {sums}, {found}, {place} : "
                    f"({sums.type}, {found.type}, {types}) -> {sums.type}", sums.aval)
        return [b.binary("stablehlo.add", i, b.constant(1, i.aval)), stop, x, piece, total, sums]

    def not_done(b: Builder, i: Value, *_: Value) -> list[Value]:
        return [b.compare("LT", i, b.constant(n, i.aval))]

    def add_piece(b: Builder, i: Value, x: Value, total: Value, sums: Value) -> list[Value]:
        end = b.binary("stablehlo.add", i, b.constant(length, i.aval))
        stop = b.binary("stablehlo.minimum", end, b.constant(n, i.aval))
        i, _, x, piece, total, sums = b.while_loop([i, stop, x, b.constant(0, row), total, sums], in_piece, add_one)
        return [i, x, b.binary("stablehlo.add", total, piece), sums]

    return b.while_loop([start, x, nothing, b.constant(0, x.aval)], not_done, add_piece)[3]


def _padded(b: Builder, x: Value, size: int, reverse: bool) -> Value:
    missing = size - x.aval.size
    if not missing:
        return x
    out = ShapedArray((size,), x.aval.dtype)
    zero = b.constant(0, ShapedArray((), x.aval.dtype))
    low, high = (missing, 0) if reverse else (0, missing)
    return b.op(f"stablehlo.pad {x}, {zero}, low = [{low}], high = [{high}], interior = [0] : "
                f"({x.type}, {zero.type}) -> {tensor_type(out)}", out)


def _before(b: Builder, sums: Value, reverse: bool) -> Value:
    """[16, 1, 1]: what the streams before (behind, in reverse) each stream add up to."""
    count, length, _ = sums.aval.shape
    end = 0 if reverse else length - 1
    totals = [slice_text(b, sums, [s, end, 0], [s + 1, end + 1, 1]) for s in range(count)]
    order: Sequence[int] = range(count - 1, -1, -1) if reverse else range(count)
    running = b.constant(0, totals[0].aval)
    found: list[Value] = [running] * count
    for s in order:
        found[s] = running
        running = b.binary("stablehlo.add", running, totals[s])
    out = ShapedArray((count, 1, 1), sums.aval.dtype)
    return concatenate_text(b, found, out, 0)
