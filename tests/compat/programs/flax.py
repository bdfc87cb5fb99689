"""Flax's linen: a convolutional network with batch statistics, lifted scan and remat, and attention with dropout."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import serialization
from flax.training import train_state

KEY = jax.random.key(0)
X = jax.random.normal(KEY, (8, 8, 8, 3))
Y = jnp.arange(8) % 3


class Net(nn.Module):
    @nn.compact
    def __call__(self, x, training=True):
        x = nn.Conv(4, (3, 3), use_bias=False)(x)
        x = nn.relu(nn.BatchNorm(use_running_average=not training)(x))
        x = nn.avg_pool(x, (2, 2), (2, 2)).reshape(x.shape[0], -1)
        return nn.Dense(3)(nn.LayerNorm()(x))


def convolution():
    class State(train_state.TrainState):
        stats: dict

    variables = Net().init(KEY, X)
    state = State.create(apply_fn=Net().apply, params=variables["params"], tx=optax.adam(0.01),
                         stats=variables["batch_stats"])

    @jax.jit
    def step(state):
        def loss(params):
            out, new = state.apply_fn({"params": params, "batch_stats": state.stats}, X, mutable=["batch_stats"])
            return optax.softmax_cross_entropy_with_integer_labels(out, Y).mean(), new["batch_stats"]

        (value, stats), g = jax.value_and_grad(loss, has_aux=True)(state.params)
        return state.apply_gradients(grads=g, stats=stats), value

    for _ in range(20):
        state, value = step(state)
        yield value
    state = serialization.from_bytes(state, serialization.to_bytes(state))
    yield Net().apply({"params": state.params, "batch_stats": state.stats}, X, False).sum()


def lifted():
    class Layer(nn.Module):
        @nn.compact
        def __call__(self, x, _):
            return x + nn.Dense(x.shape[-1])(jnp.tanh(x)), x.mean()

    class Deep(nn.Module):
        @nn.compact
        def __call__(self, x):
            layers = nn.scan(nn.remat(Layer), variable_axes={"params": 0}, split_rngs={"params": True}, length=4)
            x, means = layers()(x, None)
            return x, means

    x = X.reshape(8, -1)[:, :16]
    params = Deep().init(KEY, x)
    step = jax.jit(jax.value_and_grad(lambda p: jnp.mean(Deep().apply(p, x)[0] ** 2)))
    for _ in range(20):
        value, g = step(params)
        params = jax.tree.map(lambda p, g: p - 0.1 * g, params, g)
        yield value


def attention():
    class Block(nn.Module):
        @nn.compact
        def __call__(self, x, training):
            y = nn.SelfAttention(2, dropout_rate=0.1, deterministic=not training)(nn.LayerNorm()(x))
            return nn.Dense(1)(nn.Dropout(0.1, deterministic=not training)(x + y)).sum((1, 2))

    x = X.reshape(8, 4, 48)
    params = Block().init(KEY, x, False)

    def loss(params, x, key):
        return jnp.mean(Block().apply(params, x, True, rngs={"dropout": key}) ** 2)

    for i in range(20):
        keys = jax.random.split(jax.random.fold_in(KEY, i), 2)
        g = jax.vmap(jax.grad(loss), (None, 0, 0))(params, x.reshape(2, 4, 4, 48), keys)
        params = jax.tree.map(lambda p, g: p - 0.001 * g.mean(0), params, g)
        yield loss(params, x, keys[0])


PROGRAMS = [convolution, lifted, attention]
