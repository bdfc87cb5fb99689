"""docs/training.md, docs/new_task.md, pages of docs/start and the README are correct: their commands run in order.

A ```text block is the output of the block before it: its lines occur in the output, in this order, up to numbers. A
block that begins with a comment such as ``# name.py`` is a file of that name.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.quick_compiling import flags

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(python|bash|yaml|text)\n(.*?)^```\n", re.DOTALL | re.MULTILINE)


def blocks(page):
    return BLOCK.findall((ROOT / page).read_text())


def without_numbers(text):
    return re.sub(r"\d[\d.]*( [KMG]iB)?", "#", " ".join(text.split()))


def run(argv, folder, given=""):
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(argv, cwd=folder, input=given, text=True, capture_output=True, timeout=300,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "XLA_FLAGS": flags()})
    assert done.returncode == 0, f"{argv}\n{done.stdout}{done.stderr}"
    return done.stdout


def commands(text):
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    argvs = [shlex.split(line.partition("  # ")[0]) for line in lines]
    assert all(argv[0] == "python" for argv in argvs)
    return [argv[1:] for argv in argvs]


# The blocks of all pages run in one process, which saves the imports: as `python` runs a file, "-c" or "-m".
IN_ONE_PROCESS = """
import json, os, runpy, sys
sys.path.insert(0, "")
for folder, work in json.load(sys.stdin):
    os.makedirs(folder)
    os.chdir(folder)
    for kind, content in work:
        if kind == "file":
            open(content[0], "w").write(content[1])
        elif kind == "python":
            exec(compile(content, "block", "exec"), {"__name__": "__main__"})
        for argv in content if kind == "bash" else ():
            assert argv[0] == "-m"
            sys.argv = argv[1:]
            try:
                runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
            except SystemExit as end:
                assert end.code in (0, None), (folder, argv)
        print("end of the block", flush=True)
"""
PAGES = ("docs/training.md", "docs/new_task.md", "docs/start/from_training_loops.md", "docs/start/ten_minutes.md",
         "docs/start/cheat_sheets.md", "README.md")
# Other tests run the Python code of these pages.
COMMANDS_ONLY = ("docs/start/ten_minutes.md", "docs/start/cheat_sheets.md", "README.md")
# Other fast tests cover sweeps, comparisons and several processes.
REPEATED = ("--sweep", "recipes.compare", "recipes.launch")
# docs/training.md and docs/new_task.md have these commands too.
REPEATED_BY_BEGINNERS = ("--dry-run", "recipes.evaluate", "recipes.report", "recipes.export")


def work_of(page, whole):
    """(Commands and files, index of a command -> the text shown for it) of a page; of some pages, only commands."""
    work, shown, before = [], {}, None
    left_out = () if whole else REPEATED + (REPEATED_BY_BEGINNERS if "start" in page else ())
    for kind, text in blocks(page):
        before, last = kind, before
        name = re.match(r"# (\w+\.(?:py|yaml))\n", text)
        if name:
            work.append(("file", (name[1], text)))
        elif kind == "bash" and "pip install" not in text:
            work.append(("bash", [argv for argv in commands(text) if not {*left_out} & {*argv}]))
        elif kind == "python" and page not in COMMANDS_ONLY:
            work.append(("python", text))
        elif kind == "text" and (last == "bash" or page not in COMMANDS_ONLY) and work[-1][1]:    # nothing printed: []
            shown[len(work) - 1] = text
    return work, shown


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["fast", "whole"])
def test_the_commands_of_the_pages_run_and_print_what_they_show(whole, tmp_path):
    pages = {page: work_of(page, whole) for page in PAGES}
    assert len(pages["README.md"][0]) == 1
    given = [(str(tmp_path / page), work) for page, (work, _) in pages.items()]
    outputs = run([sys.executable, "-c", IN_ONE_PROCESS], tmp_path, json.dumps(given)).split("end of the block\n")
    assert len(outputs) == sum(len(work) for work, _ in pages.values()) + 1
    for work, shown in pages.values():
        check_shown(outputs[:len(work)], shown)
        del outputs[:len(work)]


def check_shown(outputs, shown):
    for number, text in shown.items():
        printed = [without_numbers(line) for line in outputs[number].splitlines()]
        for line in text.splitlines():
            at = next((i for i, each in enumerate(printed) if without_numbers(line) in each), None)
            assert at is not None, f"{line!r} is not there, or not after the line before it:\n{outputs[number]}"
            printed = printed[at + 1:]


@pytest.mark.slow
def test_the_commands_of_the_readme_run(tmp_path):
    """Each runs in a process of its own, like a user's command."""
    for text in [text for kind, text in blocks("README.md") if kind == "bash" and "pip install" not in text]:
        for argv in commands(text):
            run([sys.executable, *argv], tmp_path)
