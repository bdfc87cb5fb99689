"""Roots of polynomials against NumPy, in any order; derivatives; refused traced arguments."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
import xjax.numpy as xnp

POLYNOMIALS = [[1, -3, 2], [0, 1, -3, 2], [0, 0, 1, -3, 2, 0], [2], [], [0, 0], [1, 0, 0, 8], [1, 2j, 3]]


def ordered(x):
    return np.sort_complex(np.round(np.asarray(x, np.complex64), 4))


@pytest.mark.parametrize("p", POLYNOMIALS, ids=str)
def test_roots(p):
    roots = xnp.roots(xnp.asarray(p))
    assert roots.dtype == np.complex64
    np.testing.assert_allclose(ordered(roots), ordered(np.roots(p)), atol=1e-3)


def test_roots_of_traced_coefficients():
    f = xjax.jit(lambda p: xnp.roots(p, strip_zeros=False))
    roots = np.asarray(f(np.array([0, 1, -3, 2, 0], np.float32)))
    np.testing.assert_allclose(ordered(roots[:3]), [0, 1, 2], atol=1e-3)
    assert np.isnan(roots[3].real) and np.isnan(roots[3].imag)
    assert np.isnan(np.asarray(xnp.roots(xnp.zeros(3), strip_zeros=False))).all()
    with pytest.raises(xjax.errors.ConcretizationTypeError, match="strip_zeros=False"):
        xjax.jit(xnp.roots)(np.ones(3))
    with pytest.raises(xjax.errors.ConcretizationTypeError, match="trim_leading_zeros=False"):
        xjax.jit(lambda p: xnp.polymul(p, p, trim_leading_zeros=True))(np.ones(3))


def test_gradient_of_polyval_is_polyder():
    p, x = xnp.asarray([2.0, -1.0, 3.0, 0.5]), np.linspace(-1, 1, 5).astype(np.float32)
    slope = xjax.vmap(xjax.grad(lambda x: xnp.polyval(p, x)))(x)
    np.testing.assert_allclose(slope, xnp.polyval(xnp.polyder(p), x), rtol=1e-5)
    by_p = xjax.grad(lambda p: xnp.polyval(p, 2.0))(p)
    np.testing.assert_allclose(by_p, [8, 4, 2, 1])


def test_division_undoes_products():
    u, v = xnp.asarray([1.0, 2, 3, 4]), xnp.asarray([2.0, -1, 3])
    quotient, rest = xnp.polydiv(xnp.polyadd(xnp.polymul(u, v), xnp.asarray([1.0, 5.0])), v)
    np.testing.assert_allclose(quotient, u, rtol=1e-5)
    np.testing.assert_allclose(rest[-2:], [1, 5], rtol=1e-5)
