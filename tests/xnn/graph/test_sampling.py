"""Neighbour sampling: the content of a block, the distribution of samples, order, padding, threads and errors."""

import resource
import threading
import time

import numpy as np
import pytest
from scipy import stats

import xjax
import xjax.numpy as jnp
from tests.compare import assert_close, assert_same
from tests.refusals import assert_refused
from tests.xnn.drawn_params import traced_init
from xnn import GraphConvolution, Relu, serial
from xnn.graph import Graph, batch
from xnn.graph.samplers.blocks import ascending
from xnn.graph.samplers.prefetching import prefetch
from xnn.graph.samplers.sampling import NeighbourSampler, SeedBatches, subsets
from xnn.graph.samplers.typed_sampling import TypedSampler

# A chi-square test of a correct sampler fails with this probability; seeds are fixed, so a failure means a change.
CHANCE = 1e-4


def random_graph(n=60, e=400, seed=0, **features):
    """A multigraph: edges may be equal. Edge k has the feature k, node i the features [i, -i]."""
    npr = np.random.default_rng(seed)
    senders, receivers = npr.integers(0, n, e), npr.integers(0, n - 1, e)            # the last node receives none
    ids = np.arange(n, dtype=np.float32)
    edges = np.arange(e, dtype=np.float32)
    return Graph.from_edges(senders, receivers, np.stack([ids, -ids], 1), edges), senders, receivers


def star(degree):
    """Node 0 receives from 1 .. degree."""
    return Graph.from_edges(np.arange(1, degree + 1), np.zeros(degree, int))


def real(block):
    """(senders, receivers) of the real edges, in the ids of the whole graph."""
    e = int(block.graph.n_edge[0])
    return block.ids[block.graph.senders[:e]], block.ids[block.graph.receivers[:e]]


# ---- the content of a block --------------------------------------------------------------------------------------


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("fan_out", [(3,), (15, 10), (2, 2, 2), (100, 1)])
def test_edges_are_edges_of_the_graph(replace, fan_out):
    graph, senders, receivers = random_graph()
    seeds = np.array([5, 59, 0, 17])
    block = NeighbourSampler(graph, fan_out, replace=replace).sample(seeds)
    n, e = int(block.graph.n_node[0]), int(block.graph.n_edge[0])
    ids = block.ids[:n]
    assert len(set(ids.tolist())) == n
    np.testing.assert_array_equal(ids[:4], seeds)
    np.testing.assert_array_equal(block.ids[block.seeds], seeds)
    s, r = real(block)
    edge = block.graph.edges[:e].astype(int)
    np.testing.assert_array_equal(senders[edge], s)
    np.testing.assert_array_equal(receivers[edge], r)
    np.testing.assert_array_equal(block.graph.nodes[:n], np.stack([ids, -ids], 1))
    assert replace or len(set(edge.tolist())) == e                                   # without replacement: each once
    degree = np.bincount(receivers, minlength=60)
    most = fan_out[0]
    for seed in seeds:
        wanted = (most if degree[seed] else 0) if replace else min(most, degree[seed])
        assert np.sum(r == seed) == wanted
    assert block.graph.receivers[:e].tolist() == sorted(block.graph.receivers[:e])
    np.testing.assert_array_equal(block.graph.by_sender, np.argsort(block.graph.senders, kind="stable"))


def test_every_node_is_expanded_once_where_it_is_first_reached():
    chain = Graph.from_edges([1, 2, 3, 4, 0], [0, 1, 2, 3, 1])
    block = NeighbourSampler(chain, (5, 5)).sample([0])
    assert block.ids[:int(block.graph.n_node[0])].tolist() == [0, 1, 2]
    assert sorted(zip(*map(np.ndarray.tolist, real(block)), strict=True)) == [(0, 1), (1, 0), (2, 1)]


def test_all_neighbours_give_the_value_of_the_whole_graph():
    graph, _, _ = random_graph()
    seeds = np.array([3, 7])
    block = NeighbourSampler(graph, (None, None)).sample(seeds)

    def two_sums(graph):
        x = jnp.asarray(graph.nodes)
        for _ in range(2):
            x = x + jnp.zeros_like(x).at[graph.receivers].add(x[graph.senders] * graph.edges[:, None])
        return x

    np.testing.assert_allclose(two_sums(block.graph)[block.seeds], two_sums(graph)[seeds], rtol=1e-6)


def test_isolated_nodes_empty_seeds_and_graphs():
    graph, _, _ = random_graph()
    lonely = NeighbourSampler(graph, (4, 4)).sample([59])
    assert lonely.graph.n_edge.tolist() == [0, lonely.graph.n_edges] and lonely.graph.n_node[0] == 1
    none = NeighbourSampler(graph, (4, 4), batch_size=3).sample([])
    assert none.graph.n_node[0] == 0 and not none.seed_mask.any() and none.seeds.tolist() == [0, 0, 0]
    assert_same(none.graph.nodes, np.zeros_like(none.graph.nodes), tol=0)
    bare = NeighbourSampler(Graph.from_edges([], [], n_nodes=2), (4,)).sample([1])
    assert bare.graph.n_nodes == 2 and bare.graph.n_edges == 0 and bare.ids[0] == 1


def test_a_seed_that_comes_twice_has_one_row():
    graph, _, _ = random_graph()
    block = NeighbourSampler(graph, (4,), batch_size=6).sample([8, 3, 8, 8])
    assert block.seeds.tolist() == [0, 1, 0, 0, 0, 0]
    assert block.seed_mask.tolist() == [True] * 4 + [False] * 2
    assert block.ids[:2].tolist() == [8, 3]


# ---- distribution ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("degree", "count"), [(5, 2), (6, 5), (4, 1), (7, 3)])
def test_all_subsets_are_equally_likely(degree, count):
    draws = 40_000
    chosen = subsets(np.full(draws, degree), count, np.random.default_rng(1))
    assert (np.sort(chosen, 0)[1:] > np.sort(chosen, 0)[:-1]).all()
    code = (1 << chosen).sum(0)
    sets = [sum(1 << i for i in subset) for subset in _subsets(degree, count)]
    counts = np.array([np.sum(code == one) for one in sets])
    assert counts.sum() == draws
    assert stats.chisquare(counts).pvalue > CHANCE


def _subsets(n, k):
    if k == 0:
        return [()]
    return [(*rest, i) for i in range(n) for rest in _subsets(i, k - 1)]


@pytest.mark.parametrize("replace", [False, True])
def test_each_neighbour_is_equally_likely(replace):
    degree, count, draws = 40, 6, 2000
    sampler = NeighbourSampler(star(degree), (count,), replace=replace)
    counts = np.zeros(degree)
    for i in range(draws):
        np.add.at(counts, real(sampler.sample([0], index=i))[0] - 1, 1)
    assert counts.sum() == draws * count
    expected = draws * count / degree
    # Without replacement the counts of a draw depend on each other: their variance is p (1 - p), not p, and the
    # correlation # of two neighbours is -1 / (degree - 1). The sum is 1 - (count - 1) / (degree - 1) times a
    # chi-square.
    statistic = ((counts - expected) ** 2).sum() / expected
    statistic /= 1 if replace else 1 - (count - 1) / (degree - 1)
    assert stats.chi2.sf(statistic, degree - 1) > CHANCE
    assert stats.chi2.cdf(statistic, degree - 1) > CHANCE                            # nor more even than by chance


def test_numbers_from_large_ranges_are_in_range_and_uniform():
    chosen = subsets(np.full(5000, 2 ** 30 + 12345), 8, np.random.default_rng(2))
    assert chosen.min() >= 0 and chosen.max() < 2 ** 30 + 12345
    assert stats.kstest(chosen.ravel() / (2 ** 30 + 12345), "uniform").pvalue > CHANCE


# ---- order -------------------------------------------------------------------------------------------------------


def test_a_block_is_a_function_of_seed_epoch_and_index():
    graph, _, _ = random_graph()
    args = graph, (2, 2)
    first = NeighbourSampler(*args, seed=4).sample([1, 2], epoch=3, index=5)
    used = NeighbourSampler(*args, seed=4)
    for i in range(3):
        used.sample(np.arange(20), epoch=i)
    assert_same(first, used.sample([1, 2], epoch=3, index=5), tol=0)
    edges = [tuple(NeighbourSampler(*args, seed=seed).sample([1, 2], epoch=epoch, index=index).graph.edges)
             for seed, epoch, index in [(4, 3, 5), (5, 3, 5), (4, 4, 5), (4, 3, 6), (4, 3, 0), (4, 0, 3)]]
    assert len(set(edges)) == len(edges)


@pytest.mark.parametrize("threads", [0, 1, 4])
def test_threads_do_not_change_the_batches(threads):
    graph, _, _ = random_graph()
    sampler = NeighbourSampler(graph, (2, 2), batch_size=7, seed=1)
    batches = SeedBatches(sampler, np.arange(50), threads=threads)
    blocks = list(batches.epoch(2))
    assert len(blocks) == len(batches) == 8
    for i, block in enumerate(blocks):
        assert_same(block, SeedBatches(sampler, np.arange(50)).at(2, i), tol=0)
    assert_same(list(batches.epoch(2, start=6)), blocks[6:], tol=0)                                # as after a restart
    seeds = np.concatenate([block.ids[block.seeds][block.seed_mask] for block in blocks])
    assert sorted(seeds.tolist()) == list(range(50)) and seeds.tolist() != list(range(50))
    assert np.concatenate([b.ids[b.seeds] for b in batches.epoch(3)]).tolist() != seeds.tolist()


def test_in_order_and_without_the_last():
    graph, _, _ = random_graph()
    batches = SeedBatches(NeighbourSampler(graph, (2,), batch_size=7), np.arange(50), shuffle=False, drop_last=True)
    assert np.concatenate([b.ids[b.seeds] for b in batches.epoch(0)]).tolist() == list(range(49))
    assert len(batches) == 7


def test_many_threads_share_one_sampler():
    graph, _, _ = random_graph(2000, 30_000)
    sampler = NeighbourSampler(graph, (5, 5), batch_size=64)
    alone = [sampler.sample(np.arange(i, i + 64), index=i) for i in range(24)]
    together = list(prefetch(lambda i: sampler.sample(np.arange(i, i + 64), index=i), range(24), threads=8, ahead=24))
    assert_same(alone, together, tol=0)


# ---- padding -----------------------------------------------------------------------------------------------------


def test_no_block_exceeds_the_bound_and_all_have_one_size():
    graph, _, _ = random_graph(500, 6000)
    for replace in (False, True):
        sampler = NeighbourSampler(graph, (4, 3), batch_size=10, replace=replace)
        assert sampler.bound(10) == (min(10 + 40 + 120, 500) + 1, 160)
        shapes = {(block.graph.n_nodes, block.graph.n_edges, block.graph.nodes.shape, block.ids.shape)
                  for block in SeedBatches(sampler, np.arange(96)).epoch(0)}
        assert shapes == {(171, 160, (171, 2), (171,))}


def test_padding_is_a_graph_of_its_own():
    graph, _, _ = random_graph()
    graph = graph.replace(globals=np.ones((1, 2), np.float32))
    block = NeighbourSampler(graph, (2,), batch_size=4).sample([1, 2])
    n, e = int(block.graph.n_node[0]), int(block.graph.n_edge[0])
    assert block.graph.mask.tolist() == [True, False] and block.graph.globals.tolist() == [[1, 1], [0, 0]]
    assert (block.graph.senders[e:] == n).all() and (block.graph.receivers[e:] == n).all()
    assert not block.graph.nodes[n:].any() and not block.graph.edges[e:].any() and not block.ids[n:].any()
    np.testing.assert_array_equal(block.graph.node_mask, np.arange(block.graph.n_nodes) < n)


def test_a_learnt_size_is_smaller_and_the_bound_catches_the_rest():
    graph, _, _ = random_graph(3000, 9000)
    sampler = NeighbourSampler(graph, (10, 10), batch_size=40)
    fitted = sampler.fitted(np.arange(3000))
    sizes = {(b.graph.n_nodes, b.graph.n_edges) for b in SeedBatches(fitted, np.arange(3000)).epoch(0)}
    learnt = min(sizes)
    assert learnt[0] < sampler.bound(40)[0] / 2 and sizes <= {learnt, sampler.bound(40)}
    one = NeighbourSampler(graph, (10, 10), batch_size=40, sizes=[(500, 600), (41, 0), (3001, 9000)])
    assert one.sample(np.arange(3)).graph.n_nodes == 500
    hub = NeighbourSampler(star(300), (None,), batch_size=2).fitted(np.arange(1, 301))
    assert hub.sample([0]).graph.n_nodes == 301 + 1              # the hub is not among the seeds that set the sizes


def test_one_program_for_all_batches():
    graph, _, _ = random_graph()
    traces = []

    @xjax.jit
    def degree(block):
        traces.append(1)
        return block.graph.degree()[block.seeds]

    for block in SeedBatches(NeighbourSampler(graph, (3, 3), batch_size=8), np.arange(60)).epoch(0):
        s, r = real(block)
        expected = [np.sum(r == i) for i in block.ids[block.seeds]]
        np.testing.assert_array_equal(np.asarray(degree(block))[block.seed_mask], np.array(expected)[block.seed_mask])
    assert len(traces) == 1


def test_order_by_counting():
    keys = np.random.default_rng(0).integers(0, 50, 300).astype(np.int32)
    np.testing.assert_array_equal(ascending(keys, 50), np.argsort(keys, kind="stable"))
    assert len(ascending(keys[:0], 0)) == 0


def test_graphs_whose_edges_are_not_sorted():
    graph, _, _ = random_graph()
    order = np.random.default_rng(3).permutation(graph.n_edges)
    mixed = Graph(graph.nodes, graph.edges[order], graph.senders[order], graph.receivers[order], None, graph.n_node,
                  graph.n_edge)
    block = NeighbourSampler(mixed, (None,)).sample([4, 9])
    expected = NeighbourSampler(graph, (None,)).sample([4, 9])
    assert sorted(block.graph.edges) == sorted(expected.graph.edges)
    s, r = real(block)
    at = {float(w): (a, b) for w, a, b in zip(graph.edges, graph.senders, graph.receivers, strict=True)}
    assert [at[float(w)] for w in block.graph.edges[:len(s)]] == list(zip(s, r, strict=True))


# ---- features in files -------------------------------------------------------------------------------------------


class CountsRows:
    """An array that counts the rows that are read, and raises if it is read as a whole."""

    def __init__(self, x):
        self.x, self.shape, self.dtype, self.rows = x, x.shape, x.dtype, 0

    def __getitem__(self, ids):
        assert isinstance(ids, np.ndarray)
        self.rows += len(ids)
        return self.x[ids]

    def __array__(self, *_, **__):
        raise AssertionError("the whole array is read")


def test_only_rows_of_the_block_are_read():
    graph, _, _ = random_graph()
    counts = CountsRows(np.arange(120, dtype=np.float64).reshape(60, 2))
    sampler = NeighbourSampler(graph.replace(nodes=None), (2, 2), batch_size=4, features={"x": counts})
    assert counts.rows == 0
    block = sampler.sample([1, 2, 3])
    n = int(block.graph.n_node[0])
    assert counts.rows == n
    np.testing.assert_array_equal(block.graph.nodes["x"][:n], counts.x[block.ids[:n]])


def test_a_file_larger_than_the_memory_that_is_used(tmp_path):
    """A few rows of a (sparse) file of 8 GB are mapped: the largest resident size grows by far less."""
    n, width = 20_000, 100_000
    file = tmp_path / "features.f32"
    with file.open("wb") as out:
        out.truncate(n * width * 4)
    seeds = np.arange(50) * 399
    x = np.memmap(file, np.float32, "r+", shape=(n, width))
    x[seeds, 7] = seeds
    x.flush()
    graph = Graph.from_edges(seeds[1:], seeds[:-1], n_nodes=n)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    block = NeighbourSampler(graph, (1,), features=np.memmap(file, np.float32, "r", shape=(n, width))).sample(seeds)
    assert type(block.graph.nodes) is np.ndarray
    np.testing.assert_array_equal(block.graph.nodes[:50, 7], seeds)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 300_000                                       # kB; the rows of block and file are 60 MB


# ---- prefetch ----------------------------------------------------------------------------------------------------


def workers():
    return [thread for thread in threading.enumerate() if thread.name.startswith("prefetch")]


def test_results_come_in_order_and_few_are_ahead():
    begun = []
    results = prefetch(lambda i: begun.append(i) or i, range(20), threads=2, ahead=3)
    assert next(results) == 0
    time.sleep(0.05)
    assert len(begun) <= 5
    assert list(results) == list(range(1, 20))
    assert not workers()


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_an_error_arrives_at_its_place(threads):
    def make(i):
        if i == 3:
            raise KeyError("three")
        return i

    results = prefetch(make, range(6), threads=threads)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(KeyError, match="three"):
        next(results)
    del results
    assert not workers()


def test_a_loop_that_is_left_stops_the_threads():
    done = []
    results = prefetch(lambda i: time.sleep(0.01) or done.append(i), range(1000), threads=2, ahead=4)
    next(results)
    results.close()
    assert not workers() and len(done) < 12
    assert list(prefetch(abs, [])) == []


def test_an_error_in_a_sample_leaves_the_sampler_usable():
    graph, _, _ = random_graph()
    sampler = NeighbourSampler(graph, (2,), batch_size=2, sizes=[(4, 2)])
    before = sampler.sample([59])
    with pytest.raises(ValueError, match="no size is large enough"):
        sampler.sample([1, 2])
    assert_same(before, sampler.sample([59]), tol=0)


# ---- errors ------------------------------------------------------------------------------------------------------

GRAPH = random_graph()[0]
WRONG = {
    "a matrix": (lambda: NeighbourSampler(np.eye(3)), TypeError, "takes one Graph"),
    "a batch": (lambda: NeighbourSampler(batch([GRAPH, GRAPH])), ValueError, "one graph without padding"),
    "features of other nodes": (
        lambda: NeighbourSampler(GRAPH, features=np.zeros((3, 2))), ValueError, "one row for each"),
    "no hops": (lambda: NeighbourSampler(GRAPH, ()), ValueError, "fan_out needs"),
    "a fan-out of 0": (lambda: NeighbourSampler(GRAPH, (3, 0)), ValueError, "fan_out needs"),
    "a number": (lambda: NeighbourSampler(GRAPH, 3), ValueError, "fan_out needs"),
    "all, with replacement": (lambda: NeighbourSampler(GRAPH, (None,), replace=True), ValueError, "needs a number"),
    "a seed that is not a node": (lambda: NeighbourSampler(GRAPH).sample([60]), ValueError, "is out of range"),
    "a negative seed": (lambda: NeighbourSampler(GRAPH).sample([-1]), ValueError, "is out of range"),
    "seeds that are not integers": (lambda: NeighbourSampler(GRAPH).sample([0.5]), TypeError, "vector of integers"),
    "a mask of seeds": (lambda: NeighbourSampler(GRAPH).sample(np.ones(60, bool)), TypeError, "vector of integers"),
    "too many seeds": (lambda: NeighbourSampler(GRAPH, batch_size=2).sample([1, 2, 3]), ValueError, "more seeds than"),
    "a negative epoch": (lambda: NeighbourSampler(GRAPH).sample([1], epoch=-1), ValueError, "must not be negative"),
    "batches without a size": (lambda: SeedBatches(NeighbourSampler(GRAPH), [1]), ValueError, "no batch size"),
    "no threads": (lambda: prefetch(abs, [1], threads=-1), ValueError, "threads >= 0"),
    "a traced graph": (lambda: xjax.jit(lambda g: NeighbourSampler(g).sample([0]).ids)(GRAPH), TypeError, "traced"),
}


@pytest.mark.parametrize("case", WRONG)
def test_errors(case):
    assert_refused(*WRONG[case])


# ---- in a step ---------------------------------------------------------------------------------------------------


def test_values_and_gradients_do_not_depend_on_the_size():
    graph, _, _ = random_graph()
    model = serial(GraphConvolution(5), Relu, GraphConvolution(2))
    _, params = traced_init(model, (-1, 2))

    def loss(params, block):
        y = model.apply(params, block.graph.nodes, block.graph)[block.seeds]
        return jnp.sum(jnp.where(block.seed_mask[:, None], y, 0) ** 2)

    each_result = []
    for n_seeds, size in ((3, None), (3, (300, 500)), (8, (61, 400))):
        sampler = NeighbourSampler(graph, (2, 2), batch_size=n_seeds, sizes=size and [size])
        each_result.append(xjax.jit(xjax.value_and_grad(loss))(params, sampler.sample([4, 9, 59])))
    for other in each_result[1:]:
        assert_close(other, each_result[0], tol=0.25, scale=0)
    assert np.isfinite(each_result[0][0]) and each_result[0][0] > 0


def test_samplers_say_what_they_sample():
    graph = Graph.from_edges([1, 2], [0, 0])
    sampler = NeighbourSampler(graph, (2, 1), replace=True, batch_size=1)
    assert repr(sampler) == "<NeighbourSampler of 3 nodes, 2 edges; fan-out 2, 1 with replacement; 1 seed a batch>"
    batches = SeedBatches(sampler, [0], shuffle=False)
    assert repr(batches) == f"<SeedBatches of 1 seed in order, 1 batch an epoch; {sampler!r}>"
    typed = TypedSampler({("a", "to", "b"): ([0], [0])}, {"a": 1, "b": 2}, (None,), batch_size=4).of("b")
    assert repr(typed) == "<TypedSampler of a 1 node, b 2 nodes; a-to-b 1 edge, fan-out all; 4 seeds a batch>.of('b')"
