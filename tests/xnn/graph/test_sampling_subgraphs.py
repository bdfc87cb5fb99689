"""Partitions, subgraphs of clusters and of random walks."""

import numpy as np
import pytest

from tests.compare import assert_same
from tests.sampling import each_once
from xnn.graph import Graph
from xnn.graph.samplers.partitioning import cut, partition
from xnn.graph.samplers.subgraphs import ClusterBatches, RandomWalkSampler, induced_block


def grid(side, seed=0):
    """side x side nodes in random order, each joined to its right and lower neighbour, in both directions."""
    at = np.random.default_rng(seed).permutation(side * side).reshape(side, side)
    one = np.concatenate([at[:, :-1].ravel(), at[:-1].ravel()])
    other = np.concatenate([at[:, 1:].ravel(), at[1:].ravel()])
    return Graph.from_edges(np.append(one, other), np.append(other, one))


def groups(count, size, inside=8, outside=1, seed=0):
    """Random edges, most of them within groups, with nodes in random order; and the group of each node."""
    npr = np.random.default_rng(seed)
    n = count * size
    one = npr.integers(0, n, n * (inside + outside))
    other = np.append(one[:n * inside] // size * size + npr.integers(0, size, n * inside),
                      npr.integers(0, n, n * outside))
    order = npr.permutation(n)
    return Graph.from_edges(order[one], order[other], n_nodes=n), np.argsort(order) // size


def random_graph(n=40, e=160, seed=0):
    npr = np.random.default_rng(seed)
    return Graph.from_edges(npr.integers(0, n, e), npr.integers(0, n, e), np.arange(n, dtype=np.float32),
                            npr.uniform(1, 2, e).astype(np.float32))


# ---- partition ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("case", "imbalance"), each_once([
    (grid(16), 9), (groups(8, 60)[0], 8), (random_graph(), 7), (random_graph(30, 1), 4), (random_graph(5, 3), 8),
    (Graph.from_edges(np.zeros(150, int), np.arange(1, 151)), 6), (Graph.from_edges([], [], n_nodes=17), 3),
    (Graph.from_edges([], [], n_nodes=0), 3), (Graph.from_edges([0], [0]), 1),
], [0.0, 0.05, 0.5]))
def test_parts_are_balanced_and_a_function_of_the_seed(case, imbalance):
    graph, parts = case
    part = partition(graph, parts, imbalance=imbalance)
    assert part.shape == (graph.n_nodes,) and part.dtype == np.int32
    counts = np.bincount(part, minlength=parts)
    assert len(counts) == parts and counts.max() <= np.ceil((1 + imbalance) * graph.n_nodes / parts)
    np.testing.assert_array_equal(part, partition(graph, parts, imbalance=imbalance))


def test_groups_are_found():
    graph, planted = groups(8, 100)
    part = partition(graph, 8)
    assert cut(graph, part) <= 1.05 * cut(graph, planted)


def test_the_cut_of_a_grid_is_near_that_of_squares():
    graph, side = grid(40), 40
    squares = 2 * 2 * 3 * side                                   # 16 squares: 3 lines each way, of two directions
    assert cut(graph, partition(graph, 16)) < 1.5 * squares
    assert cut(graph, np.arange(side * side) % 16) > 10 * squares                    # as a random one


@pytest.mark.parametrize("arguments", [{"parts": 0}, {"parts": 2, "imbalance": -1}])
def test_errors_of_partition(arguments):
    with pytest.raises(ValueError, match="fix: "):
        partition(random_graph(), **arguments)


# ---- induced subgraphs -------------------------------------------------------------------------------------------


def edges_within(graph, ids):
    inside = np.isin(graph.senders, ids) & np.isin(graph.receivers, ids)
    return sorted(zip(*(x[inside].tolist() for x in (graph.senders, graph.receivers, graph.edges)), strict=True))


def edges_of(block):
    e = int(block.graph.n_edge[0])
    ends = block.ids[block.graph.senders[:e]], block.ids[block.graph.receivers[:e]], block.graph.edges[:e]
    return sorted(zip(*(x.tolist() for x in ends), strict=True))


@pytest.mark.parametrize("ids", [[3, 17, 4, 30, 31, 0], [], [5], [7, 7, 2], range(40)])
def test_all_edges_between_the_nodes(ids):
    graph = random_graph()
    block = induced_block(graph, list(ids), sizes=[(64, 200)])
    unique = list(dict.fromkeys(ids))
    assert block.ids[:len(unique)].tolist() == unique and block.graph.n_node[0] == len(unique)
    assert edges_of(block) == edges_within(graph, unique)
    assert block.graph.nodes.tolist() == [float(i) for i in unique] + [0.0] * (64 - len(unique))
    assert block.seed_mask.sum() == len(unique)


@pytest.mark.parametrize("clusters", [1, 3])
def test_batches_of_clusters(clusters):
    graph = random_graph()
    part = np.random.default_rng(0).integers(0, 8, 40)
    batches = ClusterBatches(graph, part, clusters=clusters, seed=2, threads=2)
    blocks = list(batches.epoch(1))
    assert len(blocks) == len(batches) == -(-8 // clusters)
    assert len({(b.graph.n_nodes, b.graph.n_edges) for b in blocks}) == 1
    seen = []
    for i, block in enumerate(blocks):
        ids = block.ids[:int(block.graph.n_node[0])]
        assert edges_of(block) == edges_within(graph, ids)
        chosen = set(part[ids].tolist())
        assert len(chosen) <= clusters and len(ids) == np.isin(part, list(chosen)).sum()
        seen += ids.tolist()
        assert_same(block, batches.at(1, i), tol=0)
    assert sorted(seen) == list(range(40))
    assert [b.ids.tolist() for b in batches.epoch(2)] != [b.ids.tolist() for b in blocks]


@pytest.mark.parametrize("part", [np.zeros(39, int), np.zeros(40), np.full(40, -1)])
def test_errors_of_clusters(part):
    with pytest.raises(ValueError, match="fix: "):
        ClusterBatches(random_graph(), part)


# ---- random walks ------------------------------------------------------------------------------------------------


def test_subgraphs_of_walks():
    graph = random_graph()
    sampler = RandomWalkSampler(graph, roots=4, length=3, coverage=0, threads=2)
    reached = set()
    for i, block in enumerate(sampler.epoch(0)):
        ids = block.ids[:int(block.graph.n_node[0])]
        assert 1 <= len(ids) <= 16 and block.loss_weight is None
        assert edges_of(block) == edges_within(graph, ids)
        assert_same(block, sampler.at(0, i), tol=0)
        reached |= set(ids.tolist())
    assert len(sampler) == 10 and len(reached) > 30


def test_walks_go_to_nodes_that_a_node_receives_from():
    ring = Graph.from_edges(np.arange(1, 30), np.arange(29))     # node i receives from i + 1, node 29 from none
    walked = RandomWalkSampler(ring, roots=1, length=4, coverage=0)
    for i in range(20):
        block = walked.at(0, i)
        ids = block.ids[:int(block.graph.n_node[0])]
        assert ids.tolist() == list(range(ids[0], min(ids[0] + 5, 30)))


@pytest.mark.parametrize("kind", ["none", "both", pytest.param("weights", marks=pytest.mark.slow),
                                  pytest.param("features", marks=pytest.mark.slow)])
def test_the_weights_undo_the_bias(kind):
    """Over many subgraphs, the weighted loss and the weighted sums of neighbours average to the whole graph's."""
    graph = random_graph(30, 90)
    weight, features = graph.edges, np.ones((90, 2), np.float32)
    graph = graph.replace(edges={"none": None, "weights": weight, "features": features,
                                 "both": {"weight": weight, "features": features}}[kind])
    sampler = RandomWalkSampler(graph, roots=3, length=2, coverage=600, seed=1)
    loss, means, sums, times = np.random.default_rng(0).uniform(1, 2, 30), [], np.zeros(30), np.zeros(30)
    for i in range(1500):
        block = sampler.at(0, i)
        means.append(np.sum(block.loss_weight * loss[block.ids]))
        assert (block.loss_weight[int(block.graph.n_node[0]):] == 0).all()
        e, n = int(block.graph.n_edge[0]), int(block.graph.n_node[0])
        messages = block.graph.weight[:e] * graph.nodes[block.ids[block.graph.senders[:e]]]
        np.add.at(sums, block.ids[block.graph.receivers[:e]], messages)
        times[block.ids[:n]] += 1
        assert (kind in ("features", "both")) == (block.graph.edge_features is not None)
    # Five deviations of the mean of 1500, and 2 % for the error of the estimates (600 visits of a node on average).
    assert abs(np.mean(means) - loss.mean()) < 5 * np.std(means) / np.sqrt(1500) + 0.02 * loss.mean()
    expected = np.zeros(30)
    own = np.ones(90) if graph.weight is None else graph.weight
    np.add.at(expected, graph.receivers, own * graph.nodes[graph.senders])
    result = sums / np.maximum(times, 1)
    assert np.abs(result - expected)[times > 0].sum() / expected[times > 0].sum() < 0.05


def test_weights_are_finite_for_nodes_that_no_estimate_saw():
    star = Graph.from_edges(np.arange(1, 2000), np.zeros(1999, int))
    sampler = RandomWalkSampler(star, roots=2, length=1, coverage=0.01)
    block = sampler.at(0, 0)
    assert np.isfinite(block.loss_weight).all() and np.isfinite(block.graph.edges).all()
    empty = RandomWalkSampler(Graph.from_edges([], [], n_nodes=3), roots=2, length=2)
    assert empty.at(0, 0).graph.n_edge.tolist() == [0, 0]


@pytest.mark.parametrize("arguments", [{"roots": 0, "length": 1}, {"roots": 1, "length": -1}])
def test_errors_of_walks(arguments):
    with pytest.raises(ValueError, match="fix: "):
        RandomWalkSampler(random_graph(), **arguments)
