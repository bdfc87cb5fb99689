"""A classifier of small images, trained by momentum with batches drawn by NumPy."""

import itertools

import jax.numpy as jnp
import numpy as np
from jax import grad, jit, random
from jax.example_libraries import optimizers, stax
from jax.example_libraries.stax import Dense, LogSoftmax, Relu

init_random_params, predict = stax.serial(Dense(32), Relu, Dense(32), Relu, Dense(10), LogSoftmax)


def loss(params, batch):
    inputs, targets = batch
    return -jnp.mean(jnp.sum(predict(params, inputs) * targets, axis=1))


def main():
    npr = np.random.RandomState(0)
    images = npr.rand(96, 64).astype(np.float32)
    labels = np.eye(10, dtype=np.float32)[(10 * images[:, :32].mean(1) + 10 * images[:, 32:].std(1)).astype(int) % 10]

    def batches():
        while True:
            for rows in np.split(npr.permutation(96), 4):
                yield images[rows], labels[rows]

    opt_init, opt_update, get_params = optimizers.momentum(0.05, mass=0.9)

    @jit
    def update(i, opt_state, batch):
        params = get_params(opt_state)
        return opt_update(i, grad(loss)(params, batch), opt_state)

    _, params = init_random_params(random.PRNGKey(0), (-1, 64))
    opt_state, count, losses = opt_init(params), itertools.count(), []
    for batch in itertools.islice(batches(), 20):
        losses.append(float(jit(loss)(get_params(opt_state), (images, labels))))
        opt_state = update(next(count), opt_state, batch)
    return losses
