"""Sorting, partial sorting, and indices that sort."""

from __future__ import annotations

from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.numpy.creation import asarray
from xjax.numpy.manipulate import ravel
from xjax.numpy.promote import as_dtype, default_int
from xjax.numpy.take import take_along_axis
from xjax.numpy.ufuncs import to_array_like
from xjax.ops.arrange import broadcasted_iota, rev
from xjax.ops.bitwise import bitwise_and, bitwise_not, bitwise_xor, shift_right_arithmetic
from xjax.ops.checks import canonical_axis, static_int
from xjax.ops.compare import ne, select
from xjax.ops.convert import bitcast_convert_type, convert_element_type
from xjax.ops.makers import filled_like
from xjax.ops.sort import sort as lax_sort
from xjax.ops.sort import top_k as lax_top_k
from xjax.runtime.one_launch import one_launch
from xjax.typing import Array, ArrayLike, DTypeLike


def _along(caller: str, a: ArrayLike, axis: int | None) -> tuple[Any, int]:
    a = to_array_like(caller, a)
    if axis is None:
        return ravel(a), 0
    return a, canonical_axis(axis, a.ndim, caller)


def _refuse_kind(caller: str, kind: Any, order: Any) -> None:
    if kind is not None or order is not None:
        raise bad(caller, "`kind` and `order` are not supported", fix="pass stable=True or False.", exc=TypeError)


@one_launch
def sort(a: ArrayLike, axis: int | None = -1, *, kind: None = None, order: None = None, stable: bool = True,
         descending: bool = False) -> Array:
    """Elements in increasing order along an axis (None: flattened), nan last; reversed with `descending`."""
    _refuse_kind("numpy.sort", kind, order)
    a, axis = _along("numpy.sort", a, axis)
    out = lax_sort(a, axis, stable)
    return rev(out, (axis,)) if descending else out


@one_launch
def argsort(a: ArrayLike, axis: int | None = -1, *, kind: None = None, order: None = None, stable: bool = True,
            descending: bool = False, dtype: DTypeLike | None = None) -> Array:
    """Indices that sort along an axis (None: flattened), nan last; equal elements keep their order.

    Args: dtype: of the indices; default: the default integer.
    """
    _refuse_kind("numpy.argsort", kind, order)
    a, axis = _along("numpy.argsort", a, axis)
    index = broadcasted_iota(default_int() if dtype is None else as_dtype(dtype, "numpy.argsort"), a.shape, axis)
    if not descending:
        return lax_sort((a, index), axis, stable, 1)[1]
    return rev(lax_sort((rev(a, (axis,)), rev(index, (axis,))), axis, stable, 1)[1], (axis,))


def lexsort(keys: Any, axis: int = -1, *, batch_size: int = 16) -> Array:
    """Indices that sort by several keys along an axis: the last key is the primary one.

    Args: batch_size: if there are more keys of one dtype, each sort uses this many of them, which compiles faster than
      one sort by all of them.
    """
    caller = "numpy.lexsort"
    batch_size = static_int(batch_size, "batch_size", caller)
    if batch_size < 1:
        raise bad(caller, "`batch_size` must be positive", {"batch_size": batch_size}, "pass 16.", exc=ValueError)
    keys = [to_array_like(caller, k) for k in (list(keys) if isinstance(keys, (list, tuple)) else asarray(keys))]
    if not keys:
        raise bad(caller, "there is no key to sort by", fix="pass at least one key.")
    if len({k.shape for k in keys}) > 1:
        raise bad(caller, "the keys differ in shape", given={f"key {i}": k.aval for i, k in enumerate(keys)},
                  fix="make them equal.", exc=ValueError)
    if not keys[0].ndim:
        return asarray(0, default_int())
    axis = canonical_axis(axis, keys[0].ndim, caller)
    index = broadcasted_iota(default_int(), keys[0].shape, axis)
    if len({k.dtype for k in keys}) > 1:
        batch_size = len(keys)
    for start in range(0, len(keys), batch_size):               # a stable sort keeps the order by the previous keys
        batch = [k if start == 0 else take_along_axis(k, index, axis) for k in keys[start:start + batch_size]]
        index = lax_sort((*batch[::-1], index), axis, True, len(batch))[-1]
    return index


@one_launch
def top_k(a: ArrayLike, k: int, /, *, axis: int = -1, mode: str = "largest", sorted: bool = True) -> tuple[Any, Any]:
    """The k largest elements along an axis, or with mode="smallest" the smallest, and their positions as int32.

    Args: sorted: accepted as in JAX; the elements are always in order, the largest (smallest) first.
    Returns: (values, positions), each with `k` elements along the axis. NaN counts as the largest, as in `sort`.
    Raises: ValueError for complex numbers, an unknown mode, or k greater than the size.

    >>> values, positions = top_k(np.array([3, 1, 2]), 2, mode="smallest")
    >>> values.tolist(), positions.tolist()
    ([1, 2], [1, 2])
    """
    caller = "numpy.top_k"
    a = to_array_like(caller, a)
    if dtypes.is_complex(a.dtype):
        raise bad(caller, "complex numbers have no order", {"a": a.aval}, "pass real or absolute values.",
                  exc=ValueError)
    if mode not in ("largest", "smallest"):
        raise bad(caller, "unknown mode", {"mode": repr(mode)}, 'pass "largest" or "smallest".',
                  exc=ValueError)
    if mode == "largest":
        return tuple(lax_top_k(a, k, axis=axis))
    _, positions = lax_top_k(_reversed_order(a), k, axis=axis)
    return take_along_axis(a, positions, axis), positions


def _reversed_order(x: Array) -> Array:
    """Integers in the reverse order of `x`; the order of floats is that of their bits, reversed for negative ones."""
    if dtypes.is_inexact(x.dtype):
        bits = np.dtype(f"int{8 * x.dtype.itemsize}")
        x = bitcast_convert_type(select(ne(x, x), filled_like(x, np.nan), x), bits)
        last = bits.type(dtypes.iinfo(bits).bits - 1)
        x = bitwise_xor(x, bitwise_and(shift_right_arithmetic(x, last), bits.type(dtypes.iinfo(bits).max)))
    return bitwise_not(x)


@one_launch
def partition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """An order in which element `kth` is at its sorted position, smaller ones before it: here, fully sorted."""
    a = to_array_like("numpy.partition", a)
    canonical_axis(kth, a.shape[axis], "numpy.partition", "kth")
    return sort(a, axis)


@one_launch
def argpartition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """Indices of `partition`, as int32."""
    a = to_array_like("numpy.argpartition", a)
    canonical_axis(kth, a.shape[axis], "numpy.argpartition", "kth")
    return argsort(a, axis, dtype=np.int32)


@one_launch
def sort_complex(a: ArrayLike) -> Array:
    """Elements sorted along the last axis, as complex numbers."""
    out = sort(a)
    return convert_element_type(out, dtypes.to_complex_dtype(out.dtype))


__all__ = ["argpartition", "argsort", "lexsort", "partition", "sort", "sort_complex", "top_k"]
