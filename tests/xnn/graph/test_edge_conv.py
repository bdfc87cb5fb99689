"""The graph of nearest neighbours, the dynamic EdgeConv, PointNet with padding."""

import importlib.util

import numpy as np
import pytest
from scipy.spatial import cKDTree

import xjax
import xjax.numpy as jnp
import xnn.graph as xg
from tests.compare import assert_close
from tests.xnn.drawn_params import traced_init
from tests.xnn.graph.checks import check_numerics
from tests.xnn.graph.row import GraphRow, draw_graph
from tests.xnn.graph.rows.edge_conv import NETWORK
from tests.xnn.graph.rows.mpnn import linear
from xnn import Dense
from xnn.graph import Graph, knn_graph
from xnn.graph.layers import edge_conv
from xnn.graph.layers.edge_conv import EdgeConv, PointNet, knn_edges

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


@pytest.mark.parametrize("several", [False, True])
def test_blocks_of_rows_change_nothing(several, monkeypatch):
    x, ids = points(), jnp.asarray(IDS) if several else None

    def both(x):
        return [knn_edges(x, 3, ids, mask=np.arange(13) != 4, self_loops=loops) for loops in (False, True)]

    whole = xjax.jit(lambda x: both(x))(x)
    monkeypatch.setattr(edge_conv, "_CHUNK", 60)                                    # 4 rows
    for parts, want in zip(xjax.jit(lambda x: both(x))(x), whole, strict=True):
        for name in ("senders", "receivers", "mask", "by_sender"):
            np.testing.assert_array_equal(getattr(parts, name), getattr(want, name))


def test_of_equally_near_nodes_the_first_are_taken():
    grid = np.stack(np.meshgrid(*[np.arange(4.0)] * 3), -1).reshape(-1, 3)[np.random.default_rng(0).permutation(64)]
    far = np.square(grid[:, None] - grid[None]).sum(-1) + np.where(np.eye(64), np.inf, 0)
    edges, graph = knn_edges(grid, 4), knn_graph(grid, 4)
    assert edges.senders.reshape(64, 4).tolist() == np.argsort(far, kind="stable")[:, :4].tolist()
    np.testing.assert_array_equal(np.sort(edges.senders.reshape(64, 4)), graph.senders.reshape(64, 4))


def sizes(program):
    """The sizes of all arrays in a program."""
    for eqn in program.eqns:
        yield from (v.aval.size for v in eqn.outvars)
        for inner in eqn.params.values():
            if hasattr(inner, "eqns"):
                yield from sizes(inner)


def test_many_nodes_take_memory_for_some_rows_only():
    for features in (3, 40):
        spec = xjax.ShapeDtypeStruct((20_000, features), "float32")
        program = xjax.make_jaxpr(lambda x: knn_edges(x, 8, jnp.zeros(x.shape[0], np.int32)))(spec)
        assert 2**21 < max(sizes(program)) <= 2**22


@pytest.mark.parametrize("features", [3, 40])
@pytest.mark.parametrize("n", [3_000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_neighbours_among_many_nodes(n, features):
    """So many nodes that distances are computed for some rows at a time."""
    x = np.random.default_rng(0).normal(size=(n, features)).astype(np.float32)
    some = slice(0, n, n // 206)
    _, want = cKDTree(x).query(x[some], k=9)
    got = np.asarray(knn_edges(x, 8).senders).reshape(-1, 8)[some]
    assert np.mean(got == want[:, 1:]) > 0.999                        # rounding of float32 may exchange two


def test_more_neighbours_than_nodes_are_masked():
    edges = knn_edges(points(3), 5)
    assert len(edges) == 15 and edges.mask.reshape(3, 5).sum(1).tolist() == [2, 2, 2]
    assert np.asarray(edges.degree()).tolist() == [2, 2, 2]


def test_the_dynamic_form_is_the_layer_on_the_graph_of_neighbours():
    layer, x = EdgeConv(NETWORK, k=3), points()
    params = traced_init(layer, x.shape)[1]
    graphs = [Graph.from_edges([], [], points(n, n)) for n in (5, 2, 6)]

    @xjax.jit
    def outputs(params, x):
        return (layer.apply(params, x), EdgeConv(NETWORK).apply(params, x, knn_edges(x, 3, self_loops=True)),
                jnp.concatenate([layer.apply(params, graph.nodes, graph) for graph in graphs]))

    dynamic, given, alone = outputs(params, x)
    assert_close(dynamic, given, tol=0.25)

    def total(params, graph):
        y = layer.apply(params, jnp.asarray(graph.nodes), graph)[:13]
        return jnp.sum(jnp.sin(y)), y

    slopes = xjax.jit(xjax.grad(total, has_aux=True))
    joined = xg.batch(graphs)
    (of_padded, y), (of_joined, _) = (slopes(params, graph) for graph in (xg.pad(joined, 20, 4, 5), joined))
    assert_close(y, alone, tol=0.25)
    assert_close(of_padded, of_joined, tol=2)                                            # sums over all nodes


def test_numerics_of_the_dynamic_form():
    layer, x = EdgeConv(NETWORK, k=3, aggregate="mean"), points(6)
    x = np.round(x * 8) / 8                                              # the same neighbours in bfloat16
    params = traced_init(layer, x.shape)[1]
    check_numerics(lambda floats: layer.apply(*floats), (params, jnp.asarray(x)), 3.0)


def point_net():
    graph, p = draw_graph(GraphRow(None, None)), points(7)
    layer = PointNet(Dense(5), Dense(3))
    return layer, graph, p, traced_init(layer, graph.nodes.shape, positions=p)[1]


def test_padding_and_permutations_of_point_net():
    layer, graph, p, params = point_net()
    apply = xjax.jit(layer.apply)
    want = apply(params, graph.nodes, graph, p)
    padded, filled = xg.pad(graph, 12, 20, 3), np.concatenate([p, np.zeros((5, 3), np.float32)])
    assert_close(np.asarray(apply(params, padded.nodes, padded, filled))[:7], want, tol=0.25)
    order = np.random.default_rng(3).permutation(7)
    place = np.argsort(order)
    other = Graph.from_edges(place[graph.senders], place[graph.receivers], graph.nodes[order])
    assert_close(apply(params, other.nodes, other, p[order]), np.asarray(want)[order], tol=0.25)


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
    assert_close(layer.apply(params, graph.nodes, graph, p), theirs.detach().numpy(), tol=0.25)
