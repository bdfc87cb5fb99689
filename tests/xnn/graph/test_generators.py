"""Generated graphs: their structure against networkx, their statistics, and a small GIN that learns the molecules."""

import time

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn.graph as xg
from tests.refusals import assert_refused
from tests.xnn.graph.drawn import assert_sound, triples
from xjax import random, tree_util
from xnn.graph import as_edges
from xnn.graph.host.generators import erdos_renyi, grid, molecules, planted_partition, random_regular
from xnn.graph.host.transforms import degree, is_undirected
from xnn.graph.structure.bucketing import GraphBatches

nx = pytest.importorskip("networkx")


def simple(graph):
    assert_sound(graph)
    assert is_undirected(graph) and len(set(triples(graph))) == graph.n_edges
    assert (graph.senders != graph.receivers).all()
    return graph


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (3, 4), (2, 2)])
@pytest.mark.parametrize("periodic", [False, True])
def test_grids(shape, periodic):
    graph = simple(grid(*shape, periodic=periodic))
    want = nx.grid_2d_graph(*shape, periodic=periodic)
    want.remove_edges_from(list(nx.selfloop_edges(want)))
    position = [tuple(map(int, row)) for row in graph.nodes]
    assert {(position[s], position[r]) for s, r in zip(graph.senders, graph.receivers, strict=True)} == set(
        want.to_directed().edges)


def test_random_graphs():
    graph = simple(erdos_renyi(500, 0.05, seed=1))
    assert abs(graph.n_edges / 2 - 0.05 * 500 * 499 / 2) < 5 * (0.05 * 0.95 * 500 * 499 / 2) ** 0.5
    one_way = erdos_renyi(500, 0.05, seed=1, directed=True)
    assert not is_undirected(one_way) and abs(one_way.n_edges - 0.05 * 500 * 499) < 600
    assert erdos_renyi(5, 1.0).n_edges == 20 and erdos_renyi(5, 0.0).n_edges == erdos_renyi(0, 0.5).n_edges == 0
    assert triples(erdos_renyi(9, 0.5, seed=3)) == triples(erdos_renyi(9, 0.5, seed=3)) != triples(erdos_renyi(9, 0.5))


@pytest.mark.parametrize("n, k", [(0, 0), (1, 0), (2, 1), (4, 3), (6, 2), (7, 4), (8, 5), (50, 3), (1000, 6), (20, 9)])
def test_regular_graphs(n, k):
    graph = simple(random_regular(n, k, seed=2))
    assert (degree(graph) == k).all() and graph.n_nodes == n


def test_communities():
    graph, labels = planted_partition(3000, 5, degree=12, mixing=0.25, signal=3.0, seed=4)
    simple(graph)
    assert np.bincount(labels).tolist() == [600] * 5 and labels.dtype == np.int32
    assert abs(graph.n_edges / 3000 - 12) < 0.5
    assert abs((labels[graph.senders] != labels[graph.receivers]).mean() - 0.25) < 0.02
    assert graph.nodes.shape == (3000, 16) and graph.nodes.dtype == np.float32
    means = np.stack([graph.nodes[labels == c].mean(0) for c in range(5)])
    # The 600 nodes of a class have mean errors of 0.04 in each of 16 features: 0.16 in length, mostly perpendicular.
    np.testing.assert_allclose(np.linalg.norm(means, axis=1), 3.0, atol=0.15)
    nearest = ((graph.nodes[:, None] - means[None]) ** 2).sum(2).argmin(1)
    assert 0.7 < (nearest == labels).mean() < 1                      # features alone do not suffice
    assert simple(planted_partition(7, 1, degree=2)[0]).n_nodes == 7
    simple(planted_partition(10, 3, degree=1)[0])


def test_many_nodes_take_little_time():
    start = time.perf_counter()
    graph, _ = planted_partition(100_000, 10)
    assert time.perf_counter() - start < 10 and graph.n_edges > 900_000          # 1 s on a quiet machine


def has_both(graph):
    """Whether a carbon has an oxygen and a nitrogen: the rule, read from the graph."""
    element = graph.nodes.argmax(1)
    received = np.zeros((graph.n_nodes, 3))
    np.add.at(received, graph.receivers, graph.nodes[graph.senders])
    return bool(np.any((element == 0) & (received[:, 1] > 0) & (received[:, 2] > 0)))


def test_molecules():
    graphs, labels = molecules(400, seed=5)
    assert np.bincount(labels).tolist() == [200, 200]
    for graph, label in zip(graphs, labels, strict=True):
        simple(graph.replace(edges=None))
        assert is_undirected(graph) and has_both(graph) == label == graph.globals[0]
        assert (graph.nodes.sum(1) == 1).all() and (graph.edges.sum(1) == 1).all()
        assert nx.is_connected(graph.to_networkx().to_undirected()) and degree(graph).max() <= 6
        element = graph.nodes.argmax(1)
        double = graph.edges[:, 1] > 0
        assert ((element[graph.senders] == 2) | (element[graph.receivers] == 2) == double).all()
        aromatic = int(graph.edges[:, 2].sum())
        rings = graph.n_edges // 2 - graph.n_nodes + 1
        assert aromatic in (0, 12) and rings == (1 if aromatic else rings) and rings in (0, 1)
    kinds = [np.array([graph.nodes.sum(0) for graph, label in zip(graphs, labels, strict=True) if label == c])
             for c in (0, 1)]
    assert np.abs(kinds[0].mean(0) - kinds[1].mean(0)).max() < 0.6   # both classes have similar elements
    assert triples(molecules(3, seed=1)[0][2]) == triples(molecules(3, seed=1)[0][2])


WRONG = {
    "grid": (lambda: grid(0, 3), ValueError, ["graph.grid"]),
    "p": (lambda: erdos_renyi(5, 1.5), ValueError, ["graph.erdos_renyi", "between 0 and 1", "1.5"]),
    "odd": (lambda: random_regular(5, 3), ValueError, ["no such graph", "even"]),
    "degree": (lambda: random_regular(4, 4), ValueError, ["no such graph"]),
    "classes": (lambda: planted_partition(3, 4), ValueError, ["planted_partition", "classes"]),
    "too dense": (lambda: planted_partition(20, 10, degree=15), ValueError, ["`degree` for pairs within"]),
    "carbons": (lambda: molecules(3, carbons=(4, 9)), ValueError, ["graph.molecules", "4 to 9"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls(name):
    assert_refused(*WRONG[name])


# -- learning ----------------------------------------------------------------------------------------------------------


def gin(params, graph):
    """Two layers of GIN (Xu et al., 2019) without edge features, a sum over each graph, and a line."""
    edges, x = as_edges(graph.replace(edges=None), graph.nodes, "gin"), graph.nodes
    for layer in params["layers"]:
        x = jnp.maximum((x + edges.sum(edges.at_senders(x))) @ layer["w"] + layer["b"][None], 0)
        x = jnp.maximum(x @ layer["v"] + layer["c"][None], 0)
    return xg.segment_sum(x, graph.node_graph, graph.n_graphs, mask=graph.node_mask) @ params["out"]


def gin_params(key, hidden=32, sizes=(3, 32)):
    draw = lambda i, n, m: random.normal(random.fold_in(key, i), (n, m)) * (2 / n) ** 0.5
    layers = [{"w": draw(2 * i, n, hidden), "v": draw(2 * i + 1, hidden, hidden), "b": jnp.zeros(hidden),
               "c": jnp.zeros(hidden)} for i, n in enumerate(sizes)]
    return {"layers": layers, "out": 0.1 * draw(9, hidden, 2)}


@pytest.mark.slow
def test_a_gin_learns_the_rule_and_the_elements_alone_do_not_tell(key):
    graphs, labels = molecules(1200, seed=6)
    train, test = GraphBatches(graphs[:1000], 50, seed=0), xg.batch(graphs[1000:])

    def loss(params, graph):
        scores = gin(params, graph)
        own = jnp.take_along_axis(scores, jnp.where(graph.mask, graph.globals, 0)[:, None], 1)[:, 0]
        costs = jnp.where(graph.mask, xjax.nn.logsumexp(scores, axis=1) - own, 0)
        return costs.sum() / graph.mask.sum().astype(costs.dtype)

    @xjax.jit
    def step(params, moments, i, graph):
        value, grads = xjax.value_and_grad(loss)(params, graph)
        first = tree_util.tree_map(lambda m, g: 0.9 * m + 0.1 * g, moments[0], grads)
        second = tree_util.tree_map(lambda m, g: 0.999 * m + 0.001 * g**2, moments[1], grads)
        moved = lambda w, m, v: w - 3e-3 * (m / (1 - 0.9**i)) / ((v / (1 - 0.999**i)) ** 0.5 + 1e-8)
        params = tree_util.tree_map(moved, params, first, second)
        return params, (first, second), value

    params = gin_params(key)
    zeros = tree_util.tree_map(jnp.zeros_like, params)
    moments, i = (zeros, zeros), 0
    for epoch in range(40):
        for graph in train.epoch(epoch):
            i += 1
            params, moments, _ = step(params, moments, jnp.float32(i), graph)
    accuracy = (np.asarray(gin(params, test)).argmax(1) == labels[1000:]).mean()
    assert accuracy >= 0.95
    counts = np.stack([np.append(graph.nodes.sum(0), graph.n_edges) for graph in graphs]).astype(np.float64)
    line = np.linalg.lstsq(np.c_[counts[:1000], np.ones(1000)], labels[:1000] - 0.5, rcond=None)[0]
    assert ((np.c_[counts[1000:], np.ones(200)] @ line > 0) == labels[1000:]).mean() < 0.65
