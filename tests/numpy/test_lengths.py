"""Norms and standard deviations at infinities, NaN and 0, mapped and differentiated twice."""

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp

ROWS = np.float32([[3, 4], [3e22, 4e22], [3e-22, -4e-22], [0, 0], [np.inf, 1], [np.nan, 1], [np.inf, np.nan]])
WANTED = np.float32([5, 5e22, 5e-22, 0, np.inf, np.nan, np.nan])


@pytest.mark.parametrize("norm", [jnp.linalg.norm, lambda x: jnp.linalg.norm(x, 2), jnp.linalg.vector_norm])
def test_under_vmap_as_along_an_axis(norm):
    for found in (xjax.jit(xjax.vmap(norm))(ROWS), jnp.linalg.norm(ROWS, axis=1)):
        np.testing.assert_allclose(found, WANTED, rtol=1e-6)


def test_a_mapped_norm_computes_one_of_the_two_forms():
    """The choice is one for all rows: a `cond` on a mapped predicate would compute both."""
    program = str(xjax.make_jaxpr(xjax.vmap(jnp.linalg.norm))(ROWS))
    assert "cond[" in program


def test_ordinary_values_are_bit_for_bit_the_root_of_the_sum():
    x = np.random.default_rng(0).normal(size=(50, 7)).astype(np.float32)
    plain = xjax.jit(lambda x: jnp.sqrt(jnp.sum(x * x, 1)))(x)
    np.testing.assert_array_equal(xjax.jit(lambda x: jnp.linalg.norm(x, axis=1))(x), plain)
    beside = np.concatenate([x, ROWS[1:2, [0, 1, 0, 1, 0, 1, 0]]])
    np.testing.assert_array_equal(xjax.jit(lambda x: jnp.linalg.norm(x, axis=1))(beside)[:-1], plain)


def test_second_derivatives():
    unit = np.array([0.6, 0.8])
    found = xjax.hessian(jnp.linalg.norm)(np.float32([3, 4]))
    np.testing.assert_allclose(found, (np.eye(2) - np.outer(unit, unit)) / 5, atol=1e-7)


def test_slopes_at_zero():
    assert not np.any(xjax.grad(jnp.linalg.norm)(jnp.zeros(3)))
    assert not np.any(xjax.hessian(jnp.linalg.norm)(jnp.zeros(2)))
    assert np.isnan(xjax.grad(jnp.std)(jnp.ones(3))).all()
