"""Pooling: reduction of nodes to a row for each graph (`GraphPool` and others), and selection of nodes (`TopKPool`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

import xjax.numpy as jnp
from xjax import nn
from xjax.errors import bad, check_choice
from xjax.nn import initializers
from xjax.typing import Array, ArrayLike
from xnn.checks import check_float, check_params, check_shape, type_text
from xnn.combinators import only
from xnn.composites import combine, dict_of
from xnn.covariance.fixed import on_nodes
from xnn.graph.structure.graph import Graph
from xnn.graph.structure.groups import Groups, as_groups, graphs_shape
from xnn.graph.structure.masked import MaskedGraph, call_on_rows, mask_graph, node_mask
from xnn.inputs import Input, joined
from xnn.layer import Layer, as_layer, recorded
from xnn.layers.cells import LSTMCell
from xnn.layers.dense import Dense
from xnn.precision import at_least_float32

Reduction = Literal["sum", "mean", "max", "min", "std"]
_REDUCTIONS = {"sum": Groups.sum, "mean": Groups.mean, "max": Groups.max, "min": Groups.min, "std": Groups.std}


@recorded()
def GraphPool(how: Reduction = "mean") -> Layer:
    """Reduces the nodes of each graph to a row: sum, mean, maximum, minimum or standard deviation.

    Shape: x [n, f] -> [g, f]; in the shape from `init`, the number of rows of x replaces the number of graphs.

    Args: how: "sum", "mean", "max", "min" or "std".
    Inputs: graph: the batch; padding nodes are ignored, and a graph without nodes gets zeros.
    Params: ``()``.  Raises: ValueError for an unknown reduction.

    >>> from xnn.graph import batch
    >>> graph = batch([Graph.from_edges([0], [1]), Graph.from_edges([0], [1])])
    >>> GraphPool("sum").apply((), jnp.array([[1.0], [2.0], [3.0], [4.0]]), graph)
    Array([[3.],
           [7.]], dtype=float32)
    """
    check_choice("GraphPool", "reduction", how, _REDUCTIONS)

    def init(rng, in_shape):
        in_shape = check_shape("GraphPool", in_shape, min_rank=2)
        return graphs_shape(in_shape, *in_shape[1:]), ()

    def apply(params, x, graph, *, rng=None, train=False):
        x = check_float("GraphPool", x, 2)
        return _REDUCTIONS[how](as_groups(graph, x, "GraphPool"), x)

    def kernel_rule(kernel, graph):
        return on_nodes(kernel, lambda graph, x: apply((), x, graph), graph)

    return Layer(init, apply, "GraphPool", kernel_rule=kernel_rule if how in ("sum", "mean") else None)


@recorded("gate", "value")
def AttentionPool(gate: Layer | None = None, value: Layer | None = None, *,
                  weights: Literal["softmax", "sigmoid"] = "softmax") -> Layer:
    """A weighted sum of the values of the nodes, with weights that a network computes from x (Li et al., 2016).

    ``y_g = sum_i a_i value(x_i)`` over the nodes of graph g, with ``a = softmax(gate(x))`` over the same nodes, as in
    PyTorch Geometric's AttentionalAggregation. The paper uses ``a = sigmoid(gate(x))``, and tanh around value and sum.

    Shape: x [n, n_in] -> [g, f].
    Args:
      gate: layer that returns one score for each node, or for each feature of the value; ``Dense(1)`` if None.
      value: layer that computes the values from x; None for x itself.
      weights: "softmax" or "sigmoid", see above.
    Inputs: graph, as in `GraphPool`; then the inputs of the two layers.
    Params: ``{"gate", "value"}``, without "value" if `value` is None.
    Raises: ValueError for unknown weights; TypeError from `init` if the gate returns a wrong number of features.
    """
    check_choice("AttentionPool", "weights", weights, ("softmax", "sigmoid"))
    children = {"gate": as_layer(Dense(1) if gate is None else gate, "AttentionPool['gate']")}
    if value is not None:
        children["value"] = as_layer(value, "AttentionPool['value']")
    return _attention_pool(children, weights)


def _attention_pool(children: Mapping[str, Layer], weights: str) -> Layer:
    def walk(visit, in_shape, shapes):
        outs = {key: visit(key, in_shape) for key in children}
        scores, values = outs["gate"][-1], outs.get("value", in_shape)[-1]
        if scores not in (1, values):
            raise bad("AttentionPool", "the gate needs one score for each node, or one for each feature of the value",
                      {"gate": str(outs["gate"]), "features of the value": values}, fix="end it with Dense(1).")
        return graphs_shape(in_shape, values)

    def forward(call, x, values):
        groups = as_groups(values["graph"], x, "AttentionPool")
        scores, value = (call_on_rows(call, key, x, groups.mask, values) if key in children else x
                         for key in ("gate", "value"))
        share = groups.softmax(scores) if weights == "softmax" else nn.sigmoid(scores)
        return groups.sum(share * value)

    inputs = joined("AttentionPool", [[Input("graph")], *(child.inputs for child in children.values())])
    return combine("AttentionPool", children, walk, forward, dict_of(children), inputs=inputs,
                   rebuild=lambda some: _attention_pool(some, weights))


def Set2Set(steps: int) -> Layer:
    """An LSTM that reads the nodes of each graph by attention (Vinyals et al., 2016).

    In each step ``q = LSTM([q, r])``, ``a = softmax(x q)`` over the nodes of a graph, and ``r = sum(a x)``; the output
    is the last ``[q, r]``. It does not depend on the order of the nodes.

    Shape: x [n, f] -> [g, 2 f].
    Args: steps: number of steps.
    Inputs: graph, as in `GraphPool`.
    Params: ``{"cell": params of LSTMCell(f)}``.  Raises: ValueError for steps < 1.
    """
    if steps < 1:
        raise bad("Set2Set", "there must be at least one step", {"steps": repr(steps)}, "pass for example 3.",
                  ValueError)

    def init(rng, in_shape):
        *_, f = in_shape = check_shape("Set2Set", in_shape, min_rank=2)
        return graphs_shape(in_shape, 2 * f), {"cell": LSTMCell(f).init(rng, (-1, 2 * f))[1]}

    def apply(params, x, graph, *, rng=None, train=False):
        x = check_float("Set2Set", x, 2)
        groups, cell = as_groups(graph, x, "Set2Set"), LSTMCell(x.shape[-1])
        query_and_read, carry = jnp.zeros((groups.n, 2 * x.shape[-1]), x.dtype), None
        for _ in range(steps):
            query, carry = cell.apply(params["cell"], query_and_read, carry)
            share = groups.softmax(jnp.sum(x * groups.at_nodes(query), -1))
            query_and_read = jnp.concatenate([query, groups.sum(x * share[:, None])], -1)
        return query_and_read

    return Layer(init, apply, "Set2Set", settings={"steps": steps})


def SortPool(k: int) -> Layer:
    """Concatenates the k nodes of each graph with the largest last feature, in descending order (Zhang et al., 2018).

    Shape: x [n, f] -> [g, k f]; for a graph with fewer nodes it is padded with zeros.
    Args: k: number of nodes.
    Inputs: graph, as in `GraphPool`.
    Params: ``()``.  Raises: ValueError for k < 1.
    """
    if k < 1:
        raise bad("SortPool", "k must be at least 1", {"k": repr(k)}, "pass for example 30.", ValueError)

    def init(rng, in_shape):
        in_shape = check_shape("SortPool", in_shape, min_rank=2)
        return graphs_shape(in_shape, k * in_shape[-1]), ()

    def apply(params, x, graph, *, rng=None, train=False):
        x = check_float("SortPool", x, 2)
        groups = as_groups(graph, x, "SortPool")
        rank = groups.rank(x[:, -1])
        keep = (rank < k) if groups.mask is None else (rank < k) & groups.mask
        place = jnp.where(keep, groups.ids * k + rank, groups.n * k)
        return jnp.zeros((groups.n * k, x.shape[-1]), x.dtype).at[place].set(x, mode="drop").reshape(groups.n, -1)

    return Layer(init, apply, "SortPool", settings={"k": k})


@recorded()
def TopKPool(ratio: float = 0.5, *, k: int | None = None, w_init: Callable | None = None) -> Layer:
    """Keeps the nodes of each graph with the largest projections on a learned vector (Gao and Ji, 2019).

    ``s = x w / |w|``; the ``ceil(ratio n_i)`` nodes of graph i with the largest s are kept, as ``x tanh(s)``. This is
    PyTorch Geometric's TopKPooling; the paper uses a sigmoid in place of tanh. The arrays keep their sizes: the rows of
    the other nodes become 0, and the returned graph is a `MaskedGraph` in which these nodes and their edges are masked.
    `kept_part` removes them on the host. The rows keep their positions, so the decoder of a Graph U-Net can add the x
    from before the pool. The result is a pair, so call the next layers in a function::

        def forward(layers, x, graph):
            x, graph = layers.pool(layers.first(x, graph=graph), graph=graph)
            return layers.readout(layers.second(x, graph=graph), graph=graph)

        model = composite(forward, first=..., pool=TopKPool(0.8), second=..., readout=GraphPool("mean"))

    Shape: x [n, f] -> (x [n, f], graph). `init` returns ``(shape of x, ())``.
    Args:
      ratio: fraction of the nodes to keep, in (0, 1].
      k: if not None, the number of nodes to keep, in place of `ratio`; graphs with fewer nodes keep all.
      w_init: initializer ``(key, shape) -> array``; if None uniform on ±1/sqrt(f).
    Inputs: graph: a `Graph`, which may be padded or masked.
    Params: ``{"w": [f]}``.
    Raises: ValueError for a ratio outside (0, 1] and for k < 1; TypeError for a graph in another form.
    """
    _check_ratio("TopKPool", ratio, k)

    def init(rng, in_shape):
        in_shape = check_shape("TopKPool", in_shape, min_rank=2)
        draw = w_init or _uniform(in_shape[-1] ** -0.5)
        return (in_shape, ()), {"w": draw(rng, in_shape[-1:])}

    def apply(params, x, graph, *, rng=None, train=False):
        x = check_float("TopKPool", x, 2)
        check_params("TopKPool", params, x, w=x.shape[-1:])
        w = params["w"]
        score = x @ w / jnp.sqrt(jnp.sum(jnp.square(w)))
        return _kept("TopKPool", x, score, _check_graph("TopKPool", graph), ratio, k)

    return Layer(init, apply, "TopKPool")


@recorded("score")
def SAGPool(score: Layer, ratio: float = 0.5, *, k: int | None = None) -> Layer:
    """`TopKPool` with scores from a layer on graphs (self-attention graph pooling, Lee et al., 2019).

    Shape: x [n, f] -> (x [n, f], graph).
    Args: score: layer with one output feature, such as ``GraphConvolution(1)``; ratio, k: as in `TopKPool`.
    Inputs: graph; then the inputs of the layer.
    Params: params of the layer.
    Raises: as `TopKPool`; TypeError from `init` if the layer has more than one output feature.
    """
    _check_ratio("SAGPool", ratio, k)
    score = as_layer(score, "SAGPool")

    def walk(visit, in_shape, shapes):
        if (shape := visit(None, in_shape))[-1] != 1:
            raise bad("SAGPool", "needs one score for each node", {"out_shape": str(shape)},
                      fix="use a layer with 1 output feature.")
        return in_shape, ()

    def forward(call, x, values):
        graph = _check_graph("SAGPool", values["graph"])
        return _kept("SAGPool", x, call_on_rows(call, None, x, node_mask(graph, x), values)[:, 0], graph, ratio, k)

    inputs = joined("SAGPool", [[Input("graph")], score.inputs])
    return combine("SAGPool", {None: score}, walk, forward, only, inputs=inputs,
                   rebuild=lambda some: SAGPool(some[None], ratio, k=k))


def _check_ratio(caller: str, ratio: float, k: int | None) -> None:
    if not 0 < ratio <= 1 or (k is not None and k < 1):
        raise bad(caller, "at least some nodes must be kept", {"ratio": repr(ratio), "k": repr(k)},
                  "pass a ratio in (0, 1], or k of at least 1.", ValueError)


def _check_graph(caller: str, graph: object) -> Graph:
    if not isinstance(graph, Graph):
        raise bad(caller, "needs a Graph, because it masks nodes", {"graph": type_text(graph)},
                  fix="make one with Graph.from_edges.")
    return graph


def _kept(caller: str, x: Array, score: Array, graph: Graph, ratio: float, k: int | None) -> tuple[Any, MaskedGraph]:
    """(The nodes with the largest scores, times tanh of the score, other rows 0; the graph with those rows masked)."""
    keep = largest_nodes(as_groups(graph, x, caller), score, ratio, k)
    return jnp.where(keep[:, None], x * jnp.tanh(score)[:, None], 0), mask_graph(graph, nodes=keep)


def largest_nodes(groups: Groups, score: ArrayLike, ratio: float, k: int | None) -> Array:
    """bool[n]: whether a node has one of the k largest scores in its graph; if k is None, of ``ceil(ratio n_i)``."""
    most: Array | int | None = k
    if most is None:
        most = groups.at_nodes(jnp.ceil(ratio * groups.count(at_least_float32(score.dtype))).astype(np.int32))
    keep = groups.rank(score) < most
    return keep if groups.mask is None else keep & groups.mask


def _uniform(bound: float) -> Callable:
    draw = initializers.uniform(2 * bound)
    return lambda key, shape: draw(key, shape) - bound
