"""Graphs of the user, as csv files or as .npz."""

import networkx as nx
import numpy as np
import pytest

from recipes.classification import one_class
from recipes.data.node_features import Encoding, encoding_of
from recipes.data.own_graph import adjacency_of, read_graph
from recipes.errors import ConfigError, DataError
from recipes.settings.config_file import load_config
from recipes.trained import open_run
from recipes.training.run import run
from tests.recipes.conftest import train


@pytest.fixture
def graph(tmp_path):
    """Two groups of 15 nodes, most edges inside them; two nodes have no label."""
    rng = np.random.default_rng(0)
    side = np.arange(30) % 2
    edges = [(i, j) for i in range(30) for j in range(i) if rng.random() < (0.4 if side[i] == side[j] else 0.03)]
    features = rng.normal(size=(30, 2)) + side[:, None]
    lines = [f"n{i},{'' if i > 27 else 'ab'[side[i]]},{x:.3f},{y:.3f}" for i, (x, y) in enumerate(features)]
    (tmp_path / "nodes.csv").write_text("id,label,f,g\n" + "\n".join(lines) + "\n")
    (tmp_path / "edges.csv").write_text("source,target\n" + "".join(f"n{i},n{j}\n" for i, j in edges))
    return tmp_path


def config(folder, *overrides):
    return load_config("gcn", ["task={name: node_classification, dataset: folder, dropout: 0}", f"task.folder={folder}",
                               "steps=60", *overrides])


@pytest.mark.parametrize("devices", [1, 3])
def test_it_is_learned_on_any_number_of_devices(graph, devices):
    trained = train(config(graph, f"devices={devices}"))
    assert trained.test["accuracy"] >= 0.8
    assert trained.losses[-1] < 0.3


def test_npz_and_csv_are_the_same_graph(graph, tmp_path):
    csv = read_graph(graph)
    labels = np.where(csv.labels == "", "-1", csv.labels)
    features = np.stack([csv.nodes[name].numbers() for name in ("f", "g")], 1)
    np.savez(tmp_path / "graph.npz", edges=csv.edges, features=features, labels=labels)
    npz = read_graph(tmp_path / "graph.npz")
    for name in ("edges", "labels"):
        np.testing.assert_array_equal(getattr(csv, name), getattr(npz, name))
    losses = [train(config(path, "steps=3", "devices=1")).losses for path in (graph, tmp_path / "graph.npz")]
    np.testing.assert_array_equal(*losses)


def test_a_split_of_the_file_is_taken(graph):
    lines = (graph / "nodes.csv").read_text().splitlines()
    split = ["split"] + ["train" if i < 10 else "test" if i < 20 else "" for i in range(30)]
    (graph / "nodes.csv").write_text("".join(f"{line},{name}\n" for line, name in zip(lines, split, strict=True)))
    trained = train(config(graph, "steps=2"))
    assert set(trained.test) == {"loss", "accuracy"}
    with pytest.raises(ConfigError, match="task.split_seed  is for the dataset folder"):
        load_config("gcn", ["task.split_seed=3"])


def test_predictions_for_every_node_by_id(graph, tmp_path):
    run(config(graph, f"run_dir={tmp_path / 'run'}"), "gcn")
    prediction = open_run(tmp_path / "run").predict(graph)
    assert prediction["id"].tolist() == [f"n{i}" for i in range(30)]
    assert (prediction["label"] == np.array(["a", "b"])[np.arange(30) % 2]).mean() >= 0.8
    (graph / "nodes.csv").write_text((graph / "nodes.csv").read_text().replace("f,g", "f,h"))
    with pytest.raises(DataError, match="the features are not those"):
        open_run(tmp_path / "run").predict(graph)


@pytest.mark.parametrize(("file", "text", "message"), [
    ("edges.csv", "source,target\nn1,m1\n", "an edge names the node 'm1', which nodes.csv lacks"),
    ("edges.csv", "from,to\nn1,n2\n", "there is no column 'source', 'target'"),
    ("nodes.csv", "id,label,f\nn1,a,1\nn1,b,2\n", "an id occurs twice in nodes.csv"),
    ("nodes.csv", "id,label,f\n", "there are no nodes: the file has a header only"),
    ("nodes.csv", "id,label,f\nn1,a,1\n,b,1\n", "values are missing"),
    ("nodes.csv", "", "the file is empty"),
    ("edges.csv", "", "the file is empty"),
    ("edges.csv", "source,target,weight\nn1,n2,1\nn2,n3,-0.5\n", "(?s)weight of an edge is negative.*'-0.5' in row 2"),
    ("edges.csv", "source,target,weight\nn1,n2,nan\n", "(?s)missing or not a finite number.*edge_weights=false"),
    ("edges.csv", "source,target,weight\nn1,n2,\nn1,n3,2\n", "(?s)missing or not a finite.*an empty cell in row 1"),
    ("edges.csv", "source,target,weight\nn1,n2,inf\n", "missing or not a finite number"),
    ("edges.csv", "source,target,weight\nn1,n2,strong\n", "the column 'weight' must have numbers"),
])
def test_wrong_files(graph, file, text, message):
    (graph / file).write_text(text)
    with pytest.raises(DataError, match=message):
        read_graph(graph)


@pytest.mark.parametrize(("ids", "ends"), [
    ("0.0 1.0 2.0", "0 2"), ("0 1 2", "0.0 2.0"), ("0 1 2", "0.0 2"), ("a b caf\xe9", "a cafe\u0301"),
    ("a b cafe\u0301", "a caf\xe9"), ("0 0.0 2", "0 2.0"), ("x \u1112\u1161 y.0", "x y")])
def test_other_spellings_of_ids_in_edges(tmp_path, ids, ends):
    """Integers in a column with gaps are floats in pandas, and macOS has another coding of letters with accents."""
    (tmp_path / "nodes.csv").write_text("id,label\n" + "".join(f"{name},a\n" for name in ids.split()))
    (tmp_path / "edges.csv").write_text("source,target\n" + ",".join(ends.split()) + "\n")
    assert read_graph(tmp_path).edges.tolist() == [[0], [2]]


def test_a_missing_file_or_folder(graph, tmp_path):
    with pytest.raises(DataError, match="(?s)graph: there is no such folder.*nowhere/nodes.csv.*fix: a folder with"):
        read_graph(tmp_path / "nowhere")
    (graph / "edges.csv").unlink()
    with pytest.raises(DataError, match="(?s)graph: the file is missing.*edges.csv"):
        read_graph(graph)


@pytest.mark.parametrize("arrays", [
    {"edges": [[0, 9], [1, 1]], "features": np.ones((3, 2))}, {"edges": [[0], [1]], "features": np.ones(3)},
    {"edges": [[0.5], [1]], "features": np.ones((3, 2))}, {"edges": [[0], [1]], "features": np.ones((3, 2), complex)},
    {"edges": np.zeros((2, 0), int), "features": np.ones((0, 2))},
    {"edges": [[0], [1]], "features": np.ones((3, 2)), "weight": [1, 2]},
    {"edges": [[0], [1]], "features": np.ones((3, 2)), "weights": ["1"]},
    {"edges": [[0], [1]], "features": np.ones((3, 2)), "edge_weight": [-1.0]},
    {"edges": [[0], [1]], "features": np.ones((3, 2)), "labels": [1]}, {"edges": [[0], [1]]},
])
def test_arrays_that_do_not_fit(tmp_path, arrays):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match="fix: "):
        read_graph(tmp_path / "a.npz")


def test_labels_of_one_class_or_none(graph):
    (graph / "nodes.csv").write_text((graph / "nodes.csv").read_text().replace(",b,", ",a,"))
    with pytest.raises(DataError, match="labels of at least two classes"):
        train(config(graph))


# ---- features --------------------------------------------------------------------------------------------------------


def written(folder, nodes, edges="source,target\nn0,n1\n"):
    """A graph of rows such as "a,1.5": label and features of the nodes n0, n1, ...; the first row is the header."""
    head, *rows = nodes
    folder.mkdir(exist_ok=True)
    (folder / "nodes.csv").write_text(f"id,{head}\n" + "".join(f"n{i},{row}\n" for i, row in enumerate(rows)))
    (folder / "edges.csv").write_text(edges)
    return folder


def features(folder, *overrides, train=None):
    """(features, the encoding, facts of the summary) of a graph, by the statistics of the nodes ``train``."""
    graph = read_graph(folder)
    train = np.arange(len(graph.ids)) if train is None else np.asarray(train)
    encoding, facts = encoding_of(graph, config(folder, *overrides).task, train)
    return encoding.matrix(graph).toarray(), encoding, facts


ROOT2 = np.sqrt(0.5)


@pytest.mark.parametrize(("cells", "expected"), [
    (["10000", "30000"], [[-1], [1]]), (["1e9", "1000000002"], [[-1], [1]]),                # a large offset
    (["0", "1"], [[0], [1]]), (["1", "0"], [[1], [0]]), (["true", "false"], [[1], [0]]),   # a bag of words
    (["0", "2"], [[-1], [1]]), (["-1", "1"], [[-1], [1]]),
    (["red", "blue"], [[0, 1], [1, 0]]), (["007", "7"], [[1, 0], [0, 1]]), (["NA", "EU"], [[0, 1], [1, 0]]),
])
def test_features_are_encoded_as_those_of_tables(tmp_path, cells, expected):
    x, *_ = features(written(tmp_path / "g", ["label,f", *(f"a,{cell}" for cell in cells)]))
    np.testing.assert_allclose(x, expected, rtol=1e-6)


def test_dates_are_features(tmp_path):
    x, encoding, _ = features(written(tmp_path / "g", ["label,f", "a,2024-01-01", "b,2024-01-03"]))
    assert encoding.columns[0]["kind"] == "date" and x.shape == (2, 5)
    np.testing.assert_allclose(x[:, 0], [-1, 1], rtol=1e-6)


@pytest.mark.parametrize(("cells", "why"), [
    (["14.62", "14.62", "14.620000000000001"], "the same number in all 3 rows"), (["x", "x", "x"], "the same text"),
    (["2024-01-01"] * 3, "the same date"), (["", "", ""], "no values"),
])
def test_columns_that_say_nothing_are_left_out(tmp_path, cells, why):
    rows = ["label,f,g", *(f"a,{cell},{i}" for i, cell in enumerate(cells))]
    x, encoding, facts = features(written(tmp_path / "g", rows))
    assert encoding.names == ["g"] and x.shape == (3, 1)
    assert f"column f of nodes.csv: {why}" in facts["left out"]


def test_statistics_are_those_of_training(tmp_path):
    folder = written(tmp_path / "g", ["label,f,c", "a,1,x", "a,3,y", "b,1000,z"])
    x, encoding, _ = features(folder, train=[0, 1])
    np.testing.assert_allclose(x, [[-1, 1, 0], [1, 0, 1], [998, 0, 0]])
    other = read_graph(written(tmp_path / "h", ["label,c,f,more", "a,y,2,1", "a,q,1,1"]))
    np.testing.assert_allclose(encoding.matrix(other).toarray(), [[0, 0, 1], [-1, 0, 0]])
    assert encoding.notes(other) == ["not known from training: the column 'c' in 1 of 2, first 'q' in row 2 after the "
                                     "header"]


@pytest.mark.parametrize("cell", ["", "NA", "nan", "inf"])
def test_gaps_are_refused_or_filled(tmp_path, cell):
    folder = written(tmp_path / "g", ["label,f", "a,1", f"a,{cell}", "b,3"])
    with pytest.raises(DataError, match=r"(?s)values are missing.*f +1 of 3, first in row 2.*task.missing=fill"):
        features(folder)
    x, _, facts = features(folder, "task.missing=fill")
    np.testing.assert_allclose(x, [[-1, 0], [0, 1], [1, 0]])
    assert facts["filled"] == "f: 1 of 3, first in row 2"


def test_gaps_of_an_npz_file(tmp_path):
    np.savez(tmp_path / "g.npz", edges=[[0], [1]], features=[[1.0], [np.nan], [3.0]], labels=[0, 1, 1])
    with pytest.raises(DataError, match="values are missing"):
        features(tmp_path / "g.npz")
    np.testing.assert_allclose(features(tmp_path / "g.npz", "task.missing=fill")[0], [[-1, 0], [0, 1], [1, 0]])


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.longdouble, np.int64, np.uint8, bool, str])
def test_dtypes_of_an_npz_file(tmp_path, kind):
    array = np.array([[0], [1], [0]]).astype(kind)
    np.savez(tmp_path / "g.npz", edges=[[0], [1]], features=array, labels=[0, 1, 1])
    np.testing.assert_allclose(features(tmp_path / "g.npz")[0], [[0], [1], [0]])


def test_kinds_are_stated(tmp_path):
    folder = written(tmp_path / "g", ["label,zip,f", "a,1,1", "b,2,3"])
    x, encoding, facts = features(folder, "task.columns={zip: category, f: ignore}")
    assert encoding.names == ["zip"] and x.tolist() == [[1, 0], [0, 1]] and "by task.columns" in facts["left out"]
    with pytest.raises(DataError, match="there is no feature 'zap', 'label'"):
        features(folder, "task.columns={zap: category, label: ignore}")
    with pytest.raises(ConfigError, match="task.columns  is for the dataset folder"):
        load_config("gcn", ["task.columns={zip: category}"])


def test_numbers_as_they_are(tmp_path):
    x, *_ = features(written(tmp_path / "g", ["label,f,g", "a,10,5", "b,30,5"]), "task.standardize=false")
    assert x.tolist() == [[10, 5], [30, 5]]


@pytest.mark.parametrize("rows", [["label", "a", "b"], ["label,name", "a,same", "b,same"]])
def test_without_features_each_node_has_a_vector(tmp_path, rows):
    x, encoding, facts = features(written(tmp_path / "g", rows))
    assert x.tolist() == [[1, 0], [0, 1]] and facts["features"].startswith("none: ")
    graph = read_graph(tmp_path / "g")
    assert Encoding([], ["n1", "n2", "n0"]).matrix(graph).toarray().tolist() == [[0, 0, 1], [1, 0, 0]]      # by name
    with pytest.raises(DataError, match="(?s)a node is not known from training.*first    'n1'"):
        Encoding([], ["n0", "m1"]).matrix(graph)


def test_neither_edges_nor_features(tmp_path):
    with pytest.raises(DataError, match="neither edges nor features"):
        features(written(tmp_path / "g", ["label", "a", "b"], "source,target\nn0,n0\n"))


def test_a_graph_without_edges_says_so(tmp_path):
    *_, facts = features(written(tmp_path / "g", ["label,f", "a,1", "b,2"], "source,target\n"))
    assert facts["no edges"] == "each node is classified by its own features only"


# ---- weights ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("edges", "expected"), [
    ("n0,n1,2 n1,n2,4", {(0, 1): 2 / 3, (1, 2): 4 / 3}), ("n0,n1,5 n1,n2,5", {(0, 1): 1, (1, 2): 1}),
    ("n0,n1,2 n1,n0,4 n1,n2,6", {(0, 1): 3 / 4, (1, 2): 6 / 4}),                # the mean of a repeated edge
    ("n0,n1,0 n1,n2,3", {(1, 2): 1}), ("n0,n1,1e6 n1,n2,3e6", {(0, 1): 0.5, (1, 2): 1.5}),
    ("n0,n1,0 n1,n2,0", {}), ("n0,n0,3 n1,n2,3", {(1, 2): 1}), ("n0,n1,007 n1,n2,7", {(0, 1): 1, (1, 2): 1})])
@pytest.mark.parametrize("form", ["csv", "npz", "graphml"])
def test_weights_are_divided_by_their_mean(tmp_path, edges, expected, form):
    folder = written(tmp_path / "g", ["label,f", "a,1", "b,2", "a,3"],
                     "source,target,weight\n" + edges.replace(" ", "\n") + "\n")
    ends = [line.split(",") for line in edges.split()]
    if form == "npz":
        folder = tmp_path / "g.npz"
        np.savez(folder, edges=np.array([[int(end[1]) for end in line[:2]] for line in ends]).T,
                 features=np.ones((3, 1)), edge_weight=[float(line[2]) for line in ends])
    elif form == "graphml":
        graph = nx.MultiDiGraph()
        graph.add_nodes_from(("n0", "n1", "n2"), f=1.0)
        graph.add_weighted_edges_from((a, b, float(w)) for a, b, w in ends)
        folder = tmp_path / "g.graphml"
        nx.write_graphml(graph, folder)
    graph = read_graph(folder)
    adjacency = np.zeros((3, 3))
    for (i, j), weight in expected.items():
        adjacency[i, j] = adjacency[j, i] = weight
    np.testing.assert_allclose(adjacency_of(graph, graph.mean_weight).toarray(), adjacency, rtol=1e-6)


def test_graphml_is_read_as_the_folder_is(graph, tmp_path):
    csv = read_graph(graph)
    made = nx.Graph()
    for i, name in enumerate(csv.ids):
        label = {"label": str(csv.labels[i])} if csv.labels[i] else {}
        made.add_node(name, f=float(csv.nodes["f"].numbers()[i]), g=float(csv.nodes["g"].numbers()[i]), **label)
    made.add_edges_from(zip(*(csv.ids[end] for end in csv.edges), strict=True), colour="red")
    nx.write_graphml(made, tmp_path / "g.graphml")
    losses = [train(config(path, "steps=3", "devices=1")).losses for path in (graph, tmp_path / "g.graphml")]
    np.testing.assert_allclose(*losses, rtol=1e-6)
    assert "column colour of the edges" in read_graph(tmp_path / "g.graphml").left_out


@pytest.fixture
def weighted(tmp_path):
    """Nodes of two groups with edges at random, of which those inside a group weigh 20 times as much as others."""
    rng = np.random.default_rng(1)
    side = np.arange(40) % 2
    edges = [(i, j, 20 if side[i] == side[j] else 1) for i in range(40) for j in range(i) if rng.random() < 0.25]
    rows = [f"{'ab'[s]},{x:.2f}" for s, x in zip(side, rng.normal(size=40) + side, strict=True)]
    return written(tmp_path / "weighted", ["label,f", *rows],
                   "source,target,weight\n" + "".join(f"n{i},n{j},{w}\n" for i, j, w in edges))


@pytest.mark.parametrize(("model", "takes"), [
    ("gcn", True), *(pytest.param(model, takes, marks=pytest.mark.slow) for model, takes in
                     (("gat", True), ("gatv2", True), ("gin", True), ("appnp", True), ("sgc", True), ("gcnii", True),
                      ("graphsage", False)))])
def test_weights_are_used_by_models_that_take_them(weighted, model, takes):
    section = f"task={{name: node_classification, dataset: folder, folder: '{weighted}', model: {{name: {model}}}}}"
    results = [train(config(weighted, section, "steps=2", "devices=1", f"task.edge_weights={used}")).test["loss"]
               for used in ("true", "false")]
    assert (results[0] != results[1]) == takes


def test_weights_of_a_trained_graph(weighted, tmp_path, capsys, no_curve):
    result = run(config(weighted, "task.dropout=0", f"run_dir={tmp_path / 'run'}"), "gcn")
    shown = capsys.readouterr().out
    assert "edge weights  1 to 20, divided by their mean" in shown and "left out" not in shown
    trained = open_run(tmp_path / "run")
    assert trained.metrics("test") == pytest.approx(result["best"]["test"], rel=1e-5)
    before = trained.predict(weighted)["probability of a"]
    text = (weighted / "edges.csv").read_text()
    (weighted / "edges.csv").write_text(text.replace(",20\n", ",40\n").replace(",1\n", ",2\n"))
    assert not np.allclose(before, trained.predict(weighted)["probability of a"])     # the mean is that of training
    (weighted / "edges.csv").write_text("source,target\nn0,n1\n")
    with pytest.raises(DataError, match="the edges have no weights, and those of the training data had"):
        trained.predict(weighted)


def test_links_with_weights(weighted):
    section = "task={name: link_prediction, dataset: folder, model: {name: gcn, hidden: [4], dropout: 0}}"
    losses = [train(load_config("gae_cora", [section, f"task.folder={weighted}", "steps=2", "devices=1",
                                             f"task.edge_weights={used}"])).losses[-1] for used in ("true", "false")]
    assert losses[0] != losses[1]
    (weighted / "edges.csv").write_text("source,target\n")
    with pytest.raises(DataError, match="there are no edges to learn from"):
        train(load_config("gae_cora", [section, f"task.folder={weighted}"]))


# ---- runs ------------------------------------------------------------------------------------------------------------


def income(folder, n=60):
    """A graph whose classes differ in one column with large numbers, and hardly in their edges."""
    rng = np.random.default_rng(0)
    side = np.arange(n) % 2
    money = np.where(side, 90_000, 30_000) * rng.lognormal(0, 0.2, n)
    edges = "".join(f"n{i},n{(i + 2 * k) % n}\n" for i in range(n) for k in (1, 3))
    return written(folder, ["label,income", *(f"{'ab'[s]},{x:.0f}" for s, x in zip(side, money, strict=True))],
                   f"source,target\n{edges}")


def test_an_income_is_learned(tmp_path):
    assert train(config(income(tmp_path / "g"), "steps=100", "devices=1")).test["accuracy"] >= 0.9


@pytest.mark.parametrize("model", [
    None, *(pytest.param(model, marks=pytest.mark.slow) for model in
            ("{name: gat, dropout: 0, attention_dropout: 0}", "{name: appnp, dropout: 0, adjacency_dropout: 0}",
             "{name: graphsage, dropout: 0}", "{name: sgc, dropout: 0}", "{name: gcnii, dropout: 0}"))])
def test_vectors_of_nodes_give_the_numbers_of_an_identity(tmp_path, model):
    n = 150                                                   # more than the matrices that become dense
    edges = "source,target\n" + "".join(f"n{i},n{(i + 2) % n}\n" for i in range(n))
    plain = written(tmp_path / "g", ["label", *("ab"[i % 2] for i in range(n))], edges)
    np.savez(tmp_path / "identity.npz", edges=[np.arange(n), (np.arange(n) + 2) % n], features=np.eye(n),
             labels=["ab"[i % 2] for i in range(n)])
    chosen = [f"task={{name: node_classification, dataset: folder, model: {model}}}"] if model else []
    given = [*chosen, "task.standardize=false", "steps=5", "devices=1"]
    losses = [train(config(path, *given, f"task.folder={path}")).losses for path in (plain, tmp_path / "identity.npz")]
    np.testing.assert_allclose(*losses, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["{name: gin, hidden: [4]}", "{name: graphsage, aggregator: max}"])
def test_models_that_need_rows_learn_vectors_of_nodes(tmp_path, model):
    n = 40
    edges = "source,target\n" + "".join(f"n{i},n{(i + 2) % n}\n" for i in range(n))
    folder = written(tmp_path / "g", ["label", *("ab"[i % 2] for i in range(n))], edges)
    task = f"task={{name: node_classification, dataset: folder, folder: {folder}, model: {model}}}"
    assert np.isfinite(train(config(folder, task, "steps=2", "devices=1")).losses).all()


def test_predictions_without_features_are_by_name(tmp_path, no_curve):
    n = 30
    edges = "source,target\n" + "".join(f"n{i},n{(i + 2) % n}\n" for i in range(n))
    folder = written(tmp_path / "g", ["label", *("ab"[i % 2] for i in range(n))], edges)
    run(config(folder, "steps=20", f"run_dir={tmp_path / 'run'}"), "gcn")
    trained = open_run(tmp_path / "run")
    before = trained.predict(folder)
    head, *lines = (folder / "nodes.csv").read_text().splitlines()
    (folder / "nodes.csv").write_text("\n".join([head, *lines[::-1]]) + "\n")
    after = trained.predict(folder)
    assert after["id"].tolist() == before["id"][::-1].tolist()
    np.testing.assert_allclose(after["probability of a"], before["probability of a"][::-1], rtol=1e-4)


def test_one_class_is_said(tmp_path, capsys, no_curve):
    """Nodes that differ in nothing get one class."""
    ring = "source,target\n" + "".join(f"n{i},n{(i + 1) % 40}\n" for i in range(40))
    folder = written(tmp_path / "g", ["label,f", *(f"{'ab'[i % 2]},1" for i in range(40))], ring)
    result = run(config(folder, "task.standardize=false", "steps=1", f"run_dir={tmp_path / 'run'}"), "gcn")
    said = result["last"]["remark"]
    assert said.startswith("the model predicts the class '") and "for all 16 examples of val and test; try" in said
    assert f"warning: {said}" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(("val", "test", "said"), [
    ([[0, 3], [0, 1]], [[0, 2], [0, 2]], True), ([[0, 3], [0, 0]], [[0, 0], [0, 2]], True),
    ([[3, 0], [1, 0]], [[2, 0], [1, 0]], True), ([[1, 2], [0, 1]], [[0, 2], [0, 2]], False),
    ([[0, 0], [0, 3]], [[0, 0], [0, 2]], False), ([[0, 0], [0, 0]], [[0, 0], [0, 0]], False)])
def test_one_class(val, test, said):
    """Rows are true classes: of one class only, nothing is said."""
    assert bool(one_class({"val": np.array(val), "test": np.array(test)}, ["no", "yes"])) == said


@pytest.mark.slow
@pytest.mark.parametrize(("nodes", "classes", "inside", "outside", "width", "weighted", "least"), [
    (400, 2, 6, 1.5, 5, False, 0.7), (600, 7, 5, 1.5, 16, False, 0.9), (1200, 20, 6, 2, 32, False, 0.9),
    (500, 5, 8, 1, 0, False, 0.95), (500, 4, 3, 6, 8, True, 0.8)])
def test_the_config_for_own_graphs(tmp_path, nodes, classes, inside, outside, width, weighted, least):
    """Classes with `inside` neighbours of their own and `outside` others; all but two have weak features.

    A weight inside a class is about 20 times as large as others.
    """
    rng = np.random.default_rng(0)
    group = rng.integers(0, classes, nodes)
    one, other = np.triu_indices(nodes, 1)
    same = group[one] == group[other]
    chance = np.where(same, inside * classes / nodes, outside * classes / nodes / max(classes - 1, 1))
    kept = rng.random(len(one)) < chance
    ends = zip(one[kept], other[kept], np.where(same[kept], 10, 0.5) * rng.lognormal(0, 0.5, kept.sum()), strict=True)
    cells = rng.normal(size=(nodes, width)) + (classes > 2) * np.eye(classes, width)[group]
    head = "label" + "".join(f",f{i}" for i in range(width))
    rows = [f"c{c}" + "".join(f",{x:.3f}" for x in row) for c, row in zip(group, cells, strict=True)]
    folder = written(tmp_path / "g", [head, *rows], "source,target" + ",weight" * weighted + "\n" + "".join(
        f"n{i},n{j}" + f",{w:.4f}" * weighted + "\n" for i, j, w in ends))
    assert train(load_config("own_graph", [f"task.folder={folder}", "devices=1"])).test["accuracy"] >= least
