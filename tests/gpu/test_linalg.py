"""Decompositions on a GPU: their factors reproduce the matrices; unique results and derivatives are as on the CPU.

Matrices have condition numbers below 100. So 200 units of the dtype's precision bound the errors of n <= 40 rounding
steps, and 1000 units the errors of inverses and derivatives (100 times n = 5, twice). Products have full precision.
"""

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xjax.scipy.linalg as sla
from tests.compare import ULPS, assert_same
from xjax import lax
from xjax.lax.linalg import EighImplementation, EigImplementation, SvdAlgorithm
from xjax.lax.linalg.qr import geqrf

DTYPES = ("float32", "float64", "complex64", "complex128")
TYPES = [*((dtype, ()) for dtype in DTYPES), ("float32", (3,)), ("complex128", (3,))]
each_type = pytest.mark.parametrize(("dtype", "batch"), TYPES, ids=[f"{d}-{len(b)}" for d, b in TYPES])
CPU = xjax.devices("cpu")[0]


@pytest.fixture(autouse=True)
def _full_precision():
    with xjax.enable_x64(True), xjax.default_matmul_precision("highest"):
        yield


def matrix(dtype, *shape, seed=0):
    """Random matrices plus a multiple of the identity, on the CPU as NumPy arrays."""
    rng = np.random.default_rng([seed, *shape])
    x = rng.standard_normal(shape)
    if dtype.startswith("complex"):
        x = x + 1j * rng.standard_normal(shape)
    return (x + 3 * np.eye(*shape[-2:])).astype(dtype)


def hermitian(dtype, *shape):
    x = matrix(dtype, *shape)
    return (x + np.conj(np.swapaxes(x, -1, -2))) / 2


def positive(dtype, *shape):
    x = matrix(dtype, *shape)
    return (x @ np.conj(np.swapaxes(x, -1, -2)) + np.eye(shape[-1])).astype(dtype)


def near(result, wanted, units=200):
    """Assert equality up to `units` units in the last place of the largest element."""
    assert_same(result, np.asarray(wanted), tol=units / ULPS)


def adjoint(x):
    return jnp.conj(jnp.swapaxes(x, -1, -2))


def diag(w, like):
    return w[..., None, :].astype(like.dtype)


# Each function reproduces its argument from the factors, whatever signs and phases the library chooses.
def by_lu(x):
    factors, _, order = lax.linalg.lu(x)
    k = min(x.shape[-2:])
    lower = jnp.tril(factors[..., :k], -1) + jnp.eye(x.shape[-2], k, dtype=x.dtype)
    return jnp.take_along_axis(lower @ jnp.triu(factors[..., :k, :]), jnp.argsort(order)[..., None], -2)


def by_qr(x, **options):
    q, r = lax.linalg.qr(x, **options)
    return q @ r


def by_pivoted_qr(x, **options):
    q, r, order = lax.linalg.qr(x, pivoting=True, **options)
    return jnp.take_along_axis(q @ r, jnp.argsort(order)[..., None, :], -1)


def by_ormqr(x):
    packed, taus = geqrf(x)
    r = jnp.triu(packed)
    return lax.linalg.ormqr(packed, taus, r)


def by_eigh(x, **options):
    v, w = lax.linalg.eigh(x, **options)
    return (v * diag(w, v)) @ adjoint(v)


def by_svd(x, full_matrices=False, algorithm=None):
    u, s, vh = lax.linalg.svd(x, full_matrices=full_matrices, algorithm=algorithm)
    k = s.shape[-1]
    return (u[..., :k] * diag(s, u)) @ vh[..., :k, :]


def by_eig(x, **options):
    w, v = lax.linalg.eig(x, compute_left_eigenvectors=False, **options)
    return jnp.linalg.solve(adjoint(v), adjoint(v * diag(w, v)))        # from the eigenvalues of x^H, complex


def by_left_eig(x):
    w, u, _ = lax.linalg.eig(x)
    return jnp.linalg.solve(adjoint(u), jnp.conj(w)[..., None].conj() * adjoint(u))


def projector(x):
    """The projector onto the span of the first two columns."""
    q, _ = lax.linalg.qr(x[..., :2], full_matrices=False)
    return q @ adjoint(q)


def by_schur(x):
    t, z = lax.linalg.schur(x)
    return z @ t @ adjoint(z)


def by_tridiagonal(x):
    packed, d, e, taus = lax.linalg.tridiagonal(x)
    n = x.shape[-1]
    e = jnp.pad(e, [(0, 0)] * (e.ndim - 1) + [(1, 0)])
    t = jnp.eye(n) * d[..., None, :] + jnp.eye(n, k=-1) * e[..., :, None] + jnp.eye(n, k=1) * e[..., None, :]
    inner = lax.linalg.householder_product(packed[..., 1:, :-1], taus)
    q = jnp.zeros_like(packed).at[..., 0, 0].set(1).at[..., 1:, 1:].set(inner)
    return q @ t.astype(x.dtype) @ adjoint(q)


RECONSTRUCTIONS = {
    "lu": (by_lu, matrix, (5, 5)), "lu, tall": (by_lu, matrix, (7, 4)), "lu, wide": (by_lu, matrix, (4, 7)),
    "cholesky": (lambda x: lax.linalg.cholesky(x) @ adjoint(lax.linalg.cholesky(x)), positive, (5, 5)),
    "qr": (by_qr, matrix, (7, 4)), "qr, wide": (by_qr, matrix, (4, 7)),
    "qr, reduced": (lambda x: by_qr(x, full_matrices=False), matrix, (7, 4)),
    "qr, pivoting": (by_pivoted_qr, matrix, (7, 4)),
    "qr, pivoting, LAPACK": (lambda x: by_pivoted_qr(x, use_magma=False), matrix, (4, 4)),
    "geqrf, ormqr": (by_ormqr, matrix, (5, 5)),
    "eigh": (by_eigh, hermitian, (5, 5)),
    "eigh, larger": (by_eigh, hermitian, (40, 40)),
    "eigh, upper": (lambda x: by_eigh(x, lower=False, symmetrize_input=False), hermitian, (5, 5)),
    "eigh, QR": (lambda x: by_eigh(x, implementation=EighImplementation.QR), hermitian, (5, 5)),
    "svd": (by_svd, matrix, (5, 5)), "svd, tall": (by_svd, matrix, (7, 4)), "svd, wide": (by_svd, matrix, (4, 7)),
    "svd, full": (lambda x: by_svd(x, full_matrices=True), matrix, (4, 7)),
    "svd, larger": (by_svd, matrix, (40, 36)),
    "svd, QR": (lambda x: by_svd(x, algorithm=SvdAlgorithm.QR), matrix, (7, 4)),
    "svd, QR, wide": (lambda x: by_svd(x, algorithm=SvdAlgorithm.QR), matrix, (4, 7)),
    "schur": (by_schur, matrix, (5, 5)),
    "tridiagonal": (by_tridiagonal, hermitian, (5, 5)),
}
ONLY_ON_GPU = {
    "eigh, Jacobi": (lambda x: by_eigh(x, implementation=EighImplementation.JACOBI), hermitian, (5, 5)),
    "svd, Jacobi": (lambda x: by_svd(x, algorithm=SvdAlgorithm.JACOBI), matrix, (7, 4)),
    "svd, polar": (lambda x: by_svd(x, algorithm=SvdAlgorithm.POLAR), matrix, (7, 4)),
    "svd, polar, wide": (lambda x: by_svd(x, algorithm=SvdAlgorithm.POLAR), matrix, (4, 7)),
}


@each_type
@pytest.mark.parametrize("name", [*RECONSTRUCTIONS, *ONLY_ON_GPU])
def test_gives_back_its_matrices(name, dtype, batch):
    if name in ONLY_ON_GPU and xjax.default_backend() == "cpu":
        pytest.skip("CPUs do not have this algorithm")
    function, make, shape = (RECONSTRUCTIONS | ONLY_ON_GPU)[name]
    x = make(dtype, *batch, *shape)
    near(xjax.jit(function)(x), x)
    if batch:
        near(xjax.vmap(function)(x), x)


@each_type
@pytest.mark.parametrize("name", ["default", "LAPACK", "CUSOLVER", "left vectors"])
def test_eig(name, dtype, batch):
    if name == "CUSOLVER" and xjax.default_backend() == "cpu":
        pytest.skip("CPUs do not have cuSOLVER")
    x = matrix(dtype, *batch, 5, 5)
    as_complex = x.astype(np.result_type(dtype, np.complex64))
    if name == "left vectors":
        w, u, v = lax.linalg.eig(x)
        near(adjoint(u) @ x, np.asarray(w)[..., None] * np.asarray(adjoint(u)))
    else:
        w, v = lax.linalg.eig(x, compute_left_eigenvectors=False,
                              implementation=None if name == "default" else EigImplementation[name])
    near(as_complex @ np.asarray(v), np.asarray(v) * np.asarray(w)[..., None, :])
    near(jnp.linalg.norm(v, axis=-2), np.ones(w.shape, np.asarray(w).real.dtype))
    near(jnp.sum(w, axis=-1), np.trace(as_complex, axis1=-2, axis2=-1))


# Functions of one matrix with a unique result: equal on the GPU and the CPU, and so are their gradients.
FUNCTIONS = {
    "lu": (lambda x: lax.linalg.lu(x)[0], matrix), "pivots": (lambda x: lax.linalg.lu(x)[1], matrix),
    "order": (lambda x: lax.linalg.lu(x)[2], matrix),
    "cholesky": (lax.linalg.cholesky, positive),
    "triangular_solve": (lambda x: lax.linalg.triangular_solve(x, x + 1, lower=True, transpose_a=True,
                                                               conjugate_a=True), matrix),
    "solve": (lambda x: jnp.linalg.solve(x, x[..., :2] + 1), matrix),
    "inv": (jnp.linalg.inv, matrix), "det": (jnp.linalg.det, matrix),
    "slogdet": (lambda x: jnp.linalg.slogdet(x)[1], matrix), "pinv": (jnp.linalg.pinv, matrix),
    "eigvalsh": (jnp.linalg.eigvalsh, hermitian), "singular values": (jnp.linalg.svdvals, matrix),
    "singular values, QR": (lambda x: lax.linalg.svd(x, compute_uv=False, algorithm=SvdAlgorithm.QR), matrix),
    "projector": (projector, matrix),
    "expm": (lambda x: sla.expm(x / 8), matrix),
    "tridiagonal_solve": (lambda x: lax.linalg.tridiagonal_solve(x[..., 0], x[..., 1] + 9, x[..., 2], x), matrix),
    "matrix_power": (lambda x: jnp.linalg.matrix_power(x / 4, -2), matrix),
    "hessenberg": (lambda x: jnp.triu(lax.linalg.hessenberg(x)[0], -1), matrix),
    "sqrtm": (lambda x: sla.sqrtm(x), positive), "polar": (lambda x: sla.polar(x)[0], matrix),
}
NO_DERIVATIVE = {"pivots", "order", "hessenberg", "sqrtm"}


@each_type
@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_on_the_cpu(name, dtype, batch):
    function, make = FUNCTIONS[name]
    if batch and name in ("polar", "sqrtm"):
        function = xjax.vmap(function)
    x = make(dtype, *batch, 5, 5)
    on_cpu = xjax.device_put(x, CPU)
    near(xjax.jit(function)(x), xjax.jit(function)(on_cpu), units=1000)
    near(function(x), xjax.jit(function)(on_cpu), units=1000)
    if name in NO_DERIVATIVE:
        return

    def size(x):
        return jnp.sum(jnp.sin(jnp.abs(function(x)) / 8))

    near(xjax.jit(xjax.grad(size))(x), xjax.jit(xjax.grad(size))(on_cpu), units=1000)


@pytest.mark.parametrize("n", [1, 2, 3, 8])
@pytest.mark.parametrize("dtype", DTYPES)
def test_tridiagonal_systems(n, dtype):
    """Elements outside the matrix are not read."""
    dl, d, du, b = (matrix(dtype, n, 4, seed=k)[:, 0] for k in range(4))
    d, b = d + 5, matrix(dtype, n, 2, seed=9)
    dl[0], du[-1] = np.inf, np.nan
    whole = np.diag(d) + np.diag(dl[1:], -1) + np.diag(du[:-1], 1)
    near(lax.linalg.tridiagonal_solve(dl, d, du, b), np.linalg.solve(whole, b))
    dl[0] = du[-1] = 0
    near(lax.linalg.tridiagonal_solve(dl, d, du, b, perturb_singular=True), np.linalg.solve(whole, b))


@pytest.mark.parametrize(("dtype", "batch"), [("float32", ()), ("float64", (3,))])
def test_cholesky_update(dtype, batch):
    r = np.swapaxes(np.linalg.cholesky(positive(dtype, *batch, 5, 5)), -1, -2)
    w = matrix(dtype, *batch, 5, 5)[..., 0]
    updated = lax.linalg.cholesky_update(r, w)
    near(jnp.swapaxes(updated, -1, -2) @ updated, np.swapaxes(r, -1, -2) @ r + w[..., :, None] * w[..., None, :])


@pytest.mark.parametrize("dtype", DTYPES)
def test_failures_are_nan(dtype):
    """A matrix that is not positive definite, and matrices with NaN, give NaN; other matrices of the batch do not."""
    x = np.stack([positive(dtype, 4, 4), -positive(dtype, 4, 4)])
    factors = np.asarray(lax.linalg.cholesky(x))
    assert np.isfinite(factors[0]).all()
    assert np.isnan(factors[1][np.tril_indices(4)]).all()
    x[1] = np.nan
    for results in (lax.linalg.eigh(x), lax.linalg.svd(x), lax.linalg.svd(x, algorithm=SvdAlgorithm.QR)):
        for y in map(np.asarray, results):
            assert np.isfinite(y[0]).all()
            assert np.isnan(y[1]).all()


@pytest.mark.parametrize("function", [lax.linalg.lu, lax.linalg.qr, lax.linalg.svd, lax.linalg.eigh,
                                      lax.linalg.eig, lax.linalg.schur, lax.linalg.cholesky])
def test_empty_matrices(function):
    for shape in ((0, 0), (2, 0, 0), (0, 3, 3)):
        for y in xjax.tree.leaves(function(jnp.zeros(shape, jnp.float32))):
            assert y.shape[:1] == shape[:1] or shape == (0, 0)


def test_what_is_built_on_them():
    """Draws, initial values, least squares, roots and iterations agree with the CPU."""
    key = xjax.random.key(0)
    cov = positive("float32", 3, 3)
    draws = [xjax.random.multivariate_normal(xjax.device_put(key, d), np.zeros(3, np.float32), cov, (1000,))
             for d in (xjax.devices()[0], CPU)]
    near(*draws, units=2000)                            # the normal numbers differ in their last bits
    q = xjax.nn.initializers.orthogonal()(key, (6, 4))
    near(q.T @ q, np.eye(4, dtype=np.asarray(q).dtype))
    a, b = matrix("float64", 7, 4), matrix("float64", 7, 2)
    near(jnp.linalg.lstsq(a, b)[0], np.linalg.lstsq(a, b)[0])
    near(jnp.sort(jnp.roots(jnp.array([1.0, -6.0, 11.0, -6.0])).real), np.array([1.0, 2.0, 3.0]))
    x, _ = xjax.scipy.sparse.linalg.gmres(positive("float64", 5, 5), np.ones(5), tol=1e-12)
    near(x, np.linalg.solve(positive("float64", 5, 5), np.ones(5)), units=1e6)
