"""Planetoid files: read right; a damaged or hostile file gives one clear error."""

import builtins
import contextlib
import os
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from recipes.data.planetoid import load_planetoid
from recipes.errors import DataError
from tests.refusals import assert_refused

N_FEATURES, N_CLASSES = 5, 3


@pytest.fixture
def toy(tmp_path):
    """A set of 12 nodes as ``ind.cora.*``: 3 train, 4 val, test ids 11, 7, 9; node 8, 10 absent."""
    rng = np.random.default_rng(1)
    features = sp.csr_matrix(rng.integers(0, 2, (12, N_FEATURES)).astype(np.float32))
    one_hot = np.eye(N_CLASSES, dtype=np.int32)[rng.integers(0, N_CLASSES, 12)]
    test = [11, 7, 9]
    graph = {0: [1, 1, 0], 1: [0, 2], 2: [1], 9: [11], 11: [9, 0]}
    parts = {
        "x": features[:3], "y": one_hot[:3], "allx": features[:7], "ally": one_hot[:7],
        "tx": features[test], "ty": one_hot[test], "graph": graph,
    }  # fmt: skip
    for name, value in parts.items():
        write(tmp_path, name, value)
    (tmp_path / "ind.cora.test.index").write_text("\n".join(map(str, test)) + "\n")
    return tmp_path, features, one_hot


def write(root, part, value):
    (root / f"ind.cora.{part}").write_bytes(pickle.dumps(value, protocol=3))


def fault(root):
    return str(assert_refused(lambda: load_planetoid("cora", root), DataError, ()))


def test_nodes_stand_in_their_own_order(toy):
    root, features, one_hot = toy
    graph = load_planetoid("cora", root)
    absent = [8, 10]
    expected = features.toarray()
    expected[absent] = 0
    np.testing.assert_array_equal(graph.features.toarray(), expected)
    present = np.setdiff1d(np.arange(12), absent)
    np.testing.assert_array_equal(graph.labels[present], one_hot.argmax(1)[present])
    assert graph.n_classes == N_CLASSES
    assert {k: v.tolist() for k, v in graph.split.items()} == {
        "train": [0, 1, 2], "val": [3, 4, 5, 6], "test": [7, 9, 11],
    }  # fmt: skip


def test_edges_are_symmetric_single_and_without_loops(toy):
    adjacency = load_planetoid("cora", toy[0]).adjacency.toarray()
    edges = {(0, 1), (1, 2), (9, 11), (0, 11)}
    expected = np.zeros((12, 12), np.float32)
    for i, j in edges:
        expected[i, j] = expected[j, i] = 1
    np.testing.assert_array_equal(adjacency, expected)


@pytest.mark.parametrize("part", ["x", "y", "allx", "ally", "tx", "ty", "graph", "test.index"])
def test_missing_file(toy, part):
    (toy[0] / f"ind.cora.{part}").unlink()
    assert fault(toy[0]) == (
        f"planetoid: the data file ind.cora.{part} is missing.\n"
        f"  looked in  {toy[0]}\n"
        "  folder     exists\n"
        "  fix: put the eight ind.cora.* files of github.com/kimiyoung/planetoid there, or "
        "name their folder: task.root=FOLDER or PLANETOID_DIR=FOLDER."
    )


def test_missing_folder(tmp_path):
    assert "  folder     does not exist\n" in fault(tmp_path / "nowhere")


class Asks:
    """Pickles as a call of ``function(*args)``."""

    def __init__(self, function, *args):
        self.call = function, args

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize(
    ("function", "name"),
    [(os.system, f"{os.system.__module__}.system"), (builtins.eval, "builtins.eval")],
)
def test_a_pickle_that_asks_for_code_runs_nothing(toy, function, name):
    trace = toy[0] / "it_ran"
    text = f"touch {trace}" if function is os.system else f"open({str(trace)!r}, 'w')"
    write(toy[0], "allx", Asks(function, text))
    assert fault(toy[0]) == (
        "planetoid: a data file contains code; nothing was run.\n"
        f"  file  {toy[0] / 'ind.cora.allx'}\n"
        f"  uses  {name}\n"
        "  fix: do not use this file; take the ind.* files from github.com/kimiyoung/planetoid."
    )
    assert not trace.exists()


def test_code_hidden_in_the_graph_is_found(toy):
    write(toy[0], "graph", {0: [1], 1: Asks(os.getpid)})
    assert "a data file contains code" in fault(toy[0])


def test_a_pickle_cannot_change_scipy(toy):
    before = sp.csr_matrix.toarray
    # BUILD on the class itself would set the attribute `toarray` of csr_matrix.
    poison = b"\x80\x02cscipy.sparse.csr\ncsr_matrix\n(N}X\x07\x00\x00\x00toarrayK\x01stb."
    (toy[0] / "ind.cora.x").write_bytes(poison)
    assert "damaged" in fault(toy[0])
    assert sp.csr_matrix.toarray is before


def _broken_csr(**fields):
    matrix = sp.csr_matrix(np.eye(3, N_FEATURES, dtype=np.float32))
    for name, value in fields.items():
        setattr(matrix, name, value)
    return matrix


@pytest.mark.parametrize(
    ("part", "value", "why"),
    [
        ("x", [1, 2], "must hold a sparse matrix, and holds a list"),
        ("tx", _broken_csr(indices=np.array([0, 1, 10**6])), "sparse matrix is inconsistent"),
        ("tx", _broken_csr(indptr=np.array([0, 1, 2, 99])), "sparse matrix is inconsistent"),
        ("tx", _broken_csr(indices=np.array([0, -1, 2])), "sparse matrix is inconsistent"),
        ("y", np.zeros((4, N_CLASSES)), "one-hot labels [3, 3], and holds float64[4, 3]"),
        ("y", np.array([[{}]] * 3), "one-hot labels [3, 3]"),
        ("ty", "text", "one-hot labels [3, 3]"),
        ("ally", np.zeros((7, 9)), "one-hot labels [3, 9], and holds int32[3, 3]"),
        ("allx", sp.csr_matrix(np.ones((7, 9), np.float32)), "has 5 features, and allx has 9"),
        ("graph", [1], "must hold {node: [neighbours]}"),
        ("graph", {0: 1}, "must hold {node: [neighbours]}"),
        ("graph", {0: [12]}, "names a node outside 0 .. 11"),
        ("graph", {0: [-1]}, "names a node outside 0 .. 11"),
        ("graph", {0: ["a"]}, "node ids must be integers"),
        ("graph", {0: [1.5]}, "node ids must be integers"),
    ],
)
def test_wrong_contents(toy, part, value, why):
    write(toy[0], part, value)
    message = fault(toy[0])
    assert message.startswith("planetoid: a data file is damaged or not of the Planetoid format.\n")
    assert why in message
    assert "fix: fetch it again" in message


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("7\nx\n", "one node id in each line"),
        ("7\n9\n", "it has 2 ids, and tx has 3 rows"),
        ("7\n9\n-1\n", "test ids must"),
        ("7\n9\n9\n", "test ids must"),
        ("7\n9\n3\n", "test ids must"),
        ("7\n9\n99999999999\n", "test ids must"),
    ],
)
def test_wrong_index(toy, text, why):
    (toy[0] / "ind.cora.test.index").write_text(text)
    assert why in fault(toy[0])


def test_every_truncation_and_many_flips_are_errors_or_harmless(toy):
    """No damage may crash the process or raise another error than DataError."""
    rng = np.random.default_rng(0)
    for part in ("x", "ally", "graph"):
        file = toy[0] / f"ind.cora.{part}"
        whole = file.read_bytes()
        for length in range(0, len(whole), 29):
            file.write_bytes(whole[:length])
            assert "damaged" in fault(toy[0])
        for _ in range(60):
            flipped = bytearray(whole)
            flipped[rng.integers(len(whole))] ^= 1 << int(rng.integers(8))
            file.write_bytes(flipped)
            with contextlib.suppress(DataError):
                load_planetoid("cora", toy[0])
        file.write_bytes(whole)


@pytest.mark.parametrize(
    ("name", "nodes", "edges", "features", "classes", "train"),
    [("cora", 2708, 5278, 1433, 7, 140), ("citeseer", 3327, 4552, 3703, 6, 120)],
)
def test_published_sizes(planetoid_root, name, nodes, edges, features, classes, train):
    graph = load_planetoid(name, planetoid_root)
    assert graph.features.shape == (nodes, features)
    assert graph.adjacency.nnz == 2 * edges
    assert graph.n_classes == classes
    assert [len(ids) for ids in graph.split.values()] == [train, 500, 1000]
