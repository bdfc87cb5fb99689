"""`AttentionLayer`: a layer that can return the attention of each node to each of its neighbours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from xjax.typing import ArrayLike
from xnn.graph.structure.edges import Edges
from xnn.layer import Layer


class AttentionWeights(NamedTuple):
    """The attention weights of a layer, without dropout; `edges` and `own` of each receiving node sum to 1.

    Attributes:
      edges: float[e, heads], in the order of the graph's edges; 0 for padding edges, and for self loops of the graph if
        the layer adds its own.
      own: float[n, heads], for the self loop that the layer adds to each node; None if it adds none.
    """

    edges: Any
    own: Any


_GIVEN: Any = None                      # each constructor gives it; fields after optional ones need a default


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class AttentionLayer(Layer):
    """A `Layer` that can also return its attention weights; `GAT`, `GATv2` and `GraphTransformer` return one.

    Attributes:
      attention_weights: ``(params, x, graph) -> AttentionWeights``, for `apply` in evaluation: x [n, n_in], the graph
        in any form that `as_edges` takes. It is differentiable. In a model, call it on a single layer, with the input
        of that layer: ``model.layers["layer_0"].attention_weights(params["layer_0"], x, graph)``.

    >>> from xnn.graph import GAT, Graph
    >>> from xjax import random
    >>> graph = Graph.from_edges([0, 1], [1, 0], [[1.0], [1.0]])
    >>> layer = GAT(2, heads=3)
    >>> _, params = layer.init(random.key(0), graph.nodes.shape)
    >>> layer.attention_weights(params, graph.nodes.astype("float32"), graph).edges
    Array([[0.5, 0.5, 0.5],
           [0.5, 0.5, 0.5]], dtype=float32)
    """

    attention_weights: Callable[..., AttentionWeights] = _GIVEN


def weights_of(edges: Edges, scores: ArrayLike, own_scores: ArrayLike | None) -> AttentionWeights:
    """The softmax of the scores of the edges, and of the self loops unless `own_scores` is None."""
    if own_scores is None:
        return AttentionWeights(edges.softmax(scores), None)
    return AttentionWeights(*edges.softmax(scores, own=own_scores))
