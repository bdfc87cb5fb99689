"""Every row of the table gives what JAX gives: value, dtype, weak type, shape, or the class of the error."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
import xjax.numpy as xnp
from tests.numpy.compare import assert_same, call
from tests.numpy.rows import ROWS
from tests.oracle import real_jax
from tests.sampling import one_in

jax = real_jax()
jnp = real_jax().numpy

# Calls where we raise NumPy's class of error on purpose, and JAX another one (both are errors).
OTHER_CLASS = {"transpose", "hstack", "meshgrid"}
NAMES = sorted({name for name, _, _ in ROWS})


@pytest.mark.parametrize("name", one_in(6, NAMES))
def test_call(name):
    check_rows(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_call_with_x64(name):
    with xjax.enable_x64(True), jax.enable_x64(True):
        check_rows(name)


def check_rows(name):
    for row_name, args, keywords in ROWS:
        if row_name != name:
            continue
        label = (name, [getattr(x, "dtype", x) for x in args], keywords)
        (ours, our_error), (theirs, their_error) = (call(m, name, args, keywords) for m in (xnp, jnp))
        if their_error is None:
            if our_error is not None:
                raise AssertionError(f"{label}: JAX computes it") from our_error
            assert_same(ours, theirs, label)
        else:
            assert our_error is not None, (label, "JAX raises", their_error)
            assert name in OTHER_CLASS or isinstance(our_error, type(their_error)), (label, our_error, their_error)


def test_every_function_has_a_row():
    other = {"Array", "ndarray", "dtype", "finfo", "iinfo", "einsum_path"}
    functions = {n for n in xnp.__all__ if callable(getattr(xnp, n)) and not isinstance(getattr(xnp, n), type)}
    from_numpy = {n for n in functions if getattr(getattr(xnp, n), "__module__", "").startswith("numpy")}
    elsewhere = {"take", "take_along_axis", "put", "put_along_axis", "choose", "select", "piecewise", "compress",
                 "extract", "place",                                 # in test_indexing and test_at
                 "diag_indices_from", "fill_diagonal", "ix_", "mask_indices", "ravel_multi_index", "tril_indices_from",
                 "triu_indices_from", "unravel_index", "vectorize", "apply_along_axis", "apply_over_axes", "frompyfunc",
                 "roots", "load", "fromfile", "fromiter", "from_dlpack"}    # in files of their own
    assert functions - set(NAMES) - other - from_numpy - elsewhere == {"partition", "argpartition", "fix"}


def test_partition():
    x = xnp.asarray(np.array([3.0, 1.0, 2.0, 0.0], np.float32))
    assert xnp.partition(x, 1)[1] == 1
    assert xnp.argpartition(x, 1)[1] == 1


def test_the_integral_of_no_samples_is_zero():
    """As in NumPy; JAX raises an IndexError."""
    assert xnp.trapezoid(xnp.zeros((2, 0))).tolist() == [0, 0]
