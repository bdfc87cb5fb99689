"""The command line, in a process of its own and outside the checkout."""

import json
import signal
import time

import pytest


def test_main_job_prints_its_accuracy(command, tmp_path):
    code, out, err = command("--config", "gcn.yaml", "devices=1")
    assert code == 0, err
    assert "test accuracy 96.88 % (last step, 200)" in out
    assert len((tmp_path / "runs/gcn/metrics.jsonl").read_text().splitlines()) == 200
    assert (tmp_path / "runs/gcn/learning_curve.png").stat().st_size > 10_000


def test_the_default_is_the_karate_club(command):
    code, out, err = command("steps=1", "devices=2")
    assert code == 0, err
    assert "dataset  karate" in out


def test_killed_in_the_middle_and_resumed_is_the_unbroken_run(command, tmp_path):
    overrides = ("steps=300", "checkpoint_every=20", "devices=1", "task.dropout=0.5")
    code, _, err = command(*overrides, "run_dir=whole")
    assert code == 0, err
    process = command(*overrides, "run_dir=broken", wait=False)
    while not (tmp_path / "broken/checkpoints/100").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "broken/checkpoints/300").exists()
    code, out, err = command("--resume", "broken")
    assert code == 0, err
    assert "resumed at step" in out
    assert "not bit for bit" not in out
    whole, broken = (
        json.loads((tmp_path / d / "checkpoints/300/manifest.json").read_text())
        for d in ("whole", "broken")
    )
    assert whole == broken
    lines = [(tmp_path / d / "metrics.jsonl").read_text() for d in ("whole", "broken")]
    assert lines[0] == lines[1]


@pytest.mark.parametrize(
    ("args", "code", "told"),
    [
        (("optim.lr=-1",), 2, "config: 1 fault in "),
        (("--config", "nothing.yaml"), 2, "config: there is no config 'nothing.yaml'"),
        (("--no-such-flag",), 2, "unrecognized arguments: --no-such-flag"),
        (("--resume",), 1, "run: there is no run to resume."),
        (("--resume", "devices=2"), 1, "run: there is no run to resume."),
        (("--extend", "3"), 2, "run: --extend is for --resume."),
        (("run_dir=/proc/here",), 1, "file: no such file or directory."),
        (("devices=1000",), 1, "devices: a CPU is split into 64 devices at most."),
        (("task.labelled=[0]",), 1, "karate: the labelled nodes must be"),
        (("--config", "gcn_cora", "task.root=here"), 1, "the data file ind.cora.x is missing."),
    ],
)
def test_errors_are_one_message_and_an_exit_code(command, tmp_path, args, code, told):
    got, out, err = command(*args)
    assert (got, out) == (code, "")
    assert told in err
    assert "Traceback" not in err
    assert not (tmp_path / "runs").exists()  # nothing is left behind
