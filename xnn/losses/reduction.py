"""The common part of all losses: checks of arrays, and the reduction to one number.

Losses are computed in float32 or wider, and returned in the dtype of the predictions.
"""

from __future__ import annotations

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.errors import bad, check_choice
from xjax.typing import Array, ArrayLike, DTypeLike
from xnn.checks import at_least_int32, check_float, type_text
from xnn.precision import at_least_float32

REDUCTIONS = ("mean", "sum", None)


def reduced(caller: str, losses: ArrayLike, weights: ArrayLike | None, reduction: str | None,
            dtype: DTypeLike) -> Array:
    """The losses times their weights, reduced to one number, or unreduced for reduction None.

    Args:
      losses: one number for each example or position.
      weights: bools or numbers with the shape of the losses, or of its leading axes; None: all 1. A loss of weight 0 is
        left out even if it is NaN, and so is its gradient.
      reduction: "mean" divides the sum by the sum of the weights, and is 0 if the sum of the weights is 0; "sum"; None.
      dtype: dtype of the result.
    """
    check_choice(caller, "reduction", reduction, REDUCTIONS)
    if weights is None:
        total = {"mean": jnp.mean, "sum": jnp.sum, None: lambda x: x}[reduction]
        return total(losses).astype(dtype)
    weights = spread_weights(caller, losses, weights)
    losses = jnp.where(weights == 0, 0, losses) * weights
    if reduction is None:
        return losses.astype(dtype)
    total = jnp.sum(losses)
    if reduction == "mean":
        total = ratio(total, jnp.sum(weights), 0)
    return total.astype(dtype)


def spread_weights(caller: str, losses: ArrayLike, weights: ArrayLike) -> Array:
    """Weights broadcast from the leading axes of the losses to their shape, in the dtype of the losses."""
    weights = jnp.asarray(weights)
    if losses.shape[:weights.ndim] != weights.shape:
        raise bad(caller, "the weights do not have the shape of the losses",
                  {"weights": type_text(weights), "losses": type_text(losses)},
                  fix="pass one weight for each loss, or for each index of its leading axes.")
    spread = jnp.reshape(weights, weights.shape + (1,) * (losses.ndim - weights.ndim))
    return jnp.broadcast_to(spread, losses.shape).astype(losses.dtype)


def wide(caller: str, x: ArrayLike, min_rank: int = 0, weights: ArrayLike | None = None) -> tuple[Array, np.dtype]:
    """(x in float32 or wider, dtype of x).  Raises: TypeError unless x is an array of floats.

    Args: weights: those of the losses; x has no gradient where they are 0, see `weighted_only`.
    """
    x = check_float(caller, x, min_rank)
    return weighted_only(x.astype(at_least_float32(x.dtype)), weights), x.dtype


def weighted_only(x: Array, weights: ArrayLike | None) -> Array:
    """x itself, but with gradient 0 where the weight of the loss is 0.

    Without it the gradient is 0 times the derivative of the loss, which is NaN for a missing target.
    Args: weights: as in `reduced`, or None; those of another shape are left to its check.
    """
    if weights is None:
        return x
    weights = jnp.asarray(weights)
    if x.shape[:weights.ndim] != weights.shape:
        return x
    counts = jnp.reshape(weights.astype(bool), weights.shape + (1,) * (x.ndim - weights.ndim))
    return jnp.where(jnp.broadcast_to(counts, x.shape), x, lax.stop_gradient(x))


def nan_unless(valid: Array, x: Array) -> Array:
    """x, and NaN where it is not valid: a label of another kind would give a wrong number without a word."""
    return jnp.where(valid, x, np.nan)


def ratio(one: Array, other: Array, otherwise: float) -> Array:
    """``one / other``, and `otherwise` where other is 0. Nothing is divided by 0, which would stop checked mode."""
    return jnp.where(other == 0, otherwise, one / jnp.where(other == 0, 1, other))


def is_share(labels: Array) -> Array:
    """Whether labels are probabilities, up to the rounding of a mean of labels in half precision."""
    return (labels > -0.01) & (labels < 1.01)


def same_shape(caller: str, x: ArrayLike, other: ArrayLike, name: str,
               fix: str = "give them the same shape: x[:, None] adds an axis, x[:, 0] drops one.") -> Array:
    """`other` in the dtype of x.  Raises: TypeError for another shape, because broadcasting would hide a mistake."""
    other = jnp.asarray(other)
    if other.shape != x.shape:
        raise bad(caller, f"the {name} do not have the shape of the predictions",
                  {"predictions": type_text(x), name: type_text(other)},
                  fix=fix)
    return other.astype(x.dtype)


def integer_labels(caller: str, logits: ArrayLike, labels: ArrayLike) -> Array:
    """The labels in int32 or wider.

    Raises: TypeError unless they are integers with the logits' shape without classes.
    """
    labels = jnp.asarray(labels)
    if not jnp.issubdtype(labels.dtype, np.integer) or labels.shape != logits.shape[:-1]:
        raise bad(caller, "the labels do not match the logits",
                  {"logits": type_text(logits), "labels": type_text(labels),
                   "expected": f"integers [{','.join(map(str, logits.shape[:-1]))}]"},
                  fix="pass one class number for each row of logits.")
    return at_least_int32(labels)
