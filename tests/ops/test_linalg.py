"""`lax.linalg` against real JAX. Both call the same LAPACK, so signs and orders agree too."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import xjax
from tests.compare import assert_close
from tests.ops.harness import check_as_jax
from tests.ops.row import OpRow, c, hermitian, primitives_of, r
from tests.oracle import real_jax
from tests.sampling import one_in
from xjax.core.primitive import all_primitives
from xjax.lax import linalg

jax = real_jax()


def solve(**params: bool) -> Callable:
    return lambda L, a, b: L.triangular_solve(a, b, **params)


PIVOTS = np.array([[2, 1, 3], [0, 3, 2]], np.int32)
TABLE = [
    OpRow("cholesky", lambda L, x: L.cholesky(x), (hermitian(r(2, 3, 3), 8),)),
    OpRow("cholesky complex", lambda L, x: L.cholesky(x), (hermitian(c(3, 3), 8),)),
    OpRow("cholesky lower", lambda L, x: L.cholesky(x, symmetrize_input=False), (np.tril(r(3, 3)) + 5 * np.eye(3),),
          order=0),
    OpRow("cholesky nan", lambda L, x: L.cholesky(x), (np.stack([np.eye(2), -np.eye(2)]),), order=0),
    OpRow("symmetric_product", lambda L, a, b: L.symmetric_product(a, b, alpha=2.0, beta=3.0, symmetrize_output=True),
          (r(2, 3, 4), hermitian(r(2, 3, 3))), order=0),
    OpRow("solve", solve(), (r(3, 3) + 3 * np.eye(3), r(2, 3))),
    OpRow("solve left lower", solve(left_side=True, lower=True), (r(2, 3, 3) + 3 * np.eye(3), r(2, 3, 2))),
    OpRow("solve transposed", solve(left_side=True, transpose_a=True), (r(3, 3) + 3 * np.eye(3), r(3, 2))),
    OpRow("solve unit", solve(lower=True, unit_diagonal=True), (r(3, 3), r(2, 3))),
    OpRow("solve adjoint", solve(transpose_a=True, conjugate_a=True, lower=True), (c(3, 3) + 3 * np.eye(3), c(2, 3))),
    OpRow("solve conjugate", solve(conjugate_a=True, left_side=True), (c(3, 3) + 3 * np.eye(3), c(3, 2))),
    OpRow("solve vector", solve(left_side=True), (r(3, 3) + 3 * np.eye(3), r(3))),
    OpRow("order", lambda L, p: L.lu_pivots_to_permutation(p, 5), (PIVOTS,)),
    OpRow("lu", lambda L, x: L.lu(x), (r(2, 3, 3),)),
    OpRow("lu wide", lambda L, x: L.lu(x), (r(2, 4),)),
    OpRow("lu tall complex", lambda L, x: L.lu(x), (c(4, 2),)),
    OpRow("householder_product", lambda L, a, t: L.householder_product(a, t), (r(2, 4, 3), r(2, 2)), order=0),
    OpRow("ormqr", lambda L, a, t, b: L.ormqr(a, t, b, transpose=True), (r(4, 3), r(3), r(4, 2)), order=0),
    OpRow("ormqr right complex", lambda L, a, t, b: L.ormqr(a, t, b, left=False), (c(4, 3), c(3), c(2, 4)), order=0),
    OpRow("qr", lambda L, x: L.qr(x, full_matrices=False), (r(2, 4, 3),)),
    OpRow("qr square complex", lambda L, x: L.qr(x), (c(3, 3),)),
    OpRow("qr full", lambda L, x: L.qr(x), (r(4, 2),), order=0),
    OpRow("qr wide", lambda L, x: L.qr(x, full_matrices=False), (r(2, 4),), order=0),
    OpRow("qr pivoting", lambda L, x: L.qr(x, pivoting=True, full_matrices=False), (r(4, 3),)),
    OpRow("eigh", lambda L, x: L.eigh(x), (hermitian(r(2, 3, 3)),)),
    OpRow("eigh complex upper", lambda L, x: L.eigh(x, lower=False, symmetrize_input=False)[1], (c(3, 3),), order=0),
    OpRow("eigenvalues complex", lambda L, x: L.eigh(x)[1], (hermitian(c(3, 3)),)),
    OpRow("eig", lambda L, x: L.eig(x, enable_eigvec_derivs=True), (r(3, 3),)),
    OpRow("eig complex", lambda L, x: L.eig(x, compute_left_eigenvectors=False, enable_eigvec_derivs=True),
          (c(2, 3, 3),)),
    OpRow("eigenvalues", lambda L, x: L.eig(x, compute_left_eigenvectors=False, compute_right_eigenvectors=False,
                                             enable_eigvec_derivs=True), (r(3, 3),)),
    OpRow("svd", lambda L, x: L.svd(x, full_matrices=False), (r(2, 4, 3),)),
    OpRow("svd wide complex", lambda L, x: L.svd(x, full_matrices=False)[1:2], (c(2, 3),)),
    OpRow("svd square", lambda L, x: L.svd(x), (r(3, 3),)),
    OpRow("svd full", lambda L, x: L.svd(x), (r(2, 4),), order=0),
    OpRow("singular values", lambda L, x: L.svd(x, compute_uv=False), (r(4, 3),)),
    OpRow("svd by qr", lambda L, x: L.svd(x, full_matrices=False, algorithm=L.SvdAlgorithm.QR), (r(4, 3),), order=0),
    OpRow("schur", lambda L, x: L.schur(x), (r(2, 4, 4),), order=0),
    OpRow("schur complex", lambda L, x: L.schur(x, compute_schur_vectors=False), (c(3, 3),), order=0),
    OpRow("hessenberg", lambda L, x: L.hessenberg(x), (r(2, 4, 4),), order=0),
    OpRow("tridiagonal", lambda L, x: L.tridiagonal(x), (hermitian(r(4, 4)),), order=0),
    OpRow("tridiagonal complex", lambda L, x: L.tridiagonal(x, lower=False), (hermitian(c(2, 4, 4)),), order=0),
    OpRow("tridiagonal_solve", lambda L, *xs: L.tridiagonal_solve(*xs), (r(2, 4), r(2, 4) + 4, r(2, 4), r(2, 4, 3))),
    # Regular: derivatives are those of the unperturbed solution; singular: the solution for the perturbed matrix.
    OpRow("tridiagonal_solve perturbed", lambda L, *xs: L.tridiagonal_solve(*xs, perturb_singular=True),
          (r(2, 4), r(2, 4) + 4, r(2, 4), r(2, 4, 3)), grads=(1, 3)),
    OpRow("tridiagonal_solve singular", lambda L, *xs: L.tridiagonal_solve(*xs, perturb_singular=True),
          (np.zeros(4), np.array([1.0, 0, 2, 0]), np.zeros(4), r(4, 2)), order=0),
    OpRow("tridiagonal_solve complex", lambda L, *xs: L.tridiagonal_solve(*xs), (c(3), c(3) + 4, c(3), c(3, 1)),
          grads=(1, 3)),
]


@pytest.mark.parametrize("row", one_in(6, TABLE, str))
def test_as_jax(row: OpRow) -> None:
    check_as_jax(row, linalg, jax.lax.linalg, every_batch=True)


@pytest.mark.slow
@pytest.mark.parametrize("row", [row for row in TABLE if row.smooth()], ids=str)
def test_second_derivatives_as_jax(row: OpRow) -> None:
    check_as_jax(row, linalg, jax.lax.linalg, order=2)


UPDATES = {
    "symmetric_product": (lambda a, x: linalg.symmetric_product(a, x, alpha=2.0, beta=3.0), (r(2, 3, 4), r(2, 3, 3))),
    "cholesky_update": (linalg.cholesky_update, (np.abs(np.triu(r(2, 4, 4))), np.stack([r(4), np.zeros(4)]))),
}


@pytest.mark.parametrize("name", UPDATES)
def test_updates_have_derivatives(name):
    """JAX has no derivatives of these, nor batches of `cholesky_update`: checked by differences, vjp by jvp."""
    f, args = UPDATES[name]
    with xjax.enable_x64(True):
        dxs = [np.triu(r(*x.shape)) if x.ndim == 3 else r(*x.shape) for x in args]
        ct = r(*xjax.eval_shape(f, *args).shape)
        (y, dy), near, back, rows = xjax.jit(lambda args, dxs: (
            xjax.jvp(f, args, dxs), [f(*[x + h * dx for x, dx in zip(args, dxs, strict=True)]) for h in (1e-6, -1e-6)],
            xjax.vjp(f, *args)[1](ct), xjax.vmap(f, 1, 1)(*[x[:, None] for x in args])))(args, tuple(dxs))
        np.testing.assert_allclose(dy, (near[0] - near[1]) / 2e-6, atol=1e-8)
        np.testing.assert_allclose(sum(np.sum(g * dx) for g, dx in zip(back, dxs, strict=True)), np.sum(ct * dy),
                                   rtol=1e-12)
        np.testing.assert_allclose(rows[:, 0], y, atol=1e-13)
        if name == "cholesky_update":
            for one, *xs in zip(y, *args, strict=True):
                np.testing.assert_allclose(one, jax.jit(jax.lax.linalg.cholesky_update)(*xs), atol=1e-6)
                np.testing.assert_allclose(one.T @ one, xs[0].T @ xs[0] + np.outer(xs[1], xs[1]), atol=1e-13)


@pytest.mark.parametrize("x", [r(5, 3), c(4, 4), r(4, 3) * 1e-6 ** np.arange(3), np.zeros((2, 2))],
                         ids=["tall", "complex", "columns that differ by far", "zeros"])
def test_polar_decomposition_by_iteration(x):
    options = {"eps": 1e-9} if x.dtype.kind == "c" else {}
    with xjax.enable_x64(True):
        whole = xjax.jit(lambda x: linalg.qdwh(x, **options))
        (u, h, count, enough), limited = whole(x), xjax.jit(lambda x: linalg.qdwh(x, max_iterations=1)[3])(x)
        np.testing.assert_allclose(u @ h, x, atol=1e-14)
        np.testing.assert_allclose(h, h.conj().T, atol=1e-15)
        if x.any():
            np.testing.assert_allclose(u.conj().T @ u, np.eye(x.shape[1]), atol=1e-14)
        assert 2 <= int(count) <= 10 and bool(enough)
        assert not limited
        dynamic = np.where(np.arange(len(x))[:, None] < 2, x, 0)
        plain = xjax.jit(linalg.qdwh) if options else whole
        assert_close(xjax.jit(linalg.qdwh)(x, dynamic_shape=(2, x.shape[1])), plain(dynamic))


def test_every_primitive_has_a_row():
    """Except geqrf, which numpy.linalg.qr uses in mode "raw", and cholesky_update, which JAX cannot batch."""
    ours = {name for name, p in all_primitives().items() if p.type_rule.__module__.startswith("xjax.lax.linalg")}
    assert ours - set().union(*[primitives_of(row, linalg) for row in TABLE]) == {"geqrf", "cholesky_update"}


@pytest.mark.parametrize("f, error", [
    (lambda: linalg.cholesky(r(2, 3)), ValueError), (lambda: linalg.lu(r(3)), ValueError),
    (lambda: linalg.svd(np.ones((2, 2), np.int32)), TypeError),
    (lambda: linalg.triangular_solve(r(2, 2), r(2, 3)), ValueError),
    (lambda: linalg.eigh(r(2, 2), subset_by_index=(0, 1)), NotImplementedError),
    (lambda: linalg.eigh(r(2, 2), implementation=linalg.EighImplementation.QDWH), NotImplementedError),
    (lambda: linalg.schur(r(2, 2), sort_eig_vals=True), NotImplementedError),
    (lambda: linalg.householder_product(r(2, 3), r(3)), ValueError),
    (lambda: linalg.ormqr(r(3, 2), r(2), r(2, 2)), ValueError),
    (lambda: linalg.tridiagonal_solve(r(3), r(3), r(2), r(3, 1)), TypeError),
    (lambda: linalg.lu_pivots_to_permutation(np.arange(3), 2), ValueError),
    (lambda: linalg.symmetric_product(r(2, 3), r(3, 3)), ValueError),
    (lambda: linalg.cholesky_update(r(3, 3), r(2)), ValueError), (lambda: linalg.qdwh(r(2, 3)), ValueError),
    (lambda: xjax.jacfwd(linalg.hessenberg)(np.eye(2, dtype=np.float32)), NotImplementedError),
])
def test_errors_say_what_to_do(f, error):
    with pytest.raises(error, match="fix: "):
        f()
