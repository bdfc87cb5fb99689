"""Sorting, order statistics by position, and sets of values."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.errors import ConcretizationTypeError, bad
from xjax.core.trace import Tracer
from xjax.numpy.creation import asarray
from xjax.numpy.joining import concatenate
from xjax.numpy.manipulate import moveaxis, ravel, reshape, take_slices
from xjax.numpy.promote import array_like, default_int, promote
from xjax.numpy.searching import binary_search
from xjax.numpy.selection import choose
from xjax.numpy.ufuncs import to_array_like
from xjax.ops.arrange import broadcasted_iota, iota, rev
from xjax.ops.bitwise import bitwise_and, bitwise_or
from xjax.ops.checks import canonical_axis
from xjax.ops.compare import eq, lt, ne
from xjax.ops.convert import convert_element_type
from xjax.ops.cumulative import cumsum
from xjax.ops.elementwise import sub
from xjax.ops.shape import broadcast_in_dim
from xjax.ops.slice import slice_in_dim
from xjax.ops.sort import sort as lax_sort
from xjax.runtime.one_launch import one_launch


def _along(where: str, a: Any, axis: int | None) -> tuple[Any, int]:
    a = to_array_like(where, a)
    if axis is None:
        return ravel(a), 0
    return a, canonical_axis(axis, a.ndim, where)


def _refuse_kind(where: str, kind: Any, order: Any) -> None:
    if kind is not None or order is not None:
        raise bad(where, "`kind` and `order` are not supported", fix="pass stable=True or False.", exc=ValueError)


@one_launch
def sort(a: Any, axis: int | None = -1, *, kind: None = None, order: None = None, stable: bool = True,
         descending: bool = False) -> Any:
    """Elements in increasing order along an axis (None: flattened), nan last; reversed with `descending`."""
    _refuse_kind("numpy.sort", kind, order)
    a, axis = _along("numpy.sort", a, axis)
    out = lax_sort(a, axis, stable)
    return rev(out, (axis,)) if descending else out


@one_launch
def argsort(a: Any, axis: int | None = -1, *, kind: None = None, order: None = None, stable: bool = True,
            descending: bool = False) -> Any:
    """Indices that sort along an axis (None: flattened), nan last; equal elements keep their order."""
    _refuse_kind("numpy.argsort", kind, order)
    a, axis = _along("numpy.argsort", a, axis)
    index = broadcasted_iota(default_int(), a.shape, axis)
    if not descending:
        return lax_sort((a, index), axis, stable, 1)[1]
    return rev(lax_sort((rev(a, (axis,)), rev(index, (axis,))), axis, stable, 1)[1], (axis,))


def lexsort(keys: Any, axis: int = -1) -> Any:
    """Indices that sort by several keys along an axis: the last key counts first."""
    where = "numpy.lexsort"
    keys = [to_array_like(where, k) for k in (list(keys) if isinstance(keys, (list, tuple)) else asarray(keys))]
    if not keys:
        raise bad(where, "there is no key to sort by", fix="pass at least one key.")
    if len({k.shape for k in keys}) > 1:
        raise bad(where, "the keys differ in shape", given={f"key {i}": k.aval for i, k in enumerate(keys)},
                  fix="make them equal.", exc=ValueError)
    if not keys[0].ndim:
        return asarray(0, default_int())
    axis = canonical_axis(axis, keys[0].ndim, where)
    index = broadcasted_iota(default_int(), keys[0].shape, axis)
    return lax_sort((*keys[::-1], index), axis, True, len(keys))[-1]


@one_launch
def partition(a: Any, kth: int, axis: int = -1) -> Any:
    """An order in which element `kth` stands where sorting would put it, smaller ones before it: here, sorted."""
    a = to_array_like("numpy.partition", a)
    canonical_axis(kth, a.shape[axis], "numpy.partition", "kth")
    return sort(a, axis)


@one_launch
def argpartition(a: Any, kth: int, axis: int = -1) -> Any:
    """Indices of `partition`."""
    a = to_array_like("numpy.argpartition", a)
    canonical_axis(kth, a.shape[axis], "numpy.argpartition", "kth")
    return argsort(a, axis)


@one_launch
def sort_complex(a: Any) -> Any:
    """Elements sorted along the last axis, as complex numbers."""
    out = sort(a)
    return convert_element_type(out, dtypes.to_complex_dtype(out.dtype))


# -- sets ---------------------------------------------------------------------------------------------------------

def unique(ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
           axis: int | None = None, *, equal_nan: bool = True, size: int | None = None, fill_value: Any = None,
           sorted: bool = True) -> Any:
    """Distinct elements (or slices along `axis`) in increasing order.

    Args:
      return_index, return_inverse, return_counts: also the first positions, the positions of all elements in the
        result, the counts.
      size: number of elements to return, needed under jit: further ones are cut, missing ones are `fill_value`
        (default: the smallest element).
    Raises: ConcretizationTypeError for a traced array without `size`.
    """
    where = "numpy.unique"
    ar = to_array_like(where, ar)
    if size is None and isinstance(ar, Tracer):
        raise bad(where, "the number of distinct elements depends on traced values", given={"ar": ar.aval},
                  fix="pass size=n, the largest number there can be.", exc=ConcretizationTypeError)
    shape = ar.shape
    rows = ravel(ar) if axis is None else moveaxis(ar, canonical_axis(axis, ar.ndim, where), 0)
    values, first, inverse, counts = _distinct(where, rows, equal_nan, size, fill_value)
    if axis is None:
        inverse = reshape(inverse, shape)
    else:
        values = moveaxis(values, 0, axis)
    asked = [(True, values), (return_index, first), (return_inverse, inverse), (return_counts, counts)]
    out = tuple(x for wanted, x in asked if wanted)
    return out if len(out) > 1 else out[0]


def _distinct(where: str, rows: Any, equal_nan: bool, size: int | None, fill_value: Any) -> tuple[Any, ...]:
    n, dtype = rows.shape[0], default_int()
    if not n:
        nothing = asarray(np.zeros(0, dtype))
        if size:
            raise bad(where, "nothing to fill `size` elements with", fix="pass a non-empty array.", exc=ValueError)
        return rows, nothing, nothing, nothing
    flat = reshape(rows, (n, -1)) if rows.ndim > 1 else reshape(rows, (n, 1))
    columns = [reshape(slice_in_dim(flat, i, i + 1, axis=1), (n,)) for i in range(flat.shape[1])]
    *ordered, order = lax_sort((*columns, iota(dtype, n)), 0, True, len(columns) or 1)
    is_first = _starts_run(ordered, n, equal_nan)
    group = sub(cumsum(convert_element_type(is_first, dtype)), dtype.type(1))
    if size is None:
        size = int(np.asarray(group)[-1]) + 1
    # Position, in sorted order, of the first element of group i; n if there is no such group.
    start = binary_search(group, iota(dtype, size), "left", n)
    stop = binary_search(group, iota(dtype, size), "right", n)
    exists = lt(start, dtype.type(n))
    start = choose(exists, start, dtype.type(0))
    first = take_slices(order, start, 0)
    values = take_slices(rows, first, 0)
    if fill_value is not None:
        valid = reshape(exists, (size, *(1,) * (rows.ndim - 1)))
        values = choose(valid, values, convert_element_type(asarray(fill_value), rows.dtype))
    counts = choose(exists, sub(stop, start), dtype.type(0))
    inverse = lax_sort((order, group), 0, True, 1)[1]
    return values, first, inverse, counts


def _starts_run(columns: Sequence[Any], n: int, equal_nan: bool) -> Any:
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


def unique_values(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> Any:
    """Distinct elements, in increasing order."""
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)


def _host(where: str, *arrays: Any) -> list[np.ndarray]:
    """Values of arrays for functions whose result's size depends on them."""
    arrays = [to_array_like(where, x) for x in promote(where, *arrays)]
    if builtins.any(isinstance(x, Tracer) for x in arrays):
        raise bad(where, "the size of the result depends on traced values",
                  given={f"argument {i}": x.aval for i, x in enumerate(arrays)},
                  fix="call it outside the transformed function, or use isin.", exc=ConcretizationTypeError)
    return [np.asarray(x) for x in arrays]


def union1d(ar1: Any, ar2: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """Distinct elements of both arrays, in increasing order; `size` as for `unique`."""
    both = [ravel(array_like("numpy.union1d", x)) for x in (ar1, ar2)]
    return unique(concatenate(both), size=size, fill_value=fill_value)


def intersect1d(ar1: Any, ar2: Any) -> Any:
    """Distinct elements that both arrays have, in increasing order; not under jit."""
    return asarray(np.intersect1d(*_host("numpy.intersect1d", ar1, ar2)))


def setdiff1d(ar1: Any, ar2: Any) -> Any:
    """Distinct elements of the first array that the second has not, in increasing order; not under jit."""
    return asarray(np.setdiff1d(*_host("numpy.setdiff1d", ar1, ar2)))


def setxor1d(ar1: Any, ar2: Any) -> Any:
    """Distinct elements that exactly one array has, in increasing order; not under jit."""
    return asarray(np.setxor1d(*_host("numpy.setxor1d", ar1, ar2)))


@one_launch(arrays=2)
def isin(element: Any, test_elements: Any, invert: bool = False) -> Any:
    """Whether each element of the first array is one of the second."""
    where = "numpy.isin"
    element, tests = (to_array_like(where, x) for x in promote(where, element, test_elements))
    flat, tests = ravel(element), sort(ravel(tests))
    if not tests.size:
        return broadcast_in_dim(np.bool_(invert), element.shape, ())
    index = binary_search(tests, flat, "left", tests.size)
    index = choose(lt(index, default_int().type(tests.size)), index, default_int().type(0))
    found = reshape(eq(take_slices(tests, index, 0), flat), element.shape)
    return eq(found, np.bool_(False)) if invert else found


__all__ = ["argpartition", "argsort", "intersect1d", "isin", "lexsort", "partition", "setdiff1d", "setxor1d", "sort",
           "sort_complex", "union1d", "unique", "unique_values"]
