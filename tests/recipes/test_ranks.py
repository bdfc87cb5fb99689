"""Ranks of a run stop at the same step: they agree through a store, here a dictionary, with threads as ranks."""

import random
import signal
import threading
import time

import pytest

from recipes.process.progress import Phase, ProgressFile, read_progress
from recipes.training import ranks as module
from recipes.training.ranks import Ranks, SharedInterrupts


class Store:
    """The methods of the store of `xjax.distributed`."""

    def __init__(self):
        self.values, self.joined = {}, True

    def publish(self, key, value):
        self.values[key] = value

    def published(self, folder):
        return {key.removeprefix(f"{folder}/"): value for key, value in list(self.values.items())
                if key.startswith(f"{folder}/")}

    def is_initialized(self):
        return self.joined


@pytest.mark.parametrize("seed", range(8))
def test_ranks_stop_after_the_same_step(seed, monkeypatch):
    """Three ranks, each a few steps ahead at most, as collectives allow; one of them gets a signal."""
    store, rng, ahead = Store(), random.Random(seed), 3
    monkeypatch.setattr(module, "xjax", type("xjax", (), {"distributed": store}))
    monkeypatch.setattr(module, "_LOOK", 0.001)
    ranks = [SharedInterrupts(Ranks(i, 3), "resume") for i in range(3)]
    steps, stopped = [0] * 3, [0] * 3

    def train(i):
        pace = random.Random(seed * 10 + i)
        while not stopped[i]:
            step = steps[i] + 1
            while step - min(steps) > ahead:                  # a rank cannot continue without the others
                time.sleep(0.0005)
            time.sleep(pace.random() * 0.002)
            steps[i] = step
            if ranks[i].stop_after(step):
                stopped[i] = step

    threads = [threading.Thread(target=train, args=(i,), daemon=True) for i in range(3)]
    for rank, thread in zip(ranks, threads, strict=True):
        rank.agree()
        thread.start()
    time.sleep(0.02 * rng.random())
    ranks[rng.randrange(3)].received = signal.SIGTERM
    for thread in threads:
        thread.join(20)
    store.joined = False
    assert not any(thread.is_alive() for thread in threads), (steps, store.values)
    assert len(set(stopped)) == 1 and stopped[0] > 0, stopped
    assert {rank.received for rank in ranks} == {signal.SIGTERM}


def test_rank_0_shares_what_it_knows(monkeypatch):
    store = Store()
    monkeypatch.setattr(module, "xjax", type("xjax", (), {"distributed": store}))
    assert Ranks().from_first("folder", lambda: "a") == "a" and not store.values
    assert Ranks(0, 2).from_first("folder", lambda: ["a", 3]) == ["a", 3]
    assert Ranks(1, 2).from_first("folder", lambda: 1 / 0) == ["a", 3]


def test_progress(tmp_path):
    file = tmp_path / "rank0.progress"
    assert read_progress(file).phase is Phase.STARTING
    written = ProgressFile(file)
    written.tick(7, Phase.TRAINING)
    written.tick()
    assert read_progress(file)[::2] == (7, Phase.TRAINING)
    written.tick(phase=Phase.FAILED, exit_code=3)
    progress = read_progress(file)
    assert (progress.step, progress.phase, progress.exit_code) == (7, Phase.FAILED, 3)
    assert abs(progress.seconds - time.monotonic()) < 10
