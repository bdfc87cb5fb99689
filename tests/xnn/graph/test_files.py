"""Graphs and the names of their nodes in files."""

import itertools
import json
import os
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import xjax
import xnn.graph as xg
from tests.compare import assert_same
from tests.refusals import assert_refused
from xjax import tree_util
from xnn import safetensors
from xnn.graph import Graph, NodeNames, load_graph, save_graph

NPR = np.random.default_rng(0)


def draw(n=4, e=7):
    nodes = {"x": NPR.normal(size=(n, 3)).astype(np.float32), "a/b": (NPR.integers(0, 9, n), (NPR.random(n) < 0.5,)),
             "half": NPR.normal(size=(n, 2)).astype(ml_dtypes.bfloat16), "a": {"b": np.ones(n, np.uint16), "~": None}}
    edges = {"weight": NPR.normal(size=e), "features": NPR.normal(size=(e, 2)).astype(np.float16)}
    return Graph.from_edges(*NPR.integers(0, n, (2, e)), nodes, edges, globals=np.arange(2, dtype=np.int8))


ONE = draw()
GRAPHS = {
    "one": ONE,
    "bare": Graph.from_edges([0, 1], [1, 2]),
    "no edges": draw(3, 0),
    "nobody": Graph.from_edges([], [], np.zeros((0, 5), np.float32)),
    "no graph": xg.take_graphs(xg.batch([draw(), draw(2, 3)]), []),
    "padded batch": xg.pad(xg.batch([draw(), draw(2, 3)]), 9, 13, 4),
    "masked": xg.mask_graph(draw(), nodes=np.arange(4) < 3),
    "not sorted": Graph(None, None, np.array([1, 0]), np.array([1, 0]), [np.ones((1, 2))], np.array([2]),
                        np.array([2])),
    "tuned": ONE.tune(form="unrolled"),
    "of another byte order": Graph.from_edges([0], [1], np.array([[1.0], [2.0]], ">f8")),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_every_field_comes_back(name, tmp_path):
    graph, file = GRAPHS[name], tmp_path / "graph"
    save_graph(file, graph)
    again, names = load_graph(str(file))
    assert names is None and type(again) is type(graph) and os.listdir(tmp_path) == ["graph"]
    native = tree_util.tree_map(lambda leaf: np.asarray(leaf, np.asarray(leaf).dtype.name), graph)      # in byte order
    assert_same(again, native, tol=0)
    plain = again.replace(rows=None)
    assert all(isinstance(leaf, np.ndarray) and leaf.flags.writeable for leaf in tree_util.tree_leaves(plain))


def test_names_of_nodes_come_back(tmp_path):
    names = NodeNames(["", "größe", "日本 1", "a\0\n", "\ud800"])
    graph = Graph.from_edges([0], [4])
    save_graph(tmp_path / "graph", graph, names)
    assert load_graph(tmp_path / "graph").names == names
    save_graph(tmp_path / "graph", Graph.from_edges([], []), NodeNames([]))
    assert load_graph(tmp_path / "graph").names == NodeNames([])


def test_other_programs_read_the_arrays(tmp_path):
    save_graph(tmp_path / "graph", xjax.tree.map(xjax.numpy.asarray, ONE))
    theirs = pytest.importorskip("safetensors.numpy").load_file(tmp_path / "graph")
    np.testing.assert_array_equal(theirs["nodes/x"], ONE.nodes["x"])
    np.testing.assert_array_equal(theirs["nodes/a~1b/1/0"], ONE.nodes["a/b"][1][0])
    np.testing.assert_array_equal(theirs["senders"], ONE.senders)


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    file = tmp_path / "graph"
    save_graph(file, ONE)
    before = file.read_bytes()
    calls, count = itertools.count(), len(safetensors.read(file).tensors)

    def fails(tensor):
        if next(calls) > count + 2:                               # the first `count` belong to the checksum
            raise OSError("the disk is full")
        return as_bytes(tensor)

    as_bytes = safetensors.as_bytes
    monkeypatch.setattr(safetensors, "as_bytes", fails)
    with pytest.raises(OSError, match="full"):
        save_graph(file, draw())
    assert file.read_bytes() == before and os.listdir(tmp_path) == ["graph"]


def changed(data, text=None, **metadata):
    """The file with other texts in its header."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    if text is not None:
        header["__metadata__"]["graph"] = text(header["__metadata__"]["graph"])
    header["__metadata__"].update(metadata)
    head = json.dumps(header).encode()
    return len(head).to_bytes(8, "little") + head + data[8 + size:]


DAMAGE = {
    "empty": (lambda data: b"", "not in the safetensors format"),
    "truncated": (lambda data: data[:-1], "not in the safetensors format"),
    "truncated in its header": (lambda data: data[:60], "not in the safetensors format"),
    "nested": (lambda data: (10**5).to_bytes(8, "little") + b"[" * 10**5, "not in the safetensors format"),
    "pickle": (lambda data: b"\x80\x04\x95" + data, "not in the safetensors format"),
    "of weights": (lambda data: changed(data, format="pt"), "(?s)not contain a graph in this version.*pt, version 1"),
    "newer": (lambda data: changed(data, version="2"), "(?s)not contain a graph in this version.*version 2"),
    "one bit": (lambda data: data[:-3] + bytes([data[-3] ^ 4]) + data[-2:], "(?s)damaged.*checksum"),
    "no JSON": (lambda data: changed(data, lambda text: text[:-1]), "damaged"),
    "another class": (lambda data: changed(data, lambda text: text.replace('"Graph"', '"os.system"')), "damaged"),
    "another tree": (lambda data: changed(data, lambda text: text.replace('"tuple"', '"set"')), "damaged"),
    "other fields": (lambda data: changed(data, lambda text: text.replace('"mask"', '"musk"')), "(?s)damaged.*fields"),
    "no tensor": (lambda data: changed(data, lambda text: text.replace('"nodes/x"', '"nodes/y"')), "damaged"),
    "other ends": (lambda data: changed(data, lambda text: text.replace('"senders": "senders"', '"senders": "n_edge"')),
                   "(?s)damaged.*rows"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_and_foreign_files_are_refused(damage, tmp_path):
    change, message = DAMAGE[damage]
    save_graph(tmp_path / "whole", ONE)
    (tmp_path / "damaged").write_bytes(change((tmp_path / "whole").read_bytes()))
    with pytest.raises(ValueError, match=rf"(?s)^load_graph: .*{message.removeprefix('(?s)')}.*fix: "):
        load_graph(tmp_path / "damaged")


def test_arrays_that_do_not_fit_are_refused():
    bad = lambda **fields: lambda: save_graph(Path("nowhere"), ONE.replace(**fields))
    keep = {"by_sender": ONE.by_sender}
    for name, fields in {"`nodes`": {"nodes": np.ones(3)}, "`edges`": {"edges": {"weight": np.ones(8)}},
                         "`mask`": {"mask": np.ones(2, bool)}, "`n_edge`": {"n_edge": np.array([6])},
                         "`senders` is out of range": {"senders": ONE.senders + 4},
                         "`receivers` is not a vector": {"receivers": np.ones(7)},
                         "not sorted": {"receivers": ONE.receivers[::-1], **keep}}.items():
        assert_refused(bad(**fields), ValueError, ["save_graph: the graph is not valid", name])


WRONG = {
    "no graph": (lambda: save_graph("f", np.eye(2)), TypeError, ["save_graph: this is not a Graph", "f64[2,2]"]),
    "traced": (lambda: xjax.jit(lambda graph: save_graph("f", graph))(GRAPHS["bare"]), TypeError, ["save_graph"]),
    "complex": (lambda: save_graph("f", Graph.from_edges([], [], np.ones(2, np.complex128))), TypeError,
                ["save_graph: this part of the graph cannot be saved", "nodes", "c128[2]"]),
    "texts": (lambda: save_graph("f", Graph.from_edges([], [], {"id": np.array(["a"])})), TypeError, ["nodes/id"]),
    "keys": (lambda: save_graph("f", Graph.from_edges([], [], {1: np.ones(2)})), TypeError, ["be saved", "nodes"]),
    "names": (lambda: save_graph("f", ONE, NodeNames("ab")), TypeError, ["NodeNames: needs one name", "['ab']"]),
    "other names": (lambda: save_graph("f", ONE, NodeNames(["a"])), ValueError, ["every node must have one name", "4"]),
    "no file": (lambda: load_graph("/nowhere/graph"), FileNotFoundError, ["load_graph: there is no such file"]),
    "no text": (lambda: NodeNames(["a", None]), TypeError, ["NodeNames: a name must be a string", "None"]),
    "twice": (lambda: NodeNames(["a", "b", "a"]), ValueError, ["NodeNames: two nodes are called 'a'", "2"]),
    "unknown": (lambda: NodeNames(["gcn", "gat"]).rows(["gat", "gnn", "gnn"]), LookupError,
                ["NodeNames.rows: no node is called 'gnn'", "1 of 2", "gcn"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert_refused(*WRONG[name])
    assert not os.listdir(tmp_path)


def test_from_names_to_rows_and_back():
    names = NodeNames(np.array(["bert", "gat", "gcn"]))
    rows = names.rows(["gcn", "gcn", "bert"])
    assert rows.dtype == np.int32 and rows.tolist() == [2, 2, 0] and names.rows("gat") == 1
    assert names.rows([]).tolist() == [] and names[rows] == ["gcn", "gcn", "bert"] and names[-1] == "gcn"
    assert names[np.array([True, False, True])] == ["bert", "gcn"] == names[::2] and type(names[0]) is str
    assert list(names) == ["bert", "gat", "gcn"] and len(names) == 3 and "gat" in names and 1 not in names
    assert names.unknown(iter(["z", "gat", "y", "z"])) == ["z", "y"] and names.similar("gc") == ["gcn"]
    assert names == NodeNames(names) != NodeNames(["bert"]) and hash(names) == hash(NodeNames(names))
    assert repr(names) == "<NodeNames of 3 nodes: 'bert', 'gat', 'gcn'>"
    with pytest.raises(IndexError):
        names[3]
