"""`delete` at positions that are known only at run time."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp

X = np.arange(12).reshape(3, 4)


@pytest.mark.parametrize("axis, positions", [(1, [3, -4]), (0, [1]), (None, [2, 11, 5, 3])])
def test_traced_positions_that_are_all_different(axis, positions):
    f = xjax.jit(lambda x, obj: jnp.delete(x, obj, axis, assume_unique_indices=True))
    np.testing.assert_array_equal(f(X, np.array(positions)), np.delete(X, positions, axis))


def test_known_positions_may_repeat_anyway():
    np.testing.assert_array_equal(jnp.delete(X, [1, 1], 0, assume_unique_indices=True), np.delete(X, [1, 1], 0))


def test_other_traced_positions_are_an_error():
    with pytest.raises(TypeError, match="(?s)numpy.delete.*known while tracing.*fix:"):
        xjax.jit(lambda x, obj: jnp.delete(x, obj))(X, np.array([1, 2]))
