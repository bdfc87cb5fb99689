"""`scaled_dot`: values against real JAX, derivatives against the product written out."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.compare import assert_same
from tests.oracle import real_jax
from xjax.lax import scaled_dot

jax = real_jax()

_rng = np.random.default_rng(0)
X, Y = _rng.standard_normal((2, 3, 8)), _rng.standard_normal((2, 8, 5))
X_SCALE, Y_SCALE = 2.0 ** _rng.integers(-2, 3, (2, 3, 2)), 2.0 ** _rng.integers(-2, 3, (2, 4, 5))


def test_as_jax():
    def run(lib):
        x, y = (lib.numpy.asarray(v, lib.numpy.float8_e4m3fn) for v in (X, Y))
        x_scale, y_scale = (lib.numpy.asarray(v, lib.numpy.float8_e8m0fnu) for v in (X_SCALE, Y_SCALE))
        dot = lib.lax.scaled_dot
        return [dot(x, y, lhs_scale=x_scale, rhs_scale=y_scale, preferred_element_type=np.float32),
                dot(x, y, lhs_scale=x_scale), dot(x[0], y[0]),
                dot(y, x, rhs_scale=x_scale, dimension_numbers=(((1,), (2,)), ((0,), (0,))))]

    # In bfloat16, with 8 significant bits, the order of a sum changes the last bit.
    assert_same(xjax.jit(lambda: run(xjax))(), jax.jit(lambda: run(jax))(), tol=1 / 4)


def test_gradient():
    """JAX has no gradient of `scaled_dot`."""
    x = X.astype(np.float32)

    def loss(x):
        return scaled_dot(x, jnp.ones((2, 8, 5)), lhs_scale=X_SCALE, preferred_element_type=np.float32).sum()
    np.testing.assert_allclose(xjax.grad(loss)(x), 5 * np.repeat(X_SCALE, 4, 2), rtol=1e-2)


@pytest.mark.parametrize("scale", [np.ones((2, 3, 8)), np.ones((2, 3, 3)), np.ones((2, 1, 2)), np.ones((3, 2))])
def test_misuse(scale):
    with pytest.raises(TypeError, match=r"(?s)lax.scaled_dot.*scale of `lhs` does not fit.*fix:"):
        scaled_dot(X, Y, lhs_scale=scale)
    with pytest.raises(TypeError, match="at least 2 axes"):
        scaled_dot(np.ones(3), np.ones(3))
