"""Losses of optax, bridged, and their gradients, compared with real optax."""

import numpy as np
import pytest

import xjax
from tests.sampling import one_in
from xjax import interop

jax = pytest.importorskip("jax")
optax = pytest.importorskip("optax")

from xnn import optim  # noqa: E402  (needs optax)


def data(*shape, seed=0, positive=False, onehot=False):
    rng = np.random.default_rng(seed)
    if onehot:
        return np.eye(shape[-1], dtype=np.float32)[rng.integers(0, shape[-1], shape[:-1])]
    x = rng.normal(size=shape).astype(np.float32)
    return np.exp(x) / np.exp(x).sum(-1, keepdims=True) if positive else x


X, Y = data(4, 5), data(4, 5, seed=1)
PROBS, LOGPROBS = data(4, 5, seed=2, positive=True), np.log(data(4, 5, seed=3, positive=True))
ONEHOT, CLASSES = data(4, 5, seed=4, onehot=True), np.array([0, 3, 2, 4], np.int32)
BINARY, SIGNS = (Y > 0).astype(np.float32), np.sign(Y)
PADDING = np.zeros((2, 6), np.float32)

LOSSES = {
    "binary_dice_loss": ((X, BINARY), {}),
    "convex_kl_divergence": ((LOGPROBS, PROBS), {}),
    "cosine_distance": ((X, Y), {"epsilon": 1e-8}),
    "cosine_similarity": ((X, Y), {}),
    "ctc_loss": ((data(2, 6, 4), PADDING, np.array([[1, 2, 0], [3, 1, 2]], np.int32),
                  np.array([[0, 0, 1], [0, 0, 0]], np.float32)), {}),
    "dice_loss": ((X, ONEHOT), {}),
    "generalized_kl_divergence": ((LOGPROBS, PROBS), {}),
    "hinge_loss": ((X, SIGNS), {}),
    "huber_loss": ((X, Y), {"delta": 0.5}),
    "kl_divergence": ((LOGPROBS, PROBS), {}),
    "kl_divergence_with_log_targets": ((LOGPROBS, np.log(PROBS)), {}),
    "l2_loss": ((X, Y), {}),
    "log_cosh": ((X, Y), {}),
    "multiclass_generalized_dice_loss": ((X, ONEHOT), {}),
    "multiclass_hinge_loss": ((X, CLASSES), {}),
    "multiclass_perceptron_loss": ((X, CLASSES), {}),
    "multiclass_sparsemax_loss": ((X, CLASSES), {}),
    "ntxent": ((X, np.array([0, 1, 0, 1], np.int32)), {}),
    "perceptron_loss": ((X, SIGNS), {}),
    "poly_loss_cross_entropy": ((X, PROBS), {"epsilon": 1.0}),
    "ranking_softmax_loss": ((X, np.abs(Y)), {}),
    "safe_softmax_cross_entropy": ((X, ONEHOT), {}),
    "sigmoid_binary_cross_entropy": ((X, BINARY), {}),
    "sigmoid_focal_loss": ((X, BINARY), {"gamma": 2.0, "alpha": 0.25}),
    "smooth_labels": ((ONEHOT, np.float32(0.1)), {}),
    "softmax_cross_entropy": ((X, PROBS), {"axis": -1}),
    "softmax_cross_entropy_with_integer_labels": ((X, CLASSES), {"axis": -1}),
    "sparsemax_loss": ((X, BINARY), {}),
    "squared_error": ((X, Y), {}),
    "triplet_margin_loss": ((X, Y, PROBS), {"margin": 0.5}),
}


@pytest.mark.parametrize("name", one_in(3, LOSSES))
def test_losses_and_gradients_equal_optax(name):
    args, options = LOSSES[name]
    mean = interop.from_jax(weighted)
    ours = xjax.value_and_grad(lambda x, *rest: mean(getattr(optim.losses, name)(x, *rest, **options)))
    theirs = jax.jit(jax.value_and_grad(
        lambda x, *rest: weighted(getattr(optax.losses, name)(x, *rest, **options))))
    value, g = theirs(*args)
    for f in (ours, xjax.jit(ours)):
        our_value, our_g = f(*args)
        np.testing.assert_allclose(np.asarray(our_value), value, rtol=2e-6, atol=1e-6)
        np.testing.assert_allclose(np.asarray(our_g), g, rtol=1e-5, atol=2e-6)


def weighted(x):
    return jax.numpy.sum(x * jax.numpy.cos(jax.numpy.arange(x.size).reshape(x.shape)))


def test_every_loss_is_tested():
    names = {n for n in dir(optax.losses) if not n.startswith("_") and callable(getattr(optax.losses, n))}
    assert names - {"make_fenchel_young_loss", "ctc_loss_with_forward_probs"} == set(LOSSES)


def test_global_norm_and_apply_updates():
    tree = {"a": X, "b": (Y,)}
    np.testing.assert_allclose(float(optim.global_norm(tree)), float(optax.global_norm(tree)), rtol=1e-6)
    out = optim.apply_updates({"a": X.astype(jax.numpy.bfloat16)}, {"a": Y})["a"]
    assert isinstance(out, xjax.Array) and out.dtype == jax.numpy.bfloat16
