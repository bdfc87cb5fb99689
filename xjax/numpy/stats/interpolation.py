"""`interp`: piecewise linear functions through points."""

from __future__ import annotations

import numpy as np

from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.types import number_of
from xjax.numpy.composed import remainder
from xjax.numpy.joining import concatenate
from xjax.numpy.manipulate import ravel, reshape, take_slices
from xjax.numpy.promote import cast, library_rules, promote_inexact
from xjax.numpy.searching import searchsorted
from xjax.numpy.selection import choose
from xjax.numpy.ufuncs import add as plus
from xjax.numpy.ufuncs import multiply, subtract, to_array_like
from xjax.ops.compare import clamp, gt, le, lt
from xjax.ops.convert import convert_element_type
from xjax.ops.elementwise import add, div, sub
from xjax.ops.makers import scalar_like
from xjax.ops.piecewise import abs as lax_abs
from xjax.ops.piecewise import max as lax_max
from xjax.ops.slice import index_in_dim, slice_in_dim
from xjax.ops.sort import sort as lax_sort
from xjax.runtime.one_launch import one_launch
from xjax.typing import Array, ArrayLike


@one_launch(arrays=5)
def interp(x: ArrayLike, xp: ArrayLike, fp: ArrayLike, left: ArrayLike | str | None = None,
           right: ArrayLike | str | None = None, period: ArrayLike | None = None) -> Array:
    """Piecewise linear function through the points (xp, fp), evaluated at `x`.

    Args: xp: real[n], increasing (with `period`, in any order); fp: number[n]; left, right: values outside (default:
      those at the ends), or "extrapolate": the outermost pieces continue; period: of x, if the function is periodic;
      then `left` and `right` are ignored.
    """
    caller = "numpy.interp"
    for name, side in (("left", left), ("right", right)):
        if isinstance(side, str) and side != "extrapolate":
            raise bad(caller, f"`{name}` is {side!r}", fix="pass a number or 'extrapolate'.", exc=ValueError)
    x, xp = (to_array_like(caller, v) for v in promote_inexact(caller, x, xp))
    fp = to_array_like(caller, library_rules(promote_inexact)(caller, fp, xp)[0])
    if xp.ndim != 1 or xp.shape != fp.shape or not xp.size:
        raise bad(caller, "`xp` and `fp` must be vectors of one size, at least 1", given={"xp": xp.aval, "fp": fp.aval},
                  fix="pass the points as two vectors.", exc=ValueError)
    if period is not None:
        left = right = "extrapolate"
        x, xp, fp = _around_period(x, xp, fp, cast(caller, period, xp.dtype))
    n = xp.size
    flat = ravel(x)
    i = clamp(np.int32(min(1, n - 1)), convert_element_type(searchsorted(xp, flat, "right"), np.int32), np.int32(n - 1))
    before = lax_max(sub(i, np.int32(1)), np.int32(0))
    x0, x1, f0, f1 = (take_slices(v, k, 0) for v in (xp, fp) for k in (before, i))
    width = sub(x1, x0)
    flat_piece = le(lax_abs(width), number_of(width.dtype, np.spacing(dtypes.finfo(width.dtype).eps)))
    slope = div(sub(flat, x0), choose(flat_piece, scalar_like(width, 1), width))
    out = choose(flat_piece, f0, add(f0, multiply(slope, sub(f1, f0))))
    ends = [index_in_dim(v, k, 0, keepdims=False) for v in (xp, fp) for k in (0, n - 1)]
    if not isinstance(left, str):
        out = choose(lt(flat, ends[0]), ends[2] if left is None else cast(caller, left, fp.dtype), out)
    if not isinstance(right, str):
        out = choose(gt(flat, ends[1]), ends[3] if right is None else cast(caller, right, fp.dtype), out)
    return reshape(out, x.shape)


def _around_period(x: Array, xp: Array, fp: Array, period: ArrayLike) -> tuple[Array, Array, Array]:
    """Arguments of `interp` in one period; the points are sorted, with an extra point on either side."""
    n = xp.size
    x, xp = remainder(x, period), remainder(xp, period)
    xp, fp = lax_sort((xp, fp), 0, True, 1)
    first, last = [slice_in_dim(v, 0, 1) for v in (xp, fp)], [slice_in_dim(v, n - 1, n) for v in (xp, fp)]
    xp = concatenate([subtract(last[0], period), xp, plus(first[0], period)])
    return x, xp, concatenate([last[1], fp, first[1]])


__all__ = ["interp"]
