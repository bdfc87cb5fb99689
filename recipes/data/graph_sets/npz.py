"""NumPy files: Amazon and Coauthor (Shchur et al., 2018; github.com/shchur/gnn-benchmark), and Reddit.

Names of nodes, features and classes in these files are pickled objects, which can run code, so they are not loaded.

    amazon_electronics_photo.npz, ms_academic_cs.npz, ...   adj_data, adj_indices, adj_indptr, adj_shape;
                                                            attr_data, ..., or attr_matrix; labels
    reddit_data.npz                                         feature, label, node_types (1, 2, 3: train, val, test)
    reddit_graph.npz                                        a matrix of scipy.sparse.save_npz
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from recipes.data.graph_sets.files import NodeSet, make_graph, wrong
from recipes.data.limits import check_file
from recipes.errors import DataError
from recipes.lazy import sp, xnn

if TYPE_CHECKING:
    pass

_MOST_FEATURES = 2 ** 32          # values of a dense float32 matrix: 16 GB


def read_npz(file: Path) -> NodeSet:
    """Reads a set of Amazon or Coauthor. Each entry of the adjacency is an edge; for a split, see `split_at_random`.

    Edges have no weights if all are 1.  Raises: DataError.
    """
    file = Path(file)
    names = ("data", "indices", "indptr", "shape")
    arrays = _arrays(file, [f"adj_{name}" for name in names],
                     ["attr_matrix", "labels", *(f"attr_{name}" for name in names)])
    adjacency = _matrix(file, "adj", *(arrays[f"adj_{name}"] for name in names))
    n = adjacency.shape[0]
    features = arrays.get("attr_matrix")
    if all(f"attr_{name}" in arrays for name in names):
        features = _matrix(file, "attr", *(arrays[f"attr_{name}"] for name in names))
        if features.shape[0] != n or features.shape[0] * features.shape[1] > _MOST_FEATURES:
            raise wrong(file, "the features do not suit the graph", {"nodes": n, "features": list(features.shape)},
                        "the .npz file as it was published.")
        features = features.toarray()
    labels = arrays.get("labels")
    _check(file, adjacency, features, labels)
    labels = None if labels is None else labels.astype(np.int32)
    return NodeSet(_graph(file, adjacency, features), labels, {}, np.arange(n))


def read_reddit(folder: Path) -> NodeSet:
    """Reddit posts of Hamilton et al. (2017), with the published split.  Raises: DataError."""
    data_file, graph_file = Path(folder) / "reddit_data.npz", Path(folder) / "reddit_graph.npz"
    data = _arrays(data_file, ["feature", "label", "node_types"], [])
    parts = _arrays(graph_file, ["shape", "data"], ["row", "col", "indices", "indptr"])
    n = len(data["feature"]) if data["feature"].ndim else 0
    if parts["shape"].ravel().tolist() != [n, n]:
        raise wrong(graph_file, "the adjacency does not fit the nodes", {"shape": parts["shape"], "features": n},
                    "both files as they were published.")
    if {"row", "col"} <= parts.keys():
        adjacency = _from_pairs(graph_file, parts["row"], parts["col"], parts["data"], n)
    elif {"indices", "indptr"} <= parts.keys():
        adjacency = _matrix(graph_file, "", *(parts[name] for name in ("data", "indices", "indptr", "shape")))
    else:
        raise wrong(graph_file, "needs the arrays row and col, or indices and indptr", {"it has": ", ".join(parts)},
                    "the file as it was published.")
    types = data["node_types"]
    _check(data_file, adjacency, data["feature"], data["label"])
    if types.shape != (adjacency.shape[0],) or not np.isin(types, (0, 1, 2, 3)).all():
        raise wrong(data_file, "node_types must be 1, 2 or 3 for each node", {"node_types": _text(types)},
                    "the file as it was published.")
    split = {name: np.flatnonzero(types == i) for i, name in enumerate(("train", "val", "test"), 1)}
    return NodeSet(_graph(graph_file, adjacency, data["feature"]), data["label"].astype(np.int32), split,
                   np.arange(adjacency.shape[0]))


def _arrays(file: Path, needed: list[str], optional: list[str]) -> dict[str, np.ndarray]:
    """These arrays of the file, which must be numeric."""
    if not file.is_file():
        raise wrong(file, "the file is missing", {}, "PATH of the .npz file as it was published.")
    try:
        check_file(file)
        with np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in (*needed, *optional) if name in archive.files}
    except DataError:
        raise
    except Exception as err:                                      # NumPy and zipfile raise many types
        raise wrong(file, "the file cannot be read", {"why": f"{type(err).__name__}: {err}"},
                    "the .npz file as it was published; arrays of numbers, not of pickled objects.") from None
    missing = [name for name in needed if name not in arrays]
    strange = [name for name, x in arrays.items() if x.dtype.kind not in "biuf"]
    if missing or strange:
        what = f"the array {missing[0]} is missing" if missing else f"the array {strange[0]} does not hold numbers"
        raise wrong(file, what, {"it has": ", ".join(arrays)}, "the .npz file as it was published.")
    return arrays


def _matrix(file: Path, name: str, data: np.ndarray, indices: np.ndarray, indptr: np.ndarray,
            shape: np.ndarray) -> sp.spmatrix:
    """Builds the matrix and checks every index, which SciPy's C++ code does not."""
    try:
        if indices.dtype.kind not in "iu" or indptr.dtype.kind not in "iu" or shape.dtype.kind not in "iu":
            raise ValueError("indices are not integers")
        out = sp.csr_matrix((data, indices, indptr), shape=tuple(shape.ravel().tolist()))
        out.check_format(full_check=True)
        return sp.csr_matrix(out, dtype=np.float32)
    except (TypeError, ValueError, OverflowError, IndexError) as err:
        raise wrong(file, f"the sparse matrix {name} is inconsistent".replace("matrix  ", "matrix "), {"why": str(err)},
                    "the .npz file as it was published.") from None


def _from_pairs(file: Path, row: np.ndarray, col: np.ndarray, data: np.ndarray, n: int) -> sp.spmatrix:
    fits = row.shape == col.shape == data.shape and row.ndim == 1 and row.dtype.kind in "iu" and col.dtype.kind in "iu"
    if not fits or (row.size and not 0 <= min(row.min(), col.min()) <= max(row.max(), col.max()) < n):
        raise wrong(file, "the sparse matrix is inconsistent",
                    {"row": _text(row), "col": _text(col), "data": _text(data), "nodes": n},
                    "the .npz file as it was published.")
    return sp.csr_matrix((data.astype(np.float32), (row, col)), shape=(n, n))


def _check(file: Path, adjacency: sp.spmatrix, features: np.ndarray | None, labels: np.ndarray | None) -> None:
    n, square = adjacency.shape[0], adjacency.shape[0] == adjacency.shape[1]
    fine = (square and (features is None or (features.ndim == 2 and len(features) == n and np.isfinite(features).all()))
            and (labels is None or (labels.shape == (n,) and labels.dtype.kind in "iu")))
    if not fine:
        raise wrong(file, "the arrays do not fit one another",
                    {"adjacency": list(adjacency.shape), "features": _text(features), "labels": _text(labels)},
                    "a square adjacency, finite features [n, f] and integer labels [n].")


def _graph(file: Path, adjacency: sp.spmatrix, features: np.ndarray | None) -> xnn.graph.Graph:
    entries = adjacency.tocoo()
    weights = None if (entries.data == 1).all() else entries.data
    return make_graph(entries.col.astype(np.int64), entries.row.astype(np.int64),
                      None if features is None else features.astype(np.float32), weights, adjacency.shape[0], file)


def _text(x: np.ndarray | None) -> str:
    return "none" if x is None else f"{x.dtype}{list(x.shape)}"
