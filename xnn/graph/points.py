"""Graphs of points: edges between neighbours, found on the host with a k-d tree."""

from typing import Any

import numpy as np

from xjax.errors import bad
from xnn.checks import type_text
from xnn.graph.arrays import canonical, host, library
from xnn.graph.graph import Graph
from xnn.graph.transforms import add_self_loops


def knn_graph(points: Any, k: int, *, nodes: Any = None, self_loops: bool = False) -> Graph:
    """An edge to each point from each of its k nearest others, by Euclidean distance.

    Args:
      points: [n, d].
      k: number of neighbours; all other points if there are fewer.
      nodes: features of the nodes; the points if None.
      self_loops: add an edge from each point to itself.
    """
    points = _points("knn_graph", points)
    n = len(points)
    if k < 1:
        raise bad("knn_graph", "needs at least one neighbour", {"k": k}, "pass k >= 1.", ValueError)
    k = min(k, max(n - 1, 0))
    near = np.zeros((n, 0), np.int64)
    if k:
        _, near = library("scipy.spatial").cKDTree(points).query(points, k=k + 1)
        own = near == np.arange(n)[:, None]
        own[~own.any(1), -1] = True                            # among equal points it may find k + 1 others
        near = near[~own].reshape(n, k)
    senders, receivers = near.reshape(-1), np.repeat(np.arange(n), k)
    return _of_points(points, senders, receivers, nodes, self_loops)


def radius_graph(points: Any, radius: float, *, max_neighbors: int | None = None, nodes: Any = None,
                 self_loops: bool = False) -> Graph:
    """An edge in both directions between points at most `radius` apart, by Euclidean distance.

    Args:
      points: [n, d].
      max_neighbors: of more edges to a point only so many are kept, from the nearest; the graph may then be directed.
      nodes, self_loops: as in `knn_graph`.
    """
    points = _points("radius_graph", points)
    pairs = library("scipy.spatial").cKDTree(points).query_pairs(radius, output_type="ndarray").reshape(-1, 2)
    senders, receivers = np.concatenate([pairs, pairs[:, ::-1]]).T
    if max_neighbors is not None:
        far = np.square(points[senders] - points[receivers]).sum(1)
        order = np.lexsort((senders, far, receivers))
        senders, receivers = senders[order], receivers[order]
        rank = np.arange(len(order)) - np.searchsorted(receivers, receivers)
        senders, receivers = senders[rank < max_neighbors], receivers[rank < max_neighbors]
    return _of_points(points, senders, receivers, nodes, self_loops)


def _points(where: str, points: Any) -> np.ndarray:
    points = canonical(host(where, points))
    if points.ndim != 2 or not np.isfinite(points).all():
        raise bad(where, "the points must be finite numbers [n, d]", {"points": type_text(points)},
                  "pass one row for each point.", ValueError)
    return points


def _of_points(points: np.ndarray, senders: np.ndarray, receivers: np.ndarray, nodes: Any, self_loops: bool) -> Graph:
    graph = Graph.from_edges(senders, receivers, points if nodes is None else nodes)
    return add_self_loops(graph) if self_loops else graph
