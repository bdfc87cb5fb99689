"""The programs that several benchmarks use: a deep MLP, its loss and its training step."""

from __future__ import annotations

from typing import Any

import numpy as np


def mlp_params(layers: int, width: int, seed: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(seed)
    return [(rng.normal(size=(width, width)).astype(np.float32) / np.sqrt(width), np.zeros(width, np.float32))
            for _ in range(layers)]


def mlp_loss(jnp: Any):
    """Mean square of the last layer of a tanh MLP."""
    def loss(params, x):
        for w, b in params:
            x = jnp.tanh(jnp.dot(x, w) + b)
        return jnp.mean(x ** 2)
    return loss


def sgd_step(jax: Any, jnp: Any):
    loss = mlp_loss(jnp)

    def step(params, x):
        value, grads = jax.value_and_grad(loss)(params, x)
        return jax.tree_util.tree_map(lambda p, g: p - 0.01 * g, params, grads), value
    return step
