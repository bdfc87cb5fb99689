"""The README is correct: its examples run unchanged, and CI runs its test command."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


def test_examples_run():
    """They are one program."""
    pytest.importorskip("optax")
    pytest.importorskip("sklearn")
    examples = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(examples) == 2
    env = {**os.environ, "XLA_FLAGS": "", "PYTHONPATH": str(ROOT)}         # they compute for longer than they compile
    done = subprocess.run([sys.executable, "-c", "\n".join(examples)], env=env, capture_output=True, text=True,
                          timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    length, *program, accuracy = done.stdout.splitlines()
    assert abs(float(length) - 1) < 1e-3 and float(accuracy) > 0.9
    assert program[0].startswith("{ lambda ; a:f32[1000,8]. let") and "integer_pow" in "".join(program)


def test_it_is_short():
    assert len(README.splitlines()) <= 120


def test_ci_runs_the_command_of_the_readme():
    commands = re.findall(r"```bash\n(python3 -m venv .*?)\n```", README)
    assert len(commands) == 2
    assert commands[1] in (ROOT / ".ci/run").read_text().splitlines()
