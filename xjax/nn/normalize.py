"""Functions along an axis: softmax and its logarithm, standardize, and one_hot."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core import dtypes
from xjax.core.calls import constrained
from xjax.core.dtypes import accumulator_dtype
from xjax.core.errors import check_choice, warn
from xjax.nn.logsumexp import Axis, exponent_shift
from xjax.numpy.promote import array_like, promote_inexact
from xjax.numpy.selection import operand
from xjax.ops.checks import canonical_axis, static_int
from xjax.runtime.jit import Inline, library_jit
from xjax.runtime.one_launch import one_launch
from xjax.transforms.custom_jvp import custom_jvp
from xjax.typing import Array, ArrayLike, DTypeLike


def _static(axis: Axis) -> int | tuple[int, ...] | None:
    """An axis argument in a hashable form."""
    return axis if axis is None or isinstance(axis, int) else (
        tuple(axis) if isinstance(axis, Sequence) else operator.index(axis))


def softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Array:
    """``exp(x) / sum(exp(x))`` along `axis`, without overflow.

    Args:
      x: number[...]; axis: one, several or (None) all axes.
      where: bool, broadcasts to x: elements to include; the others get 0, even if all are excluded.
    """
    return _softmax(array_like("nn.softmax", x), _static(axis), where)


def _softmax_rule(axis: Axis, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    (x, where), (dx, _) = primals, tangents
    y = _softmax(x, axis, where)
    along = jnp.sum(y * dx, axis, where=where, keepdims=True, dtype=accumulator_dtype(y.dtype))
    return y, (y.astype(along.dtype) * (dx.astype(along.dtype) - along)).astype(y.dtype)


@functools.partial(custom_jvp, nondiff_argnums=(1,))
def _softmax(x: ArrayLike, axis: Axis, where: ArrayLike | None) -> Array:
    return _softmax_program(x, where, axis=axis)


_softmax.defjvp(_softmax_rule)


@library_jit(static_argnames=("axis",), inline=Inline.JAX_EARLY)
def _softmax_program(x: Array, where: Array | None, axis: Axis) -> Array:
    x = operand("nn.softmax", x)
    if where is not None:
        x = jnp.where(where, x, -np.inf)
    unscaled = jnp.exp(x - exponent_shift("nn.softmax", x, axis))
    total = jnp.sum(unscaled, axis, where=where, keepdims=True, dtype=accumulator_dtype(unscaled.dtype))
    y = (unscaled.astype(total.dtype) / total).astype(unscaled.dtype)
    return y if where is None else jnp.where(where, y, 0)


@one_launch
def log_softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Array:
    """``log(softmax(x))`` along `axis`, without overflow; -inf where the mask `where` is false."""
    return _log_softmax(array_like("nn.log_softmax", x), where, axis=_static(axis))


@library_jit(static_argnames=("axis",))
def _log_softmax(x: Array, where: Array | None, axis: Axis) -> Array:
    x = operand("nn.log_softmax", x)
    if where is not None:
        x = jnp.where(where, x, -np.inf)
    shifted, = promote_inexact("nn.log_softmax", x - exponent_shift("nn.log_softmax", x, axis))
    total = jnp.sum(jnp.exp(shifted), axis, where=where, keepdims=True, dtype=accumulator_dtype(shifted.dtype))
    y = (shifted.astype(total.dtype) - jnp.log(total)).astype(shifted.dtype)
    return y if where is None else jnp.where(where, y, -np.inf)


@one_launch
def standardize(x: ArrayLike, axis: Axis = -1, mean: ArrayLike | None = None, variance: ArrayLike | None = None,
                epsilon: ArrayLike = 1e-5, where: ArrayLike | None = None, *, algorithm: str = "fast") -> Array:
    """``(x - mean) / sqrt(variance + epsilon)`` along `axis`.

    Args:
      mean, variance: None: computed from x over `axis` (from the elements where `where` is true).
      algorithm: of the variance: "fast", mean(x**2) - mean(x)**2, loses digits if the mean is large; "stable",
        mean((x - mean)**2), does not.
    """
    check_choice("nn.standardize", "algorithm", algorithm, ("fast", "stable"))
    x = array_like("nn.standardize", x)
    return _standardize(x, mean, variance, epsilon, where, axis=_static(axis), algorithm=algorithm)


@library_jit(static_argnames=("axis", "algorithm"))
def _standardize(x: Array, mean: Array | None, variance: Array | None, epsilon: Array, where: Array | None, axis: Axis,
                 algorithm: str) -> Array:
    args = [v for v in (x, mean, variance) if v is not None]
    wide = accumulator_dtype(x.dtype)
    if wide != x.dtype:                                 # squares of numbers above 256 overflow float16
        x = x.astype(wide)
        return _standardize(x, mean, variance, epsilon, where, axis, algorithm).astype(jnp.result_type(*args, epsilon))
    if mean is None:
        x, = promote_inexact("nn.standardize", x)
        mean = jnp.mean(x, axis, keepdims=True, where=where)
    if variance is None and algorithm == "stable":
        variance = jnp.mean(jnp.square(x - mean), axis, keepdims=True, where=where)
    elif variance is None:
        variance = jnp.mean(jnp.square(x), axis, keepdims=True, where=where) - jnp.square(mean)
        variance = jnp.clip(variance, 0)                # cancellation must not make it negative
    return jnp.subtract(x, mean) * lax.rsqrt(variance + epsilon)


def one_hot(x: ArrayLike, num_classes: int, *, dtype: DTypeLike | None = None, axis: int = -1,
            out_sharding: object = None) -> Array:
    """Integers as vectors with a single 1: ``y[..., c] = (x[...] == c)``; classes out of range give zeros.

    Args:
      x: int[...]; num_classes: static int; dtype: of the result, default float.
      axis: position of the axis of classes in the result.
    """
    if out_sharding is not None:
        return constrained("nn.one_hot", one_hot(x, num_classes, dtype=dtype, axis=axis), out_sharding)
    num_classes = static_int(num_classes, "num_classes", "nn.one_hot")
    x = jnp.asarray(x)
    if not dtypes.is_int(x.dtype):
        warn(f"nn.one_hot: x is {x.dtype.name}, not an integer. fix: convert it with x.astype(int).",
             DeprecationWarning)
    dtype = dtypes.canonicalize_dtype(float) if dtype is None else dtypes.user_dtype(dtype, "nn.one_hot")
    return _one_hot(x, num_classes, dtype, axis=canonical_axis(axis, x.ndim + 1, "nn.one_hot"))


@library_jit(static_argnames=("num_classes", "dtype", "axis"))
def _one_hot(x: Array, num_classes: int, dtype: np.dtype, axis: int) -> Array:
    shape = [1] * (x.ndim + 1)
    shape[axis] = num_classes
    classes = lax.broadcasted_iota(x.dtype, shape, axis)
    x = lax.convert_element_type(x, classes.dtype)          # 64 bits become 32 without x64, as in JAX
    return lax.convert_element_type(lax.eq(lax.expand_dims(x, (axis,)), classes), dtype)
