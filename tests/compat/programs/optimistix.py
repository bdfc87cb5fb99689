"""Optimistix: a root, a least-squares fit and a minimum, with implicit derivatives."""

import jax
import jax.numpy as jnp
import optimistix as optx

X = jnp.linspace(0, 1, 8)


def roots():
    def solve(a):
        return optx.root_find(lambda y, a: jnp.tanh(y) - a * y + 0.5, optx.Newton(1e-6, 1e-6), 1.0, a).value

    for a in (0.5, 1.0, 2.0):
        yield solve(a)
        yield jax.grad(solve)(a)
    yield from jax.vmap(solve)(jnp.array([0.5, 1.0]))


def least_squares():
    residuals = lambda w, y: w[0] * jnp.exp(w[1] * X) - y
    for solver in (optx.LevenbergMarquardt(1e-5, 1e-5), optx.Dogleg(1e-5, 1e-5), optx.GaussNewton(1e-5, 1e-5)):
        yield from optx.least_squares(residuals, solver, jnp.array([1.0, 0.5]), 2 * jnp.exp(X)).value


def minima():
    rosenbrock = lambda y, a: (a - y[0]) ** 2 + 10 * (y[1] - y[0] ** 2) ** 2
    for solver in (optx.BFGS(1e-5, 1e-5), optx.NonlinearCG(1e-4, 1e-4)):
        yield from optx.minimise(rosenbrock, solver, jnp.zeros(2), 1.0, max_steps=500, throw=False).value
    fixed = optx.fixed_point(lambda y, a: jnp.cos(a * y), optx.FixedPointIteration(1e-6, 1e-6), 0.5, 0.9)
    yield fixed.value


PROGRAMS = [roots, least_squares, minima]
