"""`x[index]`: what is known becomes slices, traced scalars a dynamic slice, integer arrays a gather.

Eager code indexes in loops (`x[i]`, `x[i:i + 32]`), and a static slice is a new program for each position. So where
nothing is being staged, known positions are handed over at run time, to one dynamic slice for each shape.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xjax.core import dtypes
from xjax.core.context import context
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
    check_index,
    index_dtype,
    is_known,
    is_scalar_mask,
    parse,
)
from xjax.ops.arrange import concatenate, iota, rev
from xjax.ops.convert import convert_element_type
from xjax.ops.elementwise import add, mul
from xjax.ops.gather import gather
from xjax.ops.index_numbers import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers
from xjax.ops.shape import broadcast_in_dim, expand_dims, squeeze
from xjax.ops.slice import dynamic_slice, dynamic_slice_p, slice_p
from xjax.ops.zeros import zeros_of
from xjax.runtime.array import Array
from xjax.runtime.dispatch import eval_trace


def getitem(x: Any, index: Any) -> Any:
    """`x[index]` with NumPy's meaning.

    Args: index: integers, slices, None, `...`, integer arrays, boolean masks (known ones), or a tuple of these.
    Returns: array of the dtype of x. A position in an array that is out of range is moved inside.
    Raises: IndexError for a Python integer out of range, NonConcreteBooleanIndexError for a traced mask.
    """
    if type(index) is int and type(x) is Array and context.trace is eval_trace and x.aval.shape:
        return _row(x, index)
    return read(x, index)


def _row(x: Array, i: int) -> Array:
    """`x[i]` at the root: two launches, without any parsing."""
    shape = x.aval.shape
    size = shape[0]
    if not -size <= i < size:
        parse(shape, i)                              # raises
    start = i + size if i < 0 else i
    row = dynamic_slice_p.bind(x, start, *(0,) * (len(shape) - 1), slice_sizes=(1, *shape[1:]))
    return squeeze(row, (0,))


def read(x: Any, index: Any, *, mode: Any = None, fill_value: Any = None, indices_are_sorted: bool = False,
         unique_indices: bool = False, wrap_negative_indices: bool = True) -> Any:
    """`x[index]`, and `x.at[index].get(...)` with its options."""
    check_index(index)
    x, index, _ = with_mask_axes(x, index)
    aval = typeof(x)
    mode = GatherScatterMode.from_any(mode) if mode is not None else None
    parts = parse(aval.shape, index, strict=mode is None, wrap_negative=wrap_negative_indices)
    if all(is_known(part) for part in parts):
        return _read_known(x, aval, parts)
    fill = mode is GatherScatterMode.FILL_OR_DROP
    if not fill and all(_fits_dynamic_slice(part) for part in parts):
        return _read_dynamic(x, parts)
    plan = make_plan(aval.shape, parts)
    if not math.prod(plan.shape):
        return zeros_of(ShapedArray(plan.final_shape, aval.dtype, aval.weak_type))
    found = gather(x, plan.indices(), plan.gather_numbers(), plan.windows,
                   mode=GatherScatterMode.PROMISE_IN_BOUNDS if mode is None else mode, fill_value=fill_value,
                   indices_are_sorted=indices_are_sorted or plan.is_sorted,
                   unique_indices=unique_indices or plan.is_unique)
    return plan.finish(found)


def with_mask_axes(x: Any, index: Any) -> tuple[Any, Any, tuple[int, ...]]:
    """The array with an axis of size 1 for every True or False in the index; also the index, and those axes."""
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
    """Whether operations are being recorded, at whatever depth, instead of computed."""
    trace = context.trace
    while trace is not None:
        if isinstance(trace, StagingTrace):
            return True
        trace = trace.parent
    return False


def _read_known(x: Any, aval: ShapedArray, parts: Sequence[Part]) -> Any:
    """Integers, slices and None only."""
    cut = [p for p in parts if type(p) is not New]
    blocks = [(p.position, 1, 1) if type(p) is Fixed else _ascending(p) for p in cut]
    moved = any(size != n for (_, size, _), n in zip(blocks, aval.shape, strict=True))
    if moved and all(step == 1 for *_, step in blocks) and not staging():
        sizes = tuple(size for _, size, _ in blocks)
        x = dynamic_slice_p.bind(x, *[start for start, *_ in blocks], slice_sizes=sizes)
    elif moved:
        strides = tuple(step for *_, step in blocks)
        x = slice_p.bind(x, start_indices=tuple(start for start, *_ in blocks),
                         limit_indices=tuple(start + (size - 1) * step + 1 if size else start
                                             for start, size, step in blocks),
                         strides=None if set(strides) == {1} else strides)
    return _finish_slices(x, parts)


def _ascending(span: Span) -> tuple[int, int, int]:
    """(first, size, step > 0) of the positions of a span."""
    _, start, size, step = span
    if step < 0:
        start, step = start + (size - 1) * step if size else 0, -step
    return start, size, 1 if size < 2 else step


def _finish_slices(x: Any, parts: Sequence[Part]) -> Any:
    """A sliced array with spans of negative step reversed, the axes of single positions dropped, new axes added."""
    cut = [p for p in parts if type(p) is not New]
    backwards = [p.axis for p in cut if type(p) is Span and p.step < 0 and p.size > 1]
    x = rev(x, backwards) if backwards else x
    x = squeeze(x, [p.axis for p in cut if type(p) is not Span])
    return expand_dims(x, _new_axes(parts))


def _new_axes(parts: Sequence[Part]) -> list[int]:
    """Where the new axes stand in the result, if single positions vanish."""
    kept = [p for p in parts if type(p) in (New, Span)]
    return [k for k, p in enumerate(kept) if type(p) is New]


# -- traced scalars -----------------------------------------------------------------------------------------------

def _fits_dynamic_slice(part: Part) -> bool:
    if type(part) is Span:
        return part.step in (1, -1)
    return type(part) is not Many or not np.ndim(part.positions)


def _read_dynamic(x: Any, parts: Sequence[Part]) -> Any:
    """Single positions, some of them traced, and spans without gaps."""
    starts, sizes = [], []
    for part in parts:
        if type(part) is Span:
            start, size, _ = _ascending(part)
            starts, sizes = [*starts, start], [*sizes, size]
        elif type(part) is not New:
            starts, sizes = [*starts, part.position if type(part) is Fixed else part.positions], [*sizes, 1]
    found = dynamic_slice(x, starts, sizes, allow_negative_indices=False)
    return _finish_slices(found, parts)


# -- integer arrays -----------------------------------------------------------------------------------------------

class Column(NamedTuple):
    """Positions along one axis of the operand, and the batch axes of the index array that they vary along."""

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

    def indices(self) -> Any:
        """The index vectors: int[*batch, number of columns]."""
        if not self.columns:
            return np.zeros((*self.batch, 0), self.dtype)
        columns = [self._positions(c) for c in self.columns]
        shape = (*self.batch, 1)
        columns = [broadcast_in_dim(x, shape, c.dims) for x, c in zip(columns, self.columns, strict=True)]
        return columns[0] if len(columns) == 1 else concatenate(columns, len(self.batch))

    def _positions(self, c: Column) -> Any:
        if type(c.positions) is Span:
            _, start, size, step = c.positions
            return add(mul(iota(self.dtype, size), self.dtype.type(step)), self.dtype.type(start))
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

    def finish(self, found: Any) -> Any:
        """What was gathered, in the order and with the axes of the result."""
        if self.backwards:
            found = rev(found, self.backwards)
        return expand_dims(found, self.new)


def make_plan(shape: tuple[int, ...], parts: Sequence[Part]) -> Plan:
    """Plan of an index of an array of `shape`, whatever its parts are."""
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
                columns.append(Column(part.axis, _ascending(part)[0], ()))
            continue
        if type(part) is not New:
            collapsed.append(part.axis)
            windows[part.axis] = 1
    sizes = tuple(common[entry] if isinstance(entry, int) else entry.size for entry in placed)
    dense = tuple(k for k, batch in enumerate(is_batch) if not batch)
    steps = [p.step for p in parts if type(p) is Span and _gaps(p)]
    scalar = not any(np.ndim(p.positions) for p in arrays)
    found = {typeof(p.positions).dtype for p in arrays if not isinstance(p.positions, np.ndarray)}
    return Plan(
        columns=tuple(columns), batch=tuple(s for s, batch in zip(sizes, is_batch, strict=True) if batch),
        offsets=dense, collapsed=tuple(collapsed), windows=tuple(windows),
        backwards=tuple(k for k in dense if placed[k].step < 0 and placed[k].size > 1), shape=sizes,
        new=tuple(k for k, entry in enumerate(layout) if type(entry) is New),
        is_sorted=scalar and all(s > 0 for s in steps), is_unique=scalar,
        dtype=np.dtype(np.int64) if np.dtype(np.int64) in found else index_dtype(shape))


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

    These stand where the first index array stood if all were neighbours, else in front.
    """
    advanced = [k for k, p in enumerate(parts) if type(p) in (Many, Fixed)]
    neighbours = not advanced or advanced[-1] - advanced[0] == len(advanced) - 1
    at = advanced[0] if advanced and neighbours else 0
    kept = [[p] if k not in advanced else [] for k, p in enumerate(parts)]
    axes = list(range(ndim))
    return [entry for group in (*kept[:at], axes, *kept[at:]) for entry in group]
