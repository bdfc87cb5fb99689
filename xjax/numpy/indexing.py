"""`x[index]`: known positions become slices, traced scalars a dynamic slice, integer arrays a gather.

Eager code indexes in loops (`x[i]`, `x[i:i + 32]`), and a static slice is a new program for each position. So outside
of staging, known positions are operands of the program; at the root the whole read is one launch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xjax.core import dtypes
from xjax.core.config import UNCHECKED, config, marked
from xjax.core.context import at_root, context
from xjax.core.errors import bad
from xjax.core.staging import StagingTrace
from xjax.core.types import ShapedArray, typeof
from xjax.lax.shapes import broadcast_shapes
from xjax.numpy.index_parts import (
    Fixed,
    Many,
    New,
    Part,
    Span,
    attached,
    check_index,
    detached,
    index_dtype,
    is_known,
    is_scalar_mask,
    parse,
    resolved,
)
from xjax.ops.arrange import concatenate, iota, rev
from xjax.ops.convert import convert_element_type
from xjax.ops.elementwise import add, mul
from xjax.ops.gather import fill_constant, gather
from xjax.ops.index_numbers import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers
from xjax.ops.shape import broadcast_in_dim, expand_dims, squeeze
from xjax.ops.slice import dynamic_slice, dynamic_slice_p, slice_p
from xjax.ops.zeros import zeros_of
from xjax.runtime.arrays.array import Array
from xjax.runtime.arrays.moves import to_array
from xjax.runtime.one_launch import one_launch
from xjax.runtime.placement.places import ON_ONE_DEVICE
from xjax.typing import Array as AnyArray
from xjax.typing import ArrayLike


def getitem(x: ArrayLike, index: object) -> AnyArray:
    """`x[index]` with NumPy's meaning.

    Args: index: integers, slices, None, `...`, integer arrays, boolean masks (known ones), or a tuple of these.
    Returns: array of the dtype of x. Positions in an integer array that are out of range are clamped.
    Raises: IndexError for a Python integer out of range, NonConcreteBooleanIndexError for a traced mask.
    """
    if type(index) is int and type(x) is Array and at_root() and x.aval.shape:
        size = x.aval.shape[0]
        if not -size <= index < size:
            parse(x.aval.shape, index)               # raises
        return _row(x, *operands_beside(x, index + size if index < 0 else index))
    return read(x, index)


def operands_beside(x: ArrayLike, *values: ArrayLike) -> tuple[Any, ...]:
    """In eager code, values as arrays on the device of `x`: operands of the launch, not constants of its program."""
    if not at_root():
        return values
    home = x._place if type(x) is Array and type(x._place) in ON_ONE_DEVICE else None
    return tuple([to_array(v, home) for v in values])


@one_launch
def _row(x: AnyArray, i: AnyArray) -> AnyArray:
    return squeeze(dynamic_slice(x, (i, *(0,) * (x.ndim - 1)), (1, *x.shape[1:]), allow_negative_indices=False), (0,))


class ReadOptions(NamedTuple):
    """The keywords of `x.at[index].get`, except `wrap_negative_indices`."""

    mode: GatherScatterMode | None = None
    fill_value: Any = None
    indices_are_sorted: bool = False
    unique_indices: bool = False


def read(x: ArrayLike, index: object, *, mode: str | None = None, fill_value: ArrayLike | None = None,
         indices_are_sorted: bool = False, unique_indices: bool = False,
         wrap_negative_indices: bool = True) -> AnyArray:
    """`x[index]`, and `x.at[index].get(...)` with its options."""
    if mode is not None and config.check and UNCHECKED not in context.scope:
        with marked(UNCHECKED):             # the user chose the meaning of indices outside of the array
            return read(x, index, mode=mode, fill_value=fill_value, indices_are_sorted=indices_are_sorted,
                        unique_indices=unique_indices, wrap_negative_indices=wrap_negative_indices)
    check_index(index)
    x, index, _ = with_mask_axes(x, index)
    aval = typeof(x)
    parts = parse(aval.shape, index, strict=mode is None and wrap_negative_indices,
                  wrap_negative=wrap_negative_indices)
    chosen = None if mode is None else GatherScatterMode.from_any(mode)
    fill_value = fill_constant(fill_value, aval.dtype) if chosen is GatherScatterMode.FILL_OR_DROP else None
    options = ReadOptions(chosen, fill_value, bool(indices_are_sorted), bool(unique_indices))
    if not at_root() or all(type(p) is Span and p.limit - p.first == p.size == aval.shape[p.axis]
                                              for p in parts):                              # the result is x itself
        return _read(x, parts, options)
    fixed, moving = detached(parts, aval.shape)
    return _read_detached(x, *operands_beside(x, *moving), parts=fixed, options=options)


@one_launch
def _read_detached(x: AnyArray, *moving: AnyArray, parts: tuple[Part, ...], options: ReadOptions) -> AnyArray:
    return _read(x, attached(parts, moving), options)


def _read(x: AnyArray, parts: Sequence[Part], options: ReadOptions) -> AnyArray:
    aval, mode = typeof(x), options.mode
    if all(is_known(part) for part in parts):
        return _read_known(x, aval, parts)
    parts = resolved(parts, aval.shape)
    fill = mode is GatherScatterMode.FILL_OR_DROP
    if not fill and all(_fits_dynamic_slice(part) for part in parts):
        return _read_dynamic(x, parts)
    plan = make_plan(aval.shape, parts)
    if not math.prod(plan.shape):
        zeros = zeros_of(ShapedArray(plan.final_shape, aval.dtype, aval.weak_type))
        return zeros                                    # pyright: ignore[reportReturnType]
    gathered = gather(x, plan.indices(), plan.gather_numbers(), plan.windows,
                   mode=GatherScatterMode.PROMISE_IN_BOUNDS if mode is None else mode, fill_value=options.fill_value,
                   indices_are_sorted=options.indices_are_sorted or plan.is_sorted,
                   unique_indices=options.unique_indices or plan.is_unique)
    return plan.finish(gathered)


def with_mask_axes(x: ArrayLike, index: object) -> tuple[Any, Any, tuple[int, ...]]:
    """(the array with an axis of size 1 for every True or False in the index, the index, these axes)."""
    items = index if isinstance(index, tuple) else (index,)
    if not any(is_scalar_mask(item) for item in items):
        return x, index, ()
    axes, axis = [], 0
    for k, item in enumerate(items):
        if item is Ellipsis:
            axis = typeof(x).ndim + len(axes) - sum(i is not None and not is_scalar_mask(i) for i in items[k + 1:])
        elif item is not None:
            axes += [axis] * is_scalar_mask(item)
            axis += 1
    return expand_dims(x, axes), index, tuple(axes)


# -- known positions ----------------------------------------------------------------------------------------------

def staging() -> bool:
    """Whether the current trace or one of its parents records operations instead of computing them."""
    trace = context.trace
    while trace is not None:
        if isinstance(trace, StagingTrace):
            return True
        trace = trace.parent
    return False


def _read_known(x: AnyArray, aval: ShapedArray, parts: Sequence[Part]) -> AnyArray:
    """Read with integers, slices and None only."""
    spans = [Span(p.axis, p.position, 1, 1, p.position + 1) if type(p) is Fixed else p
           for p in parts if type(p) is not New]
    moved = any(p.size != n for p, n in zip(spans, aval.shape, strict=True))
    if moved and not any(map(_gaps, spans)) and not staging():
        x = dynamic_slice_p.bind(x, *[p.first for p in spans], slice_sizes=tuple(p.size for p in spans))
    elif moved:
        strides = tuple(abs(p.step) for p in spans)
        x = slice_p.bind(x, start_indices=tuple(p.first for p in spans), limit_indices=tuple(p.limit for p in spans),
                         strides=None if set(strides) == {1} else strides)
    return _finish_slices(x, parts)


def _finish_slices(x: AnyArray, parts: Sequence[Part]) -> AnyArray:
    """A sliced array with spans of negative step reversed, the axes of single positions dropped, new axes added."""
    spans = [p for p in parts if type(p) is not New]
    backwards = [p.axis for p in spans if type(p) is Span and p.step < 0 and not (type(p.size) is int and p.size < 2)]
    x = rev(x, backwards) if backwards else x
    x = squeeze(x, [p.axis for p in spans if type(p) is not Span])
    return expand_dims(x, _new_axes(parts))


def _new_axes(parts: Sequence[Part]) -> list[int]:
    """Positions of the new axes in the result, after integer-indexed axes are dropped."""
    kept = [p for p in parts if type(p) in (New, Span)]
    return [k for k, p in enumerate(kept) if type(p) is New]


# -- traced scalars -----------------------------------------------------------------------------------------------

def _fits_dynamic_slice(part: Part) -> bool:
    if type(part) is Span:
        return not _gaps(part)
    return type(part) is not Many or not np.ndim(part.positions)


def _read_dynamic(x: AnyArray, parts: Sequence[Part]) -> AnyArray:
    """Read with single positions, some of them traced, and spans without gaps."""
    starts, sizes = [], []
    for part in parts:
        if type(part) is Span:
            starts, sizes = [*starts, part.first], [*sizes, part.size]
        elif type(part) is not New:
            start = part.position if type(part) is Fixed else part.positions
            starts, sizes = [*starts, max(start, 0) if isinstance(start, np.ndarray) else start], [*sizes, 1]
    sliced = dynamic_slice(x, _of_one_width(starts), sizes, allow_negative_indices=False)
    return _finish_slices(sliced, parts)


def _of_one_width(starts: Sequence[Any]) -> Sequence[Any]:
    """Starts in the widest of their integer types, since `dynamic_slice` requires one type."""
    types = {typeof(s).dtype for s in starts if type(s) is not int}
    if len(types) < 2:
        return starts
    widest = max(types, key=dtypes.itemsize_bits)
    return [s if type(s) is int else convert_element_type(s, widest) for s in starts]


# -- integer arrays -----------------------------------------------------------------------------------------------

class Column(NamedTuple):
    """Positions along one axis of the operand, and the batch axes of the index array along which they vary."""

    axis: int
    positions: Any                      # int, array, or Span for an arithmetic progression
    dims: tuple[int, ...]


class Plan(NamedTuple):
    """How a general index maps to a gather or scatter.

    The *batch* axes of the result enumerate index vectors; the others (`offsets`) run through windows of the operand.
    `shape` is the shape of the result without its `new` axes.
    """

    columns: tuple[Column, ...]
    batch: tuple[int, ...]              # sizes of the batch axes
    offsets: tuple[int, ...]            # axes of the result inside a window
    collapsed: tuple[int, ...]          # axes of the operand that have no window
    windows: tuple[int, ...]            # window size along each axis of the operand
    backwards: tuple[int, ...]          # axes of the result to reverse
    shape: tuple[int, ...]
    new: tuple[int, ...]
    is_sorted: bool
    is_unique: bool
    dtype: np.dtype

    @property
    def final_shape(self) -> tuple[int, ...]:
        sizes = iter(self.shape)
        return tuple(1 if d in self.new else next(sizes) for d in range(len(self.shape) + len(self.new)))

    def indices(self) -> ArrayLike:
        """The index vectors: int[*batch, number of columns]."""
        if not self.columns:
            return np.zeros((*self.batch, 0), self.dtype)
        columns = [self._positions(c) for c in self.columns]
        shape = (*self.batch, 1)
        columns = [broadcast_in_dim(x, shape, c.dims) for x, c in zip(columns, self.columns, strict=True)]
        return columns[0] if len(columns) == 1 else concatenate(columns, len(self.batch))

    def _positions(self, c: Column) -> ArrayLike:
        if type(c.positions) is Span:
            _, first, size, step, _ = c.positions
            return add(self.dtype.type(first), mul(self.dtype.type(abs(step)), iota(self.dtype, size)))
        if isinstance(c.positions, np.ndarray):
            return c.positions.astype(self.dtype)
        if isinstance(c.positions, int):
            same = self.dtype == dtypes.canonicalize_dtype(int)
            return c.positions if same and not c.dims and len(self.columns) == 1 else self.dtype.type(c.positions)
        return convert_element_type(c.positions, self.dtype)

    def gather_numbers(self) -> GatherDimensionNumbers:
        return GatherDimensionNumbers(self.offsets, self.collapsed, tuple(c.axis for c in self.columns))

    def scatter_numbers(self) -> ScatterDimensionNumbers:
        return ScatterDimensionNumbers(self.offsets, self.collapsed, tuple(c.axis for c in self.columns))

    def finish(self, gathered: AnyArray) -> AnyArray:
        """The gathered array in the order and with the axes of the result."""
        if self.backwards:
            gathered = rev(gathered, self.backwards)
        return expand_dims(gathered, self.new)


def make_plan(shape: tuple[int, ...], parts: Sequence[Part]) -> Plan:
    """The plan of an index with any parts, for an array of `shape`."""
    arrays = [p for p in parts if type(p) is Many]
    common = _common_shape(arrays)
    layout = _layout(parts, len(common))
    placed = [entry for entry in layout if type(entry) is not New]
    is_batch = [isinstance(entry, int) or _gaps(entry) for entry in placed]
    batch_of = {entry: sum(is_batch[:k]) for k, entry in enumerate(placed) if is_batch[k]}
    common_dims = tuple(batch_of[k] for k in range(len(common)))

    columns, collapsed, windows = [], [], list(shape)
    for part in parts:
        if type(part) is Many:
            dims = common_dims[len(common) - np.ndim(part.positions):]
            columns.append(Column(part.axis, part.positions, dims))
        elif type(part) is Fixed:
            columns.append(Column(part.axis, part.position, ()))
        elif type(part) is Span and _gaps(part):
            columns.append(Column(part.axis, part, (batch_of[part],)))
        elif type(part) is Span:
            windows[part.axis] = part.size
            if part.size != shape[part.axis]:
                columns.append(Column(part.axis, part.first, ()))
            continue
        if type(part) is not New:
            collapsed.append(part.axis)
            windows[part.axis] = 1
    sizes = tuple(common[entry] if isinstance(entry, int) else entry.size for entry in placed)
    dense = tuple(k for k, batch in enumerate(is_batch) if not batch)
    scalar = not any(np.ndim(p.positions) for p in arrays)
    types = {typeof(p.positions).dtype for p in arrays if not isinstance(p.positions, np.ndarray)}
    return Plan(
        columns=tuple(columns), batch=tuple(s for s, batch in zip(sizes, is_batch, strict=True) if batch),
        offsets=dense, collapsed=tuple(collapsed), windows=tuple(windows),
        backwards=tuple(k for k, p in enumerate(placed) if type(p) is Span and p.step < 0 and p.size > 1), shape=sizes,
        new=tuple(k for k, entry in enumerate(layout) if type(entry) is New),
        is_sorted=scalar, is_unique=scalar,
        dtype=np.dtype(np.int64) if np.dtype(np.int64) in types else index_dtype(shape))


def result_shape(parts: Sequence[Part]) -> tuple[int, ...]:
    """Shape of the result of an index with these parts."""
    common = _common_shape([p for p in parts if type(p) is Many])
    return tuple(1 if type(entry) is New else common[entry] if isinstance(entry, int) else entry.size
                 for entry in _layout(parts, len(common)))


def _common_shape(arrays: Sequence[Many]) -> tuple[int, ...]:
    shapes = [np.shape(p.positions) for p in arrays]
    try:
        return broadcast_shapes(*shapes)
    except ValueError as cause:
        raise bad("index", "the integer arrays of an index do not broadcast together",
                  given={f"axis {p.axis}": str(s) for p, s in zip(arrays, shapes, strict=True)},
                  fix="give them one shape; numpy.ix_(i, j) makes a grid.", exc=IndexError) from cause


def _gaps(span: Span) -> bool:
    return span.step not in (1, -1) and span.size > 1


def _layout(parts: Sequence[Part], ndim: int) -> list[Any]:
    """Axes of the result in order: a Span, a New, or an int for an axis of the integer arrays.

    The axes of the integer arrays replace the first array if all arrays are neighbours; otherwise they come first.
    """
    advanced = [k for k, p in enumerate(parts) if type(p) in (Many, Fixed)]
    neighbours = not advanced or advanced[-1] - advanced[0] == len(advanced) - 1
    at = advanced[0] if advanced and neighbours else 0
    kept = [[p] if k not in advanced else [] for k, p in enumerate(parts)]
    axes = list(range(ndim))
    return [entry for group in (*kept[:at], axes, *kept[at:]) for entry in group]
