"""Splits of nodes, edges and events into sets for training, validation and test; functions of their seed alone."""

from typing import Any, NamedTuple

import numpy as np

from xjax.errors import bad
from xnn.checks import type_text
from xnn.graph.host.transforms import edges_where, is_undirected
from xnn.graph.structure.arrays import host, without_padding
from xnn.graph.structure.graph import Graph


class Split(NamedTuple):
    """Attributes: train, val, test: bool[n], True for what belongs to the set; no row belongs to two."""

    train: np.ndarray
    val: np.ndarray
    test: np.ndarray


class Pairs(NamedTuple):
    """Pairs of nodes that a model of links tells apart.

    Attributes: positive, negative: int32[m, 2], sender and receiver of each pair that is an edge, or is none.
    """

    positive: np.ndarray
    negative: np.ndarray


class EdgeSplit(NamedTuple):
    """Attributes: graph: the graph without the edges of `val` and `test`, for messages; train, val, test: `Pairs`."""

    graph: Graph
    train: Pairs
    val: Pairs
    test: Pairs


def split_nodes(labels: Any, train: float = 20, val: float | None = 500, test: float | None = 1000, *, seed: int = 0,
                stratified: bool = True) -> Split:
    """Sets of nodes, or of graphs, drawn at random; the default is that of Planetoid (Yang et al., 2016).

    Args:
      labels: int[n], the class of each, -1 for unknown ones, which are in no set; or the number of them, if not
        `stratified`.
      train, val, test: how many. Integers are numbers: with `stratified` `train` is that of each class, and `val` and
        `test` are drawn from the rest of all classes together. Floats are fractions of all, or with `stratified` of
        each class. None for one of `val` and `test`: all that remain.
    Raises: ValueError if there are not enough.

    >>> split = split_nodes(np.array([0, 1] * 10), train=2, val=3, test=None)
    >>> [int(part.sum()) for part in split]
    [4, 3, 13]
    """
    caller = "split_nodes"
    labels = np.asarray(host(caller, labels) if hasattr(labels, "shape") else labels)
    if labels.ndim == 0 and not stratified and labels.dtype.kind in "iu":
        labels = np.zeros(int(labels), np.int32)
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise bad(caller, "needs the class of each node", {"labels": type_text(labels), "stratified": stratified},
                  "pass int[n], or the number of nodes and stratified=False.", ValueError)
    known = np.flatnonzero(labels >= 0)
    order = known[np.random.default_rng(seed).permutation(len(known))]
    if not stratified:
        return _sets(len(labels), order, _bounds(caller, len(order), train, val, test))
    kinds = {isinstance(part, float) for part in (train, val, test) if part is not None}
    if len(kinds) > 1:
        raise bad(caller, "mixes numbers and fractions", {"train, val, test": f"{train}, {val}, {test}"},
                  "pass integers, or fractions for all.", ValueError)
    order = order[np.argsort(labels[order], kind="stable")]             # class after class, each in random order
    _, start, size = np.unique(labels[order], return_index=True, return_counts=True)
    if kinds == {True}:
        bounds = [_bounds(caller, int(n), train, val, test) for n in size]
        parts = np.zeros((3, len(labels)), bool)
        for first, n, cut in zip(start, size, bounds, strict=True):     # a class each
            parts |= _sets(len(labels), order[first:first + n], cut)
        return Split(*parts)
    if len(size) and size.min() < train:
        raise bad(caller, "a class has fewer nodes than the training set needs",
                  {"train": f"{train} of each class", "smallest class": int(size.min())},
                  "pass a smaller train=, or a fraction such as 0.6.", ValueError)
    rank = np.arange(len(order)) - np.repeat(start, size)
    rest = np.random.default_rng([seed, 1]).permutation(order[rank >= train])
    chosen = _sets(len(labels), rest, _bounds(caller, len(rest), 0, val, test))
    mask = np.zeros(len(labels), bool)
    mask[order[rank < train]] = True
    return chosen._replace(train=mask)


def split_by_time(times: Any, val: float = 0.15, test: float = 0.15) -> Split:
    """The earliest rows for training, the latest for test; rows of one time are in the same set.

    Args: times: [n], the time of each edge, node or event; val, test: fractions of the rows.

    >>> [part.tolist() for part in split_by_time([3, 1, 2, 2], val=0.25, test=0.25)]
    [[False, True, True, True], [False, False, False, False], [True, False, False, False]]
    """
    times = np.asarray(times)
    if times.ndim != 1 or not 0 <= val + test <= 1 or min(val, test) < 0:
        raise bad("split_by_time", "needs one time for each row, and fractions",
                  {"times": type_text(times), "val, test": f"{val}, {test}"},
                  "pass [n], and fractions of at most 1 together.", ValueError)
    order = np.sort(times)
    n_test, n_later = round(len(times) * test), round(len(times) * (val + test))
    # A set begins with the first time that is later than all of the set before.
    train_end, val_end = len(times) - n_later, len(times) - n_test
    train = times <= order[train_end - 1] if train_end else np.zeros(len(times), bool)
    before_test = times <= order[val_end - 1] if val_end else np.zeros(len(times), bool)
    return Split(train, before_test & ~train, ~before_test & ~train)


def split_edges(graph: Graph, val: float = 0.05, test: float = 0.1, *, seed: int = 0, undirected: bool = True,
                negatives: float = 1.0) -> EdgeSplit:
    """Edges to predict, with as many pairs that are no edges, and the graph of the others (Kipf and Welling, 2016).

    Args:
      graph: one graph.
      val, test: fractions of the edges, or with integers numbers.
      undirected: takes both directions of an edge away together; pairs are then given once.
      negatives: pairs without an edge for each pair with one. None of them is an edge of the whole graph, nor in two
        sets.
    Self loops stay in the graph and are not predicted; a repeated edge is one pair.
    Raises: ValueError for a batch, a directed graph with `undirected`, or more negatives than there are.
    """
    caller = "split_edges"
    graph = _one_graph(caller, graph)
    if undirected and not is_undirected(graph.replace(edges=None)):
        raise bad(caller, "the graph is directed", {"graph": repr(graph)},
                  "pass to_undirected(graph), or undirected=False.", ValueError)
    n = graph.n_nodes
    code = _codes(graph.senders, graph.receivers, n, undirected)
    pairs = np.unique(code[graph.senders != graph.receivers])
    rng = np.random.default_rng(seed)
    sizes = [round(part * len(pairs)) if isinstance(part, float) else part for part in (val, test)]
    bounds = _bounds(caller, len(pairs), 0, *sizes)
    shuffled = rng.permutation(pairs)
    kept = ~np.isin(code, shuffled[:bounds[2]]) | (graph.senders == graph.receivers)
    message = edges_where(graph, kept)
    positive = shuffled[bounds[2]:], shuffled[:bounds[1]], shuffled[bounds[1]:bounds[2]]
    counts = [round(negatives * len(part)) for part in positive]
    negative = np.split(negative_edges(graph, sum(counts), rng, undirected=undirected), np.cumsum(counts)[:-1])
    sets = [Pairs(pairs_of_codes(np.sort(part), n, undirected), other)
            for part, other in zip(positive, negative, strict=True)]
    return EdgeSplit(message, *sets)


def negative_edges(graph: Graph, count: int, rng: Any = 0, *, undirected: bool = False) -> np.ndarray:
    """int32[count, 2]: different pairs (sender, receiver) without an edge, each of them equally likely.

    Args:
      graph: one graph.
      rng: `numpy.random.Generator`, or a seed.
      undirected: a pair means both directions, the smaller node first, and neither is an edge.
    A pair is never a node with itself. No pair is drawn twice, also where few are left.
    Raises: ValueError if there are fewer than `count` such pairs.
    """
    caller = "negative_edges"
    graph = _one_graph(caller, graph)
    n, rng = graph.n_nodes, np.random.default_rng(rng)
    taken = _codes(graph.senders, graph.receivers, n, undirected)[graph.senders != graph.receivers]
    taken = np.unique(taken)
    free = n * (n - 1) // (2 if undirected else 1) - len(taken)
    if not 0 <= count <= free:
        raise bad(caller, "there are not so many pairs without an edge", {"graph": repr(graph), "count": count,
                  "pairs": free}, "ask for fewer.", ValueError)
    rank = rng.choice(free, count, replace=False) if count else np.zeros(0, np.int64)
    # taken[i] - i pairs without an edge come before the i-th edge: so many edges come before each of the ranks.
    return pairs_of_codes(rank + np.searchsorted(taken - np.arange(len(taken)), rank, side="right"), n, undirected)


# -- pairs of nodes as numbers, without those of a node with itself ----------------------------------------------------


def _codes(senders: np.ndarray, receivers: np.ndarray, n: int, undirected: bool) -> np.ndarray:
    one, other = senders.astype(np.int64), receivers.astype(np.int64)
    if undirected:
        one, other = np.minimum(one, other), np.maximum(one, other)
        return other * (other - 1) // 2 + one
    return one * (n - 1) + other - (other > one)


def pairs_of_codes(codes: np.ndarray, n: int, undirected: bool) -> np.ndarray:
    """int32[m, 2]: the inverse of `_codes`: pairs of n nodes by their numbers from 0."""
    if not undirected:
        one, other = np.divmod(codes, max(n - 1, 1))
        return np.stack([one, other + (other >= one)], 1).astype(np.int32)
    other = ((1 + np.sqrt(1 + 8.0 * codes)) // 2).astype(np.int64)
    other += (other * (other + 1) // 2 <= codes).astype(np.int64) - (other * (other - 1) // 2 > codes)   # rounding
    return np.stack([codes - other * (other - 1) // 2, other], 1).astype(np.int32)


def _one_graph(caller: str, graph: Graph) -> Graph:
    graph = without_padding(caller, graph)
    if graph.n_graphs != 1:
        raise bad(caller, "takes one graph", {"graph": repr(graph)}, "call it for each of unbatch(graph).", ValueError)
    return graph


# -- sizes of sets ----------------------------------------------------------------------------------------------------


def _bounds(caller: str, n: int, train: float, val: float | None, test: float | None) -> tuple[int, int, int]:
    """Where each of three sets ends in n rows. Fractions are summed first, so that 0.6, 0.2, 0.2 leave no row out."""
    if val is None and test is None:
        raise bad(caller, "only one set can be what remains", {"val, test": "None"}, "pass one of them.", ValueError)
    ends, total = [], 0.0
    for part in (train, 0 if val is None else val, 0 if test is None else test):
        total += part * n if isinstance(part, float) else part
        ends.append(round(total))
    if val is None:
        ends[1], ends[2] = n - (ends[2] - ends[1]), n
    if test is None:
        ends[2] = n
    if not 0 <= ends[0] <= ends[1] <= ends[2] <= n:
        raise bad(caller, "the sets are larger than what there is",
                  {"there are": n, "train, val, test": f"{train}, {val}, {test}"}, "pass smaller ones.", ValueError)
    return ends[0], ends[1], ends[2]


def _sets(n: int, order: np.ndarray, bounds: tuple[int, int, int]) -> Split:
    masks = np.zeros((3, n), bool)
    for mask, part in zip(masks, np.split(order[:bounds[2]], bounds[:2]), strict=True):
        mask[part] = True
    return Split(*masks)
