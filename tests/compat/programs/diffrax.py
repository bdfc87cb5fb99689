"""Diffrax: a trained neural equation, adaptive steps under vmap, and a stochastic equation."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp

KEY = jax.random.key(0)
T = jnp.linspace(0, 1, 5)


def trained():
    net = eqx.nn.MLP(2, 2, 8, 1, key=KEY)

    def loss(net):
        sol = diffrax.diffeqsolve(diffrax.ODETerm(lambda t, y, a: net(y)), diffrax.Heun(), 0, 1, 0.1, jnp.ones(2),
                                  saveat=diffrax.SaveAt(ts=T))
        return jnp.mean((sol.ys - jnp.stack([T, -T], 1)) ** 2)

    step = eqx.filter_jit(eqx.filter_value_and_grad(loss))
    for _ in range(20):
        value, g = step(net)
        net = eqx.apply_updates(net, jax.tree.map(lambda g: -0.1 * g, g))
        yield value


def adaptive():
    def solve(rate):
        return diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, y, a: jnp.stack([y[1], -a * y[0]])), diffrax.Tsit5(), 0, 2, 0.1,
            jnp.array([1.0, 0.0]), args=rate, stepsize_controller=diffrax.PIDController(1e-4, 1e-6)).ys[-1]

    yield from jax.vmap(solve)(jnp.array([1.0, 2.0, 3.0])).ravel()
    yield from jax.jit(jax.grad(lambda r: solve(r).sum()))(2.0).ravel()


def stochastic():
    path = diffrax.VirtualBrownianTree(0, 1, tol=0.01, shape=(), key=KEY)
    terms = diffrax.MultiTerm(diffrax.ODETerm(lambda t, y, a: -y), diffrax.ControlTerm(lambda t, y, a: 0.1, path))
    yield from diffrax.diffeqsolve(terms, diffrax.Euler(), 0, 1, 0.05, 1.0, saveat=diffrax.SaveAt(ts=T)).ys


PROGRAMS = [trained, adaptive, stochastic]
