"""docs/training.md, docs/new_task.md and the README tell the truth: their commands run, word for word and in order.

A ```text block is what the block before it prints: its lines stand in the output, in this order, up to numbers. A block
that begins with a comment such as ``# name.py`` is a file of that name.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(python|bash|yaml|text)\n(.*?)^```\n", re.DOTALL | re.MULTILINE)


def blocks(page):
    return BLOCK.findall((ROOT / page).read_text())


def without_numbers(text):
    return re.sub(r"\d[\d.]*", "#", " ".join(text.split()))


def run(argv, folder):
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(argv, cwd=folder, text=True, capture_output=True, timeout=300,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "XLA_FLAGS": ""})
    assert done.returncode == 0, f"{argv}\n{done.stdout}{done.stderr}"
    return done.stdout


def run_page(found, folder):
    out = ""
    for kind, text in found:
        name = re.match(r"# (\w+\.(?:py|yaml))\n", text)
        if name:
            (folder / name[1]).write_text(text)
        elif kind == "bash":
            lines = [line for line in text.splitlines() if not line.startswith("#")]
            argvs = [shlex.split(line.partition("  # ")[0]) for line in lines]
            assert all(argv[0] == "python" for argv in argvs)
            out = "".join(run([sys.executable, *argv[1:]], folder) for argv in argvs)
        elif kind == "python":
            out = run([sys.executable, "-c", text], folder)
        elif kind == "text":
            printed = [without_numbers(line) for line in out.splitlines()]
            for line in text.splitlines():
                at = next((i for i, each in enumerate(printed) if without_numbers(line) in each), None)
                assert at is not None, f"{line!r} is not in the output, or not after the line before it:\n{out}"
                printed = printed[at + 1:]


@pytest.mark.parametrize("page", ["docs/training.md", "docs/new_task.md"])
def test_the_commands_of_a_page_run_and_print_what_it_shows(page, tmp_path):
    run_page(blocks(page), tmp_path)


def test_the_commands_of_the_readme_run(tmp_path):
    found = [(kind, text) for kind, text in blocks("README.md") if kind == "bash" and "venv" not in text]
    assert len(found) == 1
    run_page(found, tmp_path)
