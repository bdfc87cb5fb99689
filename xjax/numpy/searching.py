"""Functions that find elements: where, nonzero, searchsorted, digitize; and comparison of whole arrays."""

from __future__ import annotations

from typing import Any, overload

import numpy as np

from xjax.core import dtypes
from xjax.core.errors import ConcretizationTypeError, bad
from xjax.core.symbolic.dims import is_above
from xjax.core.trace import Tracer
from xjax.numpy.composed import floor_divide, remainder
from xjax.numpy.creation import asarray, full
from xjax.numpy.manipulate import take_slices
from xjax.numpy.promote import broadcast_shapes, default_int, expand_to, promote, shape_of
from xjax.numpy.reductions import all as all_true
from xjax.numpy.rounding import isclose, isnan, truth
from xjax.numpy.selection import choose
from xjax.numpy.ufuncs import equal, to_array_like
from xjax.ops.arrange import iota, rev, stack
from xjax.ops.bitwise import bitwise_and, bitwise_not, bitwise_or, shift_right_logical
from xjax.ops.compare import ge, le, lt, ne, select
from xjax.ops.convert import convert_element_type
from xjax.ops.cumulative import cumsum
from xjax.ops.elementwise import add, sub
from xjax.ops.piecewise import min as lax_min
from xjax.ops.shape import broadcast_in_dim, reshape
from xjax.ops.slice import index_in_dim
from xjax.runtime.arrays.array import from_numpy
from xjax.runtime.one_launch import one_launch
from xjax.runtime.placement.places import place_with
from xjax.typing import Array, ArrayLike, DTypeLike

# -- where, nonzero -----------------------------------------------------------------------------------------------

@overload
def where(condition: ArrayLike, x: ArrayLike, y: ArrayLike, /, *, size: None = None,
          fill_value: None = None) -> Array: ...
@overload
def where(condition: ArrayLike, x: None = None, y: None = None, /, *, size: int | None = None,
          fill_value: ArrayLike | None = None) -> tuple[Array, ...]: ...


@one_launch(arrays=3)
def where(condition: ArrayLike, x: ArrayLike | None = None, y: ArrayLike | None = None, /, *, size: int | None = None,
          fill_value: ArrayLike | None = None) -> Array | tuple[Array, ...]:
    """`x` where the condition is true, else `y`, all broadcast together; ``where(condition)`` is `nonzero`.

    Args: condition: bool[...] (numbers are true where not 0);  x, y: arrays, promoted to one dtype.
    The derivative of the branch that is not taken is multiplied by 0, which gives nan if it is infinite. To avoid
    that, replace the argument of the branch by an inner `where`.

    >>> where(np.array([True, False]), 1.0, 0.0)
    Array([1., 0.], dtype=float32, weak_type=True)
    """
    if x is None and y is None:
        return nonzero(condition, size=size, fill_value=fill_value)
    if x is None or y is None:
        raise bad("numpy.where", "needs both `x` and `y`, or neither", fix="pass where(condition, x, y).")
    if size is not None or fill_value is not None:
        raise bad("numpy.where", "`size` and `fill_value` are for where(condition) only", fix="leave them out.",
                  exc=ValueError)
    return choose(condition, x, y)


def nonzero(a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None) -> tuple[Array, ...]:
    """Indices of the elements that are not 0, as one vector for each axis.

    Args:
      size: number of indices to return, needed under jit: further ones are dropped, missing ones are `fill_value`
        (0 by default; a number, or one for each axis).
    Raises: ConcretizationTypeError for a traced `a` without `size`.
    """
    caller = "numpy.nonzero"
    a = to_array_like(caller, a)
    if not a.ndim:
        raise bad(caller, "a 0-d array has no indices", given={"a": a.aval}, fix="use atleast_1d(a).", exc=ValueError)
    if size is None:
        if isinstance(a, Tracer):
            raise bad(caller, "the number of indices depends on traced values", given={"a": a.aval},
                      fix="pass size=n, the largest number there can be; or use where(condition, x, y).",
                      exc=ConcretizationTypeError)
        place = place_with(caller, [a])
        return tuple(from_numpy(i.astype(default_int()), place) for i in np.nonzero(np.asarray(a)))
    return _nonzero_of_size(a, int(size), fill_value)


def _nonzero_of_size(a: Array, size: int, fill_value: ArrayLike | None) -> tuple[Any, ...]:
    dtype = default_int()
    fills = fill_value if isinstance(fill_value, (tuple, list)) else [0 if fill_value is None else fill_value] * a.ndim
    if not a.size or not size:
        return tuple(full((size,), asarray(f, dtype)) for f in fills)
    hit = truth(reshape(a, (a.size,)))
    count = cumsum(convert_element_type(hit, dtype))
    if size * a.size.bit_length() < a.size:
        # The k-th hit is the first position with more than k hits up to it.
        flat = binary_search(count, add(iota(dtype, size), dtype.type(1)), "left", a.size)
    else:
        place = choose(hit, sub(count, dtype.type(1)), dtype.type(size))        # beyond the end: dropped
        flat = full((size,), a.size, dtype).at[place].set(iota(dtype, a.size), mode="drop")
    exists = lt(flat, dtype.type(a.size))
    out, stride = [], a.size
    for n, f in zip(a.shape, fills, strict=True):
        stride //= n
        index = remainder(floor_divide(flat, dtype.type(stride)), dtype.type(n))
        out.append(choose(exists, index, asarray(f, dtype)))
    return tuple(out)


def flatnonzero(a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None) -> Array:
    """Indices, in the flattened array, of the elements that are not 0; `size` as for `nonzero`."""
    a = to_array_like("numpy.flatnonzero", a)
    return nonzero(reshape(a, (a.size,)), size=size, fill_value=fill_value)[0]


def argwhere(a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None) -> Array:
    """Indices of the elements that are not 0, as rows of int[n, ndim]; `size` as for `nonzero`."""
    a = to_array_like("numpy.argwhere", a)
    if not a.ndim:
        n = size if size is not None else int(bool(np.asarray(a)))
        return full((n, 0), 0, default_int())
    return stack(nonzero(a, size=size, fill_value=fill_value), 1)


# -- sorted arrays ------------------------------------------------------------------------------------------------

def binary_search(a: ArrayLike, v: ArrayLike, side: str, n: int, dtype: DTypeLike | None = None) -> Array:
    """Positions at which each v[k] would be inserted into the sorted a[n], nan last: a binary search for all at once.

    Positions have the given dtype, or the default integer dtype.
    """
    dtype = default_int() if dtype is None else dtype
    low, high = broadcast_in_dim(dtype.type(0), v.shape, ()), broadcast_in_dim(dtype.type(n), v.shape, ())
    for _ in range(n.bit_length()):
        middle = shift_right_logical(add(low, high), dtype.type(1))
        item = take_slices(a, lax_min(middle, dtype.type(n - 1)), 0)
        if side == "left":
            before = bitwise_or(lt(item, v), bitwise_and(ne(v, v), bitwise_not(ne(item, item))))
        else:
            before = bitwise_or(le(item, v), ne(v, v))
        before = bitwise_and(before, lt(low, high))
        low, high = select(before, add(middle, dtype.type(1)), low), select(before, high, middle)
    return low


def _position_dtype(n: int) -> np.dtype:
    """The dtype of positions in n elements: int32 if they fit, with x64 too, as in JAX."""
    return dtypes.canonicalize_dtype(np.int64 if is_above(n, 2**31 - 1) else np.int32)


@one_launch(arrays=2)
def searchsorted(a: ArrayLike, v: ArrayLike, side: str = "left", sorter: ArrayLike | None = None, *,
                 method: str = "scan") -> Array:
    """Positions at which the elements of `v` keep the sorted vector `a` sorted; nan counts as largest.

    Args:
      side: "left" (before equal elements) or "right" (after them); sorter: int[n] that sorts `a`.
      method: accepted as in JAX; there is one algorithm here.
    Returns: int of the shape of `v`.
    """
    caller = "numpy.searchsorted"
    if side not in ("left", "right"):
        raise bad(caller, f"`side` is {side!r}", fix="pass 'left' or 'right'.", exc=ValueError)
    a, v = (to_array_like(caller, x) for x in promote(caller, a, v))
    if a.ndim != 1:
        raise bad(caller, "`a` must be a vector", given={"a": a.aval}, fix="use a.ravel().", exc=ValueError)
    if sorter is not None:
        a = take_slices(a, convert_element_type(to_array_like(caller, sorter), np.int32), 0)
    if not a.size:
        return full(v.shape, 0, _position_dtype(0))
    return reshape(binary_search(a, reshape(v, (v.size,)), side, a.size, _position_dtype(a.size)), v.shape)


@one_launch(arrays=2)
def digitize(x: ArrayLike, bins: ArrayLike, right: bool = False, *, method: str | None = None) -> Array:
    """Index of the bin of each element of `x`; bin i reaches from ``bins[i-1]`` to ``bins[i]``.

    Args: bins: real[n], increasing or decreasing; right: whether bins include their right end.
    """
    caller = "numpy.digitize"
    bins = to_array_like(caller, bins)
    if bins.ndim != 1:
        raise bad(caller, "`bins` must be a vector", given={"bins": bins.aval}, fix="use bins.ravel().",
                  exc=ValueError)
    side = "left" if right else "right"
    if bins.size == 0:
        return full(shape_of(x), 0, _position_dtype(0))
    upward = searchsorted(bins, x, side)
    downward = sub(_position_dtype(bins.size).type(bins.size), searchsorted(rev(bins, (0,)), x, side))
    rising = ge(index_in_dim(bins, bins.size - 1, 0, keepdims=False), index_in_dim(bins, 0, 0, keepdims=False))
    return choose(rising, upward, downward)


# -- whole arrays -------------------------------------------------------------------------------------------------

@one_launch(arrays=4)
def allclose(a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1e-05, atol: ArrayLike = 1e-08,
             equal_nan: bool = False) -> Array:
    """Whether all elements are close, see `isclose`."""
    return all_true(isclose(a, b, rtol, atol, equal_nan))


@one_launch(arrays=2)
def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> Array:
    """Whether two arrays have the same shape and elements; with `equal_nan` nan equals nan."""
    a1, a2 = asarray(a1), asarray(a2)
    if shape_of(a1) != shape_of(a2):
        return asarray(False)
    same = equal(a1, a2)
    if equal_nan:
        same = bitwise_or(same, bitwise_and(isnan(a1), isnan(a2)))
    return all_true(same)


@one_launch(arrays=2)
def array_equiv(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Whether two arrays are equal after broadcasting; false if they do not broadcast."""
    a1, a2 = asarray(a1), asarray(a2)
    try:
        shape = broadcast_shapes(shape_of(a1), shape_of(a2))
    except ValueError:
        return asarray(False)
    return all_true(equal(expand_to("numpy.array_equiv", a1, shape), expand_to("numpy.array_equiv", a2, shape)))
