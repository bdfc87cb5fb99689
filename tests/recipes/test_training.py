"""Training: accuracy on the club, and the same curve on any device count."""

import json
import shutil
import signal

import numpy as np
import pytest

from recipes.errors import CheckpointError, DivergedError, Interrupted
from recipes.process.interrupts import Interrupts
from recipes.process.parallel import Placer
from recipes.results.folder import saved_config
from recipes.settings.config_file import load_config
from recipes.training import loop as loop_module
from recipes.training.hooks import read_metrics
from recipes.training.loop import Loop
from recipes.training.run import prepare, run
from recipes.training.step import TrainStep, init_state
from tests.recipes.conftest import train as train_config
from tests.sampling import one_in
from xjax import tree_util

pytestmark = pytest.mark.usefixtures("no_curve")


def train(name, *overrides):
    """Test metrics and train loss of every step, without a run folder."""
    return train_config(load_config(name, overrides))[:2]


def test_karate_club_ten_seeds():
    """At least 95 % of the 34 nodes for each seed: at most one is wrong."""
    config = load_config("gcn.yaml", ["devices=1"])
    assert (config.task.hidden, config.steps, config.task.labelled) == (16, 200, (0, 33))
    data, task, placer = prepare(config)[1:]
    splits = {split: task.batches(rows, placer, 0) for split, rows in data.splits.items()}
    loop = Loop(config, task, placer, splits)
    for seed in range(10):
        state = placer.replicate(init_state(task, config.model_copy(update={"seed": seed})))
        for i in range(config.steps):
            state, sums = loop._train_step(state, splits["train"].train(i))
            placer.host(sums)
        right = sum(loop.totals(state.model, split)["accuracy"][0] for split in ("train", "test"))
        assert right / 34 >= 0.95, f"seed {seed}: {right:.0f} of 34 nodes"


@pytest.fixture(scope="module")
def one_device():
    return train("gcn.yaml", "devices=1", "task.dropout=0.5", "steps=60")


@pytest.mark.parametrize(("name", "options", "devices"), [
    pytest.param("gcn", ["task.dropout=0.5"], 1, marks=pytest.mark.slow), ("gcn", ["task.dropout=0.5"], 2),
    pytest.param("mlp_table", ["task.file={rings}", "task.target=ring", "task.batch_size=50"], 1,
                 marks=pytest.mark.slow),
    ("mlp_table", ["task.file={rings}", "task.target=ring", "task.batch_size=52", "accumulate=2"], 2),
    ("resnet_digits", ["task.model={{name: resnet, stages: [[1, 4]], small_images: true}}", "task.batch_size=20"], 1)])
def test_how_many_steps_a_launch_has_changes_no_bit(monkeypatch, rings, name, options, devices):
    """The steps to the next report are one launch; slow steps are one launch each."""
    launched, call = [], TrainStep.__call__
    monkeypatch.setattr(TrainStep, "__call__", lambda *args: launched.append(args[-1]) or call(*args))

    def curve():
        launched.clear()
        return train_config(load_config(name, [*(option.format(rings=rings) for option in options),
                                               f"devices={devices}", "steps=90", "log_every=7", "eval_every=40",
                                               "checkpoint_every=1000"]))

    monkeypatch.setattr(loop_module, "SECONDS_PER_LAUNCH", 1e6)
    together = curve()
    assert launched[:8] == [1] * 7 + [7] and launched[-2:] == [4, 6] and sum(launched) == 90
    assert [5, 2] in [launched[i:i + 2] for i in range(len(launched))]            # 35, 40, 42: an evaluation between
    monkeypatch.setattr(loop_module, "SECONDS_PER_LAUNCH", 0)
    alone = curve()
    assert launched == [1] * 90
    np.testing.assert_array_equal(together[1], alone[1])
    states = [tree_util.tree_leaves(Placer.host(result.progress.state)) for result in (together, alone)]
    assert all(np.array_equal(a, b) for a, b in zip(*states, strict=True))


@pytest.mark.parametrize("devices", one_in(3, [3, 2, 4]))
def test_loss_curve_does_not_know_the_device_count(one_device, devices):
    test, losses = train("gcn.yaml", f"devices={devices}", "task.dropout=0.5", "steps=60")
    np.testing.assert_allclose(losses, one_device[1], rtol=0, atol=1e-5)
    assert test["accuracy"] == one_device[0]["accuracy"]


def test_dropout_draws_anew_at_each_step(one_device):
    """Without a new mask the loss at a tiny learning rate would not change."""
    _, losses = train("gcn.yaml", "devices=1", "task.dropout=0.5", "optim.lr=1e-12", "steps=6")
    assert len(set(losses.round(6))) == 6
    assert losses[0] == one_device[1][0]


def test_another_seed_is_another_run(one_device):
    _, losses = train("gcn.yaml", "devices=1", "task.dropout=0.5", "steps=5", "seed=1")
    assert np.abs(losses - one_device[1][:5]).max() > 1e-3


# ---- the run folder ------------------------------------------------------------------------------

SHORT = ("steps=20", "checkpoint_every=5", "log_every=5", "keep_checkpoints=4", "devices=1", "task.dropout=0.5")


def go(folder, *overrides):
    return run(load_config("gcn.yaml", [*SHORT, f"run_dir={folder}", *overrides]), "gcn")


def resumed(folder, *overrides, **options):
    return run(saved_config(folder, overrides, **options), "gcn", resume=True)


def digests(folder, step=20):
    manifest = json.loads((folder / "checkpoints" / str(step) / "manifest.json").read_text())
    return manifest["leaves"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A finished run of 20 steps, and its test metrics. Tests must not change it: see `broken`."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    return folder, go(folder)


@pytest.fixture
def broken(whole, tmp_path):
    """The folder of the same run just after step 10."""
    folder = tmp_path / "broken"
    shutil.copytree(whole[0], folder)
    for step in ("15", "20"):
        shutil.rmtree(folder / "checkpoints" / step)
    lines = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_text("".join(lines[:13]) + lines[13][:9])
    return folder


def test_a_run_leaves_a_readable_folder(whole):
    folder, result = whole
    assert {p.name for p in folder.iterdir()} == {
        "config.yaml", "data.json", "environment.json", "metrics.jsonl", "timing.jsonl", "checkpoints", "result.json",
        "learning_curve.png", ".lock"}
    assert json.loads((folder / "result.json").read_text()) == result
    assert result["last"]["step"] == 20
    records = read_metrics(folder / "metrics.jsonl")
    assert [record.step for record in records] == list(range(1, 21))
    assert all(record.values.keys() >= {"train/loss", "train/accuracy"} for record in records)
    environment = json.loads((folder / "environment.json").read_text())
    assert environment.keys() >= {"devices", "threads", "jaxlib", "cpu"}


def test_its_config_repeats_it(whole, tmp_path, capsys):
    config = load_config(str(whole[0] / "config.yaml"), [f"run_dir={tmp_path / 'b'}"])
    test = run(config, "again")["last"]["test"]
    assert f"test accuracy {100 * test['accuracy']:.2f} % (last step, 20)" in capsys.readouterr().out
    assert digests(tmp_path / "b") == digests(whole[0])


def test_resumed_is_the_unbroken_run(whole, broken, capsys):
    test = resumed(broken)
    assert test == whole[1]
    out = capsys.readouterr().out
    assert "resumed at step 10 of 20" in out
    assert "may differ in the last bits" not in out
    assert digests(broken) == digests(whole[0])
    logs = [(folder / "metrics.jsonl").read_text() for folder in (whole[0], broken)]
    assert logs[0] == logs[1]


def test_a_checkpoint_opens_on_another_device_count_and_the_run_says_so(whole, broken, capsys):
    resumed(broken, "devices=3")
    assert "devices: 1 before, 3 now" in capsys.readouterr().out
    records = [read_metrics(folder / "metrics.jsonl") for folder in (whole[0], broken)]
    for a, b in zip(*records, strict=True):
        assert a.values["train/loss"] == pytest.approx(b.values["train/loss"], abs=1e-5)


def test_a_damaged_checkpoint_stops_the_resume_and_the_one_before_serves(whole, broken):
    manifest = broken / "checkpoints/10/manifest.json"
    manifest.write_text(manifest.read_text().replace('"sha256": "', '"sha256": "0'))
    with pytest.raises(CheckpointError, match="its SHA-256 differs"):
        resumed(broken)
    shutil.rmtree(manifest.parent)
    resumed(broken)  # from step 5
    assert digests(broken) == digests(whole[0])


def test_divergence_ends_the_run_and_leaves_sound_checkpoints_and_the_whole_log(tmp_path):
    with pytest.raises(DivergedError, match=r"is (not finite after|inf at|nan at) step \d+") as caught:
        go(tmp_path / "a", "optim.name=sgd", "optim.lr=1e18", "checkpoint_every=1", "log_every=1")
    losses = [record.values["train/loss"] for record in read_metrics(tmp_path / "a/metrics.jsonl")]
    assert np.isfinite(losses[:-2]).all()
    steps = sorted(int(folder.name) for folder in (tmp_path / "a/checkpoints").iterdir())
    assert steps and steps[-1] <= len(losses)
    assert f"last valid checkpoint  {tmp_path / 'a/checkpoints' / str(steps[-1])}\n" in str(caught.value)


def test_the_records_before_a_nan_are_in_the_log(tmp_path):
    with pytest.raises(DivergedError):
        go(tmp_path / "a", "optim.name=sgd", "optim.lr=1e18", "log_every=20", "checkpoint_every=20")
    assert len(read_metrics(tmp_path / "a/metrics.jsonl")) == 20


# ---- signals, longer runs, other data ----------------------------------------------------------------------------


class _After(Interrupts):
    """A signal that arrives while some step runs."""

    def __init__(self, looks):
        self._looks, self.resume = looks, "python -m recipes.train --resume"

    @property
    def received(self):
        self._looks -= 1
        return signal.SIGTERM if self._looks < 0 else None


@pytest.mark.parametrize(("looks", "patience"), [(1, 0), (8, 0), (15, 0), (6, 1e6)])
def test_a_signal_saves_at_the_next_step_and_the_resumed_run_is_the_unbroken_one(whole, tmp_path, monkeypatch, looks,
                                                                                  patience):
    """Each step is a launch, or all steps up to the next report are one."""
    monkeypatch.setattr(loop_module, "SECONDS_PER_LAUNCH", patience)
    folder = tmp_path / "a"
    config = load_config("gcn.yaml", [*SHORT, f"run_dir={folder}"])
    with pytest.raises(Interrupted) as caught:
        run(config, "gcn", interrupts=_After(looks))
    assert caught.value.exit_code == 143
    assert f"fix: python -m recipes.train --resume {folder}" in str(caught.value)
    assert resumed(folder) == whole[1]
    assert digests(folder) == digests(whole[0])
    assert (folder / "metrics.jsonl").read_text() == (whole[0] / "metrics.jsonl").read_text()


def test_a_signal_before_the_first_step_leaves_nothing(tmp_path):
    with pytest.raises(Interrupted, match="before the first step"):
        run(load_config("gcn", [f"run_dir={tmp_path / 'a'}"]), "gcn", interrupts=_After(0))
    assert not (tmp_path / "a").exists()


def test_an_extended_run_keeps_its_schedule(tmp_path):
    go(tmp_path / "long", "optim.schedule=linear", "steps=30", "schedule_steps=20")
    go(tmp_path / "short", "optim.schedule=linear")
    resumed(tmp_path / "short", extend=30)
    assert digests(tmp_path / "short", 30) == digests(tmp_path / "long", 30)
    rates = [record.values["train/lr"] for record in read_metrics(tmp_path / "short/metrics.jsonl")]
    np.testing.assert_allclose(rates[:20], 0.01 * (1 - np.arange(20) / 20), rtol=1e-5)
    np.testing.assert_allclose(rates[20:], 0, atol=1e-8)


def test_other_data_are_refused_on_resume(rings, tmp_path):
    file = tmp_path / "rings.csv"
    file.write_text(rings.read_text())
    config = load_config("mlp_table", [f"task.file={file}", "task.target=ring", "steps=2", "devices=1",
                                       "optim.schedule=constant", f"run_dir={tmp_path / 'a'}"])
    run(config, "mlp_table")
    file.write_text(rings.read_text().replace("outer", "far"))
    with pytest.raises(CheckpointError, match="it was trained on other data"):
        resumed(tmp_path / "a", extend=4)


# ---- real graphs ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_planetoid_curve_does_not_know_the_device_count(planetoid_root):
    overrides = (f"task.root={planetoid_root}", "steps=10")
    _, one = train("gcn_cora", "devices=1", *overrides)
    _, three = train("gcn_cora", "devices=3", *overrides)
    np.testing.assert_allclose(one, three, rtol=0, atol=1e-5)
