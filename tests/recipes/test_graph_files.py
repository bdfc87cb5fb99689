"""Readers of graph files: small files of each format are read right, and a wrong file gives one clear error."""

import contextlib
import gzip
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from recipes.data.graph_sets import (
    NodeSet,
    as_labelled,
    inductive,
    read_edge_list,
    read_graphml,
    read_npz,
    read_ogb_graphs,
    read_ogb_nodes,
    read_ogb_typed,
    read_reddit,
    read_tu,
    split_at_random,
    split_by_time,
)
from recipes.data.graph_sets.splits import edges_of
from recipes.errors import DataError
from tests.refusals import assert_refused
from xnn.graph.samplers.typed_sampling import TypedSampler


def fault(call, *args, **options):
    """The text of the error: the fault, the file and a fix, in a few lines."""
    message = str(assert_refused(lambda: call(*args, **options), DataError, "\n  fix: "))
    assert len(message.splitlines()) < 9
    return message


def edges(graph):
    return list(zip(graph.senders.tolist(), graph.receivers.tolist(), strict=True))


def write(folder, name, text):
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    with (gzip.open if name.endswith(".gz") else open)(file, "wt") as out:
        out.write(text)
    return file


# ---- TU ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def tu(tmp_path):
    """A triangle and an edge, in the folder TOY."""
    folder = tmp_path / "TOY"
    parts = {
        "A": "2, 1\n1, 2\n2, 3\n3, 2\n1, 3\n3, 1\n4, 5\n5, 4\n", "graph_indicator": "1\n1\n1\n2\n2\n",
        "graph_labels": "1\n-1\n", "node_labels": "3\n0\n3\n7\n0\n", "edge_labels": "0\n0\n1\n1\n1\n1\n0\n0\n",
        "node_attributes": "0.5, 1\n1.5, 2\n2.5, 3\n3.5, 4\n4.5, 5\n",
    }
    for name, text in parts.items():
        write(folder, f"TOY_{name}.txt", text)
    return folder


def test_tu(tu):
    result = read_tu(tu)
    assert [(graph.n_nodes, graph.n_edges) for graph in result.graphs] == [(3, 6), (2, 2)]
    assert result.labels.tolist() == [1, 0] and result.classes.tolist() == [-1, 1]
    assert edges(result.graphs[1]) == [(1, 0), (0, 1)]
    assert result.graphs[1].nodes.tolist() == [[3.5, 4, 0, 0, 1], [4.5, 5, 1, 0, 0]]
    of = dict(zip(edges(result.graphs[0]), result.graphs[0].edges.tolist(), strict=True))
    assert of == {(1, 0): [1, 0], (0, 1): [1, 0], (1, 2): [0, 1], (2, 1): [0, 1], (0, 2): [0, 1], (2, 0): [0, 1]}
    assert result.graphs[0].by_sender.tolist() == np.argsort(result.graphs[0].senders, kind="stable").tolist()


def test_tu_without_features_and_with_targets(tu):
    for name in ("node_labels", "edge_labels", "node_attributes", "graph_labels"):
        (tu / f"TOY_{name}.txt").unlink()
    assert "TOY_graph_attributes.txt" in fault(read_tu, tu)
    write(tu, "TOY_graph_attributes.txt", "0.5\n1.5\n")
    result = read_tu(tu.rename(tu.with_name("MOVED")), "TOY")
    assert result.classes is None and result.labels.tolist() == [0.5, 1.5] and result.labels.dtype == np.float32
    assert result.graphs[0].nodes is None and result.graphs[0].edges is None and result.graphs[0].n_nodes == 3


@pytest.mark.parametrize(("part", "text", "message"), [
    ("A", None, "the file is missing"), ("A", "1, 6\n" * 8, "an edge ends at an unknown node"),
    ("A", "0, 1\n" * 8, "an edge ends"),
    ("A", "1, 4\n" * 8, "an edge joins two graphs"), ("A", "1, x\n", "cannot be read"),
    ("A", "1, 2, 3\n", "needs two nodes"),
    ("A", "1, 2.5\n", "cannot be read"), ("A", "1, 2\n3\n", "cannot be read"),
    ("A", "1, 2\n", "needs one line for each edge"),
    ("A", "1, 99999999999999999999\n", "cannot be read"),
    ("graph_indicator", "1\n1\n3\n3\n3\n", "must ascend"), ("graph_indicator", "", "must ascend"),
    ("graph_indicator", "1\n2\n1\n2\n2\n", "must ascend"), ("graph_labels", "1\n", "needs one line for each graph"),
    ("node_labels", "1\n2\n", "needs one line for each node"), ("node_attributes", "1\n2\n", "one line for each node"),
    ("node_attributes", "nan\n1\n1\n1\n1\n", "NaN or infinite"),
    ("node_attributes", "1\n1\nred\n1\n1\n", "cannot be read"),
])
def test_wrong_tu(tu, part, text, message):
    file = tu / f"TOY_{part}.txt"
    file.unlink() if text is None else file.write_text(text)
    result = fault(read_tu, tu)
    assert message in result and str(file if message[:10] != "needs one " or part != "A" else tu) in result


# ---- OGB ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def ogb_nodes(tmp_path):
    folder = tmp_path / "arxiv"
    for name, text in {
        "raw/edge.csv.gz": "0,1\n2,0\n3,3\n", "raw/num-node-list.csv.gz": "4\n", "raw/num-edge-list.csv.gz": "3\n",
        "raw/node-feat.csv.gz": "0,0.5\n1,1.5\n2,2.5\n3,3.5\n", "raw/node-label.csv.gz": "4\n0\n2\n2\n",
        "split/time/train.csv.gz": "3\n1\n", "split/time/valid.csv.gz": "0\n", "split/time/test.csv.gz": "2\n",
    }.items():
        write(folder, name, text)
    return folder


def test_ogb_nodes(ogb_nodes):
    result = read_ogb_nodes(ogb_nodes)
    assert edges(result.graph) == [(2, 0), (0, 1), (3, 3)] and result.graph.nodes[:, 1].tolist() == [0.5, 1.5, 2.5, 3.5]
    assert result.labels.tolist() == [4, 0, 2, 2] and result.labels.dtype == np.int32
    assert {name: ids.tolist() for name, ids in result.split.items()} == {"train": [1, 3], "val": [0], "test": [2]}
    both = read_ogb_nodes(ogb_nodes, "time", both_directions=True)
    assert sorted(edges(both.graph)) == [(0, 1), (0, 2), (1, 0), (2, 0), (3, 3), (3, 3)]
    labelled = as_labelled(result, ogb_nodes)
    assert labelled.n_classes == 5 and labelled.adjacency.toarray().tolist() == [
        [0, 1, 1, 0], [1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]


@pytest.fixture
def ogb_graphs(tmp_path):
    folder = tmp_path / "molhiv"
    for name, text in {
        "raw/edge.csv": "0,1\n1,2\n1,0\n",
        "raw/num-node-list.csv.gz": "3\n1\n2\n", "raw/num-edge-list.csv.gz": "2\n0\n1\n",
        "raw/edge-feat.csv.gz": "1\n2\n3\n", "raw/node-feat.csv.gz": "0\n1\n2\n3\n4\n5\n",
        "raw/graph-label.csv.gz": "1,0\n,1\n0,\n", "split/scaffold/train.csv.gz": "0\n1\n",
        "split/scaffold/valid.csv.gz": "2\n", "split/scaffold/test.csv.gz": "",
    }.items():
        write(folder, name, text)
    return folder


def test_ogb_graphs(ogb_graphs):
    result = read_ogb_graphs(ogb_graphs)
    assert [(g.n_nodes, edges(g)) for g in result.graphs] == [(3, [(0, 1), (1, 2)]), (1, []), (2, [(1, 0)])]
    assert [g.edges.tolist() for g in result.graphs] == [[[1], [2]], [], [[3]]]
    assert [g.nodes.ravel().tolist() for g in result.graphs] == [[0, 1, 2], [3], [4, 5]]
    np.testing.assert_array_equal(result.labels, np.array([[1, 0], [np.nan, 1], [0, np.nan]], np.float32))
    assert [len(ids) for ids in result.split.values()] == [2, 1, 0]
    both = read_ogb_graphs(ogb_graphs, both_directions=True)
    assert edges(both.graphs[2]) == [(1, 0), (0, 1)] and both.graphs[2].edges.tolist() == [[3], [3]]
    assert "many graphs" in fault(read_ogb_nodes, ogb_graphs)


@pytest.mark.parametrize(("name", "text", "message"), [
    ("raw/edge.csv", "0,1\n1,3\n1,0\n", "an edge ends at a node that its graph does not have"),
    ("raw/edge.csv", "0,1\n", "one line for each"),
    ("raw/num-node-list.csv.gz", "3\n1\n", "a number for each graph"),
    ("raw/num-node-list.csv.gz", "-1\n", "a number for"),
    ("raw/node-feat.csv.gz", "1\n", "needs one line for each node"),
    ("raw/graph-label.csv.gz", "x,1\n", "cannot be read"),
    ("raw/graph-label.csv.gz", "1\n", "one line for each graph"),
    ("split/scaffold/test.csv.gz", "3\n", "numbers out of range"),
    ("split/random/test.csv.gz", "0\n", "there is not exactly one split"),
])
def test_wrong_ogb(ogb_graphs, name, text, message):
    write(ogb_graphs, name, text)
    assert message in fault(read_ogb_graphs, ogb_graphs)


def test_damaged_and_missing_ogb(ogb_nodes, tmp_path):
    assert "there is no split 'random'" in fault(read_ogb_nodes, ogb_nodes, "random")
    file = ogb_nodes / "raw/node-feat.csv.gz"
    whole = file.read_bytes()
    for damaged in (whole[:20], whole[:-5], b"text", b""):
        file.write_bytes(damaged)
        assert str(file) in fault(read_ogb_nodes, ogb_nodes)
    assert "folder  does not exist" in fault(read_ogb_nodes, tmp_path / "nowhere")


@pytest.fixture
def ogb_typed(tmp_path):
    folder = tmp_path / "mag"
    for name, text in {
        "raw/num-node-dict.csv.gz": "author,paper\n2,3\n", "raw/node-feat/paper/node-feat.csv.gz": "1,2\n3,4\n5,6\n",
        "raw/triplet-type-list.csv.gz": "author,writes,paper\npaper,cites,paper\n",
        "raw/relations/author___writes___paper/edge.csv.gz": "0,2\n1,0\n",
        "raw/relations/paper___cites___paper/edge.csv.gz": "2,0\n",
        "raw/node-label/paper/node-label.csv.gz": "7\n0\n7\n", "split/time/paper/train.csv.gz": "0\n",
        "split/time/paper/valid.csv.gz": "2\n", "split/time/paper/test.csv.gz": "1\n",
    }.items():
        write(folder, name, text)
    return folder


def test_ogb_with_types(ogb_typed):
    result = read_ogb_typed(ogb_typed)
    assert result.n_nodes == {"author": 2, "paper": 3} and result.labels["paper"].tolist() == [7, 0, 7]
    assert result.split["paper"]["val"].tolist() == [2] and list(result.features) == ["paper"]
    sampler = TypedSampler(result.relations, result.n_nodes, (4, 4), features=result.features)
    block = sampler.sample("paper", result.split["paper"]["train"])
    assert block.ids["author"][block.node_mask["author"]].tolist() == [1, 0]
    assert block.nodes["paper"][block.node_mask["paper"]].tolist() == [[1, 2], [5, 6]]


@pytest.mark.parametrize(("name", "text", "message"), [
    ("raw/num-node-dict.csv.gz", "author,paper\n2\n", "needs a line of types"),
    ("raw/num-node-dict.csv.gz", "author,paper\n2,-3\n", "needs a line of types"),
    ("raw/num-node-dict.csv.gz", "author\n2\n", "an unknown node of the type 'paper'"),
    ("raw/triplet-type-list.csv.gz", "author,paper\n", "a slash or a wrong number of words"),
    ("raw/triplet-type-list.csv.gz", "../author,writes,paper\n", "a slash or a wrong number of words"),
    ("raw/triplet-type-list.csv.gz", "author,reads,paper\n", "the file is missing"),
    ("raw/relations/paper___cites___paper/edge.csv.gz", "3,0\n", "an unknown node of the type 'paper'"),
    ("raw/node-feat/paper/node-feat.csv.gz", "1\n", "one line for each node"),
])
def test_wrong_ogb_with_types(ogb_typed, name, text, message):
    write(ogb_typed, name, text)
    assert message in fault(read_ogb_typed, ogb_typed)


# ---- npz ---------------------------------------------------------------------------------------------------------


def csr_arrays(name, matrix):
    matrix = sp.csr_matrix(matrix)
    parts = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "shape": np.array(matrix.shape)}
    return {f"{name}_{part}" if name else part: value for part, value in parts.items()}


ADJACENCY = np.array([[0, 1, 1], [0, 0, 1], [0, 0, 0]], np.float32)
ATTRIBUTES = np.array([[0, 2], [1, 0], [0, 0]], np.float32)


def amazon(**changes):
    arrays = {**csr_arrays("adj", ADJACENCY), **csr_arrays("attr", ATTRIBUTES), "labels": np.array([1, 0, 1]),
              "class_names": np.array(["a", "b"], object)} | changes
    return {name: x for name, x in arrays.items() if x is not None}


@pytest.mark.parametrize("dense", [False, True])
def test_amazon(tmp_path, dense):
    change = dict.fromkeys([f"attr_{x}" for x in ("data", "indices", "indptr", "shape")]) | {"attr_matrix": ATTRIBUTES}
    np.savez(tmp_path / "a.npz", **amazon(**change if dense else {}))
    result = read_npz(tmp_path / "a.npz")
    assert edges(result.graph) == [(1, 0), (2, 0), (2, 1)] and result.graph.edges is None
    np.testing.assert_array_equal(result.graph.nodes, ATTRIBUTES)
    assert result.labels.tolist() == [1, 0, 1] and result.split == {}


class Asks:
    def __reduce__(self):
        return open, ("/tmp/it-ran", "w")


@pytest.mark.parametrize(("changes", "message"), [
    ({"adj_indptr": None}, "the array adj_indptr is missing"),
    ({"adj_indices": np.array([1, 2, 9])}, "adj is inconsistent"),
    ({"adj_indptr": np.array([0, 2, 9, 3])}, "adj is inconsistent"), ({"adj_shape": np.array([3, 4])}, "do not fit"),
    ({"adj_shape": np.array([-1, 4])}, "adj is inconsistent"),
    ({"adj_shape": np.array([3.0, 3.0])}, "adj is inconsistent"),
    ({"adj_indices": np.array([-1, 2, 0])}, "adj is inconsistent"),
    ({"attr_indices": np.array([1, 5])}, "attr is inconsistent"),
    ({"labels": np.array([1, 0])}, "do not fit"), ({"labels": np.array([0.5, 1, 2])}, "do not fit"),
    ({"attr_data": np.array([np.nan, 1])}, "do not fit"),
    ({"labels": np.array(["a", "b", "c"])}, "does not hold numbers"),
    ({"labels": np.array([{}, {}, {}])}, "cannot be read"), ({"adj_data": np.array([Asks()])}, "cannot be read"),
])
def test_wrong_npz(tmp_path, changes, message):
    np.savez(tmp_path / "a.npz", **amazon(**changes))
    assert message in fault(read_npz, tmp_path / "a.npz")


def test_damaged_npz(tmp_path):
    file = tmp_path / "a.npz"
    assert "missing" in fault(read_npz, file)
    np.savez(file, **amazon())
    whole = file.read_bytes()
    for content in (b"", b"text", whole[:100], whole[:-40], pickle.dumps([1])):
        file.write_bytes(content)
        assert "cannot be read" in fault(read_npz, file)


@pytest.mark.parametrize("form", ["coo", "csr"])
def test_reddit(tmp_path, form):
    matrix = sp.coo_matrix(ADJACENCY) if form == "coo" else sp.csr_matrix(2 * ADJACENCY)
    sp.save_npz(tmp_path / "reddit_graph.npz", matrix)
    data = {"feature": ATTRIBUTES, "label": np.array([5, 0, 1]), "node_ids": np.arange(3)}
    np.savez(tmp_path / "reddit_data.npz", **data, node_types=np.array([3, 1, 2]))
    result = read_reddit(tmp_path)
    assert edges(result.graph) == [(1, 0), (2, 0), (2, 1)]
    assert (result.graph.edges is None) == (form == "coo")
    assert {name: ids.tolist() for name, ids in result.split.items()} == {"train": [1], "val": [2], "test": [0]}
    np.savez(tmp_path / "reddit_data.npz", **data, node_types=np.array([3, 1, 4]))
    assert "1, 2 or 3" in fault(read_reddit, tmp_path)
    entry = {"row": np.array([3]), "col": np.array([0]), "data": np.ones(1)}
    np.savez(tmp_path / "reddit_graph.npz", **entry, shape=np.array([3, 3]))
    assert "inconsistent" in fault(read_reddit, tmp_path)


# ---- GraphML -----------------------------------------------------------------------------------------------------

GRAPHML = """<?xml version="1.0"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="a" for="node" attr.name="age" attr.type="double"/><key id="k" for="node" attr.name="kind" attr.type="string"/>
<key id="w" for="edge" attr.name="weight" attr.type="double"/>
<graph edgedefault="DIRECTION">
<node id="x"><data key="a">1.5</data><data key="k">red</data></node>
<node id="y"><data key="a">2</data><data key="k">blue</data></node>
<node id="z"><data key="a">3</data></node>
<edge source="x" target="y"><data key="w">0.5</data></edge><edge source="z" target="z"><data key="w">2</data></edge>
</graph></graphml>"""


@pytest.mark.parametrize("direction", ["directed", "undirected"])
def test_graphml(tmp_path, direction):
    file = write(tmp_path, "g.graphml", GRAPHML.replace("DIRECTION", direction))
    result = read_graphml(file, label="kind", weight="weight")
    assert result.ids.tolist() == ["x", "y", "z"] and result.labels.tolist() == [1, 0, -1]
    assert result.graph.nodes.tolist() == [[1.5], [2], [3]]
    weights = dict(zip(edges(result.graph), result.graph.edges.tolist(), strict=True))
    assert weights == {(0, 1): 0.5, (2, 2): 2.0} | ({(1, 0): 0.5} if direction == "undirected" else {})
    assert read_graphml(file).graph.edges is None


BOMB = ('<?xml version="1.0"?><!DOCTYPE graphml [<!ENTITY a "aaaaaaaaaa">'
        + "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10 if i else "&a;"}">' for i in range(9)) + "]>")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("head", [BOMB, '<?xml version="1.0"?><!DOCTYPE graphml SYSTEM "file:///etc/passwd">'])
def test_entities_are_refused(tmp_path, head, encoding):
    body = GRAPHML.partition("?>")[2].replace("red", "&a8;").replace("DIRECTION", "directed")
    (tmp_path / "g.graphml").write_bytes((head + body).encode(encoding))
    assert "declares a document type" in fault(read_graphml, tmp_path / "g.graphml")


@pytest.mark.parametrize(("text", "options", "message"), [
    ("<graphml>", {}, "is not GraphML"), ("", {}, "is not GraphML"), ("<a></a>", {}, "is not GraphML"),
    (GRAPHML, {"features": ["kind"]}, "'kind' of a node is not a number"),
    (GRAPHML, {"label": "kinds"}, "no node has the data"),
    (GRAPHML, {"weight": "length"}, "'length' of a edge is not a number"),
    (GRAPHML.replace("1.5", "old"), {}, "is not GraphML"),
])
def test_wrong_graphml(tmp_path, text, options, message):
    file = write(tmp_path, "g.graphml", text.replace("DIRECTION", "directed"))
    assert message in fault(read_graphml, file, **options)
    assert "missing" in fault(read_graphml, tmp_path / "nowhere.graphml")


# ---- lists of edges ----------------------------------------------------------------------------------------------


def test_a_list_of_edges(tmp_path):
    file = write(tmp_path, "edges.txt", "# SNAP\n10 2\n2\t7\n% more\n\n7 10\n")
    result = read_edge_list(file)
    assert result.ids.tolist() == [2, 7, 10]                                          # in numerical order
    assert edges(result.graph) == [(2, 0), (0, 1), (1, 2)] and result.graph.edges is None and result.times is None
    both = read_edge_list(write(tmp_path, "edges.txt.gz", "a b\n"), both_directions=True)
    assert edges(both.graph) == [(1, 0), (0, 1)] and both.ids.tolist() == ["a", "b"]


def test_a_csv_with_texts_weights_and_times(tmp_path):
    text = 'when,to,from,w\n2024-05-17,"C#, the language",ada,2\n2023-01-01T10:00:00,ada,007,1.5\n2024-05-18,ada,7,1\n'
    result = read_edge_list(write(tmp_path, "e.csv", text), "from", "to", weight="w", time="when")
    assert result.ids.tolist() == ["007", "7", "C#, the language", "ada"]
    assert edges(result.graph) == [(3, 2), (0, 3), (1, 3)] and result.graph.edges.tolist() == [2, 1.5, 1]
    times = ("2024-05-17", "2023-01-01T10", "2024-05-18")
    assert result.times.tolist() == [np.datetime64(time, "s").astype(int) for time in times]
    parts = split_by_time(result.times, until=(result.times[1], result.times[0]))
    assert {name: ids.tolist() for name, ids in parts.items()} == {"train": [1], "val": [0], "test": [2]}
    known = edges_of(result, np.append(parts["train"], parts["val"]))
    assert edges(known.graph) == [(3, 2),
    (0, 3)] and known.graph.n_nodes == 4 and known.times.tolist() == result.times[:2].tolist()
    positions = read_edge_list(write(tmp_path, "e.tsv", "a\tb\t-3\nb\tc\t4\n"), header=False, time=2)
    assert positions.times.tolist() == [-3, 4]


@pytest.mark.parametrize(("name", "text", "options", "message"), [
    ("e.txt", "", {}, "no edges"), ("e.csv", "source,target\n", {}, "no edges"), ("e.txt", "a,b\n", {}, "no edges"),
    ("e.txt", "a b\nc\n", {}, "cannot be read"), ("e.csv", "from,to\na,b\n", {}, "not exactly one column 'source'"),
    ("e.csv", "source,source,target\na,b,c\n", {}, "not exactly one column 'source'"),
    ("e.txt", "a b\n", {"weight": 2}, "not exactly one column 2"),
    ("e.csv", "source,target,w\na,b,c\n", {"weight": "w"}, "does not hold numbers"),
    ("e.csv", "source,target,w\na,b,nan\n", {"weight": "w"}, "NaN or infinite"),
    ("e.csv", "source,target,t\na,b,2024-13-45\n", {"time": "t"}, "does not hold times"),
    ("e.csv", "source,target,t\na,b,today\n", {"time": "t"}, "does not hold numbers"),
    ("e.csv", "source,target\na,b\n,b\n", {}, "an edge has an empty id"),
    ("e.csv", 'source,target\n"a,b\n', {}, "fix: "),
    ("e.txt.gz", None, {}, "cannot be read"), ("e.csv", b"\xff\xfe\x00", {}, "cannot be read"),
])
def test_wrong_lists(tmp_path, name, text, options, message):
    if isinstance(text, str):
        write(tmp_path, name, text)
    else:
        (tmp_path / name).write_bytes(text or b"no gzip")
    assert message in fault(read_edge_list, tmp_path / name, **options)


# ---- splits ------------------------------------------------------------------------------------------------------


def test_random_splits():
    labels = np.repeat([0, 1, -1, 2], [40, 60, 5, 80])
    parts = split_at_random(labels, 3, per_class=(20, 10))
    assert [np.bincount(labels[parts[name]]).tolist() for name in parts] == [[20] * 3, [10] * 3, [10, 30, 50]]
    some = split_at_random(labels, 3, fractions=(0.1, 0.3))
    assert [len(ids) for ids in some.values()] == [108, 18, 54]
    for split in (parts, some):
        assert sorted(np.concatenate(list(split.values())).tolist()) == np.flatnonzero(labels >= 0).tolist()
    assert (split_at_random(labels, 3)["val"] == split_at_random(labels, 3)["val"]).all()
    assert split_at_random(labels, 3)["val"].tolist() != split_at_random(labels, 4)["val"].tolist()
    for options in ({"per_class": (30, 11)}, {"fractions": (0.5, 0.5)}, {"fractions": (-0.1, 0.2)}):
        assert "not enough labelled nodes" in fault(split_at_random, labels, **options)
    assert "not enough" in fault(split_at_random, np.full(4, -1))


def test_splits_by_time():
    times = np.array([5, 1, 1, 2, 9, 3, 4, 8, 7, 6])
    parts = split_by_time(times, (0.2, 0.2))
    assert {name: sorted(times[ids].tolist()) for name, ids in parts.items()} == {
        "train": [1, 1, 2, 3, 4, 5], "val": [6, 7], "test": [8, 9]}
    ties = split_by_time(np.array([1, 1, 1, 1, 2]), (0.2, 0.2))
    assert [len(ids) for ids in ties.values()] == [4, 0, 1]
    for times in (np.ones(5), np.zeros(0)):
        assert "would be empty" in fault(split_by_time, times)


def test_training_of_an_inductive_split_sees_nothing_else(ogb_nodes):
    whole = read_ogb_nodes(ogb_nodes, both_directions=True)._replace(
        split={"train": np.array([0, 1]), "val": np.array([3]), "test": np.array([2])})
    parts = inductive(whole)
    assert parts["train"].ids.tolist() == [0, 1] and edges(parts["train"].graph) == [(1, 0), (0, 1)]
    val = parts["val"]
    assert val.ids.tolist() == [0, 1, 3] and val.split["val"].tolist() == [2] and val.labels.tolist() == [4, 0, 2]
    assert edges(val.graph) == [(1, 0), (0, 1), (2, 2), (2, 2)] and val.graph.nodes[:, 0].tolist() == [0, 1, 3]
    assert parts["test"].graph is whole.graph and list(parts["test"].split) == ["test"]
    assert "needs train, val and test" in fault(inductive, whole._replace(split={}))


def test_a_set_that_does_not_suit_the_recipe(tmp_path):
    result = read_edge_list(write(tmp_path, "e.txt", "a b\n"))
    assert isinstance(result, NodeSet) and "needs features" in fault(as_labelled, result, tmp_path)


# ---- damage ------------------------------------------------------------------------------------------------------


def damaged(whole, seed=0):
    """Truncated files, and files with some bytes changed."""
    rng = np.random.default_rng(seed)
    yield from (whole[:length] for length in range(0, len(whole), max(1, len(whole) // 12)))
    for _ in range(40):
        changed = bytearray(whole)
        for _ in range(int(rng.integers(1, 4))):
            changed[rng.integers(len(whole))] = int(rng.integers(256))
        yield bytes(changed)


def test_no_damage_is_another_error(tu, ogb_graphs, ogb_typed, tmp_path):
    np.savez(tmp_path / "a.npz", **amazon())
    write(tmp_path, "g.graphml", GRAPHML.replace("DIRECTION", "directed"))
    write(tmp_path, "e.csv", "source,target,w,t\na,b,1,2024-01-01\nb,c,2,2024-01-02\n")
    write(tmp_path, "e.txt.gz", "1 2\n2 3\n" * 9)
    cases = [(file, lambda: read_tu(tu)) for file in sorted(tu.iterdir())]
    cases += [(file, lambda: read_ogb_graphs(ogb_graphs)) for file in sorted(ogb_graphs.rglob("*.*"))]
    cases += [(file, lambda: read_ogb_typed(ogb_typed)) for file in sorted(ogb_typed.rglob("*.*"))]
    cases += [(tmp_path / "a.npz", lambda: read_npz(tmp_path / "a.npz")),
              (tmp_path / "g.graphml", lambda: read_graphml(tmp_path / "g.graphml", label="kind")),
              (tmp_path / "e.csv", lambda: read_edge_list(tmp_path / "e.csv", weight="w", time="t")),
              (tmp_path / "e.txt.gz", lambda: read_edge_list(tmp_path / "e.txt.gz"))]
    for file, call in cases:
        whole = file.read_bytes()
        for content in damaged(whole):
            file.write_bytes(content)
            with contextlib.suppress(DataError):
                call()
        file.write_bytes(whole)
        call()


@pytest.mark.parametrize(("changes", "message"), [
    ({"attr_shape": np.array([3, 10 ** 15])}, "do not suit the graph"),
    ({"adj_shape": np.array([10 ** 15, 10 ** 15])}, "is inconsistent"),
])
def test_sizes_that_are_only_claimed_take_no_memory(tmp_path, ogb_graphs, changes, message):
    np.savez(tmp_path / "a.npz", **amazon(**changes))
    assert message in fault(read_npz, tmp_path / "a.npz")
    write(ogb_graphs, "raw/num-node-list.csv.gz", "3\n1\n99999999999999\n")
    assert "too many nodes" in fault(read_ogb_graphs, ogb_graphs)
