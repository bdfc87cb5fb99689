"""Batching: joins graphs to a batch, splits a batch, and pads it to a static size.

A program is compiled once for each size. `pad` appends padding graphs: the first has all padding nodes and edges, the
others are empty. `Graph.mask` is True for the real graphs; the results of layers for them do not depend on the padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import tree_util
from xjax.errors import bad
from xjax.typing import Array, ArrayLike, PyTree
from xnn.graph.structure.arrays import host, indices_or_mask
from xnn.graph.structure.graph import Graph


def batch(graphs: Sequence[Graph]) -> Graph:
    """Joins graphs, or batches, to one batch: concatenates their nodes, edges and globals.

    Raises: ValueError for an empty sequence, or if the graphs differ in their features or dtypes.

    >>> two = batch([Graph.from_edges([0], [1]), Graph.from_edges([1, 2], [0, 1])])
    >>> two
    <Graph of 2 graphs, 5 nodes, 3 edges>
    >>> two.senders
    array([0, 3, 4], dtype=int32)
    """
    graphs = [host("graph.batch", graph) for graph in graphs]
    if not graphs:
        raise bad("graph.batch", "there is no graph to join", fix="pass a list of Graphs.", exc=ValueError)
    sizes = [graph.n_nodes for graph in graphs]
    nodes_before = np.cumsum([0, *sizes[:-1]])
    edges_before = np.cumsum([0, *(graph.n_edges for graph in graphs[:-1])])
    ordered = all(graph.by_sender is not None for graph in graphs)
    padded = any(graph.mask is not None for graph in graphs)
    return Graph(
        _joined("nodes", graphs), _joined("edges", graphs),
        _shifted([graph.senders for graph in graphs], nodes_before),
        _shifted([graph.receivers for graph in graphs], nodes_before), _joined("globals", graphs),
        np.concatenate([graph.n_node for graph in graphs]), np.concatenate([graph.n_edge for graph in graphs]),
        np.concatenate([np.ones(graph.n_graphs, bool) if graph.mask is None else graph.mask for graph in graphs])
        if padded else None,
        _shifted([graph.by_sender for graph in graphs], edges_before) if ordered else None)


def unbatch(graph: Graph) -> list[Graph]:
    """The graphs of a batch, without padding graphs: the inverse of `batch`."""
    graph = host("graph.unbatch", graph)
    real = np.ones(graph.n_graphs, bool) if graph.mask is None else graph.mask
    last_node, last_edge = np.cumsum(graph.n_node), np.cumsum(graph.n_edge)
    return [_one(graph, i, last_node[i] - graph.n_node[i], last_node[i], last_edge[i] - graph.n_edge[i], last_edge[i])
            for i in np.flatnonzero(real)]


def take_graphs(graph: Graph, ids: Any) -> Graph:
    """The graphs `ids` of a batch as a batch, in this order; an id may occur more than once.

    Much faster than joining a list of graphs: join a data set once, then take its batches from it.

    Args: ids: int[m], or bool[g].
    Raises: ValueError if an id is out of range.

    >>> three = batch([Graph.from_edges([], [], n_nodes=n) for n in (5, 6, 7)])
    >>> take_graphs(three, [2, 0]).n_node
    array([7, 5], dtype=int32)
    """
    caller = "graph.take_graphs"
    graph = host(caller, graph)
    ids = indices_or_mask(caller, "ids", ids, graph.n_graphs)
    node_rows, node_moves = _rows_of(graph.n_node, ids)
    edge_rows, edge_moves = _rows_of(graph.n_edge, ids)
    n_node, n_edge = graph.n_node[ids], graph.n_edge[ids]

    def taken(tree, rows):
        return tree_util.tree_map(lambda x: x[rows], tree)

    def moved(index, moves):
        return index[edge_rows] + np.repeat(moves, n_edge).astype(np.int32)

    return Graph(taken(graph.nodes, node_rows), taken(graph.edges, edge_rows), moved(graph.senders, node_moves),
                 moved(graph.receivers, node_moves), taken(graph.globals, ids), n_node, n_edge,
                 None if graph.mask is None else graph.mask[ids],
                 None if graph.by_sender is None else moved(graph.by_sender, edge_moves))


def pad(graph: Graph, n_nodes: int, n_edges: int, n_graphs: int | None = None) -> Graph:
    """Appends padding graphs, up to `n_nodes`, `n_edges` and `n_graphs` in all.

    Features of padding are 0. Padding edges join the first padding node to itself.

    Args: n_graphs: if None, one more than the graph has.
    Raises: ValueError if the sizes are too small: padding edges need a padding node, and both need a padding graph.

    >>> padded = pad(Graph.from_edges([0], [1]), n_nodes=4, n_edges=3)
    >>> padded
    <Graph of 2 graphs, 4 nodes, 3 edges>
    >>> padded.mask, padded.senders
    (array([ True, False]), array([0, 2, 2], dtype=int32))
    """
    graph = host("graph.pad", graph)
    n_graphs = graph.n_graphs + 1 if n_graphs is None else n_graphs
    n_old = graph.n_nodes, graph.n_edges, graph.n_graphs
    n_new = n_nodes - n_old[0], n_edges - n_old[1], n_graphs - n_old[2]
    if min(n_new) < 0 or (n_new[1] and not n_new[0]) or ((n_new[0] or n_new[1]) and not n_new[2]):
        raise bad("graph.pad", "the sizes have no place for the graph and its padding",
                  {"graph": repr(graph), "n_nodes, n_edges, n_graphs": f"{n_nodes}, {n_edges}, {n_graphs}"},
                  "pass at least one node and one graph more than the graph has.", ValueError)
    first = np.full(n_new[1], n_old[0], np.int32)
    mask = np.ones(n_old[2], bool) if graph.mask is None else graph.mask
    counts = np.zeros((2, n_new[2]), np.int32)
    counts[:, :1] = [[n_new[0]], [n_new[1]]]
    by_sender = graph.by_sender
    return Graph(
        _padded(graph.nodes, n_new[0]), _padded(graph.edges, n_new[1]), np.concatenate([graph.senders, first]),
        np.concatenate([graph.receivers, first]), _padded(graph.globals, n_new[2]),
        np.concatenate([graph.n_node, counts[0]]), np.concatenate([graph.n_edge, counts[1]]),
        np.concatenate([mask, np.zeros(n_new[2], bool)]),
        None if by_sender is None else np.concatenate([by_sender, np.arange(n_old[1], n_edges, dtype=np.int32)]))


def at_nodes(graph: Graph, per_graph: ArrayLike) -> Array:
    """``[g, ...] -> [n, ...]``: for each node the row of its graph."""
    return tree_util.tree_map(lambda x: jnp.asarray(x)[graph.node_graph], per_graph)


def at_edges(graph: Graph, per_graph: ArrayLike) -> Array:
    """``[g, ...] -> [e, ...]``: for each edge the row of its graph."""
    return tree_util.tree_map(lambda x: jnp.asarray(x)[graph.edge_graph], per_graph)


def _rows_of(counts: np.ndarray, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows of the groups `ids`, where group i has ``counts[i]`` rows, and the offset by which each one moves."""
    starts, taken = np.cumsum(counts) - counts, counts[ids]
    moves = np.cumsum(taken) - taken - starts[ids]
    return np.arange(taken.sum()) - np.repeat(moves, taken), moves


def _one(graph: Graph, i: int, node: int, node_end: int, edge: int, edge_end: int) -> Graph:
    def rows(tree, start, end):
        return tree_util.tree_map(lambda x: x[start:end], tree)

    def ends(index, before):
        return None if index is None else index[edge:edge_end] - np.int32(before)

    return Graph(rows(graph.nodes, node, node_end), rows(graph.edges, edge, edge_end), ends(graph.senders, node),
                 ends(graph.receivers, node), rows(graph.globals, i, i + 1), graph.n_node[i:i + 1],
                 graph.n_edge[i:i + 1], by_sender=ends(graph.by_sender, edge))


def _joined(field: str, graphs: Sequence[Graph]) -> Any:
    trees = [getattr(graph, field) for graph in graphs]
    outlines = {tree_util.tree_structure(tree) for tree in trees}
    shapes = {tuple((leaf.shape[1:], leaf.dtype) for leaf in tree_util.tree_leaves(tree)) for tree in trees}
    if len(outlines) > 1 or len(shapes) > 1:
        raise bad("graph.batch", f"the graphs differ in their `{field}`",
                  {"graphs": ", ".join(dict.fromkeys(map(repr, graphs)))},
                  "give all graphs the same features, of one dtype.", ValueError)
    return tree_util.tree_map(lambda *leaves: np.concatenate(leaves), *trees)


def _shifted(parts: Sequence[np.ndarray], before: np.ndarray) -> np.ndarray:
    return np.concatenate([part + np.int32(start) for part, start in zip(parts, before, strict=True)])


def _padded(tree: PyTree, count: int) -> Any:
    return tree_util.tree_map(lambda x: np.concatenate([x, np.zeros((count, *x.shape[1:]), x.dtype)]), tree)
