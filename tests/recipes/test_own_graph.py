"""Graphs of the user, as csv files or as .npz."""

import numpy as np
import pytest

from recipes.data.own_graph import read_graph
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
    np.savez(tmp_path / "graph.npz", edges=csv.edges, features=csv.features, labels=labels)
    npz = read_graph(tmp_path / "graph.npz")
    for name in ("edges", "features", "labels"):
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
    ("nodes.csv", "id,label,f\nn1,a,1\nn2,b,\n", "values are missing"),
    ("nodes.csv", "id,label,f\nn1,a,red\nn2,b,blue\n", "the feature 'f' is not a column of numbers"),
])
def test_wrong_files(graph, file, text, message):
    (graph / file).write_text(text)
    with pytest.raises(DataError, match=message):
        read_graph(graph)


def test_a_missing_file_or_folder(graph, tmp_path):
    with pytest.raises(DataError, match="(?s)graph: there is no such folder.*nowhere/nodes.csv.*fix: a folder with"):
        read_graph(tmp_path / "nowhere")
    (graph / "edges.csv").unlink()
    with pytest.raises(DataError, match="(?s)graph: the file is missing.*edges.csv"):
        read_graph(graph)


@pytest.mark.parametrize("arrays", [
    {"edges": [[0, 9], [1, 1]], "features": np.ones((3, 2))}, {"edges": [[0], [1]], "features": np.ones(3)},
    {"edges": [[0.5], [1]], "features": np.ones((3, 2))}, {"edges": [[0], [1]], "features": np.full((3, 2), np.nan)},
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
