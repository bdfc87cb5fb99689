"""BlackJAX: chains of two samplers in scan and vmap, and an adaptation of the step size."""

import blackjax
import jax
import jax.numpy as jnp

KEY = jax.random.key(0)


def density(x):
    return -0.5 * jnp.sum((x - jnp.array([1.0, -1.0])) ** 2 / jnp.array([1.0, 4.0]))


def chain(kernel, state, steps=20):
    return jax.lax.scan(lambda s, k: (kernel.step(k, s)[0], s.position), state, jax.random.split(KEY, steps))[1]


def hmc():
    kernel = blackjax.hmc(density, 0.3, jnp.ones(2), 5)
    yield from jax.jit(lambda: chain(kernel, kernel.init(jnp.zeros(2))))().sum(1)


def nuts():
    kernel = blackjax.nuts(density, 0.5, jnp.ones(2))
    yield from jax.vmap(lambda x: chain(kernel, kernel.init(x)))(jnp.arange(6.0).reshape(3, 2)).sum((0, 2))


def adapted():
    warmup = blackjax.window_adaptation(blackjax.nuts, density)
    (state, parameters), _ = warmup.run(KEY, jnp.zeros(2), 20)
    yield from (*state.position, parameters["step_size"])


PROGRAMS = [hmc, nuts, adapted]
