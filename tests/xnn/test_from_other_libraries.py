"""The programs of docs/from_other_libraries.md print the shown output, if their library is installed."""

import contextlib
import io
import re
from pathlib import Path
from typing import NamedTuple

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs/from_other_libraries.md"
LIBRARIES = {"Flax": "flax", "Haiku": "haiku", "Equinox": "equinox", "PyTorch": "torch", "Here": "xnn"}


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


PROGRAMS = list(_programs(PAGE.read_text()))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: f"{program.model}-{program.library}")
def test_program_prints_what_it_shows(program):
    pytest.importorskip(LIBRARIES[program.library])
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile("\n" * program.line + program.code, str(PAGE), "exec"), {"__name__": "program"})
    assert printed.getvalue() == program.shown


def test_each_model_is_written_in_each_library():
    page = PAGE.read_text()
    assert page.count("```python") == len(PROGRAMS)
    models = dict.fromkeys(program.model for program in PROGRAMS)
    assert [(program.model, program.library) for program in PROGRAMS] == [
        (model, library) for model in models for library in LIBRARIES]
