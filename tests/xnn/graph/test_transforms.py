"""Graphs made of graphs: against networkx and NumPy, on graphs and batches, with features; errors."""

import time
import tracemalloc

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

import xnn.graph as xg
from tests.refusals import assert_refused
from tests.xnn.graph.drawn import assert_sound, batches, graphs, triples
from xnn.graph import Graph
from xnn.graph.host import points as points_lib
from xnn.graph.host import transforms
from xnn.graph.host.points import knn_graph, radius_graph
from xnn.graph.host.transforms import (
    add_self_loops,
    coalesce,
    degree,
    is_undirected,
    k_hop,
    largest_component,
    remove_self_loops,
    reverse,
    subgraph,
    to_undirected,
)

nx = pytest.importorskip("networkx")

quick = settings(deadline=None, max_examples=40)


def pairs(graph):
    return {(s, r) for s, r in zip(graph.senders.tolist(), graph.receivers.tolist(), strict=True)}


@quick
@given(batches())
def test_self_loops(graph):
    bare = remove_self_loops(graph)
    assert_sound(bare)
    assert triples(bare) == [edge for edge in triples(graph) if edge[0] != edge[1]]
    full = add_self_loops(graph, fill={"weight": 99, "features": "mean"})
    assert_sound(full)
    new = full.weight == 99
    without = [i for i in range(graph.n_nodes) if (i, i) not in pairs(graph)]
    assert full.senders[new].tolist() == full.receivers[new].tolist() == without
    assert sorted(edge for edge in triples(full) if edge[2] != 99) == triples(graph)
    for i, loop in zip(without, full.edge_features[new], strict=True):
        received = graph.edge_features[graph.receivers == i]
        np.testing.assert_allclose(loop, received.mean(0) if len(received) else [0, 0], rtol=1e-6)
    assert triples(add_self_loops(full)) == triples(full)
    assert add_self_loops(graph.replace(edges=None)).edges is None
    assert add_self_loops(graph.replace(edges=graph.weight), 99).weight[new].tolist() == [99] * len(without)


@quick
@given(batches(max_nodes=3), st.sampled_from(["sum", "mean", "max", "min"]))
def test_coalesce(graph, reduce):
    once = coalesce(graph, reduce)
    assert_sound(once)
    assert len(pairs(graph)) == once.n_edges and once.weight.dtype == np.float32
    for s, r, w, *features in triples(once):
        same = (graph.senders == s) & (graph.receivers == r)
        assert w == pytest.approx(getattr(np, reduce)(graph.weight[same]))
        np.testing.assert_allclose(features, getattr(np, reduce)(graph.edge_features[same], 0), rtol=1e-6)


@quick
@given(batches(max_nodes=4), st.sampled_from(["sum", "mean", "max", "min"]))
def test_undirected(graph, reduce):
    both = to_undirected(graph, reduce)
    assert_sound(both)
    assert is_undirected(both)
    assert pairs(both) == pairs(graph) | {(r, s) for s, r in pairs(graph)}
    for s, r, w, *_ in triples(both):
        same = ((graph.senders == s) & (graph.receivers == r)) | ((graph.senders == r) & (graph.receivers == s))
        assert w == pytest.approx(getattr(np, reduce)(graph.weight[same]))
    if reduce != "sum":
        assert triples(to_undirected(both, reduce)) == triples(both)


@quick
@given(batches(max_nodes=3))
def test_is_undirected_looks_at_values_and_repeats(graph):
    edges = triples(graph)
    assert is_undirected(graph) == (edges == sorted((r, s, *values) for s, r, *values in edges))
    bare = triples(graph.replace(edges=None))
    assert is_undirected(graph.replace(edges=None)) == (bare == sorted((r, s) for s, r in bare))
    assert is_undirected(xg.pad(graph, 20, 60)) == is_undirected(graph)


def test_is_undirected_of_other_types():
    nan = np.float32([np.nan, np.nan])
    assert is_undirected(Graph.from_edges([0, 1], [1, 0], edges=nan))
    assert not is_undirected(Graph.from_edges([0, 1], [1, 0], edges=np.array([1, 2], ml_dtypes.bfloat16)))
    halves = coalesce(Graph.from_edges([0, 0], [1, 1], edges=np.array([1, 2], ml_dtypes.bfloat16)))
    assert halves.weight.dtype == ml_dtypes.bfloat16 and halves.weight.tolist() == [3]
    assert to_undirected(Graph.from_edges([0], [1], edges=np.array([[1, 2]]))).edges.tolist() == [[1, 2]] * 2


@quick
@given(batches())
def test_reverse(graph):
    turned = reverse(graph)
    assert_sound(turned)
    assert triples(turned) == sorted((r, s, *values) for s, r, *values in triples(graph))
    assert triples(reverse(turned)) == triples(graph)
    padded = reverse(xg.pad(graph, 40, 60))
    assert_sound(padded)
    assert [triples(one) for one in xg.unbatch(padded)] == [triples(one) for one in xg.unbatch(turned)]


@quick
@given(batches())
def test_degrees(graph):
    dense, ones = graph.to_dense(), graph.replace(edges=None).to_dense()
    for one, n in ((graph, graph.n_nodes), (xg.pad(graph, graph.n_nodes + 2, graph.n_edges + 3), graph.n_nodes)):
        np.testing.assert_array_equal(degree(one)[:n], ones.sum(1))
        np.testing.assert_array_equal(degree(one, "out")[:n], ones.sum(0))
        np.testing.assert_array_equal(degree(one, "out", weighted=True)[:n], dense.sum(0))
        assert not degree(one)[n:].any() and degree(one).dtype == np.float32


@quick
@given(batches(min_nodes=1), st.data())
def test_subgraph(graph, data):
    ids = np.array(sorted(data.draw(st.sets(st.integers(0, graph.n_nodes - 1)))), np.int64)
    part = subgraph(graph, ids)
    assert_sound(part)
    want = [(int(np.searchsorted(ids, s)), int(np.searchsorted(ids, r)), *values) for s, r, *values in triples(graph)
            if s in ids and r in ids]
    assert triples(part) == sorted(want) and part.n_graphs == graph.n_graphs
    np.testing.assert_array_equal(part.nodes, graph.nodes[ids])
    mask = np.isin(np.arange(graph.n_nodes), ids)
    assert triples(subgraph(graph, mask)) == triples(part)


def test_subgraph_in_another_order():
    path = Graph.from_edges([0, 1], [1, 2], np.arange(3.0)[:, None])
    turned = subgraph(path, [2, 1, 0])
    assert triples(turned) == [(1, 0), (2, 1)] and turned.nodes[:, 0].tolist() == [2, 1, 0]


@quick
@given(graphs(min_nodes=1), st.data(), st.integers(0, 4))
def test_k_hop(graph, data, k):
    seeds = data.draw(st.sets(st.integers(0, graph.n_nodes - 1)))
    part, ids = k_hop(graph, sorted(seeds), k)
    towards = nx.DiGraph()
    towards.add_nodes_from(range(graph.n_nodes))
    towards.add_edges_from((r, s) for s, r in pairs(graph))
    want = {node for seed in seeds for node in nx.single_source_shortest_path_length(towards, seed, cutoff=k)}
    assert ids.tolist() == sorted(want)
    assert triples(part) == triples(subgraph(graph, ids))


@quick
@given(batches(), st.sampled_from(["weak", "strong"]))
def test_largest_component(graph, connection):
    part, ids = largest_component(graph, connection)
    assert_sound(part)
    made = graph.to_networkx()
    components = (nx.weakly_connected_components if connection == "weak" else nx.strongly_connected_components)(made)
    best = {}
    for component in sorted(components, key=min):
        owner = int(graph.node_graph[min(component)])
        if len(component) > len(best.get(owner, ())):
            best[owner] = component
    assert ids.tolist() == sorted(node for component in best.values() for node in component)
    assert triples(part) == triples(subgraph(graph, ids))


# -- points --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("k", [1, 3, 20])
def test_knn_graph(npr, k, loops):
    points = npr.normal(size=(12, 3))
    graph = knn_graph(points, k, self_loops=loops)
    far = cdist(points, points) + np.where(np.eye(12), np.inf, 0)
    want = {(int(s), r) for r in range(12) for s in np.argsort(far[r])[:min(k, 11)]}
    want |= {(i, i) for i in range(12) if loops}
    assert pairs(graph) == want and graph.n_edges == len(want)
    np.testing.assert_array_equal(graph.nodes, points.astype(np.float32))
    assert knn_graph(points, k, nodes=np.ones((12, 1))).nodes.shape == (12, 1)


def test_knn_graph_of_equal_points():
    graph = knn_graph(np.zeros((6, 2)), 2)
    assert graph.n_edges == 12 and (graph.senders != graph.receivers).all() and (degree(graph) == 2).all()
    assert knn_graph(np.zeros((1, 2)), 3).n_edges == 0
    assert knn_graph(np.zeros((0, 2)), 3).n_nodes == 0


@pytest.mark.parametrize("chunk", [1, 40, 1 << 20])
def test_knn_graph_takes_the_first_of_equally_near_points(chunk, npr, monkeypatch):
    monkeypatch.setattr(points_lib, "_CHUNK", chunk)
    for points in (np.stack(np.meshgrid(*[np.arange(5)] * 2), -1).reshape(-1, 2), np.zeros((7, 3)),
                   npr.integers(0, 3, (30, 2)), 0.1 * npr.integers(0, 3, (30, 5))):
        far = np.square(points.astype(np.float32)[:, None].astype(float) - points.astype(np.float32)[None]).sum(-1)
        far = far + np.where(np.eye(len(points)), np.inf, 0)
        for k in (1, 3, len(points) - 1, len(points) + 5):
            kept = min(k, len(points) - 1)
            want = np.sort(np.argsort(far, kind="stable")[:, :kept])
            np.testing.assert_array_equal(knn_graph(points, k).senders.reshape(-1, kept), want)


@pytest.mark.parametrize("what", ["anywhere", "grid"])
def test_knn_graph_of_many_points_takes_little_memory(what, npr):
    grid = np.stack(np.meshgrid(np.arange(200), np.arange(100)), -1).reshape(-1, 2)
    points = grid.astype(np.float32) if what == "grid" else npr.normal(size=(20_000, 3)).astype(np.float32)
    tracemalloc.start()
    try:
        graph = knn_graph(points, 8)
        assert tracemalloc.get_traced_memory()[1] < 100 * 2**20          # all distances: 3 GiB
    finally:
        tracemalloc.stop()
    assert graph.n_edges == 160_000


def test_radius_graph(npr):
    points = npr.normal(size=(15, 2)).astype(np.float32)
    far = cdist(points, points) + np.where(np.eye(15), np.inf, 0)
    graph = radius_graph(points, 0.8)
    assert pairs(graph) == {(s, r) for s, r in np.argwhere(far <= 0.8).tolist()} and is_undirected(graph)
    few = radius_graph(points, 0.8, max_neighbors=2)
    want = {(int(s), r) for r in range(15) for s in np.argsort(far[r])[:2] if far[r, s] <= 0.8}
    assert pairs(few) == want
    assert radius_graph(points, 1e-9, self_loops=True).n_edges == 15
    assert radius_graph(points[:0], 1.0).n_nodes == 0


# -- errors --------------------------------------------------------------------------------------------------------


TWO = Graph.from_edges([0, 1], [1, 0], edges=np.array([1, 2]))
PADDED = xg.pad(TWO, 4, 4)
WRONG = {name: (lambda call=call: call(PADDED), ValueError, [name, "padding"]) for name, call in {
    "add_self_loops": add_self_loops, "remove_self_loops": remove_self_loops, "coalesce": coalesce,
    "to_undirected": to_undirected, "subgraph": lambda graph: subgraph(graph, [0]),
    "k_hop": lambda graph: k_hop(graph, [0], 1), "largest_component": largest_component}.items()} | {
    "fill": (lambda: add_self_loops(TWO, "median"), ValueError, ["unknown fill", "'median'"]),
    "keys of fill": (lambda: add_self_loops(TWO, {"weight": 1}), ValueError, ["keys of the edges"]),
    "reduce": (lambda: coalesce(TWO, "median"), ValueError, ["unknown reduction", "'median'", "'sum', 'mean'"]),
    "mean of integers": (lambda: to_undirected(TWO, "mean"), ValueError, ["floating-point", 'reduce="max"']),
    "direction": (lambda: degree(TWO, "both"), ValueError, ["unknown direction"]),
    "repeated ids": (lambda: subgraph(TWO, [0, 0]), ValueError, ["occurs twice", "np.unique"]),
    "no node": (lambda: subgraph(TWO, [2]), ValueError, ["`ids` is out of range"]),
    "mixed graphs": (lambda: subgraph(xg.batch([TWO, TWO]), [2, 0]), ValueError, ["not in the order", "np.sort"]),
    "seeds": (lambda: k_hop(TWO, [5], 1), ValueError, ["`seeds` is out of range"]),
    "hops": (lambda: k_hop(TWO, [0], -1), ValueError, ["negative"]),
    "connection": (lambda: largest_component(TWO, "firm"), ValueError, ["unknown connection"]),
    "k": (lambda: knn_graph(np.ones((3, 2)), 0), ValueError, ["knn_graph", "at least one"]),
    "points": (lambda: radius_graph(np.ones(3), 1), ValueError, ["radius_graph", "[n, d]", "f32[3]"]),
    "NaN": (lambda: knn_graph(np.full((3, 2), np.nan), 1), ValueError, ["finite"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls(name):
    assert_refused(*WRONG[name])


@pytest.mark.slow
def test_large_graphs_take_moments():
    """A million edges; each transform takes much less time than a loop over edges."""
    npr = np.random.default_rng(0)
    ends, n = npr.integers(0, 100_000, (2, 1_000_000)), 100_000
    graph = Graph.from_edges(*ends, edges=npr.normal(size=1_000_000), n_nodes=n)
    start = time.perf_counter()
    for name in ("add_self_loops", "coalesce", "to_undirected", "is_undirected", "reverse", "largest_component"):
        getattr(transforms, name)(graph)
    k_hop(graph, np.arange(100), 2)
    assert time.perf_counter() - start < 20
