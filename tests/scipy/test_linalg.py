"""`scipy.linalg` against real JAX: values, batches, first derivatives; expm against SciPy."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
import xjax.scipy.linalg as linalg
from tests.ops.linalg_harness import Row, c, check_as_jax, hermitian, r

jax = pytest.importorskip("jax")
scipy_linalg = pytest.importorskip("scipy.linalg")

A, B, SPD, CSPD = r(3, 3) + 2 * np.eye(3), r(3, 2), hermitian(r(3, 3), 8), hermitian(c(3, 3), 8)


def factored(make: str, solve: str, **keywords: object):
    """Factor and solve."""
    lower = {"lower": keywords.pop("lower")} if "lower" in keywords else {}
    return lambda L, a, b: getattr(L, solve)(getattr(L, make)(a, **lower), b, **keywords)


TABLE = [
    Row("cholesky", lambda L, x: [L.cholesky(x), L.cholesky(x, lower=True)], (CSPD,), (0,)),
    Row("cho_solve", factored("cho_factor", "cho_solve"), (SPD, B), (0, 1)),
    Row("cho_solve lower", factored("cho_factor", "cho_solve", lower=True), (CSPD, c(3)), (1,)),
    Row("lu", lambda L, x: [L.lu(x), L.lu(x, permute_l=True)], (r(4, 3),), (0,)),
    Row("lu_solve", factored("lu_factor", "lu_solve"), (A, B), (0, 1)),
    Row("lu_solve transposed", factored("lu_factor", "lu_solve", trans=1), (A, r(3))),
    Row("lu_solve adjoint", factored("lu_factor", "lu_solve", trans=2), (c(3, 3), c(3, 2)), (1,)),
    Row("qr", lambda L, x: [L.qr(x), L.qr(x, mode="economic"), L.qr(x, mode="r"), L.qr(x, pivoting=True, mode="r")],
        (r(4, 3),)),
    Row("svd", lambda L, x: [L.svd(x, full_matrices=False), L.svd(x, compute_uv=False)], (r(4, 3),), (0,)),
    Row("det and inv", lambda L, x: [L.det(x), L.inv(x)], (A,), (0,)),
    Row("eigh", lambda L, x: [L.eigh(x), L.eigh(x, eigvals_only=True)], (SPD,), (0,)),
    Row("schur", lambda L, x: [L.schur(x), L.schur(x, output="complex")], (A,)),
    Row("hessenberg", lambda L, x: [L.hessenberg(x), L.hessenberg(x, calc_q=True)], (c(2, 4, 4),)),
    Row("solve", lambda L, a, b: L.solve(a, b), (A, B), (0, 1)),
    Row("solve pos", lambda L, a, b: L.solve(a, b, assume_a="pos"), (SPD, B), (1,)),
    # JAX takes a Hermitian matrix for its own transpose: see test_decompositions_multiply_back for the derivative.
    Row("solve pos complex", lambda L, a, b: L.solve(a, b, assume_a="pos", lower=True), (CSPD, c(3, 2))),
    Row("solve_triangular", lambda L, a, b: [L.solve_triangular(a, b, trans, lower) for trans in (0, "T", 2)
                                             for lower in (False, True)], (c(3, 3) + 3 * np.eye(3), c(3, 2)), (0, 1)),
    Row("polar", lambda L, x: [L.polar(x, "right", method="svd"), L.polar(x, "left", method="svd")], (A,)),
    Row("expm", lambda L, x: L.expm(x), (r(3, 3),), (0,)),
    Row("sqrtm", lambda L, x: L.sqrtm(x), (SPD,)),
    Row("block_diag", lambda L, x, y: L.block_diag(x, y, 2.0, x), (r(2, 1), r(3)), (0, 1)),
    Row("toeplitz", lambda L, x, y: [L.toeplitz(x), L.toeplitz(x, y)], (c(2, 3), c(2, 4)), (0, 1)),
    Row("hankel", lambda L, x, y: [L.hankel(x), L.hankel(x, y)], (r(3), r(2)), (0, 1)),
    Row("circulant", lambda L, x: [L.circulant(x), L.fiedler(x)], (r(2, 3),)),
    Row("companion", lambda L, x: [L.companion(x), L.leslie(x, x[1:])], (r(4),), (0,)),
    Row("convolution_matrix", lambda L, x: [L.convolution_matrix(x, n, mode) for mode in ("full", "same", "valid")
                                            for n in (2, 5)], (r(3),)),
    Row("formulas", lambda L, _: [L.hilbert(3), L.helmert(4), L.helmert(3, full=True), L.hadamard(4), L.dft(3),
                               L.dft(4, "sqrtn"), L.dft(2, "n")], (r(1),)),
]


@pytest.mark.parametrize("row", TABLE, ids=[row.name for row in TABLE])
def test_as_jax(row: Row) -> None:
    check_as_jax(row, jax, linalg, jax.scipy.linalg)


@pytest.mark.parametrize("dtype, tolerance", [(np.float32, 2e-6), (np.complex128, 1e-13)])
def test_expm_of_every_size(dtype, tolerance):
    """Relative to the norm; with exponents up to 1e3 the squarings multiply the rounding errors by as much."""
    xs = np.stack([s * r(4, 4) for s in (0.0, 1e-3, 0.3, 2.0, 8.0)]).astype(dtype)
    with xjax.enable_x64(True):
        found = np.asarray(linalg.expm(xs))
    for x, y in zip(xs, found, strict=True):
        want = scipy_linalg.expm(x.astype(np.complex128))
        assert np.linalg.norm(y - want) <= 30 * tolerance * np.linalg.norm(want)
    assert np.isnan(linalg.expm(np.float32(1e7) * np.eye(2, dtype=np.float32))).all()


def test_expm_of_triangular_matrices_and_its_derivative():
    x, e = np.triu(r(4, 4)), r(4, 4)
    with xjax.enable_x64(True):
        np.testing.assert_allclose(linalg.expm(x, upper_triangular=True), scipy_linalg.expm(x), atol=1e-13)
        both, alone = linalg.expm_frechet(x, e), linalg.expm_frechet(x, e, compute_expm=False)
        for got, want in zip((*both, alone), (*scipy_linalg.expm_frechet(x, e), both[1]), strict=True):
            np.testing.assert_allclose(got, want, atol=1e-12)


def test_the_gradient_of_expm_survives_large_neighbours():
    """The first needs fewer squarings, and would overflow in those of the second."""
    xs = np.stack([60 * np.eye(2), -2000 * np.eye(2)]).astype(np.float32)
    gradient = xjax.grad(lambda x: linalg.expm(x)[0].sum())(xs)
    np.testing.assert_allclose(gradient[0], np.full((2, 2), np.exp(60.0)), rtol=1e-4)
    assert (np.asarray(gradient[1]) == 0).all()


def test_decompositions_multiply_back():
    x = r(3, 5)
    with xjax.enable_x64(True):
        u, p = linalg.polar(x, "left")
        np.testing.assert_allclose(p @ u, x, atol=1e-12)
        np.testing.assert_allclose(u @ u.T, np.eye(3), atol=1e-12)
        root = linalg.sqrtm(x @ x.T - np.eye(3))
        np.testing.assert_allclose(root @ root, x @ x.T - np.eye(3), atol=1e-10)
        # The derivative of a solution for a positive definite matrix, complex too, is that of the general one.
        for matrix in (SPD, CSPD):
            by = [xjax.vjp(lambda a, kind=kind: linalg.solve(a, np.ones(3), assume_a=kind), matrix)[1](
                np.arange(3).astype(matrix.dtype))[0] for kind in ("gen", "pos")]
            np.testing.assert_allclose(*by, atol=1e-12)


@pytest.mark.parametrize("f, error", [
    (lambda: linalg.solve(A, B, assume_a="band"), ValueError), (lambda: linalg.qr(A, mode="raw"), ValueError),
    (lambda: linalg.eigh(A, B), NotImplementedError), (lambda: linalg.hadamard(3), ValueError),
    (lambda: linalg.schur(A, "quaternion"), ValueError), (lambda: linalg.block_diag(np.ones((1, 1, 1))), ValueError),
    (lambda: linalg.lu_solve(linalg.lu_factor(A), B, 3), ValueError), (lambda: linalg.polar(A, "up"), ValueError),
    (lambda: linalg.expm_frechet(A, B), ValueError), (lambda: xjax.jacfwd(linalg.schur)(A), NotImplementedError),
])
def test_errors_say_what_to_do(f, error):
    with pytest.raises(error, match="fix: "):
        f()
