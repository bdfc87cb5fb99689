"""Kernel regression: configs, points, the ridge, run folders, predictions, errors."""

import json
import subprocess
import sys

import numpy as np
import pytest

import xjax
import xnn
from recipes import evaluate, kernel, predict, report
from recipes.data.points import GraphPoints, Limit, NodePoints, RowPoints, points_from
from recipes.errors import CheckpointError, ConfigError, RecipeError
from recipes.settings.config_file import load_config, load_kernel_config
from recipes.trained import open_run
from recipes.training.kernel_run import run_kernel
from recipes.training.ridge import Ridge, coverage, scale_of, sharpness
from tests.recipes.conftest import ROOT
from xnn.kernels import gp_inference

SMALL = ["task.hidden=[16, 16]", "kernel.diag_reg=[1e-4, 1e-2, 1]"]


# -- config ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("overrides", "words"), [
    (["steps=100"], "steps  is for training, and kernel regression has no steps"),
    (["optim.lr=0.1"], "optim  is for training"),
    (["task.shift=2"], "task.shift  is for training"),
    (["task.model.dropout=0.5"], "task.model.dropout  is for training"),
    (["kernel.nme=ntk"], "did you mean 'name'?"),
    (["kernel.name=ntkk"], "did you mean 'ntk'?"),
    (["kernel.parameterization=ntk"], "is for ntk: nngp does not depend on it"),
    (["kernel.memory_budget=much"], "must be a size such as 500MB or 2GiB, got 'much'"),
    (["kernel.diag_reg=[]"], "kernel.diag_reg"),
    (["kernel.diag_reg=[-1]"], "kernel.diag_reg"),
    (["task={name: vae}"], "vae has no kernel regression; tasks that have one: graph_classification, images"),
])
def test_faults_of_a_config(overrides, words):
    with pytest.raises(ConfigError, match=r"recipes\.kernel --list") as caught:
        load_kernel_config("kernel_digits", overrides)
    assert words in str(caught.value)


def test_a_rate_of_zero_is_no_fault():
    assert load_kernel_config("kernel_molecules", ["task.model.dropout=0"]).task.model.dropout == 0


def test_training_refuses_the_section_of_a_kernel():
    with pytest.raises(ConfigError, match="kernel  is a section of kernel regression, which is another command"):
        load_config("kernel_digits")


def test_a_fault_is_reported_before_jaxlib_is_loaded():
    code = ("import sys; from recipes.kernel import main; code = main(['steps=3']); "
            "sys.exit(code if not {'jaxlib', 'matplotlib'} & sys.modules.keys() else 9)")
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True).returncode == 2


def test_the_saved_config_is_the_same_config(tmp_path):
    config = load_kernel_config("kernel_molecules", ["kernel.choose_by=leave_one_out"])
    (tmp_path / "again.yaml").write_text(config.to_yaml())
    assert load_kernel_config(str(tmp_path / "again.yaml")) == config


def test_the_list_has_no_keys_of_training(capsys):
    assert kernel.main(["--list"]) == 0
    shown = capsys.readouterr().out
    assert "kernel.diag_reg" in shown
    assert "task.pool" in shown
    assert "task.batch_size" not in shown
    assert "vae" not in shown


# -- points ------------------------------------------------------------------------------------------------------------


def _data(kind):
    """(Model, points, other points, kernel of all points by `Layer.kernel` in float64)."""
    with xjax.enable_x64(True):
        return _data_in_float64(kind)


def _data_in_float64(kind):
    rng = np.random.default_rng(0)
    if kind == "rows":
        model, x = xnn.serial(xnn.Dense(8), xnn.Relu, xnn.Dense(2)), rng.normal(size=(7, 3))
        return model, RowPoints(x[:4]), RowPoints(x[4:]), model.kernel(x, get="ntk")
    if kind == "nodes":
        model = xnn.GCN(8, 2)
        x, adjacency = rng.normal(size=(9, 3)), rng.integers(0, 2, (9, 9)).astype(float)
        ids = np.array([3, 1, 8, 5])
        whole = np.asarray(model.kernel(x, adj=adjacency, get="ntk"))
        kinds = NodePoints(x, adjacency, ids), NodePoints(x, adjacency, np.array([0, 2, 4]))
        every = np.concatenate([ids, [0, 2, 4]])
        return model, *kinds, whole[np.ix_(every, every)]
    graphs = xnn.graph.molecules(7, 0)[0]
    model = xnn.models.GINStack(xnn.models.GINConfig(features=2, hidden=(8, 8), pool="sum"))
    whole = xnn.graph.batch([graph.replace(globals=None) for graph in graphs])
    kinds = (GraphPoints(xnn.graph.take_graphs(whole, np.arange(*ends))) for ends in ((0, 4), (4, 7)))
    return model, *kinds, model.kernel(whole.nodes.astype(np.float64), graph=whole, get="ntk")


@pytest.mark.parametrize("kind", ["rows", "nodes", "graphs"])
def test_kernels_of_points(kind, monkeypatch):
    monkeypatch.setattr("recipes.data.points.GRAPHS_OF_A_BLOCK", 2)          # several blocks, the last one padded
    model, train, others, expected = _data(kind)
    limit = Limit(model, "ntk")
    square, across = train.kernels(limit, others)
    assert square.dtype == np.float64
    scale = np.max(np.abs(expected))
    np.testing.assert_allclose(square, expected[:4, :4], atol=1e-8 * scale)
    np.testing.assert_allclose(across, expected[4:, :4], atol=1e-8 * scale)
    saved = points_from({name: np.array(array) for name, array in train.arrays().items()})
    np.testing.assert_allclose(others.against(limit, saved), across, atol=1e-8 * scale)
    np.testing.assert_allclose(others.variances(limit), np.diagonal(expected)[4:], rtol=1e-5)
    joined = type(train).joined([train, others])
    np.testing.assert_allclose(joined.against(limit, train), np.concatenate([square, across]), atol=1e-8 * scale)


def test_a_graph_above_the_memory_budget_is_refused():
    model, train, others, _ = _data("nodes")
    with pytest.raises(RecipeError, match=r"fix: kernel\.memory_budget=\d+MB"):
        train.kernels(Limit(model, "ntk", memory_budget="1KB"), others)


def test_blocks_of_graphs_become_smaller_until_they_fit():
    model, train, others, expected = _data("graphs")
    across = others.against(Limit(model, "ntk", memory_budget="150KB"), train)
    np.testing.assert_allclose(across, expected[4:, :4], rtol=1e-8)


# -- the ridge ---------------------------------------------------------------------------------------------------------


def _problem(n=12, k=2):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(n, 20))
    return x @ x.T / 20, rng.normal(size=(n, k))


def test_solutions_are_those_of_gp_inference():
    matrix, y = _problem()
    solution = Ridge(matrix[:9, :9], y[:9]).solution(0.1)
    with_ridge = matrix[:9, :9] + 0.1 * np.mean(np.diagonal(matrix[:9, :9])) * np.eye(9)
    np.testing.assert_allclose(with_ridge @ solution.dual, y[:9] - y[:9].mean(0), atol=1e-12)
    posterior = gp_inference(matrix[:9, :9].astype(np.float32), (y[:9] - y[:9].mean(0)).astype(np.float32), 0.1)
    mean, covariance = posterior("nngp", matrix[9:, :9].astype(np.float32), matrix[9:, 9:].astype(np.float32))
    np.testing.assert_allclose(matrix[9:, :9] @ solution.dual, mean, atol=2e-5)
    explained = np.sum((matrix[9:, :9] @ Ridge(matrix[:9, :9], y[:9]).factor(0.1))**2, 1)
    np.testing.assert_allclose(np.diagonal(matrix)[9:] - explained, np.diagonal(covariance), atol=2e-5)


def test_predictions_of_left_out_examples_and_the_marginal_likelihood():
    matrix, y = _problem()
    ridge = Ridge(matrix, y)
    solution, target = ridge.solution(0.3), y - y.mean(0)
    with_ridge = matrix + solution.ridge * np.eye(12)
    for i in range(12):
        others = np.delete(np.arange(12), i)
        row = matrix[i, others]
        expected = row @ np.linalg.solve(with_ridge[np.ix_(others, others)], target[others])
        variance = with_ridge[i, i] - row @ np.linalg.solve(with_ridge[np.ix_(others, others)], row)
        np.testing.assert_allclose(solution.left_out[i], expected + y.mean(0), rtol=1e-9)
        np.testing.assert_allclose(solution.left_out_variance[i], variance, rtol=1e-9)
    covariance = solution.scale * with_ridge
    log_p = -0.5 * np.einsum("ik,ik", target, np.linalg.solve(covariance, target)) - 0.5 * 2 * (
        np.linalg.slogdet(2 * np.pi * covariance)[1])
    assert solution.log_evidence == pytest.approx(log_p / (2 * 12))
    assert solution.condition == pytest.approx(np.linalg.cond(with_ridge))


def test_a_singular_kernel_is_not_solvable_without_a_ridge():
    x = np.ones((4, 2))
    ridge = Ridge(x @ x.T, np.zeros((4, 1)))
    assert not ridge.is_solvable(0.0)
    assert ridge.is_solvable(1e-6)


def test_sharpness_has_the_least_cross_entropy():
    rng = np.random.default_rng(2)
    values = rng.normal(size=(4000, 3))
    powers = np.exp(2.5 * values)
    labels = (rng.random((4000, 1)) > np.cumsum(powers / powers.sum(1, keepdims=True), 1)).sum(1)
    assert sharpness(values, labels) == pytest.approx(2.5, rel=0.06)
    assert np.isfinite(sharpness(np.eye(3), np.arange(3)))                  # all are right
    assert sharpness(1000 * np.eye(3), np.arange(3)) * 1000 == pytest.approx(sharpness(np.eye(3), np.arange(3)))


def test_intervals_of_a_normal_distribution():
    truth = 3 * np.random.default_rng(3).normal(size=20000)
    scale = scale_of(truth, np.zeros(20000), np.ones(20000))
    assert scale == pytest.approx(9, rel=0.05)
    assert coverage(truth, 0 * truth, np.sqrt(scale) + 0 * truth) == {0.5: pytest.approx(0.5, abs=0.02),
                                                                      0.9: pytest.approx(0.9, abs=0.02)}


# -- runs --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    """Csv of 240 rows with a number to predict."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(240, 2))
    y = 20 + 3 * np.sin(x[:, 0]) + x[:, 1] + rng.normal(0, 0.3, 240)
    file = tmp_path_factory.mktemp("numbers") / "numbers.csv"
    rows = zip(*x.T, y, strict=True)
    file.write_text("a,b,size\n" + "".join(f"{a:.4f},{b:.4f},{c:.4f}\n" for a, b, c in rows))
    return file


@pytest.fixture(scope="module")
def classes_run(rings, tmp_path_factory):
    return _run(tmp_path_factory.mktemp("runs") / "rings", [f"task.file={rings}", "task.target=ring"])


@pytest.fixture(scope="module")
def numbers_run(numbers, tmp_path_factory):
    return _run(tmp_path_factory.mktemp("runs") / "numbers",
                [f"task.file={numbers}", "task.target=size", "task.kind=regression"])


def _run(folder, overrides):
    config = load_kernel_config("kernel_table", [*SMALL, *overrides, f"run_dir={folder}"])
    return folder, run_kernel(config, "unused")


@pytest.mark.parametrize("which", ["classes_run", "numbers_run"])
def test_a_run_folder(which, request, capsys):
    folder, result = request.getfixturevalue(which)
    assert {file.name for file in folder.iterdir()} >= {
        "config.yaml", "data.json", "environment.json", "result.json", "candidates.csv", "kernel.json",
        "kernel.safetensors", "selection.png", "calibration.png"}
    assert json.loads((folder / "result.json").read_text()) == result
    assert [row["diag_reg"] for row in result["candidates"]] == [1e-4, 1e-2, 1]
    for split, metrics in result["kernel"].items():
        assert open_run(folder).metrics(split) == pytest.approx(metrics, rel=1e-4, abs=1e-6)
    assert evaluate.main([str(folder)]) == 0
    assert report.main([str(folder)]) == 0
    page = (folder / "report.html").read_text()
    assert "Choice of the ridge" in page
    assert "Not shown" not in page
    capsys.readouterr()


def test_predictions_of_classes(classes_run, rings, tmp_path, capsys):
    folder, result = classes_run
    assert result["kernel"]["test"]["accuracy"] > 0.9
    assert 0 <= result["kernel"]["test"]["calibration_error"] < 0.2
    assert predict.main([str(folder), "--input", str(rings), "--output", str(tmp_path / "out.csv")]) == 0
    assert "300 rows" in (shown := capsys.readouterr().out)
    assert "by kernel regression on 210 examples" in shown
    columns = open_run(folder).predict(rings)
    np.testing.assert_allclose(columns["probability of inner"] + columns["probability of outer"], 1)


def test_predictions_of_numbers_have_a_deviation(numbers_run, numbers):
    folder, result = numbers_run
    test = result["kernel"]["test"]
    assert test["mae"] < 0.8                                  # the deviation of the target is 2.4
    assert 0.2 <= test["coverage_50"] <= 0.9
    assert test["coverage_90"] >= 0.6
    columns = open_run(folder).predict(numbers)
    truth = np.genfromtxt(numbers, delimiter=",", names=True)["size"]
    gaps = np.abs(columns["size"] - truth)
    assert np.mean(gaps <= 1.645 * columns["deviation of size"]) > 0.8


def test_the_ridge_is_chosen_by(rings, numbers, tmp_path):
    for how in ("leave_one_out", "marginal_likelihood"):
        _, result = _run(tmp_path / how, [f"task.file={numbers}", "task.target=size", "task.kind=regression",
                                          f"kernel.choose_by={how}", "task.val_fraction=0"])
        rows = result["candidates"]
        best = (min(rows, key=lambda row: row["left_out/rmse"]) if how == "leave_one_out" else
                max(rows, key=lambda row: row["log_evidence"]))
        assert result["chosen"]["diag_reg"] == best["diag_reg"]
    with pytest.raises(RecipeError, match=r"fix: kernel\.choose_by=leave_one_out"):
        _run(tmp_path / "none", [f"task.file={rings}", "task.target=ring", "task.val_fraction=0"])
    assert not (tmp_path / "none").exists()


def test_a_damaged_run(classes_run, tmp_path):
    folder, _ = classes_run
    for file in ("config.yaml", "kernel.json", "kernel.safetensors"):
        (tmp_path / file).write_bytes((folder / file).read_bytes())
    open_run(tmp_path)
    content = bytearray((tmp_path / "kernel.safetensors").read_bytes())
    content[-1] ^= 1
    (tmp_path / "kernel.safetensors").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"kernel\.safetensors is not the file that was written with it"):
        open_run(tmp_path)
    (tmp_path / "kernel.json").unlink()
    with pytest.raises(RecipeError, match="it is not finished"):
        open_run(tmp_path)
    with pytest.raises(RecipeError, match=r"fix: leave out --last\."):
        open_run(folder, last=True)


@pytest.mark.parametrize(("model", "layer", "fix"), [
    ("{name: resnet, stages: [[1, 8]], small_images: true}", "stem/norm -> BatchNorm", "task.model.norm"),
    ("{name: lenet, pool: max}", "pool1 -> MaxPool", "task.model.pool=avg"),
    ("{name: vit, patch: 7, features: 8, hidden: 8, layers: 1, heads: 1}", "", "another task.model"),
])
def test_a_model_without_a_kernel(model, layer, fix, tmp_path):
    config = load_kernel_config("kernel_digits", [f"task.model={model}", "task.data.image=14",
                                                  f"run_dir={tmp_path / 'run'}"])
    with pytest.raises(RecipeError, match="without a kernel of infinite width|no kernel of infinite width") as caught:
        run_kernel(config, "unused")
    assert layer in str(caught.value)
    assert fix in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_graph_of_nodes_and_a_new_graph(tmp_path):
    for name, nodes in (("club", 24), ("other", 10)):
        (tmp_path / name).mkdir()
        rng = np.random.default_rng(nodes)
        side = rng.integers(0, 2, nodes)
        links = [(i, j) for i in range(nodes) for j in range(i) if rng.random() < (0.5 if side[i] == side[j] else 0.05)]
        rows = "".join(f"n{i},{'ab'[s]},{rng.normal(s):.3f}\n" for i, s in enumerate(side))
        (tmp_path / name / "nodes.csv").write_text("id,label,income\n" + rows)
        (tmp_path / name / "edges.csv").write_text("source,target\n" + "".join(f"n{i},n{j}\n" for i, j in links))
    (tmp_path / "config.yaml").write_text(
        f"task: {{name: node_classification, dataset: folder, folder: {tmp_path / 'club'}, model: {{name: gcn}}}}\n"
        f"kernel: {{name: ntk, diag_reg: [0.01, 1]}}\nrun_dir: {tmp_path / 'run'}\n")
    run_kernel(load_kernel_config(str(tmp_path / "config.yaml")), "unused")
    model = open_run(tmp_path / "run")
    columns = model.predict(tmp_path / "club")
    test = model.rows("test").ids
    assert len(columns["label"]) == 24
    np.testing.assert_allclose(columns["probability of a"][test], model.outputs("test")[:, 0], atol=1e-6)
    assert len(model.predict(tmp_path / "other")["label"]) == 10
