"""Functions that rearrange one array: shapes, order of axes, flips, rolls, repetition."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np

from xjax.core import dtypes
from xjax.core.calls import constrained
from xjax.core.errors import ConcretizationTypeError, bad
from xjax.core.trace import Tracer
from xjax.numpy.composed import remainder
from xjax.numpy.creation import as_shape, asarray
from xjax.numpy.ufuncs import subtract, to_array_like
from xjax.ops import shape as axes_ops
from xjax.ops.arrange import concatenate, iota, rev
from xjax.ops.arrange import tile as lax_tile
from xjax.ops.arrange import unstack as lax_unstack
from xjax.ops.checks import canonical_axes, canonical_axis, is_single, static_int
from xjax.ops.compare import ge
from xjax.ops.convert import convert_element_type
from xjax.ops.cumulative import cumsum
from xjax.ops.gather import gather
from xjax.ops.index_numbers import GatherDimensionNumbers, GatherScatterMode
from xjax.ops.piecewise import min
from xjax.ops.shape import broadcast_in_dim
from xjax.ops.slice import dynamic_slice_in_dim, slice_in_dim
from xjax.runtime.one_launch import one_launch
from xjax.typing import Array, ArrayLike, ShapeLike

# -- shape --------------------------------------------------------------------------------------------------------

def reshape(a: ArrayLike, shape: ShapeLike, order: str = "C", *, copy: bool | None = None,
            out_sharding: object = None) -> Array:
    """`a` in another shape of the same size; one size may be -1: it follows from the others.

    Args: order: "C" reads and writes rows first, "F" columns first.
    Raises: TypeError if the sizes do not fit, or for more than one -1.

    >>> reshape(np.arange(6), (2, -1)).shape
    (2, 3)
    """
    if out_sharding is not None:
        return constrained("numpy.reshape", reshape(a, shape, order, copy=copy), out_sharding)
    caller = "numpy.reshape"
    a = to_array_like(caller, a)
    sizes = _complete_shape(caller, a, shape)
    if order == "F":
        reverse = tuple(range(a.ndim))[::-1]
        flat = axes_ops.reshape(axes_ops.transpose(a, reverse), sizes[::-1])
        return axes_ops.transpose(flat, tuple(range(len(sizes)))[::-1])
    if order != "C":
        raise bad(caller, f"order {order!r} is not supported", fix="pass 'C' or 'F'.", exc=NotImplementedError)
    return axes_ops.reshape(a, sizes)


def _complete_shape(caller: str, a: Array, shape: ShapeLike) -> tuple[int, ...]:
    given = shape if isinstance(shape, (tuple, list)) else tuple(shape) if np.ndim(shape) else (shape,)
    sizes = [n if type(n) is int else static_int(n, "shape", caller) for n in given]
    if sizes.count(-1) > 1:
        raise bad(caller, "only one size can be -1", given={"shape": str(tuple(sizes))}, fix="give the other sizes.")
    if -1 in sizes:
        known = math.prod(n for n in sizes if n != -1)
        if known and a.size % known == 0:
            sizes[sizes.index(-1)] = a.size // known
        elif not known:
            sizes[sizes.index(-1)] = 0
    if math.prod(sizes) != a.size:
        raise bad(caller, f"cannot turn {a.size} elements into shape {tuple(sizes)}", given={"a": a.aval},
                  fix=f"choose sizes whose product is {a.size}.")
    return tuple(sizes)


@one_launch
def ravel(a: ArrayLike, order: str = "C", *, out_sharding: object = None) -> Array:
    """All elements of `a` as a vector."""
    if out_sharding is not None:
        return constrained("numpy.ravel", ravel(a, order), out_sharding)
    a = to_array_like("numpy.ravel", a)
    if order == "F":
        return reshape(a, (a.size,), order)
    if order not in ("C", "K", "A"):
        raise bad("numpy.ravel", f"unknown order {order!r}", fix="pass 'C', 'F', 'A' or 'K'.", exc=ValueError)
    aval = a.aval
    return a if len(aval.shape) == 1 else axes_ops.reshape_p.bind(a, new_sizes=(aval.size,), dimensions=None)


def expand_dims(a: ArrayLike, axis: int | Sequence[int]) -> Array:
    """`a` with axes of size 1 inserted at the positions `axis` of the result."""
    caller = "numpy.expand_dims"
    a = to_array_like(caller, a)
    axis = _tuple(axis)
    return axes_ops.expand_dims(a, canonical_axes(axis, a.ndim + len(axis), caller))


def squeeze(a: ArrayLike, axis: int | Sequence[int] | None = None) -> Array:
    """`a` without the given axes, which must have size 1; by default without all such axes.

    Raises: ValueError if an axis has another size.
    """
    caller = "numpy.squeeze"
    a = to_array_like(caller, a)
    axes = [d for d, n in enumerate(a.shape) if n == 1] if axis is None else canonical_axes(axis, a.ndim, caller)
    return axes_ops.squeeze(a, axes)


@overload
def atleast_1d(ary: ArrayLike, /) -> Array: ...
@overload
def atleast_1d(*arys: ArrayLike) -> tuple[Array, ...]: ...


def atleast_1d(*arys: ArrayLike) -> Array | tuple[Array, ...]:
    """The arguments with at least 1 axis; a tuple of them if there are several."""
    return _at_least("numpy.atleast_1d", arys, lambda x: axes_ops.reshape(x, (1,)) if not x.ndim else x)


@overload
def atleast_2d(ary: ArrayLike, /) -> Array: ...
@overload
def atleast_2d(*arys: ArrayLike) -> tuple[Array, ...]: ...


def atleast_2d(*arys: ArrayLike) -> Array | tuple[Array, ...]:
    """The arguments with at least 2 axes, new ones in front; a tuple of them if there are several."""
    return _at_least("numpy.atleast_2d", arys,
                     lambda x: axes_ops.expand_dims(x, range(2 - x.ndim)) if x.ndim < 2 else x)


@overload
def atleast_3d(ary: ArrayLike, /) -> Array: ...
@overload
def atleast_3d(*arys: ArrayLike) -> tuple[Array, ...]: ...


def atleast_3d(*arys: ArrayLike) -> Array | tuple[Array, ...]:
    """The arguments with at least 3 axes (a vector gets one before and one after its own); a tuple if several."""
    new_axes = {0: (0, 1, 2), 1: (0, 2), 2: (2,)}
    return _at_least("numpy.atleast_3d", arys, lambda x: axes_ops.expand_dims(x, new_axes.get(x.ndim, ())))


def _at_least(caller: str, arys: Sequence[ArrayLike], f: Callable[[Array], Array]) -> Array | tuple[Array, ...]:
    if len(arys) == 1 and isinstance(arys[0], (list, tuple)):
        raise bad(caller, "requires arrays or numbers, got a list", fix="pass the arrays as separate arguments.")
    out = tuple([f(to_array_like(caller, x)) for x in arys])
    return out[0] if len(out) == 1 else out


@one_launch
def resize(a: ArrayLike, new_shape: ShapeLike) -> Array:
    """The elements of `a`, repeated or truncated to fill `new_shape`."""
    caller = "numpy.resize"
    a, sizes = ravel(a), as_shape(new_shape, caller)
    size = math.prod(sizes)
    if not a.size or not size:
        return broadcast_in_dim(np.zeros((), a.dtype)[()], sizes, ())
    flat = slice_in_dim(lax_tile(a, (-(-size // a.size),)), 0, size)
    return axes_ops.reshape(flat, sizes)


# -- order of axes ------------------------------------------------------------------------------------------------

def transpose(a: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """`a` with its axes in a new order: reversed, or axis ``axes[i]`` at position i.

    Raises: TypeError if `axes` is not a permutation; ValueError for an axis that `a` does not have.
    """
    caller = "numpy.transpose"
    a = to_array_like(caller, a)
    if axes is None:
        return axes_ops.transpose(a, tuple(range(a.ndim))[::-1])
    order = tuple(canonical_axis(d, a.ndim, caller, "axes") for d in axes)
    if sorted(order) != list(range(a.ndim)):
        raise bad(caller, "`axes` must name every axis once", given={"a": a.aval, "axes": str(tuple(axes))},
                  fix=f"pass a permutation of {tuple(range(a.ndim))}.")
    return axes_ops.transpose(a, order)


def permute_dims(a: ArrayLike, /, axes: Sequence[int]) -> Array:
    """`transpose` with `axes` given."""
    return transpose(a, axes)


def matrix_transpose(x: ArrayLike, /) -> Array:
    """`x` with the last two axes exchanged."""
    x = to_array_like("numpy.matrix_transpose", x)
    if x.ndim < 2:
        raise bad("numpy.matrix_transpose", "needs at least 2 axes", given={"x": x.aval}, fix="use x[:, None].",
                  exc=ValueError)
    return swapaxes(x, -1, -2)


@one_launch
def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """`a` with two axes exchanged."""
    caller = "numpy.swapaxes"
    a = to_array_like(caller, a)
    i, j = canonical_axis(axis1, a.ndim, caller, "axis1"), canonical_axis(axis2, a.ndim, caller, "axis2")
    order = list(range(a.ndim))
    order[i], order[j] = j, i
    return axes_ops.transpose(a, order)


@one_launch
def moveaxis(a: ArrayLike, source: int | Sequence[int], destination: int | Sequence[int]) -> Array:
    """`a` with the axes `source` moved to the positions `destination`, the others in order.

    >>> moveaxis(np.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    caller = "numpy.moveaxis"
    a = to_array_like(caller, a)
    source = canonical_axes(_tuple(source), a.ndim, caller, "source")
    destination = canonical_axes(_tuple(destination), a.ndim, caller, "destination")
    if len(source) != len(destination):
        raise bad(caller, "`source` and `destination` differ in length",
                  given={"source": str(source), "destination": str(destination)}, fix="give one position per axis.",
                  exc=ValueError)
    order = [d for d in range(a.ndim) if d not in source]
    for position, d in sorted(zip(destination, source, strict=True)):
        order.insert(position, d)
    return axes_ops.transpose(a, order)


def _tuple(axes: Any) -> tuple[int, ...]:
    return (axes,) if is_single(axes) else tuple(axes)


@one_launch
def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Array:
    """`a` with one axis moved before the axis `start`."""
    caller = "numpy.rollaxis"
    a = to_array_like(caller, a)
    axis = canonical_axis(axis, a.ndim, caller)
    start = a.ndim if start == a.ndim else canonical_axis(start, a.ndim, caller, "start")
    return moveaxis(a, axis, start - (start > axis))


# -- flips, rolls -------------------------------------------------------------------------------------------------

@one_launch
def flip(m: ArrayLike, axis: int | Sequence[int] | None = None) -> Array:
    """`m` with the elements along the given axes (default: all) in reverse order."""
    caller = "numpy.flip"
    m = to_array_like(caller, m)
    return rev(m, canonical_axes(axis, m.ndim, caller))


@one_launch
def fliplr(m: ArrayLike) -> Array:
    """`m` with columns reversed; it needs at least 2 axes."""
    return flip(m, 1)


@one_launch
def flipud(m: ArrayLike) -> Array:
    """`m` with rows reversed."""
    return flip(m, 0)


@one_launch
def rot90(m: ArrayLike, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """`m` rotated k times by 90 degrees in the plane of two axes, from the first toward the second."""
    caller = "numpy.rot90"
    m = to_array_like(caller, m)
    i, j = canonical_axes(tuple(axes), m.ndim, caller, "axes")
    k = static_int(k, "k", caller) % 4
    if k == 2:
        return flip(m, (i, j))
    if k == 1:
        return swapaxes(flip(m, j), i, j)
    return flip(swapaxes(m, i, j), j) if k == 3 else m


@one_launch
def roll(a: ArrayLike, shift: ArrayLike | Sequence[ArrayLike], axis: int | Sequence[int] | None = None) -> Array:
    """`a` shifted along axes (default: flattened); elements shifted past one end reappear at the other.

    Args: shift: int, or one for each axis, in a tuple or an array; traced values are accepted.
    """
    caller = "numpy.roll"
    a = to_array_like(caller, a)
    if axis is None:
        return reshape(roll(ravel(a), shift, 0), a.shape)
    axes = [canonical_axis(d, a.ndim, caller) for d in _tuple(axis)]
    shifts = _each_shift(shift)
    if len(axes) != len(shifts) and 1 not in (len(axes), len(shifts)):
        raise bad(caller, "`shift` and `axis` differ in length", given={"shift": str(shift), "axis": str(axis)},
                  fix="give one shift per axis.", exc=ValueError)
    n = max(len(axes), len(shifts))
    for s, d in zip(shifts * (n // len(shifts)), axes * (n // len(axes)), strict=True):
        a = _roll_one(a, s, d)
    return a


def _each_shift(shift: ArrayLike | Sequence[ArrayLike]) -> list[Any]:
    if isinstance(shift, (tuple, list)):
        return list(shift)
    if not np.ndim(shift):
        return [shift]
    return list(unstack(shift) if isinstance(shift, Tracer) else np.asarray(shift))


def _roll_one(a: Array, shift: ArrayLike, axis: int) -> Array:
    size = a.shape[axis]
    if not size:
        return a
    if isinstance(shift, Tracer):
        twice = concatenate([a, a], axis)
        # A narrow type holds neither the size nor, if it is unsigned, a negative shift.
        wide = shift if dtypes.itemsize_bits(shift.dtype) >= 32 else convert_element_type(shift, np.int32)
        return dynamic_slice_in_dim(twice, subtract(size, remainder(wide, size)), size, axis)
    head = -static_int(shift, "shift", "numpy.roll") % size
    if not head:
        return a
    return concatenate([slice_in_dim(a, head, size, axis=axis), slice_in_dim(a, 0, head, axis=axis)], axis)


# -- repetition ---------------------------------------------------------------------------------------------------

@one_launch
def tile(A: ArrayLike, reps: int | Sequence[int]) -> Array:
    """`A` repeated `reps[i]` times along axis i; missing axes are added in front."""
    caller = "numpy.tile"
    A = to_array_like(caller, A)
    reps = tuple(static_int(n, "reps", caller) for n in _tuple(reps))
    rank = max(len(reps), A.ndim)
    A = axes_ops.expand_dims(A, range(rank - A.ndim))
    return lax_tile(A, (1,) * (rank - len(reps)) + reps)


def repeat(a: ArrayLike, repeats: ArrayLike, axis: int | None = None, *,
           total_repeat_length: int | None = None, out_sharding: object = None) -> Array:
    """`a` with each element repeated along an axis (default: flattened).

    Args:
      repeats: one number for all elements, or one for each along the axis.
      total_repeat_length: size of the result's axis, needed if `repeats` is traced: longer results are truncated,
        shorter ones are filled with the last element.
    """
    if out_sharding is not None:
        y = repeat(a, repeats, axis, total_repeat_length=total_repeat_length)
        return constrained("numpy.repeat", y, out_sharding)
    caller = "numpy.repeat"
    a = to_array_like(caller, a)
    if axis is None:
        a, axis = ravel(a), 0
    if not a.ndim:
        a = axes_ops.reshape(a, (1,))
    axis = canonical_axis(axis, a.ndim, caller)
    if not np.ndim(repeats) and total_repeat_length is None and not isinstance(repeats, Tracer):
        return _repeat_all(a, static_int(repeats, "repeats", caller), axis)
    size = a.shape[axis]
    if isinstance(repeats, Tracer) or total_repeat_length is not None:
        if total_repeat_length is None:
            raise bad(caller, "`repeats` is traced, so the size of the result is unknown",
                      fix="pass total_repeat_length=n.", exc=ConcretizationTypeError)
        return _repeat_to(a, asarray(repeats), axis, static_int(total_repeat_length, "total_repeat_length", caller))
    counts = np.asarray(repeats)
    if counts.shape not in ((), (1,), (size,)):
        raise bad(caller, "`repeats` must be one number, or one for each element along the axis",
                  given={"a": a.aval, "axis": axis, "repeats": str(counts.shape)}, fix=f"pass {size} numbers.",
                  exc=ValueError)
    counts = np.broadcast_to(counts, (size,))
    return take_slices(a, asarray(np.repeat(np.arange(size, dtype=np.int32), counts)), axis)


def _repeat_all(a: Array, n: int, axis: int) -> Array:
    shape = (*a.shape[:axis + 1], n, *a.shape[axis + 1:])
    kept = [d for d in range(len(shape)) if d != axis + 1]
    return axes_ops.reshape(broadcast_in_dim(a, shape, kept),
                            (*a.shape[:axis], a.shape[axis] * n, *a.shape[axis + 1:]))


def _repeat_to(a: Array, repeats: Array, axis: int, length: int) -> Array:
    """Element i of the result is in the run of the element whose index is the number of runs that end before i."""
    size = a.shape[axis]
    counts = broadcast_in_dim(repeats, (size,), range(repeats.ndim))
    ends = cumsum(convert_element_type(counts, np.int32))
    position = iota(np.int32, length)
    ended = ge(axes_ops.expand_dims(position, (1,)), axes_ops.expand_dims(ends, (0,)))
    index = axes_ops.reduce_sum(convert_element_type(ended, np.int32), (1,))
    return take_slices(a, min(index, np.int32(size - 1)), axis)


def take_slices(a: ArrayLike, index: Array | np.ndarray, axis: int) -> Array:
    """Slices of `a` at int32[n] positions along an axis; the positions must be in range."""
    if not index.shape[0]:
        return slice_in_dim(a, 0, 0, axis=axis)         # a gather cannot read an empty axis
    window = list(a.shape)
    window[axis] = 1
    offset = tuple(d for d in range(a.ndim) if d != axis)
    numbers = GatherDimensionNumbers(offset_dims=offset, collapsed_slice_dims=(axis,), start_index_map=(axis,))
    return gather(a, axes_ops.expand_dims(index, (1,)), numbers, window, mode=GatherScatterMode.PROMISE_IN_BOUNDS)


def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Any, ...]:
    """The slices of `x` along an axis, which is dropped."""
    x = to_array_like("numpy.unstack", x)
    if not x.ndim:
        raise bad("numpy.unstack", "a 0-d array has no axis to unstack", given={"x": x.aval},
                  fix="pass an array with at least 1 axis.", exc=ValueError)
    return tuple(lax_unstack(x, axis))


def trim_zeros(filt: ArrayLike, trim: str = "fb", axis: int | Sequence[int] | None = None) -> Array:
    """`filt` without the zeros at the front ("f") and back ("b") of each axis, by default of all axes.

    Not under jit, since the size depends on values.
    """
    caller = "numpy.trim_zeros"
    filt = to_array_like(caller, filt)
    if isinstance(filt, Tracer):
        raise bad(caller, "the size of the result depends on traced values", given={"filt": filt.aval},
                  fix="call it outside the transformed function.", exc=ConcretizationTypeError)
    nonzero, trim = np.nonzero(np.asarray(filt)), trim.lower()
    out = filt
    for d in canonical_axes(axis, filt.ndim, caller):
        n, places = filt.shape[d], nonzero[d]
        start = (int(places.min()) if places.size else n) if "f" in trim else 0
        stop = (int(places.max()) + 1 if places.size else start) if "b" in trim else n
        out = slice_in_dim(out, start, stop, axis=d)
    return out
