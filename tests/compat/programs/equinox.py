"""Equinox: a convolutional network, a module with state under filter_vmap, and checkpointed loops."""

import equinox as eqx
import equinox.internal as eqxi
import jax
import jax.numpy as jnp

KEY = jax.random.key(0)
X = jax.random.normal(KEY, (8, 1, 8, 8))
Y = jnp.arange(8) % 3


class Net(eqx.Module):
    layers: list

    def __init__(self, key):
        a, b = jax.random.split(key)
        self.layers = [eqx.nn.Conv2d(1, 4, 3, key=a), jax.nn.relu, eqx.nn.MaxPool2d(2, 2), jnp.ravel,
                       eqx.nn.Linear(36, 3, key=b), jax.nn.log_softmax]

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def convolution():
    net = Net(KEY)

    @eqx.filter_jit
    def step(net):
        def loss(net):
            out = jax.vmap(net)(X)
            return -jnp.mean(jnp.take_along_axis(out, Y[:, None], 1))

        value, g = eqx.filter_value_and_grad(loss)(net)
        return eqx.apply_updates(net, jax.tree.map(lambda g: -0.1 * g, g)), value

    for _ in range(20):
        net, value = step(net)
        yield value


def with_state():
    class Normed(eqx.Module):
        linear: eqx.nn.Linear
        norm: eqx.nn.BatchNorm
        drop: eqx.nn.Dropout

        def __call__(self, x, state, key):
            x, state = self.norm(self.linear(x), state)
            return self.drop(x, key=key).sum(), state

    net, state = eqx.nn.make_with_state(lambda key: Normed(
        eqx.nn.Linear(64, 4, key=key), eqx.nn.BatchNorm(4, "batch", mode="batch"), eqx.nn.Dropout(0.2)))(KEY)
    x = X.reshape(8, 64)

    @eqx.filter_jit
    def step(net, state, key):
        def loss(net, state):
            out, state = jax.vmap(net, (0, None, 0), (0, None), axis_name="batch")(
                x, state, jax.random.split(key, 8))
            return jnp.mean((out - Y) ** 2), state

        (value, state), g = eqx.filter_value_and_grad(loss, has_aux=True)(net, state)
        return eqx.apply_updates(net, jax.tree.map(lambda g: -0.05 * g, g)), state, value

    for i in range(20):
        net, state, value = step(net, state, jax.random.fold_in(KEY, i))
        yield value


def loops():
    cell = eqx.nn.GRUCell(8, 4, key=KEY)

    @eqx.filter_jit
    @eqx.filter_value_and_grad
    def loss(cell):
        body = lambda h: cell(X[0, 0, 0], h)
        h = eqxi.while_loop(lambda h: h.sum() < 100, body, jnp.zeros(4), max_steps=5, kind="checkpointed")
        carry, ys = eqxi.scan(lambda h, x: (cell(x, h), h), h, X[0, 0], kind="lax")
        return jnp.sum(carry ** 2) + eqx.error_if(ys.sum(), jnp.isnan(ys).any(), "not a number")

    for _ in range(20):
        value, g = loss(cell)
        cell = eqx.apply_updates(cell, jax.tree.map(lambda g: -0.1 * g, g))
        yield value


PROGRAMS = [convolution, with_state, loops]
