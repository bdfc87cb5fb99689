"""Differences of neighbours, and integrals of samples."""

from __future__ import annotations

from collections.abc import Sequence

from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.numpy.creation import asarray
from xjax.numpy.joining import concatenate
from xjax.numpy.manipulate import moveaxis, ravel
from xjax.numpy.promote import cast, promote_inexact
from xjax.numpy.reductions import sum as total
from xjax.numpy.ufuncs import add as plus
from xjax.numpy.ufuncs import multiply, to_array_like, true_divide
from xjax.ops.bitwise import bitwise_not
from xjax.ops.checks import canonical_axis, static_int
from xjax.ops.compare import eq
from xjax.ops.elementwise import add, mul, sub
from xjax.ops.makers import scalar_like
from xjax.ops.shape import broadcast_in_dim, expand_dims
from xjax.ops.slice import index_in_dim, slice_in_dim
from xjax.runtime.one_launch import one_launch
from xjax.typing import Array, ArrayLike


@one_launch
def diff(a: ArrayLike, n: int = 1, axis: int = -1, prepend: ArrayLike | None = None,
         append: ArrayLike | None = None) -> Array:
    """Differences of neighbours along an axis, n times; for bool, whether they differ."""
    caller = "numpy.diff"
    a, n = to_array_like(caller, a), static_int(n, "n", caller)
    if n < 0:
        raise bad(caller, "`n` must not be negative", given={"n": n}, fix="pass n >= 0.", exc=ValueError)
    if not a.ndim:
        raise bad(caller, "a 0-d array has no neighbours", given={"a": a.aval}, fix="pass a vector.", exc=ValueError)
    axis = canonical_axis(axis, a.ndim, caller)
    parts = []
    for x in (prepend, a, append):
        if x is not None:
            x = to_array_like(caller, x)
            one_slice = [1 if d == axis else m for d, m in enumerate(a.shape)]
            parts.append(x if x.ndim else broadcast_in_dim(x, one_slice, ()))
    out: Array = concatenate(parts, axis) if len(parts) > 1 else a
    for _ in range(n):
        after, before = _neighbours(out, axis)
        out = bitwise_not(eq(after, before)) if dtypes.is_bool(out.dtype) else sub(after, before)
    return out


def _neighbours(a: Array, axis: int) -> tuple[Array, Array]:
    """(all elements along an axis except the first, all except the last)."""
    size = a.shape[axis]
    return slice_in_dim(a, min(1, size), size, axis=axis), slice_in_dim(a, 0, max(size - 1, 0), axis=axis)


@one_launch
def ediff1d(ary: ArrayLike, to_end: ArrayLike | Sequence[ArrayLike] | None = None,
            to_begin: ArrayLike | Sequence[ArrayLike] | None = None) -> Array:
    """Differences of neighbours in the flattened array, with further elements before and after."""
    ary = ravel(ary)
    parts = [None if x is None else ravel(asarray(x, ary.dtype)) for x in (to_begin, to_end)]
    return concatenate([x for x in (parts[0], diff(ary), parts[1]) if x is not None])


@one_launch(arrays=2)
def trapezoid(y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1) -> Array:
    """Integral of samples by the trapezoidal rule.

    Args: y: number[..., n, ...]; x: positions of the samples (a vector, or of the shape of y); dx: without x, their
      distance, or an array of distances that broadcasts against y with n - 1 along the axis.
    """
    caller = "numpy.trapezoid"
    y, = promote_inexact(caller, y) if x is None else promote_inexact(caller, y, x)[:1]
    y, dx = to_array_like(caller, y), to_array_like(caller, dx)
    if dx.ndim:
        dx = moveaxis(expand_dims(dx, tuple(range(y.ndim - dx.ndim))), axis, -1)
    y = moveaxis(y, axis, -1)
    size = y.shape[-1]
    if x is None and not dx.ndim and size > 1:
        # One pass over the samples. The sum of all samples minus half the ends would give inf - inf at an infinite end.
        first, last = (index_in_dim(y, i, axis=y.ndim - 1, keepdims=False) for i in (0, -1))
        ends = multiply(true_divide(plus(first, last), 2), dx)
        return plus(ends, multiply(total(slice_in_dim(y, 1, size - 1, axis=y.ndim - 1), -1), dx))
    after, before = _neighbours(y, y.ndim - 1)
    if x is not None:
        x = cast(caller, asarray(x), y.dtype)
        dx = expand_dims(diff(x), range(y.ndim - 1)) if x.ndim == 1 else moveaxis(diff(x, axis=axis), axis, -1)
    area = total(multiply(dx, add(after, before)), -1)
    return mul(area, scalar_like(area, 0.5))


__all__ = ["diff", "ediff1d", "trapezoid"]
