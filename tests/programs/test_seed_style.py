"""A typical training program written for JAX runs unchanged in both libraries, with equal losses."""

from __future__ import annotations

import numpy as np

import xjax
from tests.compare import assert_same
from tests.oracle import real_jax

SIZES = (8, 16, 16, 3)
rng = np.random.default_rng(0)
INPUTS = rng.normal(size=(64, SIZES[0])).astype(np.float32)
LABELS = (INPUTS[:, 0] > 0).astype(np.int32) + (INPUTS[:, 1] > 0.5)
PARAMS = [((rng.normal(size=(m, n)) / np.sqrt(m)).astype(np.float32), np.zeros(n, np.float32))
          for m, n in zip(SIZES[:-1], SIZES[1:], strict=True)]


def train(jax, steps: int = 30) -> tuple[list[float], list]:
    """The training program; `jax` is either library."""
    jnp = jax.numpy

    def predict(params, inputs):
        for w, b in params[:-1]:
            inputs = jnp.maximum(jnp.dot(inputs, w) + b, 0)
        w, b = params[-1]
        logits = jnp.dot(inputs, w) + b
        shifted = logits - jnp.max(logits, axis=1, keepdims=True)
        return shifted - jnp.log(jnp.sum(jnp.exp(shifted), axis=1, keepdims=True))

    def loss(params, batch):
        inputs, labels = batch
        targets = (labels[:, None] == jnp.arange(SIZES[-1])).astype(jnp.float32)
        penalty = sum(jnp.sum(w ** 2) for w, _ in params)
        return -jnp.mean(jnp.sum(predict(params, inputs) * targets, axis=1)) + 1e-4 * penalty

    @jax.jit
    def update(params, batch, rate):
        value, grads = jax.value_and_grad(loss)(params, batch)
        return value, jax.tree_util.tree_map(lambda p, g: p - rate * g, params, grads)

    params, losses = PARAMS, []
    for step in range(steps):
        rows = slice(32 * (step % 2), 32 * (step % 2 + 1))
        value, params = update(params, (INPUTS[rows], LABELS[rows]), 0.5)
        losses.append(float(value))
    return losses, params


def test_training_goes_as_in_jax():
    jax = real_jax()
    ours, our_params = train(xjax)
    theirs, their_params = train(jax)
    assert_same([np.float32(ours), our_params], [np.float32(theirs), their_params])


def test_training_learns():
    losses, _ = train(xjax)
    assert losses[-1] < 0.5 * losses[0]


def test_training_without_jit_is_the_same():
    compiled, _ = train(xjax, steps=3)
    with xjax.disable_jit():
        eager, _ = train(xjax, steps=3)
    np.testing.assert_allclose(eager, compiled, rtol=1e-5)
