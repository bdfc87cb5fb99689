"""The programs of docs/gallery reach the number that their page gives, for three seeds.

The code blocks of a page are one program, which sets `SEED = 0`. `RESULTS` has a row for each page. tests/test_docs.py
tests the shown output and the picture.
The code blocks of a page are one program, which sets `SEED = 0`. `RESULTS` has a row for each page.
tests/test_docs.py compares the output and the picture with those of the page.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import NamedTuple

import pytest

from tests.test_docs import BLOCKS, DOCS

SEEDS = range(3)


class Result(NamedTuple):
    """A number that a program computes: its variable, and the bounds of its value for every seed."""

    variable: str
    least: float
    most: float


RESULTS: dict[str, Result] = {
    "infinite_width": Result("accuracy", 0.98, 1.0),
    "many_devices": Result("largest", 0.0, 1e-5),
    "nodes_from_csv": Result("accuracy", 0.88, 0.99),
    "simulation": Result("distance", 0.0, 1e-3),
    "gaussian_process": Result("coverage", 0.92, 0.94),
    "neural_ode": Result("error", 0.03, 0.15),
    "hamiltonian_monte_carlo": Result("worst", 0, 0.02),
    "lora": Result("score", 0.85, 1),
    "reinforcement_learning": Result("mean_return", -180, -120),
    "retrieval": Result("recall", 0.8, 1),
    "sequence_to_sequence": Result("exact", 0.95, 1),
    "diffusion": Result("share", 0.98, 1.0),
    "flow": Result("divergence", 0.02, 0.12),
    "physics_informed": Result("error", 1e-4, 5e-3),
}


def program(page):
    return "\n".join(block.code for block in BLOCKS[f"gallery/{page}.md"])


def test_every_page_has_a_row():
    assert {path.stem for path in (DOCS / "gallery").glob("*.md")} - {"index"} == set(RESULTS)


@pytest.mark.parametrize("page", RESULTS)
def test_a_program_is_short_and_has_one_seed(page):
    code = program(page)
    assert len(code.splitlines()) < 150
    assert len(re.findall(r"^SEED = 0$", code, re.MULTILINE)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("page", RESULTS)
def test_a_program_reaches_its_number(page, seed, tmp_path):
    if missing := {name for block in BLOCKS[f"gallery/{page}.md"] for name in block.missing()}:
        pytest.skip(f"docs/gallery/{page}.md uses {', '.join(sorted(missing))}: not installed")
    result = RESULTS[page]
    code = re.sub(r"^SEED = 0$", f"SEED = {seed}", program(page), flags=re.MULTILINE)
    (tmp_path / "program.py").write_text(f"{code}\nprint(float({result.variable}))\n")
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=600,
                          env={**os.environ, "PYTHONPATH": str(DOCS.parent), "XLA_FLAGS": ""})   # as for users
    assert done.returncode == 0, done.stderr
    assert result.least <= float(done.stdout.splitlines()[-1]) <= result.most
