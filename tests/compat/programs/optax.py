"""Optax: a step in jit, a loop in scan, a batch of learning rates in vmap, and data-parallel steps in pmap."""

import jax
import jax.numpy as jnp
import optax

KEY = jax.random.key(0)
X = jax.random.normal(KEY, (32, 4))
Y = jnp.sin(X @ jnp.arange(1.0, 5.0))


def loss(w, x=X, y=Y):
    return jnp.mean(optax.huber_loss(jnp.tanh(x @ w["a"]) @ w["b"], y))


W = {"a": jax.random.normal(jax.random.fold_in(KEY, 1), (4, 8)), "b": jnp.ones(8) / 8}


def jitted():
    opt = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(optax.cosine_decay_schedule(0.1, 20)))

    @jax.jit
    def step(w, state):
        value, g = jax.value_and_grad(loss)(w)
        updates, state = opt.update(g, state, w)
        return optax.apply_updates(w, updates), state, value

    w, state = W, opt.init(W)
    for _ in range(20):
        w, state, value = step(w, state)
        yield value


def scanned():
    opt = optax.MultiSteps(optax.sgd(0.1, momentum=0.9, nesterov=True), 2)

    def step(carry, _):
        w, state = carry
        value, g = jax.value_and_grad(loss)(w)
        updates, state = opt.update(g, state, w)
        return (optax.apply_updates(w, updates), state), value

    yield from jax.lax.scan(step, (W, opt.init(W)), None, 20)[1]


def mapped():
    def train(rate):
        opt = optax.inject_hyperparams(optax.lion)(learning_rate=rate)
        w, state = W, opt.init(W)
        for _ in range(20):
            updates, state = opt.update(jax.grad(loss)(w), state, w)
            w = optax.apply_updates(w, updates)
        return loss(w)

    yield from jax.vmap(train)(jnp.array([0.001, 0.01, 0.03]))


def parallel():
    opt = optax.rmsprop(0.01)
    n = jax.local_device_count()
    split = [x.reshape(n, -1, *x.shape[1:]) for x in (X, Y)]

    def step(w, state, x, y):
        value, g = jax.lax.pmean(jax.value_and_grad(loss)(w, x, y), "i")
        updates, state = opt.update(g, state, w)
        return optax.apply_updates(w, updates), state, value

    step = jax.pmap(step, axis_name="i", in_axes=(None, None, 0, 0), out_axes=(None, None, 0))
    w, state = W, opt.init(W)
    for _ in range(20):
        w, state, value = step(w, state, *split)
        yield value[0]


PROGRAMS = [jitted, scanned, mapped, parallel]
