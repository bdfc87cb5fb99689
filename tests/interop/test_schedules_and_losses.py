"""Schedules and losses of optax, bridged, against real optax."""

import numpy as np
import pytest

import xjax
from tests.sampling import one_in
from xjax import interop

jax = pytest.importorskip("jax")
optax = pytest.importorskip("optax")

from xnn import optim  # noqa: E402  (needs optax)

SCHEDULES = {
    "constant": lambda m: m.constant_schedule(0.1),
    "cosine_decay": lambda m: m.cosine_decay_schedule(0.1, 10, alpha=0.1),
    "cosine_onecycle": lambda m: m.cosine_onecycle_schedule(10, 0.1),
    "exponential_decay": lambda m: m.exponential_decay(0.1, 3, 0.5, staircase=True, end_value=0.01),
    "join": lambda m: m.join_schedules([m.constant_schedule(0.1), m.linear_schedule(0.1, 0.0, 5)], [4]),
    "linear": lambda m: m.linear_schedule(0.1, 0.01, 10, transition_begin=2),
    "linear_onecycle": lambda m: m.linear_onecycle_schedule(10, 0.1),
    "piecewise_constant": lambda m: m.piecewise_constant_schedule(0.1, {3: 0.5, 6: 0.1}),
    "piecewise_interpolate": lambda m: m.piecewise_interpolate_schedule("linear", 0.1, {3: 0.5, 6: 0.1}),
    "polynomial": lambda m: m.polynomial_schedule(0.1, 0.01, 2, 10),
    "sgdr": lambda m: m.sgdr_schedule([{"init_value": 0.0, "peak_value": 0.1, "decay_steps": 6, "warmup_steps": 2,
                                        "end_value": 0.01}] * 2),
    "warmup_constant": lambda m: m.warmup_constant_schedule(0.0, 0.1, 4),
    "warmup_cosine": lambda m: m.warmup_cosine_decay_schedule(0.0, 0.1, 4, 10),
    "warmup_exponential": lambda m: m.warmup_exponential_decay_schedule(0.0, 0.1, 4, 2, 0.5),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_equal_optax(name):
    ours, theirs = SCHEDULES[name](optim), SCHEDULES[name](optax)
    expected = [float(theirs(jax.numpy.int32(step))) for step in range(12)]
    np.testing.assert_allclose([float(ours(np.int32(step))) for step in range(12)], expected, rtol=1e-6, atol=1e-8)
    # Python steps, and all at once in one program.
    np.testing.assert_allclose([float(ours(step)) for step in (0, 7)], [expected[0], expected[7]], rtol=1e-6, atol=1e-8)
    steps = xjax.device_put(np.arange(12, dtype=np.int32))
    mapped = xjax.jit(xjax.vmap(lambda step: ours(step) * np.ones((), np.float32)))(steps)
    np.testing.assert_allclose(np.asarray(mapped), expected, rtol=1e-6, atol=1e-8)


def test_every_schedule_is_tested():
    found = {n for n in dir(optax) if n.endswith("_schedule") or n == "exponential_decay"}
    known = {f"{n}_schedule" for n in SCHEDULES} | {"exponential_decay", "join_schedules"}
    known |= {"warmup_cosine_decay_schedule", "warmup_exponential_decay_schedule", "cosine_decay_schedule",
              "scale_by_schedule", "join_schedule"}
    assert found <= known


def test_a_number_stays_a_number():
    assert optim.constant_schedule(0.1)(3) == 0.1


def test_a_schedule_with_python_steps_is_traced_once():
    calls = []

    def schedule(step):
        calls.append(step)
        return 0.1 * jax.numpy.cos(step)

    bridged = interop.from_jax(schedule)
    for step in range(5):
        np.testing.assert_allclose(float(bridged(step)), 0.1 * np.cos(step), rtol=1e-6)
    assert len(calls) == 1


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
    theirs = jax.value_and_grad(lambda x, *rest: weighted(getattr(optax.losses, name)(x, *rest, **options)))
    value, g = theirs(*args)
    for f in (ours, xjax.jit(ours)):
        our_value, our_g = f(*args)
        np.testing.assert_allclose(np.asarray(our_value), value, rtol=2e-6, atol=1e-6)
        np.testing.assert_allclose(np.asarray(our_g), g, rtol=1e-5, atol=2e-6)


def weighted(x):
    return jax.numpy.sum(x * jax.numpy.cos(jax.numpy.arange(x.size).reshape(x.shape)))


def test_every_loss_is_tested():
    found = {n for n in dir(optax.losses) if not n.startswith("_") and callable(getattr(optax.losses, n))}
    assert found - {"make_fenchel_young_loss", "ctc_loss_with_forward_probs"} == set(LOSSES)


def test_global_norm_and_apply_updates():
    tree = {"a": X, "b": (Y,)}
    np.testing.assert_allclose(float(optim.global_norm(tree)), float(optax.global_norm(tree)), rtol=1e-6)
    out = optim.apply_updates({"a": X.astype(jax.numpy.bfloat16)}, {"a": Y})["a"]
    assert isinstance(out, xjax.Array) and out.dtype == jax.numpy.bfloat16
