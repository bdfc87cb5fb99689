"""Metrics of scores and probabilities: areas under curves, calibration error, explained variance.

They need all examples in one call: collect the predictions, labels and weights of all batches, with their padding.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax.errors import bad
from xjax.typing import Array, ArrayLike
from xnn.checks import type_text
from xnn.losses.reduction import integer_labels, nan_unless, ratio, reduced, same_shape, wide


def roc_auc(scores: ArrayLike, labels: ArrayLike, *, weights: ArrayLike | None = None) -> Array:
    """Probability that a positive example has a higher score than a negative one; equal scores count half.

    Args:
      scores: floats [n], logits or probabilities; labels: [n], bools, or 0 and 1.
      weights: as in `xnn.losses`.
    Returns: float32[]; NaN unless there are examples of both kinds, if a score is NaN, and if a label is neither 0 nor
      1, such as -1. For several classes, use `vmap` over one-vs-rest
      scores and labels.

    >>> roc_auc(jnp.array([0.1, 0.4, 0.4, 0.8]), jnp.array([0, 0, 1, 1]))
    Array(0.875, dtype=float32)
    """
    scores, positive, negative, _ = _sorted("roc_auc", scores, labels, weights)
    below = _up_to(negative)
    first, last = (jnp.searchsorted(scores, scores, side) for side in ("left", "right"))
    wins = jnp.sum(positive * (below[first] + below[last]) / 2)
    return ratio(wins, jnp.sum(positive) * jnp.sum(negative), np.nan)


def average_precision(scores: ArrayLike, labels: ArrayLike, *, weights: ArrayLike | None = None) -> Array:
    """Mean over the positive examples of the precision among all scores at least as high; see `roc_auc`.

    This is the area under the step curve of precision and recall, as in scikit-learn.
    """
    scores, positive, _, weights = _sorted("average_precision", scores, labels, weights)
    first = jnp.searchsorted(scores, scores, "left")
    predicted, right = (jnp.sum(amounts) - _up_to(amounts)[first] for amounts in (weights, positive))
    precision = right / jnp.where(predicted == 0, 1, predicted)
    return ratio(jnp.sum(positive * precision), jnp.sum(positive), np.nan)


def calibration_error(probabilities: ArrayLike, labels: ArrayLike, *, bins: int = 15,
                      weights: ArrayLike | None = None) -> Array:
    """Expected calibration error: mean gap between confidence and accuracy, over bins of confidence (Guo et al., 2017).

    Args:
      probabilities: floats [..., classes]; the confidence is the largest of them.
      labels: integers [...].
      bins: number of intervals of equal width.
      weights: as in `xnn.losses`.
    """
    probabilities, _ = wide("calibration_error", probabilities, 1)
    labels = integer_labels("calibration_error", probabilities, labels)
    if bins < 1:
        raise bad("calibration_error", "there must be at least 1 bin", {"bins": bins}, "15 is common.", ValueError)
    confidence = jnp.max(probabilities, -1)
    right = jnp.argmax(probabilities, -1).astype(labels.dtype) == labels
    weights = reduced("calibration_error", jnp.ones_like(confidence), weights, None, confidence.dtype)
    confidence = jnp.where(weights == 0, 0, confidence)                     # padding may be NaN
    bin_of = jnp.clip(jnp.ceil(confidence * bins).astype(np.int32) - 1, 0, bins - 1)
    gaps = jnp.zeros(bins, confidence.dtype).at[bin_of].add(weights * (right.astype(confidence.dtype) - confidence))
    return ratio(jnp.sum(jnp.abs(gaps)), jnp.sum(weights), np.nan)


def r2(predictions: ArrayLike, targets: ArrayLike, *, weights: ArrayLike | None = None) -> Array:
    """Share of the variance of the targets that the predictions explain: 1 - squared errors / squared deviations.

    Args: predictions, targets: numbers of the same shape; weights: as in `xnn.losses`.
    Returns: at most 1; -inf or NaN if all targets are equal.
    """
    predictions, dtype = wide("r2", predictions)
    targets = same_shape("r2", predictions, targets, "targets")
    mean = reduced("r2", targets, weights, "mean", targets.dtype)
    squares = [reduced("r2", jnp.square(x), weights, "sum", x.dtype) for x in (predictions - targets, targets - mean)]
    return (1 - squares[0] / squares[1]).astype(dtype)


def _sorted(caller: str, scores: Array, labels: ArrayLike, weights: ArrayLike | None) -> tuple[Any, Any, Any, Any]:
    """(Scores in ascending order, weights of the positive examples, of the negative ones, of both)."""
    scores, _ = wide(caller, scores, 1)
    labels = same_shape(caller, scores, labels, "labels")
    if scores.ndim != 1:
        raise bad(caller, "the scores must be a vector", {"scores": type_text(scores)},
                  fix="reshape them to [n]; for several classes use vmap(roc_auc, (1, 1)).")
    weights = reduced(caller, jnp.ones_like(scores), weights, None, scores.dtype)
    is_wrong = (weights != 0) & (jnp.isnan(scores) | ((labels != 0) & (labels != 1)))
    labels = jnp.where(weights == 0, 0, nan_unless(~is_wrong, labels))           # padding may be NaN
    order = jnp.argsort(scores)
    labels, weights = labels[order], weights[order]
    return scores[order], weights * labels, weights * (1 - labels), weights


def _up_to(amounts: Array) -> Array:
    """Sums of the first 0, 1, ..., n amounts."""
    return jnp.pad(jnp.cumsum(amounts), (1, 0))
