"""Storms of launches: thousands of calls without waiting, next to a busy process, end and are exact.

JAX 0.10 aborts in some: the devices of a CPU share one pool of threads, and a queue of collectives can occupy all.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.isolated import run

KINDS = 7                               # kinds of steps in `storm.py`


@pytest.fixture
def busy_process():
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    yield
    process.kill()
    process.wait()


def check_storm(devices, threads, calls, seed, timeout):
    out = run(f"from tests.parallel.storm import main; main({devices}, {threads}, {calls}, {seed})", timeout=timeout,
              devices=devices)
    assert int(out) == KINDS * threads * calls


def test_a_storm(busy_process):
    check_storm(8, 2, 100, 0, timeout=120)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("devices", [2, 4, 8, 16])
def test_a_storm_of_2000_calls_each(devices, threads, seed, busy_process):
    check_storm(devices, threads, 2000, seed, timeout=600)
