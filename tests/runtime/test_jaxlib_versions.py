"""The messages of `import xjax` without jaxlib or with an untested one; and the requirements in pyproject.toml."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from xjax.jaxlib_versions import REQUIREMENT, is_taken, is_tested
from xjax.runtime.process import cuda_wheels

ROOT = Path(__file__).resolve().parents[2]
# A jaxlib of the future, whose extension module lacks every name that the adapter uses.
FUTURE = {"__init__.py": "", "version.py": "__version__ = '0.14.1'", "_jax.py": "", "utils.py": "",
          "xla_client.py": ""}


def imported(before: str = "", path: Path | None = None) -> subprocess.CompletedProcess:
    """`import xjax` in a process of its own, with other packages first on its path."""
    paths = [str(path)] if path else []
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*paths, str(ROOT)])}
    return subprocess.run([sys.executable, "-c", f"{before}\nimport xjax"], env=env, capture_output=True, text=True,
                          timeout=120)


def test_the_requirement_is_the_one_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert REQUIREMENT in project["dependencies"]


@pytest.mark.parametrize("version, tested", [("0.10.1", False), ("0.10.2", True), ("0.11.1", True), ("0.11.2", False),
                                             ("0.12.0.1", True), ("0.12.9", True), ("0.13.0", False),
                                             ("0.13.0.dev20270101", False), ("1.0", False)])
def test_which_versions_are_tested(version, tested):
    assert is_tested(version) == tested


def test_the_version_for_gpus_only_is_taken_with_their_plugin(monkeypatch):
    monkeypatch.setattr(cuda_wheels, "find_plugin", lambda: None)
    assert not is_taken("0.11.2") and not is_taken("0.13.0") and is_taken("0.12.0.1")
    monkeypatch.setattr(cuda_wheels, "find_plugin", lambda: ("13", "plugin.so"))
    assert is_taken("0.11.2") and not is_taken("0.13.0")


@pytest.mark.parametrize("cuda", ["12", "13"])
def test_extras_for_gpus_ask_for_one_version_of_jaxlib_and_plugin(cuda):
    """XLA ends the process if the two versions differ. Each Python has one version, which is a tested one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = {}
    for text in project["optional-dependencies"][f"cuda{cuda}"]:
        needed, _, condition = text.partition("; ")
        name, _, version = needed.partition("==")
        asked.setdefault(condition, {})[name] = version
    assert sorted(asked) == ["python_version < '3.12'", "python_version >= '3.12'"]
    for versions in asked.values():
        assert set(versions) == {"jaxlib", f"jax-cuda{cuda}-plugin[with-cuda]"}
        assert len({*versions.values()}) == 1 and is_tested(versions["jaxlib"])


def test_a_newer_jaxlib_that_lacks_names(tmp_path):
    package = tmp_path / "jaxlib"
    package.mkdir()
    for name, text in FUTURE.items():
        (package / name).write_text(text)
    done = imported(path=tmp_path)
    assert done.returncode == 1
    assert "ImportError: import xjax: the installed jaxlib lacks a name that xjax uses" in done.stderr
    assert f"0.14.1 (tested: {REQUIREMENT})" in done.stderr
    assert f"fix: pip install '{REQUIREMENT}'" in done.stderr


def test_a_newer_jaxlib_that_works_warns():
    done = imported("import jaxlib.version\njaxlib.version.__version__ = '0.14.1'")
    assert done.returncode == 0, done.stderr
    assert f"jaxlib 0.14.1 is not among the tested versions ({REQUIREMENT})" in done.stderr


def test_no_jaxlib():
    done = imported("import sys\nsys.modules['jaxlib'] = None")
    assert f"ImportError: import xjax: jaxlib is not installed.\n  fix: pip install '{REQUIREMENT}'." in done.stderr


def test_a_fault_of_ours_is_not_laid_on_jaxlib():
    done = imported("import sys\nsys.modules['xjax.runtime.xla.compile_error'] = None")
    assert "ModuleNotFoundError" in done.stderr and "pip install" not in done.stderr
