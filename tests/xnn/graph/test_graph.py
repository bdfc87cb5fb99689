"""`Graph`, `batch`, `unbatch` and `pad`: round trips, fields as a pytree, structure in programs, errors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xjax
import xjax.numpy as jnp
import xnn.graph as xg
from tests.compare import assert_same
from tests.refusals import assert_refused
from tests.xnn.graph.drawn import assert_sound, batches, graphs, triples
from xjax import tree_util
from xnn.graph import Graph
from xnn.graph.structure import arrays
from xnn.graph.structure.batching import take_graphs


@settings(deadline=None, max_examples=50)
@given(st.data())
def test_edges_are_sorted_and_take_their_values_along(data):
    ends = np.array(data.draw(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12)),
                    np.int64).reshape(-1, 2)
    number = np.arange(len(ends), dtype=np.float32)
    graph = Graph.from_edges(*ends.T, edges={"weight": number, "features": number[:, None]}, n_nodes=6)
    assert_sound(graph)
    assert triples(graph) == sorted((s, r, k, k) for k, (s, r) in enumerate(ends.tolist()))


def test_many_edges_are_sorted_by_counting(npr, monkeypatch):
    senders, receivers = npr.integers(0, 50, (2, 1000))              # with repeats, which keep their order
    order = np.lexsort((senders, receivers))
    assert np.array_equal(arrays.edge_order(senders, receivers, 60), order)
    monkeypatch.setattr(arrays, "_MANY", 10)
    assert np.array_equal(arrays.edge_order(senders, receivers, 60), order)
    graph = Graph.from_edges(senders.astype(np.uint64), receivers, edges=np.arange(1000, dtype=np.float32), n_nodes=60)
    assert_sound(graph)
    assert np.array_equal(graph.weight, order) and graph.senders.dtype == graph.by_sender.dtype == np.int32


@settings(deadline=None, max_examples=50)
@given(st.lists(graphs(), min_size=1, max_size=5))
def test_unbatch_undoes_batch(alone):
    joined = xg.batch(alone)
    assert_sound(joined)
    assert (joined.n_graphs, joined.n_nodes) == (len(alone), sum(graph.n_nodes for graph in alone))
    parts = xg.unbatch(joined)
    for graph, part in zip(alone, parts, strict=True):
        assert_same(part, graph, tol=0)
    assert_same(xg.batch([xg.batch(alone[:1]), *alone[1:]]), joined, tol=0)


@settings(deadline=None, max_examples=25)
@given(batches(), st.integers(1, 4), st.integers(0, 4), st.integers(1, 3))
def test_unbatch_undoes_pad(graph, nodes, edges, n_graphs):
    padded = xg.pad(graph, graph.n_nodes + nodes, graph.n_edges + edges, graph.n_graphs + n_graphs)
    assert_sound(padded)
    assert (padded.n_nodes, padded.n_edges) == (graph.n_nodes + nodes, graph.n_edges + edges)
    assert np.array_equal(padded.node_mask, np.arange(padded.n_nodes) < graph.n_nodes)
    assert np.array_equal(padded.edge_mask, np.arange(padded.n_edges) < graph.n_edges)
    for one, other in zip(xg.unbatch(padded), xg.unbatch(graph), strict=True):
        assert_same(one, other, tol=0)
    again = xg.pad(padded, padded.n_nodes + 1, padded.n_edges + 2)
    assert_sound(again)
    assert again.mask.tolist() == [*padded.mask, False]


@settings(deadline=None, max_examples=50)
@given(batches(), st.data())
def test_taken_graphs(graph, data):
    ids = data.draw(st.lists(st.integers(0, graph.n_graphs - 1), max_size=5))
    taken = take_graphs(graph, ids)
    assert_sound(taken)
    alone = xg.unbatch(graph)
    assert len(ids) == taken.n_graphs
    for one, i in zip(xg.unbatch(taken), ids, strict=True):
        assert_same(one, alone[i], tol=0)
    padded = take_graphs(xg.pad(graph, 40, 60), np.arange(graph.n_graphs + 1) != 0)
    assert_sound(padded)
    assert padded.mask.tolist() == [True] * (graph.n_graphs - 1) + [False]


def test_a_size_that_fits_exactly_needs_no_padding():
    graph = Graph.from_edges([0], [1])
    same = xg.pad(graph, 2, 1, 1)
    assert same.mask.tolist() == [True] and (same.n_nodes, same.n_edges) == (2, 1)
    assert xg.pad(graph, 2, 1).n_graphs == 2                        # an empty graph of padding


@pytest.mark.parametrize("dtype", [np.uint8, np.uint64, np.int8, np.int64])
def test_indices_of_any_integers(dtype):
    graph = Graph.from_edges(np.array([0, 100], dtype), np.array([100, 0], dtype))
    assert_sound(graph)
    assert triples(graph) == [(0, 100), (100, 0)] and graph.n_nodes == 101


def test_lists_are_arrays_and_values_may_be_traced():
    graph = Graph.from_edges([1, 0], [0, 1], nodes=[[1.0], [2.0]], edges={"weight": [5.0, 7.0]}, globals=[3.0])
    assert graph.weight.tolist() == [5, 7] and graph.nodes.shape == (2, 1) and graph.globals.shape == (1, 1)
    total = xjax.jit(lambda w: (Graph.from_edges([1, 0], [1, 0], edges=w).weight * jnp.array([1.0, 10.0])).sum())
    assert total(jnp.array([5.0, 7.0])) == 57.0                     # sorted by receiver: 7, 5


def test_a_pytree_with_named_fields():
    graph = Graph.from_edges([0], [1], np.ones((2, 3), np.float32), {"weight": np.ones(1, np.float32)})
    keys = [tree_util.keystr(path) for path, _ in tree_util.tree_flatten_with_path(graph)[0]]
    assert keys == [".nodes", ".edges['weight']", ".senders", ".receivers", ".n_node", ".n_edge", ".by_sender"]
    padded = xjax.tree.map(lambda x: x, xg.pad(graph, 3, 2))
    assert isinstance(padded, Graph) and padded.mask.tolist() == [True, False]


def test_jit_takes_and_returns_graphs_and_compiles_once_for_a_size():
    traced = []

    @xjax.jit
    def double(graph):
        traced.append(repr(graph))
        return graph.replace(nodes=2 * graph.nodes, globals=xg.at_nodes(graph, graph.globals))

    for n in (2, 3):
        graph = Graph.from_edges([0], [1], np.ones((n, 1), np.float32), globals=np.float32(n))
        out = double(xg.pad(graph, 5, 4, 2))
        assert isinstance(out, Graph) and isinstance(out.nodes, xjax.Array)
        assert out.nodes[:, 0].tolist() == [2] * n + [0] * (5 - n) and out.globals.tolist() == [n] * n + [0] * (5 - n)
        assert (out.n_nodes, out.n_edges, out.n_graphs) == (5, 4, 2)
    assert traced == ["<Graph of 2 graphs, 5 nodes, 4 edges; nodes f32[5,1], globals f32[2]>"]


@settings(deadline=None, max_examples=20)
@given(batches(min_nodes=1))
def test_what_a_program_computes_of_the_structure(graph):
    """Traced fields give the same owners, masks and degrees as known ones."""
    padded = xg.pad(graph, 40, 60, 6)
    names = ("node_graph", "edge_graph", "node_mask", "edge_mask", "weight", "edge_features")
    got = xjax.jit(lambda graph: [getattr(graph, name) for name in names] + [graph.degree(weighted=True)])(padded)
    for name, value in zip(names, got, strict=False):
        np.testing.assert_array_equal(value, getattr(padded, name))
    want = np.bincount(graph.receivers, graph.weight, minlength=40)
    np.testing.assert_allclose(got[-1], want)
    np.testing.assert_array_equal(xg.at_edges(graph, graph.globals)[:, 0], graph.n_node[graph.edge_graph])


def test_weights_and_features_by_the_shape_of_edges():
    plain = lambda edges: Graph.from_edges([0, 1], [1, 0], edges=edges)
    vector, matrix = np.ones(2, np.float32), np.ones((2, 3), np.float32)
    assert plain(None).weight is plain(None).edge_features is None
    assert plain(vector).weight.shape == (2,) and plain(vector).edge_features is None
    assert plain(matrix).weight is None and plain(matrix).edge_features.shape == (2, 3)
    both = plain({"weight": vector, "features": matrix})
    assert both.weight.shape == (2,) and both.edge_features.shape == (2, 3)


def test_replace_forgets_the_order_with_the_edges():
    graph = Graph.from_edges([0, 1], [1, 0])
    assert graph.replace(nodes=np.ones((2, 1))).by_sender is not None
    assert graph.replace(senders=graph.receivers).by_sender is None
    assert xg.batch([graph, graph.replace(receivers=graph.receivers)]).by_sender is None


def test_repr():
    x = np.zeros((3, 2), np.float32)
    assert repr(Graph.from_edges([0], [1], n_nodes=3)) == "<Graph of 3 nodes, 1 edges>"
    one = Graph.from_edges([0], [1], {"x": x, "z": x[:, 0]}, np.zeros((1, 4), np.float32), globals=np.int32(1))
    assert repr(one) == "<Graph of 3 nodes, 1 edges; nodes {x: f32[3,2], z: f32[3]}, edges f32[1,4], globals i32[1]>"
    assert repr(xg.batch([one, one])).startswith("<Graph of 2 graphs, 6 nodes, 2 edges; ")
    assert xjax.eval_shape(lambda graph: graph, one).nodes["x"].shape == (3, 2)
    bare = []
    xjax.jit(lambda graph: bare.append(repr(graph)) or graph.n_node)(one.replace(nodes=None))
    assert bare[0].startswith("<Graph of unknown nodes, 1 edges; ")


@pytest.mark.parametrize("alone", [[0], [2, 0], [0, 0, 3]])
def test_graphs_without_nodes(alone):
    made = [Graph.from_edges([], [], np.zeros((n, 2), np.float32)) for n in alone]
    joined = xg.batch(made)
    assert joined.n_node.tolist() == alone and joined.node_graph.dtype == np.int32
    assert [graph.n_nodes for graph in xg.unbatch(xg.pad(joined, 5, 2))] == alone


ONE, TWO = Graph.from_edges([0], [1]), Graph.from_edges([0], [1], np.zeros((2, 1), np.float32))
traced = lambda f: xjax.jit(f)(TWO)
WRONG = {
    "one end too many": (lambda: Graph.from_edges([0, 1], [0]), ValueError, ["two ends", "senders", "2", "1"]),
    "no node": (lambda: Graph.from_edges([0], [3], n_nodes=3), ValueError, ["end out of range", "0 to 3"]),
    "negative": (lambda: Graph.from_edges([-1], [0]), ValueError, ["end out of range", "-1 to 0"]),
    "floats": (lambda: Graph.from_edges([0.5], [1]), TypeError, ["senders", "vector of integers", "f64[1]"]),
    "a matrix of ends": (lambda: Graph.from_edges([[0]], [[1]]), TypeError, ["vector of integers"]),
    "rows of edges": (lambda: Graph.from_edges([0], [1], edges=np.ones(2)), ValueError, ["one row for each edge"]),
    "rows of nodes": (lambda: Graph.from_edges([0], [1], {"a": np.ones(2), "b": np.ones(3)}), ValueError,
                      ["nodes", "a: f64[2], b: f64[3]"]),
    "scalar nodes": (lambda: Graph.from_edges([0], [0], np.float32(1)), ValueError, ["nodes"]),
    "two numbers of nodes": (lambda: Graph.from_edges([0], [1], np.ones((2, 1)), n_nodes=3), ValueError,
                             ["n_nodes", "3", "2"]),
    "traced ends": (lambda: xjax.jit(lambda s: Graph.from_edges(s, s).n_node)(jnp.zeros(1, np.int32)), TypeError,
                    ["senders is traced", "outside jit"]),
    "unknown nodes": (lambda: xjax.jit(lambda graph: graph.n_nodes)(ONE), TypeError, ["Graph.n_nodes", "tracing"]),
    "no graphs": (lambda: xg.batch([]), ValueError, ["graph.batch", "no graph"]),
    "different features": (lambda: xg.batch([ONE, TWO]), ValueError, ["`nodes`", "f32[2,1]"]),
    "different dtypes": (lambda: xg.batch([TWO, TWO.replace(nodes=np.zeros((2, 1)))]), ValueError,
                         ["`nodes`", "f64[2,1]"]),
    "no graph": (lambda: take_graphs(TWO, [1]), ValueError, ["graph.take_graphs", "`ids` is out of range"]),
    "batch in jit": (lambda: traced(lambda graph: xg.batch([graph]).n_node), TypeError, ["graph.batch", "traced"]),
    "unbatch in jit": (lambda: traced(lambda graph: xg.unbatch(graph)[0].n_node), TypeError, ["graph.unbatch"]),
    "pad in jit": (lambda: traced(lambda graph: xg.pad(graph, 9, 9).n_node), TypeError, ["graph.pad", "traced"]),
    "too small": (lambda: xg.pad(TWO, 1, 5), ValueError, ["graph.pad", "no place", "1, 5, 2"]),
    "edges without a node": (lambda: xg.pad(TWO, 2, 5), ValueError, ["one node and one graph more"]),
    "nodes without a graph": (lambda: xg.pad(TWO, 3, 1, 1), ValueError, ["one node and one graph more"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls(name):
    assert_refused(*WRONG[name])


def test_gradients_of_gathers_need_no_order_of_the_edges():
    x, senders, receivers = np.arange(8, dtype=np.float32).reshape(4, 2), np.array([2, 0, 2, 1]), np.array([3, 1, 0, 1])
    weights = np.array([1, 10, 100, 1000], np.float32)[:, None]
    for ends, gather in ((senders, "at_senders"), (receivers, "at_receivers")):
        want = np.zeros_like(x)
        np.add.at(want, ends, np.broadcast_to(weights, (4, 2)))
        edges = xg.as_edges(Graph(x, None, senders, receivers, None, np.array([4]), np.array([4])), x, "here")
        assert edges.by_sender is None
        np.testing.assert_array_equal(xjax.grad(lambda x: (getattr(edges, gather)(x) * weights).sum())(x), want)
