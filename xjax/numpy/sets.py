"""Sets of values: distinct elements, and unions, intersections and differences of arrays.

The size of a result depends on values, so it must be given under jit: `size=n`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xjax.core import dtypes
from xjax.core.errors import ConcretizationTypeError, bad, check_choice
from xjax.core.trace import Tracer
from xjax.numpy.creation import asarray, full
from xjax.numpy.joining import concatenate
from xjax.numpy.manipulate import moveaxis, ravel, reshape, take_slices
from xjax.numpy.promote import array_like, default_int, promote
from xjax.numpy.searching import binary_search, nonzero
from xjax.numpy.selection import choose
from xjax.numpy.sorting import sort
from xjax.numpy.ufuncs import to_array_like
from xjax.ops.arrange import iota
from xjax.ops.bitwise import bitwise_and, bitwise_not, bitwise_or
from xjax.ops.checks import canonical_axis
from xjax.ops.compare import eq, lt, ne
from xjax.ops.convert import convert_element_type
from xjax.ops.cumulative import cumsum
from xjax.ops.elementwise import sub
from xjax.ops.shape import broadcast_in_dim
from xjax.ops.slice import slice_in_dim
from xjax.ops.sort import sort as lax_sort
from xjax.runtime.one_launch import one_launch
from xjax.typing import Array, ArrayLike

# -- distinct elements --------------------------------------------------------------------------------------------

def unique(ar: ArrayLike, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
           axis: int | None = None, *, equal_nan: bool = True, size: int | None = None,
           fill_value: ArrayLike | None = None, sorted: bool = True) -> Any:
    """Distinct elements (or slices along `axis`) in increasing order.

    Args:
      return_index, return_inverse, return_counts: also return the first positions, the positions of all elements in the
        result, the counts.
      size: number of elements to return, needed under jit: further ones are dropped, missing ones are `fill_value`
        (default: the smallest element).
    Raises: ConcretizationTypeError for a traced array without `size`.
    """
    caller = "numpy.unique"
    ar = to_array_like(caller, ar)
    if size is None and isinstance(ar, Tracer):
        raise bad(caller, "the number of distinct elements depends on traced values", given={"ar": ar.aval},
                  fix="pass size=n, the largest number there can be.", exc=ConcretizationTypeError)
    shape = ar.shape
    rows = ravel(ar) if axis is None else moveaxis(ar, canonical_axis(axis, ar.ndim, caller), 0)
    if not rows.shape[0]:
        if size:
            raise bad(caller, "an empty array cannot fill a result of size > 0", fix="pass elements.", exc=ValueError)
        nothing = asarray(np.zeros(0, default_int()))
        results = {"values": rows, "first": nothing, "inverse": nothing, "counts": nothing}
    else:
        results = _distinct(rows, equal_nan, size, fill_value, return_index, return_inverse)
    if axis is None and return_inverse:
        results["inverse"] = reshape(results["inverse"], shape)
    elif axis is not None:
        results["values"] = moveaxis(results["values"], 0, axis)
    asked = {"values": True, "first": return_index, "inverse": return_inverse, "counts": return_counts}
    out = tuple(results[name] for name, wanted in asked.items() if wanted)
    return out[0] if len(out) == 1 else out


def _distinct(rows: Array, equal_nan: bool, size: int | None, fill_value: ArrayLike | None, with_first: bool,
              with_inverse: bool) -> dict[str, Any]:
    """The results of `unique` for distinct elements along the first axis, which is not empty."""
    n, dtype = rows.shape[0], default_int()
    ordered, order, is_first = _runs(rows, equal_nan, with_first or with_inverse or rows.ndim > 1)
    # Positions in sorted order at which groups begin, and the end of the last group; n for missing groups.
    if size is None:
        starts = concatenate([nonzero(is_first)[0], asarray([n], dtype)])
    else:
        starts = nonzero(is_first, size=size + 1, fill_value=n)[0]
    count = starts.shape[0] - 1
    start, stop = slice_in_dim(starts, 0, count), slice_in_dim(starts, 1, count + 1)
    results = {"counts": sub(stop, start)}
    exists = lt(start, dtype.type(n))
    start = choose(exists, start, dtype.type(0))
    if order is None:
        values = take_slices(ordered, start, 0)
    else:
        results["first"] = take_slices(order, start, 0)
        values = take_slices(rows, results["first"], 0)
    if fill_value is not None:
        valid = reshape(exists, (count, *(1,) * (rows.ndim - 1)))
        values = choose(valid, values, convert_element_type(asarray(fill_value), rows.dtype))
    if with_inverse:
        group = sub(cumsum(convert_element_type(is_first, dtype)), dtype.type(1))
        results["inverse"] = full((n,), 0, dtype).at[order].set(group, unique_indices=True)
    return {"values": values, **results}


@one_launch
def _runs(rows: Array, equal_nan: bool, with_order: bool) -> tuple[Any, Any, Any]:
    """(the first column sorted, the old positions of its elements or None, whether a row is the first of its kind)."""
    n = rows.shape[0]
    if not with_order:
        ordered = sort(rows)
        return ordered, None, _starts_run([ordered], n, equal_nan)
    flat = reshape(rows, (n, -1)) if rows.ndim > 1 else reshape(rows, (n, 1))
    columns = [reshape(slice_in_dim(flat, i, i + 1, axis=1), (n,)) for i in range(flat.shape[1])]
    *ordered, order = lax_sort((*columns, iota(default_int(), n)), 0, True, len(columns) or 1)
    return ordered[0] if ordered else order, order, _starts_run(ordered, n, equal_nan)


def _starts_run(columns: Sequence[Any], n: int, equal_nan: bool) -> Array:
    """bool[n]: whether a row differs from the one before it."""
    differs = None
    for c in columns:
        before, after = slice_in_dim(c, 0, n - 1), slice_in_dim(c, 1, n)
        new = ne(before, after)
        if equal_nan and dtypes.is_inexact(c.dtype):
            new = bitwise_and(new, bitwise_or(eq(before, before), eq(after, after)))
        differs = new if differs is None else bitwise_or(differs, new)
    head = broadcast_in_dim(np.bool_(True), (1,), ())
    return concatenate([head, differs]) if differs is not None else \
        concatenate([head, broadcast_in_dim(np.bool_(False), (n - 1,), ())])


def unique_values(x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None) -> Array:
    """Distinct elements, in increasing order."""
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)


class UniqueAll(NamedTuple):
    """Result of `unique_all`."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    """Result of `unique_counts`."""

    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    """Result of `unique_inverse`."""

    values: Any
    inverse_indices: Any


def unique_all(x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None) -> UniqueAll:
    """Distinct elements (nans are distinct), first positions, positions of all elements among them, and counts.

    >>> unique_all(np.array([3, 1, 3])).counts
    Array([1, 2], dtype=int32)
    """
    return UniqueAll(*unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value))


def unique_counts(x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None) -> UniqueCounts:
    """Distinct elements (nans are distinct), and the number of occurrences of each."""
    return UniqueCounts(*unique(x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value))


def unique_inverse(x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None) -> UniqueInverse:
    """Distinct elements (nans are distinct), and the positions of all elements among them."""
    return UniqueInverse(*unique(x, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value))


# -- two sets -----------------------------------------------------------------------------------------------------

class _Kept(NamedTuple):
    """Positions of the elements of a result; with a given size, which of them exist."""

    positions: Any
    exist: Any = None

    def of(self, values: Array, fill: ArrayLike) -> Array:
        """Elements of `values` at the positions, `fill` where there is none."""
        if not values.size:
            return full(self.positions.shape, fill, values.dtype)
        kept = take_slices(values, self.positions, 0)
        return kept if self.exist is None else choose(self.exist, kept, convert_element_type(fill, values.dtype))


def _kept(keep: Array, size: int | None) -> _Kept:
    if size is None:
        return _Kept(nonzero(keep)[0])
    n = keep.shape[0]
    positions = nonzero(keep, size=size, fill_value=n)[0]
    exist = lt(positions, positions.dtype.type(n))
    return _Kept(choose(exist, positions, positions.dtype.type(0)), exist)


def _pair(caller: str, ar1: ArrayLike, ar2: ArrayLike, size: int | None) -> tuple[Any, Any]:
    """Both arrays flattened, in one dtype; their values must be known if the size of the result is not."""
    x, y = (ravel(to_array_like(caller, a)) for a in promote(caller, ar1, ar2))
    if size is None and (isinstance(x, Tracer) or isinstance(y, Tracer)):
        raise bad(caller, "the size of the result depends on traced values", given={"ar1": x.aval, "ar2": y.aval},
                  fix="pass size=n, the largest number there can be.", exc=ConcretizationTypeError)
    return x, y


def _fill(value: Any, values: Array, keep: Array, size: int | None) -> Array:
    """The value of missing elements: by default the first element that is kept, or 0 if there is none."""
    if value is not None or not size or not values.size:
        return asarray(0 if value is None else value)
    first = _kept(keep, 1)
    return reshape(first.of(values, values.dtype.type(0)), ())


@one_launch(arrays=2)
def _first_in(x: Array, tests: ArrayLike, invert: bool) -> tuple[Any, Any]:
    """(`x` sorted, whether each element is the first of its kind and in `tests`; if `invert`, not in `tests`)."""
    x = sort(x)
    if not x.size:
        return x, asarray(np.zeros(0, bool))
    return x, bitwise_and(_starts_run([x], x.size, equal_nan=True), isin(x, tests, invert=invert))


def union1d(ar1: ArrayLike, ar2: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None) -> Array:
    """Distinct elements of both arrays, in increasing order; `size` as for `unique`."""
    both = [ravel(array_like("numpy.union1d", x)) for x in (ar1, ar2)]
    return unique(concatenate(both), size=size, fill_value=fill_value)


@one_launch(arrays=2)
def intersect1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, return_indices: bool = False, *,
                size: int | None = None, fill_value: ArrayLike | None = None) -> Any:
    """Distinct elements that are in both arrays, in increasing order.

    Args:
      assume_unique: accepted as in NumPy; the result is the same.
      return_indices: also return the first positions of these elements in both (flattened) arrays.
      size: of the result, needed under jit: further elements are dropped, missing ones are `fill_value` (default: the
        smallest element of the result), with positions past the end of the arrays.
    Raises: ConcretizationTypeError for traced arrays without `size`.

    >>> intersect1d(np.array([3, 1, 2, 3]), np.array([3, 2, 5]))
    Array([2, 3], dtype=int32)
    """
    caller = "numpy.intersect1d"
    x, y = _pair(caller, ar1, ar2, size)
    ordered, keep = _first_in(x, y, invert=False)
    kept = _kept(keep, size)
    values = kept.of(ordered, _fill(fill_value, ordered, keep, size))
    if not return_indices:
        return values
    dtype = default_int()
    indices = []
    for a in (x, y):
        a_ordered, order = lax_sort((a, iota(dtype, a.size)), 0, True, 1)
        place = binary_search(a_ordered, values, "left", a.size)
        first = take_slices(order, choose(lt(place, place.dtype.type(a.size)), place, place.dtype.type(0)), 0)
        indices.append(first if kept.exist is None else choose(kept.exist, first, dtype.type(a.size)))
    return values, *indices


@one_launch(arrays=2)
def setdiff1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, *, size: int | None = None,
              fill_value: ArrayLike | None = None) -> Array:
    """Distinct elements of the first array that are not in the second, in increasing order.

    Args:
      assume_unique: whether the elements of `ar1` are distinct; then they keep their order.
      size: of the result, needed under jit: further elements are dropped, missing ones are `fill_value` (default: 0).
    Raises: ConcretizationTypeError for traced arrays without `size`.
    """
    caller = "numpy.setdiff1d"
    _pair(caller, ar1, ar2, size)
    x, y = ravel(to_array_like(caller, ar1)), ar2            # the result has the dtype of `ar1`
    values, keep = (x, isin(x, y, invert=True)) if assume_unique else _first_in(x, y, invert=True)
    return _kept(keep, size).of(values, asarray(0 if fill_value is None else fill_value))


@one_launch(arrays=2)
def setxor1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, *, size: int | None = None,
             fill_value: ArrayLike | None = None) -> Array:
    """Distinct elements that are in exactly one array, in increasing order.

    Args:
      assume_unique: accepted as in NumPy; the result is the same.
      size: of the result, needed under jit: further elements are dropped, missing ones are `fill_value` (default: the
        smallest element of the result).
    Raises: ConcretizationTypeError for traced arrays without `size`.
    """
    x, y = _pair("numpy.setxor1d", ar1, ar2, size)
    parts = [_first_in(x, y, invert=True), _first_in(y, x, invert=True)]
    values, keep = (concatenate([part[i] for part in parts]) for i in range(2))
    values, keep = lax_sort((values, keep), 0, True, 1)
    return _kept(keep, size).of(values, _fill(fill_value, values, keep, size))


_METHODS = ("auto", "compare_all", "binary_search", "sort")


@one_launch(arrays=2)
def isin(element: ArrayLike, test_elements: ArrayLike, assume_unique: bool = False, invert: bool = False, *,
         method: str = "auto") -> Array:
    """Whether each element of the first array is in the second.

    Args: invert: whether it is not in it. assume_unique, method: accepted as in JAX; there is one algorithm here.
    """
    caller = "numpy.isin"
    check_choice(caller, "method", method, _METHODS, "leave it out.")
    element, tests = (to_array_like(caller, x) for x in promote(caller, element, test_elements))
    flat, tests = ravel(element), sort(ravel(tests))
    if not tests.size or not flat.size:
        return broadcast_in_dim(np.bool_(invert), element.shape, ())
    index = binary_search(tests, flat, "left", tests.size)
    index = choose(lt(index, index.dtype.type(tests.size)), index, index.dtype.type(0))
    is_in = reshape(eq(take_slices(tests, index, 0), flat), element.shape)
    return bitwise_not(is_in) if invert else is_in


__all__ = ["intersect1d", "isin", "setdiff1d", "setxor1d", "union1d", "unique", "unique_all", "unique_counts",
           "unique_inverse", "unique_values"]
