"""The graph of nearest neighbours, the dynamic EdgeConv, PointNet with padding."""

import importlib.util

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn.graph as xg
from tests.xnn.graph.checks import assert_near, check_numerics, moved
from tests.xnn.graph.row import Row, draw_graph
from tests.xnn.graph.rows.edge_conv import NETWORK
from tests.xnn.graph.rows.mpnn import linear
from xjax import random
from xnn import Dense
from xnn.graph import Graph
from xnn.graph.edge_conv import EdgeConv, PointNet, knn_edges

IDS = np.repeat(np.arange(3), (5, 2, 6))


def points(n=13, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 3)).astype(np.float32)


def nearest(x, i, k, ids, self_loops):
    others = [j for j in range(len(x)) if ids[j] == ids[i] and (self_loops or j != i)]
    return set(sorted(others, key=lambda j: (j != i, np.sum((x[j] - x[i]) ** 2)))[:k])


@pytest.mark.parametrize("self_loops", [False, True])
@pytest.mark.parametrize("several", [False, True])
def test_neighbours_are_the_nearest(self_loops, several):
    x, ids = points(), IDS if several else np.zeros(13, int)
    traced = xjax.jit(lambda x: knn_edges(x, 3, jnp.asarray(IDS) if several else None, self_loops=self_loops))
    for edges in (traced(x), traced(x + np.float32(100))):
        assert len(edges) == 39 and (edges.mask is None) == (not several)
        mask = np.ones(39, bool) if edges.mask is None else np.asarray(edges.mask)
        for ascending in (edges.receivers, edges.senders[edges.by_sender]):
            assert np.all(np.diff(ascending) >= 0)
        for i in range(13):
            at = np.flatnonzero((np.asarray(edges.receivers) == i) & mask)
            assert set(np.asarray(edges.senders)[at].tolist()) == nearest(x, i, 3, ids, self_loops)


def test_more_neighbours_than_nodes_are_masked():
    edges = knn_edges(points(3), 5)
    assert len(edges) == 15 and edges.mask.reshape(3, 5).sum(1).tolist() == [2, 2, 2]
    assert np.asarray(edges.degree()).tolist() == [2, 2, 2]


def test_the_dynamic_form_is_the_layer_on_the_graph_of_neighbours():
    layer, x = EdgeConv(NETWORK, k=3), points()
    params = moved(layer.init(random.key(0), x.shape)[1])
    assert_near(layer.apply(params, x), EdgeConv(NETWORK).apply(params, x, knn_edges(x, 3, self_loops=True)))
    graphs = [Graph.from_edges([], [], points(n, n)) for n in (5, 2, 6)]
    alone = jnp.concatenate([layer.apply(params, graph.nodes, graph) for graph in graphs])
    padded = xg.pad(xg.batch(graphs), 20, 4, 5)
    apply = lambda params, x, graph: layer.apply(params, x, graph)[:13]
    assert_near(xjax.jit(apply)(params, padded.nodes, padded), alone)
    grad = xjax.jit(xjax.grad(lambda params, graph: jnp.sum(jnp.sin(apply(params, jnp.asarray(graph.nodes), graph)))))
    assert_near(grad(params, padded), grad(params, xg.batch(graphs)), 1e-4)


def test_numerics_of_the_dynamic_form():
    layer, x = EdgeConv(NETWORK, k=3, aggregate="mean"), points(6)
    x = np.round(x * 8) / 8                                              # the same neighbours in bfloat16
    params = moved(layer.init(random.key(0), x.shape)[1])
    check_numerics(lambda floats: layer.apply(*floats), (params, jnp.asarray(x)), 3.0)


def point_net():
    graph, p = draw_graph(Row(None, None)), points(7)
    layer = PointNet(Dense(5), Dense(3))
    return layer, graph, p, moved(layer.init(random.key(0), graph.nodes.shape, positions=p)[1])


def test_padding_and_permutations_of_point_net():
    layer, graph, p, params = point_net()
    want = layer.apply(params, graph.nodes, graph, p)
    padded, filled = xg.pad(graph, 12, 20, 3), np.concatenate([p, np.zeros((5, 3), np.float32)])
    assert_near(xjax.jit(layer.apply)(params, padded.nodes, padded, filled)[:7], want)
    order = np.random.default_rng(3).permutation(7)
    place = np.argsort(order)
    other = Graph.from_edges(place[graph.senders], place[graph.receivers], graph.nodes[order])
    assert_near(layer.apply(params, other.nodes, other, p[order]), want[order])


@pytest.mark.slow
def test_point_net_equals_pytorch_geometric():
    if importlib.util.find_spec("torch_geometric") is None:
        pytest.skip("PyTorch Geometric is not installed: pip install -e '.[peers]'")
    import torch
    from torch_geometric.nn import PointNetConv

    layer, graph, p, params = point_net()
    local, whole = (torch.nn.Linear(*params[key]["w"].shape) for key in ("local", "whole"))
    peer = PointNetConv(local, whole)
    linear(local, params["local"]), linear(whole, params["whole"])
    theirs = peer(torch.tensor(graph.nodes), torch.tensor(p),
                  torch.tensor(np.stack([graph.senders, graph.receivers]).astype(np.int64)))
    assert_near(layer.apply(params, graph.nodes, graph, p), theirs.detach().numpy())
