"""Every row of the table of values; every public function of the reference has one.

The slow set draws 200 sets of arrays for each function, or the number in the variable XJAX_TEST_VALUE_SETS. The fast
set has a few rows that compile quickly.
"""

from __future__ import annotations

import importlib
import inspect
import os

import numpy as np
import pytest

import xjax
from tests.compare import outcome
from tests.oracle import real_jax
from tests.reference import named, public_names
from tests.values import checks
from tests.values.row import find
from tests.values.signatures import words
from tests.values.table import ELSEWHERE, ROWS

jax = real_jax()
VALUE_SETS = int(os.environ.get("XJAX_TEST_VALUE_SETS", "200"))
FAST = {"lax.mul", "scipy.stats.cauchy.logsf"}


@pytest.fixture(autouse=True)
def double_precision():
    with xjax.enable_x64(True), jax.enable_x64(True):
        yield


@pytest.fixture(autouse=True)
def forget_programs():
    """Rows share few programs, and the programs of all rows take gigabytes."""
    yield
    xjax.clear_caches()
    jax.clear_caches()


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_values(row):
    checks.check_values(row, jax, VALUE_SETS)


@pytest.mark.slow
@pytest.mark.parametrize("row", [row for row in ROWS if row.grad], ids=str)
def test_derivatives(row):
    checks.check_derivatives(row, jax, 25)


@pytest.mark.parametrize("row", [row for row in ROWS if str(row) in FAST], ids=str)
def test_some_values(row):
    checks.check_values(row, jax, 8)


READS_RESULTS = {"numpy.argpartition"}          # rows whose own call needs values


def test_arguments_may_be_arrays_of_numpy():
    """A function of traced arrays accepts NumPy's too; staged, so that nothing is compiled."""
    faults = []
    for row in ROWS:
        xs = [word.random(np.random.default_rng(0)) for word in words(row.signatures[0])]
        if row.jit and str(row) not in READS_RESULTS:
            staged = outcome(xjax.make_jaxpr(lambda row=row, xs=xs: row.function(xjax)(*xs)))
            if staged.error is not None and outcome(xjax.eval_shape, row.function(xjax), *xs).error is None:
                faults.append(f"{row}: {staged.error!r:.200}")
    assert not faults, "\n".join(faults)


def test_every_function_has_a_row():
    covered = {code_of(find(xjax, row.name)) for row in ROWS}
    missing = {name for name, value in public_functions() if name not in ELSEWHERE and code_of(value) not in covered}
    assert not missing, f"without a row: {sorted(missing)}"


def code_of(function):
    """Equal for a function and its second names (`xjax.core.aliases`), which share code and closure."""
    return (function.__code__, id(function.__closure__)) if inspect.isfunction(function) else id(function)


def public_functions():
    """(name below the library, function of xjax) for each function in the reference."""
    for module, names in public_names().items():
        ours = importlib.import_module(named("xjax", module))
        for name in names:
            value = getattr(ours, name, None)
            if callable(value) and not inspect.isclass(value):
                yield (name if module == "." else f"{module}.{name}"), value
