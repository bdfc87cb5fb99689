"""`xjax.numpy.linalg`. Results that are unique only up to a sign or order are compared by invariant products."""

from __future__ import annotations

import numpy as np

from tests.values.row import rows

# Well-conditioned matrices only: with others, rounding gives each library its own result. Singular values of n x n #
# matrices are between 1/2 and n + 1/2, so rounding errors of one inverse grow up to 2 n times. `tol` is 2 where a
# matrix # and its inverse are multiplied, and 4 where inverses are squared (slopes, pseudoinverses, quotients of
# singular values).
REGULAR = ("f4[3,3]:regular", "f8[2,3,3]:regular", "c8[2,2]:regular", "f8[1,1]:regular", "c16[4,4]:regular")
SYMMETRIC = ("f4[3,3]:symmetric", "f8[2,2,2]:symmetric", "c8[3,3]:symmetric", "i4[2,2]:symmetric", "c16[4,4]:symmetric")
DEFINITE = ("f4[3,3]:definite", "f8[2,2,2]:definite", "c8[3,3]:definite", "c16[1,1]:definite")
ANY = ("f4[2,3]", "i4[3,2]", "c8[2,2]", "bf[2,3]", "f8[0,2]")
VECTORS = ("f4[3]", "i4[4]", "c8[2]", "f2[3]", "f8[3]:edges")
D = ("f8[3,3]:regular",)
DC = (*D, "c16[2,2]:regular")


def adjoint(x):
    return x.conj().swapaxes(-1, -2)


def by_size(values):
    """Eigenvalues in a fixed order."""
    return values[abs(values).argsort()]


def _masked(x):
    """The matrix with zeros in its last row: its rank is one less, in any precision."""
    return x * (np.arange(x.shape[-1])[:, None] < x.shape[-1] - 1)


def _of_parts(f, x):
    """A function of a square, a tall and a wide part of a matrix."""
    return f(x), f(x[..., :-1]), f(x[..., :-1, :])


def _powers(w):
    """Sums of powers of eigenvalues, which do not depend on their order."""
    return [(w ** k).sum(-1) for k in range(1, w.shape[-1] + 1)]


def _svd(f):
    def products(x):
        u, s, v = f(x, full_matrices=False)
        full_u, full_s, full_v = f(x)
        return (s, (u * s[..., None, :]) @ v, adjoint(u) @ u, v @ adjoint(v), full_s, adjoint(full_u) @ full_u,
                full_v @ adjoint(full_v), f(x, compute_uv=False))
    return products


def _qr(f):
    def products(x):
        q, r = f(x)
        full_q, full_r = f(x, mode="complete")
        return (q @ r, abs(q), abs(r), full_q @ full_r, abs(full_r), adjoint(full_q) @ full_q, abs(f(x, mode="r")))
    return products


def _smooth_qr(f, x):
    q, r = f(x)
    return q @ r, adjoint(r) @ r, q @ adjoint(q)


def _smooth_svd(f, x):
    u, s, v = f(x, full_matrices=False)
    return s, (u * s[..., None, :] ** 2) @ v, (u / s[..., None, :]) @ v


def _solution(result):
    x, _, rank, s = result
    return x, rank, s


ROWS = [
    # -- factors ------------------------------------------------------------------------------------------------------
    *rows("numpy.linalg", "cholesky", *DEFINITE, grad=("f8[3,3]:definite", "c16[2,2]:definite"),
          call=lambda f, x: (f(x), f(x, upper=True))),
    # NumPy raises if this factor does not exist.
    *rows("numpy.linalg", "cholesky", "f4[2,2]:symmetric", "c8[2,2]:symmetric", id="of an indefinite matrix",
          oracle=None, call=lambda f, x: f(-x)),
    *rows("numpy.linalg", "qr", *REGULAR, call=lambda f, x: _of_parts(_qr(f), x)),
    *rows("numpy.linalg", "qr", "f8[4,3]", "f4[1,0]", "f8[0,2]", id="of any matrix",
          call=lambda f, x: f(x)[0] @ f(x)[1]),
    *rows("numpy.linalg", "qr", "f8[3,3]:regular", id="smooth", grad=("f8[3,3]:regular", "c16[3,3]:regular"), tol=4,
          call=lambda f, x: [_smooth_qr(f, x), _smooth_qr(f, x[:, :2])]),
    *rows("numpy.linalg", "svd", *REGULAR, tol=2, call=lambda f, x: _of_parts(_svd(f), x)),
    *rows("numpy.linalg", "svd", "f4[3,2]", "f8[2,0]", "c16[2,2]", id="of any matrix",
          call=lambda f, x: (f(x, compute_uv=False), f(x, full_matrices=False)[1])),
    *rows("numpy.linalg", "svd", *SYMMETRIC[:3], id="of a symmetric matrix", call=lambda f, x: (
              f(x, hermitian=True)[1], f(x, compute_uv=False, hermitian=True),
              (lambda u, s, v: (u * s[..., None, :]) @ v)(*f(x, hermitian=True)))),
    *rows("numpy.linalg", "svd", "f8[3,3]:regular", id="smooth", grad=("f8[3,3]:regular", "c16[2,2]:regular"), tol=4,
          call=lambda f, x: [_smooth_svd(f, x), _smooth_svd(f, x[:, :-1]), _smooth_svd(f, x[:-1])]),
    *rows("numpy.linalg", "svdvals", *REGULAR[:3], "f4[2,3]", grad=D),
    *rows("numpy.linalg", "eigh", *SYMMETRIC, call=lambda f, x: [
              (w, (v * w[..., None, :]) @ adjoint(v), abs(v), adjoint(v) @ v) for w,
              v in (f(x), f(x, "U"), f(x, UPLO="L"))]),
    *rows("numpy.linalg", "eigh", "f8[3,3]:symmetric", id="smooth", grad=("f8[3,3]:symmetric", "c16[2,2]:symmetric"),
          tol=4, call=lambda f, x: (lambda w, v: (w, (v * w[..., None, :] ** 2) @ adjoint(v)))(*f(x))),
    *rows("numpy.linalg", "eigvalsh", *SYMMETRIC, grad=("f8[3,3]:symmetric", "c16[2,2]:symmetric"),
          call=lambda f, x: (f(x), f(x, "U"), f(x, UPLO="L"))),
    *rows("numpy.linalg", "eig", *REGULAR, tol=4,
          call=lambda f, x: (lambda w, v: (_powers(w), x @ v - v * w[..., None, :], (abs(v) ** 2).sum(-2)))(*f(x))),
    # Two coinciding eigenvalues may become a complex pair, so these are well separated. NumPy's are real if all of them
    # are.
    *rows("numpy.linalg", "eigvals", *REGULAR, tol=4, grad=D, call=lambda f, x: _powers(f(x))),

    # -- determinants, rank, condition --------------------------------------------------------------------------------
    *rows("numpy.linalg", "det", "f4[2,2]", "f8[3,3]:small", "c8[2,2]", "i4[3,3]:small", "f4[1,1]", "f4[2,4,4]:regular",
          "c16[5,5]:regular", "f8[0,0]", grad=("f8[2,2]", *D, "f8[4,4]:regular", "c16[2,2]:regular")),
    *rows("numpy.linalg", "slogdet", *REGULAR, "f8[0,0]", grad=DC, call=lambda f, x: tuple(f(x))),
    *rows("numpy.linalg", "slogdet", *REGULAR[:3], id="of zero", call=lambda f, x: tuple(f(0 * x))),
    *rows("numpy.linalg", "slogdet", *REGULAR[:2], id="by qr",
          call=lambda f, x: tuple(f(x) if f is np.linalg.slogdet else f(x, method="qr"))),
    *rows("numpy.linalg", "matrix_rank", *REGULAR[:4], call=lambda f, x: (f(x), f(_masked(x)), f(0 * x))),
    *rows("numpy.linalg", "matrix_rank", "f4[2,2]:symmetric", "c8[3,3]:symmetric", id="of a symmetric matrix",
          call=lambda f, x: (f(x, hermitian=True), f(_masked(x)))),
    *rows("numpy.linalg", "cond", "f4[3,3]:regular", "f8[2,2,2]:regular", "c8[2,2]:regular", tol=4,
          call=lambda f, x: [f(x, p) for p in (None, 2, -2, 1, -1, np.inf, -np.inf, "fro")]),
    *rows("numpy.linalg", "cond", "f8[3,3]:regular", id="smooth", grad=D, tol=4,
          call=lambda f, x: [f(x, p) for p in (None, 2, -2, "fro")]),

    # -- systems ------------------------------------------------------------------------------------------------------
    *rows("numpy.linalg", "solve", "f4[3,3]:regular f4[3]", "f8[2,3,3]:regular f4[3,2]", "c8[2,2]:regular c8[4,2,1]",
          "f8[2,2]:regular i4[2]", "f4[2,2]:regular c16[2]",
          grad=("f8[3,3]:regular f8[3,2]", "c16[2,2]:regular c16[2]")),
    *rows("numpy.linalg", "inv", *REGULAR, grad=DC),
    *rows("numpy.linalg", "lstsq", "f4[3,3]:regular f4[3]", "f8[3,3]:regular f8[3,2]", "c8[3,3]:regular c8[3]", tol=4,
          call=lambda f, a, b: (
              _solution(f(a, b, rcond=None)), _solution(f(a[:, :2], b, rcond=None)), f(a[:, :2], b, rcond=None)[1],
              _solution(f(a[:2], b[:2], rcond=None)))),
    *rows("numpy.linalg", "lstsq", "f8[3,3]:regular f8[3]", id="smooth", grad=("f8[3,3]:regular f8[3]",), tol=4,
          differs="JAX's slopes are nan at b = 0", call=lambda f, a, b: [
              _solution(f(a, b, rcond=None)), _solution(f(a[:, :2], b, rcond=None)), f(a[:, :2], b, rcond=None)[1]]),
    *rows("numpy.linalg", "lstsq", "f4[3,3]:regular f4[3]", "f8[3,3]:regular f8[3,2]", id="of less rank", tol=4,
          call=lambda f, a, b: (_solution(f(_masked(a), b, rcond=None)), _solution(f(a, b, rcond=0.6)))),
    *rows("numpy.linalg", "pinv", *REGULAR, grad=DC, tol=4, call=lambda f, x: (*_of_parts(f, x), f(_masked(x)))),
    *rows("numpy.linalg", "pinv", *SYMMETRIC[:3], id="of a symmetric matrix", tol=4,
          call=lambda f, x: (f(x, hermitian=True), f(x, rtol=0.4), f(x, 0.4, hermitian=True))),
    # If all singular values are kept, the derivative is that of the inverse.
    *rows("numpy.linalg", "pinv", "f8[3,3]:symmetric", id="smooth", grad=("f8[3,3]:symmetric",), tol=4,
          call=lambda f, x: f(x, hermitian=True)),
    *rows("numpy.linalg", "matrix_power", *REGULAR, grad=DC, tol=4,
          call=lambda f, x: [f(x, n) for n in (0, 1, 2, 3, 5, -1, -2)]),
    *rows("numpy.linalg", "matrix_power", "i4[2,2]:-3..3", "c8[2,2]:small", id="of any matrix",
          call=lambda f, x: [f(x, n) for n in (0, 1, 2, 4)]),
    *rows("numpy.linalg", "multi_dot", "f4[2,3] f4[3,4] f4[4,2]", "i4[2] f4[2,2] f4[2]", "c8[3] c8[3,1] c8[1,2]",
          grad=("f8[2,3] f8[3,1] f8[1,2]",), call=lambda f, x, y, z: (f([x, y, z]), f((x, y)), f([x, y, y.T, y]))),
    *rows("numpy.linalg", "tensorinv", "f4[6,6]:regular", "c8[6,6]:regular", grad=("f8[6,6]:regular",), tol=2,
          call=lambda f, x: (f(x.reshape(2, 3, 6)), f(x.reshape(2, 3, 3, 2), ind=2), f(x, ind=1))),
    *rows("numpy.linalg", "tensorsolve", "f4[6,6]:regular f4[6]", "c8[6,6]:regular f8[6]", tol=4,
          grad=("f8[6,6]:regular f8[6]",), call=lambda f, x, b: (
              f(x.reshape(2, 3, 6), b.reshape(2, 3)), f(x.reshape(6, 3, 2), b), f(x.reshape(6, 2, 3), b, axes=(1,)))),

    # -- norms --------------------------------------------------------------------------------------------------------
    *rows("numpy.linalg", "norm", *VECTORS, call=lambda f, x: [
              f(x), *[f(x, n) for n in (2, 1, 0, -1, 3, 0.5, -2.5, np.inf, -np.inf)], f(x, axis=0),
              f(x, 1, -1, keepdims=True)]),
    *rows("numpy.linalg", "norm", *ANY, id="of arrays", call=lambda f, x: [
              f(x), f(x, keepdims=True), *[f(x, n, 1) for n in (None, 2, 1, 0, 3)], f(x, axis=(0, 1)),
              f(x, "fro", axis=(0, -1))]),
    *rows("numpy.linalg", "norm", "f4[2,3]", "c8[2,2]", "f8[3,1]", "bf[2,3]", id="of matrices", call=lambda f, x: [
              *[f(x, n) for n in ("fro", 1, -1, np.inf, -np.inf)], f(x, 1, (1, 0), keepdims=True),
              f(x, -np.inf, axis=(-2, -1))]),
    *rows("numpy.linalg", "norm matrix_norm", *REGULAR[:3], id="of singular values", grad=D,
          call=lambda f, x: [
              f(x, ord=n, keepdims=k, **({} if f.__name__ == "matrix_norm" else {"axis": (-2, -1)}))
              for n in (2, -2, "nuc") for k in (False, True)]),
    # At 0 JAX's derivatives are NaN, and ours are 0.
    *rows("numpy.linalg", "norm", "f8[2,3]:positive", id="smooth", grad=("f8[2,3]:positive", "c16[2,2]:positive"),
          call=lambda f, x: [f(x), f(x, axis=0), f(x, 3, axis=1), f(x, 1, 0), f(x, "fro", (0, 1), True)]),
    # JAX refuses integers for some orders.
    *rows("numpy.linalg", "vector_norm", "f4[2,3]", "c8[2,2]", "bf[2,3]", "f8[0,2]", grad=("f8[2,3]:positive",),
          call=lambda f, x: [f(x), f(x, keepdims=True), *[f(x, axis=-1, ord=n) for n in (1, 0, 2, 3)],
                             f(x, axis=0, ord=1.5)]),
    *rows("numpy.linalg", "vector_norm", "f4[2,3]", "c8[2,1,2]", id="extreme",
          call=lambda f, x: [f(x, ord=n, axis=a) for n in (np.inf, -np.inf, -1) for a in (None, 0)]),
    *rows("numpy.linalg", "matrix_norm", "f4[2,3]", "c8[2,2,2]", "bf[2,3]", "i4[3,1]", grad=("f8[2,3]:positive",),
          call=lambda f, x: [f(x), f(x, keepdims=True), *[f(x, ord=n) for n in ("fro", 1, -1, np.inf, -np.inf)]]),

    # -- of the last axes ---------------------------------------------------------------------------------------------
    *rows("numpy.linalg", "cross", "f4[3] f4[3]", "i4[2,3] f4[3]", "c8[2,3] c8[2,3]", grad=("f8[2,3] f8[3]",)),
    *rows("numpy.linalg", "cross", "f4[3,2] f4[3,2]", id="along an axis", call=lambda f, x, y: f(x, y, axis=0)),
    *rows("numpy.linalg", "outer", "f4[3] f4[2]", "i4[2] f8[0]", "c8[2] c8[2]", "b1[2] b1[2]", grad=("f8[3] f8[2]",)),
    *rows("numpy.linalg", "trace", "f4[2,3]", "i4[3,2,2]", "c8[2,0,2]", "b1[2,2]",
          call=lambda f, x: (f(x), f(x, offset=1), f(x, offset=-1), f(x, dtype="float32"))),
    *rows("numpy.linalg", "trace", "f4[2,3]", id="smooth", grad=("f8[3,2]",), call=lambda f, x: (f(x), f(x, offset=1))),
    *rows("numpy.linalg", "diagonal", "f4[2,3]", "i4[3,2,2]", "c8[2,0,2]", grad=("f8[3,2]",),
          call=lambda f, x: (f(x), f(x, offset=1), f(x, offset=-1))),
]
