"""Slices, gathers and scatters: derivatives that JAX refuses too, conflicting updates, and starts of narrow types.

Values and derivatives of these operations are compared with JAX by rows of `structural_table`.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

import xjax
import xjax.numpy
from tests.oracle import real_jax

X = np.arange(20, dtype=np.float32).reshape(4, 5)
BLOCK = np.array([[1], [2]], np.float32) * np.ones(5, np.float32)
PAIR, SAME = np.array([[3], [1]], np.int32), np.array([[2], [2]], np.int32)     # two index vectors


def rows(lax: ModuleType) -> tuple:
    """Whole rows at index vectors of length 1."""
    return lax.ScatterDimensionNumbers((1,), (0,), (0,))


# Derivatives that do not exist: parts of the message and of its fix.
REFUSED = {
    "scatter_apply": (
        lambda lib: lib.grad(lambda x: lib.lax.scatter_apply(x, PAIR, lib.numpy.sin, rows(lib.lax),
                                                             update_shape=(2, 5)).sum())(X),
        "has no derivative", "read with x.at"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_as_by_jax_with_a_way_out(name):
    f, what, fix = REFUSED[name]
    with pytest.raises(NotImplementedError, match=f"(?s)derivative.*fix: {fix}") as caught:
        f(xjax)
    assert what in str(caught.value)
    with pytest.raises(NotImplementedError):
        f(real_jax())


def test_an_element_that_two_updates_set_has_the_derivative_of_the_one_that_won():
    """The order of the updates is unspecified, but value and derivative agree on it."""
    out, pull = xjax.vjp(lambda u: xjax.lax.scatter(X, SAME, u, rows(xjax.lax)), BLOCK)
    (ct,) = pull(xjax.numpy.ones(X.shape))
    winner = int(out[2, 0] == BLOCK[1, 0])
    np.testing.assert_array_equal(out[2], BLOCK[winner])
    np.testing.assert_array_equal(ct, np.eye(2)[winner][:, None] * np.ones(5))


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint32"])
def test_starts_of_every_integer_type(kind):
    """An int8 cannot represent the size 300, which is added to a negative start."""
    i, x = xjax.numpy.array(2, kind), xjax.numpy.arange(300)
    np.testing.assert_array_equal(xjax.lax.dynamic_slice_in_dim(X, i, 2), X[2:4])
    np.testing.assert_array_equal(xjax.lax.dynamic_index_in_dim(x, i), [2])
    np.testing.assert_array_equal(xjax.lax.dynamic_update_index_in_dim(x, 7, i, 0), [0, 1, 7, *range(3, 300)])
    if kind.startswith("i"):
        np.testing.assert_array_equal(xjax.lax.dynamic_slice_in_dim(x, -i, 2), [298, 299])


def test_a_known_negative_start_must_be_allowed():
    with pytest.raises(ValueError, match="the start -1 is negative(?s:.*)fix: pass allow_negative_indices=True"):
        xjax.lax.dynamic_slice(X, (-1, 0), (2, 3), allow_negative_indices=False)


def test_index_take_misuse():
    with pytest.raises(TypeError, match="needs one integer vector for each axis(?s:.*)fix: "):
        xjax.lax.index_take(X, (np.zeros(2, np.int32),), (0, 1))
    with pytest.raises(ValueError, match="names an axis twice"):
        xjax.lax.index_take(X, (PAIR[0], PAIR[0]), (0, 0))
