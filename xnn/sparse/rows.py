"""Sums over the rows of a sparse matrix, written out term by term.

The format is sliced ELLPACK: rows of similar length form a block. The block of width 4 has the rows with 3 or 4 stored
values, and its sum is four terms ``weight[:, k] * x[columns[:, k]]``, which XLA fuses into one loop over rows, with the
features innermost. A row longer than the widest block is split into chunks of that width; the sums of its chunks are
summed by other blocks. On a CPU the sum takes a third to a tenth of the time of a sorted segment sum, and 0.2 to 0.5 s
longer to compile (benchmarks/graph.py).

A row with fewer values than the width of its block repeats its last column with weight 0, because that row of x is
already in the cache. So an infinite number in that row of x makes the sum NaN.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import xjax
import xjax.numpy as jnp
from xjax import lax
from xjax.typing import Array, DTypeLike
from xnn.moved_modules import old_names

WIDTHS = (1, 2, 4, 8, 16)
# A block with less than this share of all rows is not worth a separate loop: its rows join the next wider block.
_FEW = 0.02


class EllBlock(NamedTuple):
    """Rows of similar length, padded to one width.

    Attributes:
      starts, counts: int32[r]: index of the first stored value of each row, and the number of its values.
      columns: int32[r, width].
      weights: [r, width]: the stored values, 0 beyond a row's end; None if they are traced. They are a read-only copy:
        derivatives are taken with respect to the stored values.
    """

    starts: Any
    counts: Any
    columns: Any
    weights: Any = None


class SlicedEll(NamedTuple):
    """A matrix as blocks of rows.

    Attributes:
      blocks: in the order of their widths.
      chunks: block of the chunks of long rows; None without long rows.
      above: the long rows as a `SlicedEll` whose columns are the chunks; None without long rows.
      place: int32[n_rows]: position of each row among one row of zeros, for empty rows, followed by the sums of the
        blocks and of the long rows.
    """

    blocks: tuple[EllBlock, ...]
    chunks: EllBlock | None
    above: SlicedEll | None
    place: Any


def make_rows(indptr: np.ndarray, columns: np.ndarray, values: np.ndarray | None = None) -> SlicedEll:
    """Blocks of a matrix from the arrays of its compressed row form.

    Args: values: [nnz], or None if they are traced or will change.
    """
    counts = np.diff(indptr)
    edges = _edges(counts)
    width_of = np.searchsorted(edges, counts)                       # 0 for empty rows, which are in no block
    blocks, order = [], [np.zeros(0, np.int64)]
    for i, width in enumerate(edges):
        rows = np.flatnonzero((width_of == i) & (counts > 0))
        if len(rows):
            blocks.append(_block(indptr[rows], counts[rows], width, columns, values))
            order.append(rows)
    chunks = above = None
    long = np.flatnonzero(counts > edges[-1]) if edges else np.zeros(0, np.int64)
    if len(long):
        chunks, above = _long(indptr[long], counts[long], edges[-1], columns, values)
        order.append(long)
    place = np.zeros(len(counts), np.int32)
    place[np.concatenate(order)] = 1 + np.arange(np.count_nonzero(counts))
    return SlicedEll(tuple(blocks), chunks, above, jnp.asarray(place))


def _edges(counts: np.ndarray) -> list[int]:
    """The widths of the blocks for rows of these lengths."""
    longest = int(counts.max(initial=0))
    widths = [w for w, narrower in zip(WIDTHS, (0, *WIDTHS), strict=False) if narrower < longest]
    sizes = np.histogram(counts[counts > 0], [0.5, *(w + 0.5 for w in widths)])[0] if widths else []
    few = _FEW * np.count_nonzero(counts)
    return [w for i, w in enumerate(widths) if i == len(widths) - 1 or sizes[i] > few]


def _block(starts: np.ndarray, counts: np.ndarray, width: int, columns: np.ndarray,
           values: np.ndarray | None) -> EllBlock:
    k = np.arange(width)
    places = starts[:, None] + np.minimum(k, counts[:, None] - 1)
    weights = None if values is None else jnp.asarray(np.where(k < counts[:, None], values[places], 0), values.dtype)
    tables = (table.astype(np.int32) for table in (starts, counts, columns[places]))
    return EllBlock(*map(jnp.asarray, tables), weights)


def _long(starts: np.ndarray, counts: np.ndarray, width: int, columns: np.ndarray,
          values: np.ndarray | None) -> tuple[EllBlock, SlicedEll]:
    """(Block of the chunks of long rows, `SlicedEll` that sums the chunks of each row)."""
    n_chunks = -(-counts // width)
    first = np.concatenate([[0], np.cumsum(n_chunks)])
    ordinal = np.arange(first[-1]) - np.repeat(first[:-1], n_chunks)
    chunk_starts = np.repeat(starts, n_chunks) + width * ordinal
    chunk_counts = np.minimum(width, np.repeat(counts, n_chunks) - width * ordinal)
    chunks = _block(chunk_starts, chunk_counts, width, columns, values)
    return chunks, make_rows(first, np.arange(first[-1]))


# -- sums ------------------------------------------------------------------------------------------------------------


def _weighted_sum(rows: SlicedEll, x: Array, values: Array | None) -> Array:
    """``sum_j A[i, j] x[j]`` for each row i: x [m, ..., f] -> [n_rows, ..., f].

    Args: values: [nnz, ...], the stored values in row order, with the middle axes of x; None: all are 1. If the blocks
      have weights, these are read instead.
    """
    in_pairs = x.dtype == jnp.bfloat16 and x.shape[-1] % 2 == 0
    read = _as_pairs(x) if in_pairs else x
    read = lax.optimization_barrier(read)                         # computed once, although its rows are read often

    def terms(block: EllBlock) -> Array:
        neighbours = [at(read, block.columns[:, k]) for k in range(block.columns.shape[1])]
        weights = None if values is None else widened(_packed(block, values))
        if in_pairs:
            return _paired(*(_block_sum(block, list(map(half, neighbours)), weights) for half in _HALVES))
        return _block_sum(block, list(map(widened, neighbours)), weights).astype(x.dtype)

    sums = _placed(rows, read, terms, _paired_message_sum if in_pairs else _message_sum)
    sums = lax.optimization_barrier(sums)           # short rows of many heads are slower if fused into their reader
    if not in_pairs:
        return sums
    return lax.bitcast_convert_type(sums, x.dtype).reshape(sums.shape[0], *x.shape[1:])


def _block_sum(block: EllBlock, neighbours: list[Any], weights: Array | None) -> Array:
    """Sums of the rows of a block. Args: neighbours: [r, ..., f] for each k; weights: [r, width, ...] or None for 1."""
    if weights is None:
        return _sum_of_there(block, neighbours)
    return functools.reduce(jnp.add, [y * weights[:, k][..., None] for k, y in enumerate(neighbours)])


def _message_sum(rows: SlicedEll, messages: Array) -> Array:
    """Sum of the messages of each row, where each stored value is a message: [nnz, f] -> [n_rows, f]; 0 if empty."""
    def terms(block: EllBlock) -> Array:
        each = [widened(_message(block, messages, k)) for k in range(block.columns.shape[1])]
        return _sum_of_there(block, each).astype(messages.dtype)

    return _placed(rows, messages, terms, _message_sum)


def _message_max(rows: SlicedEll, messages: Array) -> Array:
    """Maximum of the messages of each row, column by column: [nnz, f] -> [n_rows, f]; 0 for an empty row."""
    def terms(block: EllBlock) -> Array:                            # the last message of a short row is read repeatedly
        return functools.reduce(jnp.maximum, [_message(block, messages, k) for k in range(block.columns.shape[1])])

    return _placed(rows, messages, terms, _message_max)


def _row_max(rows: SlicedEll, x: Array) -> Array:
    """Maximum over the rows of x selected by each row, column by column: [m, f] -> [n_rows, f]; 0 for an empty row."""
    x = lax.optimization_barrier(x)

    def terms(block: EllBlock) -> Array:
        return functools.reduce(jnp.maximum, [at(x, block.columns[:, k]) for k in range(block.columns.shape[1])])

    return _placed(rows, x, terms, _message_max)


def _matching_sum(rows: SlicedEll, row_of: Array, own: Array, others: Array, x: Array | None) -> Array:
    """Sum of x[j] over the columns j of row i with ``others[j] == own[i]``, for each feature: -> [n_rows, f].

    Args:
      row_of: int32[nnz], the row of each stored value.
      own: [n_rows, f];  others: [m, f].
      x: [m, f]; None: all are 1, so that the result is a count.
    """
    own, others, x = lax.optimization_barrier((own, others, x))

    def terms(block: EllBlock) -> Array:
        mine = at(own, lax.optimization_barrier(at(row_of, block.starts)))
        columns = [block.columns[:, k] for k in range(block.columns.shape[1])]
        equal = [mine == at(others, column) for column in columns]
        if x is not None:
            return _sum_of_there(block, [jnp.where(e, widened(at(x, column)), 0)
                                         for e, column in zip(equal, columns, strict=True)]).astype(x.dtype)
        # The terms beyond the end of a short row are subtracted: exact, and twice as fast as a `where` in each term.
        ones = [jnp.where(e, np.float32(1), 0) for e in equal]
        beyond = over_columns(len(columns) - block.counts, mine).astype(np.float32) * ones[-1]
        return (functools.reduce(jnp.add, ones) - beyond).astype(own.dtype)

    return _placed(rows, own, terms, _message_sum)


def _sum_of_there(block: EllBlock, each: list[Any]) -> Array:
    """The sum of the terms of each row, without the terms beyond its end."""
    kept = [jnp.where(over_columns(k < block.counts, x), x, 0) for k, x in enumerate(each)]
    return functools.reduce(jnp.add, [each[0], *kept[1:]])


def _message(block: EllBlock, messages: Array, k: int) -> Array:
    """[r, f]: message k of each row, or its last one."""
    return at(messages, block.starts + jnp.minimum(k, block.counts - 1))


# Pairs of bfloat16 columns are read as one number of 32 bits. XLA would convert bfloat16 to float32 before the loop,
# which would then read twice as many bytes.


def _as_pairs(x: Array) -> Array:
    """bfloat16[..., f] -> uint32[..., f / 2]."""
    return lax.bitcast_convert_type(x.reshape(*x.shape[:-1], x.shape[-1] // 2, 2), np.uint32)


def _paired(*halves: Array) -> Array:
    """Pairs of two float32 numbers, each rounded to bfloat16: uint32."""
    first, second = (lax.bitcast_convert_type(lax.reduce_precision(x, 8, 7), np.uint32) for x in halves)
    return first >> np.uint32(16) | second


# Functions from a pair to its first and to its second number, as float32.
_HALVES = (lambda pair: lax.bitcast_convert_type(pair << np.uint32(16), np.float32),
           lambda pair: lax.bitcast_convert_type(pair & np.uint32(0xffff0000), np.float32))


def _paired_message_sum(rows: SlicedEll, messages: Array) -> Array:
    return _paired(*(_message_sum(rows, half(messages)) for half in _HALVES))


def is_empty(rows: SlicedEll) -> Array:
    """bool[n_rows]: whether a row stores no value."""
    return rows.place == 0


def _placed(rows: SlicedEll, like: Array, terms: Callable[..., Any], reduce: Callable[..., Any]) -> Array:
    """The results of all blocks, in the order of the rows.

    Args:
      terms: ``block -> results``.
      reduce: ``(above, chunks) -> results of long rows``, from the results of their chunks, which are adjacent.
    """
    results = [jnp.zeros((1, *like.shape[1:]), like.dtype), *map(terms, rows.blocks)]
    if rows.above is not None:
        # Without barriers XLA recomputes the result of a chunk for every term that reads it.
        chunks = lax.optimization_barrier(terms(rows.chunks))
        results.append(lax.optimization_barrier(reduce(rows.above, chunks)))
    return at(jnp.concatenate(results), rows.place)


def _packed(block: EllBlock, values: Array) -> Array:
    """[r, width, ...]: the stored values of the rows of a block, 0 beyond their ends."""
    if block.weights is not None:
        return block.weights
    k = jnp.arange(block.columns.shape[1], dtype=np.int32)[None]
    places = block.starts[:, None] + jnp.minimum(k, block.counts[:, None] - 1)
    # The barrier gives it a separate loop: fused into the loop over features, it takes twice as long.
    there = over_columns(k < block.counts[:, None], values)
    return lax.optimization_barrier(jnp.where(there, at(values, places), 0))


def over_columns(rows: Array, x: Array | np.ndarray) -> Array:
    """`rows` with an axis of size 1 appended for each axis of x after its first."""
    return rows.reshape(rows.shape + (1,) * (x.ndim - 1))


def widened(x: Array) -> Array:
    """Half-precision numbers as float32, the dtype of their sums."""
    return x.astype(np.float32) if x.dtype.itemsize < 4 else x


def spread(x: Array | np.ndarray, index: Array | np.ndarray) -> Array:
    """``x[index]`` for repeated indices: x is computed once, and not recomputed by each reader."""
    return at(lax.optimization_barrier(x), index)


def at(x: Array, index: Array | np.ndarray) -> Array:
    """``x[index]`` without a check: the indices were checked when the matrix was made, and a check costs a select."""
    return x.at[index].get(mode="promise_in_bounds")


# -- the copies of the values ---------------------------------------------------------------------------------------


def without_weights(rows: SlicedEll) -> SlicedEll:
    """The same blocks without weights, for other values."""
    return _map_blocks(rows, lambda block: block._replace(weights=None))


def converted(rows: SlicedEll, dtype: DTypeLike) -> SlicedEll:
    """The same blocks with their weights in another dtype."""
    return _map_blocks(rows, lambda block: block if block.weights is None else
                       block._replace(weights=block.weights.astype(dtype)))


def _map_blocks(rows: SlicedEll, f: Callable[..., Any]) -> SlicedEll:
    return rows._replace(blocks=tuple(map(f, rows.blocks)), chunks=None if rows.chunks is None else f(rows.chunks))


weighted_sum = xjax.jit(_weighted_sum)
message_sum = xjax.jit(_message_sum)
message_max = xjax.jit(_message_max)
row_max = xjax.jit(_row_max)
matching_sum = xjax.jit(_matching_sum)
__getattr__ = old_names(__name__, Rows="SlicedEll", Block="EllBlock")
