"""Heads for nodes, pairs of nodes and graphs, and graph autoencoders for link prediction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np

import xjax.numpy as jnp
from xjax.errors import bad
from xjax.nn import initializers
from xjax.typing import Array, ArrayLike
from xnn import rng as rng_lib
from xnn.checks import check_float, check_params, check_shape, type_text
from xnn.combinators import named, only
from xnn.compose import composite
from xnn.composites import combine, dict_of
from xnn.graph.layers.pooling import GraphPool, Reduction
from xnn.graph.structure.adjacency import as_edges
from xnn.graph.structure.masked import call_on_rows, node_mask
from xnn.inputs import Input, joined
from xnn.layer import Layer, as_layer, recorded
from xnn.losses import binary_cross_entropy
from xnn.models.configs import MLPConfig
from xnn.models.mlp import MLP

_GRAPH, _NO_GRAPH, _PAIRS = Input("graph"), Input("graph", None), Input("pairs", None, "int[m, 2], senders first")


def NodeHead(features: int, *, hidden: tuple[int, ...] = (), activation: str | Callable = "relu",
             dropout: float = 0.0) -> Layer:
    """An `MLP` on each node, for classes or values of nodes.  Shape: [n, f] -> [n, features].

    Args: features, hidden, activation, dropout: as in `MLPConfig`, but without hidden layers by default.
    Params: params of the `MLP`.
    """
    return MLP(MLPConfig(hidden, features, activation, dropout))


def GraphHead(features: int, *, pool: Reduction | Layer = "mean", hidden: tuple[int, ...] = (),
              activation: str | Callable = "relu", dropout: float = 0.0) -> Layer:
    """A pool and an `MLP` on each graph, for classes or values of graphs.  Shape: [n, f] -> [g, features].

    Args: pool: the reduction of `GraphPool`, or a layer such as `AttentionPool`; the others as in `NodeHead`.
    Inputs: graph.
    Params: ``{"pool": params of the pool, "mlp": params of the MLP}``.
    """
    pool = GraphPool(pool) if isinstance(pool, str) else as_layer(pool, "GraphHead['pool']")
    return named(pool=pool, mlp=MLP(MLPConfig(hidden, features, activation, dropout)))


@recorded()
def EdgeHead(how: Literal["dot", "bilinear", "mlp"] = "dot", features: int | None = None, *,
             hidden: tuple[int, ...] = (64,), activation: str | Callable = "relu", dropout: float = 0.0) -> Layer:
    """Scores or logits of edges, or of any pairs of nodes, from the rows a and b of their two nodes.

    Shape: x [n, f] -> [m], or [m, features]; in the shape from `init`, the number of rows of x replaces m.
    Args:
      how: "dot" is ``a b``; "bilinear" is ``a W b``; "mlp" is an `MLP` of the concatenation of a and b. Only "dot"
        gives both directions of a pair the same score.
      features: number of outputs of "bilinear" and "mlp"; None for one score, without an axis of outputs.
      hidden, activation, dropout: options of the MLP.
    Inputs:
      graph: its edges are the pairs if `pairs` is None.
      pairs: int[m, 2], the nodes of each pair, as sender and receiver of an edge.
    Params: ``()`` for "dot", ``{"w": [f, f]}`` or ``[f, f, features]`` for "bilinear", ``{"mlp": ...}`` for "mlp".
    Raises: ValueError for an unknown `how`, and for features of a dot product; TypeError for pairs of another form.

    >>> EdgeHead().apply((), jnp.array([[1.0, 2.0], [3.0, 4.0]]), pairs=[[0, 1], [1, 1]])
    Array([11., 25.], dtype=float32)
    """
    if how not in ("dot", "bilinear", "mlp") or (how == "dot" and features is not None):
        raise bad("EdgeHead", "unknown or contradictory options", {"how": repr(how), "features": features},
                  'pass "dot" without features, "bilinear" or "mlp".', ValueError)
    score = {"dot": lambda: _Bilinear(None, learned=False), "bilinear": lambda: _Bilinear(features),
             "mlp": lambda: _concatenated(features, MLP(MLPConfig(hidden, features or 1, activation, dropout)))}[how]()
    return _edge_head(score)


def _edge_head(score: Layer) -> Layer:
    def walk(visit, in_shape, shapes):
        in_shape = check_shape("EdgeHead", in_shape, min_rank=2)
        return visit(None, (in_shape, in_shape))

    def forward(call, x, values):
        x = check_float("EdgeHead", x, 2)
        return call(None, _ends(x, values["graph"], values["pairs"]))

    return combine("EdgeHead", {None: score}, walk, forward, only, inputs=(_NO_GRAPH, _PAIRS),
                   rebuild=lambda some: _edge_head(some[None]))


def _ends(x: Array, graph: object, pairs: ArrayLike | None) -> tuple[Array, Array]:
    """The rows of x at the two ends of each pair."""
    if pairs is None:
        if graph is None:
            raise bad("EdgeHead", "there are no pairs to score", {"graph": "None", "pairs": "None"},
                      fix="pass pairs=int[m, 2], or graph= to score its edges.")
        edges = as_edges(graph, x, "EdgeHead")
        return edges.at_senders(x), edges.at_receivers(x)
    pairs = jnp.asarray(pairs)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not jnp.issubdtype(pairs.dtype, np.integer):
        raise bad("EdgeHead", "`pairs` must have two nodes in each row", {"pairs": type_text(pairs)},
                  fix="pass int[m, 2]; np.stack([senders, receivers], 1) has this form.")
    one, other = (jnp.take(x, pairs[:, end], axis=0, mode="fill", fill_value=np.nan) for end in (0, 1))
    return one, other


def _Bilinear(features: int | None, learned: bool = True) -> Layer:
    """``a W b`` of pairs of rows, or ``a b`` if not learned."""

    def init(rng, in_shapes):
        (*lead, f), _ = in_shapes
        out = () if features is None else (features,)
        return (*lead, *out), {"w": initializers.glorot_uniform()(rng, (f, f, *out))} if learned else ()

    def apply(params, x, *, rng=None, train=False):
        a, b = x
        if not learned:
            return jnp.sum(a * b, -1)
        out = () if features is None else (features,)
        check_params("EdgeHead", params, a, w=(a.shape[-1], a.shape[-1], *out))
        equation = "mi,ij,mj->m" if features is None else "mi,ijk,mj->mk"
        return jnp.einsum(equation, a, params["w"], b)

    return Layer(init, apply, "bilinear" if learned else "dot")


def _concatenated(features: int | None, mlp: Layer) -> Layer:
    def score(layers, ends):
        y = layers.mlp(jnp.concatenate(ends, -1))
        return y[..., 0] if features is None else y

    return composite(score, "concatenated", mlp=mlp)


# -- autoencoders -------------------------------------------------------------------------------------------------


def GAE(encoder: Layer, decoder: Layer | None = None) -> Layer:
    """A graph autoencoder: logits for a link between two nodes (Kipf and Welling, 2016).

    The loss is computed from edges, and from other pairs without an edge::

        logits = model.apply(params, x, graph, pairs=np.concatenate([edges, others]))
        loss = reconstruction_loss(logits[:len(edges)], logits[len(edges):])

    The graph should not include held-out edges. ``model.layers["encoder"]`` computes only the codes.

    Shape: x [n, f] -> logits [m].
    Args: encoder: layer on graphs that computes the code of each node; decoder: layer that scores pairs;
      ``EdgeHead("dot")`` if None.
    Inputs: graph; pairs, int[m, 2], the graph's edges if None; other inputs of the encoder.
    Params: ``{"encoder", "decoder"}``.
    """
    return _autoencoder("GAE", {"encoder": as_layer(encoder, "GAE['encoder']"),
                                "decoder": as_layer(decoder or EdgeHead(), "GAE['decoder']")})


def VGAE(encoder: Layer, mean: Layer, log_variance: Layer, decoder: Layer | None = None) -> Layer:
    """A variational graph autoencoder: its codes are normal distributions (Kipf and Welling, 2016).

    In training a code is sampled, ``mean + exp(log_variance / 2) * noise``; in evaluation it is the mean. The loss, the
    negative bound on the likelihood as PyTorch Geometric computes it, for n nodes::

        logits, mean, log_variance = model.apply(params, x, graph, pairs=pairs, rng=key, train=True)
        loss = reconstruction_loss(...) + gaussian_kl(mean, log_variance, weights=graph.node_mask) / n

    PyTorch Geometric's encoder returns the logarithm of the standard deviation, half of ours, and bounds it by 10.

    Shape: x [n, f] -> (logits [m], mean [n, code], log_variance [n, code]).
    Args: encoder: the common layers; mean, log_variance: layers on the output of the encoder; decoder: as in `GAE`.
    Inputs: as in `GAE`.
    Params: ``{"encoder", "mean", "log_variance", "decoder"}``.
    Raises: TypeError in training without rng.
    """
    children = {"encoder": encoder, "mean": mean, "log_variance": log_variance, "decoder": decoder or EdgeHead()}
    return _autoencoder("VGAE", {key: as_layer(child, f"VGAE[{key!r}]") for key, child in children.items()})


def _autoencoder(name: str, children: Mapping[str, Layer]) -> Layer:
    is_variational = "mean" in children

    def walk(visit, in_shape, shapes):
        code = visit("encoder", in_shape)
        if not is_variational:
            return visit("decoder", code)
        code, other = visit("mean", code), visit("log_variance", code)
        return visit("decoder", code), code, other

    def forward(call, x, values):
        mask = node_mask(values["graph"], x)
        code = call_on_rows(call, "encoder", x, mask, values)
        if not is_variational:
            return call("decoder", code)
        mean, log_variance = (call_on_rows(call, key, code, mask, values) for key in ("mean", "log_variance"))
        code = mean
        if call.train:
            rng_lib.check_rng(name, call.rng)
            noise = rng_lib.normal(rng_lib.fold_in(call.rng, len(children)), mean.shape, mean.dtype)
            code = mean + jnp.exp(log_variance / 2) * noise
        return call("decoder", code), mean, log_variance

    inputs = joined(name, [[_GRAPH, _PAIRS], *(child.inputs for child in children.values())])
    return combine(name, children, walk, forward, dict_of(children), inputs=inputs,
                   rebuild=lambda some: _autoencoder(name, some))


def reconstruction_loss(edges: ArrayLike, others: ArrayLike, *, weights: ArrayLike | None = None,
                        other_weights: ArrayLike | None = None) -> Array:
    """Mean binary cross-entropy of the logits of edges, plus the mean for pairs without an edge.

    Args: edges, others: logits [m] of edges and [k] of other pairs; weights, other_weights: as in `xnn.losses`, such as
      `Graph.edge_mask`.
    """
    edges, others = check_float("reconstruction_loss", edges), check_float("reconstruction_loss", others)
    return (binary_cross_entropy(edges, jnp.ones_like(edges), weights=weights)
            + binary_cross_entropy(others, jnp.zeros_like(others), weights=other_weights))
