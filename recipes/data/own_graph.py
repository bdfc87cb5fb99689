"""A user's own graph: a folder with edges.csv and nodes.csv, a .graphml file, or an .npz file.

    edges.csv   source, target: the ids of two nodes; each edge is undirected; optional weight, a number of at least 0
    nodes.csv   id; label, empty if unknown; optional split (train, val, test); the other columns are features
    *.graphml   the same: data label, split and features of nodes, data weight of edges
    *.npz       edges [2, m], features [n, f]; labels [n], -1, NaN or "" if unknown; optional split [n] of texts and
                weight [m], or weights or edge_weight

Ids and labels are texts, as the files spell them: see `recipes.data.cells`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from recipes.data.cells import as_labels, as_texts
from recipes.data.graph_sets.graphml import read_graphml_tables
from recipes.data.graphs import SPLITS, undirected
from recipes.data.layout import Layout
from recipes.data.limits import check_file
from recipes.data.splits import split_by_order, stratified_order
from recipes.data.tables import Table, check_columns, class_kind, gaps_in, read_table, refuse_gaps
from recipes.errors import DataError
from recipes.lazy import pa, sp, xnn

APART = ("id", "label", "split")                              # columns of nodes that are not features
WEIGHT_ARRAYS = ("weight", "weights", "edge_weight")


class OwnGraph(NamedTuple):
    """The content of the files.

    Attributes:
      ids: the names of the n nodes.
      edges: i64[2, m], numbers of nodes.
      weights: f64[m], positive; None without weights, or if they are not used.
      nodes: the features, and the columns `APART`.
      of_nodes: where the features are, for messages: "of nodes.csv".
      labels: [n] of texts, "" if unknown; None without such a column.
      split: [n] of texts, or None.
      left_out: name of another column or kind of edge in the files -> why it is not used.
    """

    ids: xnn.graph.NodeNames
    edges: np.ndarray
    weights: np.ndarray | None
    nodes: Table
    of_nodes: str
    labels: np.ndarray | None
    split: np.ndarray | None
    left_out: dict[str, str]

    @property
    def mean_weight(self) -> float | None:
        """The mean of the weights; None without weights."""
        return float(self.weights.mean()) if self.weights is not None and len(self.weights) else None


def read_graph(path: Path, unused: str = "", names: list[str] | None = None) -> OwnGraph:
    """Reads the folder or file.  Raises: DataError.

    Args:
      unused: why weights of edges are not used; "": they are.
      names: the features of an .npz file, if there are as many; others are "feature 0", ...
    """
    if path.suffix == ".npz":
        return _read_npz(path, unused, names)
    if path.suffix == ".graphml":
        return _of_tables(*read_graphml_tables(path), "of the nodes", "of the edges", unused)
    for file in (path / "nodes.csv", path / "edges.csv"):
        if not file.is_file():
            raise DataError("graph", "the file is missing." if path.is_dir() else "there is no such folder.",
                            {"file": file},
                            fix="a folder with nodes.csv and edges.csv, a .graphml file, or an .npz file.")
    nodes, edges = (read_table(path / name, empty=True) for name in ("nodes.csv", "edges.csv"))
    return _of_tables(nodes, edges, "of nodes.csv", "of edges.csv", unused)


def split_nodes(graph: OwnGraph, split_seed: int, fractions: tuple[float, float], stratify: bool,
                path: Path) -> dict[str, np.ndarray]:
    """The split of the files, or one drawn at random from the labelled nodes: split -> ids of its nodes, ascending.

    Args:
      fractions: of the labelled nodes, for validation and test.
      stratify: whether a random split has each class by its share.
    Raises: DataError if no node is left to train on, or a split has an unknown name.
    """
    labels = np.full(len(graph.ids), "") if graph.labels is None else graph.labels
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
    return split


def class_ids(graph: OwnGraph, classes: list[str]) -> np.ndarray:
    """i32[n], ids into ``classes``; 0 for a node without a label."""
    places = {name: i for i, name in enumerate(classes)}
    labels = [""] * len(graph.ids) if graph.labels is None else graph.labels
    return np.array([places.get(label, 0) for label in labels], np.int32)


def adjacency_of(graph: OwnGraph, mean_weight: float | None) -> sp.csr_matrix:
    """csr[n, n], symmetric, with an empty diagonal: ones, or weights of edges divided by ``mean_weight``.

    A loop that a convolution adds has weight 1, so this is the weight of a mean edge, whatever the unit.
    """
    weights = None if mean_weight is None or graph.weights is None else graph.weights / mean_weight
    return undirected(*graph.edges, len(graph.ids), weights)


def edge_facts(graph: OwnGraph) -> dict[str, str]:
    """Rows of a summary: the weights of edges, or that there are no edges."""
    facts = {}
    if graph.weights is not None and len(graph.weights):
        least, most, mean = graph.weights.min(), graph.weights.max(), graph.weights.mean()
        facts["edge weights"] = f"{least:.4g} to {most:.4g}, divided by their mean {mean:.4g}"
    if not has_edges(graph):
        facts["no edges"] = "each node is classified by its own features only"
    return facts


def has_edges(graph: OwnGraph) -> bool:
    """Whether there is an edge between two nodes."""
    return bool((graph.edges[0] != graph.edges[1]).any())


def class_names(graph: OwnGraph, path: Path) -> list[str]:
    """The labels in order.  Raises: DataError if there are fewer than two."""
    classes = sorted({*(graph.labels if graph.labels is not None else ())} - {""})
    if len(classes) < 2:
        raise DataError("graph", "the nodes need labels of at least two classes.",
                        {"path": path, "labels": ", ".join(classes) or "none"}, fix="a column label in nodes.csv.")
    return classes


# ---- tables of nodes and edges -------------------------------------------------------------------------------------


def _of_tables(nodes: Table, edges: Table, of_nodes: str, of_edges: str, unused: str) -> OwnGraph:
    """Args: of_nodes, of_edges: where their columns are, for messages."""
    check_columns(nodes, ("id",), "the header")
    check_columns(edges, ("source", "target"), "the header")
    if not nodes.num_rows:
        raise DataError("graph", "there are no nodes: the file has a header only.",
                        {"file": nodes.file, "columns": ", ".join(nodes)}, fix="a line for each node.")
    refuse_gaps(gaps_in(nodes, {"id": "category"}), nodes.file, "an id for each node.")
    refuse_gaps(gaps_in(edges, {"source": "category", "target": "category"}), edges.file, "fill or drop these rows.")
    ids = _ids(nodes)
    ends = np.array([_numbers_of(edges[end].texts().tolist(), ids, edges.file) for end in ("source", "target")])
    left_out = {f"column {name} {of_edges}": f"not used, {edges.num_rows:,} values" for name in edges
                if name not in ("source", "target", "weight")}
    weights = None
    if "weight" in edges:
        if unused:
            left_out[f"column weight {of_edges}"] = f"{unused}, {edges.num_rows:,} values"
        else:
            weights = _checked_weights(edges)
    ends, weights, apart = _with_weight(ends, weights)
    return OwnGraph(ids, ends, weights, nodes, of_nodes, _labels(nodes), _texts(nodes, "split"), left_out | apart)


def _checked_weights(edges: Table) -> np.ndarray:
    """f64[m].  Raises: DataError unless each edge has a number of at least 0."""
    column = edges["weight"]
    weights = column.numbers()
    wrong = np.flatnonzero(~np.isfinite(weights) | (weights < 0))
    if len(wrong):
        what = "is negative" if weights[wrong[0]] < 0 else "is missing or not a finite number"
        raise DataError("graph", f"the weight of an edge {what}.",
                        {"file": edges.file, "first": column.cell(wrong[0]), "rows": f"{len(wrong)} of {len(weights)}"},
                        fix="weights of at least 0; or task.edge_weights=false, which does not use them.")
    return weights


def _with_weight(ends: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None, dict[str, str]]:
    """The ends and weights of the edges whose weight is not 0, and reasons for `OwnGraph.left_out`."""
    left_out = {}
    if weights is not None and not weights.all():
        left_out["edges of weight 0"] = f"{(weights == 0).sum()}, as if they were not there"
        ends, weights = ends[:, weights > 0], weights[weights > 0]
    loops = int((ends[0] == ends[1]).sum())
    if loops:
        left_out["loops"] = f"{loops} edges of a node with itself"
    pairs = np.sort(ends[:, ends[0] != ends[1]], axis=0)
    repeated = pairs.shape[1] - np.unique(pairs, axis=1).shape[1] if pairs.size else 0
    if repeated:
        counted = "counted once" + ("" if weights is None else ", with the mean of their weights")
        left_out["repeated edges"] = f"{repeated}, {counted}; directions are not used"
    return ends, weights, left_out


def _labels(nodes: Table) -> np.ndarray | None:
    """[n] of texts, "" if unknown; in a column of numbers, words such as NA are unknown too."""
    texts = _texts(nodes, "label")
    if texts is None:
        return None
    return np.where(nodes["label"].missing(class_kind(nodes["label"])), "", texts)


def _texts(table: Table, name: str) -> np.ndarray | None:
    return None if name not in table else np.array(["" if text is None else text for text in table[name].texts()], str)


def _ids(nodes: Table) -> xnn.graph.NodeNames:
    try:
        return xnn.graph.NodeNames(nodes["id"].texts().tolist())
    except ValueError:
        ids, counts = np.unique(nodes["id"].texts().astype(str), return_counts=True)
        raise DataError("graph", "an id occurs twice in nodes.csv.",
                        {"file": nodes.file, "id": repr(str(ids[counts > 1][0]))},
                        fix="one line for each node.") from None


def _numbers_of(names: list[str], ids: xnn.graph.NodeNames, file: Path) -> np.ndarray:
    """The numbers of nodes by their names, which may have another spelling where no node has this one."""
    others = {name: [*_spellings(name)] for name in ids.unknown(names)}
    neither = {*ids.unknown([other for spellings in others.values() for other in spellings])}
    known = {name: other for name, spellings in others.items() for other in spellings if other not in neither}
    if lacking := sorted(others.keys() - known.keys()):
        raise DataError("graph", f"an edge names the node {str(lacking[0])!r}, which nodes.csv lacks.", {"file": file},
                        fix="add the node, or drop the edge.")
    return ids.rows([known.get(name, name) for name in names] if known else names).astype(np.int64)


def _spellings(name: str) -> Iterator[str]:
    """Other spellings of a name: 3 and 3.0, since pandas writes integers with gaps so, and the codings of é."""
    yield name[:-2] if name.endswith(".0") else f"{name}.0"
    if not name.isascii():
        yield from (unicodedata.normalize(form, name) for form in ("NFC", "NFD"))


# ---- arrays --------------------------------------------------------------------------------------------------------


def _read_npz(file: Path, unused: str, names: list[str] | None) -> OwnGraph:
    try:
        check_file(file)
        with np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
            edges, features = arrays.pop("edges"), arrays.pop("features")
    except FileNotFoundError:
        raise DataError("graph", "the file is missing.", {"file": file},
                        fix="task.folder=PATH of an .npz file.") from None
    except DataError:
        raise
    except Exception as err:                                  # NumPy and zipfile raise errors of many types
        raise DataError("graph", "the file cannot be read.", {"file": file, "why": f"{type(err).__name__}: {err}"},
                        fix="arrays edges [2, m], features [n, f] and labels [n], written by numpy.savez.") from None
    labels, split = arrays.pop("labels", None), arrays.pop("split", None)
    weight_name = next((name for name in WEIGHT_ARRAYS if name in arrays), "weight")
    weights = arrays.pop(weight_name, None)
    n = len(features) if features.ndim else 0
    right = (features.ndim == 2 and features.dtype.kind in "biufSU" and edges.ndim == 2 and len(edges) == 2
             and edges.dtype.kind in "iu" and all(a is None or a.shape == (n,) for a in (labels, split))
             and (not edges.size or 0 <= edges.min() <= edges.max() < n)
             and (weights is None or (weights.shape == edges.shape[1:] and weights.dtype.kind in "biuf")))
    if not right:
        raise DataError("graph", "the arrays do not fit one another.",
                        {"file": file, "edges": f"{edges.dtype}{list(edges.shape)}, numbers of nodes below {n}",
                         "features": f"{features.dtype}{list(features.shape)}",
                         **({} if weights is None else {weight_name: f"{weights.dtype}{list(weights.shape)}"})},
                        fix="edges [2, m] of node numbers, features [n, f], labels and split [n], weight [m].")
    if not n:
        raise DataError("graph", "there are no nodes.", {"file": file, "features": f"{list(features.shape)}"},
                        fix="a row of features for each node.")
    if labels is not None and labels.dtype.kind == "f" and (labels != np.round(labels))[~np.isnan(labels)].any():
        raise DataError("graph", "the labels are not classes.", {"file": file, "labels": f"{labels.dtype}, fractions"},
                        fix="integers or texts.")
    left_out = {f"array {name}": f"not used, {x.dtype}{list(x.shape)}" for name, x in arrays.items()}
    if weights is not None and unused:
        left_out[f"array {weight_name}"] = f"{unused}, {len(weights):,} values"
        weights = None
    elif weights is not None:
        weights = _checked_weights(Table(file, pa.table({"weight": _column_of(weights)}), Layout()))
    ends, weights, apart = _with_weight(edges.astype(np.int64), weights)
    if names is None or len(names) != features.shape[1]:
        names = [f"feature {i}" for i in range(features.shape[1])]
    nodes = Table(file, pa.table(list(map(_column_of, features.T)), names) if names else _rows_only(n), Layout())
    return OwnGraph(xnn.graph.NodeNames(map(str, range(n))), ends, weights, nodes, "of features",
                    None if labels is None else as_labels(labels), None if split is None else as_texts(split),
                    left_out | apart)


def _column_of(values: np.ndarray) -> pa.Array:
    if values.dtype.kind in "SU":
        return pa.array(as_texts(values), pa.large_string())
    if values.dtype.kind == "f" and values.dtype.itemsize not in (4, 8):      # half or extended precision
        values = values.astype(np.float32 if values.dtype.itemsize < 4 else np.float64)
    return pa.array(values)


def _rows_only(n: int) -> pa.Table:
    """A table of n rows without features: its one column is none."""
    return pa.table({"id": pa.array(range(n))})
