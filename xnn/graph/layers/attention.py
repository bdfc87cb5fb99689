"""Attention over the neighbours of a node: `GAT`, `GATv2` and `GraphTransformer`.

Edge features and weights are ignored, unless the layer is made with `edge_features`: the number of features of an edge,
which then enter the scores. If `edge_features` exceeds the graph's by one, the edge weights are appended as the last
feature. Softmax and mean are over the incoming edges of each node; a node without edges gets 0. All three
return an `AttentionLayer`, whose `attention_weights` returns the weights of the means.

Node features may be a dense array, a `CSR` or a SciPy sparse matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import xjax.numpy as jnp
from xjax import nn
from xjax.errors import bad
from xjax.typing import Array, Params
from xnn.checks import check_params, check_shape
from xnn.graph.layers.attention_layer import AttentionLayer, weights_of
from xnn.graph.layers.edge_inputs import edge_inputs
from xnn.graph.layers.params import affine, drawn, plus
from xnn.graph.layers.propagate import check_count, checked_features
from xnn.graph.structure.adjacency import as_edges
from xnn.graph.structure.edges import Edges
from xnn.layer import recorded
from xnn.layers.dropout import Dropout
from xnn.rng import Rng, split
from xnn.sparse import CSR


@recorded()
def GAT(n_out: int, heads: int = 1, *, concat: bool = True, edge_features: int | None = None, self_loops: bool = True,
        negative_slope: float = 0.2, dropout: float = 0.0, residual: bool = False, bias: bool = True,
        w_init: Callable | None = None) -> AttentionLayer:
    """Graph attention: each node gets an attention-weighted mean of its neighbours (Velickovic et al., 2018).

    The score of an edge from j to i is ``leaky_relu(a_sender . W x_j + a_receiver . W x_i + a_edge . W_edge e)``, in
    each head; the last term is PyTorch Geometric's.

    Shape: [n, n_in] -> [n, heads * n_out], or [n, n_out] without `concat`.
    Args:
      n_out: number of output features of each head.
      heads: number of heads.
      concat: whether to concatenate the heads; False takes their mean, as in the paper's last layer.
      edge_features: number of features of each edge; None ignores edge features and weights.
      self_loops: whether each node is a neighbour of itself, once: self loops of the graph are then ignored. The
        features of the added loop are the mean over the node's incoming edges.
      negative_slope: slope of the leaky ReLU for negative values.
      dropout: dropout rate of the attention weights in training.
      residual: whether to add a linear map of x.
      bias: whether to add a vector.
      w_init: initializer of matrices and of the vectors a; Glorot uniform if None.
    Inputs: graph: in any form that `as_edges` takes.
    Params: ``{"w": [n_in, heads * n_out], "a_sender", "a_receiver": [heads, n_out], "b"}``, with edge features also
      "w_edge" and "a_edge", with a residual "w_residual".
    Raises: ValueError for heads < 1, a rate outside [0, 1), and from apply for another number of edge features.
    """
    options = _Options("GAT", n_out, heads, concat, edge_features, self_loops, dropout, residual, bias)

    def shapes(n_in):
        per_head, edge = (heads, n_out), edge_features is not None
        return {"w": (n_in, heads * n_out), "a_sender": per_head, "a_receiver": per_head,
                "w_edge": (edge_features, heads * n_out) if edge else None, "a_edge": per_head if edge else None}

    def score(params, x, edges, features, own_features):
        values = options.by_head(x @ params["w"])
        sent, received = (_node_dot(values, params[name]) for name in ("a_sender", "a_receiver"))
        pair, own = edges.at_senders(sent) + edges.at_receivers(received), sent + received
        if features is not None:
            of_edge = _dot(options.by_head(params["w_edge"]), params["a_edge"])           # [edge_features, heads]
            pair, own = pair + features @ of_edge, own + own_features @ of_edge
        return values, nn.leaky_relu(pair, negative_slope), nn.leaky_relu(own, negative_slope)

    return _of_scores(options, shapes, score, w_init)


@recorded()
def GATv2(n_out: int, heads: int = 1, *, concat: bool = True, edge_features: int | None = None,
          self_loops: bool = True, shared_weights: bool = False, negative_slope: float = 0.2, dropout: float = 0.0,
          residual: bool = False, bias: bool = True, w_init: Callable | None = None) -> AttentionLayer:
    """`GAT` with scores whose ranking of the neighbours may depend on the receiver (Brody et al., 2022).

    The score of an edge from j to i is ``a . leaky_relu(W_sender x_j + W_receiver x_i + W_edge e)`` in each head.

    Shape: [n, n_in] -> [n, heads * n_out], or [n, n_out] without `concat`.
    Args:
      shared_weights: whether receivers use the same map as senders.
      bias: whether to add vectors to both maps and to the output.
      n_out, heads, concat, edge_features, self_loops, negative_slope, dropout, residual, w_init: as in `GAT`.
    Inputs: graph: in any form that `as_edges` takes.
    Params: ``{"w_sender", "w_receiver": [n_in, heads * n_out], "b_sender", "b_receiver": [heads * n_out], "a": [heads,
      n_out], "b"}``, without "w_receiver" and "b_receiver" if weights are shared; with edge features also "w_edge",
      with a residual "w_residual".
    Raises: as `GAT`.
    """
    options = _Options("GATv2", n_out, heads, concat, edge_features, self_loops, dropout, residual, bias)

    def shapes(n_in):
        w, b = (n_in, heads * n_out), (heads * n_out,) if bias else None
        of_receiver = {} if shared_weights else {"w_receiver": w, "b_receiver": b}
        return {"w_sender": w, "b_sender": b, **of_receiver, "a": (heads, n_out),
                "w_edge": None if edge_features is None else (edge_features, heads * n_out)}

    def score(params, x, edges, features, own_features):
        sent = options.by_head(affine(params, x, "sender"))
        received = sent if shared_weights else options.by_head(affine(params, x, "receiver"))
        pair, own = edges.at_senders(sent) + edges.at_receivers(received), sent + received
        if features is not None:
            pair = pair + options.by_head(features @ params["w_edge"])
            own = own + options.by_head(own_features @ params["w_edge"])
        scores, own_scores = (_dot(nn.leaky_relu(z, negative_slope), params["a"]) for z in (pair, own))
        return sent, scores, own_scores

    return _of_scores(options, shapes, score, w_init)


@recorded()
def GraphTransformer(n_out: int, heads: int = 1, *, concat: bool = True, edge_features: int | None = None,
                     residual: bool = True, beta: bool = False, dropout: float = 0.0, bias: bool = True,
                     w_init: Callable | None = None) -> AttentionLayer:
    """Dot-product attention of queries and keys over the neighbours of a node (Shi et al., 2021).

    The score of an edge from j to i is ``query_i . (key_j + W_edge e) / sqrt(n_out)``, its message is
    ``value_j + W_edge e``. PyTorch Geometric calls it TransformerConv.

    Shape: [n, n_in] -> [n, heads * n_out], or [n, n_out] without `concat`.
    Args:
      n_out, heads, concat, edge_features: as in `GAT`. No self loops are added to the graph.
      residual: whether to add a linear map of x.
      beta: whether a gate, computed from residual, mean and their difference, weights residual and mean; if False, they
        are added.
      dropout: dropout rate of the attention weights in training.
      bias: whether the maps of x add vectors.
      w_init: initializer of matrices; Glorot uniform if None.
    Inputs: graph: in any form that `as_edges` takes.
    Params: ``{"w_query", "w_key", "w_value": [n_in, heads * n_out], "b_query", "b_key", "b_value"}``, with a residual
      also "w_residual" and "b_residual", with edge features "w_edge", with beta "w_gate": [3 * features, 1].
    Raises: as `GAT`; ValueError for beta without a residual.
    """
    options = _Options("GraphTransformer", n_out, heads, concat, edge_features, False, dropout, residual, bias)
    if beta and not residual:
        raise bad("GraphTransformer", "beta=True needs residual=True", {"beta": True, "residual": False},
                  "change one of the two.", ValueError)

    def shapes(n_in):
        w, b = (n_in, heads * n_out), (heads * n_out,) if bias else None
        skip = {"w_residual": (n_in, options.features), "b_residual": (options.features,) if bias else None}
        return {"w_query": w, "b_query": b, "w_key": w, "b_key": b, "w_value": w, "b_value": b,
                **(skip if residual else {}), "w_gate": (3 * options.features, 1) if beta else None,
                "w_edge": None if edge_features is None else (edge_features, heads * n_out)}

    def scored(params, x, graph):
        x, edges = _checked(options, params, shapes, x, graph)
        query, key, value = (options.by_head(affine(params, x, name)) for name in ("query", "key", "value"))
        key, value = edges.at_senders(key), edges.at_senders(value)
        if edge_features is not None:
            edge = options.by_head(edge_inputs(options.name, edges, edge_features, x.dtype) @ params["w_edge"])
            key, value = key + edge, value + edge
        return x, edges, jnp.sum(edges.at_receivers(query) * key, -1) * n_out ** -0.5, value

    def attention_weights(params, x, graph):
        _, edges, scores, _ = scored(params, x, graph)
        return weights_of(edges, scores, None)

    def apply(params, x, graph, *, rng=None, train=False):
        x, edges, scores, value = scored(params, x, graph)
        attention = Dropout(dropout).apply((), edges.softmax(scores), rng=rng, train=train)
        y = options.joined(edges.sum(attention[..., None] * value))
        return _gated(params, y, affine(params, x, "residual")) if residual else y

    return AttentionLayer(_init_of(options, shapes, w_init), apply, options.name, attention_weights=attention_weights)


# -- parts ----------------------------------------------------------------------------------------------------------


class _Options(NamedTuple):
    """The options that the attention layers have in common."""

    name: str
    n_out: int
    heads: int
    concat: bool
    edge_features: int | None
    self_loops: bool
    dropout: float
    residual: bool
    bias: bool

    @property
    def features(self) -> int:
        """Total number of output features."""
        return self.n_out * self.heads if self.concat else self.n_out

    def by_head(self, x: Array) -> Array:
        """[..., heads * n_out] -> [..., heads, n_out]."""
        return jnp.reshape(x, (*x.shape[:-1], self.heads, self.n_out))

    def joined(self, x: Array) -> Array:
        """[n, heads, n_out] -> [n, features]."""
        return jnp.reshape(x, (x.shape[0], self.features)) if self.concat else jnp.mean(x, 1)


def _init_of(options: _Options, shapes: Callable, w_init: Callable | None) -> Callable:
    check_count(options.name, options.heads, 1, "heads")
    if options.edge_features is not None:
        check_count(options.name, options.edge_features, 1, "features of an edge")
    Dropout(options.dropout)                                              # checks the rate

    def init(rng, in_shape):
        in_shape = check_shape(options.name, in_shape, min_rank=2)
        return (*in_shape[:-1], options.features), drawn(rng, shapes(in_shape[-1]), w_init)

    return init


def _checked(options: _Options, params: Params, shapes: Callable, x: object,
             graph: object) -> tuple[Array | CSR, Edges]:
    x = checked_features(options.name, x)
    check_params(options.name, params, x, **shapes(x.shape[-1]))
    return x, as_edges(graph, x, options.name)


def _of_scores(options: _Options, shapes: Callable, score: Callable, w_init: Callable | None) -> AttentionLayer:
    """An attention layer, given the function that computes its scores.

    Args: score: ``(params, x, edges, features, own features) -> (values [n, heads, n_out], scores of the edges [e,
      heads], scores of self loops [n, heads])``.
    """
    def all_shapes(n_in):
        return {**shapes(n_in), "w_residual": (n_in, options.features) if options.residual else None,
                "b": (options.features,) if options.bias else None}

    def scored(params, x, graph):
        x, edges = _checked(options, params, all_shapes, x, graph)
        edges = _without_loops(edges) if options.self_loops else edges
        features = edge_inputs(options.name, edges, options.edge_features, x.dtype)
        own_features = None if features is None else edges.mean(features)
        return x, edges, *score(params, x, edges, features, own_features)

    def attention_weights(params, x, graph):
        _, edges, _, scores, own_scores = scored(params, x, graph)
        return weights_of(edges, scores, own_scores if options.self_loops else None)

    def apply(params, x, graph, *, rng=None, train=False):
        x, edges, values, scores, own_scores = scored(params, x, graph)
        y = options.joined(_mean(options, edges, values, scores, own_scores, rng, train))
        return plus(y + x @ params["w_residual"] if options.residual else y, params)

    return AttentionLayer(_init_of(options, all_shapes, w_init), apply, options.name,
                          attention_weights=attention_weights)


def _mean(options: _Options, edges: Edges, values: Array, scores: Array, own_scores: Array, rng: Rng,
          train: bool) -> Array:
    """[n, heads, n_out]: the mean of the neighbours' values, weighted by the softmax of the scores."""
    edges_rng, own_rng = split(rng, 2)
    drop = Dropout(options.dropout)
    # The division is at the nodes, not at the edges: it saves one gather, and several in the gradient.
    grown, own, total = edges.exp(scores, own_scores if options.self_loops else None)
    y = edges.product(values, drop.apply((), grown, rng=edges_rng, train=train))
    if own is None:
        total = jnp.where(total == 0, 1, total)
    else:
        y = y + drop.apply((), own, rng=own_rng, train=train)[..., None] * values
    return y / total[..., None]


def _without_loops(edges: Edges) -> Edges:
    others = ~edges.is_loop
    return edges.replace(mask=others if edges.mask is None else others & edges.mask)


def _gated(params: Params, y: Array, skip: Array) -> Array:
    """``y + skip``; with a gate ``gate * skip + (1 - gate) * y``."""
    if "w_gate" not in params:
        return y + skip
    gate = nn.sigmoid(jnp.concatenate([y, skip, y - skip], -1) @ params["w_gate"])
    return gate * skip + (1 - gate) * y


def _dot(x: Array, a: Array) -> Array:
    """[..., heads, n_out] . [heads, n_out] -> [..., heads]."""
    return jnp.sum(x * jnp.broadcast_to(a, x.shape), -1)


def _node_dot(x: Array, a: Array) -> Array:
    """`_dot` for nodes [n, heads, n_out], as a matrix product: its gradients are matrix products too, not long sums.

    Infinity or NaN in one head makes the results of that node NaN in all heads.
    """
    heads, n_out = a.shape
    own_head = np.eye(heads, dtype=bool)[:, None]
    columns = jnp.where(own_head, a[..., None], 0).reshape(heads * n_out, heads)
    return x.reshape(x.shape[0], heads * n_out) @ columns
