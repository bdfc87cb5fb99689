"""A user's own graph: a folder with edges.csv and nodes.csv, or an .npz file.

    edges.csv   source, target: the ids of two nodes; each edge is undirected
    nodes.csv   id; label, empty if unknown; optional split (train, val, test); the other columns, numbers,
                are features
    *.npz       edges [2, m], features [n, f]; labels [n], -1 if unknown; optional split [n] of texts
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from recipes.data.graphs import SPLITS, LabelledGraph, undirected
from recipes.data.splits import split_by_order
from recipes.data.tables import check_columns, check_no_stray_words, gaps_in, read_table, refuse_gaps
from recipes.errors import DataError
from recipes.lazy import pa, sp, xnn


class OwnGraph(NamedTuple):
    """The content of the files.

    Attributes:
      ids: the names of the n nodes.
      edges: i64[2, m], numbers of nodes.
      features: f32[n, f]; names: of the features.
      labels: [n] of texts, "" if unknown; None without such a column.
      split: [n] of texts, or None.
    """

    ids: xnn.graph.NodeNames
    edges: np.ndarray
    features: np.ndarray
    names: list[str]
    labels: np.ndarray | None
    split: np.ndarray | None


def read_graph(path: Path) -> OwnGraph:
    """Reads the folder or file.  Raises: DataError."""
    if path.suffix == ".npz":
        return _read_npz(path)
    for file in (path / "nodes.csv", path / "edges.csv"):
        if not file.is_file():
            raise DataError("graph", "the file is missing." if path.is_dir() else "there is no such folder.",
                            {"file": file}, fix="a folder with nodes.csv and edges.csv, or an .npz file.")
    nodes, edges = read_table(path / "nodes.csv"), read_table(path / "edges.csv")
    check_columns(nodes, ("id",), path / "nodes.csv", "the header")
    check_columns(edges, ("source", "target"), path / "edges.csv", "the header")
    names = [name for name in nodes.column_names if name not in ("id", "label", "split")]
    check_no_stray_words(nodes, names, path / "nodes.csv")
    refuse_gaps(gaps_in(nodes, ["id", *names]), path / "nodes.csv", "fill them or drop the column.")
    ids = _ids(nodes, path / "nodes.csv")
    features = [_column(nodes, name, path / "nodes.csv") for name in names]
    ends = [_numbers_of(edges.column(end).to_pylist(), ids, path / "edges.csv") for end in ("source", "target")]
    return OwnGraph(ids, np.array(ends), np.stack(features, 1) if features else np.eye(len(ids), dtype=np.float32),
                    names, _texts(nodes, "label"), _texts(nodes, "split"))


def labelled(graph: OwnGraph, classes: list[str], split_seed: int, fractions: tuple[float, float],
             path: Path) -> LabelledGraph:
    """The graph with its split: that of the files, or one drawn at random from the labelled nodes.

    Args: fractions: of the labelled nodes, for validation and test.
    Raises: DataError if no node is left to train on, or a split has an unknown name.
    """
    labels = graph.labels if graph.labels is not None else np.full(len(graph.ids), "")
    known = np.flatnonzero(labels != "")
    if graph.split is not None:
        strange = sorted({*graph.split} - {*SPLITS, ""})
        if strange:
            raise DataError("graph", f"there is no split {strange[0]!r}.", {"path": path, "known": ", ".join(SPLITS)},
                            fix="train, val, test or nothing in the column split.")
        split = {name: np.flatnonzero((graph.split == name) & (labels != "")) for name in SPLITS}
    else:
        split = split_by_order(np.random.default_rng(split_seed).permutation(known), fractions)
    if not len(split["train"]):
        raise DataError("graph", "no labelled node is left to train on.",
                        {"path": path, "labelled": len(known), "nodes": len(labels)}, fix="labels, or other fractions.")
    places = {name: i for i, name in enumerate(classes)}
    return LabelledGraph(adjacency_of(graph), sp.csr_matrix(graph.features),
                         np.array([places.get(label, 0) for label in labels], np.int32), len(classes), split)


def adjacency_of(graph: OwnGraph) -> sp.csr_matrix:
    """csr[n, n], symmetric, ones, empty diagonal."""
    return undirected(*graph.edges, len(graph.ids))


def class_names(graph: OwnGraph, path: Path) -> list[str]:
    """The labels in order.  Raises: DataError if there are fewer than two."""
    classes = sorted({*(graph.labels if graph.labels is not None else ())} - {""})
    if len(classes) < 2:
        raise DataError("graph", "the nodes need labels of at least two classes.",
                        {"path": path, "labels": ", ".join(classes) or "none"}, fix="a column label in nodes.csv.")
    return classes


def _column(table: pa.Table, name: str, file: Path) -> np.ndarray:
    column = table.column(name)
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_boolean(column.type)):
        raise DataError("graph", f"the feature {name!r} is not a column of numbers.",
                        {"file": file, "it holds": column.type},
                        fix="leave it out, or turn it into numbers.")
    return column.cast(pa.float64()).to_numpy().astype(np.float32)


def _texts(table: pa.Table, name: str) -> np.ndarray | None:
    if name not in table.column_names:
        return None
    return np.array(["" if value is None else str(value) for value in table.column(name).to_pylist()])


def _ids(nodes: pa.Table, file: Path) -> xnn.graph.NodeNames:
    try:
        return xnn.graph.NodeNames(map(str, nodes.column("id").to_pylist()))
    except ValueError:
        raise DataError("graph", "an id occurs twice in nodes.csv.", {"file": file},
                        fix="one line for each node.") from None


def _numbers_of(names: list[Any], ids: xnn.graph.NodeNames, file: Path) -> np.ndarray:
    names = list(map(str, names))
    unknown = sorted(ids.unknown(names))
    if unknown:
        raise DataError("graph", f"an edge names the node {unknown[0]!r}, which nodes.csv lacks.", {"file": file},
                        fix="add the node, or drop the edge.")
    return ids.rows(names).astype(np.int64)


def _read_npz(file: Path) -> OwnGraph:
    try:
        with np.load(file, allow_pickle=False) as arrays:
            edges, features = arrays["edges"], arrays["features"]
            labels, split = arrays.get("labels"), arrays.get("split")
    except FileNotFoundError:
        raise DataError("graph", "the file is missing.", {"file": file},
                        fix="task.folder=PATH of an .npz file.") from None
    except Exception as err:                                  # NumPy and zipfile raise errors of many types
        raise DataError("graph", "the file cannot be read.", {"file": file, "why": f"{type(err).__name__}: {err}"},
                        fix="arrays edges [2, m], features [n, f] and labels [n], written by numpy.savez.") from None
    n = len(features) if features.ndim else 0
    right = (features.ndim == 2 and edges.ndim == 2 and len(edges) == 2 and edges.dtype.kind in "iu"
             and all(a is None or a.shape == (n,) for a in (labels, split))
             and (not edges.size or 0 <= edges.min() <= edges.max() < n) and np.isfinite(features).all())
    if not right:
        raise DataError("graph", "the arrays do not fit one another.",
                        {"file": file, "edges": f"{edges.dtype}{list(edges.shape)}, numbers of nodes below {n}",
                         "features": f"{features.dtype}{list(features.shape)}"},
                        fix="edges [2, m] of node numbers, features [n, f] of finite numbers, labels and split [n].")
    texts = None if labels is None else np.array(["" if str(label) == "-1" else str(label) for label in labels])
    names = [f"feature {i}" for i in range(features.shape[1])]
    ids = xnn.graph.NodeNames(map(str, range(n)))
    return OwnGraph(ids, edges.astype(np.int64), features.astype(np.float32), names, texts,
                    None if split is None else split.astype(str))
