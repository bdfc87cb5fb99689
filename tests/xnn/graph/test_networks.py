"""Stacks of layers on graphs: layers of other kinds, running statistics, learning, configs without jaxlib."""

import subprocess
import sys

import numpy as np
import pytest

import xjax
import xnn.graph as xg
from xjax import random, tree_util
from xnn import Dense, GraphConvolution, Layer, composite, losses
from xnn.graph import Graph
from xnn.graph.layers.dropping import with_drop_edge
from xnn.models.graph_configs import GCNConfig, GraphStackConfig
from xnn.models.graph_networks import GCNStack, graph_stack


def MeanOfNeighbours(n_out):
    """A small layer: the mean of the neighbours and the node itself, each through a Dense."""

    def mean(params, x, graph, *, rng=None, train=False):
        edges = xg.as_edges(graph, x, "MeanOfNeighbours")
        return edges.mean(edges.at_senders(x))

    def forward(layers, x, graph):
        return layers.own(x) + layers.mean(layers.others(x), graph=graph)

    return composite(forward, "MeanOfNeighbours", own=Dense(n_out), others=Dense(n_out),
                     mean=Layer(lambda rng, in_shape: (in_shape, ()), mean))


def a_graph(seed=0, n=9):
    npr = np.random.default_rng(seed)
    return Graph.from_edges(*npr.integers(0, n, (2, 20)), npr.normal(size=(n, 4)).astype(np.float32))


def test_any_layer_makes_a_stack():
    config = GraphStackConfig(features=2, hidden=(8, 8), residual=True, jumping="lstm", norm="layer")
    model = graph_stack(lambda n: with_drop_edge(MeanOfNeighbours(n), 0.2), config)
    shape, params = model.init(random.key(0), (-1, 4))
    graph = a_graph()
    y = xjax.jit(lambda key: model.apply(params, graph.nodes, graph, rng=key, train=True))(random.key(1))
    assert shape == (-1, 2) and y.shape == (9, 2) and np.isfinite(y).all()
    assert set(params) == {"layer_0", "norm_0", "layer_1", "norm_1", "activation", "input_dropout", "dropout", "jump",
                           "head"}
    assert set(params["layer_0"]) == {"own", "others", "mean"}


def test_the_last_layer_may_be_another():
    config = GraphStackConfig(features=2, hidden=(8,))
    model = graph_stack(MeanOfNeighbours, config, make_last=lambda n: GraphConvolution(n, bias=False))
    assert model.init(random.key(0), (-1, 4))[1]["layer_1"][1] is None


@pytest.mark.parametrize("hidden", [(), (8,)])
def test_dropout_of_the_input_may_have_a_rate_of_its_own(hidden):
    model = GCNStack(GCNConfig(features=2, hidden=hidden, dropout=0.5, input_dropout=0.0))
    _, params = model.init(random.key(0), (-1, 4))
    graph = a_graph()
    trained, evaluated = xjax.jit(lambda params, key: (
        model.apply(params, graph.nodes, graph, rng=key, train=True), model.apply(params, graph.nodes, graph)))(
        params, random.key(1))
    assert np.allclose(trained, evaluated) == (not hidden)


def test_running_statistics_of_batch_norm():
    model = GCNStack(GCNConfig(features=2, hidden=(8,), norm="batch"))
    _, params = model.init(random.key(0), (-1, 4))
    graph, state = a_graph(), model.init_state((-1, 4))
    y, moved = model.apply_with_state(params, state, graph.nodes, graph, rng=random.key(1), train=True)
    assert not np.array_equal(moved["norm_0"]["mean"], state["norm_0"]["mean"])
    assert model.apply(params, graph.nodes, graph, state=moved).shape == y.shape == (9, 2)


def test_it_learns_labels_of_graphs():
    def ring(n, chord):
        ends = [(i, (i + 1) % n) for i in range(n)] + ([(0, n // 2)] if chord else [])
        senders, receivers = np.array(ends + [end[::-1] for end in ends]).T
        return Graph.from_edges(senders, receivers, np.ones((n, 1), np.float32))

    graph = xg.pad(xg.batch([ring(n, chord) for n in range(4, 10) for chord in (False, True)]), 100, 200, 14)
    labels = np.append(np.tile([0, 1], 6), [0, 0])
    config = GraphStackConfig(features=2, hidden=(16, 16), dropout=0.0, pool="max")
    model = graph_stack(GraphConvolution, config)
    _, params = model.init(random.key(1), (-1, 1))

    def loss(params):
        logits = model.apply(params, graph.nodes, graph)
        return losses.cross_entropy(logits, labels, weights=graph.mask), logits

    @xjax.jit
    def step(params):
        result, slopes = xjax.value_and_grad(loss, has_aux=True)(params)
        return tree_util.tree_map(lambda p, g: p - 0.1 * g, params, slopes), result

    _, (before, _) = step(params)
    for _ in range(200):
        params, _ = step(params)
    _, (after, logits) = step(params)
    assert after < 0.1 * before
    assert np.all((np.argmax(logits, -1) == labels)[:12])


def test_configs_need_no_jaxlib():
    code = "import sys, xnn.models.graph_configs; assert not any(name.startswith('jaxlib') for name in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
