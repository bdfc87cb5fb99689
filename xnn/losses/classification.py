"""Losses for classification: cross-entropies of logits, focal and hinge losses, KL divergence."""

from __future__ import annotations

import numpy as np

import xjax.numpy as jnp
from xjax import nn
from xjax.errors import bad
from xjax.typing import Array, ArrayLike
from xnn.losses.reduction import integer_labels, is_share, nan_unless, reduced, same_shape, weighted_only, wide


def cross_entropy(logits: ArrayLike, labels: ArrayLike, *, label_smoothing: float = 0.0,
                  ignored_label: int | None = None, weights: ArrayLike | None = None,
                  reduction: str | None = "mean") -> Array:
    """``-log softmax(logits)[label]``, or ``-sum(labels log softmax(logits))`` if labels are probabilities.

    Args:
      logits: floats [..., classes].
      labels: integers [...], or floats [..., classes]. An integer outside [0, classes) gives NaN.
      label_smoothing: share of each label that is spread over all classes (Szegedy et al., 2016).
      ignored_label: an integer label that gets weight 0, such as -100.
      weights, reduction: as in all losses of this package; the losses have the shape [...].

    >>> cross_entropy(jnp.array([[2.0, 0.0], [0.0, 9.0]]), jnp.array([0, -100]), ignored_label=-100).round(4)
    Array(0.1269, dtype=float32)
    """
    logits, dtype = wide("cross_entropy", logits, 1)
    if not 0 <= label_smoothing <= 1:
        raise bad("cross_entropy", "label_smoothing must be in [0, 1]", {"label_smoothing": label_smoothing},
                  "0.1 is common.", ValueError)
    if jnp.issubdtype(jnp.asarray(labels).dtype, np.floating):
        if ignored_label is not None:
            raise bad("cross_entropy", "`ignored_label` needs integer labels, not probabilities",
                      {"ignored_label": ignored_label}, fix="pass weights instead.")
        labels = same_shape("cross_entropy", logits, labels, "labels", "class numbers must be integers: "
                            "labels.astype('int32'); probabilities need the shape of the logits.")
        log_p = nn.log_softmax(weighted_only(logits, weights))
        losses = -jnp.sum(_product_or_0(weighted_only(labels, weights), log_p), -1)
    else:
        labels = integer_labels("cross_entropy", logits, labels)
        if ignored_label is not None:
            counts = labels != ignored_label
            labels, weights = jnp.where(counts, labels, 0), _both("cross_entropy", counts, weights)
        log_p = nn.log_softmax(weighted_only(logits, weights))
        losses = -_at_label(log_p, labels)
    if label_smoothing:
        losses = (1 - label_smoothing) * losses - label_smoothing * jnp.mean(log_p, -1)
    return reduced("cross_entropy", losses, weights, reduction, dtype)


def binary_cross_entropy(logits: ArrayLike, labels: ArrayLike, *, positive_weight: float = 1.0,
                         weights: ArrayLike | None = None, reduction: str | None = "mean") -> Array:
    """``-y log sigmoid(x) - (1 - y) log sigmoid(-x)`` of logits x and labels y, which may be probabilities.

    Args:
      logits: floats; labels: floats, integers or bools of the same shape. A label outside [0, 1] gives NaN.
      positive_weight: weight of the first term, for rare positives.
      weights, reduction: as in all losses; the losses have the shape of the logits.
    """
    logits, dtype = wide("binary_cross_entropy", logits, weights=weights)
    labels = weighted_only(same_shape("binary_cross_entropy", logits, labels, "labels"), weights)
    losses = positive_weight * labels * nn.softplus(-logits) + (1 - labels) * nn.softplus(logits)
    return reduced("binary_cross_entropy", nan_unless(is_share(labels), losses), weights, reduction, dtype)


def focal(logits: ArrayLike, labels: ArrayLike, *, gamma: float = 2.0, alpha: float | None = 0.25,
          weights: ArrayLike | None = None, reduction: str | None = "mean") -> Array:
    """Binary cross-entropy times ``(1 - p)^gamma``, where p is the probability of the label (Lin et al., 2017).

    Args:
      logits, labels: as in `binary_cross_entropy`.
      gamma: larger values reduce the loss of well-classified examples; 0 gives the cross-entropy.
      alpha: weight of positives, and 1 - alpha that of negatives; None: both weights are 1. The defaults are those of
        the paper.
    """
    logits, dtype = wide("focal", logits, weights=weights)
    labels = weighted_only(same_shape("focal", logits, labels, "labels"), weights)
    share, other = (1.0, 1.0) if alpha is None else (alpha, 1 - alpha)
    # Powers of sigmoids are computed by exp and log, because the derivative of a power at 0 can be infinite.
    losses = (share * labels * nn.softplus(-logits) * jnp.exp(gamma * nn.log_sigmoid(-logits))
              + other * (1 - labels) * nn.softplus(logits) * jnp.exp(gamma * nn.log_sigmoid(logits)))
    return reduced("focal", nan_unless(is_share(labels), losses), weights, reduction, dtype)


def hinge(scores: ArrayLike, signs: ArrayLike, *, margin: float = 1.0, weights: ArrayLike | None = None,
          reduction: str | None = "mean") -> Array:
    """``max(0, margin - sign * score)`` for two classes with the signs 1 and -1, as in a support vector machine.

    Args:
      scores: floats; signs: numbers of the same shape. A number other than 1 and -1, such as a label 0, gives NaN.
      weights, reduction: as in all losses.
    """
    scores, dtype = wide("hinge", scores, weights=weights)
    signs = weighted_only(same_shape("hinge", scores, signs, "signs"), weights)
    losses = nan_unless(jnp.abs(signs) == 1, nn.relu(margin - signs * scores))
    return reduced("hinge", losses, weights, reduction, dtype)


def kl_divergence(log_q: ArrayLike, p: ArrayLike, *, weights: ArrayLike | None = None,
                  reduction: str | None = "mean") -> Array:
    """``sum(p (log p - log q))`` of a distribution p and predictions log q; a term is 0 where p is 0.

    Args:
      log_q: floats [..., classes], such as log_softmax(logits); p: probabilities of the same shape.
      weights, reduction: as in all losses; the losses have the shape [...]. (PyTorch calls our mean "batchmean".)
    """
    log_q, dtype = wide("kl_divergence", log_q, 1, weights)
    p = weighted_only(same_shape("kl_divergence", log_q, p, "probabilities"), weights)
    log_p = jnp.log(jnp.where(p > 0, p, 1))
    return reduced("kl_divergence", jnp.sum(_product_or_0(p, log_p - log_q), -1), weights, reduction, dtype)


def _at_label(log_p: Array, labels: Array) -> Array:
    """Entries at the labels; NaN for a label outside [0, classes), because a negative index counts from the end."""
    classes = log_p.shape[-1]
    at = jnp.where((labels >= 0) & (labels < classes), labels, 0)
    values = jnp.take_along_axis(log_p, at[..., None], -1)[..., 0]
    return jnp.where((labels >= 0) & (labels < classes), values, np.nan)


def _product_or_0(p: Array, x: Array) -> Array:
    """p x, and 0 where p is 0, also for infinite x."""
    return jnp.where(p == 0, 0, p * jnp.where(p == 0, 0, x))


def _both(caller: str, counts: Array, weights: Array | None) -> Array:
    """The weights, 0 where `counts` is false."""
    return counts if weights is None else reduced(caller, counts.astype(np.float32), weights, None, np.float32)
