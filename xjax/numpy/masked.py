"""Functions of a boolean mask: compress, extract, place. The size of a selection must be known, or given by `size`."""

from __future__ import annotations

import numpy as np

from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.types import number_of, typeof
from xjax.numpy.index_parts import known_mask
from xjax.numpy.promote import cast, check_mixed
from xjax.numpy.searching import nonzero
from xjax.numpy.selection import operand, refuse_out
from xjax.numpy.take import refuse_inplace, take
from xjax.ops.checks import canonical_axis, static_int
from xjax.ops.compare import ne
from xjax.ops.index_numbers import ScatterDimensionNumbers
from xjax.ops.scatter import scatter
from xjax.ops.shape import reshape
from xjax.typing import Array, ArrayLike


def _as_mask(caller: str, condition: ArrayLike) -> ArrayLike:
    condition = operand(caller, np.asarray(condition) if isinstance(condition, (list, tuple)) else condition)
    return condition if dtypes.is_bool(condition.dtype) else ne(condition, number_of(condition.dtype, 0))


def compress(condition: ArrayLike, a: ArrayLike, axis: int | None = None, *, size: int | None = None,
             fill_value: ArrayLike = 0, out: None = None) -> Array:
    """The slices of `a` along an axis (None: of the flattened array) where `condition` is true.

    Args: condition: bool[m], at most as long as the axis. size: number of slices of the result, needed while tracing;
      the rest is `fill_value`.

    >>> jnp.compress(jnp.array([True, False, True]), jnp.array([1, 2, 3]))
    Array([1, 3], dtype=int32)
    """
    caller = "numpy.compress"
    refuse_out(caller, out)
    mask, a = _as_mask(caller, condition), operand(caller, a)
    if np.ndim(mask) != 1:
        raise bad(caller, "`condition` must have one axis", given={"condition": typeof(mask).str_short()},
                  fix="flatten it with x.ravel(), or index with x[mask].", exc=ValueError)
    if axis is None:
        a, axis = reshape(a, (typeof(a).size,)), 0
    axis = canonical_axis(axis, typeof(a).ndim, caller)
    length = typeof(a).shape[axis]
    if size is None:
        positions = np.flatnonzero(known_mask(mask))
        if positions.size and positions[-1] >= length:
            raise bad(caller, "`condition` selects positions beyond the end of the axis",
                      given={"a": typeof(a).str_short(), "condition": typeof(mask).str_short()},
                      fix="pass a condition as long as the axis.", exc=ValueError)
        return take(a, positions, axis, mode="promise_in_bounds")
    (positions,) = nonzero(mask, size=static_int(size, "size", caller), fill_value=length)
    return take(a, positions, axis, mode="fill", fill_value=fill_value)


def extract(condition: ArrayLike, arr: ArrayLike, *, size: int | None = None, fill_value: ArrayLike = 0) -> Array:
    """The elements of `arr` where `condition` (of the same size) is true, as a vector; see `compress`."""
    mask = _as_mask("numpy.extract", condition)
    return compress(reshape(mask, (typeof(mask).size,)), arr, size=size, fill_value=fill_value)


def place(arr: ArrayLike, mask: ArrayLike, vals: ArrayLike, *, inplace: bool = True) -> Array:
    """`arr` with the elements of `vals` in order (repeated as needed) where `mask` is true; needs inplace=False."""
    caller = "numpy.place"
    refuse_inplace(caller, inplace)
    arr, mask, vals = operand(caller, arr), _as_mask(caller, mask), operand(caller, vals)
    check_mixed(caller, arr, vals)
    count = typeof(arr).size
    if typeof(mask).size != count or not typeof(vals).size:
        raise bad(caller, "the mask must have the size of the array, and there must be values",
                  given={"arr": typeof(arr).str_short(), "mask": typeof(mask).str_short(),
                         "vals": typeof(vals).str_short()}, fix="broadcast the mask to arr.shape.", exc=ValueError)
    (positions,) = nonzero(reshape(mask, (count,)), size=count, fill_value=count)
    vals = reshape(cast(caller, vals, typeof(arr).dtype), (typeof(vals).size,))
    vals = take(vals, np.arange(count) % typeof(vals).size, mode="promise_in_bounds")
    out = scatter(reshape(arr, (count,)), reshape(positions, (count, 1)), vals,
                  ScatterDimensionNumbers((), (0,), (0,)), mode="drop")
    return reshape(out, typeof(arr).shape)
