"""Every row of `rows.py` agrees with JAX: value, dtype, weak type, shape, or the class of the error."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
import xjax.numpy as xnp
from tests.numpy.rows import ROWS
from tests.oracle import current, only, real_jax
from tests.refusals import assert_refused
from tests.sampling import one_in
from tests.values.checks import check_calls

jax = real_jax()

# Functions that intentionally raise NumPy's class of error where JAX raises another class.
OTHER_CLASS = {"transpose", "hstack", "meshgrid"}
# Functions that return a tuple here and in newer versions of JAX, and a list in the installed one.
OTHER_CONTAINER = current({only("broadcast_arrays", until="0.12"), only("meshgrid", until="0.12")})
NAMES = sorted({row.name.removeprefix("numpy.") for row in ROWS})


def check(name):
    rows = [row for row in ROWS if row.name == f"numpy.{name}"]
    if name in OTHER_CONTAINER:
        with pytest.raises(AssertionError, match="expected list"):
            check_calls(rows, name in OTHER_CLASS)
    else:
        check_calls(rows, name in OTHER_CLASS)


@pytest.mark.parametrize("name", one_in(8, NAMES))
def test_call(name):
    check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_call_with_x64(name):
    with xjax.enable_x64(True), jax.enable_x64(True):
        check(name)


def test_partition():
    x = xnp.asarray(np.array([3.0, 1.0, 2.0, 0.0], np.float32))
    assert xnp.partition(x, 1)[1] == 1
    assert xnp.argpartition(x, 1)[1] == 1


def test_the_integral_of_no_samples_is_zero():
    """As in NumPy; JAX raises an IndexError."""
    assert xnp.trapezoid(xnp.zeros((2, 0))).tolist() == [0, 0]


@pytest.mark.parametrize("size, fill_value, want", [(None, None, []), (2, None, [0, 0]), (2, 7, [7, 7])])
def test_the_symmetric_difference_of_nothing(size, fill_value, want):
    nothing = xnp.zeros(0, np.int32)
    difference = lambda x: xnp.setxor1d(x, x, size=size, fill_value=fill_value)
    functions = [difference] if size is None else [difference, xjax.jit(difference)]      # jit requires a size
    for f in functions:
        assert f(nothing).dtype == np.int32 and f(nothing).tolist() == want


def test_an_unknown_method_of_isin_is_refused():
    assert_refused(lambda: xnp.isin(xnp.arange(3), xnp.arange(2), method="no"), ValueError, ["numpy.isin", "method"])
