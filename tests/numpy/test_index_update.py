"""The older spelling of indexed updates: each function equals the corresponding method of `.at`."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
from xjax import ops
from xjax.ops import index, index_add, index_max, index_min, index_mul, index_update

X = np.arange(6, dtype=np.float32).reshape(2, 3)
IN_NUMPY = {index_update: lambda x, y: y, index_add: np.add, index_mul: np.multiply, index_min: np.minimum,
            index_max: np.maximum}


@pytest.mark.parametrize("f", IN_NUMPY, ids=lambda f: f.__name__)
def test_as_numpy(f):
    expected = X.copy()
    expected[:, 1:] = IN_NUMPY[f](expected[:, 1:], [3.0, 4.0])

    @xjax.jit
    def run(x):
        return f(x, index[:, 1:], np.array([3.0, 4.0], np.float32)), f(x, (0, 1), 9.0, unique_indices=True)

    whole, one = run(X)
    np.testing.assert_array_equal(whole, expected)
    assert float(one[0, 1]) == IN_NUMPY[f](X[0, 1], 9.0) and whole.dtype == np.float32
    np.testing.assert_array_equal(f(X, index[..., 1:], [3.0, 4.0]), expected)


def test_index_is_what_stands_in_the_brackets():
    assert index[1:, ..., None] == (slice(1, None), Ellipsis, None) and repr(ops.index) == "xjax.ops.index"


def test_repeated_positions_add_up_and_derivatives():
    assert index_add(X[0], np.array([1, 1]), 1.0).tolist() == [0, 3, 2]
    g = xjax.grad(lambda y: (index_mul(X, index[0], y) ** 2).sum())(np.ones(3, np.float32))
    np.testing.assert_allclose(g, 2 * X[0] ** 2)
