"""Graphs of points: edges between near neighbours, computed on the host with a k-d tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from xjax.errors import bad
from xjax.typing import ArrayLike, PyTree
from xnn.checks import type_text
from xnn.graph.host.transforms import add_self_loops
from xnn.graph.structure.arrays import canonical, host, library
from xnn.graph.structure.graph import Graph

_SLACK = 1 + 1e-9               # the tree's distances and the sums computed here may differ by rounding
_CHUNK = 1 << 20                # number of candidates per pass: bounds the memory


def knn_graph(points: ArrayLike, k: int, *, nodes: ArrayLike | None = None, self_loops: bool = False) -> Graph:
    """Joins each point to its k nearest other points, by Euclidean distance: an edge from each neighbour to the point.

    Of equally near points, the first are taken. Two distances are equal if their squares, summed in float64, are equal.
    Memory is proportional to n * k; time is nearly so for few coordinates, and for more than about 16 coordinates it
    approaches the time of computing all n * n distances.

    Args:
      points: [n, d].
      k: number of neighbours; if there are fewer than k other points, all of them.
      nodes: features of the nodes; the points if None.
      self_loops: add an edge from each point to itself.
    """
    points = _points("knn_graph", points)
    n = len(points)
    if k < 1:
        raise bad("knn_graph", "needs at least one neighbour", {"k": k}, "pass k >= 1.", ValueError)
    senders, receivers = _nearest(points.astype(np.float64), min(k, n - 1)) if n > 1 else (np.zeros(0, np.int64),) * 2
    return _of_points(points, senders, receivers, nodes, self_loops)


def _nearest(points: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """(Senders, receivers) of the edges from the k nearest other points to each point, k < n."""
    n = len(points)
    tree = library("scipy.spatial").cKDTree(points)
    distance, near = tree.query(points, k=min(k + 2, n))                   # itself, k others, one to detect ties
    distance, near = distance.reshape(n, -1), near.reshape(n, -1)
    is_tie = np.zeros(n, bool) if n < k + 2 else distance[:, k + 1] <= distance[:, k] * _SLACK
    near, rows = near[~is_tie, :k + 1], np.flatnonzero(~is_tie)
    clear = near[near != rows[:, None]], np.repeat(rows, k)
    tied = _nearest_of_equals(points, tree, np.flatnonzero(is_tie), distance[is_tie, k] * _SLACK, k)
    senders, receivers = (np.concatenate(ends) for ends in zip(clear, *tied, strict=True))
    return senders, receivers


def _nearest_of_equals(points: np.ndarray, tree: Any, rows: np.ndarray, radius: np.ndarray,
                       k: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields (senders, receivers) for the points `rows`, among whose k nearest the tree cannot order ties.

    Args: radius: for each row, a distance within which there are at least k other points.
    """
    counts = tree.query_ball_point(points[rows], radius, return_length=True) if len(rows) else np.zeros(0, np.int64)
    for part in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(np.cumsum(counts) // _CHUNK)) + 1):
        if not len(part):
            continue
        senders = np.concatenate(tree.query_ball_point(points[rows[part]], radius[part])).astype(np.int64)
        receivers = np.repeat(rows[part], counts[part])
        others = senders != receivers
        senders, receivers = senders[others], receivers[others]
        yield _first(points, senders, receivers, k)


def _first(points: np.ndarray, senders: np.ndarray, receivers: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """For each receiver the k edges from its nearest senders; of equally near senders the first."""
    far = np.square(points[senders] - points[receivers]).sum(1)
    order = np.lexsort((senders, far, receivers))
    senders, receivers = senders[order], receivers[order]
    kept = np.arange(len(order)) - np.searchsorted(receivers, receivers) < k
    return senders[kept], receivers[kept]


def radius_graph(points: ArrayLike, radius: float, *, max_neighbors: int | None = None, nodes: PyTree = None,
                 self_loops: bool = False) -> Graph:
    """Joins points whose Euclidean distance is at most `radius`, in both directions.

    Args:
      points: [n, d].
      max_neighbors: keep at most this many nearest neighbours of each point; the graph may become directed.
      nodes, self_loops: as in `knn_graph`.
    """
    points = _points("radius_graph", points)
    pairs = library("scipy.spatial").cKDTree(points).query_pairs(radius, output_type="ndarray").reshape(-1, 2)
    senders, receivers = np.concatenate([pairs, pairs[:, ::-1]]).T
    if max_neighbors is not None:
        senders, receivers = _first(points, senders, receivers, max_neighbors)
    return _of_points(points, senders, receivers, nodes, self_loops)


def _points(caller: str, points: ArrayLike) -> np.ndarray:
    points = canonical(host(caller, points))
    if points.ndim != 2 or not np.isfinite(points).all():
        raise bad(caller, "the points must be finite numbers [n, d]", {"points": type_text(points)},
                  "pass one row for each point.", ValueError)
    return points


def _of_points(points: np.ndarray, senders: np.ndarray, receivers: np.ndarray, nodes: ArrayLike | None,
               self_loops: bool) -> Graph:
    graph = Graph.from_edges(senders, receivers, points if nodes is None else nodes)
    return add_self_loops(graph) if self_loops else graph
