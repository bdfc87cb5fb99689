"""Metrics of predicted classes: accuracies, perplexity, the confusion matrix, precision, recall and F1."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax.errors import bad, check_choice
from xjax.typing import Array, ArrayLike
from xnn.checks import at_least_int32, type_text
from xnn.losses import cross_entropy
from xnn.losses.reduction import integer_labels, ratio, reduced, wide


def accuracy(logits: ArrayLike, labels: ArrayLike, *, weights: ArrayLike | None = None,
             reduction: str | None = "mean") -> Array:
    """Share of examples whose label has the largest logit; of equal logits, the first counts as the largest.

    Args:
      logits: floats [..., classes].
      labels: integers [...]; a label outside [0, classes) counts as wrong, and so does an example with a NaN logit.
      weights, reduction: as in `xnn.losses`.
    """
    return reduced("accuracy", _among_largest("accuracy", logits, labels, 1), weights, reduction, np.float32)


def top_k_accuracy(logits: ArrayLike, labels: ArrayLike, k: int = 5, *, weights: ArrayLike | None = None,
                   reduction: str | None = "mean") -> Array:
    """Share of examples whose label is among the k largest logits; equal logits count in order. See `accuracy`."""
    right = _among_largest("top_k_accuracy", logits, labels, k)
    return reduced("top_k_accuracy", right, weights, reduction, np.float32)


def _among_largest(caller: str, logits: ArrayLike, labels: ArrayLike, k: int) -> Array:
    """1.0 for each label among the k largest logits, else 0.0."""
    logits, _ = wide(caller, logits, 1)
    if not 1 <= k <= logits.shape[-1]:
        raise bad(caller, "there are fewer classes than k, or k is not positive",
                  {"logits": type_text(logits), "k": k}, f"pass k in [1, {logits.shape[-1]}].", ValueError)
    labels = integer_labels(caller, logits, labels)[..., None]
    classes = jnp.broadcast_to(jnp.arange(logits.shape[-1], dtype=labels.dtype), logits.shape)
    is_class = (labels >= 0) & (labels < logits.shape[-1])
    own = jnp.take_along_axis(logits, jnp.where(is_class, labels, 0), -1)
    before = (logits > own) | ((logits == own) & (classes < labels))
    can_be_right = is_class[..., 0] & ~jnp.any(jnp.isnan(logits), -1)      # NaN is neither larger nor smaller
    return (can_be_right & (jnp.sum(before, -1) < k)).astype(np.float32)


def perplexity(logits: ArrayLike, labels: ArrayLike, *, ignored_label: int | None = None,
               weights: ArrayLike | None = None) -> Array:
    """``exp`` of the mean cross-entropy of tokens; it is n for uniform predictions over n tokens."""
    return jnp.exp(_entropy("perplexity", logits, labels, ignored_label, weights))


def bits_per_token(logits: ArrayLike, labels: ArrayLike, *, ignored_label: int | None = None,
                   weights: ArrayLike | None = None) -> Array:
    """The mean cross-entropy of tokens with logarithms to the base 2."""
    return _entropy("bits_per_token", logits, labels, ignored_label, weights) / math.log(2)


def _entropy(caller: str, logits: Array, labels: Array, ignored_label: int | None, weights: Array | None) -> Array:
    logits, _ = wide(caller, logits, 1)                       # a mean in half precision has too few digits
    return cross_entropy(logits, labels, ignored_label=ignored_label, weights=weights)


def confusion_matrix(predictions: ArrayLike, labels: ArrayLike, classes: int, *,
                     weights: ArrayLike | None = None) -> Array:
    """Counts [classes, classes]: entry (i, j) is the number of examples with label i and prediction j.

    Matrices of several batches can be added. Pairs with a label or prediction outside [0, classes) are left out.
    Args: predictions, labels: integers of one shape; classes: number of classes; weights: as in `xnn.losses`.
    Returns: int32, or float32 with weights.

    >>> confusion_matrix(jnp.array([0, 1, 1]), jnp.array([0, 1, 0]), 2)
    Array([[1, 1],
           [0, 1]], dtype=int32)
    """
    predictions, labels = jnp.asarray(predictions), jnp.asarray(labels)
    integers = all(jnp.issubdtype(x.dtype, np.integer) for x in (predictions, labels))
    if not integers or predictions.shape != labels.shape:
        raise bad("confusion_matrix", "predictions and labels must be integers of the same shape",
                  {"predictions": type_text(predictions), "labels": type_text(labels)},
                  fix="pass argmax(logits, -1) as predictions.")
    dtype = np.int32 if weights is None else np.float32
    amounts = reduced("confusion_matrix", jnp.ones(labels.shape, np.float32), weights, None, dtype)
    pair = map(at_least_int32, (labels, predictions))
    rows, columns = (jnp.where((x >= 0) & (x < classes), x, classes) for x in pair)
    return jnp.zeros((classes, classes), dtype).at[rows, columns].add(amounts, mode="drop")


def precision(confusion: ArrayLike, *, average: str | None = "macro") -> Array:
    """Share of the predictions of each class that are right, from a `confusion_matrix`.

    Args:
      average: "macro" is the mean over classes; "weighted" is the mean weighted by the number of labels of each class;
        "micro" counts all classes together, which gives the accuracy; None returns one value for each class.
    A class that is never predicted has precision 0, as in scikit-learn.
    """
    right, predicted, labelled = _counts("precision", confusion, average)
    return _averaged(ratio(right, predicted, 0), labelled, average)


def recall(confusion: ArrayLike, *, average: str | None = "macro") -> Array:
    """Share of the labels of each class that are predicted; see `precision`. A class without labels has recall 0."""
    right, _, labelled = _counts("recall", confusion, average)
    return _averaged(ratio(right, labelled, 0), labelled, average)


def f1(confusion: ArrayLike, *, average: str | None = "macro") -> Array:
    """Harmonic mean of precision and recall of each class; see `precision`."""
    right, predicted, labelled = _counts("f1", confusion, average)
    return _averaged(ratio(2 * right, predicted + labelled, 0), labelled, average)


def _counts(caller: str, confusion: Array, average: str | None) -> tuple[Any, Any, Any]:
    """Numbers of right predictions, of predictions and of labels of each class; for "micro" their totals [1]."""
    confusion = jnp.asarray(confusion)
    if confusion.ndim != 2 or confusion.shape[0] != confusion.shape[1]:
        raise bad(caller, "a confusion matrix must be a square matrix", {"confusion": type_text(confusion)},
                  fix="pass confusion_matrix(predictions, labels, classes).")
    check_choice(caller, "average", average, ("macro", "micro", "weighted", None))
    counts = (jnp.diagonal(confusion), jnp.sum(confusion, 0), jnp.sum(confusion, 1))
    if average == "micro":
        counts = [jnp.sum(count)[None] for count in counts]
    right, predicted, labelled = (count.astype(np.float32) for count in counts)
    return right, predicted, labelled


def _averaged(values: Array, labelled: Array, average: str | None) -> Array:
    if average is None:
        return values
    return ratio(jnp.sum(values * labelled), jnp.sum(labelled), 0) if average == "weighted" else jnp.mean(values)
