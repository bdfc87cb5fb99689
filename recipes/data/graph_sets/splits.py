"""Splits of nodes and edges, and the parts of a graph for training and for evaluation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from recipes.data.graph_sets.files import NodeSet
from recipes.data.splits import split_by_order, stratified_order
from recipes.errors import DataError
from recipes.lazy import xnn


def split_at_random(labels: np.ndarray, seed: int = 0, *, fractions: tuple[float, float] = (0.2, 0.2),
                    per_class: tuple[int, int] | None = None, stratify: bool = False) -> dict[str, np.ndarray]:
    """A transductive split of the nodes with a label >= 0: train, val and test.

    Args:
      fractions: shares of these nodes for val and test.
      per_class: numbers of nodes of each class for train and val; the rest is for test. Shchur et al. (2018) have
        (20, 30). A class with fewer nodes is an error.
      stratify: whether each part has each class by its share; for fractions.
    Raises: DataError if a part would be empty or too large.
    """
    labels = np.asarray(labels)
    order = np.random.default_rng(seed).permutation(np.flatnonzero(labels >= 0))
    if per_class is None:
        parts = split_by_order(stratified_order(order, labels) if stratify else order, fractions)
        fine = min(fractions) >= 0 and sum(fractions) < 1
    else:
        order = order[np.argsort(labels[order], kind="stable")]
        counts = np.unique(labels[order], return_counts=True)[1]
        rank = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        n_train, n_val = per_class
        parts = {"train": order[rank < n_train], "val": order[(rank >= n_train) & (rank < n_train + n_val)],
                 "test": order[rank >= n_train + n_val]}
        fine = min(per_class) >= 0 and counts.min(initial=0 if not len(counts) else counts[0]) >= n_train + n_val
    if not fine or not len(parts["train"]):
        raise DataError("split", "there are not enough labelled nodes for these parts.",
                        {"labelled": len(order), "fractions": fractions, "per_class": per_class},
                        fix="fractions whose sum is below 1, or smaller numbers for each class.")
    return {name: np.sort(ids) for name, ids in parts.items()}


def split_by_time(times: np.ndarray, fractions: tuple[float, float] = (0.15, 0.15), *,
                  until: tuple[float, float] | None = None) -> dict[str, np.ndarray]:
    """Nodes or edges by their times: the earliest for train, the latest for test. Equal times are in the same part.

    Args:
      times: [m].
      fractions: shares of val and test, as close as equal times allow.
      until: the last times of train and of val, instead of fractions.
    Raises: DataError if train or test would be empty.
    """
    times = np.asarray(times)
    if until is None and len(times):
        ordered = np.sort(times)
        first, second = (round(len(times) * part) - 1 for part in (1 - sum(fractions), 1 - fractions[1]))
        until = ordered[max(first, 0)], ordered[min(max(second, 0), len(times) - 1)]
    first, second = until if until is not None else (0, 0)
    parts = {"train": times <= first, "val": (times > first) & (times <= second), "test": times > max(first, second)}
    if not parts["train"].any() or not parts["test"].any():
        span = f"{times.min()} to {times.max()}" if len(times) else "none"
        raise DataError("split", "train or test would be empty.", {"times": span, "until": until},
                        fix="until=(last time of train, last time of val), or other fractions.")
    return {name: np.flatnonzero(part) for name, part in parts.items()}


def inductive(nodes: NodeSet) -> dict[str, NodeSet]:
    """The graphs of an inductive split: training has no nodes of val and test, and validation no nodes of test.

    Returns: "train": the graph of the training nodes; "val": of training and validation nodes; "test": of all nodes.
      The split of each graph has only the part of its name, in node numbers of this graph.
    Raises: DataError if the split does not have train, val and test.
    """
    if not {"train", "val", "test"} <= nodes.split.keys():
        raise DataError("split", "an inductive split needs train, val and test.",
                        {"split": ", ".join(nodes.split) or "none"}, fix="split_at_random, then inductive.")
    seen = {"train": ["train"], "val": ["train", "val"]}
    graphs = {name: restricted(nodes, np.concatenate([nodes.split[part] for part in parts]), name)
             for name, parts in seen.items()}
    return graphs | {"test": nodes._replace(split={"test": nodes.split["test"]})}


def restricted(nodes: NodeSet, ids: np.ndarray, part: str) -> NodeSet:
    """The graph of these nodes, in ascending order, and one part of the split."""
    graph, ids = nodes.graph, np.unique(ids)
    row = np.full(graph.n_nodes, -1)
    row[ids] = np.arange(len(ids))
    inside = np.flatnonzero((row[graph.senders] >= 0) & (row[graph.receivers] >= 0))
    smaller = xnn.graph.Graph.from_edges(
        row[graph.senders[inside]], row[graph.receivers[inside]], _rows(graph.nodes, ids), _rows(graph.edges, inside),
        n_nodes=len(ids))
    return NodeSet(smaller, _rows(nodes.labels, ids), {part: row[nodes.split[part]]}, nodes.ids[ids],
                   _rows(nodes.times, inside))


def edges_of(nodes: NodeSet, edges: Sequence[int] | np.ndarray) -> NodeSet:
    """The graph with all nodes and only these edges, such as the edges of a temporal graph before some time."""
    graph, edges = nodes.graph, np.sort(np.asarray(edges, np.int64))
    smaller = xnn.graph.Graph.from_edges(graph.senders[edges], graph.receivers[edges], graph.nodes,
                                         _rows(graph.edges, edges), n_nodes=graph.n_nodes)
    return nodes._replace(graph=smaller, times=_rows(nodes.times, edges))


def _rows(x: np.ndarray | None, ids: np.ndarray) -> np.ndarray | None:
    return None if x is None else x[ids]
