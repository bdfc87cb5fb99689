"""Cora, Citeseer and Pubmed in the Planetoid format (Yang et al. 2016): eight ``ind.*`` files each.

The files are pickles written by Python 2, and a pickle is a program: `_Restricted` allows only the six
constructors that these files use, so reading a hostile file raises an error and runs nothing.

- x, y: features and one-hot labels of the labelled training nodes
- allx, ally: the same of all nodes outside the test set, training nodes first
- tx, ty: the same of the test nodes, in the order of test.index
- graph: {node: [neighbours]}
- test.index: the ids of the test nodes, one in each line
"""

from __future__ import annotations

import collections
import hashlib
import io
import os
import pickle
from pathlib import Path

import numpy as np

from recipes.data.graphs import LabelledGraph, undirected
from recipes.errors import DataError
from recipes.lazy import sp

DATASETS = ("cora", "citeseer", "pubmed")
PARTS = ("x", "y", "allx", "ally", "tx", "ty", "graph")
N_VAL = 500                            # the published split: the 500 nodes after the training nodes

# SHA-256 of the files of github.com/kimiyoung/planetoid, since a file with a flipped byte can still be unpickled.
PUBLISHED = {
    "ind.cora.x": "23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab",
    "ind.cora.y": "94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1",
    "ind.cora.allx": "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543",
    "ind.cora.ally": "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71",
    "ind.cora.tx": "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a",
    "ind.cora.ty": "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad",
    "ind.cora.graph": "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d",
    "ind.cora.test.index": "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875",
    "ind.citeseer.x": "d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6",
    "ind.citeseer.y": "8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924",
    "ind.citeseer.allx": "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668",
    "ind.citeseer.ally": "f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95",
    "ind.citeseer.tx": "539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21",
    "ind.citeseer.ty": "55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce",
    "ind.citeseer.graph": "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7",
    "ind.citeseer.test.index": "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4",
}


def changed_files(name: str, root: str | os.PathLike[str]) -> list[str]:
    """The files of dataset ``name`` whose SHA-256 differs from that of the published file, if it is known."""
    files = [_path(Path(root), name, part) for part in (*PARTS, "test.index")]
    return [file.name for file in files
            if file.name in PUBLISHED and hashlib.sha256(file.read_bytes()).hexdigest() != PUBLISHED[file.name]]


def planetoid_folder(root: Path | None) -> Path:
    """The folder of the files: ``root``, else $PLANETOID_DIR, else data/planetoid."""
    return root or Path(os.environ.get("PLANETOID_DIR", "data/planetoid"))


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
        raise _damaged(index_file, f"it must hold one node id in each line ({err})") from err
    n_features = parts["allx"].shape[1] if sp.issparse(parts["allx"]) else 0
    for part in ("allx", "x", "tx"):
        _check_csr(parts[part], n_features, _path(root, name, part))
    n_classes = np.shape(parts["ally"])[-1] if np.ndim(parts["ally"]) == 2 else 0
    for part, rows_of in (("ally", "allx"), ("y", "x"), ("ty", "tx")):
        _check_labels(parts[part], (parts[rows_of].shape[0], n_classes), _path(root, name, part))
    _check_index(test_index, parts["allx"].shape[0], parts["tx"].shape[0], index_file)
    return _assemble(parts, test_index, _path(root, name, "graph"))


def _assemble(parts: dict, test_index: np.ndarray, graph_file: Path) -> LabelledGraph:
    """Joins the parts in the order of nodes: ``allx`` first, then every test row at its id."""
    n_known, n_features = parts["allx"].shape
    n = max(n_known, int(test_index.max()) + 1)
    one_hot = np.zeros((n, parts["ally"].shape[1]), np.float32)
    # Citeseer's ids have gaps: 15 isolated nodes without features or label keep their zero rows.
    known, test = parts["allx"].tocoo(), parts["tx"].tocoo()
    rows = np.concatenate([known.row, test_index[test.row]])
    cols, values = (np.concatenate(pair) for pair in ((known.col, test.col), (known.data, test.data)))
    features = sp.csr_matrix((values, (rows, cols)), shape=(n, n_features))
    one_hot[:n_known], one_hot[test_index] = parts["ally"], parts["ty"]
    n_train = parts["x"].shape[0]
    split = {"train": np.arange(n_train), "val": np.arange(n_train, min(n_train + N_VAL, n_known)),
             "test": np.sort(test_index)}
    return LabelledGraph(_adjacency(parts["graph"], n, graph_file), features, one_hot.argmax(axis=1).astype(np.int32),
                         one_hot.shape[1], split)


def _adjacency(graph: object, n: int, file: Path) -> sp.csr_matrix:
    if not isinstance(graph, dict) or not all(isinstance(v, list) for v in graph.values()):
        raise _damaged(file, "it must hold {node: [neighbours]}")
    counts = [len(neighbours) for neighbours in graph.values()]
    rows = np.repeat(_node_ids(list(graph), file), counts)
    cols = _node_ids([i for neighbours in graph.values() for i in neighbours], file)
    if rows.size and not (0 <= min(rows.min(), cols.min()) <= max(rows.max(), cols.max()) < n):
        raise _damaged(file, f"it names a node outside 0 .. {n - 1}")
    return undirected(rows, cols, n)                          # self-loops are added once, by the normalisation


def _node_ids(values: list, file: Path) -> np.ndarray:
    try:
        ids = np.array(values) if values else np.zeros(0, np.int64)
    except ValueError as err:
        raise _damaged(file, f"node ids must be integers ({err})") from err
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise _damaged(file, f"node ids must be integers, and are {ids.dtype}")
    return ids.astype(np.int64)


# ---- reading -------------------------------------------------------------------------------------

_RECONSTRUCT = np.zeros(1).__reduce__()[0]  # NumPy's function that rebuilds arrays; its module depends on the version


class _Restricted(pickle.Unpickler):
    """An unpickler that allows six names, and raises an error with any other name that a pickle uses."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, encoding="latin1")  # the arrays' bytes are in Python 2 strings
        # A new class for each file: the opcode BUILD may set attributes of a class, and must not change SciPy's.
        self.csr_fields = type("csr_matrix", (), {})
        self.allowed = {
            **dict.fromkeys((f"numpy.{core}.multiarray._reconstruct" for core in ("core", "_core")), _RECONSTRUCT),
            **dict.fromkeys((f"scipy.sparse.{csr}.csr_matrix" for csr in ("csr", "_csr")), self.csr_fields),
            "numpy.ndarray": np.ndarray, "numpy.dtype": np.dtype, "collections.defaultdict": collections.defaultdict,
            "__builtin__.list": list, "builtins.list": list}

    def find_class(self, module: str, name: str) -> object:
        try:
            return self.allowed[f"{module}.{name}"]
        except KeyError:
            raise _ForbiddenError(f"{module}.{name}") from None


class _ForbiddenError(pickle.UnpicklingError):
    """The pickle uses a name that is not in the table."""


def _read_pickle(file: Path) -> object:
    reader = _Restricted(io.BytesIO(file.read_bytes()))
    try:
        value = reader.load()
    except _ForbiddenError as err:
        raise DataError("planetoid", "a data file contains code; nothing was run.", {"file": file, "uses": err},
                        fix="do not use this file; take the ind.* files from github.com/kimiyoung/planetoid.") from None
    except Exception as err:  # damaged bytes can raise any error
        raise _damaged(file, f"{type(err).__name__} while reading it ({err})") from err
    return _to_csr(value, file) if type(value) is reader.csr_fields else value


def _to_csr(fields: object, file: Path) -> sp.csr_matrix:
    """Builds the matrix and checks every index, which SciPy's C++ code does not."""
    state = vars(fields)
    try:
        shape = tuple(state["_shape"] if "_shape" in state else state["shape"])
        out = sp.csr_matrix((state["data"], state["indices"], state["indptr"]), shape=shape)
        out.check_format(full_check=True)
        return sp.csr_matrix(out, dtype=np.float32)
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
    # A set may skip some ids (Citeseer: 15 of 1015); if most are skipped, an id is wrong.
    if len(np.unique(ids)) < n_test or ids.min() < n_known or ids.max() >= n_known + 10 * n_test:
        raise _damaged(file, f"test ids must be distinct and follow the {n_known} nodes of allx closely")


def _path(root: Path, name: str, part: str) -> Path:
    return root / f"ind.{name}.{part}"


def _existing(root: Path, name: str, part: str) -> Path:
    file = _path(root, name, part)
    if not file.is_file():
        raise DataError("planetoid", f"the data file {file.name} is missing.",
                        {"looked in": root, "folder": "exists" if root.is_dir() else "does not exist"},
                        fix=f"put the eight ind.{name}.* files of github.com/kimiyoung/planetoid there, or name their "
                            "folder: task.root=FOLDER or PLANETOID_DIR=FOLDER.")
    return file


def _damaged(file: Path, why: str) -> DataError:
    return DataError("planetoid", "a data file is damaged or not of the Planetoid format.", {"file": file, "why": why},
                     fix="fetch it again from github.com/kimiyoung/planetoid (folder data).")
