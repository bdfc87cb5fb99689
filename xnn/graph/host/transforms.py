"""Transforms of graphs on the host: self loops, directions, repeated edges, subgraphs.

All take a graph or a batch, and transform its node and edge features with it. Graphs must be concrete (not traced).
Except for `is_undirected`, `reverse` and `degree` they must not have padding: the number of edges changes, so pad
afterwards.
"""

from typing import Any, Literal

import numpy as np

from xjax import tree_util
from xjax.errors import bad, check_choice
from xjax.typing import PyTree
from xnn.checks import type_text
from xnn.graph.structure.arrays import edge_order, host, indices_or_mask, library, stable_order, without_padding
from xnn.graph.structure.graph import Graph

Reduce = Literal["sum", "mean", "max", "min"]


def add_self_loops(graph: Graph, fill: Any = 1.0) -> Graph:
    """Adds a self loop at each node that has none.

    Args: fill: weights and features of the loops: a number, "mean" for the mean of the edges that the node receives
      (0 if it receives none), or a dict with the keys of `edges` and such a value for each array.

    >>> from xnn.graph import Graph
    >>> add_self_loops(Graph.from_edges([0], [1], edges=[0.5])).weight
    array([1. , 0.5, 1. ])
    """
    caller = "add_self_loops"
    graph = without_padding(caller, graph)
    without = np.ones(graph.n_nodes, bool)
    without[graph.senders[graph.senders == graph.receivers]] = False
    ids = np.flatnonzero(without).astype(np.int32)
    if isinstance(fill, dict) and (not isinstance(graph.edges, dict) or set(fill) != set(graph.edges)):
        raise bad(caller, "`fill` does not have the keys of the edges", {"fill": repr(fill), "graph": repr(graph)},
                  "pass a number, or a dict with the same keys.", ValueError)

    def with_loops(x, fill):
        return np.concatenate([x, _loops(caller, graph, ids, x, fill)])

    edges = {key: with_loops(x, fill[key]) for key, x in graph.edges.items()} if isinstance(fill, dict) else (
        tree_util.tree_map(lambda x: with_loops(x, fill), graph.edges))
    return with_edges(graph, np.concatenate([graph.senders, ids]), np.concatenate([graph.receivers, ids]), edges)


def remove_self_loops(graph: Graph) -> Graph:
    """Removes the edges from a node to itself."""
    graph = without_padding("remove_self_loops", graph)
    return edges_where(graph, graph.senders != graph.receivers)


def coalesce(graph: Graph, reduce: Reduce = "sum") -> Graph:
    """Merges repeated edges; their weights and features are reduced, array by array.

    >>> from xnn.graph import Graph
    >>> coalesce(Graph.from_edges([0, 0], [1, 1], edges=[0.5, 2.0]))
    <Graph of 2 nodes, 1 edges; edges f64[1]>
    """
    graph = without_padding("coalesce", graph)
    return _merged("coalesce", graph, graph.senders, graph.receivers, graph.edges, reduce)


def to_undirected(graph: Graph, reduce: Reduce = "max") -> Graph:
    """Returns a graph with each edge once in both directions. Values of opposite and repeated edges are reduced.

    An edge in only one direction keeps its value in both directions. A graph that is already undirected, without
    repeated edges, does not change unless `reduce` is "sum".
    """
    caller = "to_undirected"
    graph = without_padding(caller, graph)
    back = np.flatnonzero(graph.senders != graph.receivers)
    edges = tree_util.tree_map(lambda x: np.concatenate([x, x[back]]), graph.edges)
    return _merged(caller, graph, np.concatenate([graph.senders, graph.receivers[back]]),
                   np.concatenate([graph.receivers, graph.senders[back]]), edges, reduce)


def is_undirected(graph: Graph) -> bool:
    """Whether each edge exists in both directions, with equal weights and features."""
    graph = host("is_undirected", graph)
    forth = edge_order(graph.senders, graph.receivers, graph.n_nodes)
    back = edge_order(graph.receivers, graph.senders, graph.n_nodes)
    senders, receivers = graph.senders[forth], graph.receivers[forth]
    if not (np.array_equal(senders, graph.receivers[back]) and np.array_equal(receivers, graph.senders[back])):
        return False
    columns = [x.reshape(len(x), int(np.prod(x.shape[1:]))) for x in tree_util.tree_leaves(graph.edges)]
    columns = [x if x.dtype.kind in "biuf" else x.astype(np.float32) for x in columns]
    if np.any((np.diff(senders) == 0) & (np.diff(receivers) == 0)):    # repeated edges: order them by their values
        keys = [column for x in columns for column in x.T]
        forth = np.lexsort((*keys, graph.senders, graph.receivers))
        back = np.lexsort((*keys, graph.receivers, graph.senders))
    return all(np.array_equal(x[forth], x[back], equal_nan=x.dtype.kind == "f") for x in columns)


def reverse(graph: Graph) -> Graph:
    """Reverses the direction of all edges."""
    graph = host("reverse", graph)
    return with_edges(graph, graph.receivers, graph.senders, graph.edges)


def degree(graph: Graph, direction: Literal["in", "out"] = "in", *, weighted: bool = False) -> np.ndarray:
    """float32[n]: number of edges that each node receives ("in") or sends ("out"); with `weighted` the sum of weights.

    Padding edges do not count. In a traced program, use `Graph.degree`, which is the same for "in".
    """
    graph = host("degree", graph)
    check_choice("degree", "direction", direction, ("in", "out"))
    weight = np.ones(graph.n_edges) if graph.weight is None or not weighted else graph.weight.astype(np.float64)
    weight = weight if graph.mask is None else np.where(graph.mask[graph.edge_graph], weight, 0)
    ends = graph.receivers if direction == "in" else graph.senders
    return np.bincount(ends, weights=weight, minlength=graph.n_nodes).astype(np.float32)


# -- parts of a graph ---------------------------------------------------------------------------------------------


def subgraph(graph: Graph, ids: Any) -> Graph:
    """The nodes `ids` and the edges between them; node i of the result is node ``ids[i]``.

    Args: ids: int[m], distinct, or bool[n]. In a batch they must be in the order of the graphs.
    Raises: ValueError for ids that are repeated, out of range, or not in the order of the graphs.
    """
    caller = "subgraph"
    graph = without_padding(caller, graph)
    ids = indices_or_mask(caller, "ids", ids, graph.n_nodes)
    place = np.full(graph.n_nodes, -1, np.int32)
    place[ids] = np.arange(len(ids), dtype=np.int32)
    if np.any(place[ids] != np.arange(len(ids))):
        raise bad(caller, "a node occurs twice in `ids`", {"ids": len(ids), "different": len(np.unique(ids))},
                  "pass np.unique(ids).", ValueError)
    owner = graph.node_graph[ids]
    if np.any(np.diff(owner) < 0):
        raise bad(caller, "the ids are not in the order of the graphs of the batch", {"graph": repr(graph)},
                  "pass np.sort(ids).", ValueError)
    kept = (place[graph.senders] >= 0) & (place[graph.receivers] >= 0)
    nodes = tree_util.tree_map(lambda x: x[ids], graph.nodes)
    n_node = np.bincount(owner, minlength=graph.n_graphs).astype(np.int32)
    edges = tree_util.tree_map(lambda x: x[kept], graph.edges)
    smaller = graph.replace(nodes=nodes, n_node=n_node)
    return with_edges(smaller, place[graph.senders[kept]], place[graph.receivers[kept]], edges)


def k_hop(graph: Graph, seeds: Any, k: int) -> tuple[Graph, np.ndarray]:
    """The nodes from which a path of at most k edges leads to a seed: the inputs of k layers for outputs at `seeds`.

    Returns: ``(subgraph, ids)``: the subgraph of these nodes, and their indices in ascending order. The rows of the
      seeds are ``np.searchsorted(ids, seeds)``.

    >>> from xnn.graph import Graph
    >>> path = Graph.from_edges([0, 1, 2], [1, 2, 3])
    >>> k_hop(path, [2], 1)
    (<Graph of 2 nodes, 1 edges>, array([1, 2], dtype=int32))
    """
    graph = without_padding("k_hop", graph)
    if k < 0:
        raise bad("k_hop", "the number of hops is negative", {"k": k}, "pass k >= 0.", ValueError)
    reached = np.zeros(graph.n_nodes, bool)
    reached[indices_or_mask("k_hop", "seeds", seeds, graph.n_nodes)] = True
    for _ in range(k):
        before = reached.sum()
        reached[graph.senders[reached[graph.receivers]]] = True
        if reached.sum() == before:
            break
    ids = np.flatnonzero(reached).astype(np.int32)
    return subgraph(graph, ids), ids


def largest_component(graph: Graph, connection: Literal["weak", "strong"] = "weak") -> tuple[Graph, np.ndarray]:
    """The largest connected component of the graph, or of each graph of a batch; the first of equally large ones.

    Returns: ``(subgraph, ids)``: the component, and the indices of its nodes in ascending order.
    """
    graph = without_padding("largest_component", graph)
    check_choice("largest_component", "connection", connection, ("weak", "strong"))
    _, part = library("scipy.sparse.csgraph").connected_components(
        graph.replace(edges=None).to_scipy(), connection=connection)
    _, first, part, size = np.unique(part, return_index=True, return_inverse=True, return_counts=True)
    order = np.lexsort((-first, size, graph.node_graph[first]))     # by graph, the largest last
    owner = graph.node_graph[first][order]
    chosen = np.zeros(len(size), bool)
    chosen[order[np.diff(owner, append=-1) != 0]] = True
    ids = np.flatnonzero(chosen[part]).astype(np.int32)
    return subgraph(graph, ids), ids


# -- edges --------------------------------------------------------------------------------------------------------


def with_edges(graph: Graph, senders: np.ndarray, receivers: np.ndarray, edges: PyTree) -> Graph:
    """Replaces the edges; the new ones may be in any order, and must join nodes of the same graph of a batch."""
    order = edge_order(senders, receivers, graph.n_nodes)
    senders, receivers = senders[order], receivers[order]
    n_edge = np.bincount(graph.node_graph[receivers], minlength=graph.n_graphs).astype(np.int32)
    graph = graph.replace(edges=tree_util.tree_map(lambda x: x[order], edges), senders=senders, receivers=receivers,
                          n_edge=n_edge)
    return graph.replace(by_sender=stable_order(senders, graph.n_nodes).astype(np.int32))


def edges_where(graph: Graph, kept: np.ndarray) -> Graph:
    """Keeps only the edges for which `kept`, bool[e], is True."""
    return with_edges(graph, graph.senders[kept], graph.receivers[kept],
                      tree_util.tree_map(lambda x: x[kept], graph.edges))


def _merged(caller: str, graph: Graph, senders: np.ndarray, receivers: np.ndarray, edges: PyTree, reduce: str) -> Graph:
    functions = {"sum": np.add, "mean": np.add, "max": np.maximum, "min": np.minimum}
    check_choice(caller, "reduction", reduce, functions)
    order = edge_order(senders, receivers, graph.n_nodes)
    senders, receivers = senders[order], receivers[order]
    starts = np.flatnonzero((np.diff(senders, prepend=-1) != 0) | (np.diff(receivers, prepend=-1) != 0))
    counts = np.diff(starts, append=len(senders))

    def merged(x):
        if reduce == "mean" and x.dtype.kind in "biu":
            raise bad(caller, 'reduce="mean" needs floating-point values', {"edges": type_text(x)},
                      'use reduce="max", or convert them to float32.', ValueError)
        if len(x) == 0:
            return x
        total = functions[reduce].reduceat(x[order], starts, axis=0)
        total = total / counts.reshape(-1, *[1] * (x.ndim - 1)) if reduce == "mean" else total
        return total.astype(x.dtype)

    return with_edges(graph, senders[starts], receivers[starts], tree_util.tree_map(merged, edges))


def _loops(caller: str, graph: Graph, ids: np.ndarray, x: np.ndarray, fill: Any) -> np.ndarray:
    """Values of the self loops at the nodes `ids`, with the dtype and row shape of x, the values of the edges."""
    if not isinstance(fill, str):
        return np.broadcast_to(np.asarray(fill, x.dtype), (len(ids), *x.shape[1:]))
    check_choice(caller, "fill", fill, ["mean"], 'pass a number or "mean".')
    counts = np.bincount(graph.receivers, minlength=graph.n_nodes)
    total = np.zeros((graph.n_nodes, *x.shape[1:]), np.float64)
    receiving = np.flatnonzero(counts)
    if len(receiving):                                         # a graph not made by from_edges may be unsorted
        order = np.argsort(graph.receivers, kind="stable")
        starts = np.cumsum(counts) - counts
        total[receiving] = np.add.reduceat(x[order].astype(np.float64), starts[receiving], axis=0)
    mean = total / np.maximum(counts, 1).reshape(-1, *[1] * (x.ndim - 1))
    return mean[ids].astype(x.dtype)
