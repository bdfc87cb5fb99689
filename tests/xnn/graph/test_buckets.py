"""Static sizes for batches: their number, their cost in padding, and that each epoch has every graph once."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xjax
import xnn.graph as xg
from tests.refusals import assert_refused
from tests.sampling import each_once
from tests.xnn.graph.drawn import triples
from xnn.graph import Graph
from xnn.graph.host.generators import molecules
from xnn.graph.structure.bucketing import Bucket, GraphBatches, buckets, pad_to_bucket


def graphs_of(sizes, density, seed=0):
    """Graphs of these numbers of nodes, with a number of edges per node; `globals` is the position."""
    npr = np.random.default_rng(seed)
    counts = (sizes * density).astype(int)
    return [Graph.from_edges(*npr.integers(0, n, (2, e)), globals=np.int32(i), n_nodes=int(n))
            for i, (n, e) in enumerate(zip(sizes, counts, strict=True))]


def sizes_of(name, npr, count=1000):
    return {"equal": np.full(count, 20),
            "uniform": npr.integers(5, 100, count),
            "two sizes": np.where(npr.random(count) < 0.02, 5000, 10),
            "log-normal": np.maximum(np.exp(npr.normal(3, 1.5, count)), 2).astype(int),
            "Pareto 1.5": np.minimum(10 * (1 + npr.pareto(1.5, count)), 5000).astype(int),
            "Pareto 1": np.minimum(10 * (1 + npr.pareto(1.0, count)), 10000).astype(int)}[name]


@pytest.mark.parametrize(("name", "density"), each_once(
    ["equal", "uniform", "two sizes", "log-normal", "Pareto 1.5", "Pareto 1"], ["equal density", "any density"]))
def test_four_programs_and_little_padding(npr, name, density):
    """1,000 graphs in batches of 32; the sizes are chosen without some of the epochs."""
    sizes = sizes_of(name, npr)
    graphs = graphs_of(sizes, npr.uniform(0.5, 8, 1000) if density == "any density" else 3)
    batches = GraphBatches(graphs, batch_size=32, seed=1)
    assert len(batches) == 32
    shapes, total, real = set(), np.zeros(2), np.zeros(2)
    for epoch in (0, 1, 50):
        seen = []
        for graph in batches.epoch(epoch):
            shapes.add((graph.n_nodes, graph.n_edges, graph.n_graphs))
            total += graph.n_nodes, graph.n_edges
            real += graph.n_node[graph.mask].sum(), graph.n_edge[graph.mask].sum()
            assert graph.mask.sum() in (31, 32)
            seen += graph.globals[graph.mask].tolist()
        assert sorted(seen) == list(range(1000))
    assert len(shapes) <= 4 and shapes <= set(batches.buckets)
    assert (1 - real / total).max() < 0.3
    if name in ("equal", "uniform") and density == "equal density":
        assert (1 - real / total).max() < 0.05


def test_a_program_is_compiled_for_each_size(npr):
    traced = []

    @xjax.jit
    def count(graph):
        traced.append(graph.n_nodes)
        return graph.node_mask.sum(), graph.mask.sum()

    graphs = [graph.replace(nodes=np.zeros((graph.n_nodes, 1))) for graph in graphs_of(npr.integers(3, 30, 60), 2)]
    batches = GraphBatches(graphs, 8, seed=3)
    for epoch in range(3):
        nodes, edges = zip(*map(count, batches.epoch(epoch)), strict=True)
        assert sum(map(int, nodes)) == sum(graph.n_nodes for graph in graphs) and sum(map(int, edges)) == 60
    assert len(traced) <= 4


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=40), st.integers(1, 12), st.integers(0, 100),
       st.integers(1, 4))
def test_any_data_set(sizes, batch_size, epoch, count):
    """Every epoch fits, and has each graph once, in batches of nearly equal sizes."""
    graphs = graphs_of(np.array(sizes), 1.5)
    batches = GraphBatches(graphs, batch_size, seed=5, count=count)
    order = batches.order(epoch)
    assert len(order) == len(batches) and sorted(np.concatenate(order)) == list(range(len(sizes)))
    assert max(map(len, order)) <= batch_size and max(map(len, order)) - min(map(len, order)) <= 1
    assert len(batches.buckets) <= count
    for ids, graph in zip(order, batches.epoch(epoch), strict=True):
        assert [triples(one) for one in xg.unbatch(graph)] == [triples(graphs[i]) for i in ids]


def test_the_order_is_a_function_of_seed_and_epoch(npr):
    graphs = graphs_of(npr.integers(3, 30, 100), 2)
    flat = lambda seed, epoch: np.concatenate(GraphBatches(graphs, 10, seed=seed).order(epoch)).tolist()
    assert flat(0, 3) == flat(0, 3)
    assert len({tuple(flat(seed, epoch)) for seed in (0, 1) for epoch in (0, 1)}) == 4


def test_a_batch_is_a_data_set(npr):
    graphs = graphs_of(npr.integers(3, 30, 50), 2)
    one, other = GraphBatches(graphs, 8), GraphBatches(xg.batch(graphs), 8)
    assert one.buckets == other.buckets
    for a, b in zip(one.epoch(3), other.epoch(3), strict=True):
        assert triples(a) == triples(b)


def padding(sizes, sizes_of_buckets):
    """The nodes and edges of padding, each relative to the sum."""
    fits = [[size for size in sizes_of_buckets if (np.array(size[:2]) >= (n + 1, e)).all()] for n, e in sizes]
    taken = np.array([min(some, key=lambda size: size[0] + size[1])[:2] for some in fits]) - [1, 0]
    return (taken.sum(0) / np.maximum(np.sum(sizes, 0), 1)).sum()


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(1, 50), min_size=1, max_size=9), st.integers(1, 4))
def test_the_sizes_are_the_best(nodes, count):
    """The best of all choices, to 2 % of nodes and of edges, for batches whose edges grow with their nodes."""
    sizes = np.array([(n, 2 * n) for n in nodes])
    sizes_of_buckets = buckets(sizes, count)
    assert len(sizes_of_buckets) <= count and list(sizes_of_buckets) == sorted(sizes_of_buckets)
    largest = max(nodes)
    choices = [[*some, largest] for some in combinations(set(nodes), min(count, len(set(nodes))) - 1)]
    best = min(padding(sizes, [Bucket(n + 1, 2 * n, 2) for n in some]) for some in choices)
    assert padding(sizes, sizes_of_buckets) <= best + 0.04 + 1e-9


def test_no_more_sizes_than_are_worth_a_compilation():
    assert len(buckets([(n, 2 * n) for n in range(1000, 1010)])) == 1
    assert len(buckets([(10, 20)] * 50 + [(20, 40)] * 50)) == 2
    assert len(GraphBatches(molecules(300)[0], 32).buckets) == 1


def test_many_sizes(npr):
    sizes = np.stack([npr.integers(10, 1000, 20_000), npr.integers(10, 5000, 20_000), npr.integers(1, 9, 20_000)], 1)
    sizes_of_buckets = buckets(sizes)
    assert 2 <= len(sizes_of_buckets) <= 4 and sizes_of_buckets[-1] == tuple(sizes.max(0) + [1, 0, 1])


def test_pad_to_bucket():
    graph = Graph.from_edges([0, 1], [1, 0])
    room = [Bucket(3, 1, 2), Bucket(9, 9, 2), Bucket(3, 4, 2), Bucket(3, 4, 1)]
    padded = pad_to_bucket(graph, room)
    assert (padded.n_nodes, padded.n_edges, padded.n_graphs) == (3, 4, 2)
    assert buckets([(2, 0), (3, 0)], 1) == (Bucket(4, 0, 2),)


ONE = Graph.from_edges([0], [1])
WRONG = {
    "sizes": (lambda: buckets(np.ones((3, 2))), ValueError, ["graph.buckets", "f64[3,2]"]),
    "none": (lambda: buckets(np.zeros((0, 2), int)), ValueError, ["sizes of at least one batch"]),
    "count": (lambda: buckets([(1, 2)], 0), ValueError, ["count"]),
    "no room": (lambda: pad_to_bucket(ONE, [Bucket(2, 5, 5)]), ValueError, ["no bucket has room", "(2, 5, 5)"]),
    "no graphs": (lambda: GraphBatches([], 4), ValueError, ["graph.batch", "no graph to join"]),
    "padding": (lambda: GraphBatches(xg.pad(ONE, 4, 4), 2), ValueError, ["GraphBatches", "padding"]),
    "batch_size": (lambda: GraphBatches([ONE], 0), ValueError, ["batch_size"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls(name):
    assert_refused(*WRONG[name])
