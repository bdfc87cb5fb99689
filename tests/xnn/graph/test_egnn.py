"""EGNN: values by loops, equivariance, padding, gradients."""

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn.graph as xg
from tests.compare import assert_close
from tests.refusals import assert_refused
from tests.xnn.drawn_params import traced_init
from tests.xnn.graph.checks import check_finite, check_numerics, doubled
from tests.xnn.graph.row import GraphRow, draw_graph, empty_graph
from tests.xnn.graph.rows.mpnn import dense, sigmoid
from xjax import random
from xnn import serial
from xnn.graph.layers.egnn import EGNN

SIZES = GraphRow(None, None, features=4, edge_features=2)
SETTINGS = {"plain": {}, "edges and attention": {"edge_features": 2, "attention": True},
            "still": {"update_positions": False, "residual": False}}


def drawn(layer, graph=None):
    graph = draw_graph(SIZES) if graph is None else graph
    p = np.random.default_rng(4).normal(size=(graph.n_nodes, 3)).astype(np.float32)
    shape, params = traced_init(layer, ((-1, 4), (-1, 3)))
    return graph, p, shape, params


def network(layers, x):
    """Dense layers with SiLU between them; the entries without parameters are activations."""
    for layer in layers:
        x = dense(layer, x) if layer else x * sigmoid(x)
    return x


def by_loops(params, x, p, graph, edge_features=None, attention=False, update_positions=True, residual=True):
    total, moves = np.zeros((len(x), 4)), np.zeros_like(p)
    for k, (j, i) in enumerate(zip(graph.senders, graph.receivers, strict=True)):
        apart = p[i] - p[j]
        parts = [x[i], x[j], [apart @ apart], graph.edge_features[k] if edge_features else []]
        m = network(params["message"], np.concatenate(parts))
        m = m * sigmoid(dense(params["attention"][0], m)) if attention else m
        total[i] += m
        if update_positions:
            moves[i] += apart * network(params["position"], m) / np.sum(graph.receivers == i)
    h = network(params["update"], np.concatenate([x, total], 1))
    return (x + h if residual else h), p + moves


@pytest.mark.parametrize("name", SETTINGS)
def test_values(name):
    layer = EGNN(4, **SETTINGS[name])
    graph, p, shape, params = drawn(layer)
    assert shape == ((-1, 4), (-1, 3))
    want = by_loops(*doubled((params, graph.nodes, p)), graph, **SETTINGS[name])
    apply = layer.apply if name == "edges and attention" else xjax.jit(layer.apply)
    assert_close(apply(params, (graph.nodes, p), graph), want, tol=0.125)


@pytest.mark.parametrize("name", [pytest.param("plain", marks=pytest.mark.slow), "edges and attention"])
def test_numerics(name):
    layer = EGNN(4, **SETTINGS[name])
    graph, p, _, params = drawn(layer)
    f = lambda floats: layer.apply(*floats[:2], graph.replace(edges={"features": floats[2]}))
    check_numerics(f, (params, (jnp.asarray(graph.nodes), jnp.asarray(p)), jnp.asarray(graph.edge_features)), 3.0)


def test_turned_and_moved_positions_move_the_output_alike():
    layer = serial(EGNN(4), EGNN(4))
    graph, p, _, params = drawn(layer)
    turn, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))            # a reflection too
    turn, shift = turn.astype(np.float32), np.array([3.0, -1.0, 0.5], np.float32)
    apply = xjax.jit(lambda p: layer.apply(params, (graph.nodes, p), graph))
    x, q = apply(p)
    turned_x, turned_q = apply(p @ turn + shift)
    assert_close((turned_x, turned_q), (x, q @ turn + shift[None]), tol=0.25)
    assert not np.allclose(q, p, atol=1e-3)


def test_padding_and_permuted_nodes():
    layer = EGNN(4, edge_features=2)
    graph, p, _, params = drawn(layer)
    apply = xjax.jit(layer.apply)
    want = [np.asarray(part) for part in apply(params, (graph.nodes, p), graph)]
    padded = xg.pad(graph, 12, 20, 3)
    filled = np.concatenate([p, np.zeros((12 - len(p), 3), np.float32)])
    got = apply(params, (padded.nodes, filled), padded)
    assert_close([np.asarray(part)[:graph.n_nodes] for part in got], want, tol=0.125)
    order = np.random.default_rng(3).permutation(graph.n_nodes)
    place = np.argsort(order)
    other = xg.Graph.from_edges(place[graph.senders], place[graph.receivers], graph.nodes[order], graph.edges)
    assert_close(apply(params, (other.nodes, p[order]), other), [part[order] for part in want], tol=0.125)


def test_nodes_at_one_place_and_graphs_without_edges_have_finite_gradients():
    for graph in (draw_graph(SIZES), empty_graph(SIZES)):
        _, p, _, params = drawn(EGNN(4), graph)
        check_finite(lambda floats, graph=graph: EGNN(4).apply(floats[0], floats[1:], graph),
                     (params, jnp.asarray(graph.nodes), jnp.zeros_like(p)))


KEY = random.key(0)
WRONG = {
    "x is not a pair": (lambda: EGNN(3).init(KEY, (-1, 4)), TypeError, ["EGNN", "pair"]),
    "a position too few": (
        lambda: EGNN(3).apply(EGNN(3).init(KEY, ((-1, 4), (-1, 3)))[1],
                              (random.normal(KEY, (2, 4)), random.normal(KEY, (1, 3))), np.eye(2)), ValueError,
        ["EGNN", "one position"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_say_what_to_do(name):
    assert_refused(*WRONG[name])
