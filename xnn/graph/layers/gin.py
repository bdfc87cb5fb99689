"""Graph isomorphism layers: `GIN`, and `GINE` with edge features."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import xjax.numpy as jnp
from xjax import nn
from xjax.errors import bad
from xnn.checks import check_float, check_params, check_shape
from xnn.composites import combine, dict_of
from xnn.covariance.evaluation import kernel_after
from xnn.covariance.fixed import on_nodes
from xnn.graph.layers.edge_inputs import edge_inputs
from xnn.graph.layers.params import affine, drawn
from xnn.graph.layers.propagate import check_count
from xnn.graph.structure.adjacency import as_edges
from xnn.graph.structure.edges import Edges
from xnn.graph.structure.masked import call_on_rows, node_mask
from xnn.layer import Layer, as_layer, recorded


@recorded("mlp")
def GIN(mlp: Layer, eps: float = 0.0, train_eps: bool = False) -> Layer:
    """``y_i = mlp((1 + eps) x_i + sum of x_j over the neighbours j)`` (Xu et al., 2019).

    Edge weights and edge features are ignored.

    Shape: [n, n_in] -> output shape of mlp for [n, n_in].
    Args:
      mlp: any layer, such as ``serial(Dense(64), Relu, Dense(64))``. The paper has a BatchNorm after each Dense; its
        statistics ignore padding nodes.
      eps: weight of the node's own features, minus 1.
      train_eps: whether eps is a parameter, initialised with the given value.
    Inputs: graph: in any form that `as_edges` takes; the inputs of mlp.
    Params: ``{"aggregate": {"eps": []}, "mlp": ...}``; "aggregate" is ``()`` if eps is not trained.
    State: state of mlp.

    >>> from xnn import Dense, Relu, serial
    >>> from xjax import random
    >>> shape, params = GIN(serial(Dense(8), Relu, Dense(3))).init(random.key(0), (-1, 4))
    >>> shape, sorted(params)
    ((-1, 3), ['aggregate', 'mlp'])
    """

    def total(params, x, edges):
        return edges.neighbour_sum(x)

    aggregate = _with_own("GIN", eps, train_eps, lambda n_in: {}, total, linear=True)
    return _then("GIN", {"aggregate": aggregate, "mlp": as_layer(mlp, "GIN")})


@recorded("mlp")
def GINE(mlp: Layer, eps: float = 0.0, train_eps: bool = False, *, edge_features: int | None = None,
         w_init: Callable | None = None) -> Layer:
    """``y_i = mlp((1 + eps) x_i + sum of relu(x_j + e) over the edges from j to i)`` (Hu et al., 2020).

    Shape: [n, n_in] -> output shape of mlp for [n, n_in].
    Args:
      mlp, eps, train_eps: as in `GIN`.
      edge_features: number of features of an edge, which ``features W_edge + b_edge`` maps to e. If None, e is the edge
        features, and there must be n_in of them. In both cases, if the edges have one feature less than needed, the
        edge weights are appended as the last feature.
      w_init: initializer of W_edge; Glorot uniform if None.
    Inputs: graph: in any form that `as_edges` takes, with edge features; the inputs of mlp.
    Params: as in `GIN`; with edge_features also "w_edge": [edge_features, n_in] and "b_edge" in "aggregate".
    State: state of mlp.
    Raises: ValueError for edge_features below 1; apply raises ValueError for another number of edge features.
    """
    if edge_features is not None:
        check_count("GINE", edge_features, 1, "features of an edge")

    def shapes(n_in):
        return {} if edge_features is None else {"w_edge": (edge_features, n_in), "b_edge": (n_in,)}

    def total(params, x, edges):
        e = edge_inputs("GINE", edges, x.shape[-1] if edge_features is None else edge_features, x.dtype)
        e = e if edge_features is None else affine(params, e, "edge")
        return edges.sum(nn.relu(edges.at_senders(x) + e))

    aggregate = _with_own("GINE", eps, train_eps, shapes, total, w_init)
    return _then("GINE", {"aggregate": aggregate, "mlp": as_layer(mlp, "GINE")})


def _with_own(name: str, eps: float, train_eps: bool, shapes: Callable[[int], Mapping[str, Any]],
              total: Callable[[Any, Any, Edges], Any], w_init: Callable | None = None, linear: bool = False) -> Layer:
    """A layer ``(1 + eps) x + total(params, x, edges)``, where `total` sums over the edges of each node.

    Args: linear: whether `total` is a linear map of x without parameters.
    """

    def init(rng, in_shape):
        in_shape = check_shape(name, in_shape, min_rank=2)
        params = drawn(rng, shapes(in_shape[-1]), w_init)
        if train_eps:
            params["eps"] = jnp.array(float(eps))
        return in_shape, params or ()

    def apply(params, x, graph, *, rng=None, train=False):
        x = check_float(name, x, 2)
        wanted = {**shapes(x.shape[-1]), "eps": () if train_eps else None}
        check_params(name, params or {}, x, **wanted)
        edges = as_edges(graph, x, name)
        return (1 + (params["eps"] if train_eps else eps)) * x + total(params, x, edges)

    def kernel_rule(kernel, graph):
        if train_eps and kernel.ntk is not None:
            raise bad(f"{name}.kernel", "one weight of the node itself for all features has no NTK in the limit of "
                      "many features", {"train_eps": True}, f'{name}(mlp, eps), or get="nngp".', ValueError)
        return on_nodes(kernel, lambda graph, x: (1 + eps) * x + total({}, x, as_edges(graph, x, name)), graph)

    return Layer(init, apply, "aggregate", kernel_rule=kernel_rule if linear else None)


def _then(name: str, children: Mapping[str, Layer]) -> Layer:
    """The chain of the aggregate and the mlp, with the inputs of both."""

    def walk(visit, shape, shapes):
        return visit("mlp", visit("aggregate", shape))

    def forward(call, x, values):
        return call_on_rows(call, "mlp", call("aggregate", x), node_mask(values["graph"], x), values)

    def kernel_rule(kernel, **values):
        return kernel_after(children["mlp"], kernel_after(children["aggregate"], kernel, values), values)

    made = combine(name, children, walk, forward, dict_of(children), rebuild=lambda some: _then(name, some))
    return dataclasses.replace(made, kernel_rule=kernel_rule)
