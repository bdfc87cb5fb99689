"""Hypothesis strategies: graphs with features and weights, in any direction, with loops, repeats and isolated nodes."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import xnn.graph as xg
from xnn.graph import Graph


@st.composite
def graphs(draw, max_nodes=7, features=True, loops=True, repeats=True, min_nodes=0):
    """One graph; the weights and features of edges identify the edge."""
    n = draw(st.integers(min_nodes, max_nodes))
    e = draw(st.integers(0, 14)) if n else 0
    ends = draw(arrays.arrays(np.int32, (2, e), elements=st.integers(0, max(n - 1, 0))))
    if not loops:
        ends = ends[:, ends[0] != ends[1]]
    if not repeats and ends.size:
        ends = np.unique(ends, axis=1)
    number = np.arange(ends.shape[1], dtype=np.float32)
    edges = {"weight": number + 1, "features": np.stack([number, -number], 1)} if features else None
    nodes = np.stack([np.arange(n), np.arange(n) ** 2], 1).astype(np.float32) if features else None
    return Graph.from_edges(*ends, nodes, edges, globals=np.float32([n]) if features else None, n_nodes=n)


@st.composite
def batches(draw, **options):
    """A batch of one to four graphs."""
    return xg.batch(draw(st.lists(graphs(**options), min_size=1, max_size=4)))


def triples(graph):
    """The sorted edges with their values: (sender, receiver, values...)."""
    columns = [np.asarray(graph.senders), np.asarray(graph.receivers)]
    if graph.weight is not None:
        columns.append(np.asarray(graph.weight))
    if graph.edge_features is not None:
        columns += list(np.asarray(graph.edge_features).T)
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


def assert_sound(graph):
    """Assert the invariants of `Graph`: edges join nodes of one graph, counts add up, sorted edges are sorted."""
    owner = np.asarray(graph.node_graph)
    assert np.array_equal(owner[graph.senders], graph.edge_graph) and np.array_equal(
        owner[graph.receivers], graph.edge_graph)
    assert graph.n_node.sum() == graph.n_nodes and graph.n_edge.sum() == graph.n_edges
    assert all(x.dtype == np.int32 for x in (graph.senders, graph.receivers, graph.n_node, graph.n_edge))
    if graph.by_sender is not None:
        assert np.all(np.diff(graph.receivers) >= 0) and np.all(np.diff(graph.senders[graph.by_sender]) >= 0)
        assert sorted(graph.by_sender) == list(range(graph.n_edges))
