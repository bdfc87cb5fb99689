"""Lineax: direct and iterative solutions, with derivatives, in vmap."""

import jax
import jax.numpy as jnp
import lineax as lx

KEY = jax.random.key(0)
A = jax.random.normal(KEY, (4, 4)) + 4 * jnp.eye(4)
B = jnp.arange(1.0, 5.0)


def direct():
    for solver in (lx.AutoLinearSolver(well_posed=True), lx.LU(), lx.QR(), lx.SVD()):
        yield from lx.linear_solve(lx.MatrixLinearOperator(A), B, solver).value
    positive = lx.MatrixLinearOperator(A @ A.T, lx.positive_semidefinite_tag)
    yield from lx.linear_solve(positive, B, lx.Cholesky()).value


def iterative():
    positive = lx.FunctionLinearOperator(lambda x: A @ (A.T @ x), jax.ShapeDtypeStruct((4,), "float32"),
                                         lx.positive_semidefinite_tag)
    yield from lx.linear_solve(positive, B, lx.CG(1e-5, 1e-5)).value
    yield from lx.linear_solve(lx.MatrixLinearOperator(A), B, lx.GMRES(1e-5, 1e-5)).value


def derivatives():
    def solve(a, b):
        return lx.linear_solve(lx.MatrixLinearOperator(a), b).value.sum()

    w = A
    for _ in range(20):
        value, g = jax.jit(jax.value_and_grad(solve))(w, B)
        w = w - 0.1 * g
        yield value
    yield from jax.vmap(jax.grad(solve, 1), (None, 0))(A, jnp.stack([B, B + 1])).ravel()
    yield from jax.jvp(solve, (A, B), (A, B))


PROGRAMS = [direct, iterative, derivatives]
