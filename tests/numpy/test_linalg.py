"""`numpy.linalg` against real JAX: values, batches, derivatives; behaviour of our own: gradients at the edges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.ops.harness import check_as_jax
from tests.ops.row import OpRow, c, hermitian, r
from tests.oracle import real_jax

jax = real_jax()

M33, M44, M43, M24 = r(2, 3, 3), r(4, 4), r(4, 3), r(2, 4)
SPD = hermitian(r(3, 3), 8)


def called(name: str, *args: np.ndarray, order: int = 2, **keywords: object) -> OpRow:
    text = ", ".join([str(x.shape) for x in args] + [f"{k}={v}" for k, v in keywords.items()])
    return OpRow(f"{name} {text}", lambda L, *xs: getattr(L, name)(*xs, **keywords), args, order=order)


def each(name: str, *args: np.ndarray, order: int = 2, **choices: Sequence[object]) -> OpRow:
    """The function with one keyword argument at each of several values, in one program."""
    (key, values), = choices.items()
    return OpRow(f"{name} by {key}", lambda L, *xs: [getattr(L, name)(*xs, **{key: v}) for v in values], args,
                 order=order)


TABLE = [
    called("cholesky", SPD), called("cholesky", hermitian(c(3, 3), 8), upper=True, order=0),
    called("qr", M43), each("qr", M43, mode=("complete", "r", "raw"), order=0),
    called("svd", M43, full_matrices=False), called("svd", SPD, hermitian=True),
    called("svd", hermitian(c(3, 3)), hermitian=True, compute_uv=False, order=0),
    called("svdvals", M33), called("eigh", SPD, order=0), each("eigvalsh", hermitian(c(3, 3)), UPLO=("L", "U")),
    called("eig", M33, order=0), called("eigvals", M33, order=0),
    called("det", M33), called("det", r(2, 2), order=0), called("det", c(4, 4)),
    called("slogdet", c(3, 3)), each("slogdet", r(4, 4), method=("lu", "qr")),
    called("slogdet", np.zeros((2, 2)), order=0),
    called("solve", M33, r(2, 3, 2)), called("solve", M44, r(4), order=0),
    called("solve", c(3, 3), c(2, 3, 1), order=0),
    called("inv", M33),
    called("lstsq", np.zeros((2, 1)), np.ones((2, 1)), order=0),        # jax-ml/jax#32666: 0 is the shortest solution
    called("lstsq", M43, r(4, 2)), called("lstsq", M24, r(2), rcond=0.1, order=0),
    called("pinv", M43), called("pinv", SPD, hermitian=True),
    called("pinv", c(2, 3, 2), rtol=0.5, order=0),
    called("matrix_rank", np.diag([1.0, 2.0, 0.0]), order=0), called("matrix_rank", M43, rtol=1.0, order=0),
    called("matrix_rank", r(3), order=0),
    each("cond", M33, p=(None, -2, 1, "fro", np.inf), order=0), each("matrix_power", M33, n=(0, 1, 3, 6, -2)),
    each("norm", M43, ord=(None, 1, -1, 2, -2, np.inf, -np.inf, "nuc", "fro"), order=0),
    OpRow("norm over axes", lambda L, x: [L.norm(x, ord, (0, 2), keep) for ord in (1, np.inf, 2, "nuc")
                                          for keep in (False, True)], (M33,), order=0),
    OpRow("norm of columns", lambda L, x: [L.norm(x, ord, 0) for ord in (None, 3, 0.5, -1)], (M43,)),
    each("vector_norm", c(3, 2), ord=(0, 1, 2, 2.5, np.inf, -np.inf, -1), order=0),
    OpRow("vector_norm", lambda L, x: L.vector_norm(x, axis=(0, 2), keepdims=True), (M33,), order=0),
    each("matrix_norm", c(2, 3, 2), ord=("fro", "nuc")),
    called("tensorinv", r(2, 3, 6), ind=2, order=0), called("tensorsolve", r(2, 3, 6), r(2, 3)),
    called("tensorsolve", r(6, 2, 3), r(6), axes=(1, 2), order=0),
    OpRow("multi_dot", lambda L, *xs: L.multi_dot(xs), (r(4), M43, r(3, 2), r(2, 2)), grads=(1,)),
    OpRow("on the last axes", lambda L, x: [L.trace(x, offset=1), L.diagonal(x, offset=-1), L.matrix_transpose(x),
                                            L.matmul(x, x), L.vecdot(x, x), L.tensordot(x, x[0], axes=1),
                                            L.cross(x, x[::-1]), L.cross(x, x + 1, axis=1), L.outer(x[0, 0], x[0, 1])],
          (M33,), order=0),
]


# Rows that take longer to compile and repeat a function of another row.
SLOW = {"svd (3, 3), hermitian=True", "svd (3, 3), hermitian=True, compute_uv=False", "slogdet (3, 3)", "det (4, 4)",
        "lstsq (2, 4), (2,), rcond=0.1", "lstsq (2, 1), (2, 1)", "pinv (3, 3), hermitian=True",
        "pinv (2, 3, 2), rtol=0.5",
        "solve (3, 3), (2, 3, 1)", "tensorsolve (6, 2, 3), (6,), axes=(1, 2)"}


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name, marks=[pytest.mark.slow] * (row.name in SLOW))
                                 for row in TABLE])
def test_as_jax(row: OpRow) -> None:
    check_as_jax(row, jnp.linalg, jax.numpy.linalg)


def test_the_slow_rows_are_of_the_table():
    assert {row.name for row in TABLE} > SLOW


def test_the_gradient_of_a_norm_at_zero_is_no_nan():
    x = np.zeros((2, 2), np.float32)
    smooth = [(None, None), (2, 0), (3, 0), (0.5, 0), ("fro", (0, 1)), (1, 0)]
    norms = [*smooth, (np.inf, 0), ("nuc", (0, 1)), (2, (0, 1)), (1, (0, 1))]
    results = xjax.jit(lambda x: [xjax.value_and_grad(lambda x, n=n: jnp.sum(jnp.linalg.norm(x, *n)))(x)
                                for n in norms])(x)
    for value, gradient in results:
        assert float(value) == 0 and np.isfinite(gradient).all()
    for _, gradient in results[:len(smooth)]:
        np.testing.assert_array_equal(gradient, x)
    second = xjax.jit(xjax.hessian(lambda x: jnp.linalg.norm(x) ** 2))(np.array([0.0, 3.0, 4.0], np.float32))
    np.testing.assert_allclose(second, 2 * np.eye(3), atol=1e-5)


def test_the_gradient_of_det_of_a_singular_matrix():
    """The gradient is the matrix of cofactors, for any rank and any position of zero pivots."""
    xs = np.stack([r(4, rank) @ r(rank, 4) for rank in (4, 3, 2, 1, 3)] + [np.zeros((4, 4))])
    xs[-2, :, 0] = 0
    cofactors = [[[(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(x, i, 0), j, 1)) for j in range(4)]
                  for i in range(4)] for x in xs]
    with xjax.enable_x64(True):
        np.testing.assert_allclose(xjax.jit(xjax.vmap(xjax.grad(jnp.linalg.det)))(xs), cofactors, atol=1e-11)


def _exact(rows):
    """The determinant of a matrix of fractions, expanded along the first row."""
    if len(rows) == 1:
        return rows[0][0]
    return sum((-1) ** j * x * _exact([row[:j] + row[j + 1:] for row in rows[1:]]) for j, x in enumerate(rows[0]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [2, 3])
def test_small_determinants(n, dtype):
    """Errors are within the condition number, in units of the precision: elimination's bound for 3 x 3 matrices is a
    few of these units, and the sum over permutations is used only where it loses at most 4 bits."""
    rng = np.random.default_rng(n)
    xs = rng.standard_normal((300, n, n))
    xs[:100] = xs[:100, :1] + 1e-3 * xs[:100]                           # nearly singular
    xs[100:200] *= 10.0 ** rng.integers(-8, 8, (100, n, n))             # of all magnitudes
    xs = xs.astype(dtype)
    with xjax.enable_x64(True):
        results = np.asarray(xjax.jit(jnp.linalg.det)(xs), np.float64)
    exact = np.array([float(_exact([[Fraction(float(v)) for v in row] for row in x])) for x in xs])
    units = np.finfo(dtype).eps * np.linalg.cond(xs.astype(np.float64)) * np.abs(exact)
    assert (np.abs(results - exact) <= 4 * units).all()


def test_small_determinants_at_the_ends():
    x = np.full((3, 3), 41927.867, np.float32)
    np.fill_diagonal(x, 41932.215)                                      # the sum over permutations would give -8.4e6
    np.testing.assert_allclose(jnp.linalg.det(x), 2377658.3, rtol=1e-3)
    for diagonal in ([1e20, 1e20, 1e-10], [1e-30, 1e-20, 1e25], [1e-10, 1e20, 1e20], [1e-25, 1e-10]):
        x = np.diag(diagonal).astype(np.float32)
        np.testing.assert_allclose(jnp.linalg.det(x), math.prod(diagonal), rtol=1e-6)
    whole = np.float32([[1, 2], [3, 4]])
    assert float(jnp.linalg.det(whole)) == -2                           # exact
    np.testing.assert_array_equal(xjax.grad(jnp.linalg.det)(whole), [[4, -3], [-2, 1]])
    for x in (np.zeros((3, 3), np.float32), np.ones((3, 3), np.complex64)):
        assert jnp.linalg.det(x) == 0
    np.testing.assert_array_equal(xjax.grad(jnp.linalg.det)(np.zeros((3, 3), np.float32)), np.zeros((3, 3)))


def test_failure_is_nan():
    broken = np.full((2, 2), np.nan, np.float32)
    L = jnp.linalg
    *failed, negative, singular = xjax.jit(lambda x: (
        L.eigvalsh(x), L.svdvals(x), L.inv(x), L.eigvals(x), L.cholesky(-np.eye(2)),
        L.solve(np.zeros((2, 2)), np.ones(2))))(broken)
    assert all(np.isnan(x).all() for x in failed)
    assert np.isnan(negative[1, 1]) and not np.isfinite(singular).any()


@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 3, 3)])
def test_empty_matrices(shape):
    L = jnp.linalg
    det, inv, cholesky, eigenvalues, (q, r_) = xjax.jit(lambda x, thin: (
        L.det(x), L.inv(x), L.cholesky(x), L.eigvalsh(x), L.qr(thin, "complete")))(
            np.zeros(shape, np.float32), np.zeros((3, 0), np.float32))
    assert det.shape == shape[:-2] and inv.shape == cholesky.shape == shape and eigenvalues.shape == shape[:-1]
    np.testing.assert_array_equal(q, np.eye(3))
    assert r_.shape == (3, 0)


def test_integers_and_half_precision():
    assert jnp.linalg.inv(np.array([[2, 0], [0, 4]])).tolist() == [[0.5, 0], [0, 0.25]]
    with pytest.raises(TypeError, match=r"does not accept dtype float16(.|\n)*fix:"):
        jnp.linalg.svd(np.ones((2, 2), np.float16))


@pytest.mark.parametrize("f, error", [
    (lambda: jnp.linalg.inv(np.ones((2, 3))), ValueError), (lambda: jnp.linalg.det(np.ones(3)), ValueError),
    (lambda: jnp.linalg.solve(np.ones((2, 2)), np.ones(3)), ValueError),
    (lambda: jnp.linalg.norm(np.ones((2, 2)), "max"), ValueError),
    (lambda: jnp.linalg.norm(np.ones((2, 2, 2)), 2), ValueError),
    (lambda: jnp.linalg.qr(np.ones((2, 2)), "economic"), ValueError),
    (lambda: jnp.linalg.matrix_power(np.ones((2, 2)), 1.5), TypeError),
    (lambda: jnp.linalg.matrix_rank(np.ones((2, 2)), 1.0, tol=1.0), ValueError),
    (lambda: jnp.linalg.lstsq(np.ones((2, 2)), np.ones(3)), ValueError),
    (lambda: jnp.linalg.multi_dot([np.ones((2, 2)), np.ones(3)]), ValueError),
    (lambda: xjax.jacfwd(jnp.linalg.eig)(np.eye(2, dtype=np.float32)), NotImplementedError),
    (lambda: xjax.jacfwd(jnp.linalg.qr)(np.ones((2, 3), np.float32)), NotImplementedError),
])
def test_errors_say_what_to_do(f, error):
    with pytest.raises(error, match="fix: "):
        f()
