"""`xjax.lax.linalg`: decompositions, compared by unique quantities: products, sizes, and factors up to signs."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from tests.values.linalg import adjoint, by_size
from tests.values.row import rows


def matrix_rows(name, call, *signatures, oracle=None, **options):
    """The one row of a function, with SciPy's equivalent."""
    return rows("lax.linalg", name, *signatures, call=call, oracle=oracle, **options)


def t(x):
    return x.swapaxes(-1, -2)


def sizes(x):
    """Absolute values, with a derivative also at complex numbers."""
    return (x * x.conj()).real


def _reflectors(a, taus):
    """The first columns of the product of I - tau v v*, where v is a column of `a` below a 1."""
    m, n = a.shape
    q = np.eye(m, dtype=a.dtype)
    for k, tau in enumerate(taus):
        v = np.concatenate([np.zeros(k), [1], a[k + 1:, k]])
        q = q @ (np.eye(m) - tau * np.outer(v, v.conj()))
    return q


def _factors(x):
    packed, pivots = linalg.lu_factor(x)
    order = np.arange(len(x))
    for i, j in enumerate(pivots):
        order[[i, j]] = order[[j, i]]
    return packed, pivots.astype(np.int32), order.astype(np.int32)


def _banded(below, diagonal, above, b):
    return np.linalg.solve(np.diag(diagonal) + np.diag(below[1:], -1) + np.diag(above[:-1], 1), b)


def _triangle(a, b, *, left_side=False, lower=False, transpose_a=False, conjugate_a=False, unit_diagonal=False):
    a = np.tril(a) if lower else np.triu(a)
    a = a - np.diag(np.diag(a)) + np.eye(len(a)) if unit_diagonal else a
    a = a.conj() if conjugate_a else a
    a = a.T if transpose_a else a
    return np.linalg.solve(a, b) if left_side else np.linalg.solve(a.T, b.T).T


SQUARE = ("f4[3,3]:regular", "f8[4,4]:regular", "c8[3,3]:regular")
SYMMETRIC = ("f4[3,3]:symmetric", "f8[4,4]:symmetric", "c8[3,3]:symmetric")
DEFINITE = ("f4[3,3]:definite", "f8[2,3,3]:definite", "c8[2,2]:definite")
D, DC = "f8[3,3]:regular", "c16[3,3]:regular"
# The largest entry of a "definite" matrix is 20 times its smallest eigenvalue; dividing by it magnifies errors as much.
CONDITION = 16

DECOMPOSITIONS = [
    *matrix_rows("cholesky", lambda f, x: (f(x), f((x + adjoint(x)) / 2, symmetrize_input=False)), *DEFINITE, "f4[0,0]",
                 tol=CONDITION, grad=("f8[3,3]:definite", "c16[2,2]:definite"),
                 oracle=lambda x, **_: np.linalg.cholesky(x)),
    *matrix_rows("cholesky", lambda f, x: f(x), "f4[2,2]:edges", "f8[2,2]", id="indefinite"),
    *matrix_rows("qr", lambda f, x: [(q @ r, adjoint(q) @ q, abs(r)) for y in (x, x[:, :2], x[:2]) for q, r in (
        f(y), f(y, full_matrices=False))], *SQUARE, oracle=lambda x, full_matrices=True: np.linalg.qr(
            x, "complete" if full_matrices else "reduced")),
    *matrix_rows("qr", lambda f, x: [f(y, full_matrices=False) for y in (x, x[:, :2])], D, grad=(D, DC), id="thin"),
    *matrix_rows("qr", lambda f, x: [(q @ r, abs(r), p) for q, r, p in (f(x, pivoting=True), f(
        x[:, :2], pivoting=True, full_matrices=False))], *SQUARE, id="pivoting"),
    *matrix_rows("lu", lambda f, x: f(x), *SQUARE, grad=(D, DC), oracle=_factors),
    *matrix_rows("lu", lambda f, x: (f(x), f(x[:, :2]), f(x[:2])), "f4[3,3]", "f8[2,3,3]:regular", "c8[3,3]",
                 id="other_shapes"),
    *matrix_rows("lu_pivots_to_permutation", lambda f, p: (f(p, 3), f(p, 5)), "i4[3]:2..2", "i4[2,2]:1..2"),
    *matrix_rows("svd", lambda f, x: [(s, u * s @ v, f(y, compute_uv=False)) for y in (x, x[:, :2], x[:2])
                                      for u, s, v in [f(y, full_matrices=False)]], *SQUARE,
                 grad=(D, DC), oracle=np.linalg.svd),
    *matrix_rows("svd", lambda f, x: [(abs(adjoint(u) @ u), s, abs(adjoint(v) @ v)) for u, s, v in (f(x), f(x[:, :2]))],
                 "f4[3,3]:regular", "f8[3,2]", id="full", oracle=np.linalg.svd),
    *matrix_rows("qdwh", lambda f, x: (f(x)[:2], f(x[:, :2])[:2], f(x)[3]), *SQUARE),
    *matrix_rows("qdwh", lambda f, x: f(x)[:2], *SQUARE, id="polar", oracle=linalg.polar),
]

EIGENVALUES = [
    *matrix_rows("eigh", lambda f, x: [(sizes(v), w, v * w @ adjoint(v)) for v, w in (f(x), f(x, lower=False))],
                 *SYMMETRIC, grad=("f8[3,3]:symmetric", "c16[3,3]:symmetric"),
                 oracle=lambda x, **_: np.linalg.eigh(x)[::-1]),
    *matrix_rows("eigh", lambda f, x: (f(x + t(x))[1], f(x, symmetrize_input=False)[1]), "f4[2,3,3]", "f8[3,3]",
                 "f4[0,0]", id="any"),
    *matrix_rows("eig", lambda f, x: [by_size(w) for w, vl, vr in [f(x)]] + [sizes(v[:, abs(w).argsort()])
                                                                             for w, *vs in [f(x)] for v in vs],
                 *SQUARE, oracle=lambda x: linalg.eig(x, left=True, right=True)),
    *matrix_rows("eig", lambda f, x: by_size(f(x, compute_left_eigenvectors=False,
                                                compute_right_eigenvectors=False)[0]), D, grad=(D, DC), id="values"),
    *matrix_rows("hessenberg", lambda f, x: f(x), "f4[3,3]", "f8[2,4,4]", "c8[3,3]"),
    *matrix_rows("tridiagonal", lambda f, x: (f(x)[1:], f(x, lower=False)[1:]), *SYMMETRIC),
    *matrix_rows("schur", lambda f, x: [(u @ s @ adjoint(u), by_size(s.diagonal())) for s, u in [f(x)]], *SQUARE,
                 oracle=linalg.schur),
]

SOLVES = [
    *matrix_rows("householder_product", lambda f, x, taus: (f(x, taus), f(x[:, :2], taus[:2])),
                 "f4[3,3]:-1..1 f4[2]:-1..1", "c8[3,3]:-1..1 c8[2]:-1..1"),
    *matrix_rows("householder_product", lambda f, x, taus: f(x, taus), "f4[3,3]:-1..1 f4[3]:-1..1", oracle=_reflectors,
                 id="square"),
    *matrix_rows("ormqr", lambda f, x, taus, c: (f(x, taus, c), f(x, taus, t(c), left=False),
                                                 f(x, taus, c, transpose=True)),
                 "f4[3,3]:-1..1 f4[3]:-1..1 f4[3,2]", "c8[3,3]:-1..1 c8[3]:-1..1 c8[3,2]"),
    *matrix_rows("triangular_solve", lambda f, a, b: (
        f(a, b, left_side=True), f(a, b, left_side=True, lower=True, transpose_a=True), f(a, t(b)),
        f(a, t(b), lower=True, unit_diagonal=True), f(a, b, left_side=True, transpose_a=True, conjugate_a=True)),
                 "f4[3,3]:regular f4[3,2]", "f8[3,3]:regular f8[3,2]", "c8[3,3]:regular c8[3,1]",
                 grad=(f"{D} f8[3,2]", f"{DC} c16[3,2]"), oracle=_triangle),
    *matrix_rows("tridiagonal_solve", lambda f, dl, d, du, b: f(dl, d, du, b),
                 "f4[4]:small f4[4]:4..8 f4[4]:small f4[4,2]", "f8[3]:small f8[3]:4..8 f8[3]:small f8[3,1]",
                 oracle=_banded,
                 grad=("f8[4]:small f8[4]:4..8 f8[4]:small f8[4,2]",)),
    *matrix_rows("cholesky_update", lambda f, x, w: f(x, w), "f4[3,3]:upper f4[3]:small", "f8[3,3]:upper f8[3]:small",
                 oracle=lambda r, w: np.linalg.cholesky(r.T @ r + np.outer(w, w)).T),
    *matrix_rows("symmetric_product", lambda f, a, c: (f(a, c, alpha=2.0, beta=0.5, symmetrize_output=True),
                                                       f(a, c, symmetrize_output=True)),
                 "f4[3,2] f4[3,3]:definite", "f8[2,4] f8[2,2]:definite",      # JAX has no derivative
                 oracle=lambda a, c, alpha=1.0, beta=0.0, **_: alpha * a @ a.T + beta * c),
]

ROWS = [*DECOMPOSITIONS, *EIGENVALUES, *SOLVES]
