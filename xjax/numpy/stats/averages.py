"""`average`: means with weights."""

from __future__ import annotations

from typing import Literal, overload

from xjax.core.errors import bad
from xjax.numpy.promote import broadcast_to, cast, promote_inexact
from xjax.numpy.reductions import mean
from xjax.numpy.reductions import sum as total
from xjax.numpy.ufuncs import to_array_like
from xjax.ops.checks import canonical_axes
from xjax.ops.elementwise import div, mul
from xjax.ops.shape import broadcast_in_dim, transpose
from xjax.runtime.one_launch import one_launch
from xjax.typing import Array, ArrayLike, Axis


@overload
def average(a: ArrayLike, axis: Axis = None, weights: ArrayLike | None = None, returned: Literal[False] = False,
            keepdims: bool = False) -> Array: ...
@overload
def average(a: ArrayLike, axis: Axis = None, weights: ArrayLike | None = None, *, returned: Literal[True],
            keepdims: bool = False) -> tuple[Array, Array]: ...
@overload
def average(a: ArrayLike, axis: Axis, weights: ArrayLike | None, returned: Literal[True],
            keepdims: bool = False) -> tuple[Array, Array]: ...


@one_launch
def average(a: ArrayLike, axis: Axis = None, weights: ArrayLike | None = None, returned: bool = False,
            keepdims: bool = False) -> Array | tuple[Array, Array]:
    """Weighted mean over `axis` (default: all axes).

    Args: weights: of the shape of `a`, or with the sizes of the axes in `axis`, in their order; returned: whether to
      return (mean, sum of weights).
    Raises: ValueError for weights of another shape.
    """
    caller = "numpy.average"
    a = to_array_like(caller, a)
    if weights is None:
        out = mean(a, axis, keepdims=keepdims)
        count = a.size // max(1, out.size) if a.size else 0
        return (out, broadcast_to(cast(caller, count, out.dtype), out.shape)) if returned else out
    a, weights = (to_array_like(caller, x) for x in promote_inexact(caller, a, weights))
    if weights.shape != a.shape:
        weights = _weights_along(caller, weights, a, axis)
    scale = total(weights, axis, keepdims=keepdims)
    out = div(total(mul(a, weights), axis, keepdims=keepdims), scale)
    return (out, scale) if returned else out


def _weights_along(caller: str, weights: Array, a: Array, axis: Axis) -> Array:
    """Weights whose axis k is along axis `axis[k]` of `a`, in the shape of `a`."""
    axes = () if axis is None else canonical_axes(axis, a.ndim, caller)
    if axis is None or weights.shape != tuple(a.shape[d] for d in axes):
        raise bad(caller, "the weights have neither the shape of `a` nor that of its averaged axes",
                  given={"a": a.aval, "weights": weights.aval, "axis": axis},
                  fix="pass `axis`, and weights of the sizes of these axes in this order.", exc=ValueError)
    order = sorted(range(len(axes)), key=axes.__getitem__)
    return broadcast_in_dim(transpose(weights, order), a.shape, sorted(axes))


__all__ = ["average"]
