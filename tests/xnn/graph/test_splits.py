"""Splits of nodes, edges and events: sizes, disjointness, no leaks, and dependence on the seed alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xnn.graph as xg
from tests.refusals import assert_refused
from tests.xnn.graph.drawn import graphs, triples
from xnn.graph import Graph
from xnn.graph.host.generators import erdos_renyi, planted_partition
from xnn.graph.host.splits import negative_edges, pairs_of_codes, split_by_time, split_edges, split_nodes
from xnn.graph.host.transforms import is_undirected, to_undirected

quick = settings(deadline=None, max_examples=40)


def sizes(split):
    assert not np.any(split.train & split.val) and not np.any((split.train | split.val) & split.test)
    return [int(part.sum()) for part in split]


# -- nodes -----------------------------------------------------------------------------------------------------------


def test_the_split_of_planetoid(npr):
    labels = npr.integers(0, 7, 2708)
    split = split_nodes(labels)
    assert sizes(split) == [140, 500, 1000]
    assert np.bincount(labels[split.train]).tolist() == [20] * 7
    counts = np.bincount(labels[split.test], minlength=7) / np.bincount(labels, minlength=7)
    assert counts.min() > 0.25                                       # drawn from all classes: 37 % on average


def test_the_seed_decides_alone(npr):
    labels = npr.integers(0, 3, 300)
    for options in ({"val": 50, "test": 100}, {"train": 0.5, "val": 0.2, "test": 0.3}, {"stratified": False}):
        options = {"val": 50, "test": 100, **options}
        one, same, other = (split_nodes(labels, seed=seed, **options) for seed in (1, 1, 2))
        assert all(map(np.array_equal, one, same)) and not np.array_equal(one.train, other.train)


@quick
@given(st.lists(st.integers(-1, 3), min_size=1, max_size=60), st.integers(0, 5))
def test_fractions_of_each_class(labels, seed):
    labels = np.array(labels)
    split = split_nodes(labels, 0.6, 0.2, 0.2, seed=seed)
    sizes(split)
    assert np.array_equal(split.train | split.val | split.test, labels >= 0)      # no node is left out
    for c in range(4):
        n = (labels == c).sum()
        assert abs(split.train[labels == c].sum() - 0.6 * n) <= 0.5
        assert abs(split.test[labels == c].sum() - 0.2 * n) <= 1


def test_numbers_and_what_remains():
    assert sizes(split_nodes(100, 50, 20, 30, stratified=False)) == [50, 20, 30]
    assert sizes(split_nodes(100, 0.5, 0.25, None, stratified=False)) == [50, 25, 25]
    assert sizes(split_nodes(100, 10, None, 30, stratified=False)) == [10, 60, 30]
    labels = np.arange(100) % 4
    assert sizes(split_nodes(labels, 5, None, 30)) == [20, 50, 30]
    unknown = np.where(np.arange(100) < 50, labels, -1)
    split = split_nodes(unknown, 5, 10, None)
    assert sizes(split) == [20, 10, 20] and not (split.train | split.val | split.test)[50:].any()


# -- events ------------------------------------------------------------------------------------------------------------


@quick
@given(st.lists(st.integers(0, 9), max_size=40), st.sampled_from([0, 0.1, 0.3]), st.sampled_from([0, 0.15, 0.5]))
def test_time(times, val, test):
    times = np.array(times, np.int64)
    split = split_by_time(times, val, test)
    got = sizes(split)
    assert sum(got) == len(times) and got[2] <= round(len(times) * test)
    parts = [times[part] for part in split if part.any()]
    assert all(one.max() < other.min() for one, other in zip(parts, parts[1:], strict=False))


def test_time_without_ties():
    split = split_by_time(np.random.default_rng(0).permutation(100) / 7.0)
    assert sizes(split) == [70, 15, 15]


# -- edges -------------------------------------------------------------------------------------------------------------


def codes(pairs):
    return set(map(tuple, np.asarray(pairs).tolist()))


@quick
@given(graphs(max_nodes=7, min_nodes=1), st.booleans(), st.integers(0, 3), st.sampled_from([0.0, 0.2]))
def test_edges(graph, undirected, seed, negatives):
    graph = to_undirected(graph) if undirected else graph
    split = split_edges(graph, 0.2, 0.3, seed=seed, undirected=undirected, negatives=negatives)
    all_pairs = {(s, r) for s, r, *_ in triples(graph) if s != r and (s < r or not undirected)}
    parts = [codes(part.positive) for part in split[1:]]
    assert sum(map(len, parts)) == len(all_pairs) and set().union(*parts) == all_pairs
    assert [len(part.positive) for part in split[2:]] == [round(0.2 * len(all_pairs)), round(0.3 * len(all_pairs))]
    held = parts[1] | parts[2]
    held |= {(r, s) for s, r in held} if undirected else set()
    assert triples(split.graph) == [edge for edge in triples(graph) if edge[:2] not in held]
    assert not undirected or is_undirected(split.graph)
    drawn = [codes(part.negative) for part in split[1:]]
    assert [len(part.negative) for part in split[1:]] == [round(negatives * len(part.positive)) for part in split[1:]]
    assert sum(map(len, drawn)) == len(set().union(*drawn))
    assert not set().union(*drawn) & {edge[:2] for edge in triples(graph)}


def test_edges_of_a_larger_graph():
    graph = planted_partition(2000, 4, seed=2)[0]
    split = split_edges(graph)
    again, other = split_edges(graph), split_edges(graph, seed=1)
    n = graph.n_edges // 2
    assert len(split.val.positive) == len(split.val.negative) == round(0.05 * n)
    assert split.graph.n_edges == graph.n_edges - 2 * len(split.val.positive) - 2 * len(split.test.positive)
    assert np.array_equal(split.test.negative, again.test.negative)
    assert not np.array_equal(split.test.positive, other.test.positive)
    assert split_edges(graph, 10, 20).test.positive.shape == (20, 2)


@quick
@given(graphs(max_nodes=6), st.booleans(), st.integers(0, 5))
def test_negative_edges_are_all_that_there_are(graph, undirected, seed):
    n, there = graph.n_nodes, {edge[:2] for edge in triples(graph)}
    there |= {(r, s) for s, r in there} if undirected else set()
    free = {(i, j) for i in range(n) for j in range(n)
            if (i < j if undirected else i != j) and (i, j) not in there}
    drawn = negative_edges(graph, len(free), seed, undirected=undirected)
    assert drawn.dtype == np.int32 and len(drawn) == len(free) and codes(drawn) == free
    with pytest.raises(ValueError, match="not enough pairs without an edge"):
        negative_edges(graph, len(free) + 1, undirected=undirected)


def test_negative_edges_are_equally_likely():
    graph = Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 0])             # 8 pairs are left
    rng = np.random.default_rng(0)
    drawn = np.concatenate([negative_edges(graph, 2, rng) for _ in range(2000)])
    counts = np.unique(drawn[:, 0] * 4 + drawn[:, 1], return_counts=True)[1]
    assert len(counts) == 8 and np.abs(counts - 500).max() < 5 * 500**0.5


def test_pairs_of_a_large_graph_have_numbers_without_rounding():
    n = 2_000_000_000
    for undirected, last in ((True, n * (n - 1) // 2 - 1), (False, n * (n - 1) - 1)):
        got = pairs_of_codes(np.array([0, last, last - 1]), n, undirected).tolist()
        assert got == ([[0, 1], [n - 2, n - 1], [n - 3, n - 1]] if undirected else
                       [[0, 1], [n - 1, n - 2], [n - 1, n - 3]])
    every = pairs_of_codes(np.arange(5000), 200, True)
    assert (every[:, 0] < every[:, 1]).all() and len(codes(every)) == 5000
    sparse = Graph.from_edges([0], [1], n_nodes=1_000_000)
    assert len(codes(negative_edges(sparse, 1000, undirected=True))) == 1000


# -- errors ------------------------------------------------------------------------------------------------------------


ONE, LABELS = erdos_renyi(6, 0.5), np.arange(30) % 3
WRONG = {
    "no labels": (lambda: split_nodes(100), ValueError, ["split_nodes", "class of each node", "stratified=False"]),
    "float labels": (lambda: split_nodes(np.ones(9)), ValueError, ["f64[9]"]),
    "small class": (lambda: split_nodes(LABELS, 11, 1, 1), ValueError, ["11 of each class", "10"]),
    "too many": (lambda: split_nodes(LABELS, 5, 10, 10), ValueError, ["not enough rows for the sets", "15"]),
    "mixed": (lambda: split_nodes(LABELS, 5, 0.1, 10), ValueError, ["mix counts and fractions"]),
    "all remain": (lambda: split_nodes(30, 5, None, None, stratified=False), ValueError, ["only one set"]),
    "above one": (lambda: split_nodes(30, 0.5, 0.5, 0.5, stratified=False), ValueError, ["not enough rows"]),
    "negative": (lambda: split_nodes(30, 5, -1, 3, stratified=False), ValueError, ["not enough rows for the sets"]),
    "times": (lambda: split_by_time(np.ones((2, 2))), ValueError, ["split_by_time", "f64[2,2]"]),
    "fractions": (lambda: split_by_time(np.ones(2), 0.6, 0.6), ValueError, ["0.6, 0.6"]),
    "directed": (lambda: split_edges(Graph.from_edges([0], [1])), ValueError, ["directed", "undirected=False"]),
    "batch": (lambda: split_edges(xg.batch([ONE, ONE])), ValueError, ["takes one graph", "unbatch"]),
    "padding": (lambda: negative_edges(xg.pad(ONE, 9, 90), 1), ValueError, ["padding"]),
    "edges": (lambda: split_edges(ONE, 0.7, 0.7), ValueError, ["split_edges", "not enough rows for the sets"]),
    "negatives": (lambda: split_edges(ONE, negatives=9.0), ValueError, ["negative_edges", "a smaller count"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls(name):
    assert_refused(*WRONG[name])
