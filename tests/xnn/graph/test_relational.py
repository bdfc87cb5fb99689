"""RGCN with relations in the graph, HeteroGraph and HeteroConvolution."""

import importlib.util

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn.graph as xg
from tests.compare import assert_close, assert_same
from tests.refusals import assert_refused
from tests.sampling import one_in
from tests.xnn.drawn_params import traced_init
from tests.xnn.graph.checks import check_finite, check_numerics, doubled
from tests.xnn.graph.rows.gcn import convolution
from tests.xnn.graph.rows.mpnn import dense, received
from xjax import random, tree_util
from xnn import BatchNorm, Dense, GraphConvolution, parallel, serial
from xnn.graph import GIN, Graph
from xnn.graph.layers.gated import GatedGraphConvolution
from xnn.graph.layers.mpnn import MPNN
from xnn.graph.layers.relational import RGCN, HeteroConvolution
from xnn.graph.structure.hetero import HeteroGraph

SETTINGS = {"full": {}, "bases": {"bases": 2}, "blocks": {"blocks": 2}, "sum": {"aggregate": "sum"}}
BUYS, LIKES, KNOWS = ("user", "buys", "item"), ("item", "likes", "user"), ("user", "knows", "user")


def drawn(n=8, n_edges=20, seed=0):
    npr = np.random.default_rng(seed)
    senders, receivers = npr.integers(0, n, (2, n_edges))
    return Graph.from_edges(senders, receivers, npr.normal(size=(n, 4)).astype(np.float32),
                            {"relation": npr.integers(0, 3, n_edges).astype(np.int32)})


def hetero(seed=0, features=False):
    npr = np.random.default_rng(seed)
    nodes = {"user": npr.normal(size=(5, 4)).astype(np.float32), "item": npr.normal(size=(3, 4)).astype(np.float32)}
    more = lambda count: ({"features": npr.normal(size=(count, 2)).astype(np.float32)},) if features else ()
    return HeteroGraph.from_edges(nodes, {
        BUYS: (npr.integers(0, 5, 9), npr.integers(0, 3, 9), *more(9)),
        LIKES: (npr.integers(0, 3, 6), npr.integers(0, 4, 6), *more(6)),
        KNOWS: (npr.integers(0, 5, 7), npr.integers(0, 5, 7), *more(7))})


# -- RGCN -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", one_in(2, SETTINGS))
def test_padding_batches_and_permutations_of_rgcn(name):
    layer = RGCN(6, 3, **SETTINGS[name])
    graphs = [drawn(), drawn(5, 0), drawn(6, 9, seed=2)]
    params = traced_init(layer, (-1, 4))[1]
    apply = lambda params, graph: layer.apply(params, jnp.asarray(graph.nodes), graph)
    alone, joined = [apply(params, graphs[0])], xg.batch(graphs)
    alone += xjax.jit(lambda params: [apply(params, graph) for graph in graphs[1:]])(params)

    def total(params, graph):
        y = apply(params, graph)[:joined.n_nodes]
        return jnp.sum(jnp.sin(y)), y

    slopes = xjax.jit(xjax.grad(total, has_aux=True))
    (of_padded, y), (of_joined, _) = (slopes(params, graph) for graph in (xg.pad(joined, 30, 50, 5), joined))
    assert_close(y, np.concatenate(alone), tol=0.25)
    assert_close(of_padded, of_joined, tol=2)                                              # sums over all nodes
    graph, order = graphs[0], np.random.default_rng(3).permutation(8)
    place = np.argsort(order)
    other = Graph.from_edges(place[graph.senders], place[graph.receivers], graph.nodes[order], graph.edges)
    assert_close(xjax.jit(apply)(params, other), np.asarray(alone[0])[order], tol=0.25)


def test_edges_of_no_relation_count_nowhere():
    layer, graph = RGCN(6, 3), drawn()
    params = traced_init(layer, (-1, 4))[1]
    relation = graph.edges["relation"].copy()
    relation[::2] = -1
    kept = relation >= 0
    fewer = Graph.from_edges(graph.senders[kept], graph.receivers[kept], graph.nodes, {"relation": relation[kept]})
    want, got = xjax.jit(lambda params: (layer.apply(params, fewer.nodes, fewer),
                                         layer.apply(params, graph.nodes, graph, relation)))(params)
    assert_close(got, want, tol=0.25)
    traced = xjax.jit(lambda relation: layer.apply(params, graph.nodes, graph, relation))
    assert_close(traced(relation), want, tol=0.25)
    assert_close(traced(np.where(kept, relation, 7)), want, tol=0.25)


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_rgcn_equals_pytorch_geometric(name):
    if importlib.util.find_spec("torch_geometric") is None:
        pytest.skip("PyTorch Geometric is not installed: pip install -e '.[peers]'")
    import torch
    from torch_geometric.nn import RGCNConv

    settings = SETTINGS[name]
    layer, graph = RGCN(6, 3, **settings), drawn()
    params = traced_init(layer, (-1, 4))[1]
    peer = RGCNConv(4, 6, 3, num_bases=settings.get("bases"), num_blocks=settings.get("blocks"),
                    aggr=settings.get("aggregate", "mean"))
    names = {"w": "weight", "coefficients": "comp", "root": "root", "b": "bias"}
    for ours, value in params.items():
        getattr(peer, names[ours]).data = torch.tensor(np.array(value))
    x = torch.tensor(graph.nodes, requires_grad=True)
    theirs = peer(x, torch.tensor(np.stack([graph.senders, graph.receivers]).astype(np.int64)),
                  torch.tensor(graph.edges["relation"].astype(np.int64)))
    y, pull = xjax.vjp(lambda x: layer.apply(params, x, graph), jnp.asarray(graph.nodes))
    assert_close(y, theirs.detach().numpy(), tol=0.25)
    ct = np.random.default_rng(2).normal(size=y.shape).astype(np.float32)
    theirs.backward(torch.tensor(ct))
    assert_close(pull(jnp.asarray(ct))[0], x.grad.numpy(), tol=2)                 # sums over all nodes


# -- HeteroGraph ------------------------------------------------------------------------------------------------------


def test_a_graph_of_several_types_is_a_pytree_and_joins_to_one():
    graph = hetero(features=True)
    leaves, tree = tree_util.tree_flatten(graph)
    again = tree_util.tree_unflatten(tree, leaves)
    assert again.relations.keys() == graph.relations.keys() and again.n_nodes("item") == 3
    assert "user f32[5,4]" in repr(graph) and "user-buys-item with 9 edges" in repr(graph)
    one, kinds = graph.joined()
    assert kinds.tolist() == [0] * 3 + [1] * 5 and one.n_edges == 22
    of_buys = one.edges["relation"] == 1                  # item-likes-user, user-buys-item, user-knows-user
    np.testing.assert_array_equal(np.sort(one.senders[of_buys] - 3), np.sort(graph.relations[BUYS].senders))
    assert one.edge_features.shape == (22, 2)
    layer = RGCN(4, 3)
    params = traced_init(layer, one.nodes.shape)[1]
    assert xjax.eval_shape(lambda: layer.apply(params, one.nodes, one)).shape == (8, 4)


def test_batches_and_padding_change_nothing():
    layer = convolutions("mean")
    params = traced_init(layer, {"user": (-1, 4), "item": (-1, 4)})[1]
    empty = HeteroGraph.from_edges(hetero(2).nodes, {key: ([], []) for key in (BUYS, LIKES, KNOWS)})
    graphs = [hetero(), hetero(1), empty]
    joined = HeteroGraph.batch(graphs)
    padded = joined.pad({"user": 20, "item": 12}, {BUYS: 30, LIKES: 21, KNOWS: 17})
    assert joined.mask is None and padded.mask.tolist() == [True] * 3 + [False] and padded.n_graphs == 4
    assert padded.n_node["user"].tolist() == [5, 5, 5, 5] and padded.node_graph("item").tolist() == [
        0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    alone = xjax.jit(lambda params: [layer.apply(params, graph.nodes, graph) for graph in graphs])(params)
    want = {kind: np.concatenate([y[kind] for y in alone]) for kind in ("user", "item")}
    apply = lambda params, graph: {kind: y[:{"user": 15, "item": 9}[kind]]
                                   for kind, y in layer.apply(params, graph.nodes, graph).items()}
    compiled = xjax.jit(apply)
    for graph in (joined, padded, HeteroGraph.batch([joined, padded])):
        assert_close(compiled(params, graph), want, tol=0.25)
    for edges in padded.relations.values():
        assert np.all(np.diff(edges.receivers) >= 0) and np.all(np.diff(edges.senders[edges.by_sender]) >= 0)


def test_statistics_within_leave_out_padding():
    layer = HeteroConvolution({BUYS: serial(GraphConvolution(4), BatchNorm()), LIKES: GraphConvolution(3),
                               KNOWS: GIN(serial(Dense(3), BatchNorm()))})
    shapes = {"user": (-1, 4), "item": (-1, 4)}
    _, params = traced_init(layer, shapes)
    graph, state = HeteroGraph.batch([hetero(), hetero(1)]), layer.init_state(shapes)
    padded = graph.pad({"user": 13, "item": 8}, {BUYS: 20, LIKES: 13, KNOWS: 16})
    padded = padded.replace(nodes={kind: np.where(np.arange(len(x))[:, None] < graph.n_nodes(kind), x, np.nan)
                                   for kind, x in padded.nodes.items()})
    run = xjax.jit(lambda graph: layer.apply_with_state(params, state, graph.nodes, graph, train=True))
    (y, moved), (want, want_moved) = run(padded), run(graph)
    assert_close({kind: rows[:graph.n_nodes(kind)] for kind, rows in y.items()}, want, tol=0.25)
    assert_close(moved, want_moved, tol=0.25)
    means = [np.asarray(leaf) for leaf in tree_util.tree_leaves(want_moved)]
    assert len(means) == 4 and all(np.any(leaf != 0) for leaf in means)


def test_unbatch_is_the_inverse_of_batch():
    bare = {key: ([], [], np.zeros((0, 2), np.float32)) for key in (BUYS, LIKES, KNOWS)}
    nobody = {kind: np.zeros((0, x.shape[1]), np.float32) for kind, x in hetero().nodes.items()}
    graphs = [hetero(features=True), HeteroGraph.from_edges(nobody, bare), hetero(1, features=True)]
    joined = HeteroGraph.batch(graphs)
    for batched in (joined, joined.pad({"user": 20, "item": 12}, {BUYS: 30, LIKES: 21, KNOWS: 17})):
        parts = batched.unbatch()
        assert len(parts) == 3
        for part, graph in zip(parts, graphs, strict=True):
            assert_same(part, graph, tol=0)
    with pytest.raises(TypeError, match="(?s)HeteroGraph.unbatch.*fix:"):
        xjax.jit(lambda graph: graph.unbatch())(joined)


def test_hetero_data_of_pytorch_geometric_by_its_attributes():
    class Part(dict):
        __getattr__ = dict.get

        def __setattr__(self, key, value):
            self[key] = value

    class Data(dict):
        def __missing__(self, key):
            return self.setdefault(key, Part())

        node_types = property(lambda self: [key for key in self if isinstance(key, str)])
        edge_types = property(lambda self: [key for key in self if not isinstance(key, str)])

    graph = hetero(features=True)
    again = HeteroGraph.from_pyg(graph.to_pyg(Data(), np.asarray))
    assert_same(again, graph, tol=0)


@pytest.mark.slow
def test_hetero_data_of_pytorch_geometric():
    pytest.importorskip("torch_geometric")
    import torch
    from torch_geometric.data import HeteroData

    graph = hetero(features=True)
    data = graph.to_pyg(HeteroData(), torch.tensor)
    data.validate()
    again = HeteroGraph.from_pyg(data)
    assert_same(again, graph, tol=0)


# -- HeteroConvolution ------------------------------------------------------------------------------------------------


def convolutions(aggregate="sum"):
    return HeteroConvolution({BUYS: GatedGraphConvolution(3), LIKES: GatedGraphConvolution(3),
                              KNOWS: GraphConvolution(3, norm="symmetric")}, aggregate=aggregate)


@pytest.mark.parametrize("aggregate", ["sum", "mean", "max"])
def test_values_of_a_heterogeneous_convolution(aggregate):
    graph, layer = hetero(), convolutions(aggregate)
    shape, params = traced_init(layer, {"user": (-1, 4), "item": (-1, 4)})
    assert shape == {"item": (-1, 3), "user": (-1, 3)}

    def gated(params, key):                               # between two types, by loops
        edges, (source, _, target) = graph.relations[key], key
        x, y = np.asarray(graph.nodes[source], np.float64), np.asarray(graph.nodes[target], np.float64)
        messages = [dense(params["value"], x[j]) / (1 + np.exp(-dense(params["key"], y[i]) -
                                                               dense(params["query"], x[j])))
                    for j, i in zip(edges.senders, edges.receivers, strict=True)]
        some = Graph.from_edges([], [], y).replace(receivers=edges.receivers)
        return received(some, np.array(messages)) + dense(params["root"], y)

    own = doubled(params)
    knows = convolution(own["user-knows-user"], np.asarray(graph.nodes["user"], np.float64),
                        graph.relation_graph(KNOWS))
    likes = gated(own["item-likes-user"], LIKES)
    user = {"sum": likes + knows, "mean": (likes + knows) / 2, "max": np.maximum(likes, knows)}[aggregate]
    want = {"item": gated(own["user-buys-item"], BUYS), "user": user}
    apply = layer.apply if aggregate == "max" else xjax.jit(layer.apply)
    assert_close(apply(params, graph.nodes, graph), want, tol=0.25)


def test_numerics_of_a_heterogeneous_convolution():
    graph = hetero()
    layer = serial(parallel(user=Dense(4), item=Dense(4)), convolutions(), convolutions())
    params = traced_init(layer, {"user": (-1, 4), "item": (-1, 4)})[1]
    check_numerics(lambda floats: layer.apply(*floats, graph), (params, dict(graph.nodes)), 4.0)
    empty = HeteroGraph.from_edges(graph.nodes, {key: ([], []) for key in graph.relations})
    check_finite(lambda floats: layer.apply(*floats, empty), (params, dict(graph.nodes)))


def test_features_of_edges_reach_the_layers():
    graph, layer = hetero(features=True), HeteroConvolution({BUYS: MPNN(3, edge_features=2, hidden=())})
    params = traced_init(layer, {"user": (-1, 4), "item": (-1, 4)})[1]
    apply = xjax.jit(layer.apply)
    y = apply(params, graph.nodes, graph)
    other = graph.replace(relations={BUYS: graph.relations[BUYS].replace(
        features=graph.relations[BUYS].features + 1)})
    assert y.keys() == {"item"} and not np.allclose(y["item"], apply(params, other.nodes, other)["item"])


@pytest.mark.slow
def test_heterogeneous_convolution_equals_pytorch_geometric():
    pytest.importorskip("torch_geometric")
    import torch
    from torch_geometric.nn import HeteroConv, ResGatedGraphConv

    from tests.xnn.graph.rows.gated import res_gated

    graph = hetero()
    keys = (BUYS, LIKES, KNOWS)
    layer = HeteroConvolution({key: GatedGraphConvolution(3) for key in keys}, aggregate="mean")
    params = traced_init(layer, {"user": (-1, 4), "item": (-1, 4)})[1]
    assert ResGatedGraphConv                              # the peer of a row creates it
    peer = HeteroConv({key: res_gated(None)(params["-".join(key)])[0] for key in keys}, aggr="mean")
    theirs = peer({kind: torch.tensor(x) for kind, x in graph.nodes.items()},
                  {key: torch.tensor(np.stack([edges.senders, edges.receivers]).astype(np.int64))
                   for key, edges in graph.relations.items()})
    y = layer.apply(params, graph.nodes, graph)
    assert y.keys() == theirs.keys()
    assert_close([y[kind] for kind in sorted(y)], [theirs[kind].detach().numpy() for kind in sorted(y)], tol=0.25)


NODES = {"user": np.ones((2, 4), np.float32), "item": np.ones((1, 4), np.float32)}
SHAPES = {"user": (-1, 4), "item": (-1, 4)}
KEY = random.key(0)
WRONG = {
    "an edge that ends at no node": (
        lambda: HeteroGraph.from_edges(NODES, {BUYS: ([0], [1])}), ValueError, ["user-buys-item", "out of range"]),
    "a type without nodes": (
        lambda: HeteroGraph.from_edges(NODES, {("user", "buys", "thing"): ([0], [0])}), ValueError, ["'thing'"]),
    "a relation of two words": (
        lambda: HeteroGraph.from_edges(NODES, {("user", "item"): ([0], [0])}), ValueError, ["three strings"]),
    "no graph": (lambda: HeteroGraph.batch([]), ValueError, ["HeteroGraph.batch", "at least one"]),
    "graphs of other relations": (
        lambda: HeteroGraph.batch([hetero(), HeteroGraph.from_edges(NODES, {BUYS: ([0], [0])})]), ValueError,
        ["same types"]),
    "padding without nodes": (
        lambda: hetero().pad({"user": 9}, {BUYS: 20}), ValueError, ["HeteroGraph.pad", "one node more"]),
    "an unknown relation": (
        lambda: HeteroGraph.from_edges(NODES, {BUYS: ([0], [0])}).relation_graph(KNOWS), ValueError, ["relation"]),
    "unknown aggregate": (
        lambda: HeteroConvolution({BUYS: GraphConvolution(3)}, aggregate="cat"), ValueError, ["aggregate", "cat"]),
    "a graph of one type": (
        lambda: HeteroConvolution({BUYS: GraphConvolution(3)}).apply(
            {"user-buys-item": GraphConvolution(3).init(KEY, (-1, 4))[1]}, NODES, Graph.from_edges([0], [1])),
        TypeError, ["HeteroGraph"]),
    "x is an array": (
        lambda: HeteroConvolution({BUYS: GraphConvolution(3)}).init(KEY, (-1, 4)), TypeError, ["dict"]),
    "features of other sizes": (
        lambda: HeteroConvolution({BUYS: GraphConvolution(3)}).init(KEY, {**SHAPES, "item": (-1, 2)}), ValueError,
        ["different numbers of features", "Dense"]),
    "outputs of other sizes": (
        lambda: HeteroConvolution({LIKES: GraphConvolution(3), KNOWS: GraphConvolution(4)}).init(KEY, SHAPES),
        ValueError, ["different sizes", "n_out"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_say_what_to_do(name):
    assert_refused(*WRONG[name])
