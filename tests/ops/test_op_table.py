"""The checks of `harness` on every element-wise row of `op_table`."""

from __future__ import annotations

import pytest

from tests.ops import harness
from tests.ops.harness import derivative_cases, derivative_dtypes, params
from tests.ops.op_table import TABLE
from tests.oracle import real_jax
from tests.sampling import one_in
from xjax import lax

jax = real_jax()
# A row converts complex numbers to real ones; `test_elementwise` checks that this warns.
pytestmark = pytest.mark.filterwarnings("ignore:Casting complex values:numpy.exceptions.ComplexWarning")


@pytest.mark.parametrize("row", one_in(6, TABLE, str))
def test_value(row):
    harness.check_value(row, lax, jax.lax)


@pytest.mark.parametrize("row", params(TABLE))
def test_weak_types(row):
    harness.check_weak_types(row, lax, jax.lax)


@pytest.mark.parametrize("row", one_in(6, TABLE, str))
def test_vmap(row):
    harness.check_vmap(row, lax)


@pytest.mark.parametrize(("row", "dtypes"), derivative_cases(TABLE))
def test_derivatives(row, dtypes):
    harness.check_derivatives(row, dtypes, lax, order=1)


@pytest.mark.parametrize("row", one_in(6, [row for row in TABLE if row.order > 1], str))
def test_second_derivatives(row):
    """Most second derivatives repeat first ones, because rules consist of operations that have rows."""
    for dtypes in derivative_dtypes(row):
        harness.check_derivatives(row, dtypes, lax)


@pytest.mark.parametrize("row", params([row for row in TABLE if row.order]))
def test_single_precision(row):
    harness.check_single_precision(row, lax)


@pytest.mark.parametrize("row", params([row for row in TABLE if row.programs]))
def test_programs_read_as_in_jax(row):
    harness.check_programs(row, lax, jax.lax)
