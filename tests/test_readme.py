"""The README is correct: its tour runs unchanged, and CI runs its test command."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.quick_compiling import flags

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


def test_tour_runs():
    pytest.importorskip("optax")
    tour, = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    env = {**os.environ, "XLA_FLAGS": flags(), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", tour], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "tanh a" in done.stdout


def test_ci_runs_the_command_of_the_readme():
    commands = re.findall(r"```bash\n(python3 -m venv .*?)\n```", README)
    assert len(commands) == 2
    assert commands[1] in (ROOT / ".ci/run").read_text().splitlines()
