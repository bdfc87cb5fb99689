"""The results of the readers, and functions that read and check columns of numbers."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from recipes.data.graphs import LabelledGraph, undirected
from recipes.data.limits import check_file
from recipes.errors import DataError
from recipes.lazy import sp, xnn

if TYPE_CHECKING:
    from xjax.typing import ArrayLike, PyTree


class NodeSet(NamedTuple):
    """One graph whose nodes may have labels.

    Attributes:
      graph: an `xnn.graph.Graph`; `nodes` are features [n, f] or None, `edges` weights, features or None.
      labels: [n] or [n, tasks], integers or floats; None without labels.
      split: name -> int64 ids of its nodes, ascending; empty without splits.
      ids: [n], the names of nodes in the file.
      times: [e], of the graph's edges; None without times.
    """

    graph: Any
    labels: np.ndarray | None
    split: dict[str, np.ndarray]
    ids: np.ndarray
    times: np.ndarray | None = None


class GraphSet(NamedTuple):
    """Many graphs with labels.

    Attributes:
      graphs: list of `xnn.graph.Graph`.
      labels: [g] or [g, tasks], int32 classes or float32 targets (NaN if unknown); None without labels.
      classes: the values of the labels in the file, in order of the classes; None for targets.
      split: name -> int64 numbers of its graphs; empty without splits.
    """

    graphs: list[Any]
    labels: np.ndarray | None
    classes: np.ndarray | None
    split: dict[str, np.ndarray]


def as_labelled(nodes: NodeSet, path: Path) -> LabelledGraph:
    """The graph for node classification in recipes: undirected, without weights and loops.

    Raises: DataError if the nodes do not have features and one class each, or there is no split.
    """
    graph, labels = nodes.graph, nodes.labels
    if graph.nodes is None or labels is None or labels.ndim != 1 or labels.dtype.kind not in "iu" or not nodes.split:
        raise wrong(path, "needs features, one class for each node, and a split",
                    {"labels": "none" if labels is None else f"{labels.dtype}{list(labels.shape)}",
                     "split": ", ".join(nodes.split) or "none"}, "another task; split_at_random makes a split.")
    adjacency = undirected(graph.senders, graph.receivers, graph.n_nodes)
    return LabelledGraph(adjacency, sp.csr_matrix(graph.nodes, dtype=np.float32),
                         np.maximum(labels, 0).astype(np.int32), int(labels.max(initial=0)) + 1, nodes.split)


def make_graph(senders: np.ndarray, receivers: np.ndarray, nodes: ArrayLike | None, edges: PyTree, n: int,
               file: Path) -> xnn.graph.Graph:
    """The Graph. Raises: DataError if an edge ends at an unknown node, or has no row of features."""
    check_count(n, file)
    for ends in (senders, receivers):
        if ends.size and (ends.min() < 0 or ends.max() >= n):
            raise wrong(file, "an edge ends at an unknown node", {"ends": f"{ends.min()} to {ends.max()}", "nodes": n},
                        "the right number of nodes, or the complete file.")
    return xnn.graph.Graph.from_edges(senders, receivers, nodes, edges, n_nodes=n)


def many_graphs(senders: np.ndarray, receivers: np.ndarray, nodes: ArrayLike | None, edges: ArrayLike | None,
                graph_of: np.ndarray, n_graphs: int, file: Path) -> list[Any]:
    """Graphs whose nodes are stored one graph after another. Args: senders, receivers: numbers among all nodes."""
    whole = make_graph(senders, receivers, nodes, edges, len(graph_of), file)
    across = np.flatnonzero(graph_of[whole.senders] != graph_of[whole.receivers])
    if len(across):
        edge = int(whole.senders[across[0]]), int(whole.receivers[across[0]])
        raise wrong(file, "an edge joins two graphs", {"nodes": f"{edge[0]} and {edge[1]}, counted from 0"},
                    "complete files of one set.")
    counts = [np.bincount(of, minlength=n_graphs).astype(np.int32) for of in (graph_of, graph_of[whole.receivers])]
    return xnn.graph.unbatch(whole.replace(n_node=counts[0], n_edge=counts[1]))


def existing(folder: Path, *names: str) -> Path:
    """The first existing file with one of these names, or such a name and ".gz". Raises: DataError."""
    for name in names:
        for file in (folder / name, folder / f"{name}.gz"):
            if file.is_file():
                return file
    raise wrong(folder / names[0], "the file is missing", {"folder": "exists" if folder.is_dir() else "does not exist"},
                "the unpacked folder of the complete set.")


def maybe(folder: Path, *names: str) -> Path | None:
    """As `existing`, but None if there is no such file."""
    try:
        return existing(folder, *names)
    except DataError:
        return None


def numbers(file: Path, kind: type = np.float32, gaps: bool = False) -> np.ndarray:
    """[rows, columns] of a file of comma-separated numbers without a header; a file named .gz is decompressed.

    Args: gaps: whether to read empty values as NaN.  Raises: DataError for any other content.
    """
    options: dict[str, Any] = {"converters": _or_nan, "encoding": "utf-8"} if gaps else {}
    try:
        check_file(file)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)          # of an empty file
            values = np.loadtxt(file, kind, delimiter=",", ndmin=2, comments=None, **options)
    except DataError:
        raise
    except Exception as err:                                      # NumPy, gzip and zlib raise many types
        raise wrong(file, "the file cannot be read", {"why": f"{type(err).__name__}: {' '.join(str(err).split())}"},
                    f"comma-separated numbers ({np.dtype(kind).name}), equally many in each line, no header.") from None
    if values.dtype.kind == "f" and not gaps and not np.isfinite(values).all():
        raise wrong(file, "a value is NaN or infinite", {}, "finite numbers.")
    return values


def _or_nan(text: str) -> float:
    return float(text) if text.strip() else float("nan")


def column(file: Path) -> np.ndarray:
    """[rows]: a file of one number in each line. Raises: DataError."""
    values = numbers(file, np.int64)
    if values.size and values.shape[1] != 1:
        raise wrong(file, "needs one number in each line", {"columns": values.shape[1]}, "the published file.")
    return values.reshape(-1)


def pairs(file: Path) -> tuple[np.ndarray, np.ndarray]:
    """The two columns of a file of edges, int64. Raises: DataError."""
    ends = numbers(file, np.int64)
    if ends.size and ends.shape[1] != 2:
        raise wrong(file, "needs two nodes in each line", {"columns": ends.shape[1]}, "the file as it was published.")
    ends = ends.reshape(-1, 2)
    return ends[:, 0], ends[:, 1]


def check_count(n: int, file: Path) -> None:
    """Raises: DataError for more nodes than an int32 can number."""
    if n > np.iinfo(np.int32).max:
        raise wrong(file, "too many nodes for one graph", {"nodes": n, "at most": np.iinfo(np.int32).max},
                    "a smaller graph, or the right numbers of nodes.")


def check_rows(rows: int, wanted: int, file: Path, of: str) -> None:
    """Raises: DataError if a file does not have one line for each node, edge or graph."""
    if rows != wanted:
        raise wrong(file, f"needs one line for each {of}", {"lines": rows, f"{of}s": wanted}, "files of one set.")


def classes_of(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(the values in ascending order, int32 class of each)."""
    classes, labels = np.unique(values, return_inverse=True)
    return classes, labels.reshape(values.shape).astype(np.int32)


def wrong(file: Path, what: str, given: Mapping[str, object], fix: str) -> DataError:
    return DataError("graph set", f"{what}.", {"file": file, **given}, fix=fix)
