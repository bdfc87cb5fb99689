"""The command line outside the checkout; tests that need a process of their own."""

import json
import signal
import time

import pytest

from recipes.settings.config_file import load_config
from recipes.train import main
from recipes.training.run import run


def test_main_job_prints_its_accuracy(command, tmp_path):
    code, out, err = command("--config", "gcn.yaml", "devices=1")
    assert code == 0, err
    assert "test accuracy 96.88 % (last step, 200)" in out
    assert len((tmp_path / "runs/gcn/metrics.jsonl").read_text().splitlines()) == 200
    assert (tmp_path / "runs/gcn/learning_curve.png").stat().st_size > 10_000


def test_the_default_is_the_karate_club(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["steps=1", "devices=2"]) == 0
    assert "dataset  karate" in capsys.readouterr().out


def test_killed_in_the_middle_and_resumed_is_the_unbroken_run(command, tmp_path, monkeypatch, capsys):
    overrides = ("steps=300", "checkpoint_every=20", "devices=1", "task.dropout=0.5")
    monkeypatch.chdir(tmp_path)
    run(load_config("gcn.yaml", [*overrides, "run_dir=whole"]), "gcn")
    process = command(*overrides, "run_dir=broken", wait=False)
    while not (tmp_path / "broken/checkpoints/100").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "broken/checkpoints/300").exists()
    capsys.readouterr()
    assert main(["--resume", "broken"]) == 0
    out = capsys.readouterr().out
    assert "resumed at step" in out
    assert "may differ in the last bits" not in out
    whole, broken = (
        json.loads((tmp_path / d / "checkpoints/300/manifest.json").read_text())
        for d in ("whole", "broken")
    )
    assert whole == broken
    lines = [(tmp_path / d / "metrics.jsonl").read_text() for d in ("whole", "broken")]
    assert lines[0] == lines[1]


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (("optim.lr=-1",), 2, "config: 1 fault in "),
        (("--config", "nothing.yaml"), 2, "config: there is no config 'nothing.yaml'"),
        (("--no-such-flag",), 2, "unrecognized arguments: --no-such-flag"),
        (("--resume",), 1, "run: there is no run to resume."),
        (("--resume", "devices=2"), 1, "run: there is no run to resume."),
        (("--extend", "3"), 2, "run: --extend needs --resume."),
        (("run_dir=/proc/here",), 1, "file: no such file or directory."),
        (("task.labelled=[0]",), 1, "karate: the labelled nodes must be"),
        (("--config", "gcn_cora", "task.root=here"), 1, "the data file ind.cora.x is missing."),
    ],
)
def test_errors_are_one_message_and_an_exit_code(tmp_path, monkeypatch, capfd, args, code, message):
    monkeypatch.chdir(tmp_path)
    try:
        got = main(args)                                      # it would raise a traceback here
    except SystemExit as end:                                 # from argparse
        got = end.code
    out, err = capfd.readouterr()
    assert (got, out) == (code, "")
    assert message in err
    assert "Traceback" not in err
    assert not (tmp_path / "runs").exists()  # no folder is left


def test_an_error_of_a_process(command, tmp_path):
    """In a process of its own, because the backend of this one has started."""
    code, out, err = command("devices=1000")
    assert (code, out) == (1, "")
    assert "devices: a CPU is split into 64 devices at most." in err
    assert "Traceback" not in err
    assert not (tmp_path / "runs").exists()
