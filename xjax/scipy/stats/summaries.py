"""Summary statistics: the most frequent value, ranks, the standard error of the mean."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core.errors import bad
from xjax.core.types import number_of
from xjax.numpy.promote import array_like, default_float, promote_inexact
from xjax.ops.checks import canonical_axis
from xjax.runtime.one_launch import one_launch
from xjax.typing import Array, ArrayLike

_METHODS = ("average", "min", "max", "dense", "ordinal")


class ModeResult(NamedTuple):
    """Result of `mode`: the most frequent value, and how often it occurs."""

    mode: Any
    count: Any


def _propagates(caller: str, nan_policy: str) -> None:
    """Raise an error for policies other than "propagate": they would depend on values, which are unknown in a trace."""
    if nan_policy not in ("propagate", "omit", "raise"):
        raise bad(caller, f"unknown nan_policy {nan_policy!r}", fix="leave it 'propagate'.", exc=ValueError)
    if nan_policy != "propagate":
        raise bad(caller, f"nan_policy {nan_policy!r} is not supported: results must not depend on values",
                  fix="remove the NaNs before the call.", exc=NotImplementedError)


def _starts(x: Array) -> Array:
    """Whether each value of the sorted x[..., n] differs from the previous one; NaNs count as equal."""
    before, after = x[..., :-1], x[..., 1:]
    differ = (before != after) & ~((before != before) & (after != after))
    return jnp.concatenate([jnp.ones((*x.shape[:-1], 1), bool), differ], -1)


def mode(a: ArrayLike, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False) -> ModeResult:
    """The most frequent value along an axis, the least of several, and how often it occurs.

    Args: a: array of numbers; axis: None for all elements. nan_policy: only 'propagate': NaNs count as one value.
    Returns: arrays of the shape of `a` without the axis, or with size 1 there. For an empty axis they are NaN and 0.

    >>> mode(np.array([3, 1, 3, 1, 2]))
    ModeResult(mode=Array(1, dtype=int32), count=Array(2, dtype=int32))
    """
    _propagates("scipy.stats.mode", nan_policy)
    return _mode(a, axis, keepdims)


@one_launch
def _mode(a: ArrayLike, axis: int | None, keepdims: bool) -> ModeResult:
    x = jnp.atleast_1d(array_like("scipy.stats.mode", a))
    if axis is None:
        shape = (1,) * x.ndim if keepdims else ()
        x = jnp.ravel(x)
    else:
        axis = canonical_axis(axis, x.ndim, "scipy.stats.mode")
        kept = tuple(1 if i == axis else n for i, n in enumerate(x.shape))
        x = jnp.moveaxis(x, axis, -1)
        shape = kept if keepdims else x.shape[:-1]
    n = x.shape[-1]
    if not n:
        return ModeResult(jnp.full(shape, np.nan, default_float()), jnp.zeros(shape, default_float()))
    x = jnp.sort(x, -1)
    count = jnp.broadcast_to(jnp.arange(n), x.shape)
    count = count - lax.cummax(jnp.where(_starts(x), count, 0), axis=x.ndim - 1)     # place in a run of equal values
    best = jnp.argmax(count, -1, keepdims=True)
    value, count = (jnp.take_along_axis(y, best, -1)[..., 0] for y in (x, count + 1))
    return ModeResult(jnp.reshape(value, shape), jnp.reshape(count, shape))


def rankdata(a: ArrayLike, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate") -> Array:
    """The rank of each element, from 1, among all or along an axis. All ranks are NaN if one element is NaN.

    Args:
      a: array of numbers. axis: None ranks the elements of the flattened array.
      method: the rank of equal elements: the 'average', 'min' or 'max' of their places; 'dense': consecutive ranks for
        distinct values; 'ordinal': distinct ranks, in the order of the elements.
      nan_policy: only 'propagate'.
    Returns: floats of the default dtype, with the shape of `a`; one axis if `axis` is None.
    Raises: ValueError for another method or policy; NotImplementedError for the policies 'omit' and 'raise'.

    >>> rankdata(np.array([0, 2, 3, 2]))
    Array([1. , 2.5, 4. , 2.5], dtype=float32)
    """
    caller = "scipy.stats.rankdata"
    _propagates(caller, nan_policy)
    if method not in _METHODS:
        raise bad(caller, f"unknown method {method!r}", fix=f"use one of {', '.join(_METHODS)}.", exc=ValueError)
    return _rankdata(a, method, axis)


@one_launch
def _rankdata(a: ArrayLike, method: str, axis: int | None) -> Array:
    x = jnp.atleast_1d(array_like("scipy.stats.rankdata", a))
    axis = None if axis is None else canonical_axis(axis, x.ndim, "scipy.stats.rankdata")
    x = jnp.ravel(x) if axis is None else jnp.moveaxis(x, axis, -1)
    dtype, n = default_float(), x.shape[-1]
    place = jnp.broadcast_to(jnp.arange(n), x.shape)
    values, order = lax.sort((x, place), num_keys=1, is_stable=True)
    ranks = _ranks_of_sorted(values, place, method).astype(dtype)
    _, ranks = lax.sort((order, ranks), num_keys=1)
    ranks = jnp.where(jnp.any(x != x, -1, keepdims=True), number_of(dtype, np.nan), ranks)
    return ranks if axis is None else jnp.moveaxis(ranks, -1, axis)


def _ranks_of_sorted(x: Array, place: Array, method: str) -> Array:
    """Ranks of the sorted x[..., n]; `place` has the places of its elements, from 0."""
    starts, axis = _starts(x), x.ndim - 1
    if method == "ordinal":
        return place + 1
    if method == "dense":
        return jnp.cumsum(starts, -1)
    least = lax.cummax(jnp.where(starts, place, 0), axis=axis) + 1
    if method == "min":
        return least
    # A run ends where the next one starts.
    ends = jnp.concatenate([starts[..., 1:], jnp.ones_like(starts[..., :1])], -1)
    most = lax.cummin(jnp.where(ends, place, x.shape[-1]), axis=axis, reverse=True) + 1
    return most if method == "max" else 0.5 * (least + most).astype(default_float())


def sem(a: ArrayLike, axis: int | None = 0, ddof: int = 1, nan_policy: str = "propagate", *,
        keepdims: bool = False) -> Array:
    """Standard error of the mean along an axis: the standard deviation divided by the root of the number of elements.

    Args:
      a: array of numbers; axis: None for all elements; ddof: subtracted from the number of elements in the variance.
      nan_policy: 'omit' leaves NaNs out; 'propagate' does not.
    Raises: ValueError for another policy.

    >>> sem(np.array([1.0, 2.0, 3.0]))
    Array(0.57735026, dtype=float32)
    """
    if nan_policy not in ("propagate", "omit"):
        raise bad("scipy.stats.sem", f"nan_policy {nan_policy!r} is not supported",
                  fix="use 'propagate' or 'omit'.", exc=ValueError)
    return _sem(a, axis, ddof, nan_policy, keepdims)


@one_launch
def _sem(a: ArrayLike, axis: int | None, ddof: int, nan_policy: str, keepdims: bool) -> Array:
    x = jnp.asarray(promote_inexact("scipy.stats.sem", a)[0])
    if axis is not None:
        axis = canonical_axis(axis, x.ndim, "scipy.stats.sem")
    if nan_policy == "propagate":
        count = x.size if axis is None else x.shape[axis]
        deviation = jnp.std(x, axis, ddof=ddof, keepdims=keepdims)
    else:
        count = jnp.sum(~jnp.isnan(x), axis, keepdims=keepdims)
        deviation = jnp.nanstd(x, axis, ddof=ddof, keepdims=keepdims)
    return deviation / jnp.sqrt(count).astype(deviation.dtype)
