"""Random walks, their windows, and embeddings that are trained on them."""

import importlib.util
import types

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from xjax import random, tree_util
from xnn import CSR
from xnn.graph import Graph, pad
from xnn.graph.samplers import node2vec
from xnn.graph.samplers.node2vec import Node2Vec, negative_windows, random_walks, skip_gram_loss, walk_windows


def a_graph(weighted=False, n=8):
    npr = np.random.default_rng(0)
    receivers, senders = np.nonzero((npr.random((n, n)) < 0.5) & ~np.eye(n, dtype=bool))
    weight = npr.uniform(0.2, 2, len(senders)).astype(np.float32) if weighted else None
    return Graph.from_edges(senders, receivers, np.zeros((n, 1), np.float32), weight)


def next_steps(graph, before, node, p, q):
    """The probabilities of the next node, from the paper's definition."""
    a = np.zeros((graph.n_nodes,) * 2)
    a[graph.senders, graph.receivers] = 1 if graph.weight is None else graph.weight
    share = np.array([a[node, k] * (1 / p if k == before else 1 if a[before, k] else 1 / q) for k in range(len(a))])
    return share / share.sum()


@pytest.mark.parametrize("rounds", [8, 0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("p, q", [(1.0, 1.0), (0.25, 4.0), (8.0, 0.5)])
def test_steps_have_the_probabilities_of_the_paper(p, q, weighted, rounds, monkeypatch):
    monkeypatch.setattr(node2vec, "_ROUNDS", rounds)
    graph = a_graph(weighted)
    walks = random_walks(graph, np.zeros(40_000, int), 2, p, q, rng=1)
    middle = np.bincount(walks[:, 1]).argmax()
    last = walks[walks[:, 1] == middle, 2]
    share = np.bincount(last, minlength=8) / len(last)
    # At least 5000 walks: the standard deviation of a share is below 0.007.
    assert len(last) > 5000
    np.testing.assert_allclose(share, next_steps(graph, 0, middle, p, q), atol=0.035)


def test_walks_follow_edges_and_depend_on_the_seed_only():
    graph = a_graph()
    walks = random_walks(graph, np.arange(8), 50, 0.5, 2.0, rng=3)
    there = set(zip(graph.senders.tolist(), graph.receivers.tolist(), strict=True))
    assert walks.dtype == np.int32 and walks.shape == (8, 51)
    assert all(pair in there for walk in walks.tolist() for pair in zip(walk[:-1], walk[1:], strict=True))
    np.testing.assert_array_equal(walks, random_walks(graph, np.arange(8), 50, 0.5, 2.0, np.random.default_rng(3)))
    assert not np.array_equal(walks, random_walks(graph, np.arange(8), 50, 0.5, 2.0, rng=4))
    shape = (8, 8)
    csr = CSR.from_edges(graph.receivers, graph.senders, shape=shape)
    np.testing.assert_array_equal(random_walks(pad(graph, 10, 60), np.arange(8), 9, rng=5),
                                  random_walks(graph, np.arange(8), 9, rng=5))
    assert random_walks(csr, np.arange(8), 9, 2.0, 2.0).shape == (8, 10)


@pytest.mark.parametrize("q", [1.0, 0.5])
def test_a_walk_at_a_node_without_edges_stays(q):
    graph = Graph.from_edges([0, 1], [1, 2], n_nodes=4)
    np.testing.assert_array_equal(random_walks(graph, [0, 3], 3, 1.0, q), [[0, 1, 2, 2], [3, 3, 3, 3]])
    empty = Graph.from_edges([], [], n_nodes=2)
    np.testing.assert_array_equal(random_walks(empty, [1], 2, 1.0, q), [[1, 1, 1]])


def test_a_walk_out_of_a_dead_end_does_not_depend_on_p():
    star = Graph.from_edges([0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0])
    assert np.all(random_walks(star, np.ones(50, int), 20, p=1e9, q=1.0)[:, ::2] != 0)


def test_windows():
    walks = np.arange(8).reshape(2, 4)
    np.testing.assert_array_equal(walk_windows(walks, 3), [[0, 1, 2], [1, 2, 3], [4, 5, 6], [5, 6, 7]])
    others = negative_windows(walk_windows(walks, 3), 100, 0, count=2)
    assert others.shape == (8, 3) and np.array_equal(others[::2, 0], [0, 1, 4, 5]) and others[:, 1:].max() > 7


def test_embeddings_of_two_groups_come_apart():
    half = np.arange(10) < 5
    receivers, senders = np.nonzero((half[:, None] == half) & ~np.eye(10, dtype=bool))
    graph = Graph.from_edges([*senders, 0, 9], [*receivers, 9, 0])
    model, rng = Node2Vec(10, 4), np.random.default_rng(0)
    shape, params = model.init(random.key(0), (-1, 4))
    assert shape == (-1, 3)
    loss = lambda params, windows, others: skip_gram_loss(model.apply(params, windows), model.apply(params, others))
    step = xjax.jit(lambda params, *windows: tree_util.tree_map(lambda p, g: p - 2 * g, params,
                                                                xjax.grad(loss)(params, *windows)))
    for _ in range(150):
        windows = walk_windows(random_walks(graph, rng.permutation(10), 9, q=2.0, rng=rng), 4)
        params = step(params, windows, negative_windows(windows, 10, rng))
    table = np.asarray(params["table"])
    near = table @ table.T
    assert near[half][:, half].mean() > near[half][:, ~half].mean() + 1


WRONG = {
    "p of 0": lambda graph: random_walks(graph, [0], 2, p=0.0),
    "a start that is not a node": lambda graph: random_walks(graph, [8], 2),
    "negative weights": lambda graph: random_walks(graph.replace(edges=-np.ones(graph.n_edges)), [0], 2),
    "a short walk": lambda graph: walk_windows(np.zeros((2, 3), np.int32), 4),
    "one window": lambda graph: Node2Vec(3, 2).apply({"table": jnp.ones((3, 2))}, np.array([0, 1])),
    "floats": lambda graph: Node2Vec(3, 2).apply({"table": jnp.ones((3, 2))}, np.ones((2, 2))),
    "a traced graph": lambda graph: xjax.jit(lambda graph: random_walks(graph, [0], 2))(graph),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls(name):
    with pytest.raises((ValueError, TypeError), match="fix:"):
        WRONG[name](a_graph())


@pytest.mark.slow
def test_the_loss_is_that_of_pytorch_geometric():
    if importlib.util.find_spec("torch_geometric") is None:
        pytest.skip("PyTorch Geometric is not installed: pip install -e '.[peers]'")
    import torch
    from torch_geometric.nn import Node2Vec as Theirs

    npr = np.random.default_rng(0)
    table, windows, others = npr.normal(size=(6, 4)).astype(np.float32), *npr.integers(0, 6, (2, 5, 3))
    embedding = torch.nn.Embedding.from_pretrained(torch.tensor(table))
    # The module's walks need a compiled extension; its loss needs only the embedding.
    module = types.SimpleNamespace(embedding=embedding, embedding_dim=4, EPS=1e-15)
    want = Theirs.loss(module, torch.tensor(windows), torch.tensor(others))
    apply = Node2Vec(6, 4).apply
    got = skip_gram_loss(apply({"table": table}, windows), apply({"table": table}, others))
    np.testing.assert_allclose(got, want.numpy(), rtol=1e-5)
