"""Splits of nodes, edges and events into training, validation and test sets, determined by their seed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from xjax.errors import bad
from xjax.typing import ArrayLike
from xnn.checks import type_text
from xnn.graph.host.transforms import edges_where, is_undirected
from xnn.graph.structure.arrays import host, without_padding
from xnn.graph.structure.graph import Graph


class Split(NamedTuple):
    """Three disjoint sets. Attributes: train, val, test: bool[n], True for the rows in the set."""

    train: np.ndarray
    val: np.ndarray
    test: np.ndarray


class Pairs(NamedTuple):
    """Pairs of nodes that a link prediction model has to classify.

    Attributes: positive, negative: int32[m, 2], (sender, receiver) of pairs with and without an edge.
    """

    positive: np.ndarray
    negative: np.ndarray


class EdgeSplit(NamedTuple):
    """Edges split into three sets.

    Attributes: graph: the graph without the edges of `val` and `test`, for message passing; train, val, test: `Pairs`.
    """

    graph: Graph
    train: Pairs
    val: Pairs
    test: Pairs


def split_nodes(labels: ArrayLike, train: float = 20, val: float | None = 500, test: float | None = 1000, *,
                seed: int = 0, stratified: bool = True) -> Split:
    """Draws sets of nodes, or of graphs, at random; the default sizes are those of Planetoid (Yang et al., 2016).

    Args:
      labels: int[n], the class of each node; -1 for an unknown class, then the node is in no set. Without `stratified`
        it may be the number of nodes.
      train, val, test: sizes of the sets. Integers are counts: with `stratified`, `train` is the count in each class,
        and `val` and `test` are drawn from the remaining nodes of all classes together. Floats are fractions of all
        nodes, or with `stratified` of each class. `val` or `test` may be None: all remaining nodes.
    Raises: ValueError if there are not enough nodes.

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
        raise bad(caller, "the sizes mix counts and fractions", {"train, val, test": f"{train}, {val}, {test}"},
                  "pass three integers, or three fractions.", ValueError)
    order = order[np.argsort(labels[order], kind="stable")]             # by class, in random order within each
    _, start, size = np.unique(labels[order], return_index=True, return_counts=True)
    if kinds == {True}:
        bounds = [_bounds(caller, int(n), train, val, test) for n in size]
        parts = np.zeros((3, len(labels)), bool)
        for first, n, ends in zip(start, size, bounds, strict=True):    # one class at a time
            parts |= _sets(len(labels), order[first:first + n], ends)
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
    """Splits by time: the earliest rows are for training, the latest for test. Rows of equal time are in the same set.

    Args: times: [n], the time of each edge, node or event; val, test: fractions of the rows.

    >>> [part.tolist() for part in split_by_time([3, 1, 2, 2], val=0.25, test=0.25)]
    [[False, True, True, True], [False, False, False, False], [True, False, False, False]]
    """
    times = np.asarray(times)
    if times.ndim != 1 or not 0 <= val + test <= 1 or min(val, test) < 0:
        raise bad("split_by_time", "needs one time for each row, and two fractions",
                  {"times": type_text(times), "val, test": f"{val}, {test}"},
                  "pass times [n], and fractions whose sum is at most 1.", ValueError)
    order = np.sort(times)
    n_test, n_later = round(len(times) * test), round(len(times) * (val + test))
    # A set begins with the first time that is later than all times of the previous set.
    train_end, val_end = len(times) - n_later, len(times) - n_test
    train = times <= order[train_end - 1] if train_end else np.zeros(len(times), bool)
    before_test = times <= order[val_end - 1] if val_end else np.zeros(len(times), bool)
    return Split(train, before_test & ~train, ~before_test & ~train)


def split_edges(graph: Graph, val: float = 0.05, test: float = 0.1, *, seed: int = 0, undirected: bool = True,
                negatives: float = 1.0) -> EdgeSplit:
    """Splits edges for link prediction, and draws pairs without an edge (Kipf and Welling, 2016).

    The edges of `val` and `test` are removed from the returned graph. Self loops stay in the graph and are not
    predicted; a repeated edge is one pair.

    Args:
      graph: one graph, not a batch.
      val, test: fractions of the edges if floats, numbers of edges if integers.
      undirected: removes both directions of an edge together; each pair is then returned once.
      negatives: number of pairs without an edge for each pair with one. No such pair is an edge of the whole graph, or
        in two sets.
    Raises: ValueError for a batch, a directed graph with `undirected`, or more negatives than pairs without an edge.
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
    """Draws distinct pairs (sender, receiver) without an edge, uniformly: int32[count, 2].

    The two nodes of a pair differ. No pair is drawn twice.

    Args:
      graph: one graph, not a batch.
      rng: `numpy.random.Generator`, or a seed.
      undirected: a pair stands for both directions, neither of which is an edge; the smaller node is first.
    Raises: ValueError if there are fewer than `count` such pairs.
    """
    caller = "negative_edges"
    graph = _one_graph(caller, graph)
    n, rng = graph.n_nodes, np.random.default_rng(rng)
    taken = _codes(graph.senders, graph.receivers, n, undirected)[graph.senders != graph.receivers]
    taken = np.unique(taken)
    free = n * (n - 1) // (2 if undirected else 1) - len(taken)
    if not 0 <= count <= free:
        raise bad(caller, "there are not enough pairs without an edge", {"graph": repr(graph), "count": count,
                  "pairs": free}, "pass a smaller count.", ValueError)
    rank = rng.choice(free, count, replace=False) if count else np.zeros(0, np.int64)
    # taken[i] - i pairs without an edge precede the i-th edge, so the search returns the number of edges before each
    # rank.
    return pairs_of_codes(rank + np.searchsorted(taken - np.arange(len(taken)), rank, side="right"), n, undirected)


# -- pairs of distinct nodes, numbered from 0 --------------------------------------------------------------------------


def _codes(senders: np.ndarray, receivers: np.ndarray, n: int, undirected: bool) -> np.ndarray:
    one, other = senders.astype(np.int64), receivers.astype(np.int64)
    if undirected:
        one, other = np.minimum(one, other), np.maximum(one, other)
        return other * (other - 1) // 2 + one
    return one * (n - 1) + other - (other > one)


def pairs_of_codes(codes: np.ndarray, n: int, undirected: bool) -> np.ndarray:
    """The inverse of `_codes`, int32[m, 2]: the pairs of n nodes with these numbers."""
    if not undirected:
        one, other = np.divmod(codes, max(n - 1, 1))
        return np.stack([one, other + (other >= one)], 1).astype(np.int32)
    other = ((1 + np.sqrt(1 + 8.0 * codes)) // 2).astype(np.int64)
    other += (other * (other + 1) // 2 <= codes).astype(np.int64) - (other * (other - 1) // 2 > codes)   # rounding
    return np.stack([codes - other * (other - 1) // 2, other], 1).astype(np.int32)


def _one_graph(caller: str, graph: Graph) -> Graph:
    graph = without_padding(caller, graph)
    if graph.n_graphs != 1:
        raise bad(caller, "takes one graph, not a batch", {"graph": repr(graph)},
                  "call it for each graph of unbatch(graph).", ValueError)
    return graph


# -- sizes of sets ----------------------------------------------------------------------------------------------------


def _bounds(caller: str, n: int, train: float, val: float | None, test: float | None) -> tuple[int, int, int]:
    """The ends of three sets in n rows. Fractions are summed before rounding, so that 0.6, 0.2, 0.2 omit no row."""
    if val is None and test is None:
        raise bad(caller, "only one set may be None, for the remaining rows", {"val, test": "None"},
                  "pass a size for one of them.", ValueError)
    ends, total = [], 0.0
    for part in (train, 0 if val is None else val, 0 if test is None else test):
        total += part * n if isinstance(part, float) else part
        ends.append(round(total))
    if val is None:
        ends[1], ends[2] = n - (ends[2] - ends[1]), n
    if test is None:
        ends[2] = n
    if not 0 <= ends[0] <= ends[1] <= ends[2] <= n:
        raise bad(caller, "there are not enough rows for the sets",
                  {"rows": n, "train, val, test": f"{train}, {val}, {test}"}, "pass smaller sizes.", ValueError)
    return ends[0], ends[1], ends[2]


def _sets(n: int, order: np.ndarray, bounds: tuple[int, int, int]) -> Split:
    masks = np.zeros((3, n), bool)
    for mask, part in zip(masks, np.split(order[:bounds[2]], bounds[:2]), strict=True):
        mask[part] = True
    return Split(*masks)
