"""Cora, Citeseer and Pubmed in the Planetoid format (Yang et al. 2016): eight ``ind.*`` files each.

The files are pickles written by Python 2, and a pickle is a program: `_Restricted` lets it name
nothing but the six constructors these files use, so reading a hostile file raises and runs nothing.

    x, y         features and one-hot labels of the labelled training nodes
    allx, ally   the same of all nodes outside the test set, training nodes first
    tx, ty       the same of the test nodes, in the order of test.index
    graph        {node: [neighbours]}
    test.index   the ids of the test nodes, one a line
"""

from __future__ import annotations

import collections
import io
import os
import pickle
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from recipes.data.graphs import LabelledGraph
from recipes.errors import DataError

DATASETS = ("cora", "citeseer", "pubmed")
PARTS = ("x", "y", "allx", "ally", "tx", "ty", "graph")
N_VAL = 500  # the published split: the 500 nodes after the training nodes


def load_planetoid(name: str, root: str | os.PathLike[str]) -> LabelledGraph:
    """Reads dataset ``name`` from the folder ``root``, with the published split.

    Raises: DataError naming the file if one is missing, damaged or not of this format.
    """
    root = Path(root)
    parts = {part: _read_pickle(_existing(root, name, part)) for part in PARTS}
    index_file = _existing(root, name, "test.index")
    try:
        test_index = np.loadtxt(index_file, dtype=np.int64, ndmin=1)
    except ValueError as err:
        raise _damaged(index_file, f"it must hold one node id a line ({err})") from err
    n_features = parts["allx"].shape[1] if sp.issparse(parts["allx"]) else 0
    for part in ("allx", "x", "tx"):
        _check_csr(parts[part], n_features, _path(root, name, part))
    n_classes = np.shape(parts["ally"])[-1] if np.ndim(parts["ally"]) == 2 else 0
    for part, rows_of in (("ally", "allx"), ("y", "x"), ("ty", "tx")):
        shape = parts[rows_of].shape[0], n_classes
        _check_labels(parts[part], shape, _path(root, name, part))
    _check_index(test_index, parts["allx"].shape[0], parts["tx"].shape[0], index_file)
    return _assemble(parts, test_index, _path(root, name, "graph"))


def _assemble(parts: dict, test_index: np.ndarray, graph_file: Path) -> LabelledGraph:
    """Puts the pieces in node order: ``allx`` first, then every test row at its own id."""
    n_known, n_features = parts["allx"].shape
    n = max(n_known, int(test_index.max()) + 1)
    one_hot = np.zeros((n, parts["ally"].shape[1]), np.float32)
    # Citeseer's ids have gaps: 15 isolated nodes without features or label keep their zero rows.
    known, test = parts["allx"].tocoo(), parts["tx"].tocoo()
    rows = np.concatenate([known.row, test_index[test.row]])
    cols, values = (
        np.concatenate(pair) for pair in ((known.col, test.col), (known.data, test.data))
    )
    features = sp.csr_matrix((values, (rows, cols)), shape=(n, n_features))
    one_hot[:n_known], one_hot[test_index] = parts["ally"], parts["ty"]
    n_train = parts["x"].shape[0]
    return LabelledGraph(
        adjacency=_adjacency(parts["graph"], n, graph_file),
        features=features,
        labels=one_hot.argmax(axis=1).astype(np.int32),
        n_classes=one_hot.shape[1],
        split={
            "train": np.arange(n_train),
            "val": np.arange(n_train, min(n_train + N_VAL, n_known)),
            "test": np.sort(test_index),
        },
    )


def _adjacency(graph: object, n: int, file: Path) -> sp.csr_matrix:
    if not isinstance(graph, dict) or not all(isinstance(v, list) for v in graph.values()):
        raise _damaged(file, "it must hold {node: [neighbours]}")
    counts = [len(neighbours) for neighbours in graph.values()]
    rows = np.repeat(_node_ids(list(graph), file), counts)
    cols = _node_ids([i for neighbours in graph.values() for i in neighbours], file)
    if rows.size and not (0 <= min(rows.min(), cols.min()) <= max(rows.max(), cols.max()) < n):
        raise _damaged(file, f"it names a node outside 0 .. {n - 1}")
    keep = rows != cols  # self loops are added once, by the normalisation
    rows, cols = rows[keep], cols[keep]
    ones = np.ones(2 * len(rows), np.float32)
    both = np.concatenate([rows, cols]), np.concatenate([cols, rows])
    out = sp.csr_matrix((ones, both), shape=(n, n))  # sums the doubles: an edge may stand twice
    out.data[:] = 1
    return out


def _node_ids(values: list, file: Path) -> np.ndarray:
    try:
        ids = np.array(values) if values else np.zeros(0, np.int64)
    except ValueError as err:
        raise _damaged(file, f"node ids must be integers ({err})") from err
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise _damaged(file, f"node ids must be integers, and some are {ids.dtype}")
    return ids.astype(np.int64)


# ---- reading -------------------------------------------------------------------------------------

_RECONSTRUCT = np.zeros(1).__reduce__()[0]  # NumPy's rebuilder of arrays, wherever it lives now


class _Restricted(pickle.Unpickler):
    """Unpickler that knows six names.  Anything else a pickle asks for is refused by name."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, encoding="latin1")  # Python 2 strings hold the arrays' raw bytes
        # A fresh class per file: BUILD may set attributes on a class, and must not reach SciPy's.
        self.csr_fields = type("csr_matrix", (), {})
        self.allowed = {
            ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
            ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
            ("numpy", "ndarray"): np.ndarray,
            ("numpy", "dtype"): np.dtype,
            ("scipy.sparse.csr", "csr_matrix"): self.csr_fields,
            ("scipy.sparse._csr", "csr_matrix"): self.csr_fields,
            ("collections", "defaultdict"): collections.defaultdict,
            ("__builtin__", "list"): list,
            ("builtins", "list"): list,
        }

    def find_class(self, module: str, name: str) -> object:
        try:
            return self.allowed[module, name]
        except KeyError:
            raise _ForbiddenError(f"{module}.{name}") from None


class _ForbiddenError(pickle.UnpicklingError):
    """The pickle named something outside the table."""


def _read_pickle(file: Path) -> object:
    reader = _Restricted(io.BytesIO(file.read_bytes()))
    try:
        value = reader.load()
    except _ForbiddenError as err:
        raise DataError(
            "planetoid",
            "a data file asks to run code; nothing was run.",
            {"file": file, "asks for": err},
            fix="do not use this file; take the ind.* files from github.com/kimiyoung/planetoid.",
        ) from None
    except Exception as err:  # damaged bytes make a pickle fail in any way there is
        raise _damaged(file, f"{type(err).__name__} while reading it ({err})") from err
    return _to_csr(value, file) if type(value) is reader.csr_fields else value


def _to_csr(fields: object, file: Path) -> sp.csr_matrix:
    """Builds the matrix and checks every index: SciPy's C++ trusts them."""
    state = vars(fields)
    try:
        shape = tuple(state["_shape"] if "_shape" in state else state["shape"])
        out = sp.csr_matrix((state["data"], state["indices"], state["indptr"]), shape=shape)
        out.check_format(full_check=True)
        return out.astype(np.float32)
    except (KeyError, TypeError, ValueError, OverflowError) as err:
        raise _damaged(file, f"its sparse matrix is inconsistent ({err})") from err


def _check_csr(value: object, n_features: int, file: Path) -> None:
    if not sp.issparse(value):
        raise _damaged(file, f"it must hold a sparse matrix, and holds a {type(value).__name__}")
    if value.shape[1] != n_features:
        raise _damaged(file, f"it has {value.shape[1]} features, and allx has {n_features}")


def _check_labels(value: object, shape: tuple[int, int], file: Path) -> None:
    if isinstance(value, np.ndarray) and value.shape == shape and value.dtype.kind in "biuf":
        return
    got = f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else type(value)
    raise _damaged(file, f"it must hold one-hot labels {list(shape)}, and holds {got}")


def _check_index(ids: np.ndarray, n_known: int, n_test: int, file: Path) -> None:
    if len(ids) != n_test or not n_test:
        raise _damaged(file, f"it has {len(ids)} ids, and tx has {n_test} rows")
    # A set may skip some ids (Citeseer: 15 of 1015); one that skips most is no set but a wrong id.
    if len(np.unique(ids)) < n_test or ids.min() < n_known or ids.max() >= n_known + 10 * n_test:
        raise _damaged(
            file, f"test ids must be distinct and follow the {n_known} nodes of allx closely"
        )


def _path(root: Path, name: str, part: str) -> Path:
    return root / f"ind.{name}.{part}"


def _existing(root: Path, name: str, part: str) -> Path:
    file = _path(root, name, part)
    if not file.is_file():
        raise DataError(
            "planetoid",
            f"the data file {file.name} is missing.",
            {"looked in": root, "folder": "exists" if root.is_dir() else "does not exist"},
            fix=f"put the eight ind.{name}.* files of github.com/kimiyoung/planetoid there, or "
            "name their folder: task.root=FOLDER or PLANETOID_DIR=FOLDER.",
        )
    return file


def _damaged(file: Path, why: str) -> DataError:
    return DataError(
        "planetoid",
        "a data file is damaged or not of the Planetoid format.",
        {"file": file, "why": why},
        fix="fetch it again from github.com/kimiyoung/planetoid (folder data).",
    )
