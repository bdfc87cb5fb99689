"""Encodings of nodes against dense powers and eigenvectors of each graph; batches, padding, signs."""

import numpy as np
import pytest
from hypothesis import given, settings

import xnn.graph as xg
from tests.refusals import assert_refused
from tests.xnn.graph.drawn import batches
from xnn.graph import Graph
from xnn.graph.host import encodings
from xnn.graph.host.encodings import degree_encoding, laplacian_encoding, random_walk_encoding
from xnn.graph.host.generators import erdos_renyi, grid, molecules
from xnn.graph.host.transforms import to_undirected


def returns(adjacency, k):
    """Diagonals of the powers of the walk's matrix; adjacency [receiver, sender]."""
    step = adjacency.T.astype(np.float64)
    total = step.sum(1, keepdims=True)
    step = np.divide(step, total, out=np.zeros_like(step), where=total > 0)
    return np.stack([np.diag(np.linalg.matrix_power(step, i + 1)) for i in range(k)], 1)


@settings(deadline=None, max_examples=40)
@given(batches())
def test_random_walks(graph):
    got = random_walk_encoding(graph, 5)
    want = np.concatenate([returns(one.to_dense(), 5) for one in xg.unbatch(graph)])
    assert got.dtype == np.float32 and got.shape == (graph.n_nodes, 5)
    np.testing.assert_allclose(got, want, atol=1e-6)
    padded = random_walk_encoding(xg.pad(graph, graph.n_nodes + 3, graph.n_edges + 2), 5)
    np.testing.assert_array_equal(padded, np.pad(got, ((0, 3), (0, 0))))


def test_random_walks_on_more_nodes_than_columns_at_a_time():
    graph = erdos_renyi(300, 0.02, seed=1)
    np.testing.assert_allclose(random_walk_encoding(graph, 3), returns(graph.to_dense(), 3), atol=1e-6)


def laplacian(graph):
    adjacency = (graph.to_dense() != 0).astype(np.float64)
    np.fill_diagonal(adjacency, 0)
    count = adjacency.sum(1)
    root = np.where(count > 0, 1 / np.sqrt(np.maximum(count, 1)), 0)
    return np.eye(len(count)) - root[:, None] * adjacency * root[None]


def assert_eigenvectors(graph, encoding, k, tol=1e-5):
    """Assert orthonormal eigenvectors of the smallest eigenvalues after the first, with each largest entry positive."""
    n, matrix = graph.n_nodes, laplacian(graph)
    width = max(min(k, n - 1), 0)
    assert not encoding[:, width:].any()
    vectors = encoding[:, :width].astype(np.float64)
    values = np.linalg.eigvalsh(matrix)[1:width + 1] if n else np.zeros(0)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(width), atol=tol)
    np.testing.assert_allclose(matrix @ vectors, vectors * values, atol=tol)
    if width:
        assert (vectors.max(0) >= np.abs(vectors).max(0) * (1 - 2e-6)).all()


@settings(deadline=None, max_examples=40)
@given(batches())
def test_eigenvectors(graph):
    graph = to_undirected(graph)
    got = laplacian_encoding(graph, 3)
    assert got.dtype == np.float32
    first = 0
    for one in xg.unbatch(graph):
        assert_eigenvectors(one, got[first:first + one.n_nodes], 3)
        first += one.n_nodes
    padded = laplacian_encoding(xg.pad(graph, graph.n_nodes + 3, graph.n_edges + 2), 3)
    np.testing.assert_array_equal(padded, np.pad(got, ((0, 3), (0, 0))))


def test_large_graphs_by_lanczos(monkeypatch):
    graphs = [grid(7, 9), erdos_renyi(40, 0.2, seed=2)]
    dense = laplacian_encoding(xg.batch([graph.replace(nodes=None) for graph in graphs]), 4)
    monkeypatch.setattr(encodings, "_DENSE", 10)
    sparse = laplacian_encoding(xg.batch([graph.replace(nodes=None) for graph in graphs]), 4)
    np.testing.assert_array_equal(sparse, laplacian_encoding(xg.batch([g.replace(nodes=None) for g in graphs]), 4))
    np.testing.assert_allclose(sparse, dense, atol=1e-5)              # no two eigenvalues are equal here
    assert_eigenvectors(graphs[0], sparse[:63], 4)


def test_degrees():
    star = Graph.from_edges([1, 2, 3], [0, 0, 0])
    assert degree_encoding(star, 2).tolist() == [[0, 0, 1], [1, 0, 0], [1, 0, 0], [1, 0, 0]]
    assert degree_encoding(star, 1, "out").tolist() == [[1, 0], [0, 1], [0, 1], [0, 1]]
    assert not degree_encoding(xg.pad(star, 6, 5), 2)[4:].any()


def test_encodings_join_the_features_of_a_batch():
    graph = xg.batch(molecules(20)[0])
    joined = graph.replace(nodes=np.concatenate([graph.nodes, random_walk_encoding(graph, 8),
                                                 laplacian_encoding(graph.replace(edges=None), 4)], 1))
    assert joined.nodes.shape == (graph.n_nodes, 15) and joined.nodes.dtype == np.float32


WRONG = {
    "k": (lambda: random_walk_encoding(grid(2, 2), 0), ValueError, ["random_walk_encoding", "`k`", "0"]),
    "max_degree": (lambda: degree_encoding(grid(2, 2), 1.5), ValueError, ["`max_degree`", "1.5"]),
    "negative": (lambda: random_walk_encoding(Graph.from_edges([0], [1], edges=np.float32([-1])), 2), ValueError,
                 ["negative", "-1", "edges=None"]),
    "directed": (lambda: laplacian_encoding(Graph.from_edges([0], [1]), 2), ValueError,
                 ["laplacian_encoding", "directed", "to_undirected"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls(name):
    assert_refused(*WRONG[name])


@pytest.mark.slow
def test_as_pytorch_geometric():
    pytest.importorskip("torch_geometric")
    from torch_geometric.transforms import AddLaplacianEigenvectorPE, AddRandomWalkPE
    graph = erdos_renyi(20, 0.3, seed=3)
    theirs = AddRandomWalkPE(6)(graph.to_pyg()).random_walk_pe.numpy()
    np.testing.assert_allclose(random_walk_encoding(graph, 6), theirs, atol=1e-6)
    theirs = AddLaplacianEigenvectorPE(4, is_undirected=True)(graph.to_pyg()).laplacian_eigenvector_pe.numpy()
    np.testing.assert_allclose(np.abs(laplacian_encoding(graph, 4)), np.abs(theirs), atol=1e-4)
