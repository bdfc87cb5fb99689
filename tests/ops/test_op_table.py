"""The checks of `harness` on every element-wise row of `op_table`."""

from __future__ import annotations

import pytest

from tests.ops import harness
from tests.ops.harness import derivative_cases, rows, value_cases
from tests.ops.op_table import OPS

jax = pytest.importorskip("jax")
# A row converts complex numbers to real ones; `test_elementwise` checks that this warns.
pytestmark = pytest.mark.filterwarnings("ignore:Casting complex values:numpy.exceptions.ComplexWarning")


@pytest.mark.parametrize(("op", "dtypes"), value_cases(OPS))
def test_value(op, dtypes):
    harness.check_value(op, dtypes, jax)


@pytest.mark.parametrize(("op", "dtypes"), value_cases([op for op in OPS if op.special]))
def test_extreme_operands(op, dtypes):
    harness.check_special(op, dtypes, jax.lax)


@pytest.mark.parametrize("op", rows(OPS))
def test_weak_types(op):
    harness.check_weak_types(op, jax)


@pytest.mark.parametrize("op", rows(OPS))
def test_jit(op):
    harness.check_jit(op)


@pytest.mark.parametrize("op", rows(OPS))
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
