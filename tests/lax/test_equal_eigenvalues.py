"""Derivatives of eigenvectors and singular vectors at equal or zero eigenvalues or singular values.

The oracle is a central difference of the function in NumPy: the functions are smooth for any choice of vectors.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.linalg

import xjax
import xjax.numpy as jnp
from tests.compare import assert_close, tolerance
from tests.sampling import one_in
from xjax.scipy import linalg

RNG = np.random.default_rng(7)
STEP = 1e-4
# The error of a central difference of fourth order is about STEP**4 + eps / STEP, here 1e-11, times derivatives of up
# to 100.
TOL = 1e-8 / tolerance("float64")


@pytest.fixture(autouse=True)
def _float64():
    with xjax.enable_x64(True):
        yield


def numbers(*shape, dtype=complex):
    return RNG.normal(size=shape) + (1j * RNG.normal(size=shape) if dtype is complex else 0)


def basis(n, dtype):
    return np.linalg.qr(numbers(n, n, dtype=dtype))[0]


def hermitian(w, dtype):
    q = basis(len(w), dtype)
    a = (q * w) @ q.conj().T
    return (a + a.conj().T) / 2


def with_values(s, dtype, m=None, n=None):
    m, n = m or len(s), n or len(s)
    return (basis(m, dtype)[:, :len(s)] * s) @ basis(n, dtype)[:, :len(s)].conj().T


def h(x):
    return x.conj().swapaxes(-1, -2)


# -- functions, for NumPy and for xjax -----------------------------------------------------------------------------

def projector(np_, a):
    """The projector onto the eigenspaces of eigenvalues below 1.5."""
    w, v = np_.linalg.eigh((a + h(a)) / 2)
    return (v * (w < 1.5)[..., None, :]) @ h(v)


def trace_of_exp(np_, a):
    w, v = np_.linalg.eigh((a + h(a)) / 2)
    return np_.trace((v * np_.exp(w)[..., None, :]) @ h(v), axis1=-2, axis2=-1)


def log_det(np_, a):
    w, v = np_.linalg.eigh((a + h(a)) / 2)
    return np_.sum(np_.log(w + 1), -1) + np_.sum(abs(v) ** 2, (-1, -2))


def part_of_exp(np_, a):
    """The trace of exp restricted to the sum of the eigenspaces of eigenvalues below 1.5."""
    p = projector(np_, a)
    w, v = np_.linalg.eigh((a + h(a)) / 2)
    return np_.trace(p @ ((v * np_.exp(w)[..., None, :]) @ h(v)), axis1=-2, axis2=-1)


def polar_factor(np_, a):
    u, _, vh = np_.linalg.svd(a, full_matrices=False)
    return u @ vh


def range_of(np_, a):
    """The projector onto the span of the left singular vectors with singular values above 1.5."""
    u, s, _ = np_.linalg.svd(a, full_matrices=False)
    return (u * (s > 1.5)[..., None, :]) @ h(u)


def part_by_svd(np_, a):
    """The part of the matrix with singular values above 1.5; these are distinct."""
    u, s, vh = np_.linalg.svd(a, full_matrices=False)
    return (u * np_.where(s > 1.5, s, 0)[..., None, :]) @ vh


def square_by_svd(np_, a):
    u, s, vh = np_.linalg.svd(a, full_matrices=False)
    return np_.sum(abs((u * s[..., None, :]) @ vh) ** 2, (-1, -2))


def rebuilt(np_, a):
    u, s, vh = np_.linalg.svd(a, full_matrices=False)
    return (u * s[..., None, :]) @ vh


def nuclear(np_, a):
    return np_.linalg.norm(a, "nuc", axis=(-2, -1))


def pinv(np_, a):
    return np_.linalg.pinv(a)


def pinv_hermitian(np_, a):
    return np_.linalg.pinv(a + h(a), hermitian=True)


RIGHT = RNG.normal(size=(6, 2))


def lstsq(np_, a):
    return np_.linalg.lstsq(a, RIGHT[:a.shape[0]].astype(a.dtype), rcond=None)[0]


def sqrtm(np_, a):
    return (linalg if np_ is jnp else scipy.linalg).sqrtm(a)


def polar(side):
    def f(np_, a):
        return (linalg if np_ is jnp else scipy.linalg).polar(a, side)
    return f


def sylvester(np_, a):
    return (linalg if np_ is jnp else scipy.linalg).solve_sylvester(a, a, a @ a)


class Case(NamedTuple):
    f: Any
    values: tuple = ()                  # eigenvalues or singular values
    make: Any = hermitian
    options: dict = {}
    second: bool = False                # whether second derivatives are correct too


CASES = {
    "projector, 2 equal": Case(projector, (1., 1., 2., 3.)),
    "projector, 3 equal and 2 equal": Case(projector, (1., 1., 1., 2., 2.)),
    "trace of exp, identity": Case(trace_of_exp, (1., 1., 1.)),
    "trace of exp, 2 equal": Case(trace_of_exp, (-1., 2., 2.)),
    "log det, all zero": Case(log_det, (0., 0., 0.)),
    "log det, 3 equal": Case(log_det, (2., 2., 2., 5.)),
    "part of exp": Case(part_of_exp, (1., 1., 2., 2.)),
    "polar factor, 2 equal": Case(polar_factor, (3., 1., 1.), with_values),
    "polar factor, 3 equal, tall": Case(polar_factor, (2., 1., 1., 1.), with_values, {"m": 6}),
    "polar factor, all equal, wide": Case(polar_factor, (1., 1.), with_values, {"n": 4}),
    "range, 3 equal and 2 equal": Case(range_of, (2., 2., 2., 1., 1.), with_values),
    "range, 2 zero": Case(range_of, (3., 2., 0., 0.), with_values),
    "part by svd, 2 equal, tall": Case(part_by_svd, (3., 2., 1., 1.), with_values, {"m": 5}),
    "part by svd, 2 zero": Case(part_by_svd, (3., 2., 0., 0.), with_values),
    "square by svd, 2 equal": Case(square_by_svd, (3., 1., 1.), with_values, {"n": 4}),
    "square by svd, all zero": Case(square_by_svd, (0., 0., 0.), with_values),
    "square by svd, 2 zero": Case(square_by_svd, (3., 2., 0., 0.), with_values, {"m": 5}),
    "rebuilt, 1 zero": Case(rebuilt, (3., 1., 0.), with_values),
    "rebuilt, 1 zero, tall": Case(rebuilt, (3., 1., 0.), with_values, {"m": 5}),
    "nuclear norm, 3 equal": Case(nuclear, (2., 1., 1., 1.), with_values, {"n": 6}),
    "pinv, 2 equal": Case(pinv, (2., 1., 1.), with_values, {"m": 5}, True),
    "pinv, all equal": Case(pinv, (1., 1., 1.), with_values, {"n": 4}, True),
    "pinv, hermitian": Case(pinv_hermitian, (2., 1., 1.), second=True),
    "lstsq, 3 equal": Case(lstsq, (1., 1., 1.), with_values, {"m": 5}, True),
    "lstsq, 2 equal, wide": Case(lstsq, (2., 1., 1.), with_values, {"n": 5}, True),
    "sqrtm, identity": Case(sqrtm, (1., 1., 1.), second=True),
    "sqrtm, 2 equal": Case(sqrtm, (2., 1., 1.), second=True),
    "polar right, 2 equal": Case(polar("right"), (2., 1., 1.), with_values, {"m": 4}),
    "polar left, 3 equal": Case(polar("left"), (1., 1., 1.), with_values, {"n": 5}),
    "sylvester": Case(sylvester, (1., 1., 2.), second=True),
}
ROWS = one_in(11, [(name, dtype) for name in CASES for dtype in (float, complex)],
              lambda row: f"{row[0]}, {row[1].__name__}")


def difference(f, a, d):
    """The derivative of `f` at `a` in the direction `d`, leaf by leaf."""
    at = [[np.asarray(y) for y in (out if isinstance(out, tuple) else (out,))]
          for out in (f(a + k * STEP * d) for k in (-2, -1, 1, 2))]
    return [(8 * (c - b) - (e - a)) / (12 * STEP) for a, b, c, e in zip(*at, strict=True)]


def scalar(case, weights):
    """The weighted sum of the function's results, as a real function for NumPy or xjax."""
    def f(np_, a):
        outs = case.f(np_, a)
        outs = outs if isinstance(outs, tuple) else (outs,)
        return sum(np_.sum((y * w).real) for y, w in zip(outs, weights, strict=True))
    return f


def setting(case, dtype):
    a = case.make(np.array(case.values), dtype, **case.options)
    d = numbers(*a.shape, dtype=dtype)
    d = d / np.linalg.norm(d)
    outs = case.f(np, a)
    weights = [numbers(*np.shape(y)) for y in (outs if isinstance(outs, tuple) else (outs,))]
    return a, d, scalar(case, weights)


@pytest.mark.parametrize("row", ROWS)
def test_derivatives_are_right(row):
    case, dtype = CASES[row[0]], row[1]
    a, d, f = setting(case, dtype)
    want, = difference(lambda a: f(np, a), a, d)
    value, forward = xjax.jvp(lambda a: f(jnp, a), (a,), (d,))
    assert_close(value, f(np, a), tol=64)
    assert_close(forward, want, tol=TOL)
    # Reverse mode, for a stack of matrices.
    gradient = xjax.grad(lambda a: f(jnp, a[0]) + xjax.vmap(lambda a: f(jnp, a))(a)[1])(np.stack([a, a]))
    assert_close(np.sum(np.asarray(gradient) * d, (1, 2)).real, np.stack([want, want]), tol=TOL)


@pytest.mark.parametrize("row", ROWS)
def test_second_derivatives_are_finite(row):
    case, dtype = CASES[row[0]], row[1]
    a, d, f = setting(case, dtype)
    gradient = xjax.grad(lambda a: f(jnp, a))
    _, hessian_product = xjax.jvp(gradient, (a,), (d,))
    assert np.isfinite(hessian_product).all()
    _, backward = xjax.vjp(lambda a: xjax.jvp(lambda a: f(jnp, a), (a,), (d,))[1], a)
    assert np.isfinite(backward(1.0)[0]).all()
    if case.second:
        want, = difference(gradient, a, d)
        assert_close(hessian_product, want, tol=TOL)
        assert_close(np.sum(np.asarray(backward(1.0)[0]) * d).real, np.sum(want * d).real, tol=TOL)


VECTORS = {
    "eigh": (lambda a: jnp.linalg.eigh(a + h(a)), [np.eye(3), np.zeros((3, 3)), np.diag([1., 1., 2.])]),
    "svd": (lambda a: jnp.linalg.svd(a, full_matrices=False),
            [np.eye(3), np.zeros((4, 3)), np.diag([1., 1., 0., 0.]), np.ones((2, 3))]),
    "hermitian svd": (lambda a: jnp.linalg.svd(a + h(a), hermitian=True), [np.eye(3), np.diag([1., -1., 2.])]),
    "eigenvalues": (jnp.linalg.eigvals, [np.eye(3), np.diag([1., 1., 2.])]),
}


@pytest.mark.parametrize("name", VECTORS)
def test_derivatives_of_single_vectors_are_finite(name):
    f, places = VECTORS[name]
    for a in places:
        for dtype in ("f4", "f8", "c16"):
            out, pullback = xjax.vjp(f, a.astype(dtype))
            # The cotangent is 1 everywhere.
            ct, = pullback(xjax.tree.map(jnp.ones_like, out))
            assert np.isfinite(ct).all(), (a, dtype)


def test_functions_of_nearly_equal_eigenvalues_are_as_right_as_their_gap_allows():
    """exp of a matrix with eigenvalues 1 and 1 + gap; Daleckii and Krein (1965) give its derivative."""
    q, d = basis(3, float), numbers(3, 3, dtype=float)
    for gap in (1e-9, 1e-6, 1e-3):
        w = np.array([1., 1. + gap, 2.])
        a, d = (q * w) @ q.T, (d + d.T) / 2
        spread = np.subtract.outer(w, w)
        sinhc = np.where(spread, np.sinh(spread / 2) / np.where(spread, spread / 2, 1), 1)
        quotients = np.exp((w[:, None] + w) / 2) * sinhc
        want = q @ (quotients * (q.T @ d @ q)) @ q.T
        derivative = xjax.jvp(lambda a: (lambda w, v: (v * jnp.exp(w)) @ v.T)(*jnp.linalg.eigh(a)), (a,), (d,))[1]
        # The gap itself is accurate to only a few eps.
        assert_close(derivative, want, tol=64 + 1e-14 / gap / tolerance("float64"))


def test_small_and_large_matrices_have_the_derivatives_of_their_multiples():
    """The squares of singular values overflow or underflow here, so the derivatives must not use them."""
    a = np.asarray(with_values(np.array([3., 2., 1.]), float), np.float32)
    grad = xjax.grad(lambda a: jnp.sum(polar_factor(jnp, a) * np.arange(9.).reshape(3, 3)))
    want = np.asarray(grad(a))
    for power in (-80, 80):
        scale = np.float32(2.) ** power
        np.testing.assert_allclose(np.asarray(grad(a * scale)) * scale, want, rtol=1e-4, atol=1e-4)
