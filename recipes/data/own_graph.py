"""A user's own graph: a folder with edges.csv and nodes.csv, or an .npz file.

    edges.csv   source, target: the ids of two nodes; each edge is undirected
    nodes.csv   id; label, empty if unknown; optional split (train, val, test); the other columns, numbers,
                are features
    *.npz       edges [2, m], features [n, f]; labels [n], -1, NaN or "" if unknown; optional split [n] of texts

Ids and labels are texts, as the files spell them: see `recipes.data.cells`.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from recipes.data.cells import as_labels, as_texts
from recipes.data.graphs import SPLITS, LabelledGraph, undirected
from recipes.data.limits import check_file
from recipes.data.splits import split_by_order, stratified_order
from recipes.data.tables import (
    Table,
    check_columns,
    check_no_stray_words,
    class_kind,
    gaps_in,
    is_index,
    read_table,
    refuse_gaps,
)
from recipes.errors import DataError
from recipes.lazy import sp, xnn


class OwnGraph(NamedTuple):
    """The content of the files.

    Attributes:
      ids: the names of the n nodes.
      edges: i64[2, m], numbers of nodes.
      features: f32[n, f]; names: of the features.
      labels: [n] of texts, "" if unknown; None without such a column.
      split: [n] of texts, or None.
      left_out: name of another column or kind of edge in the files -> why it is not used.
    """

    ids: xnn.graph.NodeNames
    edges: np.ndarray
    features: np.ndarray
    names: list[str]
    labels: np.ndarray | None
    split: np.ndarray | None
    left_out: dict[str, str]


def read_graph(path: Path) -> OwnGraph:
    """Reads the folder or file.  Raises: DataError."""
    if path.suffix == ".npz":
        return _read_npz(path)
    for file in (path / "nodes.csv", path / "edges.csv"):
        if not file.is_file():
            raise DataError("graph", "the file is missing." if path.is_dir() else "there is no such folder.",
                            {"file": file}, fix="a folder with nodes.csv and edges.csv, or an .npz file.")
    nodes, edges = read_table(path / "nodes.csv"), read_table(path / "edges.csv", empty=True)
    check_columns(nodes, ("id",), "the header")
    check_columns(edges, ("source", "target"), "the header")
    names = [name for name in nodes if name not in ("id", "label", "split") and not is_index(name)]
    check_no_stray_words(nodes, names)
    features = [_numbers_in(nodes, name) for name in names]
    refuse_gaps(gaps_in(nodes, {"id": "category", **dict.fromkeys(names, "number")}), nodes.file,
                "fill them or drop the column.")
    refuse_gaps(gaps_in(edges, {"source": "category", "target": "category"}), edges.file, "fill or drop these rows.")
    ids = _ids(nodes)
    ends = np.array([_numbers_of(edges[end].texts().tolist(), ids, edges.file) for end in ("source", "target")])
    left_out = {f"column {name} of nodes.csv": "the index of pandas, or without a name" for name in nodes
                if is_index(name)}
    left_out |= {f"column {name} of edges.csv": f"not used, {edges.num_rows} values" for name in edges
                 if name not in ("source", "target")}
    return OwnGraph(ids, ends, np.stack(features, 1) if features else np.eye(len(ids), dtype=np.float32),
                    names, _labels(nodes), _texts(nodes, "split"), left_out | _edges_apart(ends))


def labelled(graph: OwnGraph, classes: list[str], split_seed: int, fractions: tuple[float, float], path: Path,
             stratify: bool = True) -> LabelledGraph:
    """The graph with its split: that of the files, or one drawn at random from the labelled nodes.

    Args:
      fractions: of the labelled nodes, for validation and test.
      stratify: whether a random split has each class by its share.
    Raises: DataError if no node is left to train on, or a split has an unknown name.
    """
    labels = graph.labels if graph.labels is not None else np.full(len(graph.ids), "")
    known = np.flatnonzero(labels != "")
    if graph.split is not None:
        strange = sorted({*graph.split} - {*SPLITS, ""})
        if strange:
            raise DataError("graph", f"there is no split {str(strange[0])!r}.",
                            {"path": path, "known": ", ".join(SPLITS)},
                            fix="train, val, test or nothing in the column split.")
        split = {name: np.flatnonzero((graph.split == name) & (labels != "")) for name in SPLITS}
    else:
        order = np.random.default_rng(split_seed).permutation(known)
        split = split_by_order(stratified_order(order, labels) if stratify else order, fractions)
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


def _numbers_in(nodes: Table, name: str) -> np.ndarray:
    column = nodes[name]
    if column.kind != "number" and not column.has_codes:      # 007 may be an id or a number; a feature is a number
        raise DataError("graph", f"the feature {name!r} is not a column of numbers.",
                        {"file": nodes.file, "it holds": f"{column.kind}, {column.cell(0)}"},
                        fix="leave it out, or turn it into numbers.")
    return column.numbers().astype(np.float32)


def _labels(nodes: Table) -> np.ndarray | None:
    """[n] of texts, "" if unknown; in a column of numbers, words such as NA are unknown too."""
    texts = _texts(nodes, "label")
    if texts is None:
        return None
    return np.where(nodes["label"].missing(class_kind(nodes["label"])), "", texts)


def _texts(table: Table, name: str) -> np.ndarray | None:
    return None if name not in table else np.array(["" if text is None else text for text in table[name].texts()], str)


def _edges_apart(ends: np.ndarray) -> dict[str, str]:
    """Edges that the adjacency does not keep as they are: loops, and repeated ones."""
    loops = int((ends[0] == ends[1]).sum())
    pairs = np.sort(ends[:, ends[0] != ends[1]], axis=0)
    repeated = pairs.shape[1] - np.unique(pairs, axis=1).shape[1] if pairs.size else 0
    reasons = {"loops": f"{loops} edges of a node with itself"} if loops else {}
    return reasons | ({"repeated edges": f"{repeated}, counted once; directions are not used"} if repeated else {})


def _ids(nodes: Table) -> xnn.graph.NodeNames:
    try:
        return xnn.graph.NodeNames(nodes["id"].texts().tolist())
    except ValueError:
        ids, counts = np.unique(nodes["id"].texts().astype(str), return_counts=True)
        raise DataError("graph", "an id occurs twice in nodes.csv.",
                        {"file": nodes.file, "id": repr(str(ids[counts > 1][0]))},
                        fix="one line for each node.") from None


def _numbers_of(names: list[str], ids: xnn.graph.NodeNames, file: Path) -> np.ndarray:
    """The numbers of nodes by their names; 3.0 is the node 3 where there is no other, as pandas writes integers."""
    unknown = ids.unknown(names)
    floats = {name for name in unknown if name.endswith(".0")}
    floats -= {name for name in floats if ids.unknown([name[:-2]])}
    if floats:
        names = [name[:-2] if name in floats else name for name in names]
    unknown = sorted({*unknown} - floats)
    if unknown:
        raise DataError("graph", f"an edge names the node {str(unknown[0])!r}, which nodes.csv lacks.", {"file": file},
                        fix="add the node, or drop the edge.")
    return ids.rows(names).astype(np.int64)


def _read_npz(file: Path) -> OwnGraph:
    try:
        check_file(file)
        with np.load(file, allow_pickle=False) as arrays:
            edges, features = arrays["edges"], arrays["features"]
            labels, split = arrays.get("labels"), arrays.get("split")
            others = {name: f"{arrays[name].dtype}{list(arrays[name].shape)}" for name in arrays.files
                      if name not in ("edges", "features", "labels", "split")}
    except FileNotFoundError:
        raise DataError("graph", "the file is missing.", {"file": file},
                        fix="task.folder=PATH of an .npz file.") from None
    except DataError:
        raise
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
    if labels is not None and labels.dtype.kind == "f" and (labels != np.round(labels))[~np.isnan(labels)].any():
        raise DataError("graph", "the labels are not classes.", {"file": file, "labels": f"{labels.dtype}, fractions"},
                        fix="integers or texts.")
    names = [f"feature {i}" for i in range(features.shape[1])]
    ids = xnn.graph.NodeNames(map(str, range(n)))
    ends = edges.astype(np.int64)
    left_out = {f"array {name}": f"not used, {shape}" for name, shape in others.items()}
    return OwnGraph(ids, ends, features.astype(np.float32), names, None if labels is None else as_labels(labels),
                    None if split is None else as_texts(split), left_out | _edges_apart(ends))
