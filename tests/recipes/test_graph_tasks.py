"""Node classification by every model, classification of graphs, and prediction of links."""

import json

import numpy as np
import pytest

import xnn
from recipes import export, new_edges
from recipes.data.graph_batches import Graphs, PaddedGraphs
from recipes.errors import ConfigError, DataError, RecipeError
from recipes.process.parallel import Placer, choose_devices
from recipes.results.folder import PRODUCTS, saved_config
from recipes.settings.config_file import load_config
from recipes.trained import open_run
from recipes.training.run import prepare, run
from tests.recipes.conftest import train
from tests.sampling import one_in

pytestmark = pytest.mark.usefixtures("no_curve")

SMALL = ("task.count=60", "task.batch_size=10", "task.model.hidden=[8]")
MODELS = ("gcn", "gat", "gatv2", "graphsage", "gin", "appnp", "sgc", "gcnii")
MASKS_OF_EDGES = {"gat": ", attention_dropout: 0", "gatv2": ", attention_dropout: 0", "appnp": ", adjacency_dropout: 0",
                  "gcnii": ", layers: 3"}


def of_nodes(name, *overrides):
    task = f"task={{name: node_classification, model: {{name: {name}{MASKS_OF_EDGES.get(name, '')}}}}}"
    return load_config("gcn", [task, *overrides])


@pytest.mark.parametrize("name", [name if name == "gat" else pytest.param(name, marks=pytest.mark.slow)
                                  for name in MODELS])
def test_every_model_classifies_nodes_alike_on_any_number_of_devices(name):
    one, three = (train(of_nodes(name, "steps=4", f"devices={devices}")).losses for devices in (1, 3))
    assert np.isfinite(one).all()
    np.testing.assert_allclose(one, three, rtol=2e-4)


@pytest.fixture
def ring(tmp_path):
    """A folder of 140 nodes, too many for a dense adjacency."""
    folder = tmp_path / "ring"
    folder.mkdir()
    (folder / "edges.csv").write_text("source,target\n" + "".join(f"{i},{(i + k) % 140}\n" for i in range(140)
                                                                  for k in (1, 5)))
    (folder / "nodes.csv").write_text("id,label,height\n" + "".join(f"{i},{i // 70},{i % 7}\n" for i in range(140)))
    return folder


@pytest.mark.parametrize(("task", "form", "other"), [
    ("node_classification", "segments", "unrolled"),
    pytest.param("node_classification", "unrolled", "segments", marks=pytest.mark.slow),
    pytest.param("link_prediction", "unrolled", "segments", marks=pytest.mark.slow)])
def test_a_resumed_run_keeps_the_noted_form_of_products(ring, tmp_path, capsys, monkeypatch, task, form, other):
    """The form is chosen for the steps of the first run: neither --extend nor a new rule changes a bit."""
    def go(name, *, steps, resume=False):
        folder = tmp_path / name
        config = saved_config(folder, extend=steps) if resume else load_config("gcn", [
            f"task={{name: {task}, dataset: folder, folder: {ring}}}", "devices=1", f"steps={steps}", "eval_every=2",
            f"schedule_steps={1_000_000 if form == 'unrolled' else 200}", f"run_dir={folder}"])
        run(config, "gcn", resume=resume)
        manifest = json.loads((folder / f"checkpoints/{steps}/manifest.json").read_text())
        return manifest, json.loads((folder / "environment.json").read_text())[PRODUCTS]

    whole = go("whole", steps=4)
    assert whole[1] == form and go("broken", steps=2)[1] == form
    monkeypatch.setattr("xnn.sparse.csr.best_form", lambda *_: other)
    assert go("broken", steps=4, resume=True) == whole
    assert "may differ in the last bits" not in capsys.readouterr().out


@pytest.mark.parametrize(("overrides", "message"), [
    (["task.model={name: gat, attention_dropout: 1.5}"], "task.model.attention_dropout"),
    (["task.model={name: gcn, norm: batch}"], "task.model.norm"),
    (["task.model={name: sgc, k: -1}"], "task.model.k"),
    (["task.model={name: gcnii, theta: 0}"], "task.model.theta"),
    (["task.model={name: gin, activation: rilu}"], "task.model.activation"),
    (["task.model={name: gat}", "task.hidden=8"], "set task.model.hidden"),
    (["task.model={name: gat}", "task.norm=row"], "task.norm  is for gcn, appnp, sgc and gcnii, not for gat"),
    (["task.model={name: gta}"], "there is no model 'gta'; did you mean 'gat'"),
    (["task.model={name: gcn, heads: 3}"], "task.model.heads  unknown key: it is a key of gat, gatv2 only"),
    (["task.model={name: gcnii, hidden: [8]}"], "task.model.hidden  must be a valid integer"),
    (["task.model.heads=3"], "task.model  needs a name: one of appnp, gat"),
])
def test_models_that_cannot_be(overrides, message):
    with pytest.raises(ConfigError, match=message):
        load_config("gcn", ["task={name: node_classification}", *overrides])


# -- graphs -----------------------------------------------------------------------------------------------------------


def test_losses_of_graphs_do_not_depend_on_devices_and_padding():
    one, three = (train(load_config("gin_molecules", [*SMALL, "steps=3", f"devices={devices}"])) for devices in (1, 3))
    np.testing.assert_allclose(one.losses, three.losses, rtol=1e-4)
    assert one.test["accuracy"] == three.test["accuracy"]


@pytest.mark.parametrize("devices", [1, 3])
def test_batches_have_every_graph_once_and_few_sizes(devices):
    graphs, labels = xnn.graph.molecules(47)
    batches = PaddedGraphs(Graphs(graphs, labels), Placer(choose_devices(devices)), 10, 0)
    placed = [batches.train(step) for step in range(5)]
    assert sum(float(np.sum(np.asarray(batch["weight"]))) for batch in placed) == 47
    assert len({batch["graph"].nodes.shape for batch in [*placed, *batches.all()]}) <= 5
    inside = [np.asarray(batch["labels"])[:, :-1].reshape(-1)[:10] for batch in batches.all()]
    np.testing.assert_array_equal(np.concatenate(inside)[:47], labels)


@pytest.fixture
def molecules(tmp_path):
    """Thirty molecules in the form of the TU collection, without features of edges."""
    graphs, labels = xnn.graph.molecules(30, 5)
    whole, folder = xnn.graph.batch(graphs), tmp_path / "SET"
    folder.mkdir()
    for name, rows in (("A", [f"{r + 1}, {s + 1}" for s, r in zip(whole.senders, whole.receivers, strict=True)]),
                       ("graph_indicator", np.repeat(np.arange(30) + 1, whole.n_node).astype(str)),
                       ("node_labels", whole.nodes.argmax(1).astype(str)),
                       ("graph_labels", (2 * labels - 1).astype(str))):
        (folder / f"SET_{name}.txt").write_text("\n".join(rows) + "\n")
    return folder


def test_a_folder_of_graphs_is_learned_and_predicted(molecules, tmp_path):
    config = load_config("gin_molecules", ["task.dataset=folder", f"task.folder={molecules}", "task.model.hidden=[8]",
                                           "steps=2", "devices=2", f"run_dir={tmp_path / 'run'}", "task.batch_size=7"])
    run(config, "graphs")
    trained = open_run(tmp_path / "run")
    (molecules / "SET_graph_labels.txt").unlink()
    result = trained.predict(molecules)
    assert result["graph"].tolist() == list(range(1, 31))
    assert set(result["label"]) <= {"-1", "1"}
    np.testing.assert_allclose(result["probability of 1"] + result["probability of -1"], 1, rtol=1e-5)
    (molecules / "SET_node_labels.txt").unlink()
    with pytest.raises(DataError, match="the features are not those"):
        trained.predict(molecules)


@pytest.mark.parametrize(("overrides", "message"), [
    (["task.model={name: appnp}"], "there is no model 'appnp'; one of gin, gcn"),
    (["task.model={name: gcn}", "task.edge_features=false"], "task.edge_features  is for gin, gat and gatv2"),
    (["task.folder=x"], "task.folder  is for the dataset folder, not for molecules"),
    (["task.dataset=folder"], "task.folder  a value is needed here"),
    (["task.dataset=folder", "task.folder=x", "task.count=3"], "task.count  is for the dataset molecules"),
    (["task.pool=median"], "did you mean 'mean'"),
    (["task.val_fraction=0.5", "task.test_fraction=0.5"], "leaves nothing to train on"),
])
def test_graph_tasks_that_cannot_be(overrides, message):
    with pytest.raises(ConfigError, match=message):
        load_config("gin_molecules", overrides)


@pytest.mark.parametrize(("name", "text", "message"), [
    ("A", None, "(?s)the file is missing.*SET_A.txt"), ("graph_indicator", "1\n", "needs one line for each node"),
    ("graph_labels", "1\n", "needs one line for each graph"), ("node_labels", "x\n", "cannot be read"),
    ("graph_labels", "1\n" * 30, "needs graphs of at least two classes"),
])
def test_a_damaged_folder_of_graphs(molecules, name, text, message):
    file = molecules / f"SET_{name}.txt"
    file.unlink() if text is None else file.write_text(text)
    with pytest.raises(DataError, match=message):
        prepare(load_config("gin_molecules", ["task.dataset=folder", f"task.folder={molecules}"]))


@pytest.mark.parametrize("model", ["{name: gin, hidden: [8]}", "{name: gcn, hidden: [8]}"])
def test_a_model_without_edge_features_takes_graphs_without_them(molecules, model):
    """Trained on molecules with edge features, the model predicts graphs of a folder without edge features."""
    prepared = prepare(load_config("gin_molecules", ["task.count=20", f"task.model={model}"] + [
        "task.edge_features=false"] * ("gin" in model)))
    assert prepared.data.splits["train"].whole.edge_features is not None
    assert len(prepared.task.read(molecules).rows) == 30


def test_batches_of_graphs_have_no_parts():
    with pytest.raises(RecipeError, match="have no parts"):
        train(load_config("gin_molecules", [*SMALL, "accumulate=2", "devices=1"]))


# -- links ------------------------------------------------------------------------------------------------------------


def of_links(*overrides):
    return load_config("gae_cora", ["task={name: link_prediction, test_fraction: 0.2}", *overrides])


@pytest.mark.parametrize(("overrides", "message"), [
    (["task.model.name=gcnn"], "there is no model 'gcnn'; did you mean 'gcn'"),
    (["task.model={name: sage}"], "there is no model 'sage'"),
    (["task.model={name: graphsage}", "task.norm=row"], "task.norm  is for gcn, appnp"),
    (["task.val_fraction=0.9"], "leaves nothing to train on"),
    (["task.labelled=[0]"], "task.labelled  unknown key"),
])
def test_links_that_cannot_be(overrides, message):
    with pytest.raises(ConfigError, match=message):
        of_links("task.model={name: gcn}", *overrides)


@pytest.mark.parametrize("overrides", one_in(2, [("task.variational=true",), ()]))
def test_links_are_learned_alike_on_any_number_of_devices(overrides):
    one, three = (train(of_links("steps=30", f"devices={devices}", *overrides)) for devices in (1, 3))
    np.testing.assert_allclose(one.losses, three.losses, rtol=1e-4)
    assert one.losses[-1] < one.losses[0]
    assert one.test["roc_auc"] > 0.6
    np.testing.assert_allclose(one.test["average_precision"], three.test["average_precision"], rtol=1e-4)


@pytest.fixture(scope="module")
def links(tmp_path_factory):
    """The folder of a run."""
    folder = tmp_path_factory.mktemp("links") / "run"
    run(of_links("task.variational=true", "steps=30", "devices=1", f"run_dir={folder}"), "links")
    return folder


def test_pairs_of_a_file_in_their_order(links, tmp_path):
    (tmp_path / "pairs.csv").write_text("source,target\n33,32\n0,16\n16,0\n33,32\n")
    trained = open_run(links)
    result = trained.predict(tmp_path / "pairs.csv")
    assert result["source"].tolist() == ["33", "0", "16", "33"]
    np.testing.assert_allclose(result["probability"][[0, 1]], result["probability"][[3, 2]], rtol=1e-6)
    given = trained.task.pairs([33, 0], [32, 16])             # the same pairs from Python
    np.testing.assert_allclose(trained.predict(given)["probability"], result["probability"][:2], rtol=1e-6)
    for text, message in (("source,target\n33,34\n", "(?s)the graph has no node '34'.*similar"),
                          ("a,b\n1,2\n", "there are no pairs"), ("source,target\n", "there are no pairs")):
        (tmp_path / "pairs.csv").write_text(text)
        with pytest.raises(DataError, match=message):
            trained.predict(tmp_path / "pairs.csv")


def test_new_edges_of_a_node(links, tmp_path, capsys):
    """All nodes but its neighbours, the likeliest first, from the run and from the exported model."""
    assert export.main([str(links), str(tmp_path / "exported")]) == 0
    trained = open_run(tmp_path / "exported")
    result = new_edges.new_edges(trained, "33", 100)
    assert len(result["target"]) == 34 - 1 - 17                # it has 17 neighbours
    assert not {"33", "32"} & set(result["target"]) and (np.diff(result["probability"]) <= 0).all()
    capsys.readouterr()
    assert new_edges.main([str(links), "--node", "33", "--top", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "source,target,probability" and [line.split(",")[1] for line in lines[1:]] == [
        *result["target"][:2]]
    assert new_edges.main([str(links), "--node", "34"]) == 1
    assert "the graph has no node '34'" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        new_edges.main([str(links), "--node", "33", "--top", "0"])


def test_a_changed_graph_has_no_predictions(ring, tmp_path):
    run(load_config("gae_cora", [f"task={{name: link_prediction, dataset: folder, folder: {ring}}}", "steps=2",
                                 "devices=1", f"run_dir={tmp_path / 'run'}"]), "links")
    trained = open_run(tmp_path / "run")
    assert len(trained.predict(trained.task.pairs(["0"], ["9"]))["probability"]) == 1
    for change in (lambda text: text.replace("0,1\n", "0,2\n", 1), lambda text: text + "139,3\n"):
        edges = (ring / "edges.csv").read_text()
        (ring / "edges.csv").write_text(change(edges))
        with pytest.raises(DataError, match="the graph is not the training graph"):
            trained.predict(trained.task.pairs(["0"], ["9"]))
        with pytest.raises(RecipeError, match="(?s)it was trained on other data.*graph"):
            open_run(tmp_path / "run").metrics("test")
        (ring / "edges.csv").write_text(edges)
