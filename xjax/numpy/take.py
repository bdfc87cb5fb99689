"""Reading and writing along one axis (take, take_along_axis, put_along_axis, put), and choosing among arrays (choose,
select, piecewise)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.config import DEFAULT_MODE, config, marked
from xjax.core.context import context
from xjax.core.errors import bad
from xjax.core.trace import known_value
from xjax.core.types import ShapedArray, number_of, typeof
from xjax.numpy.index_parts import integers, widened, wrapped
from xjax.numpy.indexing import operands_beside
from xjax.numpy.promote import array_like, broadcast, broadcast_shapes, broadcast_to, cast, check_mixed, promote
from xjax.numpy.selection import choose as choose_between
from xjax.numpy.selection import operand, refuse_out
from xjax.numpy.ufuncs import to_array_like
from xjax.ops.arrange import stack
from xjax.ops.checks import canonical_axis
from xjax.ops.compare import clamp, ne, select_n
from xjax.ops.convert import convert_element_type
from xjax.ops.gather import fill_constant, gather
from xjax.ops.index_numbers import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers
from xjax.ops.reduce import argmax
from xjax.ops.scatter import scatter
from xjax.ops.shape import broadcast_in_dim, reshape, squeeze
from xjax.ops.slice import modulo
from xjax.ops.zeros import full_of, zeros_of
from xjax.runtime.one_launch import one_launch
from xjax.typing import Array, ArrayLike

# -- positions ----------------------------------------------------------------------------------------------------

def _mode(caller: str, mode: str | None) -> Any:
    """The mode of a gather; "wrap" stays a string, since it is applied to the positions."""
    if isinstance(mode, str) and mode == "raise":
        raise bad(caller, "mode='raise' is not supported: a program cannot raise for the values of its arrays",
                  fix="use mode='fill', which gives nan out of range, or 'clip', 'wrap'.", exc=NotImplementedError)
    return "wrap" if isinstance(mode, str) and mode == "wrap" else GatherScatterMode.from_any(mode)


def _indices(caller: str, indices: ArrayLike) -> ArrayLike:
    """An integer array: a NumPy array if it is known."""
    indices = array_like(caller, indices)
    aval = typeof(indices)
    if not dtypes.is_int(aval.dtype):
        raise bad(caller, "the indices must be integers", given={"indices": aval.str_short()},
                  fix="convert them with x.astype('int32'), or use a mask as x[mask].")
    return integers(indices)


def _positions(indices: ArrayLike, size: int, mode: GatherScatterMode | str,
               wraps: bool = True) -> tuple[Any, Any]:
    """Positions along an axis of `size`, and the mode of the gather that reads them."""
    if mode == "wrap":
        return _modulo(indices, size), GatherScatterMode.PROMISE_IN_BOUNDS
    return wrapped(indices, size, wraps), mode


def _modulo(indices: ArrayLike, size: int) -> ArrayLike:
    """Positions modulo `size`, with Python's sign rule."""
    if isinstance(indices, np.ndarray):
        return (indices % max(size, 1)).astype(indices.dtype)
    return modulo(widened(indices), size)


def _flat(x: ArrayLike) -> Array:
    return reshape(x, (typeof(x).size,))


# -- take ---------------------------------------------------------------------------------------------------------

def take(a: ArrayLike, indices: ArrayLike, axis: int | None = None, out: None = None, mode: str | None = None,
         unique_indices: bool = False, indices_are_sorted: bool = False, fill_value: ArrayLike | None = None) -> Array:
    """The slices of `a` at the positions `indices` along an axis (None: of the flattened array).

    Args:
      a: any[...]; indices: int[*m].
      mode: "fill" (default: `fill_value` out of range), "clip", "wrap", "promise_in_bounds". Negative positions
        count from the end, except with "clip".
      unique_indices, indices_are_sorted: promises that allow a faster program.
      fill_value: a Python number; None: nan, the smallest signed or largest unsigned integer.
    Returns: array with the axes of `indices` in place of the axis.

    >>> jnp.take(jnp.array([10., 20., 30.]), jnp.array([2, 0, 7]))
    Array([30., 10., nan], dtype=float32)
    """
    if mode is None and config.check and DEFAULT_MODE not in context.scope:
        with marked(DEFAULT_MODE):
            return take(a, indices, axis, out, mode, unique_indices, indices_are_sorted, fill_value)
    caller = "numpy.take"
    refuse_out(caller, out)
    a = operand(caller, a)
    if axis is None:
        a, axis = a if a.ndim == 1 else _flat(a), 0
    shape = a.shape
    axis = canonical_axis(axis, len(shape), caller)
    indices, mode = _indices(caller, indices), _mode(caller, mode)
    if not shape[axis] and typeof(indices).size and typeof(a).update(shape=_dropped(shape, axis)).size:
        raise bad(caller, "cannot take from an empty axis", given={"a": a}, fix="pass no indices, or another axis.",
                  exc=IndexError)
    a, indices = operands_beside(a, a, indices)
    return _take(a, indices, axis=axis, mode=mode, fill_value=_fill(fill_value, mode, a), flags=(
        bool(unique_indices), bool(indices_are_sorted)))


def _fill(fill_value: ArrayLike | None, mode: GatherScatterMode | str, a: ArrayLike) -> Any:
    return fill_constant(fill_value, a.dtype) if mode is GatherScatterMode.FILL_OR_DROP else None


@one_launch
def _take(a: ArrayLike, indices: ArrayLike, *, axis: int, mode: GatherScatterMode | str, fill_value: ArrayLike | None,
          flags: tuple[bool, bool]) -> Array:
    shape = a.shape
    positions, mode = _positions(indices, shape[axis], mode, mode is not GatherScatterMode.CLIP)
    ndim = np.ndim(positions)
    out_shape = (*shape[:axis], *np.shape(positions), *shape[axis + 1:])
    if not math.prod(out_shape):
        return zeros_of(typeof(a).update(shape=out_shape))      # pyright: ignore[reportReturnType]
    offsets = (*range(axis), *range(axis + ndim, len(out_shape)))
    return gather(a, broadcast_in_dim(positions, (*np.shape(positions), 1), range(ndim)),
                  GatherDimensionNumbers(offsets, (axis,), (axis,)), (*shape[:axis], 1, *shape[axis + 1:]), mode=mode,
                  fill_value=fill_value, unique_indices=flags[0], indices_are_sorted=flags[1])


# -- take_along_axis, put_along_axis ------------------------------------------------------------------------------

def take_along_axis(arr: ArrayLike, indices: ArrayLike, axis: int | None = -1, mode: str | None = None,
                    fill_value: ArrayLike | None = None, *, wrap_negative_indices: bool = True) -> Array:
    """For each row along an axis, the elements at the positions in the same row of `indices`, as those of argsort.

    Args: arr: any[..., n, ...]; indices: int[..., m, ...], broadcast against arr in the other axes (axis None: both
      flat). mode, fill_value: as `take`, but negative positions count from the end with "clip" too.
    Returns: any[..., m, ...].

    >>> jnp.take_along_axis(jnp.array([[3., 1., 2.]]), jnp.array([[1, 2, 0]]), axis=1)
    Array([[1., 2., 3.]], dtype=float32)
    """
    if mode is None and config.check and DEFAULT_MODE not in context.scope:
        with marked(DEFAULT_MODE):
            return take_along_axis(arr, indices, axis, mode, fill_value, wrap_negative_indices=wrap_negative_indices)
    caller = "numpy.take_along_axis"
    arr, indices, axis = _along(caller, arr, indices, axis)
    mode = _mode(caller, mode)
    arr, indices = operands_beside(arr, arr, _indices(caller, indices))
    return _take_along(arr, indices, axis=axis, mode=mode, fill_value=_fill(fill_value, mode, arr),
                       wraps=bool(wrap_negative_indices))


@one_launch
def _take_along(arr: Array, indices: Array, *, axis: int, mode: GatherScatterMode, fill_value: ArrayLike | None,
                wraps: bool) -> Array:
    positions, mode = _positions(indices, arr.shape[axis], mode, wraps)
    if not positions.size:
        return zeros_of(typeof(arr).update(shape=np.shape(positions)))      # pyright: ignore[reportReturnType]
    others = tuple(d for d in range(arr.ndim) if d != axis)
    numbers = GatherDimensionNumbers((), (axis,), (axis,), others, others)
    return gather(arr, _as_vectors(positions), numbers, (1,) * arr.ndim, mode=mode, fill_value=fill_value)


def _along(caller: str, arr: ArrayLike, indices: ArrayLike, axis: int | None) -> tuple[Any, Any, int]:
    """Array and indices of one rank, equal in all axes but `axis`."""
    arr, indices = operand(caller, arr), array_like(caller, indices)
    if axis is None:
        arr, axis = _flat(arr), 0
        indices = _flat(operand(caller, indices))
    ndim, aval = arr.ndim, typeof(indices)
    axis = canonical_axis(axis, ndim, caller)
    if aval.ndim != ndim:
        raise bad(caller, "array and indices differ in rank", given={"arr": arr, "indices": aval.str_short()},
                  fix="add axes of size 1 to the indices.", exc=ValueError)
    others = broadcast_shapes(_dropped(arr.shape, axis), _dropped(aval.shape, axis))
    arr = broadcast_to(arr, (*others[:axis], arr.shape[axis], *others[axis:]))
    return arr, broadcast_to(indices, (*others[:axis], aval.shape[axis], *others[axis:])), axis


def _dropped(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1:]


def _as_vectors(positions: Array) -> Array:
    """Positions with a last axis for the only component of an index vector."""
    if isinstance(positions, np.ndarray):
        return positions[..., None]
    return reshape(positions, (*positions.shape, 1))


def refuse_inplace(caller: str, inplace: bool) -> None:
    """Raise for inplace=True, the only behaviour of NumPy."""
    if inplace:
        raise bad(caller, "arrays are immutable: it cannot work in place", exc=ValueError,
                  fix="pass inplace=False and use the array that it returns.")


def put_along_axis(arr: ArrayLike, indices: ArrayLike, values: ArrayLike, axis: int | None, inplace: bool = True, *,
                   mode: str | None = None) -> Array:
    """`arr` with `values` written, in each row along an axis, at the positions in that row of `indices`.

    Args: arr: any[..., n, ...]; indices: int[..., m, ...]; values: broadcast to the shape of indices. inplace: must be
      False. mode: for positions out of range: None drops them, "clip" clamps them, "wrap" takes them modulo n.
    Returns: array of the shape and dtype of arr.
    """
    if mode is None and config.check and DEFAULT_MODE not in context.scope:
        with marked(DEFAULT_MODE):
            return put_along_axis(arr, indices, values, axis, inplace, mode=mode)
    caller = "numpy.put_along_axis"
    refuse_inplace(caller, inplace)
    arr = operand(caller, arr)
    original = arr.shape
    if axis is None:
        arr, indices, axis = _flat(arr), _flat(operand(caller, indices)), 0
    axis = canonical_axis(axis, arr.ndim, caller)
    aval = typeof(indices)
    if aval.ndim != arr.ndim:
        raise bad(caller, "array and indices differ in rank", given={"arr": arr, "indices": aval.str_short()},
                  fix="add axes of size 1 to the indices.", exc=ValueError)
    indices = broadcast_to(indices, tuple(m if d == axis else n for d, (n, m) in
                                          enumerate(zip(arr.shape, aval.shape, strict=True))))
    positions, mode = _positions(_indices(caller, indices), arr.shape[axis], _mode(caller, mode))
    values = array_like(caller, values)
    check_mixed(caller, arr, values)
    updates = broadcast_to(cast(caller, values, arr.dtype), np.shape(positions))
    others = tuple(d for d in range(arr.ndim) if d != axis)
    numbers = ScatterDimensionNumbers((), (axis,), (axis,), others, others)
    return reshape(scatter(arr, _as_vectors(positions), updates, numbers, mode=mode), original)


def put(a: ArrayLike, ind: ArrayLike, v: ArrayLike, mode: str | None = None, *, inplace: bool = True) -> Array:
    """`a` with the values `v` (repeated as needed) at positions of the flattened array; needs inplace=False.

    Args: mode: "clip", "wrap" as in `take`; None is "clip" too, but negative positions count from the end.
    """
    caller = "numpy.put"
    refuse_inplace(caller, inplace)
    a = to_array_like(caller, a)
    if mode not in (None, "wrap", "clip", "raise"):
        raise bad(caller, f"there is no mode {mode!r}",
                  fix="use 'clip', 'wrap' or None, or a.at[positions].set(values).", exc=ValueError)
    positions, mode = _positions(_indices(caller, ind), typeof(a).size, _mode(caller, mode or "clip"), mode is None)
    check_mixed(caller, a, v)
    values = _flat(cast(caller, operand(caller, v), a.dtype))
    count = int(np.prod(np.shape(positions), dtype=np.int64))
    if not count or not values.size:
        return a
    values = take(values, np.arange(count) % values.size, mode="promise_in_bounds")
    vectors = reshape(positions, (count, 1))
    out = scatter(_flat(a), vectors, values, ScatterDimensionNumbers((), (0,), (0,)), mode=mode)
    return reshape(out, a.shape)


# -- choose, select, piecewise ------------------------------------------------------------------------------------

def choose(a: ArrayLike, choices: Sequence[Any], out: None = None, mode: str = "raise") -> Array:
    """At each position, the element of `choices[a]` there.

    Args: a: int[...]; choices: arrays that broadcast with a. mode: "raise" (needs a known `a`), "wrap" or "clip".

    >>> jnp.choose(jnp.array([0, 1, 0]), [jnp.array([1, 2, 3]), jnp.array([10, 20, 30])])
    Array([ 1, 20,  3], dtype=int32)
    """
    caller = "numpy.choose"
    refuse_out(caller, out)
    a = operand(caller, a)
    if not dtypes.is_int(a.dtype):
        raise bad(caller, "`a` must be integers", given={"a": a}, fix="convert it with a.astype('int32').",
                  exc=ValueError)
    choices = promote(caller, *choices)
    a = integers(a)
    if mode == "wrap":
        a = _modulo(a, len(choices))
    elif mode == "clip":
        a = clamp(number_of(a.dtype, 0), a, number_of(a.dtype, len(choices) - 1))
    elif mode == "raise":
        _check_known(caller, a, len(choices))
    else:
        raise bad(caller, f"unknown mode {mode!r}", fix="use 'raise', 'wrap' or 'clip'.", exc=ValueError)
    a, *choices = broadcast(caller, a, *choices)
    picked = take_along_axis(stack(choices, 0), reshape(a, (1, *a.shape)), 0, mode="promise_in_bounds")
    return squeeze(picked, (0,))


def _check_known(caller: str, a: ArrayLike, count: int) -> None:
    value = known_value(a)
    if value is None:
        raise bad(caller, "mode='raise' needs a known `a`, but it is traced", given={"a": a},
                  fix="pass mode='wrap' or mode='clip'.")
    if value.size and not 0 <= int(np.min(np.asarray(value))) <= int(np.max(np.asarray(value))) < count:
        raise bad(caller, f"`a` selects outside of the {count} choices", fix="pass mode='wrap' or mode='clip'.",
                  exc=ValueError)


def select(condlist: Sequence[ArrayLike], choicelist: Sequence[ArrayLike], default: ArrayLike = 0) -> Array:
    """At each position, the element of the first choice whose condition is true there, else `default`.

    Args: condlist: bool arrays; choicelist: as many arrays. All broadcast together.
    Raises: ValueError if the lists are empty or differ in length.
    """
    caller = "numpy.select"
    if not condlist or len(condlist) != len(choicelist):
        raise bad(caller, "needs as many conditions as choices, and at least one",
                  given={"conditions": str(len(condlist)), "choices": str(len(choicelist))},
                  fix="pass two lists of one length.", exc=ValueError)
    conditions = [operand(caller, c) for c in condlist]
    conditions = [c if dtypes.is_bool(c.dtype) else ne(c, 0) for c in conditions]
    default, *choices = promote(caller, default, *choicelist)
    shape = broadcast_shapes(*[np.shape(x) for x in (*conditions, *choices, default)])
    conditions = [broadcast_to(c, shape) for c in conditions]
    never = full_of(ShapedArray(shape, np.dtype(bool)), False)
    first = argmax(stack([never, *conditions], 0), 0, np.int32)
    return select_n(first, broadcast_to(default, shape), *[broadcast_to(c, shape) for c in choices])


def piecewise(x: ArrayLike, condlist: Any, funclist: Sequence[Any], *args: Any,
              **kw: Any) -> Array:
    """`funclist[i](x)`, or the number `funclist[i]`, where `condlist[i]` is true.

    If several conditions are true, the last one counts. If none is true, the result is that of an extra function, or 0.

    Args: x: any[...]; condlist: bool arrays that broadcast with x. *args, **kw are passed on to the functions.
    Returns: array of the shape and dtype of x.
    Raises: ValueError unless there are as many functions as conditions, or one more.
    """
    caller = "numpy.piecewise"
    x = operand(caller, x)
    if not isinstance(condlist, (list, tuple)):
        condlist = [condlist[i] for i in range(condlist.shape[0])] if np.ndim(condlist) > x.ndim or (
            np.ndim(condlist) and x.ndim == 0) else [condlist]
    if len(funclist) not in (len(condlist), len(condlist) + 1):
        raise bad(caller, "needs a function for each condition, and at most one more",
                  given={"conditions": str(len(condlist)), "functions": str(len(funclist))},
                  fix="pass len(condlist) or len(condlist) + 1 functions.", exc=ValueError)

    def branch(f: Callable | complex) -> Array:
        return broadcast_to(cast(caller, array_like(caller, f(x, *args, **kw) if callable(f) else f), x.dtype), x.shape)

    out = branch(funclist[-1] if len(funclist) > len(condlist) else 0)
    for condition, f in zip(condlist, funclist, strict=False):
        out = choose_between(condition, branch(f), out, caller)
    return convert_element_type(out, x.dtype, typeof(x).weak_type)
