"""30 programs saved in one process and run in another, with gradients, by xjax and by real JAX, in both directions."""

from __future__ import annotations

import importlib.util
import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import xjax
from tests.export.programs import programs, run
from tests.isolated import ROOT, environment
from tests.oracle import real_jax
from xjax import export
from xjax.core.versions import version_numbers
from xjax.runtime.xla import jaxlib_version

NAMES = [*programs(xjax)]
FEW = ["tree", "cholesky", "random", "keywords", "attention", "loss", "halves", "steps"]


def worker(*words: object) -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-m", "tests.export.worker", *map(str, words)],
                          capture_output=True, text=True, timeout=500, cwd=ROOT,
                          env={**environment(), "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"})
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]


def check(path: Path, other: Path, names: list[str]) -> None:
    """Compare two files of results."""
    ours, theirs = np.load(path), np.load(other)
    assert sorted(ours) == sorted(theirs) and {key.partition("/")[0] for key in ours} == {*names}
    for key in ours:
        assert ours[key].dtype == theirs[key].dtype, key
        np.testing.assert_allclose(ours[key], theirs[key], rtol=2e-5, atol=2e-5, err_msg=key)


@pytest.mark.parametrize("names", [FEW, pytest.param(NAMES, marks=pytest.mark.slow)], ids=["few", "all"])
def test_saved_and_run_in_a_fresh_process(tmp_path, names):
    worker("save", "xjax", tmp_path, *names)
    worker("run", "xjax", tmp_path, tmp_path / "run.npz", *names)
    worker("direct", "xjax", tmp_path / "direct.npz", *names)
    check(tmp_path / "run.npz", tmp_path / "direct.npz", names)


@pytest.mark.parametrize("names", [FEW, pytest.param(NAMES, marks=pytest.mark.slow)], ids=["few", "all"])
@pytest.mark.parametrize("version", ["0.10.2", "0.12.0.1"])
def test_files_of_jax(version, names):
    """Files that the worker saved with real JAX, with the results of the functions there."""
    if version_numbers(version) > version_numbers(jaxlib_version):
        pytest.skip("jaxlib cannot read modules of a newer version")
    table = programs(xjax)
    with zipfile.ZipFile(Path(__file__).parent / f"files_of_jax_{version}.zip") as files:
        results = np.load(io.BytesIO(files.read("results.npz")))
        for name in names:
            exported = export.deserialize(files.read(f"{name}.bin"))
            for i, ours in enumerate(run(xjax, exported.call, table[name])):
                np.testing.assert_allclose(ours, results[f"{name}/{i}"], rtol=2e-5, atol=2e-5, err_msg=f"{name}/{i}")
            again = export.deserialize(exported.serialize(vjp_order=int(table[name].grad)))
            assert again.in_tree == exported.in_tree and str(again.in_avals) == str(exported.in_avals)


@pytest.mark.slow
def test_between_the_libraries(tmp_path):
    """Files of each library run in both; a file that JAX wrote and xjax saved again runs in JAX."""
    real_jax()
    if importlib.util.find_spec("flatbuffers") is None:
        pytest.skip("JAX needs flatbuffers to save and load")
    worker("direct", "jax", tmp_path / "direct.npz")
    for library in ("jax", "xjax"):
        folder = tmp_path / library
        folder.mkdir()
        worker("save", library, folder)
        for runner in ("jax", "xjax"):
            worker("run", runner, folder, tmp_path / f"{library}_{runner}.npz")
            check(tmp_path / f"{library}_{runner}.npz", tmp_path / "direct.npz", NAMES)
    again = tmp_path / "again"
    again.mkdir()
    worker("copy", "xjax", tmp_path / "jax", again)
    worker("run", "jax", again, tmp_path / "again.npz")
    check(tmp_path / "again.npz", tmp_path / "direct.npz", NAMES)
