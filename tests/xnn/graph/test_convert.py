"""Graphs from and to dense arrays, SciPy, CSR, networkx, PyTorch Geometric and jraph: round trips, values, errors."""

from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings

import xjax
import xnn.graph as xg
from tests.refusals import assert_refused
from tests.xnn.graph.drawn import assert_sound, batches, graphs, triples
from xnn import CSR
from xnn.graph import Graph, as_edges

nx = pytest.importorskip("networkx")

ADJ = np.array([[0, 2, 0], [0, 0.5, 0], [1, 0, 0]], np.float32)      # 1 -> 0, 1 -> 1, 0 -> 2
TRIPLES = [(0, 2, 1), (1, 0, 2), (1, 1, 0.5)]
X = np.arange(6, dtype=np.float32).reshape(3, 2)


# -- matrices ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda: Graph.from_dense(ADJ, X), lambda: Graph.from_dense(xjax.numpy.array(ADJ), X),
                                  lambda: Graph.from_scipy(sp.csc_matrix(ADJ.astype(np.float64)), X),
                                  lambda: Graph.from_scipy(sp.coo_array(ADJ), X),
                                  lambda: Graph.from_csr(CSR.from_dense(ADJ), X)])
def test_from_matrices(make):
    graph = make()
    assert_sound(graph)
    assert triples(graph) == TRIPLES and graph.weight.dtype == np.float32 and graph.n_nodes == 3
    np.testing.assert_array_equal(graph.nodes, X)
    np.testing.assert_array_equal(graph.to_dense(), ADJ)
    np.testing.assert_array_equal(graph.to_scipy().toarray(), ADJ)
    np.testing.assert_array_equal(graph.to_csr().todense(), ADJ)


def test_the_direction_is_that_of_layers():
    edges = as_edges(ADJ, X, "test")
    x = X + 1
    np.testing.assert_allclose(as_edges(Graph.from_dense(ADJ), x, "test") @ x, edges @ x)
    np.testing.assert_allclose(Graph.from_dense(ADJ).to_csr() @ x, ADJ @ x)


def test_bools_are_edges_without_weights_and_repeats_are_summed():
    assert Graph.from_dense(ADJ != 0).weight is None and Graph.from_scipy(sp.coo_array(ADJ != 0)).weight is None
    repeated = sp.coo_matrix((np.float32([1, 2]), ([0, 0], [1, 1])), shape=(2, 2))
    assert triples(Graph.from_scipy(repeated)) == [(1, 0, 3)]
    twice = Graph.from_edges([1, 1], [0, 0], n_nodes=3, edges=np.float32([1, 2]))
    assert twice.to_dense()[0, 1] == twice.to_scipy()[0, 1] == 3 and twice.to_csr().nnz == 2
    with xjax.enable_x64(True):
        assert Graph.from_scipy(sp.csr_array(ADJ.astype(np.float64))).weight.dtype == np.float64
    stored_zero = sp.csr_array((np.float32([0]), [1], [0, 1, 1]), shape=(2, 2))
    assert Graph.from_scipy(stored_zero).n_edges == 1


@settings(deadline=None, max_examples=30)
@given(batches(repeats=False))
def test_matrices_of_batches_and_padding(graph):
    dense = graph.to_dense()
    assert triples(Graph.from_dense(dense)) == triples(graph.replace(edges=graph.weight))
    padded = xg.pad(graph, graph.n_nodes + 2, graph.n_edges + 3)
    want = np.pad(dense, (0, 2))
    np.testing.assert_array_equal(padded.to_dense(), want)
    np.testing.assert_array_equal(padded.to_scipy().toarray(), want)


# -- networkx ------------------------------------------------------------------------------------------------------


def test_from_networkx_keeps_the_order_of_labels_and_takes_attributes():
    given = nx.DiGraph()
    given.add_node("c", x=[1.0, 2.0], y=3)
    given.add_node("a", x=np.array([3.0, 4.0]), y=1)
    given.add_node(("b", 1), x=(5.0, 6.0), y=2)
    given.add_edge("a", "c", length=0.5, kind=[1, 0])
    given.add_edge("c", ("b", 1), length=1, kind=[0, 1])
    graph = Graph.from_networkx(given, nodes="x", edges="length", globals=np.float32([7]))
    assert triples(graph) == [(0, 2, 1), (1, 0, 0.5)] and graph.weight.dtype == graph.nodes.dtype == np.float32
    assert graph.nodes.tolist() == [[1, 2], [3, 4], [5, 6]] and graph.globals.tolist() == [[7]]
    several = Graph.from_networkx(given, nodes=("x", "y"), edges=["length", "kind"])
    assert several.nodes["y"].tolist() == [3, 1, 2] and several.nodes["y"].dtype == np.int32
    assert several.edges["kind"].shape == (2, 2)
    bare = Graph.from_networkx(given)
    assert bare.nodes is bare.edges is None and bare.n_nodes == 3


def test_undirected_edges_become_two_and_self_loops_one():
    given = nx.Graph([(0, 1, {"w": 2.0}), (1, 1, {"w": 5.0})])
    graph = Graph.from_networkx(given, edges="w")
    assert triples(graph) == [(0, 1, 2), (1, 0, 2), (1, 1, 5)]
    multi = nx.MultiGraph([(0, 1), (0, 1)])
    assert triples(Graph.from_networkx(multi)) == [(0, 1), (0, 1), (1, 0), (1, 0)]
    karate = Graph.from_networkx(nx.karate_club_graph(), edges="weight")
    np.testing.assert_array_equal(karate.to_dense(), nx.to_numpy_array(nx.karate_club_graph()))
    empty = Graph.from_networkx(nx.Graph())
    assert (empty.n_nodes, empty.n_edges) == (0, 0)


@settings(deadline=None, max_examples=30)
@given(graphs())
def test_networkx_and_back(graph):
    made = graph.to_networkx()
    assert made.is_multigraph() == (len(set(zip(graph.senders, graph.receivers, strict=True))) < graph.n_edges)
    assert list(made) == list(range(graph.n_nodes)) and made.number_of_edges() == graph.n_edges
    if graph.n_edges and graph.n_nodes:
        back = Graph.from_networkx(made, nodes="features", edges=("weight", "features"))
        assert triples(back) == triples(graph)
        np.testing.assert_array_equal(back.nodes, graph.nodes)


def test_labels_for_networkx():
    made = Graph.from_edges([0], [1], {"x": X, "y": np.arange(3)}, np.float32([2])).to_networkx(["c", "a", "b"])
    assert list(made) == ["c", "a", "b"] and made.edges["c", "a"] == {"weight": 2.0}
    assert made.nodes["b"]["y"] == 2 and made.nodes["a"]["x"].tolist() == [2, 3]
    names = xg.NodeNames(["bert", "gat", "gcn"])
    assert list(Graph.from_edges([0], [2], n_nodes=3).to_networkx(names).edges) == [("bert", "gcn")]


# -- PyTorch Geometric, by its attributes ----------------------------------------------------------------------------


def data_of(**fields):
    return SimpleNamespace(**{"edge_index": np.array([[1, 0, 1], [0, 2, 1]]), "num_nodes": 3, **fields})


def test_from_pyg():
    graph = Graph.from_pyg(data_of(x=X, edge_weight=np.array([2, 1, 0.5])))
    assert triples(graph) == TRIPLES and graph.weight.dtype == np.float32 and graph.nodes is not None
    attr = np.float32([[1, 0], [2, 0], [3, 0]])
    assert triples(Graph.from_pyg(data_of(edge_attr=attr))) == [(0, 2, 2, 0), (1, 0, 1, 0), (1, 1, 3, 0)]
    both = Graph.from_pyg(data_of(edge_attr=attr, edge_weight=attr[:, 0]))
    assert both.weight.tolist() == [1, 3, 2] and both.edge_features.shape == (3, 2)
    assert Graph.from_pyg(data_of(edge_attr=attr[:, 0])).weight.tolist() == [1, 3, 2]
    kinds = Graph.from_pyg(data_of(edge_attr=np.array([1, 2, 3])))
    assert kinds.weight is None and kinds.edges["features"].tolist() == [1, 3, 2]
    assert Graph.from_pyg(data_of()).nodes is None


def test_labels_of_pyg_are_named():
    data = data_of(x=X, y=np.array([4, 5, 6]), target=np.array([[7.0]]), level=np.array(2.0))
    graph = Graph.from_pyg(data, nodes=("x", "y"), globals="target")
    assert graph.nodes["y"].tolist() == [4, 5, 6] and graph.globals.tolist() == [[7]]
    assert Graph.from_pyg(data).globals is None
    assert Graph.from_pyg(data, globals=("target", "level")).globals["level"].tolist() == [2]


def test_batches_of_pyg():
    data = data_of(x=X, batch=np.array([0, 0, 1]), ptr=np.array([0, 2, 3, 3]), edge_index=np.array([[2, 1], [2, 0]]),
                   y=np.array([1.0, 2.0, 3.0]))
    graph = Graph.from_pyg(data, globals="y")
    assert_sound(graph)
    assert graph.n_node.tolist() == [2, 1, 0] and graph.n_edge.tolist() == [1, 1, 0]
    assert graph.globals.tolist() == [1, 2, 3]
    del data.ptr
    assert Graph.from_pyg(data).n_node.tolist() == [2, 1]


# -- jraph, by its fields --------------------------------------------------------------------------------------------


class GraphsTuple(NamedTuple):
    nodes: Any
    edges: Any
    receivers: Any
    senders: Any
    globals: Any
    n_node: Any
    n_edge: Any


@settings(deadline=None, max_examples=30)
@given(batches())
def test_from_jraph(graph):
    shuffled = np.random.default_rng(0).permutation(graph.n_edges)
    given = GraphsTuple(graph.nodes, {key: x[shuffled] for key, x in graph.edges.items()}, graph.receivers[shuffled],
                        graph.senders[shuffled], graph.globals, graph.n_node, graph.n_edge)
    made = Graph.from_jraph(given)
    assert_sound(made)
    assert triples(made) == triples(graph) and made.n_edge.tolist() == graph.n_edge.tolist() and made.mask is None
    mask = np.arange(graph.n_graphs) < 1
    assert Graph.from_jraph(given, mask).mask.tolist() == mask.tolist()


# -- errors ------------------------------------------------------------------------------------------------------------


PADDED = xg.pad(Graph.from_edges([0], [1]), 4, 3)
NX = nx.Graph([(0, 1)])
WRONG = {
    "dense": (lambda: Graph.from_dense(np.ones((2, 3))), ValueError, ["Graph.from_dense", "not square", "[2,3]"]),
    "traced": (lambda: xjax.jit(lambda a: Graph.from_dense(a).senders)(ADJ), TypeError, ["traced"]),
    "scipy": (lambda: Graph.from_scipy(ADJ), TypeError, ["Graph.from_scipy", "from_dense"]),
    "scipy, not square": (lambda: Graph.from_scipy(sp.eye(2, 3)), ValueError, ["not square"]),
    "csr": (lambda: Graph.from_csr(CSR.from_dense(np.ones((2, 3)))), ValueError, ["Graph.from_csr", "not square"]),
    "networkx": (lambda: Graph.from_networkx(ADJ), TypeError, ["not a networkx graph"]),
    "no such attribute": (lambda: Graph.from_networkx(NX, nodes="x"), ValueError, ["node 0", "'x'", "none"]),
    "no such edge attribute": (lambda: Graph.from_networkx(NX, edges="w"), ValueError, ["edge (0, 1)", "'w'"]),
    "ragged": (lambda: Graph.from_networkx(nx.Graph([(0, 1, {"w": [1]}), (1, 2, {"w": [1, 2]})]), edges="w"),
               ValueError, ["'w'", "cannot form an array"]),
    "words": (lambda: Graph.from_networkx(nx.Graph([(0, 1, {"w": "long"})]), edges="w"), ValueError, ["'w'"]),
    "padding": (lambda: PADDED.to_networkx(), ValueError, ["Graph.to_networkx", "padding", "unbatch"]),
    "labels": (lambda: Graph.from_edges([0], [1]).to_networkx(["a"]), ValueError, ["one label for each node"]),
    "no edge_index": (lambda: Graph.from_pyg(SimpleNamespace(x=X)), TypeError, ["Graph.from_pyg", "edge_index"]),
    "no such field": (lambda: Graph.from_pyg(data_of(), globals="y"), ValueError, ["no attribute 'y'"]),
    "labels of nodes in globals": (lambda: Graph.from_pyg(data_of(y=np.arange(3)), globals="y"), ValueError,
                                   ["one row for each graph", "nodes="]),
    "nodes of a batch": (lambda: Graph.from_pyg(data_of(batch=np.array([1, 0, 0]))), ValueError,
                         ["not stored one after another"]),
    "edges between graphs": (lambda: Graph.from_pyg(data_of(batch=np.array([0, 0, 1]))), ValueError,
                             ["edges between graphs"]),
    "jraph": (lambda: Graph.from_jraph(ADJ), TypeError, ["Graph.from_jraph", "not a GraphsTuple"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls(name):
    assert_refused(*WRONG[name])


@pytest.mark.parametrize("method, package", [("to_pyg", "torch"), ("to_jraph", "jraph"), ("to_networkx", "networkx")])
def test_a_missing_library_is_named(monkeypatch, method, package):
    monkeypatch.setitem(__import__("sys").modules, package, None)       # as if it were not installed
    assert_refused(getattr(Graph.from_edges([0], [1]), method), ImportError,
                   [f"{package} is not installed", f"fix: pip install {package}"])


# -- the libraries themselves ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_pytorch_geometric_itself():
    torch, data = pytest.importorskip("torch"), pytest.importorskip("torch_geometric.data")
    tensors = {"x": torch.tensor(X, requires_grad=True), "edge_index": torch.tensor([[1, 0, 1], [0, 2, 1]]),
               "edge_attr": torch.tensor([[1.0], [2.0], [3.0]]), "y": torch.tensor([1])}
    one = data.Data(**tensors)
    graph = Graph.from_pyg(one, globals="y")
    assert triples(graph) == [(0, 2, 2), (1, 0, 1), (1, 1, 3)] and graph.globals.tolist() == [1]
    batch = Graph.from_pyg(data.Batch.from_data_list([one, one]), globals="y")
    assert_sound(batch)
    assert triples(xg.unbatch(batch)[1]) == triples(graph) and batch.globals.tolist() == [1, 1]
    back = batch.to_pyg()
    assert back.num_nodes == 6 and back.batch.tolist() == [0, 0, 0, 1, 1, 1] and back.edge_index.dtype == torch.int64
    assert triples(Graph.from_pyg(back)) == triples(batch)
    weighted = Graph.from_edges([0], [1], {"x": X, "pos": X}, np.float32([2]), globals={"y": np.int32(1)}).to_pyg()
    assert weighted.edge_weight.tolist() == [2] and weighted.pos.shape == (3, 2) and weighted.y.tolist() == [1]
    lonely = data.Data(edge_index=torch.zeros((2, 0), dtype=torch.int64), num_nodes=4)
    assert Graph.from_pyg(lonely).n_nodes == 4


@pytest.mark.slow
def test_jraph_itself():
    jraph = pytest.importorskip("jraph")
    alone = [Graph.from_edges([0, 1], [1, 0], X[:2]), Graph.from_edges([2], [0], X)]
    padded = xg.pad(xg.batch(alone), 8, 6, 5)
    given = padded.to_jraph()
    np.testing.assert_array_equal(jraph.get_graph_padding_mask(given), padded.mask)
    np.testing.assert_array_equal(jraph.get_node_padding_mask(given), padded.node_mask)
    np.testing.assert_array_equal(jraph.get_edge_padding_mask(given), padded.edge_mask)
    there = jraph.pad_with_graphs(jraph.batch([graph.to_jraph() for graph in alone]), 8, 6, 5)
    back = Graph.from_jraph(there, jraph.get_graph_padding_mask(there))
    assert_sound(back)
    for one, other in zip(xg.unbatch(back), alone, strict=True):
        assert triples(one) == triples(other)
