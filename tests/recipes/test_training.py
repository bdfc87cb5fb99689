"""Training itself: accuracy on the club, and the same curve on any device count."""

import json

import numpy as np
import pytest

from recipes.config import load_config
from recipes.errors import CheckpointError, DivergedError, RecipeError
from recipes.hooks import read_metrics
from recipes.loop import fit
from recipes.optim import make_optimizer
from recipes.parallel import Placer, choose_devices
from recipes.run import run
from recipes.step import init_state, make_eval_step, make_train_step
from recipes.tasks import build_task


def train(name, *overrides):
    """Test metrics, train loss of every step, and the last parameters, without a run folder."""
    config = load_config(name, overrides)
    placer = Placer(choose_devices(config.devices))
    task = build_task(config, placer)
    optimizer = make_optimizer(config.optim, config.steps)
    seen = []

    def keep(report):
        seen.extend(record.values["train/loss"] for record in report.records)

    state = init_state(task, optimizer, config.seed)
    test = fit(config, task, optimizer, placer, state, [keep])
    return test, np.array(seen)


def test_karate_club_ten_seeds():
    """At least 95 % of the 34 nodes for each seed: at most one wrong."""
    config = load_config("gcn.yaml")
    assert (config.task.hidden, config.steps, config.task.labelled) == (16, 200, (0, 33))
    placer = Placer(choose_devices(1))
    task = build_task(config, placer)
    optimizer = make_optimizer(config.optim, config.steps)
    step, judge = make_train_step(task, optimizer, placer), make_eval_step(task, placer)
    for seed in range(10):
        state = placer.replicate(init_state(task, optimizer, seed))
        for i in range(config.steps):
            state, sums = step(state, task.train_batch(i))
            placer.fetch(sums)
        right = [
            float(placer.fetch(judge(state.params, batch))["accuracy"][0])
            for batch in (task.batches["train"], *task.eval_batches("test"))
        ]
        assert sum(right) / 34 >= 0.95, f"seed {seed}: {sum(right):.0f} of 34 nodes"


@pytest.fixture(scope="module")
def one_device():
    return train("gcn.yaml", "devices=1", "task.dropout=0.5", "steps=100")


@pytest.mark.parametrize("devices", [2, 3, 4])
def test_loss_curve_does_not_know_the_device_count(one_device, devices):
    test, losses = train("gcn.yaml", f"devices={devices}", "task.dropout=0.5", "steps=100")
    np.testing.assert_allclose(losses, one_device[1], rtol=0, atol=1e-5)
    assert test["accuracy"] == one_device[0]["accuracy"]


def test_dropout_draws_anew_at_each_step(one_device):
    """Without a fresh mask the loss at a tiny rate would stand still."""
    _, losses = train("gcn.yaml", "devices=1", "task.dropout=0.5", "optim.lr=1e-12", "steps=6")
    assert len(set(losses.round(6))) == 6
    assert losses[0] == one_device[1][0]


def test_another_seed_is_another_run(one_device):
    _, losses = train("gcn.yaml", "devices=1", "task.dropout=0.5", "steps=5", "seed=1")
    assert np.abs(losses - one_device[1][:5]).max() > 1e-3


# ---- the run folder ------------------------------------------------------------------------------

SHORT = ("steps=20", "checkpoint_every=5", "log_every=5", "devices=1", "task.dropout=0.5")


def go(folder, *overrides, resume=False):
    config = load_config("gcn.yaml", [*SHORT, f"run_dir={folder}", *overrides])
    return run(config, "gcn", resume=resume)


def digests(folder, step):
    manifest = json.loads((folder / "checkpoints" / str(step) / "manifest.json").read_text())
    return manifest["leaves"]


def test_a_run_leaves_a_folder_that_repeats_it(tmp_path, capsys):
    test = go(tmp_path / "a")
    out = capsys.readouterr().out
    assert f"test accuracy {100 * test['accuracy']:.2f} % (last step, 20)" in out
    names = {p.name for p in (tmp_path / "a").iterdir()}
    assert names == {
        "config.yaml", "environment.json", "metrics.jsonl", "checkpoints", "result.json",
        "learning_curve.png",
    }  # fmt: skip
    assert json.loads((tmp_path / "a/result.json").read_text()) == {"step": 20, "test": test}
    assert [r.step for r in read_metrics(tmp_path / "a/metrics.jsonl")] == list(range(1, 21))
    environment = json.loads((tmp_path / "a/environment.json").read_text())
    assert environment.keys() >= {"devices", "threads", "jaxlib", "cpu"}

    again = load_config(str(tmp_path / "a/config.yaml"), [f"run_dir={tmp_path / 'b'}"])
    run(again, "again")
    assert digests(tmp_path / "a", 20) == digests(tmp_path / "b", 20)


def test_resumed_in_process_is_the_unbroken_run(tmp_path, capsys):
    go(tmp_path / "whole")
    go(tmp_path / "broken", "steps=10")
    go(tmp_path / "broken", resume=True)
    assert "resumed at step 10 of 20" in capsys.readouterr().out
    assert digests(tmp_path / "whole", 20) == digests(tmp_path / "broken", 20)
    whole, broken = (read_metrics(tmp_path / d / "metrics.jsonl") for d in ("whole", "broken"))
    assert [r.values["train/loss"] for r in whole] == [r.values["train/loss"] for r in broken]


@pytest.mark.parametrize("before", [1, 4])
def test_a_checkpoint_opens_on_another_device_count_and_says_so(tmp_path, capsys, before):
    go(tmp_path / "whole")
    go(tmp_path / "moved", "steps=10", f"devices={before}")
    go(tmp_path / "moved", "devices=3", resume=True)
    assert f"devices: {before} before, 3 now" in capsys.readouterr().out
    whole, moved = (read_metrics(tmp_path / d / "metrics.jsonl") for d in ("whole", "moved"))
    for a, b in zip(whole, moved, strict=True):
        assert a.values["train/loss"] == pytest.approx(b.values["train/loss"], abs=1e-5)


def test_a_damaged_checkpoint_stops_the_resume_and_the_one_before_serves(tmp_path):
    go(tmp_path / "whole")
    go(tmp_path / "a", "steps=10")
    manifest = tmp_path / "a/checkpoints/10/manifest.json"
    manifest.write_text(manifest.read_text().replace('"sha256": "', '"sha256": "0'))
    with pytest.raises(CheckpointError, match="its SHA-256 differs"):
        go(tmp_path / "a", resume=True)
    for file in sorted(manifest.parent.rglob("*"), reverse=True):
        file.unlink() if file.is_file() else file.rmdir()
    manifest.parent.rmdir()
    go(tmp_path / "a", resume=True)  # from step 5
    assert digests(tmp_path / "whole", 20) == digests(tmp_path / "a", 20)


def test_a_finished_run_resumes_to_its_own_result(tmp_path):
    test = go(tmp_path / "a")
    assert go(tmp_path / "a", resume=True) == test


def test_a_used_folder_is_not_overwritten(tmp_path):
    go(tmp_path / "a", "steps=1")
    with pytest.raises(RecipeError) as caught:
        go(tmp_path / "a", "steps=1")
    assert str(caught.value) == (
        "run: the run folder is in use: it would be overwritten.\n"
        f"  run_dir  {tmp_path / 'a'}\n"
        "  fix: --resume to go on with that run, or another run_dir."
    )


def test_default_folders_count_up_and_resume_takes_the_last(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for steps in (1, 2, 3):
        run(load_config("gcn.yaml", [f"steps={steps}", "devices=1"]), "gcn")
    assert sorted(p.name for p in (tmp_path / "runs").iterdir()) == ["gcn", "gcn-2", "gcn-3"]
    run(load_config("gcn.yaml", ["steps=5", "devices=1"]), "gcn", resume=True)
    assert len(read_metrics(tmp_path / "runs/gcn-3/metrics.jsonl")) == 5


def test_nothing_to_resume(tmp_path):
    with pytest.raises(RecipeError, match="there is no run to resume"):
        go(tmp_path / "nowhere", resume=True)


def test_resume_with_another_config_names_the_keys(tmp_path):
    go(tmp_path / "a", "steps=1")
    with pytest.raises(RecipeError) as caught:
        go(tmp_path / "a", "optim.lr=0.5", "task.hidden=8", "steps=3", resume=True)
    told = str(caught.value)
    assert "optim.lr     0.01 in the run, 0.5 now" in told
    assert "task.hidden  16 in the run, 8 now" in told
    assert "steps" not in told


def test_divergence_ends_the_run_and_leaves_sound_checkpoints(tmp_path):
    with pytest.raises(DivergedError, match=r"is (not finite after|inf at|nan at) step \d+"):
        go(tmp_path / "a", "optim.name=sgd", "optim.lr=1e18", "checkpoint_every=1")
    logged = read_metrics(tmp_path / "a/metrics.jsonl")
    assert all(np.isfinite(record.values["train/loss"]) for record in logged)
    for folder in (tmp_path / "a/checkpoints").iterdir():
        assert int(folder.name) <= len(logged)


# ---- published numbers ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("name", "target"), [("gcn_cora", 0.810), ("gcn_citeseer", 0.698)])
def test_published_accuracy(planetoid_root, name, target):
    """Mean over 10 seeds at the last step; the paper has 81.5 % and 70.3 %."""
    scores = [
        train(name, f"task.root={planetoid_root}", f"seed={seed}", "eval_every=200")[0]["accuracy"]
        for seed in range(10)
    ]
    assert np.mean(scores) >= target, scores


def test_planetoid_curve_does_not_know_the_device_count(planetoid_root):
    overrides = (f"task.root={planetoid_root}", "steps=10")
    _, one = train("gcn_cora", "devices=1", *overrides)
    _, three = train("gcn_cora", "devices=3", *overrides)
    np.testing.assert_allclose(one, three, rtol=0, atol=1e-5)
