"""Losses for embeddings: distances of pairs and triplets, and contrastive losses over the examples of a batch."""

from __future__ import annotations

from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax.errors import bad
from xjax.typing import Array, ArrayLike
from xnn.losses.classification import cross_entropy
from xnn.losses.reduction import reduced, same_shape, spread_weights, weighted_only, wide


def cosine_distance(x: ArrayLike, y: ArrayLike, *, epsilon: float = 1e-8, weights: ArrayLike | None = None,
                    reduction: str | None = "mean") -> Array:
    """``1 - x y / (|x| |y|)`` over the last axis, with norms of at least epsilon, so it is 1 for a vector of zeros.

    Shape: x and y are [..., features]; the losses are [...].
    """
    x, dtype = wide("cosine_distance", x, 1, weights)
    y = weighted_only(same_shape("cosine_distance", x, y, "vectors y"), weights)
    return reduced("cosine_distance", 1 - jnp.sum(_unit(x, epsilon) * _unit(y, epsilon), -1), weights, reduction, dtype)


def triplet(anchor: ArrayLike, positive: ArrayLike, negative: ArrayLike, *, margin: float = 1.0,
            weights: ArrayLike | None = None, reduction: str | None = "mean") -> Array:
    """``max(0, |anchor - positive| - |anchor - negative| + margin)`` with Euclidean norms (Schroff et al., 2015).

    Shape: the three inputs are [..., features]; the losses are [...]. The distance of equal vectors has gradient 0.
    """
    anchor, dtype = wide("triplet", anchor, 1)
    near, far = (_norm(weighted_only(anchor - same_shape("triplet", anchor, other, name), weights))
                 for other, name in ((positive, "positives"), (negative, "negatives")))
    return reduced("triplet", jnp.maximum(near - far + margin, 0), weights, reduction, dtype)


def info_nce(queries: ArrayLike, keys: ArrayLike, *, temperature: float = 0.1, symmetric: bool = False,
             weights: ArrayLike | None = None, reduction: str | None = "mean") -> Array:
    """Cross-entropy of the cosine similarities of query i to all keys; key i is the right one (van den Oord, 2018).

    Args:
      queries, keys: floats [n, features].
      temperature: divides the similarities.
      symmetric: whether to average with the same loss from keys to queries, as in CLIP.
      weights, reduction: as in all losses; the losses are [n]. An example of weight 0, such as padding, is also
        excluded from the wrong keys of the other examples.
    """
    queries, dtype = _pairs("info_nce", queries, keys, temperature)
    keys = same_shape("info_nce", queries, keys, "keys")
    is_used = _is_used("info_nce", queries, weights)
    queries, keys = (_unit(jnp.where(is_used[:, None], x, 0)) for x in (queries, keys))
    similar = queries @ keys.T / temperature
    right = jnp.arange(len(queries))
    losses = _of_used(similar, right, is_used)
    if symmetric:
        losses = (losses + _of_used(similar.T, right, is_used)) / 2
    return reduced("info_nce", losses, weights, reduction, dtype)


def nt_xent(x: ArrayLike, y: ArrayLike, *, temperature: float = 0.5, weights: ArrayLike | None = None,
            reduction: str | None = "mean") -> Array:
    """SimCLR's loss for two views x, y of each example (Chen et al., 2020).

    It is the cross-entropy of the similarities of a view to the other 2n - 1 views; the other view of the same example
    is the right one.

    Args:
      x, y: floats [n, features].
      temperature: divides the cosine similarities.
      weights, reduction: as in all losses; the losses are [n], the mean over the two views. The views of an example of
        weight 0, such as padding, are also excluded from the wrong views of the other examples.
    """
    x, dtype = _pairs("nt_xent", x, y, temperature)
    is_used = jnp.tile(_is_used("nt_xent", x, weights), 2)
    views = jnp.concatenate([x, same_shape("nt_xent", x, y, "vectors y")])
    views = _unit(jnp.where(is_used[:, None], views, 0))
    n = len(x)
    similar = jnp.where(jnp.eye(2 * n, dtype=bool), -np.inf, views @ views.T / temperature)
    losses = _of_used(similar, (jnp.arange(2 * n) + n) % (2 * n), is_used)
    return reduced("nt_xent", (losses[:n] + losses[n:]) / 2, weights, reduction, dtype)


def _is_used(caller: str, x: Array, weights: ArrayLike | None) -> Array:
    """bool [n]: whether an example has a weight other than 0."""
    return jnp.ones(len(x), bool) if weights is None else spread_weights(caller, x[:, 0], weights) != 0


def _of_used(similar: Array, right: Array, is_used: Array) -> Array:
    """Cross-entropy of each row with the label `right`, over that column and the used columns."""
    is_right = jnp.arange(similar.shape[1])[None] == right[:, None]
    return cross_entropy(jnp.where(is_used[None] | is_right, similar, -np.inf), right, reduction=None)


def _pairs(caller: str, x: Array, y: Array, temperature: float) -> tuple[Any, Any]:
    if np.ndim(x) != 2:
        raise bad(caller, "the inputs must be matrices, one row for each example", {"x": x, "y": y},
                  fix="pass arrays [n, features].")
    if isinstance(temperature, int | float) and temperature <= 0:
        raise bad(caller, "the temperature must be positive", {"temperature": temperature},
                  "0.1 is common.", ValueError)
    return wide(caller, x, 2)


def _norm(x: Array, epsilon: float = 0.0) -> Array:
    """Euclidean norm over the last axis, at least epsilon; its gradient at 0 is 0."""
    return jnp.maximum(jnp.linalg.norm(x, axis=-1), epsilon)


def _unit(x: Array, epsilon: float = 1e-8) -> Array:
    return x / jnp.broadcast_to(_norm(x, epsilon)[..., None], x.shape)
