"""The keys of a run: accumulation, precision, averages, frozen parameters, early stopping, sweeps, trackers."""

import csv
import functools
import importlib
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import xjax
from recipes import train as command_line
from recipes.errors import ConfigError, RecipeError
from recipes.process.parallel import Placer
from recipes.results.folder import saved_config
from recipes.results.numbers import spread
from recipes.settings.config_file import load_config
from recipes.sweep import values_of
from recipes.trained import open_run
from recipes.training import dry_run
from recipes.training.best import judged, no_best, stagnant
from recipes.training.hooks import read_metrics
from recipes.training.run import prepare, run
from tests.compare import assert_close
from tests.recipes.conftest import train
from xjax import tree_util

pytestmark = pytest.mark.usefixtures("no_curve")


@pytest.fixture
def config(rings):
    def load(*overrides):
        return load_config("mlp_table", [f"task.file={rings}", "task.target=ring", "optim.schedule=constant",
                                         "devices=1", "steps=12", "eval_every=4", *overrides])
    return load


def params(trained):
    return tree_util.tree_map(np.asarray, Placer.host(trained.progress.state.params))


@pytest.mark.parametrize("parts", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_gradients_of_parts_add_up_to_those_of_the_batch(config, parts):
    whole, cut = (train(config("task.dropout=0.3", f"accumulate={n}")) for n in (1, parts))
    np.testing.assert_allclose(cut.losses, whole.losses, rtol=1e-5)
    assert_close(params(cut), params(whole), tol=10)             # adam divides by small numbers
    assert cut.test == pytest.approx(whole.test, rel=1e-4)


def test_a_batch_that_has_no_equal_parts_is_refused(config):
    with pytest.raises(RecipeError, match="(?s)the batch cannot be divided.*task.batch_size  64.*accumulate       3"):
        train(config("accumulate=3"))
    with pytest.raises(RecipeError, match="this task has one batch"):
        train(load_config("gcn", ["accumulate=2"]))


def test_half_precision_is_in_the_computation_alone(config):
    half, single = train(config("precision=bfloat16")), train(config())
    assert all(leaf.dtype == np.float32 for leaf in tree_util.tree_leaves(params(half)))
    np.testing.assert_allclose(half.losses, single.losses, rtol=0.05)
    assert (half.losses != single.losses).all()


def test_the_average_is_what_is_evaluated_and_saved(config, tmp_path):
    """The decay of update i is min(decay, (1 + i) / (10 + i)), as xnn.params.ema says."""
    average = Placer.host(_initial(config()))
    for i in range(3):
        after = params(train(config("ema=0.9", f"steps={i + 1}")))
        rate = np.float32(max(1 - 0.9, 9 / (10 + i)))
        average = tree_util.tree_map(lambda a, b, rate=rate: a + rate * (b - a), average, after)
    result = run(config("ema=0.9", "steps=3", f"run_dir={tmp_path / 'a'}"), "a")
    trained = open_run(tmp_path / "a", last=True)
    assert_close(trained.params, average)
    assert trained.metrics("test") == pytest.approx(result["last"]["test"])


def _initial(config):
    return prepare(config).task.init(xjax.random.split(xjax.random.PRNGKey(config.seed))[0])[0]


def test_frozen_parameters_stay_and_multipliers_scale(config):
    start = Placer.host(_initial(config()))
    frozen = params(train(config("freeze=[hidden0/**]", "optim.weight_decay=0.1")))
    assert_close(frozen["hidden0"], start["hidden0"], tol=0)
    assert np.abs(frozen["head"]["w"] - start["head"]["w"]).max() > 1e-3
    slow = params(train(config("steps=1", "lr_multipliers={head/**: 0.5}", "optim.name=sgd", "optim.clip_norm=null")))
    full = params(train(config("steps=1", "optim.name=sgd", "optim.clip_norm=null")))
    assert_close(2 * (slow["head"]["w"] - start["head"]["w"]), full["head"]["w"] - start["head"]["w"], tol=1 / 8)
    assert_close(slow["hidden0"], full["hidden0"], tol=0)


def test_early_stopping_counts_evaluations_and_survives_a_resume(config, tmp_path):
    options = ("optim.lr=1e-30", "early_stopping={patience: 2}", "steps=100", "checkpoint_every=4")
    result = run(config(*options, f"run_dir={tmp_path / 'a'}"), "a")
    assert (result["best"]["step"], result["last"]["step"]) == (4, 12)
    assert len(read_metrics(tmp_path / "a/metrics.jsonl")) == 12
    again = run(saved_config(tmp_path / "a"), "a", resume=True)           # it has stopped: no further step runs
    assert again["last"] == result["last"]


def test_early_stopping_waits_for_the_evaluation(config, tmp_path):
    """A report of the metrics between two evaluations does not stop it."""
    options = ("optim.lr=1e-30", "early_stopping={patience: 1}", "steps=100", "eval_every=20", "log_every=5")
    assert run(config(*options, f"run_dir={tmp_path / 'a'}"), "a")["last"]["step"] == 40


def test_the_best_parameters_are_kept_besides_the_last(config, tmp_path):
    """The learning rate explodes at the end, so the last parameters are worse."""
    options = ("steps=60", "optim.name=sgd", "optim.lr=0.5", "optim.clip_norm=null", "eval_every=5")
    result = run(config(*options, f"run_dir={tmp_path / 'a'}"), "a")
    scores = {r.step: (r.values["val/accuracy"], -r.values["val/loss"])
              for r in read_metrics(tmp_path / "a/metrics.jsonl") if "val/accuracy" in r.values}
    best = max(scores, key=scores.get)
    assert result["best"]["step"] == best == open_run(tmp_path / "a").step
    assert open_run(tmp_path / "a").metrics("val")["accuracy"] == pytest.approx(scores[best][0])


@pytest.mark.parametrize(("evaluations", "best", "stopped"), [
    ([(0.5, 3), (0.9, 2), (0.9, 1), (0.9, 1.5)], 3, 4),  # the lower loss wins between equal scores, but patience ends
    ([(0.5, 3), (0.55, 3), (0.58, 3), (0.7, 3)], 4, None),    # small steps, measured from the last large one
    ([(0.5, 3), (0.54, 1), (0.53, 0), (0.55, 2)], 4, 3),      # no step is large: the first stays the best
    ([(float("nan"), 3), (0.3, 3), (float("nan"), 3), (0.2, 1)], 2, 4),
])
def test_what_is_best_and_what_early_stopping_waits_for(config, evaluations, best, stopped):
    early = config("early_stopping={patience: 2, min_change: 0.06}", "eval_every=1")
    task, best_yet, ends = prepare(early).task, no_best("nothing yet"), []
    for step, (score, loss) in enumerate(evaluations, start=1):
        best_yet = judged(best_yet, {"accuracy": score, "loss": loss}, step, task, early, lambda: "a model")
        ends += [step] * stagnant(best_yet, step, early)
    assert int(best_yet.step) == best
    assert next(iter(ends), None) == stopped


@pytest.mark.parametrize(("axis", "values"), [
    ("seed=0..2", ["seed=0", "seed=1", "seed=2"]), ("a.b=1e-3,x", ["a.b=1e-3", "a.b=x"]),
    ("a=[1,2],{b: 1, c: 2}", ["a=[1,2]", "a={b: 1, c: 2}"]), ("a=3", ["a=3"])])
def test_axes_of_a_sweep(axis, values):
    assert values_of(axis) == values


@pytest.mark.parametrize("axis", ["a", "a=", "a=1,,2"])
def test_wrong_axes(axis):
    with pytest.raises(ConfigError, match="is not an axis of a sweep"):
        values_of(axis)


def test_a_sweep_trains_each_once_and_shows_means(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    args = ["--sweep", "optim.lr=0.01,0.02", "seed=0..1", "--config", "gcn", "steps=5", "devices=1"]
    assert command_line.main(args) == 0
    folders = sorted(path.name for path in Path("runs/gcn-sweep").iterdir() if path.is_dir())
    assert folders == [f"optim.lr={lr}_seed={seed}" for lr in ("0.01", "0.02") for seed in (0, 1)]
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if "±" in line]
    results = [json.loads(Path(f"runs/gcn-sweep/optim.lr=0.02_seed={seed}/result.json").read_text()) for seed in (0, 1)]
    losses = [result["last"]["test"]["loss"] for result in results]
    assert rows[1][-3:] == spread("loss", losses).split()
    table = list(csv.DictReader(Path("runs/gcn-sweep.csv").read_text().splitlines()))
    assert [row["optim.lr"] for row in table] == ["0.01", "0.02"] and table[1]["runs"] == "2"
    assert float(table[1]["test loss"]) == pytest.approx(np.mean(losses), rel=1e-12)
    assert float(table[1]["test loss deviation"]) == pytest.approx(np.std(losses, ddof=1), rel=1e-6)
    assert Path("runs/gcn-sweep.png").stat().st_size > 10_000
    assert command_line.main(args) == 0
    assert capsys.readouterr().out.count("finished before") == 4
    assert command_line.main([*args, "task.hidden=8"]) == 2
    assert "the folder has a run with another config" in capsys.readouterr().err


def test_a_run_that_fails_does_not_end_a_sweep(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    args = ["--sweep", "optim.lr=1e30,0.01", "--config", "gcn", "steps=5", "devices=1", "optim.name=sgd",
            "run_dir=mine"]
    assert command_line.main(args) == 1
    output = capsys.readouterr()
    assert "sweep: 1 of 2 runs failed.\n  optim.lr=1e30  training: " in output.err
    assert [line.split()[0] for line in Path("mine.csv").read_text().splitlines()[1:]] and not Path("runs").exists()
    assert command_line.main(args) == 1 and capsys.readouterr().out.count("finished before") == 1


def test_a_dry_run_leaves_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert command_line.main(["--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "GraphConvolution(n_out=16)" in out and "the first step, with its compilation" in out
    assert not any(tmp_path.iterdir())


def test_a_dry_run_fits_a_narrow_terminal(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    terminal = functools.partial(Console, force_terminal=True, color_system=None, width=60)
    monkeypatch.setattr(dry_run, "Console", terminal)
    assert command_line.main(["--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    start, end = (next(i for i, line in enumerate(lines) if line.startswith(word)) for word in ("layer", "parameters:"))
    assert max(map(len, lines[start:end])) <= 60 and lines[start].split() == ["layer", "output", "count"]


def test_the_printed_config_is_a_config(tmp_path, capsys):
    assert command_line.main(["--print-config", "seed=5"]) == 0
    (tmp_path / "a.yaml").write_text(capsys.readouterr().out)
    assert load_config(str(tmp_path / "a.yaml")) == load_config("gcn", ["seed=5"])


# ---- trackers ----------------------------------------------------------------------------------------------------

def test_a_tracker_that_is_missing_is_named_before_the_data_are_read(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="(?s)the tracker wandb is not installed.*pip install wandb"):
        prepare(load_config("gcn_cora", ["trackers=[wandb]"]))


def _tracked(tmp_path, name):
    pytest.importorskip(name)
    config = load_config("gcn", [f"trackers=[{name}]", "steps=4", "checkpoint_every=2", "devices=1",
                                 f"run_dir={tmp_path / 'run'}"])
    run(config, "gcn")
    run(saved_config(tmp_path / "run", extend=6), "gcn", resume=True)
    return {r.step: r.values["train/loss"] for r in read_metrics(tmp_path / "run/metrics.jsonl")}


def test_tensorboard(tmp_path):
    want = _tracked(tmp_path, "tensorboard")
    reader = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")
    events = reader.EventAccumulator(str(tmp_path / "run/tensorboard"))
    events.Reload()
    got = {event.step: float(event.tensor_proto.float_val[0]) for event in events.Tensors("train/loss")}
    assert got == pytest.approx(want)


def test_mlflow(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    want = _tracked(tmp_path, "mlflow")
    mlflow = importlib.import_module("mlflow")
    runs = mlflow.search_runs(experiment_names=["recipes"], output_format="list")
    history = mlflow.MlflowClient().get_metric_history(runs[0].info.run_id, "train/loss")
    assert {metric.step: metric.value for metric in history} == pytest.approx(want)
    assert len(runs) == 1


def test_wandb(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    _tracked(tmp_path, "wandb")
    assert list((tmp_path / "run/wandb").glob("offline-run-*"))
