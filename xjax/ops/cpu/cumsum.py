"""cumsum on a CPU by loops: along an axis that is not the last, row by row; along the last axis, in 16 streams.

XLA's own form is a tree of windows: n log n additions and several passes over memory. A loop makes one pass. The error
of a simple loop would grow with the length, so sums are computed in pieces, and the total of earlier pieces is added.
"""

from __future__ import annotations

import math

import numpy as np

from xjax.core.forms import limits
from xjax.core.hlo import Builder, Value
from xjax.core.types import ShapedArray
from xjax.ops.text import concatenate_text, dynamic_slice_text, dynamic_update_slice_text, reshape_text, slice_text
from xjax.ops.window import emit_pad

_STREAMS = 16               # independent additions
_PIECE = 2000               # dependent additions; streams of 8,192 bytes would share cache lines
_I32 = np.dtype(np.int32)


def has_loop(x: ShapedArray, axis: int) -> bool:
    """Whether a running sum of this type is computed by a loop."""
    rest = math.prod(x.shape[axis + 1:])
    bounds = limits("cumsum by loops", "cpu")
    return bounds is not None and x.size >= bounds["elements"] and x.shape[axis] >= 16 and (rest == 1 or rest >= 8)


def running_sum(b: Builder, out: ShapedArray, x: Value, *, axis, reverse) -> Value | None:
    """Lowering rule of cumsum."""
    if not has_loop(out, axis):
        return None
    shape = x.aval.shape
    before, n, rest = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1:])
    if rest == 1:
        return reshape_text(b, _along_rows(b, reshape_text(b, x, (before, n)), reverse), shape)
    return reshape_text(b, _row_by_row(b, reshape_text(b, x, (before, n, rest)), reverse), shape)


# -- along an axis that is not the last ----------------------------------------------------------------------------

def _row_by_row(b: Builder, x: Value, reverse: bool) -> Value:
    """Running sums of [m, n, k] along the middle axis."""
    m, n, k = x.aval.shape
    row = ShapedArray((m, 1, k), x.aval.dtype)
    start, nothing = b.constant(0, ShapedArray((), _I32)), b.constant(0, row)
    length = _PIECE if n > 2 * _PIECE and x.aval.dtype.kind not in "iu" else n

    def in_piece(b: Builder, i: Value, stop: Value, *_: Value) -> list[Value]:
        return [b.compare("LT", i, stop)]

    def add_one(b: Builder, i: Value, stop: Value, x: Value, piece: Value, total: Value, sums: Value) -> list[Value]:
        at = b.sub(b.constant(n - 1, i.aval), i) if reverse else i
        zero = b.constant(0, i.aval)
        piece = b.add(piece, dynamic_slice_text(b, x, (zero, at, zero), row.shape))
        result = piece if length == n else b.add(total, piece)
        return [_after(b, i, 1), stop, x, piece, total, dynamic_update_slice_text(b, sums, result, (zero, at, zero))]

    def not_done(b: Builder, i: Value, *_: Value) -> list[Value]:
        return [b.compare("LT", i, b.constant(n, i.aval))]

    def add_piece(b: Builder, i: Value, x: Value, total: Value, sums: Value) -> list[Value]:
        stop = b.binary("stablehlo.minimum", _after(b, i, length), b.constant(n, i.aval))
        i, _, x, piece, total, sums = b.while_loop([i, stop, x, b.constant(0, row), total, sums], in_piece, add_one)
        return [i, x, b.add(total, piece), sums]

    return b.while_loop([start, x, nothing, b.constant(0, x.aval)], not_done, add_piece)[3]


# -- along the last axis ------------------------------------------------------------------------------------------

def _along_rows(b: Builder, x: Value, reverse: bool) -> Value:
    """Running sums of [m, n] along the last axis.

    The streams are pieces of 16 rows at a time or, if rows are few, 16 parts of a piece of one row.
    """
    m, n = x.aval.shape
    rows = _STREAMS if m >= _STREAMS else 1
    length = min(n, _PIECE if rows > 1 else _PIECE * _STREAMS)
    last = n % length           # remainder at the end of the axis; in reverse, it is summed first

    def group(b: Builder, row: Value, x: Value, sums: Value) -> list[Value]:
        first = b.binary("stablehlo.minimum", row, b.constant(m - rows, row.aval))
        total = b.constant(0, ShapedArray((rows, 1), x.aval.dtype))
        at = b.constant(n - last, row.aval)
        if last and reverse:
            sums, total = _piece(b, x, sums, total, (first, at), last, reverse)
        _, _, x, sums, total = b.while_loop([b.constant(0, row.aval), first, x, sums, total], has_piece, next_piece)
        if last and not reverse:
            sums, total = _piece(b, x, sums, total, (first, at), last, reverse)
        return [_after(b, row, rows), x, sums]

    def has_piece(b: Builder, done: Value, *_: Value) -> list[Value]:
        return [b.compare("LT", done, b.constant(n - last, done.aval))]

    def next_piece(b: Builder, done: Value, row: Value, x: Value, sums: Value, total: Value) -> list[Value]:
        at = b.sub(b.constant(n - last - length, done.aval), done) if reverse else done
        sums, total = _piece(b, x, sums, total, (row, at), length, reverse)
        return [_after(b, done, length), row, x, sums, total]

    def has_group(b: Builder, row: Value, *_: Value) -> list[Value]:
        return [b.compare("LT", row, b.constant(m, row.aval))]

    start = [b.constant(0, ShapedArray((), _I32)), x, b.constant(0, x.aval)]
    return (group(b, *start) if m == rows else b.while_loop(start, has_group, group))[2]


def _piece(b: Builder, x: Value, sums: Value, total: Value, at: tuple[Value, Value], length: int,
           reverse: bool) -> tuple[Value, Value]:
    """(`sums` with the sums of one piece of some rows, added to their `total` [rows, 1]; the total after the piece)."""
    rows, _ = total.aval.shape
    piece = dynamic_slice_text(b, x, at, (rows, length))
    if rows > 1:
        result, ends = _in_streams(b, piece, reverse)
        result = b.add(result, b.broadcast(total, result.aval, (0, 1)))
        return dynamic_update_slice_text(b, sums, result, at), b.add(total, ends)
    missing = -length % _STREAMS                # zeros at the end, or, in reverse, at the start
    low, high = (missing, 0) if reverse else (0, missing)
    zero = b.constant(0, ShapedArray((), x.aval.dtype))
    padded = emit_pad(b, piece, zero, [0, low], [0, high], [0, 0])
    result, ends = _in_streams(b, reshape_text(b, padded, (_STREAMS, padded.aval.size // _STREAMS)), reverse)
    before: list[Value] = [total] * _STREAMS
    for s in range(_STREAMS)[::-1 if reverse else 1]:
        before[s] = total
        total = b.add(total, slice_text(b, ends, [s, 0], [s + 1, 1]))
    starts = concatenate_text(b, before, ends.aval, 0)
    result = b.add(result, b.broadcast(starts, result.aval, (0, 1)))
    result = reshape_text(b, result, padded.aval.shape)
    result = slice_text(b, result, [0, low], [1, low + length])
    return dynamic_update_slice_text(b, sums, result, at), total


def _in_streams(b: Builder, x: Value, reverse: bool) -> tuple[Value, Value]:
    """(running sums of [streams, n] along the last axis, the total of each stream [streams, 1])."""
    streams, n = x.aval.shape

    def not_done(b: Builder, i: Value, *_: Value) -> list[Value]:
        return [b.compare("LT", i, b.constant(n, i.aval))]

    def add_one(b: Builder, i: Value, total: Value, x: Value) -> list[Value]:
        at = b.sub(b.constant(n - 1, i.aval), i) if reverse else i
        position = (b.constant(0, i.aval), at)
        total = b.add(total, dynamic_slice_text(b, x, position, (streams, 1)))
        return [_after(b, i, 1), total, dynamic_update_slice_text(b, x, total, position)]

    nothing = b.constant(0, ShapedArray((streams, 1), x.aval.dtype))
    _, total, sums = b.while_loop([b.constant(0, ShapedArray((), _I32)), nothing, x], not_done, add_one)
    return sums, total


# -- the parts of loops -------------------------------------------------------------------------------------------

def _after(b: Builder, i: Value, step: int) -> Value:
    return b.add(i, step)
