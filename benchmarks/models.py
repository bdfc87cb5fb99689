"""The models that several benchmarks use: an MLP, LeNet and a transformer, with losses and training steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

HEADS, TOKENS, VOCABULARY = 8, 128, 512


def mlp_params(layers: int, width: int, seed: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(seed)
    return [((rng.normal(size=(width, width)) / np.sqrt(width)).astype(np.float32), np.zeros(width, np.float32))
            for _ in range(layers)]


def mlp_loss(jax: Any) -> Callable:
    """Mean square of the last layer of a tanh MLP."""
    jnp = jax.numpy

    def loss(params, x):
        for w, b in params:
            x = jnp.tanh(jnp.dot(x, w) + b)
        return jnp.mean(x ** 2)
    return loss


def lenet_params() -> list[tuple[np.ndarray, np.ndarray]]:
    return [_layer(*shape) for shape in ((5, 5, 1, 6), (5, 5, 6, 16), (400, 120), (120, 84), (84, 10))]


def lenet_loss(jax: Any) -> Callable:
    """Cross-entropy of the classes of images [batch, 28, 28, 1]."""
    jnp, lax = jax.numpy, jax.lax

    def convolved(x, kernel, bias, padding):
        x = lax.conv_general_dilated(x, kernel, (1, 1), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return lax.reduce_window(jax.nn.relu(x + bias), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    def loss(params, images, classes):
        (k1, b1), (k2, b2), *dense, (w, b) = params
        x = convolved(convolved(images, k1, b1, "SAME"), k2, b2, "VALID").reshape(len(images), -1)
        for weight, bias in dense:
            x = jax.nn.relu(x @ weight + bias)
        return _cross_entropy(jax, x @ w + b, classes)
    return loss


def transformer_params(layers: int = 4, width: int = 256) -> dict[str, Any]:
    return {"embedding": _layer(VOCABULARY, width)[0], "positions": _layer(TOKENS, width)[0], "last": _norm(width),
            "layers": [{"attention": (_norm(width), _layer(width, 3 * width)[0], _layer(width, width)[0]),
                        "mlp": (_norm(width), _layer(width, 4 * width), _layer(4 * width, width))}
                       for _ in range(layers)]}


def transformer_loss(jax: Any) -> Callable:
    """Cross-entropy of the next tokens; `tokens` and `following` are int32[batch, TOKENS]."""
    jnp, lax = jax.numpy, jax.lax
    causal = np.tri(TOKENS, dtype=bool)

    def normed(x, gain, bias):
        mean = x.mean(-1, keepdims=True)
        return (x - mean) * lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5) * gain + bias

    def attended(x, norm, to_heads, to_stream):
        q, k, v = (y.reshape(*x.shape[:2], HEADS, -1).transpose(0, 2, 1, 3)
                   for y in jnp.split(normed(x, *norm) @ to_heads, 3, -1))
        scores = q @ k.swapaxes(-1, -2) / np.float32(np.sqrt(q.shape[-1]))
        heads = jax.nn.softmax(jnp.where(causal, scores, -1e9), -1) @ v
        return heads.transpose(0, 2, 1, 3).reshape(x.shape) @ to_stream

    def loss(params, tokens, following):
        x = params["embedding"][tokens] + params["positions"]
        for layer in params["layers"]:
            x = x + attended(x, *layer["attention"])
            norm, (up, up_bias), (down, down_bias) = layer["mlp"]
            x = x + jax.nn.gelu(normed(x, *norm) @ up + up_bias) @ down + down_bias
        return _cross_entropy(jax, normed(x, *params["last"]) @ params["embedding"].T, following)
    return loss


def sgd_step(jax: Any, loss: Callable) -> Callable:
    """A function ``(params, *batch) -> (new params, loss)``."""
    def step(params, *batch):
        value, grads = jax.value_and_grad(loss)(params, *batch)
        return jax.tree_util.tree_map(lambda p, g: p - 0.01 * g, params, grads), value
    return step


def _cross_entropy(jax: Any, logits: Any, classes: Any) -> Any:
    log_probs = jax.numpy.take_along_axis(jax.nn.log_softmax(logits), classes[..., None], -1)
    return -jax.numpy.mean(log_probs)


def _layer(*shape: int) -> tuple[np.ndarray, np.ndarray]:
    """A kernel and a bias."""
    rng = np.random.default_rng(sum(shape))
    scale = np.sqrt(2.0 / (shape[0] + shape[-1]))
    return (rng.standard_normal(shape) * scale).astype(np.float32), np.zeros(shape[-1], np.float32)


def _norm(width: int) -> tuple[np.ndarray, np.ndarray]:
    return np.ones(width, np.float32), np.zeros(width, np.float32)
