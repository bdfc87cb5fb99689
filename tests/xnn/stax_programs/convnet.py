"""Convolutions, pooling and dropout on small images, and a custom layer that takes a keyword; Adagrad."""

import jax
import jax.numpy as jnp
from jax.example_libraries import optimizers, stax


def Scale():
    """y = x exp(s), with `sharpness` as a further keyword of apply."""
    def init_fun(rng, input_shape):
        return input_shape, jnp.zeros(())

    def apply_fun(params, inputs, sharpness=1.0, **kwargs):
        return sharpness * inputs * jnp.exp(params)

    return init_fun, apply_fun


def main():
    init_fun, apply_fun = stax.serial(
        stax.Conv(6, (3, 3), padding="SAME"), stax.Tanh, stax.MaxPool((2, 2), strides=(2, 2)),
        stax.Conv(8, (3, 3), strides=(2, 2), padding="SAME", W_init=stax.glorot_normal(2, 3)), stax.Relu,
        stax.SumPool((2, 2)), stax.Flatten, stax.Dropout(0.8),
        stax.Dense(6), stax.elementwise(jnp.tanh), stax.Dense(3), Scale(), stax.LogSoftmax)
    key = jax.random.PRNGKey(4)
    inputs = jax.random.normal(jax.random.fold_in(key, 1), (12, 8, 8, 2))
    targets = jax.nn.one_hot(jnp.arange(12) % 3, 3)
    out_shape, params = init_fun(key, inputs.shape)
    assert out_shape == (12, 3)

    def loss(params, rng):
        log_probs = apply_fun(params, inputs, rng=rng, sharpness=0.5)
        return -jnp.mean(jnp.sum(targets * log_probs, axis=-1)) + 1e-3 * optimizers.l2_norm(params)

    opt = optimizers.adagrad(optimizers.polynomial_decay(0.05, 8, 0.01))
    opt_state, losses = opt.init_fn(params), []

    @jax.jit
    def step(i, opt_state):
        value, grads = jax.value_and_grad(loss)(opt.params_fn(opt_state), jax.random.fold_in(key, i))
        return value, opt.update_fn(i, grads, opt_state)

    for i in range(8):
        value, opt_state = step(i, opt_state)
        losses.append(float(value))
    return losses
