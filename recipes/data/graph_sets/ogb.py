"""Csv folders of the Open Graph Benchmark (Hu et al., 2020), as downloaded and unpacked.

    raw/edge.csv.gz                             "source,target" between nodes, counted from 0 in each graph
    raw/num-node-list.csv.gz, num-edge-list     numbers of nodes and edges of each graph
    raw/node-feat.csv.gz, edge-feat.csv.gz      features; optional
    raw/node-label.csv.gz, graph-label.csv.gz   labels of one or several tasks
    split/NAME/train.csv.gz, valid, test        numbers of nodes or graphs

All files may also be decompressed. The splits of link sets are PyTorch files, which can run code, and are not read.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from recipes.data.graph_sets import files

if TYPE_CHECKING:
    from xjax.typing import ArrayLike

_PARTS = {"train": "train", "valid": "val", "test": "test"}


def read_ogb_nodes(folder: Path, split: str | None = None, both_directions: bool = False) -> files.NodeSet:
    """A set of one graph with labelled nodes, such as ogbn-arxiv and ogbn-products.

    Args:
      split: the folder of the split; None: the only one.
      both_directions: whether to add each edge in the other direction, with its features, for sets that store it once.
    Raises: DataError.
    """
    folder = Path(folder)
    counts, edges = _structure(folder)
    if len(counts) != 1:
        raise files.wrong(folder / "raw" / "num-node-list.csv", "this set has many graphs", {"graphs": len(counts)},
                          "read_ogb_graphs.")
    senders, receivers, features = _directed(*edges[:2], edges[2], both_directions)
    n = int(counts[0])
    graph = files.make_graph(senders, receivers, _features(folder, "node-feat", n, "node"), features, n, edges[3])
    labels = labels_in(folder / "raw", "node-label", n, "node")
    return files.NodeSet(graph, labels, split_in(folder / "split", split, n), np.arange(n))


def read_ogb_graphs(folder: Path, split: str | None = None, both_directions: bool = False) -> files.GraphSet:
    """A set of labelled graphs, such as ogbg-molhiv; `split` and `both_directions` as in `read_ogb_nodes`. Unknown
    labels are NaN.  Raises: DataError."""
    folder = Path(folder)
    counts, (senders, receivers, features, file, n_edge) = _structure(folder)
    graph_of_edge = np.repeat(np.arange(len(counts)), n_edge)
    for ends in (senders, receivers):
        if len(ends) and (ends.min() < 0 or (ends >= counts[graph_of_edge]).any()):
            raise files.wrong(file, "an edge ends at a node that its graph does not have", {}, "files of one set.")
    before = (np.cumsum(counts) - counts)[graph_of_edge]
    senders, receivers, features = _directed(senders + before, receivers + before, features, both_directions)
    n = int(counts.sum())
    graphs = files.many_graphs(senders, receivers, _features(folder, "node-feat", n, "node"), features,
                               np.repeat(np.arange(len(counts)), counts), len(counts), file)
    labels = labels_in(folder / "raw", "graph-label", len(counts), "graph")
    return files.GraphSet(graphs, labels, None, split_in(folder / "split", split, len(counts)))


def _structure(folder: Path) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray, Any, Path, np.ndarray]]:
    """(nodes of each graph, (senders, receivers, features of edges, the file, edges of each graph))."""
    raw = folder / "raw"
    file, count_file = files.existing(raw, "edge.csv"), files.existing(raw, "num-node-list.csv")
    senders, receivers = files.pairs(file)
    n_node = files.column(count_file)
    edge_count_file = (files.maybe if len(n_node) == 1 else files.existing)(raw, "num-edge-list.csv")
    n_edge = np.array([len(senders)]) if edge_count_file is None else files.column(edge_count_file)
    if len(n_node) != len(n_edge) or not len(n_node) or min(n_node.min(), n_edge.min()) < 0:
        raise files.wrong(edge_count_file or count_file, "needs a number for each graph",
                          {"graphs": f"{len(n_node)} by nodes, {len(n_edge)} by edges"}, "files of one set.")
    files.check_count(sum(n_node.tolist()), count_file)
    files.check_rows(len(senders), sum(n_edge.tolist()), file, "edge")
    return n_node, (senders, receivers, _features(folder, "edge-feat", len(senders), "edge"), file, n_edge)


def _features(folder: Path, name: str, rows: int, of: str) -> np.ndarray | None:
    file = files.maybe(folder / "raw", f"{name}.csv")
    if file is None:
        return None
    values = files.numbers(file)
    files.check_rows(len(values), rows, file, of)
    return values


def labels_in(folder: Path, name: str, rows: int, of: str) -> np.ndarray:
    """int32 [rows] or [rows, tasks] for integers; float32 otherwise, or if some labels are unknown."""
    file = files.existing(folder, f"{name}.csv")
    values = files.numbers(file, np.float64, gaps=True)
    files.check_rows(len(values), rows, file, of)
    whole = np.isfinite(values).all() and (values == np.round(values)).all() and np.abs(values).max(initial=0) < 2 ** 31
    values = values.astype(np.int32 if whole else np.float32)
    return values[:, 0] if values.shape[1] == 1 else values


def _directed(senders: np.ndarray, receivers: np.ndarray, features: ArrayLike | None,
              both: bool) -> tuple[Any, Any, Any]:
    if not both:
        return senders, receivers, features
    return (np.append(senders, receivers), np.append(receivers, senders),
            None if features is None else np.concatenate([features, features]))


def split_in(folder: Path, name: str | None, count: int, kind: str = "") -> dict[str, np.ndarray]:
    """The numbers of nodes or graphs in each part. Args: kind: a type of nodes.

    Raises: DataError if there is no such split, or a number is out of range.
    """
    names = sorted(path.name for path in folder.glob("*") if path.is_dir())
    if name is None and not names:
        return {}
    if name not in names and not (name is None and len(names) == 1):
        what = f"there is no split {name!r}" if name else "there is not exactly one split"
        raise files.wrong(folder, what, {"splits": ", ".join(names) or "none"}, "split= one of them.")
    parts = {}
    for part, ours in _PARTS.items():
        file = files.existing(folder / (name or names[0]) / kind, f"{part}.csv")
        parts[ours] = np.sort(files.column(file))
        if parts[ours].size and (parts[ours][0] < 0 or parts[ours][-1] >= count):
            raise files.wrong(file, "the split has numbers out of range",
                              {"numbers": f"{parts[ours][0]} to {parts[ours][-1]}", "there are": count},
                              "files of one set.")
    return parts
