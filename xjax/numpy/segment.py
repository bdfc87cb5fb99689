"""Reductions over segments: rows with the same id are combined. Public as `xjax.ops.segment_sum` and so on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.array_type import converted
from xjax.core.calls import constrained
from xjax.core.errors import bad
from xjax.core.trace import known_value
from xjax.core.types import ShapedArray, typeof
from xjax.ops.arrange import concatenate
from xjax.ops.checks import static_int
from xjax.ops.convert import convert_element_type
from xjax.ops.index_numbers import GatherScatterMode, ScatterDimensionNumbers
from xjax.ops.reduce import reduce_max, reduce_min, reduce_prod
from xjax.ops.scatter import scatter_add, scatter_max, scatter_min
from xjax.ops.scatter_product import scatter_mul
from xjax.ops.shape import broadcast_in_dim, reduce_sum, reshape
from xjax.ops.slice import slice_in_dim
from xjax.ops.zeros import full_of
from xjax.runtime.arrays.moves import to_array
from xjax.typing import Array, ArrayLike


def _lowest(dtype: np.dtype) -> float:
    return -np.inf if dtypes.is_float(dtype) else False if dtypes.is_bool(dtype) else dtypes.iinfo(dtype).min


def _highest(dtype: np.dtype) -> float:
    return np.inf if dtypes.is_float(dtype) else True if dtypes.is_bool(dtype) else dtypes.iinfo(dtype).max


def _segment(name: str, scatter: Callable, neutral: Callable[[np.dtype], float], reduce: Callable,
             what: str) -> Callable:
    caller = f"ops.{name}"

    def apply(data: ArrayLike, segment_ids: ArrayLike, num_segments: int | None = None,
              indices_are_sorted: bool = False, unique_indices: bool = False, bucket_size: int | None = None,
              mode: str | GatherScatterMode | None = None, out_sharding: object = None) -> Array:
        if out_sharding is not None:
            y = apply(data, segment_ids, num_segments, indices_are_sorted, unique_indices, bucket_size, mode)
            return constrained(f"ops.{name}", y, out_sharding)
        data, segment_ids = _array(data), _array(segment_ids)
        if not data.ndim:
            data = broadcast_in_dim(data, segment_ids.shape, ())
        _check(caller, data.aval, segment_ids.aval)
        count = _number_of_segments(caller, segment_ids, num_segments)
        out = ShapedArray((count, *data.shape[segment_ids.ndim:]), data.dtype)
        flags = {"indices_are_sorted": indices_are_sorted, "unique_indices": unique_indices,
                 "mode": GatherScatterMode.FILL_OR_DROP if mode is None else mode}
        fill = neutral(data.dtype)
        if bucket_size is None:
            return _scatter_rows(scatter, full_of(out, fill), segment_ids, data, flags)
        parts = [_scatter_rows(scatter, full_of(out, fill), ids, rows, flags)
                 for ids, rows in _buckets(segment_ids, data, static_int(bucket_size, "bucket_size", caller))]
        if not parts:
            return full_of(out, fill)                           # pyright: ignore[reportReturnType]
        return reduce(concatenate([reshape(p, (1, *out.shape)) for p in parts], 0), (0,))

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"""{what} of the rows of `data` that have the same segment id.

    Args:
      data: number[*ids, ...]; segment_ids: int[*ids], the segment of each row. One number is a value for each id.
      num_segments: static number of segments of the result. None: the largest id + 1, which needs known ids. Rows with
        an id outside [0, num_segments) are dropped.
      indices_are_sorted, unique_indices: promises on the ids that allow a faster program.
      bucket_size: rows to combine at a time, for accuracy; the partial results are combined at the end.
      mode: the treatment of rows with an id out of range, see `lax.GatherScatterMode`.
    Returns: array[num_segments, ...] of the dtype of data; {_EMPTY[name]} where a segment has no rows.

    >>> xjax.ops.{name}(xjax.numpy.array([1., 2., 5.]), xjax.numpy.array([0, 0, 1]), 2)
    Array({_EXAMPLE[name]}, dtype=float32)
    """
    return apply


_EMPTY = {"segment_sum": "0", "segment_prod": "1", "segment_max": "the lowest value",
          "segment_min": "the highest value"}
_EXAMPLE = {"segment_sum": "[3., 5.]", "segment_prod": "[2., 5.]", "segment_max": "[2., 5.]",
            "segment_min": "[1., 5.]"}


def _array(x: ArrayLike) -> Array:
    x = converted(x)
    return x if isinstance(x, Array) else to_array(x)             # pyright: ignore[reportReturnType]


def _check(caller: str, data: ShapedArray, ids: ShapedArray) -> None:
    given = {"data": data.str_short(), "segment_ids": ids.str_short()}
    if not dtypes.is_int(ids.dtype):
        raise bad(caller, "`segment_ids` must be integers", given=given, fix="convert them with ids.astype('int32').")
    if data.shape[:ids.ndim] != ids.shape:
        raise bad(caller, "needs one segment id for each row of `data`", given=given,
                  fix="give data the leading axes of segment_ids.", exc=ValueError)


def _number_of_segments(caller: str, ids: Array, num_segments: int | None) -> int:
    if num_segments is None:
        value = known_value(ids)
        if value is None:
            raise bad(caller, "the number of segments is not known while tracing",
                      given={"segment_ids": typeof(ids).str_short() + ", traced"},
                      fix="pass num_segments=n, a Python int.")
        return int(np.max(np.asarray(value), initial=-1)) + 1
    count = static_int(num_segments, "num_segments", caller)
    if count < 0:
        raise bad(caller, "`num_segments` must not be negative", given={"num_segments": str(count)},
                  fix="pass the number of segments.", exc=ValueError)
    return count


def _scatter_rows(scatter: Callable, into: Array, ids: Array, rows: Array, flags: dict) -> Array:
    if dtypes.itemsize_bits(ids.dtype) < 32 or dtypes.is_unsigned(ids.dtype):
        ids = convert_element_type(ids, np.int32)
    indices = broadcast_in_dim(ids, (*ids.shape, 1), range(ids.ndim))
    numbers = ScatterDimensionNumbers(tuple(range(ids.ndim, rows.ndim)), (0,), (0,))
    return scatter(into, indices, rows, numbers, **flags)


def _buckets(ids: Array, rows: Array, size: int) -> list[tuple[Any, Any]]:
    starts = range(0, ids.shape[0], size) if ids.ndim else ()
    return [(slice_in_dim(ids, lo, min(lo + size, ids.shape[0])), slice_in_dim(rows, lo, min(lo + size, ids.shape[0])))
            for lo in starts]


segment_sum = _segment("segment_sum", scatter_add, lambda _: 0, reduce_sum, "Sum")
segment_prod = _segment("segment_prod", scatter_mul, lambda _: 1, reduce_prod, "Product")
segment_max = _segment("segment_max", scatter_max, _lowest, reduce_max, "Maximum")
segment_min = _segment("segment_min", scatter_min, _highest, reduce_min, "Minimum")
