"""`detrend`: subtracts from data their mean, or straight lines fitted to pieces of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core.errors import bad
from xjax.core.types import typeof
from xjax.numpy.linalg.arguments import inexact
from xjax.ops.checks import canonical_axis
from xjax.typing import Array, ArrayLike


def detrend(data: ArrayLike, axis: int = -1, type: str = "linear", bp: int | Sequence[int] | np.ndarray = 0,
            overwrite_data: None = None) -> Array:
    """Data with their trend along an axis subtracted.

    Args:
      data: number[...]; integers become floats.
      type: "linear": the straight line that fits best in least squares is subtracted; "constant": the mean.
      bp: breakpoints, int or ints: a separate line is fitted between each two neighbouring breakpoints.
      overwrite_data: not supported: arrays never change.
    Raises: ValueError for another type, or breakpoints outside the axis.

    >>> detrend(np.float32([1, 3, 8]), type="constant").tolist()
    [-3.0, -1.0, 4.0]
    """
    caller = "scipy.signal.detrend"
    if overwrite_data is not None:
        raise bad(caller, "`overwrite_data` is not supported: arrays never change", fix="leave it out.",
                  exc=NotImplementedError)
    x, = inexact(caller, jnp.asarray(data))
    axis = canonical_axis(axis, x.ndim, caller)
    if type == "constant":
        return x - jnp.mean(x, axis, keepdims=True)
    if type != "linear":
        raise bad(caller, f"unknown type {type!r}", fix="pass 'linear' or 'constant'.", exc=ValueError)
    size = x.shape[axis]
    breaks = np.unique(np.concatenate([[0], np.ravel(bp), [size]])).astype(int)
    if breaks[0] < 0 or breaks[-1] > size:
        raise bad(caller, "a breakpoint is outside the axis", given={"data": typeof(x), "bp": str(bp)},
                  fix=f"pass values from 0 to {size}.", exc=ValueError)
    if not size:
        return x
    pieces = jnp.split(jnp.moveaxis(x, axis, -1), breaks[1:-1], axis=-1)
    return jnp.moveaxis(jnp.concatenate([_without_line(piece) for piece in pieces], -1), -1, axis)


def _without_line(x: Array) -> Array:
    """`x` [..., n] minus its projection on straight lines, by an orthonormal basis of a constant and a line."""
    n = x.shape[-1]
    line = np.arange(n) - (n - 1) / 2
    basis = np.stack([np.ones(n), line][:min(n, 2)])
    basis = jnp.asarray((basis / np.linalg.norm(basis, axis=1, keepdims=True)).astype(x.dtype))
    along = jnp.matmul(x, basis.T, precision=lax.Precision.HIGHEST)
    return x - jnp.matmul(along, basis, precision=lax.Precision.HIGHEST)


__all__ = ["detrend"]
