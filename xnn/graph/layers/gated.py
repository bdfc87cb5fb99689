"""Layers with gates: residual gated convolutions, also with updates of edge features, and gated recurrences."""

from __future__ import annotations

from typing import Any

import xjax.numpy as jnp
from xjax import nn
from xjax.errors import bad, check_choice
from xjax.typing import Array
from xnn.checks import check_float, check_shape, type_text
from xnn.graph.layers.composed import REDUCTIONS, features_of, graph_composite, reduced
from xnn.graph.structure.adjacency import as_edges
from xnn.graph.structure.edges import Edges
from xnn.graph.structure.masked import call_on_rows, node_mask
from xnn.layer import Layer, recorded
from xnn.layers import Bias, Dense, GRUCell


@recorded()
def GatedGraphConvolution(n_out: int, *, edge_features: int | None = None, root: bool = True,
                          bias: bool = True) -> Layer:
    """``y_i = x_i W + sum_j sigmoid(x_i K + x_j Q) * (x_j V) + b`` (Bresson and Laurent, 2017).

    It equals PyTorch Geometric's ResGatedGraphConv: the maps K, Q and V also have biases. The paper's network adds ReLU
    and the residual sum: ``residual(GatedGraphConvolution(n), Relu)``. Edge weights are ignored.

    Shape: x [n, n_in] -> [n, n_out].

    Args:
      n_out: number of output features.
      edge_features: number of features of an edge; linear maps of them are added to the argument of the gates and to
        the values. None ignores edge features.
      root: whether ``x_i W`` is added.
      bias: whether b is added.
    Inputs:
      graph: in any form that `as_edges` takes.
    Params: ``{"key", "query", "value"}``, each ``{"w", "b"}`` of a `Dense`; with edge_features ``"edge_gate"`` and
      ``"edge_value"``, each ``{"w"}``; ``"root": {"w", "b"}``, or ``"bias": {"b"}`` without root.
    """
    name = "GatedGraphConvolution"
    from_edges = Dense(n_out, bias=False) if edge_features is not None else None
    children = {"key": Dense(n_out), "query": Dense(n_out), "value": Dense(n_out), "edge_gate": from_edges,
                "edge_value": from_edges, "root": Dense(n_out, bias=bias) if root else None,
                "bias": Bias() if bias and not root else None}
    at_nodes = ["key", "query", "value", *(["root"] if root else [])]

    def walk(visit, in_shape, shapes):
        in_shape = check_shape(name, in_shape, 2)
        out_shape = [visit(key, in_shape) for key in at_nodes][0]
        for key in ("edge_gate", "edge_value") if from_edges else ():
            visit(key, (-1, edge_features))
        return visit("bias", out_shape) if children["bias"] else out_shape

    def forward(call, x, values):
        x = check_float(name, x, 2)
        edges = as_edges(values["graph"], x, name)
        gate = edges.at_receivers(call("key", x)) + edges.at_senders(call("query", x))
        value = edges.at_senders(call("value", x))
        if edge_features is not None:
            features = features_of(name, edges, edge_features)
            gate, value = gate + call("edge_gate", features), value + call("edge_value", features)
        y = edges.sum(nn.sigmoid(gate) * value)
        y = y + call("root", x) if root else y
        return call("bias", y) if children["bias"] else y

    return graph_composite(name, children, walk, forward)


@recorded()
def GatedGCN(n_out: int, *, norm: Layer | None = None, residual: bool = True, epsilon: float = 1e-6) -> Layer:
    """Gated convolution that also updates edge features (Bresson and Laurent, 2017; Dwivedi et al., 2020).

    With ``c_ij = x_i A + x_j B + e_ij C`` and gates ``g = sigmoid(c)`` the outputs are
    ``x_i + relu(norm(x_i U + sum_j g_ij * (x_j V) / (sum_j g_ij + epsilon)))`` and ``e_ij + relu(norm(c_ij))``.
    Edge weights are ignored. The edge features are the second part of x, so that layers can be chained.

    Shape: (x [n, n_in], e [edges, d]) -> ([n, n_out], [edges, n_out]).

    Args:
      n_out: number of output features of nodes and of edges.
      norm: layer before each ReLU, with separate parameters for nodes and edges, such as the benchmark's `BatchNorm()`;
        None for no norm.
      residual: whether the inputs are added, if they have n_out features.
      epsilon: added to the sum of the gates.
    Inputs:
      graph: in any form that `as_edges` takes; the rows of e are in the order of its edges.
    Params: ``{"receiver", "sender", "edge", "own", "value"}`` (A, B, C, U, V), each ``{"w", "b"}`` of a `Dense`, and
      ``"node_norm"``, ``"edge_norm"`` with a norm.
    Raises: TypeError if x is not a pair; ValueError if e does not have one row for each edge.
    """
    at_nodes = ("receiver", "sender", "own", "value")
    children = {**{key: Dense(n_out) for key in (*at_nodes, "edge")}, "node_norm": norm, "edge_norm": norm}

    def walk(visit, in_shape, shapes):
        node_shape, edge_shape = _pair("GatedGCN", in_shape)
        node_shape = [visit(key, check_shape("GatedGCN", node_shape, 2)) for key in at_nodes][0]
        edge_shape = visit("edge", check_shape("GatedGCN", edge_shape, 2))
        return (visit("node_norm", node_shape), visit("edge_norm", edge_shape)) if norm else (node_shape, edge_shape)

    def forward(call, x, values):
        x, e = (check_float("GatedGCN", one, 2) for one in _pair("GatedGCN", x))
        edges = as_edges(values["graph"], x, "GatedGCN")
        _check_rows(edges, e)
        c = edges.at_receivers(call("receiver", x)) + edges.at_senders(call("sender", x)) + call("edge", e)
        gates = nn.sigmoid(c)
        mean = edges.sum(gates * edges.at_senders(call("value", x))) / (edges.sum(gates) + epsilon)
        h = call("own", x) + mean
        if norm:
            h = call_on_rows(call, "node_norm", h, node_mask(values["graph"], x))
            c = call_on_rows(call, "edge_norm", c, edges.mask)
        h, c = nn.relu(h), nn.relu(c)
        return (_added(x, h), _added(e, c)) if residual else (h, c)

    return graph_composite("GatedGCN", children, walk, forward)


@recorded()
def GatedGraph(n_out: int, steps: int, *, aggregate: str = "sum", shared: bool = False, bias: bool = True) -> Layer:
    """``m_i = sum_j w_ij x_j W``, ``x_i = GRU(m_i, x_i)``, repeated (Li et al., 2016); w are the edge weights, or 1.

    The input is padded with zeros to n_out features. As in PyTorch Geometric's GatedGraphConv, each step has its own W,
    and all steps share one GRU; with `shared` they also share W, as in the paper. The paper's separate matrices for
    types of edges and for reverse edges are not included: add a layer for each type.

    Shape: x [n, n_in] -> [n, n_out], n_in <= n_out.

    Args:
      n_out: number of features of the state.
      steps: number of steps.
      aggregate: "sum", "mean", "max", "min" or "std" of the messages that a node receives.
      shared: whether all steps share one W.
      bias: whether the GRU has biases.
    Inputs:
      graph: in any form that `as_edges` takes.
    Params: ``{"message0": {"w"}, "message1": {"w"}, ..., "gru": {"w_in", "w_rec", "b", "b_rec"}}``.
    Raises: ValueError for steps < 1 or an unknown aggregate, and for an input of more than n_out features.
    """
    check_choice("GatedGraph", "aggregate", aggregate, REDUCTIONS)
    if steps < 1:
        raise bad("GatedGraph", "needs at least one step", {"steps": steps}, "pass steps >= 1.", ValueError)
    messages = [f"message{i}" for i in range(1 if shared else steps)]
    children = {**{key: Dense(n_out, bias=False) for key in messages}, "gru": GRUCell(n_out, bias=bias)}

    def walk(visit, in_shape, shapes):
        *lead, n_in = check_shape("GatedGraph", in_shape, 2)
        _check_state("GatedGraph", n_in, n_out)
        for key in children:
            visit(key, (*lead, n_out))
        return (*lead, n_out)

    def forward(call, x, values):
        x = check_float("GatedGraph", x, 2)
        edges = as_edges(values["graph"], x, "GatedGraph")
        _check_state("GatedGraph", x.shape[-1], n_out)
        x = jnp.pad(x, ((0, 0), (0, n_out - x.shape[-1])))
        for i in range(steps):
            m = call(messages[0 if shared else i], x)
            if aggregate == "sum":
                m = edges.product(m)
            else:
                picked = edges.at_senders(m)
                m = reduced(edges, picked if edges.weight is None else picked * edges.weight[:, None], aggregate)
            x, _ = call("gru", m, carry=x)
        return x

    return graph_composite("GatedGraph", children, walk, forward, passes=("carry",))


def _pair(caller: str, x: Any) -> tuple[Any, Any]:
    if not isinstance(x, tuple | list) or len(x) != 2 or isinstance(x[0], int):
        raise bad(caller, "x must be the pair (node features, edge features)", {"x": type_text(x)},
                  "pass (x [n, f], e [edges, d]); pass the pair of their shapes to init.")
    return x[0], x[1]


def _check_rows(edges: Edges, e: Array) -> None:
    if e.shape[0] != len(edges):
        raise bad("GatedGCN", "the edge features need one row for each edge",
                  {"edges": len(edges), "e": type_text(e)}, "pass e [edges, d] in the order of the graph.", ValueError)


def _added(x: Array, h: Array) -> Array:
    return x + h if x.shape == h.shape else h


def _check_state(caller: str, n_in: int, n_out: int) -> None:
    if n_in > n_out:
        raise bad(caller, "the state cannot have fewer features than the input", {"n_in": n_in, "n_out": n_out},
                  f"pass n_out >= {n_in}, or put Dense({n_out}) before the layer.", ValueError)
