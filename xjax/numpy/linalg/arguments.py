"""Argument checks of the functions on matrices."""

from __future__ import annotations

from xjax.core.errors import bad
from xjax.numpy.promote import broadcast_shapes, broadcast_to, cast, check_ranks, promote_inexact
from xjax.numpy.selection import operand
from xjax.numpy.ufuncs import to_array_like
from xjax.ops.shape import expand_dims
from xjax.typing import Array, ArrayLike


def inexact(caller: str, *xs: ArrayLike) -> list[Array]:
    """Arguments as arrays of one float or complex dtype, not weakly typed; ranks do not change."""
    return [to_array_like(caller, cast(caller, x, x.dtype))
            for x in promote_inexact(caller, *[operand(caller, x) for x in xs])]


def matrices(caller: str, x: ArrayLike, square: bool = False, exc: type[Exception] = ValueError) -> Array:
    """One argument as an array [..., m, n] (or [..., n, n] if `square`) of a float or complex dtype."""
    x, = inexact(caller, x)
    if x.ndim < 2 or (square and x.shape[-1] != x.shape[-2]):
        shape = "[..., n, n]" if square else "[..., m, n]"
        raise bad(caller, f"takes arrays of shape {shape}", given={"argument": x.aval},
                  fix="the last two axes must be rows and columns" + (", of equal number." if square else "."), exc=exc)
    return x


def system(caller: str, a: ArrayLike, b: ArrayLike) -> tuple[Array, Array, bool]:
    """Matrices [..., n, n] and right-hand sides [..., n, k] with the same batch axes, and whether `b` was a vector [n].

    Raises: ValueError if the shapes do not fit.
    """
    a, b = inexact(caller, a, b)
    vector = b.ndim == 1
    column = expand_dims(b, (1,)) if vector else b
    if a.ndim < 2 or not b.ndim or a.shape[-1] != a.shape[-2] or column.shape[-2] != a.shape[-1]:
        raise bad(caller, "takes a[..., n, n] and b[n] or b[..., n, k]", given={"a": a.aval, "b": b.aval},
                  fix="for a batch of vectors write b[..., None], and [..., 0] after the call.", exc=ValueError)
    check_ranks(caller, [a.shape, column.shape])
    batch = broadcast_shapes(a.shape[:-2], column.shape[:-2])
    return (broadcast_to(a, (*batch, *a.shape[-2:])), broadcast_to(column, (*batch, *column.shape[-2:])), vector)
