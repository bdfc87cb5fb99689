"""Flax's nnx: a network with batch statistics and dropout, an optimizer, and vmap over modules."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx

KEY = jax.random.key(0)
X = jax.random.normal(KEY, (8, 6))
Y = jnp.sin(X.sum(1))


class Net(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(6, 16, rngs=rngs)
        self.norm = nnx.BatchNorm(16, rngs=rngs)
        self.drop = nnx.Dropout(0.1, rngs=rngs)
        self.last = nnx.Linear(16, 1, rngs=rngs)

    def __call__(self, x):
        return self.last(self.drop(nnx.relu(self.norm(self.first(x)))))[:, 0]


def trained():
    net = Net(nnx.Rngs(0))
    opt = nnx.Optimizer(net, optax.adam(0.01), wrt=nnx.Param)

    @nnx.jit
    def step(net, opt):
        value, g = nnx.value_and_grad(lambda net: jnp.mean((net(X) - Y) ** 2))(net)
        opt.update(net, g)
        return value

    for _ in range(20):
        yield step(net, opt)
    net.eval()
    yield net(X).sum()


def functional():
    net = Net(nnx.Rngs(1))
    net.eval()
    graph, params, rest = nnx.split(net, nnx.Param, ...)

    @jax.jit
    def loss(params):
        return jnp.mean((nnx.merge(graph, params, rest)(X) - Y) ** 2)

    for _ in range(20):
        value, g = jax.value_and_grad(loss)(params)
        params = jax.tree.map(lambda p, g: p - 0.1 * g, params, g)
        yield value


def mapped():
    @nnx.vmap(in_axes=(0,), out_axes=0)
    def make(key):
        return nnx.Linear(6, 2, rngs=nnx.Rngs(key))

    nets = make(jax.random.split(KEY, 3))
    yield from nnx.vmap(lambda net, x: net(x), in_axes=(0, None))(nets, X).sum((1, 2))

    @nnx.scan(in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)
    def through(x, net):
        return jnp.tanh(jnp.pad(net(x), ((0, 0), (0, 4))))

    yield through(X, nets).sum()


PROGRAMS = [trained, functional, mapped]
