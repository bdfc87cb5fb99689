"""JAXopt: solvers in jit, implicit gradients through a solution, and a projection in vmap."""

import jax
import jax.numpy as jnp
import jaxopt

KEY = jax.random.key(0)
X = jax.random.normal(KEY, (20, 3))
Y = X @ jnp.array([1.0, -2.0, 0.5])


def ridge(w, strength):
    return jnp.mean((X @ w - Y) ** 2) + strength * jnp.sum(w ** 2)


def solvers():
    for solver in (jaxopt.GradientDescent(ridge, maxiter=20), jaxopt.LBFGS(ridge, maxiter=5)):
        yield from solver.run(jnp.zeros(3), 0.1).params
    solver = jaxopt.ProximalGradient(lambda w: ridge(w, 0.0), jaxopt.prox.prox_lasso, maxiter=20)
    yield from solver.run(jnp.zeros(3), 0.1).params


def implicit():
    def outer(strength):
        solver = jaxopt.GradientDescent(ridge, maxiter=200, implicit_diff=True)
        return jnp.sum(solver.run(jnp.zeros(3), strength).params)

    for strength in (0.1, 0.5, 1.0):
        yield jax.grad(outer)(strength)


def steps():
    solver = jaxopt.OptaxSolver(opt=__import__("optax").adam(0.1), fun=ridge, maxiter=20)
    w, state = jnp.zeros(3), solver.init_state(jnp.zeros(3), 0.1)
    update = jax.jit(solver.update)
    for _ in range(20):
        w, state = update(w, state, 0.1)
        yield state.value
    yield jax.vmap(jaxopt.projection.projection_simplex)(X).sum()


PROGRAMS = [solvers, implicit, steps]
