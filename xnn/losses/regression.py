"""Losses for regression: mean squared and absolute errors, Huber loss, log-cosh. Both arrays have the same shape."""

from __future__ import annotations

import math
from typing import Any

import xjax.numpy as jnp
from xjax import custom_jvp
from xjax.typing import Array, ArrayLike
from xnn.losses.reduction import reduced, same_shape, weighted_only, wide


def mse(predictions: ArrayLike, targets: ArrayLike, *, weights: ArrayLike | None = None,
        reduction: str | None = "mean") -> Array:
    """Mean squared error: ``(prediction - target)^2``.

    >>> mse(jnp.array([1.0, 5.0]), jnp.array([0.0, 0.0]), weights=jnp.array([True, False]))
    Array(1., dtype=float32)
    """
    difference, dtype = _difference("mse", predictions, targets, weights)
    return reduced("mse", jnp.square(difference), weights, reduction, dtype)


def mae(predictions: ArrayLike, targets: ArrayLike, *, weights: ArrayLike | None = None,
        reduction: str | None = "mean") -> Array:
    """Mean absolute error: ``|prediction - target|``; the gradient is 0 where the two are equal."""
    difference, dtype = _difference("mae", predictions, targets, weights)
    return reduced("mae", jnp.abs(difference), weights, reduction, dtype)


def huber(predictions: ArrayLike, targets: ArrayLike, *, delta: float = 1.0, weights: ArrayLike | None = None,
          reduction: str | None = "mean") -> Array:
    """``d^2 / 2`` for differences up to delta, ``delta (|d| - delta / 2)`` for larger ones (Huber, 1964)."""
    difference, dtype = _difference("huber", predictions, targets, weights)
    size = jnp.abs(difference)
    inner = jnp.minimum(size, delta)
    return reduced("huber", inner * (size - inner / 2), weights, reduction, dtype)


def log_cosh(predictions: ArrayLike, targets: ArrayLike, *, weights: ArrayLike | None = None,
             reduction: str | None = "mean") -> Array:
    """``log cosh(prediction - target)``: close to `mse` / 2 for small differences, to `mae` - log 2 for large ones."""
    difference, dtype = _difference("log_cosh", predictions, targets, weights)
    return reduced("log_cosh", _log_cosh(difference), weights, reduction, dtype)


@custom_jvp
def _log_cosh(x: Array) -> Array:
    """``log cosh(x)``; for |x| < 1 as ``log(1 + sinh(x)^2) / 2``, where ``log(exp(x) + exp(-x)) - log 2`` cancels.

    There sinh is computed by its series, which takes less time than `expm1`.
    """
    size, squared = jnp.abs(x), jnp.square(x)
    series = 0.0
    for n in reversed(range(3, 18 if x.dtype == jnp.float64 else 10, 2)):
        series = (series + 1 / math.factorial(n)) * squared
    is_near = size < 1
    logs = jnp.log1p(jnp.where(is_near, jnp.square(x + x * series), jnp.exp(-2 * size)))
    return jnp.where(is_near, logs / 2, size + (logs - math.log(2)))


_log_cosh.defjvps(lambda dx, y, x: dx * jnp.tanh(x))


def _difference(caller: str, predictions: ArrayLike, targets: ArrayLike, weights: ArrayLike | None) -> tuple[Any, Any]:
    predictions, dtype = wide(caller, predictions)
    difference = predictions - same_shape(caller, predictions, targets, "targets")
    return weighted_only(difference, weights), dtype
