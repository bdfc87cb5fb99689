"""Ragged products against real JAX, in float64: values, derivatives, vmap; errors for wrong arguments."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
from tests.compare import assert_same
from tests.lax.oracle import float64, gradient
from tests.oracle import real_jax
from xjax import lax

jax = real_jax()

_rng = np.random.default_rng(0)


def normal(*shape):
    return _rng.standard_normal(shape)


def numbers(lib, *axes):
    return lib.lax.RaggedDotDimensionNumbers(*axes)


# name: dimension numbers, lhs, rhs, group sizes
CASES = {
    "rows": (((((1,), (1,)), ((), ())), (0,), (0,)), normal(6, 3), normal(4, 3, 2), [2, 0, 1, 2]),
    "rows with batch": (((((2,), (2,)), ((0,), (1,))), (1,), (0,)), normal(2, 5, 3), normal(3, 2, 3, 4),
                        [[1, 2, 2], [0, 5, 0]]),
    "rows after a batch axis and a free axis": (
        ((((3,), (0,)), ((1,), (2,))), (2,), (1,)), normal(2, 3, 4, 5), normal(5, 3, 3, 2),
        _rng.integers(0, 2, (3, 2, 3))),
    "contracted": (((((0,), (0,)), ((), ())), (0,), ()), normal(6, 3), normal(6, 2), [2, 0, 3]),
    "contracted with batch": (((((2, 1), (1, 2)), ((0,), (0,))), (1,), ()), normal(2, 4, 3), normal(2, 3, 4),
                              _rng.integers(0, 2, (2, 3, 3))),
    "batch": (((((1,), (1,)), ((0,), (0,))), (0,), ()), normal(4, 3), normal(4, 3, 2), [1, 3]),
}


def test_values_derivatives_and_vmap_as_jax():
    """JAX has derivatives of some cases only, so derivatives are compared for "rows" alone."""
    def run(lib, dense):
        results = []
        for name, (axes, lhs, rhs, sizes) in CASES.items():
            sizes = np.asarray(sizes, np.int32)
            def f(x, y, axes=axes, sizes=sizes):
                return lib.lax.ragged_dot_general(x, y, sizes, numbers(lib, *axes))
            results += [f(lhs, rhs), dense(f)(lhs, rhs)] if name == "rows" else [f(lhs, rhs)]
        return results

    def gradients(lib):
        return lambda f: lambda x, y: gradient(lib, f)(x, y)

    with float64(jax):
        assert_same(xjax.jit(lambda: run(xjax, gradients(xjax)))(),
                    jax.jit(lambda: run(jax, gradients(jax)))())


def test_ragged_dot_under_vmap():
    x, y, sizes = normal(2, 6, 3), normal(4, 3, 2), np.array([[1, 2, 0, 1], [3, 0, 3, 0]])
    with float64(jax):
        ours = xjax.vmap(lax.ragged_dot, (0, None, 0))(x, y, sizes)
    for k in range(2):
        bounds = np.cumsum([0, *sizes[k]])
        expected = np.zeros((6, 2))
        for g in range(4):
            rows = slice(bounds[g], bounds[g + 1])
            expected[rows] = x[k, rows] @ y[g]
        np.testing.assert_allclose(ours[k], expected, rtol=1e-12, atol=1e-12)


def test_an_infinity_outside_of_a_group_stays_there():
    axes = lax.RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), (0,), ())
    y = lax.ragged_dot_general(np.ones((2, 1), np.float32), np.array([[1], [np.inf]], np.float32), np.array([1, 1]),
                               axes)
    assert y.reshape(-1).tolist() == [1.0, np.inf]


@pytest.mark.parametrize("sizes, change, exc, words", [
    (np.ones(2), {}, TypeError, "integers"),
    (np.array([1, 1, 1]), {}, TypeError, "one group axis"),
    (np.ones((3, 2), int), {}, TypeError, "must have the shape"),
    (np.array([1, 1]), {"group_offset": np.zeros(1, int)}, NotImplementedError, "group_offset"),
])
def test_misuse(sizes, change, exc, words):
    with pytest.raises(exc, match=f"(?s)ragged_dot_general.*{words}.*fix:"):
        lax.ragged_dot(np.ones((3, 2)), np.ones((2, 2, 1)), sizes, **change)
