"""The types of the public API, as pyright and mypy read them in a user's program, `program.py`."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.annotations import program

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(program.__file__)
MISTAKES = {i for i, line in enumerate(PROGRAM.read_text("utf-8").splitlines(), 1) if line.endswith("# mistake")}
CHECKERS = ("pyright", "mypy")


def errors_of(checker: str, folder: Path) -> dict[int, str]:
    """Line of the program -> what a type checker reports there, with its default settings, as outside of this tree."""
    if importlib.util.find_spec(checker) is None:
        pytest.skip(f"needs {checker}, which is in the extra `test`")
    file = shutil.copy(PROGRAM, folder / "program.py")
    if checker == "pyright":
        (folder / "pyrightconfig.json").write_text(json.dumps({"include": ["."], "extraPaths": [str(ROOT)]}))
        command = ["--project", str(folder), "--pythonpath", sys.executable, "--outputjson"]
    else:
        command = ["--cache-dir", str(folder), "--follow-imports", "silent", "--no-error-summary", file]
    done = subprocess.run([sys.executable, "-m", checker, *command], cwd=folder, capture_output=True, text=True,
                          env={**os.environ, "MYPYPATH": str(ROOT), "MYPY_FORCE_COLOR": "0"}, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    if checker == "pyright":
        reports = json.loads(done.stdout)["generalDiagnostics"]
        return {report["range"]["start"]["line"] + 1: report["message"] for report in reports
                if report["severity"] == "error"}
    reports = re.findall(r"program\.py:(\d+): error: (.*)", done.stdout)
    return {int(line): message for line, message in reports}


@pytest.mark.parametrize("checker", CHECKERS)
def test_only_the_mistakes_are_errors(checker, tmp_path):
    errors = errors_of(checker, tmp_path)
    assert {line: text for line, text in errors.items() if line not in MISTAKES} == {}
    assert not MISTAKES - errors.keys(), f"{checker} does not report these lines"


def test_the_program_runs():
    program.main()
