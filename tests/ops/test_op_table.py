"""The checks of `harness` on every element-wise row of `op_table`."""

from __future__ import annotations

import pytest

from tests.ops import harness
from tests.ops.harness import derivative_cases, rows
from tests.ops.op_table import OPS
from tests.oracle import real_jax
from tests.sampling import one_in

jax = real_jax()
# A row converts complex numbers to real ones; `test_elementwise` checks that this warns.
pytestmark = pytest.mark.filterwarnings("ignore:Casting complex values:numpy.exceptions.ComplexWarning")


@pytest.mark.parametrize("op", one_in(6, OPS, str))
def test_value(op):
    harness.check_value(op, jax)


@pytest.mark.parametrize("op", rows(OPS))
def test_weak_types(op):
    harness.check_weak_types(op, jax)


@pytest.mark.parametrize("op", one_in(6, OPS, str))
def test_vmap(op):
    harness.check_vmap(op)


@pytest.mark.parametrize(("op", "dtypes"), derivative_cases(OPS))
def test_derivatives(op, dtypes):
    harness.check_derivatives(op, dtypes)


@pytest.mark.parametrize("op", rows([op for op in OPS if op.grads]))
def test_single_precision(op):
    harness.check_single_precision(op)


@pytest.mark.parametrize("op", rows([op for op in OPS if op.same_programs]))
def test_programs_read_as_in_jax(op):
    harness.check_programs(op, jax)
