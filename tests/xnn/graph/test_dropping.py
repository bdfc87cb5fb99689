"""Edges and nodes dropped in training."""

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.xnn.drawn_params import traced_init
from xjax import random
from xnn import GraphConvolution, serial
from xnn.graph import Graph
from xnn.graph.layers.dropping import drop_edges, drop_nodes, with_drop_edge
from xnn.graph.layers.pooling import GraphPool
from xnn.graph.structure.masked import kept_part


def complete(n=30):
    receivers, senders = np.nonzero(~np.eye(n, dtype=bool))
    x = np.random.default_rng(0).normal(size=(n, 3)).astype(np.float32)
    return Graph.from_edges(senders, receivers, x, np.ones(len(senders), np.float32))


def test_edges_are_dropped_with_the_rate_and_the_layer_sees_those_left():
    graph = complete()
    dropped = xjax.jit(lambda key, graph: drop_edges(key, graph, 0.3))(random.key(0), graph)
    # 870 edges: the share has a standard deviation of 0.016.
    assert abs(np.mean(dropped.edge_mask) - 0.7) < 0.06
    conv = GraphConvolution(2, norm="symmetric")
    _, params = traced_init(conv, (-1, 3))
    apply = xjax.jit(conv.apply)
    np.testing.assert_allclose(apply(params, graph.nodes, dropped), apply(params, graph.nodes, kept_part(dropped)),
                               atol=1e-6)


def test_nodes_are_dropped_with_their_edges():
    graph = complete()
    dropped = drop_nodes(random.key(0), graph, 0.4)
    kept = np.asarray(dropped.node_mask)
    assert 8 < kept.sum() < 28
    np.testing.assert_array_equal(dropped.edge_mask, kept[graph.senders] & kept[graph.receivers])
    pooled = GraphPool("sum").apply((), jnp.asarray(graph.nodes), dropped)
    np.testing.assert_allclose(pooled[0], graph.nodes[kept].sum(0), rtol=1e-5, atol=1e-5)
    assert kept_part(dropped).n_nodes == kept.sum()


def test_one_wrapper_drops_the_same_edges_for_all_of_its_layers_and_two_do_not():
    graph, x = complete(), jnp.ones((30, 1))
    conv = GraphConvolution(1, bias=False, w_init=lambda key, shape: jnp.ones(shape))
    together = with_drop_edge(serial(conv, conv), 0.5)
    apart = serial(with_drop_edge(conv, 0.5), with_drop_edge(conv, 0.5))
    _, params = together.init(random.key(0), (-1, 1))
    key = random.key(3)
    dense = np.zeros((30, 30), np.float32)
    there = np.asarray(drop_edges(random.fold_in(key, 2**31 - 1), graph, 0.5).edge_mask)
    dense[graph.receivers[there], graph.senders[there]] = 1
    y = together.apply(params, x, graph, rng=key, train=True)
    np.testing.assert_allclose(y, dense @ dense @ np.asarray(x), rtol=1e-5)
    assert not np.allclose(apart.apply(params, x, graph, rng=key, train=True), y)
    np.testing.assert_allclose(together.apply(params, x, graph), apart.apply(params, x, graph))


@pytest.mark.parametrize("wrong", [lambda key, graph: drop_edges(key, graph, 1.0),
                                   lambda key, graph: drop_nodes(key, graph, -0.1),
                                   lambda key, graph: drop_edges(key, np.eye(3), 0.5)])
def test_wrong_calls(wrong):
    with pytest.raises((ValueError, TypeError), match="fix:"):
        wrong(random.key(0), complete(3))
