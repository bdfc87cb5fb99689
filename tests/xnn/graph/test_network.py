"""GraphNetwork and its special cases: values by loops, Jraph's, batches and padding, gradients, errors."""

import importlib.util

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn.graph as xg
from tests.compare import assert_close
from tests.refusals import assert_refused
from tests.xnn.drawn_params import traced_init
from tests.xnn.graph.checks import check_finite, check_numerics, doubled
from tests.xnn.graph.rows.mpnn import dense, received
from xjax import random, tree_util
from xnn import Dense, serial
from xnn.graph import Graph
from xnn.graph.layers.network import (
    DeepSets,
    GraphMapFeatures,
    GraphNetGAT,
    GraphNetwork,
    InteractionNetwork,
    RelationNetwork,
)

NETWORKS = {
    "GraphNetwork": GraphNetwork(Dense(5), Dense(6), Dense(2)),
    "GraphNetwork, other reductions": GraphNetwork(
        Dense(5), Dense(6), Dense(2), edges_to_nodes="mean", nodes_to_globals="max", edges_to_globals="mean"),
    "GraphNetwork, nodes only": GraphNetwork(None, Dense(6)),
    "InteractionNetwork": InteractionNetwork(Dense(5), Dense(6)),
    "InteractionNetwork, sent edges": InteractionNetwork(Dense(5), Dense(6), sent=True),
    "RelationNetwork": RelationNetwork(Dense(5), Dense(2)),
    "DeepSets": DeepSets(Dense(6), Dense(2)),
    "GraphNetGAT": GraphNetGAT(Dense(5), Dense(1), Dense(6), Dense(2)),
}


def drawn(seed=0, n=6, n_edges=11):
    npr = np.random.default_rng(seed)
    normal = lambda *shape: npr.normal(size=shape).astype(np.float32)
    senders, receivers = npr.integers(0, n - 1, (2, n_edges))                      # the last node has no edges
    return Graph.from_edges(senders, receivers, normal(n, 3), normal(n_edges, 4), globals=normal(2))


def names(*fast):
    """Parametrizes a test by all networks; those outside of `fast` are in the slow set."""
    return pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in fast))
                                            for name in NETWORKS])


def batches():
    """A batch with a graph without edges, and the same with padding."""
    joined = xg.batch([drawn(), drawn(1, 3, 0), drawn(2, 5, 7)])
    return joined, xg.pad(joined, 20, 30, 6)


def features(graph):
    return graph.nodes, graph.edges, graph.globals


def applied(layer, graph):
    return lambda params, nodes, edges, of_graphs: features(
        layer.apply(params, graph.replace(nodes=nodes, edges=edges, globals=of_graphs)))


def params_of(layer, graph=None):
    return traced_init(layer, drawn() if graph is None else graph)[1]


def test_values_by_loops():
    layer, (graph, _) = NETWORKS["GraphNetwork"], batches()
    params = params_of(layer)
    own, x, e, g = doubled((params, graph.nodes, graph.edges, graph.globals))
    ends = list(zip(graph.senders, graph.receivers, graph.edge_graph, strict=True))
    e = np.array([dense(own["edges"], np.concatenate([e[k], x[j], x[i], g[b]])) for k, (j, i, b) in enumerate(ends)])
    sent = received(graph.replace(receivers=graph.senders), e)
    x = dense(own["nodes"], np.concatenate([x, sent, received(graph, e), g[graph.node_graph]], 1))
    total = [np.concatenate([x[graph.node_graph == b].sum(0), e[graph.edge_graph == b].sum(0), g[b]]) for b in range(3)]
    assert_close(features(layer.apply(params, graph)), (x, e, dense(own["globals"], np.array(total))), tol=0.125)


@names("GraphNetwork", "RelationNetwork", "DeepSets")
def test_padding_batches_and_jit(name):
    layer, (joined, padded) = NETWORKS[name], batches()
    params = params_of(layer)
    apply = xjax.jit(layer.apply)
    want, got = apply(params, joined), apply(params, padded)
    real = joined.n_nodes, joined.n_edges, joined.n_graphs
    assert_close([part[:n] for part, n in zip(features(got), real, strict=True)], features(want), tol=0.125)
    alone = xjax.jit(lambda params: [layer.apply(params, graph) for graph in xg.unbatch(joined)])(params)
    together = [np.concatenate(parts) for parts in zip(*map(features, alone), strict=True)]
    assert_close(together, features(want), tol=0.125)
    shape, _ = traced_init(layer, joined)
    assert tree_util.tree_map(jnp.shape, features(shape)) == tree_util.tree_map(jnp.shape, features(want))


@names("GraphNetGAT")
def test_numerics(name):
    layer, graph = NETWORKS[name], drawn()
    params = params_of(layer)
    check_numerics(lambda floats: applied(layer, graph)(*floats), (params, *map(jnp.asarray, features(graph))), 3.0)
    empty = drawn(n_edges=0)
    check_finite(lambda floats: applied(layer, empty)(*floats), (params, *map(jnp.asarray, features(empty))))


def test_attention_is_a_softmax_over_received_edges():
    layer, graph = GraphNetGAT(None, Dense(1)), drawn()
    weights = np.asarray(layer.apply(params_of(layer), graph).edges) / graph.edges
    some = np.bincount(graph.receivers, minlength=6) > 0
    assert_close(received(graph, weights), np.repeat(some[:, None], 4, 1), tol=0.25, like=np.float32)


def test_networks_follow_one_another_from_a_graph_without_features_of_edges():
    layer = serial(GraphMapFeatures(embed_node=Dense(4)), GraphNetwork(Dense(5), Dense(6)),
                   GraphNetwork(Dense(5), Dense(6), Dense(2)))
    graph = drawn().replace(edges=None, globals=None)
    shape, params = traced_init(layer, graph)
    y = xjax.jit(layer.apply)(params, graph)
    assert y.nodes.shape == shape.nodes.shape == (6, 6) and y.edges.shape == (11, 5) and y.globals.shape == (1, 2)


def _jraph(name, params, jraph):
    """The same network in Jraph: an update is the Dense of its concatenated arguments."""
    import jax.numpy as jp

    def update(field):
        w, b = np.array(params[field]["w"]), np.array(params[field]["b"])
        return lambda *parts: jp.concatenate([part for part in parts if part is not None], -1) @ w + b

    edge, node, whole = (update(field) if field in params else None for field in ("edges", "nodes", "globals"))
    return {
        "GraphNetwork": lambda: jraph.GraphNetwork(edge, node, whole),
        "GraphNetwork, other reductions": lambda: jraph.GraphNetwork(
            edge, node, whole, jraph.segment_mean, jraph.segment_max, jraph.segment_mean),
        "GraphNetwork, nodes only": lambda: jraph.GraphNetwork(None, node),
        "InteractionNetwork": lambda: jraph.InteractionNetwork(edge, node),
        "InteractionNetwork, sent edges": lambda: jraph.InteractionNetwork(
            edge, node, include_sent_messages_in_node_update=True),
        "RelationNetwork": lambda: jraph.RelationNetwork(edge, whole),
        "DeepSets": lambda: jraph.DeepSets(node, whole),
        "GraphNetGAT": lambda: jraph.GraphNetGAT(edge, node, update("attention"), lambda e, weight: e * weight, whole),
    }[name]()


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_equals_jraph(name):
    if importlib.util.find_spec("jraph") is None:
        pytest.skip("Jraph is not installed: pip install -e '.[peers]'")
    import jraph

    layer = NETWORKS[name]
    # Without edges Jraph's largest row and mean are not 0, unlike xnn's, so every node of this graph has edges.
    npr, ring = np.random.default_rng(3), np.arange(5)
    graph = drawn(n=5, n_edges=0)
    graph = Graph.from_edges(np.concatenate([ring, ring]), np.concatenate([ring, np.roll(ring, 1)]), graph.nodes,
                             npr.normal(size=(10, 4)).astype(np.float32), globals=graph.globals[0])
    graph = xg.batch([graph, graph])
    params = params_of(layer)
    theirs = _jraph(name, params, jraph)(jraph.GraphsTuple(
        graph.nodes, graph.edges, graph.receivers, graph.senders, graph.globals, graph.n_node, graph.n_edge))
    assert_close(features(layer.apply(params, graph)), features(theirs), tol=0.125)


KEY = random.key(0)
WRONG = {
    "unknown reduction": (lambda: GraphNetwork(Dense(3), edges_to_nodes="add"), ValueError, ["edges_to_nodes"]),
    "an array": (lambda: NETWORKS["GraphNetwork"].init(KEY, (-1, 3)), TypeError, ["GraphNetwork", "not a Graph"]),
    "weights as edges": (
        lambda: NETWORKS["GraphNetwork"].init(KEY, Graph.from_edges([0], [1], np.eye(2), np.ones(1))), TypeError,
        ["`edges`", "not an array of rows"]),
    "nothing to read": (
        lambda: RelationNetwork(Dense(3), Dense(2)).init(KEY, Graph.from_edges([0], [1])), ValueError,
        ["RelationNetwork", "does not have"]),
    "attention without edges": (
        lambda: GraphNetGAT(None, Dense(1)).init(KEY, Graph.from_edges([0], [1], np.eye(2))), ValueError,
        ["GraphNetGAT", "attention"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_say_what_to_do(name):
    assert_refused(*WRONG[name])
