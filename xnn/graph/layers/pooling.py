"""Pooling: a row for each graph out of those of its nodes (`GraphPool` and others), and fewer nodes (`TopKPool`)."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

import xjax.numpy as jnp
from xjax import nn
from xjax.errors import bad, check_choice
from xjax.nn import initializers
from xnn.checks import check_float, check_params, check_shape, type_text
from xnn.combinators import only
from xnn.composites import combine, dict_of
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
    """One row for each graph: the sum, mean, maximum, minimum or standard deviation of those of its nodes.

    Shape: x [n, f] -> [g, f]; `init` does not know the number of graphs, and returns that of the rows of x for it.

    Args: how: "sum", "mean", "max", "min" or "std".
    Inputs: graph: the batch; nodes of padding are left out, and a graph without nodes has zeros.
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

    return Layer(init, apply, "GraphPool")


@recorded("gate", "value")
def AttentionPool(gate: Layer | None = None, value: Layer | None = None, *,
                  weights: Literal["softmax", "sigmoid"] = "softmax") -> Layer:
    """A weighted sum of the values of the nodes, the weights being computed from x by a network (Li et al., 2016).

    ``y_g = sum_i a_i value(x_i)`` over the nodes of graph g, with ``a = softmax(gate(x))`` over these, as in PyTorch
    Geometric's AttentionalAggregation. The paper has ``a = sigmoid(gate(x))``, and tanh around value and sum.

    Shape: x [n, n_in] -> [g, f].
    Args:
      gate: a layer to one score for each node, or to one for each feature of the value; ``Dense(1)`` if None.
      value: a layer of the nodes; None: x itself.
      weights: "softmax" or "sigmoid", see above.
    Inputs: graph, as of `GraphPool`; then those of the two layers.
    Params: ``{"gate", "value"}``, without "value" if that is None.
    Raises: ValueError for unknown weights; TypeError from `init` if the gate has another number of features.
    """
    check_choice("AttentionPool", "weights", weights, ("softmax", "sigmoid"))
    children = {"gate": as_layer(Dense(1) if gate is None else gate, "AttentionPool['gate']")}
    if value is not None:
        children["value"] = as_layer(value, "AttentionPool['value']")
    return _attention_pool(children, weights)


def _attention_pool(children: Any, weights: str) -> Layer:
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
    """An LSTM that reads the nodes of each graph by attention, in an order of its own (Vinyals et al., 2016).

    In each of the steps ``q = LSTM([q, r])``, ``a = softmax(x q)`` over the nodes of a graph, and ``r = sum(a x)``; the
    output is the last ``[q, r]``. It does not depend on the order of the nodes.

    Shape: x [n, f] -> [g, 2 f].
    Args: steps: number of steps.
    Inputs: graph, as of `GraphPool`.
    Params: ``{"cell": those of LSTMCell(f)}``.  Raises: ValueError for fewer than one step.
    """
    if steps < 1:
        raise bad("Set2Set", "there must be at least one step", {"steps": repr(steps)}, "Set2Set(3).", ValueError)

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
    """The k nodes of each graph that are the largest in the last feature, one after another (Zhang et al., 2018).

    Shape: x [n, f] -> [g, k f]; a graph of fewer nodes has zeros at the end.
    Args: k: number of nodes.
    Inputs: graph, as of `GraphPool`.
    Params: ``()``.  Raises: ValueError for k < 1.
    """
    if k < 1:
        raise bad("SortPool", "k must be at least 1", {"k": repr(k)}, "SortPool(30).", ValueError)

    def init(rng, in_shape):
        in_shape = check_shape("SortPool", in_shape, min_rank=2)
        return graphs_shape(in_shape, k * in_shape[-1]), ()

    def apply(params, x, graph, *, rng=None, train=False):
        x = check_float("SortPool", x, 2)
        groups = as_groups(graph, x, "SortPool")
        rank = groups.rank(x[:, -1])
        there = (rank < k) if groups.mask is None else (rank < k) & groups.mask
        place = jnp.where(there, groups.ids * k + rank, groups.n * k)
        return jnp.zeros((groups.n * k, x.shape[-1]), x.dtype).at[place].set(x, mode="drop").reshape(groups.n, -1)

    return Layer(init, apply, "SortPool", settings={"k": k})


@recorded()
def TopKPool(ratio: float = 0.5, *, k: int | None = None, w_init: Callable | None = None) -> Layer:
    """Keeps the nodes of each graph with the largest projections on a learned vector (Gao and Ji, 2019).

    ``s = x w / |w|``; the ``ceil(ratio n_i)`` nodes of graph i with the largest s stay, as ``x tanh(s)``. That is
    PyTorch Geometric's TopKPooling; the paper has a sigmoid for tanh. Here the arrays keep their sizes: the rows of the
    other nodes become 0, and the graph that is returned is a `MaskedGraph`, in which they and their edges do not count.
    `kept_part` removes them on the host. The rows stay in their places, so a decoder of a Graph U-Net adds the x from
    before the pool. As the result is a pair, the next layers are called in a function::

        def forward(layers, x, graph):
            x, graph = layers.pool(layers.first(x, graph=graph), graph=graph)
            return layers.readout(layers.second(x, graph=graph), graph=graph)

        model = composite(forward, first=..., pool=TopKPool(0.8), second=..., readout=GraphPool("mean"))

    Shape: x [n, f] -> (x [n, f], graph). `init` returns ``(shape of x, ())``.
    Args:
      ratio: share of the nodes to keep, in (0, 1].
      k: number of nodes to keep instead; graphs with fewer keep all.
      w_init: initializer ``(key, shape) -> array``; if None uniform on ±1/sqrt(f).
    Inputs: graph: a `Graph`, padded or masked or neither.
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
    """`TopKPool` with scores that a layer on graphs computes (self-attention graph pooling, Lee et al., 2019).

    Shape: x [n, f] -> (x [n, f], graph).
    Args: score: to one feature of each node, such as ``GraphConvolution(1)``; ratio, k: as of `TopKPool`.
    Inputs: graph; then those of the layer.
    Params: those of the layer.
    Raises: as `TopKPool`; TypeError from `init` if the layer has another number of features.
    """
    _check_ratio("SAGPool", ratio, k)
    score = as_layer(score, "SAGPool")

    def walk(visit, in_shape, shapes):
        if (shape := visit(None, in_shape))[-1] != 1:
            raise bad("SAGPool", "a node has one score", {"out_shape": str(shape)}, fix="end the layer with 1 feature.")
        return in_shape, ()

    def forward(call, x, values):
        graph = _check_graph("SAGPool", values["graph"])
        return _kept("SAGPool", x, call_on_rows(call, None, x, node_mask(graph, x), values)[:, 0], graph, ratio, k)

    inputs = joined("SAGPool", [[Input("graph")], score.inputs])
    return combine("SAGPool", {None: score}, walk, forward, only, inputs=inputs,
                   rebuild=lambda some: SAGPool(some[None], ratio, k=k))


def _check_ratio(caller: str, ratio: float, k: int | None) -> None:
    if not 0 < ratio <= 1 or (k is not None and k < 1):
        raise bad(caller, "a part of the nodes must be kept", {"ratio": repr(ratio), "k": repr(k)},
                  "pass a ratio in (0, 1], or k of at least 1.", ValueError)


def _check_graph(caller: str, graph: Any) -> Graph:
    if not isinstance(graph, Graph):
        raise bad(caller, "needs a Graph, whose nodes it masks", {"graph": type_text(graph)},
                  fix="make one with Graph.from_edges.")
    return graph


def _kept(caller: str, x: Any, score: Any, graph: Graph, ratio: float, k: int | None) -> tuple[Any, MaskedGraph]:
    """The nodes with the largest scores, times the tanh of these, and the graph without the others."""
    keep = largest_nodes(as_groups(graph, x, caller), score, ratio, k)
    return jnp.where(keep[:, None], x * jnp.tanh(score)[:, None], 0), mask_graph(graph, nodes=keep)


def largest_nodes(groups: Groups, score: Any, ratio: float, k: int | None) -> Any:
    """bool[n]: whether a node is among the k, or ``ceil(ratio n_i)``, with the largest scores of its graph."""
    if k is None:
        k = jnp.ceil(ratio * groups.count(at_least_float32(score.dtype))).astype(np.int32)
        k = groups.at_nodes(k)
    keep = groups.rank(score) < k
    return keep if groups.mask is None else keep & groups.mask


def _uniform(bound: float) -> Callable:
    draw = initializers.uniform(2 * bound)
    return lambda key, shape: draw(key, shape) - bound
