"""`EGNN`: message passing with features and distances, which also updates the positions of nodes."""

from typing import Any

import xjax.numpy as jnp
from xjax.errors import bad
from xjax.nn import initializers
from xnn.checks import check_float, check_shape, type_text
from xnn.combinators import serial
from xnn.graph.layers.composed import features_of, graph_composite
from xnn.graph.structure.adjacency import as_edges
from xnn.layer import Layer, recorded
from xnn.layers import Dense, Sigmoid, Silu


@recorded()
def EGNN(n_out: int, *, hidden: int | None = None, edge_features: int | None = None, update_positions: bool = True,
         attention: bool = False, residual: bool = True) -> Layer:
    """Equivariant graph network (Satorras et al., 2021): rotations and translations of the positions do not change x.

    ``m_ij = M(x_i, x_j, |p_i - p_j|^2, e_ij)``, ``p_i + mean_j (p_i - p_j) P(m_ij)``, ``x_i + U(x_i, sum_j m_ij)``. M
    has two dense layers with SiLU after each; P and U have two dense layers with SiLU between them. If all pairs are
    edges, the mean is the paper's sum times 1 / (n - 1). Edge weights are ignored.

    Shape: (x [n, n_in], positions [n, d]) -> ([n, n_out], [n, d]).

    Args:
      n_out: number of output features.
      hidden: size of the messages and hidden layers; n_out if None.
      edge_features: number of features of an edge, which are an input of M too; None ignores them.
      update_positions: whether positions are updated; False returns them unchanged.
      attention: whether each message is multiplied by a sigmoid gate, computed from it by a dense layer (the paper's
        inferred edges).
      residual: whether x is added to U, if it has n_out features.
    Inputs:
      graph: in any form that `as_edges` takes.
    Params: ``{"message", "position", "update", "attention"}``, each the params of a `serial`; the last layer of P is
      initialised with small weights, Glorot uniform times 0.001, as in the authors' program.
    Raises: TypeError if x is not a pair; ValueError if there is not one position for each node.
    """
    size = n_out if hidden is None else hidden
    small = initializers.variance_scaling(1e-6, "fan_avg", "uniform")
    children = {"message": serial(Dense(size), Silu, Dense(size), Silu),
                "position": serial(Dense(size), Silu, Dense(1, bias=False, w_init=small)) if update_positions else None,
                "update": serial(Dense(size), Silu, Dense(n_out)),
                "attention": serial(Dense(1), Sigmoid) if attention else None}

    def walk(visit, in_shape, shapes):
        x_shape, p_shape = _pair(in_shape)
        *lead, n_in = check_shape("EGNN", x_shape, 2)
        message = visit("message", (-1, 2 * n_in + 1 + (edge_features or 0)))
        for key in ("position", "attention"):
            if children[key]:
                visit(key, message)
        return visit("update", (*lead, n_in + size)), p_shape

    def forward(call, x, values):
        x, p = (check_float("EGNN", one, 2) for one in _pair(x))
        edges = as_edges(values["graph"], x, "EGNN")
        if p.shape[0] != x.shape[0]:
            raise bad("EGNN", "every node must have one position", {"x": type_text(x), "positions": type_text(p)},
                      "pass x [n, f] and positions [n, d].", ValueError)
        apart = edges.at_receivers(p) - edges.at_senders(p)
        parts = [edges.at_receivers(x), edges.at_senders(x), jnp.sum(jnp.square(apart), -1, keepdims=True)]
        if edge_features is not None:
            parts.append(features_of("EGNN", edges, edge_features))
        m = call("message", jnp.concatenate(parts, -1))
        m = m * call("attention", m) if attention else m
        if update_positions:
            p = p + edges.mean(apart * call("position", m))
        h = call("update", jnp.concatenate([x, edges.sum(m)], -1))
        return (x + h if residual and x.shape == h.shape else h), p

    return graph_composite("EGNN", children, walk, forward)


def _pair(x: Any) -> tuple[Any, Any]:
    if not isinstance(x, tuple | list) or len(x) != 2 or isinstance(x[0], int):
        raise bad("EGNN", "x must be the pair (features, positions)", {"x": type_text(x)},
                  "pass (x [n, f], positions [n, d]); pass the pair of their shapes to init.")
    return x[0], x[1]
