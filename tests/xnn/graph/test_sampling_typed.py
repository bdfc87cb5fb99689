"""Sampling of graphs with types."""

import numpy as np
import pytest

import xjax
from tests.compare import assert_same
from tests.refusals import assert_refused
from tests.xnn.drawn_params import traced_init
from xnn.graph import GraphSAGE, HeteroConvolution
from xnn.graph.samplers.prefetching import prefetch
from xnn.graph.samplers.sampling import SeedBatches
from xnn.graph.samplers.typed_sampling import TypedSampler

WRITES, CITES, WRITTEN = ("author", "writes", "paper"), ("paper", "cites", "paper"), ("paper", "by", "author")
SIZES = {"author": 30, "paper": 50, "venue": 4}


def relations(seed=0):
    npr = np.random.default_rng(seed)
    author, paper = npr.integers(0, 30, 200), npr.integers(0, 50, 200)
    return {WRITES: (author, paper), CITES: (npr.integers(0, 50, 300), npr.integers(0, 49, 300)),
            WRITTEN: (paper, author)}


def real(block, relation):
    """(senders, receivers) of the real edges, in the ids of the whole graph."""
    (source, _, target), mask = relation, block.edge_mask[relation]
    senders, receivers = block.edges[relation]
    return block.ids[source][senders[mask]], block.ids[target][receivers[mask]]


@pytest.mark.parametrize("replace", [False, True])
def test_edges_are_edges_of_their_relation(replace):
    given = relations()
    features = {"author": np.arange(30.0), "paper": {"a": np.arange(50) * 2, "b": np.ones((50, 3), np.float32)}}
    sampler = TypedSampler(given, SIZES, (4, 3), replace=replace, features=features, batch_size=6)
    seeds = np.array([49, 3, 7, 3])
    block = sampler.sample("paper", seeds)
    np.testing.assert_array_equal(block.ids["paper"][block.seeds[:4]], seeds)
    assert block.ids["paper"][:3].tolist() == [49, 3, 7] and block.seed_mask.tolist() == [True] * 4 + [False] * 2
    bound_nodes, bound_edges = sampler.bound("paper", 6)
    for kind, mask in block.node_mask.items():
        assert len(mask) == bound_nodes[kind] and not mask[-1]
        ids = block.ids[kind][mask]
        assert len(set(ids.tolist())) == len(ids)
    for relation, (senders, receivers) in given.items():
        mask, pairs = block.edge_mask[relation], real(block, relation)
        assert len(mask) == bound_edges[relation]
        at = block.edge_ids[relation][mask]
        np.testing.assert_array_equal(np.stack([senders[at], receivers[at]]), np.stack(pairs))
        assert replace or len(set(at.tolist())) == len(at)
        rows, target = block.edges[relation][1], block.node_mask[relation[2]]
        assert (np.diff(rows) >= 0).all() and not target[rows[~mask]].any()
        np.testing.assert_array_equal(block.by_sender[relation], np.argsort(block.edges[relation][0], kind="stable"))
        for seed in {49, 3, 7} if relation[2] == "paper" else ():
            degree = np.sum(receivers == seed)
            assert np.sum(pairs[1] == seed) == ((4 if degree else 0) if replace else min(4, degree))
    np.testing.assert_array_equal(block.nodes["author"], np.where(block.node_mask["author"], block.ids["author"], 0))
    np.testing.assert_array_equal(block.nodes["paper"]["a"], block.ids["paper"] * 2)
    assert "venue" not in block.nodes and not block.node_mask["venue"].any()


def test_fan_outs_of_relations():
    sampler = TypedSampler(relations(), SIZES, {WRITES: (None, 1), CITES: (2,)})
    block = sampler.sample("paper", [1, 2])
    assert WRITTEN not in block.edges
    author, paper = relations()[WRITES]
    pairs = real(block, WRITES)
    for seed in (1, 2):
        assert sorted(pairs[0][pairs[1] == seed].tolist()) == sorted(author[paper == seed].tolist())
    cited = set(real(block, CITES)[0].tolist()) - {1, 2}
    assert set(pairs[1].tolist()) - {1, 2} <= cited                                  # the second hop, one author each
    assert set(real(block, CITES)[1].tolist()) <= {1, 2}


def test_a_function_of_seed_epoch_and_index_in_any_thread():
    sampler = TypedSampler(relations(), SIZES, (2, 2), seed=3)
    alone = [sampler.sample("author", [i], index=i) for i in range(12)]
    fetched = prefetch(lambda i: sampler.sample("author", [i], index=i), range(12), threads=4, ahead=12)
    assert_same(list(fetched), alone, tol=0)
    others = [TypedSampler(relations(), SIZES, (2, 2), seed=seed).sample("author", [0], epoch=epoch, index=index)
              for seed, epoch, index in [(3, 0, 0), (4, 0, 0), (3, 1, 0), (3, 0, 1)]]
    assert len({str(block.edge_ids) for block in others}) == 4


def test_one_type_is_the_untyped_sampler_with_all_neighbours():
    npr = np.random.default_rng(1)
    ends = npr.integers(0, 20, 60), npr.integers(0, 20, 60)
    block = TypedSampler({("n", "to", "n"): ends}, {"n": 20}, (None, None)).sample("n", [4])
    first = set(ends[0][ends[1] == 4].tolist()) | {4}
    inside = np.isin(ends[1], list(first))
    assert sorted(block.edge_ids["n", "to", "n"][block.edge_mask["n", "to", "n"]]) == np.flatnonzero(inside).tolist()


def test_learnt_sizes_and_batches():
    sampler = TypedSampler(relations(), SIZES, (2, 2), batch_size=3).fitted("paper", np.arange(50))
    batches = SeedBatches(sampler.of("paper"), np.arange(50), threads=2)
    blocks = list(batches.epoch(4))
    assert len(blocks) == len(batches) == 17
    assert sorted(np.concatenate([b.ids["paper"][b.seeds[b.seed_mask]] for b in blocks]).tolist()) == list(range(50))
    assert_same(blocks[5], batches.at(4, 5), tol=0)
    bound_nodes, bound_edges = sampler.bound("paper", 3)
    assert len({tuple(map(len, block.ids.values())) for block in blocks}) <= 2
    for block in blocks:
        assert all(len(x) <= bound_edges[relation] for relation, x in block.edge_mask.items())
        assert all(len(x) <= bound_nodes[kind] for kind, x in block.ids.items())
    few = TypedSampler({CITES: (np.arange(1, 50), np.zeros(49, int))}, SIZES, (None,), batch_size=1)
    small = few.fitted("paper", [5, 6])
    assert len(small.sample("paper", [5]).edge_ids[CITES]) == 0
    assert small.sample("paper", [0]).edge_mask[CITES].sum() == 49  # more than in the batches that set the sizes


def test_a_block_is_a_graph_of_several_types():
    features = {"author": np.ones((30, 4), np.float32), "paper": np.arange(200, dtype=np.float32).reshape(50, 4)}
    block = TypedSampler(relations(), SIZES, (3, 2), features=features, batch_size=4).sample("paper", [4, 9])
    graph = block.graph
    assert graph.mask.tolist() == [True, False] and graph.nodes["venue"].shape[1] == 0
    alone = graph.unbatch()
    assert len(alone) == 1
    for kind, mask in block.node_mask.items():
        assert alone[0].n_nodes(kind) == mask.sum()
    for relation, edges in alone[0].relations.items():
        senders, receivers = real(block, relation)
        np.testing.assert_array_equal(block.ids[relation[0]][edges.senders], senders)
        np.testing.assert_array_equal(block.ids[relation[2]][edges.receivers], receivers)
    layer = HeteroConvolution({WRITES: GraphSAGE(3), CITES: GraphSAGE(3)})
    _, params = traced_init(layer, {kind: (-1, 4) for kind in features})
    apply = xjax.jit(lambda params, nodes, block: layer.apply(params, nodes, block.graph.replace(nodes=nodes)))
    y = apply(params, {kind: block.nodes[kind] for kind in features}, block)["paper"]
    want = xjax.jit(layer.apply)(params, {kind: alone[0].nodes[kind] for kind in features}, alone[0])["paper"]
    np.testing.assert_allclose(np.asarray(y)[:len(want)], want, rtol=1e-5)


def test_nothing_to_sample():
    block = TypedSampler(relations(), SIZES, (2,), batch_size=2).sample("venue", [])
    assert not any(mask.any() for mask in (*block.node_mask.values(), *block.edge_mask.values(), block.seed_mask))
    assert TypedSampler({}, SIZES).sample("venue", [2]).ids["venue"].tolist() == [2, 0]


@pytest.mark.parametrize(("call", "text"), [
    (lambda: TypedSampler({("a", "b"): ([0], [0])}, {"a": 1}), "two types of nodes and a name"),
    (lambda: TypedSampler({("a", "to", "b"): ([0], [0])}, {"a": 1}), "two types of nodes and a name"),
    (lambda: TypedSampler({("a", "to", "a"): ([0], [1])}, {"a": 1}), "is out of range"),
    (lambda: TypedSampler({("a", "to", "a"): ([0, 0], [0])}, {"a": 1}), "two ends"),
    (lambda: TypedSampler(relations(), SIZES, {("x", "y", "z"): (1,)}), "unknown relation"),
    (lambda: TypedSampler(relations(), SIZES, (0,)), "fan_out needs"),
    (lambda: TypedSampler(relations(), SIZES, (None,), replace=True), "needs a number"),
    (lambda: TypedSampler(relations(), SIZES).sample("papers", [1]), "no type 'papers'"),
    (lambda: TypedSampler(relations(), SIZES).sample("paper", [50]), "is out of range"),
    (lambda: TypedSampler(relations(), SIZES, batch_size=1).sample("paper", [1, 2]), "more seeds"),
])
def test_errors(call, text):
    assert_refused(call, ValueError, text)
