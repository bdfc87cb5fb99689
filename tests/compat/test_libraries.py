"""JAX's libraries on xjax: their programs yield the numbers of the real JAX.

Each file in `programs` has the programs of one library; a program runs in a process of its own.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from tests.oracle import real_jax

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"
LIBRARIES = sorted(path.stem for path in PROGRAMS.glob("[a-z]*.py"))

# The name of the module, where it is not that of the file.
MODULE = {"e3nn": "e3nn_jax", "nnx": "flax"}

# One program of each of these is fast enough for each run of the tests.
FAST = {"chex": "dataclasses", "equinox": "convolution", "flax": "lifted", "haiku": "jitted", "optax": "jitted"}

# Programs whose steps depend on the last digits of others: relative tolerance, and the reason.
TOLERANCES = {("diffrax", "adaptive"): (1e-4, "an adaptive step depends on an estimated error of 1e-6")}


def numbers(library, names, *prefix):
    """Program -> its numbers."""
    process = subprocess.run(
        [sys.executable, "-W", "ignore", *prefix, "-m", "tests.compat.programs", library, *names], cwd=ROOT, text=True,
        capture_output=True, timeout=600, env={**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu",
                                               "XLA_FLAGS": "--xla_force_host_platform_device_count=2"})
    assert process.returncode == 0, process.stderr[-4000:]
    return dict(json.loads(line) for line in process.stdout.splitlines() if line.startswith("["))


def compare(library, *names):
    real_jax()
    if importlib.util.find_spec(MODULE.get(library, library)) is None:
        pytest.skip(f"{library} is not installed: pip install 'xjax[ecosystem]'")
    ours, theirs = numbers(library, names, "-m", "xjax"), numbers(library, names)
    assert ours.pop("jit is of") == "xjax" and theirs.pop("jit is of") == "jax"
    assert ours.keys() == theirs.keys() and len(ours) >= max(len(names), 1)
    for name, want in theirs.items():
        # Programs of one step differ by the order of sums; 20 steps of training add a few such differences.
        tolerance = TOLERANCES.get((library, name), (1e-5, ""))[0]
        np.testing.assert_allclose(ours[name], want, rtol=tolerance, atol=tolerance * 0.1, err_msg=name)


@pytest.mark.parametrize("library", sorted(FAST))
def test_a_program(library):
    compare(library, FAST[library])


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES)
def test_all_programs(library):
    compare(library)


def test_every_library_of_the_extra_has_programs():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    names = {line.partition(">")[0] for line in extras["ecosystem"]}
    files = {"e3nn-jax": "e3nn", "xjax[test]": "optax"}
    assert {files.get(name, name) for name in names} <= {*LIBRARIES}
