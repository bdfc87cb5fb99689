"""Layers on point clouds: `EdgeConv`, `PointNet`, and `knn_edges`, the graph of nearest neighbours for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import lax, tree_util
from xjax.errors import bad, check_choice
from xjax.typing import Array, ArrayLike
from xnn.checks import check_float, check_shape, type_text
from xnn.graph.layers.composed import REDUCTIONS, graph_composite, reduced
from xnn.graph.structure.adjacency import as_edges
from xnn.graph.structure.edges import Edges
from xnn.graph.structure.graph import Graph
from xnn.graph.structure.masked import call_on_rows, node_mask
from xnn.inputs import Input
from xnn.layer import Layer, recorded

_EXACT = 16                     # largest number of features for which distances are sums of squared differences
_CHUNK = 1 << 22                # number of distances per block of rows: bounds the memory


@recorded()
def EdgeConv(network: Layer, *, k: int | None = None, aggregate: str = "max") -> Layer:
    """``y_i = max_j network(x_i, x_j - x_i)`` (Wang et al., 2019); a node without edges gets 0.

    With k it is the paper's dynamic form, PyTorch Geometric's DynamicEdgeConv: the senders j are the k nodes of the
    same graph that are nearest to i in the space of x, including i. Edge weights are ignored.

    Shape: x [n, n_in] -> [n, n_out].

    Args:
      network: layer [e, 2 n_in] -> [e, n_out], such as ``serial(Dense(64), Relu, Dense(64))``.
      k: number of neighbours; None uses the edges of the graph.
      aggregate: "max", "mean", "sum", "min" or "std".
    Inputs:
      graph: in any form that `as_edges` takes. With k, only the assignment of nodes to graphs is used, if it is a
        `Graph`; with None or another form, all nodes belong to one graph.
    Params: ``{"network": params of the network}``.
    Raises: ValueError for an unknown aggregate, or k < 1.
    """
    check_choice("EdgeConv", "aggregate", aggregate, REDUCTIONS)
    if k is not None:
        _check_k("EdgeConv", k)

    def walk(visit, in_shape, shapes):
        *lead, n_in = check_shape("EdgeConv", in_shape, 2)
        return (*lead, visit("network", (-1, 2 * n_in))[-1])

    def forward(call, x, values):
        x, graph = check_float("EdgeConv", x, 2), values["graph"]
        if k is not None:
            ids, mask = (graph.node_graph, graph.node_mask) if isinstance(graph, Graph) else (None, None)
            graph = knn_edges(x, k, ids, mask=mask, self_loops=True)
        edges = as_edges(graph, x, "EdgeConv")
        own = edges.at_receivers(x)
        pairs = jnp.concatenate([own, edges.at_senders(x) - own], -1)
        return reduced(edges, call_on_rows(call, "network", pairs, edges.mask), aggregate)

    graph = Input("graph") if k is None else Input("graph", None)
    return graph_composite("EdgeConv", {"network": network}, walk, forward, (graph,))


@recorded()
def PointNet(local: Layer, whole: Layer | None = None, *, self_loops: bool = True) -> Layer:
    """``y_i = whole(max_j local(x_j, p_j - p_i))``: set abstraction of PointNet++ (Qi et al., 2017), p positions.

    It equals PyTorch Geometric's PointNetConv; on a graph of all pairs it is PointNet. For a node without edges and
    self loop, the maximum is 0. Edge weights are ignored.

    Shape: x [n, n_in] -> [n, n_out].

    Args:
      local: layer [e, n_in + d] -> [e, m].
      whole: layer [n, m] -> [n, n_out]; None for the identity.
      self_loops: whether a node is one of its own neighbours.
    Inputs:
      graph: in any form that `as_edges` takes, such as ``knn_edges(positions, k)``.
      positions: [n, d].
    Params: ``{"local": ..., "whole": ...}``. `init` needs the shape of positions.
    Raises: ValueError if there is not one position for each node.
    """

    def walk(visit, in_shape, shapes):
        *lead, n_in = check_shape("PointNet", in_shape, 2)
        if "positions" not in shapes:
            raise bad("PointNet.init", "the weights depend on the shape of `positions`, which is missing",
                      fix="call init(rng, in_shape, positions=shape).")
        shape = (*lead, visit("local", (-1, n_in + shapes["positions"][-1]))[-1])
        return shape if whole is None else visit("whole", shape)

    def forward(call, x, values):
        x, p = check_float("PointNet", x, 2), check_float("PointNet", values["positions"], 2)
        edges = as_edges(values["graph"], x, "PointNet")
        if p.shape[0] != x.shape[0]:
            raise bad("PointNet", "every node must have one position", {"x": type_text(x), "positions": type_text(p)},
                      "pass x [n, f] and positions [n, d].", ValueError)
        apart = edges.at_senders(p) - edges.at_receivers(p)
        y = edges.max(call_on_rows(call, "local", jnp.concatenate([edges.at_senders(x), apart], -1), edges.mask))
        mask = node_mask(values["graph"], x)
        if self_loops:
            own = call_on_rows(call, "local", jnp.concatenate([x, jnp.zeros_like(p)], -1), mask)
            has_edges = edges.sum(jnp.ones((edges.senders.shape[0], 1), x.dtype)) > 0
            y = jnp.maximum(jnp.where(has_edges, y, own), own)
        return y if whole is None else call_on_rows(call, "whole", y, mask)

    inputs = Input("graph"), Input("positions", meaning="[n, d]")
    return graph_composite("PointNet", {"local": local, "whole": whole}, walk, forward, inputs, sized_by=("positions",))


def knn_edges(x: ArrayLike, k: int, graph_ids: ArrayLike | None = None, *, mask: ArrayLike | None = None,
              self_loops: bool = False) -> Edges:
    """Edges to each node from its k nearest nodes. There are always n * k edges, so x may be traced.

    The choice of neighbours has no gradient. If a graph has too few nodes, the missing edges are masked. All n * n
    distances are computed; with more than 2000 nodes, in blocks of rows of 16 MiB each. Of nodes at equal distances the
    first are taken. With more than 16 features, distances are computed from dot products, so rounding may decide ties.

    Args:
      x: [n, d] positions, or features.
      k: number of neighbours, static.
      graph_ids: int[n], as `Graph.node_graph`: only nodes with the same id are neighbours; None for a single graph.
      mask: bool[n], as `Graph.node_mask`: masked nodes have no neighbours and are not neighbours of other nodes.
      self_loops: whether a node is its own first neighbour.
    Raises: ValueError for k < 1, or graph_ids or a mask of another length.

    >>> edges = knn_edges(jnp.array([[0.0], [1.0], [3.0]]), 1)
    >>> edges.senders, edges.receivers
    (Array([1, 0, 1], dtype=int32), array([0, 1, 2], dtype=int32))
    """
    _check_k("knn_edges", k)
    points: Array = lax.stop_gradient(check_float("knn_edges", x, 2))
    points = points if points.dtype == np.float64 else points.astype(np.float32)
    n = points.shape[0]
    for name, value in (("graph_ids", graph_ids), ("mask", mask)):
        if value is not None and value.shape != (n,):
            raise bad("knn_edges", f"{name} needs one entry for each node",
                      {"x": type_text(points), name: type_text(value)}, "pass [n].", ValueError)
    ids = None if graph_ids is None else jnp.asarray(graph_ids)
    nearness, senders = _by_blocks(lambda rows: _nearest(points, rows, min(k, n), ids, mask, self_loops), n)
    missing = ((0, 0), (0, k - min(k, n)))
    exists, senders = (jnp.pad(part, missing).reshape(n * k) for part in (nearness > -np.inf, senders))
    all_exist = graph_ids is None and mask is None and k <= n - (not self_loops)
    return Edges(senders.astype(np.int32), np.repeat(np.arange(n, dtype=np.int32), k), None, None,
                 None if all_exist else exists, jnp.argsort(senders, stable=True).astype(np.int32), n)


def _by_blocks(of_rows: Callable[[Any], Any], n: int) -> tuple[Array, Array]:
    """``of_rows(arange(n))``, computed in blocks of rows, because each row needs n distances."""
    size = max(_CHUNK // max(n, 1), 1)
    if n <= size:
        return of_rows(jnp.arange(n, dtype=np.int32))
    rows = np.minimum(np.arange(-(-n // size) * size, dtype=np.int32), n - 1).reshape(-1, size)
    return tree_util.tree_map(lambda y: y.reshape(-1, *y.shape[2:])[:n], lax.map(of_rows, jnp.asarray(rows)))


def _nearest(x: Array, rows: Array, k: int, ids: Array | None, mask: ArrayLike | None,
             self_loops: bool) -> tuple[Any, Any]:
    """([r, k], [r, k]): negative squared distances of the k nearest nodes, -inf for missing ones; and their indices."""
    near, columns = -_square_distances(x, rows), jnp.arange(x.shape[0], dtype=np.int32)
    near = jnp.where(rows[:, None] == columns[None], np.inf if self_loops else -np.inf, near)
    if ids is not None:
        near = jnp.where(ids[rows][:, None] == ids[None], near, -np.inf)
    if mask is not None:
        near = jnp.where(jnp.asarray(mask)[rows][:, None] & jnp.asarray(mask)[None], near, -np.inf)
    return tuple(lax.top_k(near, k))


def _square_distances(x: Array, rows: Array) -> Array:
    """[r, n]: squared distances between the given rows of x and all rows."""
    if x.shape[1] <= _EXACT:
        parts = [jnp.square(x[rows, i][:, None] - x[None, :, i]) for i in range(x.shape[1])]
        return sum(parts, jnp.zeros((rows.shape[0], x.shape[0]), x.dtype))
    x = x - jnp.mean(x, 0, keepdims=True)                     # |a|^2 - 2 a b + |b|^2 cancels less if x is centred
    square = jnp.sum(jnp.square(x), -1)
    return square[rows][:, None] - 2 * (x[rows] @ x.T) + square[None]


def _check_k(caller: str, k: int) -> None:
    if k < 1:
        raise bad(caller, "a node must have at least one neighbour", {"k": k}, "pass k >= 1.", ValueError)
