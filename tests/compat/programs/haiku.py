"""Haiku: a network with batch normalisation in jit, a recurrent network in scan, a gradient of each example in vmap."""

import haiku as hk
import jax
import jax.numpy as jnp

KEY = jax.random.key(0)
X = jax.random.normal(KEY, (16, 8))
Y = jnp.cos(X.sum(1))


def jitted():
    def forward(x, training):
        x = hk.nets.MLP([16, 16], activate_final=True)(x)
        x = hk.BatchNorm(True, True, 0.9)(x, training)
        x = hk.dropout(hk.next_rng_key(), 0.1, x) if training else x
        return hk.Linear(1)(x)[:, 0]

    net = hk.transform_with_state(forward)
    params, state = net.init(KEY, X, True)

    @jax.jit
    def step(params, state, key):
        def loss(params):
            out, new = net.apply(params, state, key, X, True)
            return jnp.mean((out - Y) ** 2), new

        (value, state), g = jax.value_and_grad(loss, has_aux=True)(params)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, g), state, value

    for i in range(20):
        params, state, value = step(params, state, jax.random.fold_in(KEY, i))
        yield value
    yield net.apply(params, state, KEY, X, False)[0].sum()


def recurrent():
    def forward(xs):
        core = hk.LSTM(8)
        out, _ = hk.dynamic_unroll(core, xs, core.initial_state(4))
        return hk.scan(lambda c, x: (c + x.mean(), x.max()), jnp.zeros(()), out)

    net = hk.without_apply_rng(hk.transform(forward))
    xs = X.reshape(4, 4, 8)
    params = net.init(KEY, xs)

    def loss(params):
        total, highest = net.apply(params, xs)
        return (total - 1) ** 2 + highest.sum()

    for _ in range(20):
        value, g = jax.value_and_grad(loss)(params)
        params = jax.tree.map(lambda p, g: p - 0.02 * g, params, g)
        yield value


def attention():
    def forward(x):
        x = hk.MultiHeadAttention(2, 4, model_size=8, w_init=hk.initializers.VarianceScaling(1.0))(x, x, x)
        return hk.remat(hk.LayerNorm(-1, True, True))(x)[..., 0]

    net = hk.without_apply_rng(hk.transform(forward))
    params = net.init(KEY, X)
    loss = jax.jit(lambda params, x: jnp.mean(net.apply(params, x) ** 2))
    for _ in range(20):
        g = jax.vmap(jax.grad(loss), (None, 0))(params, X.reshape(4, 4, 8))
        params = jax.tree.map(lambda p, g: p - 0.05 * g.mean(0), params, g)
        yield loss(params, X)


PROGRAMS = [jitted, recurrent, attention]
