"""The iterative solvers against dense solves, and against real JAX: values, trees, derivatives, preconditioners."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.compare import assert_close, tolerance
from tests.lax.oracle import float64
from tests.oracle import real_jax
from xjax.scipy.sparse import linalg

_rng = np.random.default_rng(0)
N = 6
GENERAL = _rng.standard_normal((N, N)) + 3 * np.eye(N)
POSITIVE = GENERAL @ GENERAL.T + np.eye(N)
B = _rng.standard_normal(N)

# The error of a solution with residual 1e-13, times the condition of the matrices and of the cubes.
SOLVED = 1e-9 / tolerance("float64")

# name: (solver, arguments, matrix)
METHODS = {
    "cg": (linalg.cg, {}, POSITIVE),
    "bicgstab": (linalg.bicgstab, {}, GENERAL),
    "gmres": (linalg.gmres, {}, GENERAL),
    "gmres incremental": (linalg.gmres, {"solve_method": "incremental"}, GENERAL),
    "gmres with restarts": (linalg.gmres, {"restart": 3, "solve_method": "incremental"}, POSITIVE),
}


@pytest.fixture(autouse=True)
def in_float64():
    with xjax.enable_x64(True):
        yield


def close(name, a):
    """Conjugate gradients need a symmetric matrix, also for the derivative."""
    return (a + a.T) / 2 if name == "cg" else a


@pytest.mark.parametrize("name", METHODS)
def test_value_and_derivatives_are_those_of_a_dense_solve(name):
    solver, options, matrix = METHODS[name]

    def value_and_gradient(solve):
        g = xjax.grad(lambda a, b: (solve(close(name, a), b) ** 3).sum(), (0, 1))
        return lambda a, b: [solve(a, b), *g(a, b)]

    ours = xjax.jit(value_and_gradient(lambda a, b: solver(a, b, tol=1e-13, **options)[0]))(matrix, B)
    dense = xjax.jit(value_and_gradient(jnp.linalg.solve))(matrix, B)
    assert_close(ours, dense, tol=SOLVED)


@pytest.mark.parametrize("name", ["cg", pytest.param("bicgstab", marks=pytest.mark.slow),
                                  pytest.param("gmres", marks=pytest.mark.slow)])
def test_second_derivatives(name):
    solver, options, matrix = METHODS[name]

    def twice(solve):
        g = xjax.grad(lambda a, b: (solve(close(name, a), b) ** 3).sum(), (0, 1))
        return lambda a, b: xjax.jvp(g, (a, b), (close(name, a * a), b * b))[1]

    ours = xjax.jit(twice(lambda a, b: solver(a, b, tol=1e-13, **options)[0]))(matrix, B)
    dense = xjax.jit(twice(jnp.linalg.solve))(matrix, B)
    assert_close(ours, dense, tol=SOLVED)


SOME_SLOW = ["cg", "bicgstab", "gmres", pytest.param("gmres incremental", marks=pytest.mark.slow)]


@pytest.mark.parametrize("name", SOME_SLOW)
def test_complex_systems_under_vmap(name):
    """Some systems of a batch converge sooner, and one starts at the solution."""
    solver, options, matrix = METHODS[name]
    hermitian = matrix + 1j * (0.1 * (GENERAL - GENERAL.T) if name == "cg" else GENERAL)
    b = np.stack([B + 1j, 1e-3 * B, hermitian @ np.ones(N)])
    x0 = np.stack([np.zeros(N), B, np.ones(N)]).astype(complex)
    x = xjax.jit(xjax.vmap(lambda b, x0: solver(hermitian, b, x0, tol=1e-12, **options)[0]))(b, x0)
    np.testing.assert_allclose(x, np.linalg.solve(hermitian, b.T).T, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", SOME_SLOW)
def test_trees_and_preconditioners(name):
    """A tree of two dtypes; with the inverse as preconditioner one step suffices."""
    solver, options, matrix = METHODS[name]
    inverse = np.linalg.inv(matrix)

    def flat(v):
        return jnp.concatenate([v["a"].reshape(-1), v["b"][0].astype(float)])

    def tree(v):
        return {"a": v[:4].reshape(2, 2), "b": [v[4:].astype(np.float32)]}
    x, info = xjax.jit(lambda t: solver(lambda v: tree(matrix @ flat(v)), t, M=lambda v: tree(inverse @ flat(v)),
                                        maxiter=1, tol=1e-5, **options))(tree(B))
    assert x["b"][0].dtype == np.float32 and (info is None or int(info) == 0)
    np.testing.assert_allclose(flat(x), np.linalg.solve(matrix, B), rtol=1e-5)


@pytest.mark.parametrize("name", METHODS)
def test_ends(name):
    """Stops by `maxiter` and `atol`, and before the first step at the solution; NaN stays NaN."""
    solver, options, matrix = METHODS[name]
    solve = xjax.jit(lambda a, b, atol, maxiter: solver(a, b, atol=atol, maxiter=maxiter, **options))
    assert not solve(matrix, B, 0.0, 0)[0].any()
    assert not solve(matrix, B, 100.0, 99)[0].any()
    assert not solve(matrix, 0 * B, 0.0, 99)[0].any()
    for a, b in ((matrix, np.nan * B), (np.nan * matrix, B)):
        x, info = solve(a, b, 0.0, 99)
        assert jnp.isnan(x).all() and (info is None or int(info) == -1)


class Scaled:
    shape = (N, N)

    def __matmul__(self, x):
        return 2.0 * x


def test_anything_with_matmul():
    np.testing.assert_allclose(linalg.cg(Scaled(), B)[0], B / 2)


@pytest.mark.parametrize("args, options, exc, words", [
    ((np.ones((2, 3)), B), {}, ValueError, "square"), ((3.0, B), {}, TypeError, "not a linear operator"),
    (("no", B), {}, TypeError, "not a linear operator"), ((POSITIVE, B), {"M": "no"}, TypeError, "`M`"),
    ((POSITIVE, B, {"x": B}), {}, ValueError, "structure"), ((POSITIVE, B, B[:2]), {}, ValueError, "shape"),
    ((POSITIVE, np.arange(N)), {}, TypeError, "floating-point"),
    ((lambda x: x[:2], B), {}, TypeError, "types that differ"),
])
def test_misuse(args, options, exc, words):
    with pytest.raises(exc, match=f"(?s){words}.*fix:"):
        linalg.cg(*args, **options)


def test_misuse_of_gmres():
    with pytest.raises(ValueError, match="fix: pass 'batched'"):
        linalg.gmres(POSITIVE, B, solve_method="fast")


@pytest.mark.parametrize("name", ["cg", "bicgstab"])
def test_steps_are_those_of_jax(name):
    """Before convergence, too, the iterates of cg and bicgstab are JAX's."""
    jax = real_jax()
    matrix, m = METHODS[name][2], np.diag(1 / np.diag(GENERAL))

    def after(lib, solver):
        return lib.jit(lambda steps: solver(matrix, B, maxiter=steps, M=m)[0])
    with float64(jax):
        ours = after(xjax, getattr(linalg, name))
        theirs = after(jax, getattr(jax.scipy.sparse.linalg, name))
        for steps in (1, 3):
            np.testing.assert_allclose(ours(steps), theirs(steps), rtol=1e-9)
