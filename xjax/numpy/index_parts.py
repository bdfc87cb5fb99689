"""Conversion of an index expression, as in `x[1:, None, i]`, to one part for each axis.

A known integer or slice becomes a `Fixed` or `Span`, integer arrays (and traced scalars) become `Many`, None becomes
`New`. Boolean masks must be known; they become integer arrays. `resolved` converts negative positions to positions from
the start, before `indexing` reads and `at` writes.

`detached` separates the positions, which may change from call to call, from the parts, so that eager code compiles one
program for many positions; `attached` puts them back.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xjax.core import dtypes
from xjax.core.array_type import converted
from xjax.core.errors import InconclusiveDimensionOperation, JAXTypeError, NonConcreteBooleanIndexError, bad
from xjax.core.symbolic.dims import Dim, is_above, max_dim, min_dim
from xjax.core.trace import Tracer, known_value
from xjax.core.types import number_of, typeof
from xjax.ops.checks import static_int
from xjax.ops.compare import lt, select_n
from xjax.ops.convert import convert_element_type, size_as
from xjax.ops.elementwise import add
from xjax.runtime.arrays.array import Array
from xjax.typing import Array as AnyArray
from xjax.typing import ArrayLike


class Fixed(NamedTuple):
    """One known position; the axis is dropped."""

    axis: int
    position: int


class Span(NamedTuple):
    """`size` positions from `first` up, |step| apart and below `limit`; step < 0: read backwards. The axis is kept."""

    axis: int
    first: Any                  # int, or a traced scalar set by `attached`
    size: int
    step: int
    limit: int


class Many(NamedTuple):
    """Positions in an integer array or tracer, whose axes replace the axis."""

    axis: int
    positions: Any
    wraps: bool = False         # whether negative positions are still to be converted


class New(NamedTuple):
    """A new axis of size 1."""


Part = Fixed | Span | Many | New
_INT32 = np.iinfo(np.int32)


def parse(shape: tuple[int, ...], index: object, *, strict: bool = True, wrap_negative: bool = True) -> list[Part]:
    """The parts of an index of an array of `shape`.

    Args:
      strict: a Python integer out of range is an error; else it becomes a `Many`, and the mode applies.
      wrap_negative: negative positions count from the end.
    """
    items = expand_masks(index if isinstance(index, tuple) else (index,), shape)
    items = _without_ellipsis(items, shape)
    parts: list[Part] = []
    axis = 0
    for item in items:
        if item is None:
            parts.append(New())
            continue
        parts.append(_part(item, axis, shape, strict, wrap_negative))
        axis += 1
    return parts


def _part(item: object, axis: int, shape: tuple[int, ...], strict: bool, wrap_negative: bool) -> Part:
    size = shape[axis]
    if isinstance(item, slice):
        symbolic = any([type(n) is Dim for n in (size, item.start, item.stop)])
        return _symbolic_span(item, axis, size) if symbolic else _span(item, axis, size)
    if isinstance(item, (int, np.integer)):
        return _position(int(item), axis, shape, strict, wrap_negative)
    if type(item) is Dim:
        return _position(item, axis, shape, strict, wrap_negative)
    positions = integers(item)
    if isinstance(positions, np.ndarray):
        return Many(axis, wrapped(positions, size) if wrap_negative else positions)
    return Many(axis, positions, wrap_negative)


def _position(i: int, axis: int, shape: tuple[int, ...], strict: bool, wrap_negative: bool) -> Part:
    size = shape[axis]
    start = i + size if i < 0 and wrap_negative else i
    try:
        inside = 0 <= start < size
    except InconclusiveDimensionOperation:          # a position in an axis of symbolic size
        return Many(axis, convert_element_type(converted(start), np.int32))
    if inside:
        return Fixed(axis, start)
    if strict:
        raise bad("index", f"{i} is out of bounds for axis {axis} with size {size}", given={"array shape": str(shape)},
                  fix=f"use a value from {-size} to {size - 1}, or x.at[...].get(mode='clip')." if size
                  else "the axis is empty.", exc=IndexError)
    return Many(axis, np.asarray(min(max(start, _INT32.min), _INT32.max), np.int32))


def index_dtype(shape: Sequence[int]) -> np.dtype:
    """Integer type of positions in an array of `shape`."""
    return np.dtype(np.int64 if any([is_above(n, _INT32.max) for n in shape]) else np.int32)


def _span(item: slice, axis: int, size: int) -> Span:
    try:
        start, stop, step = item.indices(size)
    except TypeError:
        for name, bound in (("start", item.start), ("stop", item.stop), ("step", item.step)):
            if isinstance(bound, Tracer) or (bound is not None and not hasattr(bound, "__index__")):
                raise _slice_error(name, bound, axis) from None
        raise
    n = len(range(start, stop, step))
    if not n:
        return Span(axis, min(start, size), 0, 1, min(start, size))
    return Span(axis, start, n, step, stop) if step > 0 else Span(axis, start + (n - 1) * step, n, step, start + 1)


def _symbolic_span(item: slice, axis: int, size: Any) -> Span:
    """A slice whose size is symbolic."""
    step = 1 if item.step is None else operator.index(item.step)
    if step == 0:
        raise bad("index", "the step of a slice is 0", {"axis": axis}, "pass a step that is not 0.", exc=ValueError)
    lowest, highest = (0, size) if step > 0 else (-1, size - 1)

    def bound(given: Any, default: Any) -> Any:
        if given is None:
            return default
        given = static_int(given, "bound of a slice", "index")
        return min_dim(max_dim(given + size if given < 0 else given, lowest), highest)

    start = bound(item.start, lowest if step > 0 else highest)
    stop = bound(item.stop, highest if step > 0 else lowest)
    n = max_dim((stop - start + step - (1 if step > 0 else -1)) // step, 0)
    return Span(axis, start, n, step, stop) if step > 0 else Span(axis, start + (n - 1) * step, n, step, start + 1)


def _slice_error(name: str, bound: ArrayLike, axis: int) -> Exception:
    if isinstance(bound, Tracer):
        return bad("index", f"the {name} of a slice must be an integer known while tracing",
                   given={f"{name} (axis {axis})": typeof(bound).str_short() + ", traced"},
                   fix="use lax.dynamic_slice(x, starts, sizes), whose sizes are static.", exc=IndexError)
    return bad("index", f"the {name} of a slice must be an integer", given={name: repr(bound)},
               fix=f"convert it: int({bound!r})." if isinstance(bound, float) else "pass an int or None.")


# -- integer arrays -----------------------------------------------------------------------------------------------

def integers(item: Any) -> ArrayLike:
    """An index that is neither a Python integer nor a slice, as an integer array (NumPy's, if it is known)."""
    if isinstance(item, (list, tuple)):
        item = _array_of(item)
    elif not isinstance(item, (Array, Tracer, np.ndarray)):
        try:
            item = np.asarray(operator.index(item))
        except TypeError:
            item = item if isinstance(item, AnyArray) else _foreign(item)
    aval = item if isinstance(item, np.ndarray) else typeof(item)
    if not dtypes.is_int(aval.dtype):
        raise bad("index", "an index must be an integer, a slice, None, ... or an array of integers or bools",
                  given={"index": f"{aval.dtype.name}{list(aval.shape)}"}, fix="convert with x.astype('int32').")
    return _host_positions(item) if isinstance(item, np.ndarray) else item


def _foreign(item: object) -> np.ndarray:
    """An array of another library, or a NumPy scalar. Raises for everything else, IndexError as NumPy does."""
    if isinstance(item, (str, bytes)):
        raise bad("index", "a string cannot index an array", given={"index": repr(item)},
                  fix="index arrays by position; select a field of a dict or namedtuple first.")
    if not isinstance(item, (float, complex)) and not hasattr(item, "dtype") and not hasattr(item, "__array__"):
        raise bad("index", "an index must be an integer, a slice, None, ... or an array of integers or bools",
                  given={"index": f"{type(item).__name__} {item!r:.60}"}, fix="pass positions: x[numpy.array([...])].",
                  exc=IndexError)
    return np.asarray(item)


def _host_positions(item: np.ndarray) -> np.ndarray:
    """Known positions in the default integer type; too large ones are clipped, and stay out of range of every axis."""
    dtype = dtypes.canonicalize_dtype(np.int64)
    bounds, own = dtypes.iinfo(dtype), dtypes.iinfo(item.dtype)
    if int(own.max) > int(bounds.max):
        low = 0 if dtypes.is_unsigned(item.dtype) else int(bounds.min)
        item = np.asarray(np.clip(item, item.dtype.type(low), item.dtype.type(int(bounds.max))))
    return item.astype(dtype, copy=False)


def _array_of(items: Sequence[Any]) -> np.ndarray:
    try:
        array = np.asarray(items) if len(items) else np.zeros(0, np.int32)
    except ValueError:                                      # rows of different lengths
        array = np.zeros(0, object)
    if array.dtype == object:
        raise bad("index", "a list inside an index must be an array of integers or bools", given={"list": repr(items)},
                  fix="give all rows the same length, or pass numpy.array(...).")
    return array


def wrapped(positions: AnyArray | np.ndarray, size: int, wraps: bool = True) -> ArrayLike:
    """Positions of at least 32 bits, with `size` added to negative ones unless `wraps` is false."""
    if isinstance(positions, np.ndarray):
        if type(size) is Dim and wraps:
            return select_n(positions < 0, positions, add(positions, size_as(size, positions.dtype)))
        return np.where(positions < 0, positions + size, positions).astype(positions.dtype) if wraps else positions
    unsigned = dtypes.is_unsigned(positions.aval.dtype)
    positions = widened(positions)
    if unsigned or not wraps:
        return positions
    dtype = positions.aval.dtype
    negative = lt(positions, _number(0, dtype))
    number = size_as(size, dtype) if type(size) is Dim else _number(size, dtype)
    return select_n(negative, positions, add(positions, number))


def widened(positions: AnyArray) -> AnyArray:
    """Traced positions in a signed type of at least 32 bits: a narrower one cannot hold the sizes of all axes."""
    dtype = positions.aval.dtype
    if dtypes.is_unsigned(dtype) or dtypes.itemsize_bits(dtype) < 32:
        return convert_element_type(positions, dtypes.canonicalize_dtype(np.int64))
    return positions


def resolved(parts: Sequence[Part], shape: tuple[int, ...]) -> list[Part]:
    """The parts with negative positions converted to positions from the start."""
    return [Many(p.axis, wrapped(p.positions, shape[p.axis], p.wraps)) if type(p) is Many else p for p in parts]


def _number(n: int, dtype: np.dtype) -> int | np.generic:
    """A Python number if its dtype is that of the index (it needs no transfer in eager mode), else a NumPy number."""
    return n if dtype == dtypes.canonicalize_dtype(int) else number_of(dtype, n)


# -- positions that change from call to call ----------------------------------------------------------------------

def detached(parts: Sequence[Part], shape: tuple[int, ...]) -> tuple[tuple[Part, ...], list[Any]]:
    """(hashable parts without positions, the positions: integers, starts of slices, index arrays).

    A slice with gaps, or of a whole axis, keeps its start: a program for any start would not be shorter.
    """
    fixed, moving = [], []
    for p in parts:
        if type(p) is Many:
            moving.append(p.positions)
            p = Many(p.axis, None, p.wraps)
        elif type(p) is Fixed:
            moving.append(p.position)
            p = Many(p.axis, None)
        elif type(p) is Span and p.step in (1, -1) and p.size != shape[p.axis]:
            moving.append(p.first)
            p = Span(p.axis, None, p.size, p.step, 0)
        fixed.append(p)
    return tuple(fixed), moving


def attached(parts: Sequence[Part], moving: Sequence[Any]) -> list[Part]:
    """The parts with the positions (traced now) back in their places."""
    positions = iter(moving)
    out: list[Part] = []
    for p in parts:
        if type(p) is Many:
            p = p._replace(positions=next(positions))
        elif type(p) is Span and p.first is None:
            p = p._replace(first=next(positions))
        out.append(p)
    return out


# -- masks and the ellipsis ---------------------------------------------------------------------------------------

def is_mask(item: object) -> bool:
    """Whether an item of an index is a bool or an array (or list) of bools."""
    if isinstance(item, list):
        return bool(item) and _array_of(item).dtype == bool
    return isinstance(item, bool) or getattr(item, "dtype", None) == np.bool_


def is_scalar_mask(item: object) -> bool:
    return is_mask(item) and not np.ndim(item) and not isinstance(item, list)


def known_mask(item: object) -> np.ndarray:
    """The value of a mask. If it is traced, raises NonConcreteBooleanIndexError, which shows alternatives."""
    value = known_value(item)
    if value is None:
        aval = typeof(item)
        raise bad("index", f"a traced boolean mask {aval.str_short()} has no known number of True elements",
                  given={"mask": f"{aval.str_short()} {item.origin()}"},
                  fix="keep the shape: numpy.where(mask, x, 0) to read, x = numpy.where(mask, value, x) to write; or "
                      "give the number: x[numpy.nonzero(mask, size=n)].", exc=NonConcreteBooleanIndexError)
    return np.asarray(value)


def expand_masks(items: Sequence[Any], shape: tuple[int, ...]) -> list[Any]:
    """Items with every mask replaced by the positions of its True elements, one integer array for each axis."""
    out: list[Any] = []
    for item in items:
        if not is_mask(item):
            out.append(item)
            continue
        mask = known_mask(item)
        if mask.ndim:
            _check_mask(mask, items, out, shape)
        out += [positions.astype(np.int32) for positions in np.nonzero(np.atleast_1d(mask))]
    return out


def _check_mask(mask: np.ndarray, items: Sequence[Any], before: Sequence[Any], shape: tuple[int, ...]) -> None:
    dots = next((k for k, item in enumerate(before) if item is Ellipsis), None)
    if dots is None:
        first = sum(map(axes_taken, before))
    else:                                                   # counted from the end
        after = sum(map(axes_taken, items[next(k for k, item in enumerate(items) if item is Ellipsis) + 1:]))
        first = len(shape) - after + sum(map(axes_taken, before[dots + 1:]))
    expected = shape[first:first + mask.ndim]
    # A mask without elements selects nothing from axes of any size.
    if len(expected) != mask.ndim or any(m not in (0, n) for m, n in zip(mask.shape, expected, strict=True)):
        raise bad("index", "a boolean mask must have the shape of the axes that it selects from",
                  given={"mask": f"bool{list(mask.shape)}", "axes": f"{list(expected)} of shape {shape}"},
                  fix="build the mask from the array itself, as in x[x > 0].", exc=IndexError)


def axes_taken(item: object) -> int:
    """Number of axes of the array to which an item of an index applies."""
    if item is None or item is Ellipsis:
        return 0
    return np.ndim(item) if is_mask(item) else 1


def _without_ellipsis(items: Sequence[Any], shape: tuple[int, ...]) -> list[Any]:
    """Items with whole slices in place of the ellipsis or after the last item, so that each axis has an item."""
    ellipses = [k for k, item in enumerate(items) if item is Ellipsis]
    if len(ellipses) > 1:
        raise bad("index", "has more than one ellipsis", fix="write `...` once.", exc=IndexError)
    taken = sum(item is not None and item is not Ellipsis for item in items)
    if taken > len(shape):
        raise bad("index", f"{taken} axes are indexed, but the array has {len(shape)}",
                  given={"array shape": str(shape)}, fix="drop the surplus indices.", exc=IndexError)
    at = ellipses[0] if ellipses else len(items)
    rest = [slice(None)] * (len(shape) - taken)
    return [*items[:at], *rest, *items[at + 1:]]


def check_index(index: object) -> None:
    """Refuse a list as the whole index: NumPy treats it as an array, and older versions treated it as a tuple."""
    if isinstance(index, (list, range)):
        raise bad("index", "a list is ambiguous as an index", given={"index": repr(index)[:80]},
                  fix="write x[numpy.array(index)] for these positions, x[tuple(index)] for one index per axis.",
                  exc=JAXTypeError)


def is_known(part: Part) -> bool:
    return type(part) is not Many and not (type(part) is Span and type(part.first) is not int)
