"""`scipy.linalg` against real JAX: values, batches, first derivatives; expm against SciPy."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
import xjax.scipy.linalg as linalg
from tests.ops.harness import check_as_jax
from tests.ops.row import OpRow, c, hermitian, r
from tests.oracle import current, only, real_jax
from tests.sampling import one_in

jax = real_jax()
scipy_linalg = pytest.importorskip("scipy.linalg")

A, B, SPD, CSPD = r(3, 3) + 2 * np.eye(3), r(3, 2), hermitian(r(3, 3), 8), hermitian(c(3, 3), 8)


def factored(make: str, solve: str, **keywords: object):
    """A solver that factors and then solves."""
    lower = {"lower": keywords.pop("lower")} if "lower" in keywords else {}
    return lambda L, a, b: getattr(L, solve)(getattr(L, make)(a, **lower), b, **keywords)


TABLE = [
    # Since 0.12 the derivative reads one triangle only, as the factorisation does.
    OpRow("cholesky", lambda L, x: [L.cholesky(x), L.cholesky(x, lower=True)], (CSPD,),
          grads=current((only(0, since="0.12"),))),
    OpRow("cho_solve", factored("cho_factor", "cho_solve"), (SPD, B), grads=current((only(0, since="0.12"), 1))),
    OpRow("cho_solve lower", factored("cho_factor", "cho_solve", lower=True), (CSPD, c(3)), grads=(1,)),
    OpRow("lu", lambda L, x: [L.lu(x), L.lu(x, permute_l=True)], (r(4, 3),)),
    OpRow("lu_solve", factored("lu_factor", "lu_solve"), (A, B)),
    OpRow("lu_solve transposed", factored("lu_factor", "lu_solve", trans=1), (A, r(3)), order=0),
    OpRow("lu_solve adjoint", factored("lu_factor", "lu_solve", trans=2), (c(3, 3), c(3, 2)), grads=(1,)),
    OpRow("qr", lambda L, x: [L.qr(x), L.qr(x, mode="economic"), L.qr(x, mode="r"), L.qr(x, pivoting=True, mode="r")],
          (r(4, 3),), order=0),
    OpRow("svd", lambda L, x: [L.svd(x, full_matrices=False), L.svd(x, compute_uv=False)], (r(4, 3),)),
    OpRow("det and inv", lambda L, x: [L.det(x), L.inv(x)], (A,)),
    OpRow("eigh", lambda L, x: [L.eigh(x), L.eigh(x, eigvals_only=True)], (SPD,)),
    OpRow("schur", lambda L, x: [L.schur(x), L.schur(x, output="complex")], (A,), order=0),
    OpRow("hessenberg", lambda L, x: [L.hessenberg(x), L.hessenberg(x, calc_q=True)], (c(2, 4, 4),), order=0),
    OpRow("solve", lambda L, a, b: L.solve(a, b), (A, B)),
    OpRow("solve pos", lambda L, a, b: L.solve(a, b, assume_a="pos"), (SPD, B), grads=(1,)),
    # JAX takes a Hermitian matrix for its own transpose: test_decompositions_multiply_back covers the derivative.
    OpRow("solve pos complex", lambda L, a, b: L.solve(a, b, assume_a="pos", lower=True), (CSPD, c(3, 2)), order=0),
    OpRow("solve_triangular", lambda L, a, b: [L.solve_triangular(a, b, trans, lower) for trans in (0, "T", 2)
                                               for lower in (False, True)], (c(3, 3) + 3 * np.eye(3), c(3, 2))),
    OpRow("polar", lambda L, x: [L.polar(x, "right", method="svd"), L.polar(x, "left", method="svd")], (A,), order=0),
    OpRow("expm", lambda L, x: L.expm(x), (r(3, 3),)),
    OpRow("sqrtm", lambda L, x: L.sqrtm(x), (SPD,), order=0),
    OpRow("block_diag", lambda L, x, y: L.block_diag(x, y, 2.0, x), (r(2, 1), r(3))),
    OpRow("toeplitz", lambda L, x, y: [L.toeplitz(x), L.toeplitz(x, y)], (c(2, 3), c(2, 4))),
    OpRow("hankel", lambda L, x, y: [L.hankel(x), L.hankel(x, y)], (r(3), r(2))),
    OpRow("circulant", lambda L, x: [L.circulant(x), L.fiedler(x)], (r(2, 3),), order=0),
    OpRow("companion", lambda L, x: [L.companion(x), L.leslie(x, x[1:])], (r(4),)),
    OpRow("convolution_matrix", lambda L, x: [L.convolution_matrix(x, n, mode) for mode in ("full", "same", "valid")
                                              for n in (2, 5)], (r(3),), order=0),
    OpRow("fiedler_companion", lambda L, x: [L.fiedler_companion(x[..., :n]) for n in (1, 2, 3, 6)], (c(2, 6),),
          order=0),
    OpRow("qr_multiply", lambda L, a, x: [L.qr_multiply(a, x), L.qr_multiply(a, x[0]), L.qr_multiply(
          a, x[:, :2], "left", pivoting=True), L.qr_multiply(a, x[0, :2], "left"), L.qr_multiply(a, x, conjugate=True)],
          (c(3, 2), c(2, 3)), order=0),
    OpRow("funm", lambda L, _: [L.funm(A, lambda x: x ** 2 + 1), *L.funm(A, abs, disp=False)], (r(1),), order=0),
    OpRow("formulas", lambda L, _: [L.hilbert(3), L.helmert(4), L.helmert(3, full=True), L.hadamard(4), L.dft(3),
                               L.dft(4, "sqrtn"), L.dft(2, "n"), L.invhilbert(5)], (r(1),), order=0),
]


@pytest.mark.parametrize("row", one_in(10, TABLE, str))
def test_as_jax(row: OpRow) -> None:
    check_as_jax(row, linalg, jax.scipy.linalg)


@pytest.mark.parametrize("name, arguments", [
    ("hilbert", (3,)), ("invhilbert", (5,)), ("helmert", (4,)), ("helmert", (3, True)), ("hadamard", (4,)),
    ("dft", (3,)), ("dft", (4, "sqrtn"))])
def test_matrices_of_a_formula(name, arguments):
    """The error is at most two units in the last place of float64, as in SciPy."""
    with xjax.enable_x64(True):
        result = np.asarray(getattr(linalg, name)(*arguments))
    np.testing.assert_allclose(result, getattr(scipy_linalg, name)(*arguments), rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("dtype, tolerance", [(np.float32, 2e-6), (np.complex128, 1e-13)])
def test_expm_of_every_size(dtype, tolerance):
    """Relative to the norm; with exponents up to 1e3 the squarings multiply rounding errors by about as much."""
    xs = np.stack([s * r(4, 4) for s in (0.0, 1e-3, 0.3, 2.0, 8.0)]).astype(dtype)
    with xjax.enable_x64(True):
        result = np.asarray(xjax.jit(linalg.expm)(xs))
    for x, y in zip(xs, result, strict=True):
        want = scipy_linalg.expm(x.astype(np.complex128))
        assert np.linalg.norm(y - want) <= 30 * tolerance * np.linalg.norm(want)
    assert np.isnan(xjax.jit(linalg.expm)(np.float32(1e7) * np.eye(2, dtype=np.float32))).all()


def test_expm_of_triangular_matrices_and_its_derivative():
    x, e = np.triu(r(4, 4)), r(4, 4)
    with xjax.enable_x64(True):
        value, both, alone = xjax.jit(lambda x, e: (linalg.expm(x, upper_triangular=True), linalg.expm_frechet(x, e),
                                                    linalg.expm_frechet(x, e, compute_expm=False)))(x, e)
        np.testing.assert_allclose(value, scipy_linalg.expm(x), atol=1e-13)
        for got, want in zip((*both, alone), (*scipy_linalg.expm_frechet(x, e), both[1]), strict=True):
            np.testing.assert_allclose(got, want, atol=1e-12)


def test_the_gradient_of_expm_survives_large_neighbours():
    """The first matrix needs fewer squarings, and would overflow in those of the second."""
    xs = np.stack([60 * np.eye(2), -2000 * np.eye(2)]).astype(np.float32)
    gradient = xjax.jit(xjax.grad(lambda x: linalg.expm(x)[0].sum()))(xs)
    np.testing.assert_allclose(gradient[0], np.full((2, 2), np.exp(60.0)), rtol=1e-4)
    assert (np.asarray(gradient[1]) == 0).all()


def test_the_complex_schur_form():
    x = np.stack([r(4, 4), np.kron(np.diag([1.0, 3.0]), [[0, 2], [-2, 0]]), np.zeros((4, 4))])
    with xjax.enable_x64(True):
        t, z = map(np.asarray, linalg.rsf2csf(*linalg.schur(x)))
        assert (np.tril(t, -1) == 0).all()
        np.testing.assert_allclose(z @ t @ z.conj().swapaxes(-1, -2), x, atol=1e-13)
        np.testing.assert_allclose(z @ z.conj().swapaxes(-1, -2), np.broadcast_to(np.eye(4), x.shape), atol=1e-13)


def test_tridiagonal_vectors_and_their_derivative():
    d, e = r(5), c(4)
    matrix = np.diag(d) + np.diag(e, 1) + np.diag(e.conj(), -1)
    with xjax.enable_x64(True):
        (w, v), slope, (_, vectors) = xjax.jit(lambda d, e: (
            linalg.eigh_tridiagonal(d + 0j, e, select="i", select_range=(1, 3)),
            xjax.grad(lambda d: linalg.eigh_tridiagonal(d, e.real, eigvals_only=True)[0])(d),
            linalg.eigh_tridiagonal(d, e.real)))(d, e)
        np.testing.assert_allclose(w, np.linalg.eigvalsh(matrix)[1:4], atol=1e-13)
        np.testing.assert_allclose(matrix @ v, v * w, atol=1e-13)
        np.testing.assert_allclose(slope, vectors[:, 0] ** 2, atol=1e-13)


@pytest.mark.parametrize("method", ["schur", "eigen"])
def test_the_derivative_of_sylvester(method):
    """Both modes against the equation of the differential, and each other; batched."""
    a, b, x, da, db, dx = c(2, 3, 3), c(2, 2), c(3, 2), c(2, 3, 3), c(2, 2), c(3, 2)
    with xjax.enable_x64(True):
        solve = lambda a, b, x: linalg.solve_sylvester(a, b, x, method=method)
        ct = c(2, 3, 2)
        (y, dy), back = xjax.jit(lambda xs, dxs: (xjax.jvp(solve, xs, dxs), xjax.vjp(solve, *xs)[1](ct)))(
            (a, b, x), (da, db, dx))
        np.testing.assert_allclose(a @ y + y @ b, np.broadcast_to(x, y.shape), atol=1e-12)
        np.testing.assert_allclose(a @ dy + da @ y + dy @ b + y @ db, np.broadcast_to(dx, y.shape), atol=1e-11)
        np.testing.assert_allclose(sum(np.sum(g * d) for g, d in zip(back, (da, db, dx), strict=True)),
                                   np.sum(ct * dy), rtol=1e-10)
        assert np.isnan(solve(a, -a, a)).all()                 # eigenvalues cancel, so no unique solution exists


def test_whole_numbers_of_any_size():
    with xjax.enable_x64(True):
        np.testing.assert_array_equal(linalg.invhilbert(14), scipy_linalg.invhilbert(14, exact=True).astype(float))
        for kind in ("symmetric", "lower", "upper"):
            for name in ("pascal", "invpascal"):
                want = getattr(scipy_linalg, name)(9, kind, exact=True)
                np.testing.assert_array_equal(getattr(linalg, name)(9, kind), want)
        np.testing.assert_array_equal(linalg.pascal(20), scipy_linalg.pascal(20, exact=True).astype(float))
        assert np.isinf(np.asarray(linalg.invhilbert(230))).any()
        assert linalg.pascal(0).shape == linalg.invpascal(0, "lower").shape == linalg.invhilbert(0).shape == (0, 0)


def test_decompositions_multiply_back():
    x = r(3, 5)
    with xjax.enable_x64(True):
        product = x @ x.T - np.eye(3)
        (u, p), root = xjax.jit(lambda x, y: (linalg.polar(x, "left"), linalg.sqrtm(y)))(x, product)
        np.testing.assert_allclose(p @ u, x, atol=1e-12)
        np.testing.assert_allclose(u @ u.T, np.eye(3), atol=1e-12)
        np.testing.assert_allclose(root @ root, product, atol=1e-10)
        # The derivative of a solution with a positive definite matrix, real or complex, is that of the general one.
        for matrix in (SPD, CSPD):
            by = xjax.jit(lambda matrix, ct: [xjax.vjp(lambda a: linalg.solve(a, np.ones(3), assume_a=kind), matrix)[1](
                ct)[0] for kind in ("gen", "pos")])(matrix, np.arange(3).astype(matrix.dtype))
            np.testing.assert_allclose(*by, atol=1e-12)


@pytest.mark.parametrize("f, error", [
    (lambda: linalg.solve(A, B, assume_a="band"), ValueError), (lambda: linalg.qr(A, mode="raw"), ValueError),
    (lambda: linalg.eigh(A, B), NotImplementedError), (lambda: linalg.hadamard(3), ValueError),
    (lambda: linalg.schur(A, "quaternion"), ValueError), (lambda: linalg.block_diag(np.ones((1, 1, 1))), ValueError),
    (lambda: linalg.lu_solve(linalg.lu_factor(A), B, 3), ValueError), (lambda: linalg.polar(A, "up"), ValueError),
    (lambda: linalg.pascal(3, "left"), ValueError), (lambda: linalg.qr_multiply(A, B), ValueError),
    (lambda: linalg.qr_multiply(A, B, "up"), ValueError), (lambda: linalg.funm(B, abs), ValueError),
    (lambda: linalg.rsf2csf(A, np.eye(2)), ValueError), (lambda: linalg.solve_sylvester(A, A, B), ValueError),
    (lambda: linalg.solve_sylvester(A, A, A, method="lu"), ValueError),
    (lambda: linalg.eigh_tridiagonal(r(3), r(2), select="i"), ValueError),
    (lambda: linalg.eigh_tridiagonal(r(3), r(2), select="v", select_range=(0, 1)), NotImplementedError),
    (lambda: linalg.eigh_tridiagonal(r(3), r(3)), ValueError),
    (lambda: linalg.expm_frechet(A, B), ValueError), (lambda: xjax.jacfwd(linalg.schur)(A), NotImplementedError),
])
def test_errors_say_what_to_do(f, error):
    with pytest.raises(error, match="fix: "):
        f()
