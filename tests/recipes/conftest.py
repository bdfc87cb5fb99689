"""Fixtures of the recipes' tests: data files and the command line."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from recipes.process.interrupts import Interrupts
from recipes.training.loop import Loop, begin
from recipes.training.run import prepare, results
from recipes.training.step import init_state

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def planetoid_root():
    """Folder of the real Planetoid files; skips the test without them."""
    places = [
        os.environ.get("PLANETOID_DIR"),
        ROOT / "data/planetoid",
        ROOT / "../shared/data/planetoid",
    ]
    for place in places:
        if place and Path(place, "ind.cora.x").is_file():
            return Path(place)
    pytest.skip("no Planetoid files: set PLANETOID_DIR to the folder of the ind.* files")


@pytest.fixture(scope="session")
def rings(tmp_path_factory):
    """Csv of 300 points on two noisy rings: columns x, y, note (words), ring (inner or outer)."""
    rng = np.random.default_rng(0)
    outer = rng.integers(0, 2, 300)
    angle, radius = rng.uniform(0, 2 * np.pi, 300), 1 + outer + rng.normal(0, 0.15, 300)
    file = tmp_path_factory.mktemp("table") / "rings.csv"
    names = np.array(["inner", "outer"])[outer]
    rows = zip(radius * np.cos(angle), radius * np.sin(angle), names, strict=True)
    file.write_text("x,y,note,ring\n" + "".join(f"{x:.4f},{y:.4f},abc,{r}\n" for x, y, r in rows))
    return file


class Trained(NamedTuple):
    """The result of a training without a run folder.

    Attributes:
      test, best: test metrics of the last parameters, and of those best on validation, empty if none were evaluated.
    """

    test: dict
    losses: np.ndarray
    progress: object
    task: object
    best: dict


class _NothingSaved:
    """A `Saver` that saves nothing."""

    def save(self, *_):
        pass

    check = wait = save


def train(config):
    """Train as the config says, without a run folder."""
    prepared = prepare(config)
    _, data, task, placer = prepared
    losses = []

    def keep(report):
        losses.extend(record.values["train/loss"] for record in report.records)

    loop = Loop(config, task, placer, prepared.batches())
    progress = loop.fit(begin(init_state(task, config), data.splits), [keep], _NothingSaved(), Interrupts())
    outcome = results(loop, progress)
    best = outcome.get("best", {}).get("test", {})
    return Trained(outcome["last"]["test"], np.array(losses), progress, task, best)


@pytest.fixture
def no_curve(monkeypatch):
    """Runs draw no learning curve, which takes longer than a short training."""
    monkeypatch.setattr("recipes.training.run.learning_curve", lambda *_: None)


@pytest.fixture
def command(tmp_path):
    """Starts ``python -m recipes.train`` in an empty folder; ``wait=False``: a Popen, stopped after the test."""
    started = []

    for number in (signal.SIGINT, signal.SIGHUP):  # ignored in background jobs of a shell, and so in children
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)

    def start(*args, wait=True, module=("-m", "recipes.train"), **env):
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths[::-1])} | env
        process = subprocess.Popen(
            [sys.executable, *module, *args],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        if not wait:
            return process
        out, err = process.communicate(timeout=300)
        return process.returncode, out, err

    yield start
    for process in started:
        stop(process)


def stop(process):
    """End the processes that a failed test has left, first by a signal on which a launcher ends its ranks."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
