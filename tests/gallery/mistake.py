"""A row of the gallery of errors, and its output."""

from __future__ import annotations

import contextlib
import functools
import io
import shlex
import sys
import tempfile
import traceback
import types
import warnings
from pathlib import Path
from typing import NamedTuple
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]

# The imports of every program.
IMPORTS = """\
import numpy as np
import xjax
import xjax.numpy as jnp
import xnn
from xjax import lax, random
"""


class Mistake(NamedTuple):
    """Two programs: the wrong one, and the mended one; `why` has the reason.

    A program that begins with "python -m recipes.train" is a command, which runs in a folder with `files`.
    """

    title: str
    why: str
    wrong: str
    mended: str
    files: tuple[tuple[str, str], ...] = ()


class Failed(NamedTuple):
    """The output of a program, and whether it ended with an error."""

    text: str
    failed: bool


def is_command(program: str) -> bool:
    """Whether the program is a command of recipes."""
    return program.startswith("python -m recipes.train")


@functools.cache
def output(mistake: Mistake, program: str) -> Failed:
    """The text that one of the programs of a mistake prints: stdout, warnings, and its error."""
    return _of_command(program, mistake.files) if is_command(program) else _of_code(program)


def _of_code(program: str) -> Failed:
    printed, failed = io.StringIO(), False
    module = types.ModuleType("program")
    exec(IMPORTS, vars(module))
    sys.modules["program"] = module         # and not mock.patch.dict, which drops all modules imported in the program
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda text, kind, *place: print(f"{kind.__name__}: {text}")
        try:
            exec(compile(program, "program.py", "exec"), vars(module))
        except Exception as err:
            failed = True
            print("".join(traceback.format_exception_only(err)))
    del sys.modules["program"]
    return Failed(_lines(printed.getvalue()), failed)


def _of_command(program: str, files: tuple[tuple[str, str], ...]) -> Failed:
    from recipes.train import main  # here: recipes needs packages that other rows do not need

    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), \
            mock.patch.object(tempfile, "tempdir", folder):
        for name, text in files:
            Path(name).write_text(text)
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            code = main(shlex.split(program)[3:])
        text = printed.getvalue()
        for place in (ROOT, folder, Path(folder).resolve()):
            text = text.replace(f"{place}/", "")
    return Failed(_lines(text), code != 0)


def _lines(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())
