"""The programs of docs/from_other_libraries.md print the shown output, if their library is installed."""

import contextlib
import importlib.util
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.sampling import one_in

PAGE = Path(__file__).resolve().parents[2] / "docs/from_other_libraries.md"
LIBRARIES = {"Flax": "flax", "Haiku": "haiku", "Equinox": "equinox", "PyTorch": "torch", "Here": "xnn"}
# Libraries of one section, whose programs run in processes of their own: Objax replaces functions of JAX.
OLD_SECTION, OLD = "Objax, Elegy, Trax", {"Objax": ["objax"], "Elegy": ["elegy"], "Trax": ["trax", "tensorflow"]}


class Program(NamedTuple):
    """One program of the page: the model, the library by its heading, the line, the code and its output."""

    model: str
    library: str
    line: int
    code: str
    shown: str


def _programs(page):
    for section in re.finditer(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE):
        for match in re.finditer(r"^### (\w+)\n\n```python\n(.*?)^```\n\n```text\n(.*?)^```\n", section[2],
                                 re.DOTALL | re.MULTILINE):
            line = page[:section.start(2) + match.start(2)].count("\n")
            yield Program(section[1], match[1], line, match[2], match[3])


ALL = list(_programs(PAGE.read_text()))
PROGRAMS = [program for program in ALL if program.model != OLD_SECTION]
OLD_PROGRAMS = [program for program in ALL if program.model == OLD_SECTION]


@pytest.mark.parametrize("program", one_in(3, PROGRAMS, lambda program: f"{program.model}-{program.library}"))
def test_program_prints_what_it_shows(program):
    pytest.importorskip(LIBRARIES[program.library])
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile("\n" * program.line + program.code, str(PAGE), "exec"), {"__name__": "program"})
    assert printed.getvalue() == program.shown


@pytest.mark.parametrize("prefix", [(), ("-m", "xjax")], ids=["jax", "xjax"])
@pytest.mark.parametrize("program", OLD_PROGRAMS, ids=lambda program: program.library)
def test_program_of_an_old_library_prints_what_it_shows(program, prefix, tmp_path):
    if program.library == "Elegy":
        pytest.skip("Elegy needs numpy.lib.arraysetops, which NumPy 2 does not have")
    for package in [*OLD[program.library], *([] if prefix else ["jax"])]:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    path = tmp_path / "program.py"
    path.write_text(program.code)
    done = subprocess.run([sys.executable, *prefix, str(path)], capture_output=True, text=True, check=False,
                          env=os.environ | {"PYTHONPATH": str(PAGE.parents[1])})
    assert (done.stdout, done.returncode) == (program.shown, 0), done.stderr


def test_each_model_is_written_in_each_library():
    page = PAGE.read_text()
    assert page.count("```python") == len(ALL)
    assert [program.library for program in OLD_PROGRAMS] == list(OLD)
    models = dict.fromkeys(program.model for program in PROGRAMS)
    assert [(program.model, program.library) for program in PROGRAMS] == [
        (model, library) for model in models for library in LIBRARIES]
