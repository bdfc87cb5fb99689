"""The statements of docs/guides/performance.md about a training step, by its benchmark."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_the_order_of_the_forms_and_the_share_of_products():
    environ = {**os.environ, "XLA_FLAGS": "", "PYTHONPATH": "."}
    done = subprocess.run([sys.executable, "-W", "ignore", "benchmarks/profile_step.py"], capture_output=True,
                          text=True, env=environ, cwd=Path(__file__).resolve().parents[1], timeout=300)
    assert done.returncode == 0, done.stderr
    times = {name: float(time) for name, time in re.findall(r"\| ([^`|]+) \| ([\d.]+) ms \|", done.stdout)}
    eager, read, jit, _, scan = times.values()
    assert eager > 10 * jit and read > jit > 2 * scan
    assert int(re.search(r"products and sums of rows: (\d+) %", done.stdout)[1]) > 60
