"""Sums over the rows of a sparse matrix, written out term by term.

The form is sliced ELLPACK: rows of similar length form a block. The block of width 4 has the rows with 3 or 4 stored
values, and its sum is four terms ``weight[:, k] * x[columns[:, k]]`` that XLA fuses into one loop over rows, with the
features innermost. A row longer than the widest block is cut into chunks of that width; the sums of its chunks are
summed again, by blocks of their own. On a CPU that takes a third to a tenth of the time of a sorted segment sum, and
0.2 to 0.5 s longer to compile (benchmarks/graph.py).

A row with fewer values than its block is wide repeats its last column with weight 0: what it reads is at hand already.
So an infinite number in that column makes the row NaN.
"""

import functools
from typing import Any, NamedTuple

import numpy as np

import xjax
import xjax.numpy as jnp
from xjax import lax
from xnn.moved_modules import old_names

WIDTHS = (1, 2, 4, 8, 16)
# A block of fewer rows than this share of all is not worth a loop of its own: its rows join the next wider block.
_FEW = 0.02


class EllBlock(NamedTuple):
    """Rows of similar length, padded to one width.

    Attributes:
      starts, counts: int32[r]: where a row starts among the stored values, and how many it has.
      columns: int32[r, width].
      weights: [r, width]: the stored values, 0 beyond a row's end; None if they are not known. They are a copy for
        reading: derivatives are those by the values themselves.
    """

    starts: Any
    counts: Any
    columns: Any
    weights: Any = None


class SlicedEll(NamedTuple):
    """A matrix as blocks of rows.

    Attributes:
      blocks: narrow to wide.
      chunks: block of the chunks of long rows; None without.
      above: `SlicedEll` whose columns are the chunks: the long rows. None without.
      place: int32[n_rows]: where a row is in the sums of blocks and long rows, after one row of zeros for empty ones.
    """

    blocks: tuple[EllBlock, ...]
    chunks: EllBlock | None
    above: "SlicedEll | None"
    place: Any


def make_rows(indptr: np.ndarray, columns: np.ndarray, values: np.ndarray | None = None) -> SlicedEll:
    """Blocks of a matrix from the arrays of its compressed row form.

    Args: values: [nnz], where they are known and stay the same.
    """
    counts = np.diff(indptr)
    edges = _edges(counts)
    width_of = np.searchsorted(edges, counts)                       # of empty rows 0, but they are in no block
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
    """The widths of blocks for rows of these lengths."""
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
    """(Chunks of rows, the sums of chunks)."""
    n_chunks = -(-counts // width)
    first = np.concatenate([[0], np.cumsum(n_chunks)])
    ordinal = np.arange(first[-1]) - np.repeat(first[:-1], n_chunks)
    chunk_starts = np.repeat(starts, n_chunks) + width * ordinal
    chunk_counts = np.minimum(width, np.repeat(counts, n_chunks) - width * ordinal)
    chunks = _block(chunk_starts, chunk_counts, width, columns, values)
    return chunks, make_rows(first, np.arange(first[-1]))


# -- sums ------------------------------------------------------------------------------------------------------------


def _weighted_sum(rows: SlicedEll, x: Any, values: Any) -> Any:
    """``sum_j A[i, j] x[j]`` for each row i: x [m, ..., f] -> [n_rows, ..., f].

    Args: values: [nnz, ...], the stored values in row order, whose further axes are those of x but the last; None: all
      are 1. Where the blocks have their weights, these are read instead.
    """
    in_pairs = x.dtype == jnp.bfloat16 and x.shape[-1] % 2 == 0
    read = _as_pairs(x) if in_pairs else x
    read = lax.optimization_barrier(read)                         # its rows are read many times, and computed once

    def terms(block: EllBlock) -> Any:
        neighbours = [at(read, block.columns[:, k]) for k in range(block.columns.shape[1])]
        weights = None if values is None else widened(_packed(block, values))
        if in_pairs:
            return _paired(*(_block_sum(block, list(map(half, neighbours)), weights) for half in _HALVES))
        return _block_sum(block, list(map(widened, neighbours)), weights).astype(x.dtype)

    sums = _placed(rows, read, terms, _paired_message_sum if in_pairs else _message_sum)
    sums = lax.optimization_barrier(sums)       # within the loop that reads them, short rows of many heads take longer
    if not in_pairs:
        return sums
    return lax.bitcast_convert_type(sums, x.dtype).reshape(sums.shape[0], *x.shape[1:])


def _block_sum(block: EllBlock, neighbours: list[Any], weights: Any) -> Any:
    """Sums of the rows of a block. Args: neighbours: for each k [r, ..., f]; weights: [r, width, ...], None for 1."""
    if weights is None:
        return _sum_of_there(block, neighbours)
    return functools.reduce(jnp.add, [y * weights[:, k][..., None] for k, y in enumerate(neighbours)])


def _message_sum(rows: SlicedEll, messages: Any) -> Any:
    """Sum of the stored values of each row, which are rows themselves: [nnz, f] -> [n_rows, f]; 0 of none."""
    def terms(block: EllBlock) -> Any:
        each = [widened(_message(block, messages, k)) for k in range(block.columns.shape[1])]
        return _sum_of_there(block, each).astype(messages.dtype)

    return _placed(rows, messages, terms, _message_sum)


def _message_max(rows: SlicedEll, messages: Any) -> Any:
    """Largest of the stored values of each row, column by column: [nnz, f] -> [n_rows, f]; 0 of none."""
    def terms(block: EllBlock) -> Any:                            # the last message of a short row is read repeatedly
        return functools.reduce(jnp.maximum, [_message(block, messages, k) for k in range(block.columns.shape[1])])

    return _placed(rows, messages, terms, _message_max)


def _row_max(rows: SlicedEll, x: Any) -> Any:
    """Largest of the rows of x that each row names, column by column: x [m, f] -> [n_rows, f]; 0 of none."""
    x = lax.optimization_barrier(x)

    def terms(block: EllBlock) -> Any:
        return functools.reduce(jnp.maximum, [at(x, block.columns[:, k]) for k in range(block.columns.shape[1])])

    return _placed(rows, x, terms, _message_max)


def _matching_sum(rows: SlicedEll, row_of: Any, own: Any, others: Any, x: Any) -> Any:
    """Sum of x[j] over the j named by row i where ``others[j] == own[i]``, column by column: -> [n_rows, f].

    Args:
      row_of: int32[nnz], the row of each stored value.
      own: [n_rows, f];  others: [m, f].
      x: [m, f]; None: all are 1, which counts them.
    """
    own, others, x = lax.optimization_barrier((own, others, x))

    def terms(block: EllBlock) -> Any:
        mine = at(own, lax.optimization_barrier(at(row_of, block.starts)))
        columns = [block.columns[:, k] for k in range(block.columns.shape[1])]
        equal = [mine == at(others, column) for column in columns]
        if x is not None:
            return _sum_of_there(block, [jnp.where(e, widened(at(x, column)), 0)
                                         for e, column in zip(equal, columns, strict=True)]).astype(x.dtype)
        # What a short row reads beyond its end is subtracted: exact, and twice as fast as a choice in each term.
        ones = [jnp.where(e, np.float32(1), 0) for e in equal]
        beyond = over_columns(len(columns) - block.counts, mine).astype(np.float32) * ones[-1]
        return (functools.reduce(jnp.add, ones) - beyond).astype(own.dtype)

    return _placed(rows, own, terms, _message_sum)


def _sum_of_there(block: EllBlock, each: list[Any]) -> Any:
    """The sum of the terms of each row, without those beyond its end."""
    kept = [jnp.where(over_columns(k < block.counts, x), x, 0) for k, x in enumerate(each)]
    return functools.reduce(jnp.add, [each[0], *kept[1:]])


def _message(block: EllBlock, messages: Any, k: int) -> Any:
    """[r, f]: message k of each row, or its last one."""
    return at(messages, block.starts + jnp.minimum(k, block.counts - 1))


# Neighbouring columns of bfloat16 are read as one number of 32 bits: of bfloat16 itself XLA makes float32 before the
# loop, which then reads twice as many bytes.


def _as_pairs(x: Any) -> Any:
    """bfloat16[..., f] -> uint32[..., f / 2]."""
    return lax.bitcast_convert_type(x.reshape(*x.shape[:-1], x.shape[-1] // 2, 2), np.uint32)


def _paired(*halves: Any) -> Any:
    """The pairs of two float32, each rounded to bfloat16."""
    first, second = (lax.bitcast_convert_type(lax.reduce_precision(x, 8, 7), np.uint32) for x in halves)
    return first >> np.uint32(16) | second


# From a pair its first number and its second, as float32.
_HALVES = (lambda pair: lax.bitcast_convert_type(pair << np.uint32(16), np.float32),
           lambda pair: lax.bitcast_convert_type(pair & np.uint32(0xffff0000), np.float32))


def _paired_message_sum(rows: SlicedEll, messages: Any) -> Any:
    return _paired(*(_message_sum(rows, half(messages)) for half in _HALVES))


def _placed(rows: SlicedEll, like: Any, terms: Any, reduce: Any) -> Any:
    """The results of all blocks, in the order of the rows.

    Args:
      terms: the results of one block.
      reduce: ``(above, chunks) -> results of long rows``, from the results of their chunks, which are neighbours.
    """
    found = [jnp.zeros((1, *like.shape[1:]), like.dtype), *map(terms, rows.blocks)]
    if rows.above is not None:
        # Without barriers XLA computes the result of a chunk again for every term that reads it.
        chunks = lax.optimization_barrier(terms(rows.chunks))
        found.append(lax.optimization_barrier(reduce(rows.above, chunks)))
    return at(jnp.concatenate(found), rows.place)


def _packed(block: EllBlock, values: Any) -> Any:
    """[r, width, ...]: the stored values of the rows of a block, 0 beyond their ends."""
    if block.weights is not None:
        return block.weights
    k = jnp.arange(block.columns.shape[1], dtype=np.int32)[None]
    places = block.starts[:, None] + jnp.minimum(k, block.counts[:, None] - 1)
    # Read once, in a loop of its own: within the loop over features, it takes twice as long.
    there = over_columns(k < block.counts[:, None], values)
    return lax.optimization_barrier(jnp.where(there, at(values, places), 0))


def over_columns(rows: Any, x: Any) -> Any:
    """The axes of `rows` and then as many of size 1 as x has after its first."""
    return rows.reshape(rows.shape + (1,) * (x.ndim - 1))


def widened(x: Any) -> Any:
    """Half-precision numbers as float32, in which they are summed."""
    return x.astype(np.float32) if x.dtype.itemsize < 4 else x


def spread(x: Any, index: Any) -> Any:
    """``x[index]`` for indices that repeat: x is computed once, not again in every place that reads it."""
    return at(lax.optimization_barrier(x), index)


def at(x: Any, index: Any) -> Any:
    """``x[index]`` for indices that were checked when the matrix was made: a second check would cost a select."""
    return x.at[index].get(mode="promise_in_bounds")


# -- the copies of the values ---------------------------------------------------------------------------------------


def without_weights(rows: SlicedEll) -> SlicedEll:
    """The same blocks for other values."""
    return _map_blocks(rows, lambda block: block._replace(weights=None))


def converted(rows: SlicedEll, dtype: Any) -> SlicedEll:
    """The same blocks with their weights in another dtype."""
    return _map_blocks(rows, lambda block: block if block.weights is None else
                       block._replace(weights=block.weights.astype(dtype)))


def _map_blocks(rows: SlicedEll, f: Any) -> SlicedEll:
    return rows._replace(blocks=tuple(map(f, rows.blocks)), chunks=None if rows.chunks is None else f(rows.chunks))


weighted_sum = xjax.jit(_weighted_sum)
message_sum = xjax.jit(_message_sum)
message_max = xjax.jit(_message_max)
row_max = xjax.jit(_row_max)
matching_sum = xjax.jit(_matching_sum)
__getattr__ = old_names(__name__, Rows="SlicedEll", Block="EllBlock")
