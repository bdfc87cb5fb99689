"""Optimizers from configs: the update of each, computed by hand."""

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from recipes.errors import ConfigError
from recipes.settings.config_file import load_config
from recipes.settings.optim import (
    SGD,
    Adam,
    AdamW,
    Constant,
    Cosine,
    Lamb,
    Linear,
    Lion,
    WarmupStableDecay,
    update_factors,
)
from recipes.settings.optim import learning_rate as rate_of
from recipes.settings.optim import make_optimizer as make
from xjax import random, tree_util
from xnn import GCN, Dense, Dropout, Relu, optim, serial


def made(optimizer, steps=100, **keys):
    """The config of a run with this optimizer."""
    return load_config("gcn").model_copy(update={"optim": optimizer, "steps": steps, **keys})


def make_optimizer(optimizer, steps):
    return make(made(optimizer, steps))


def learning_rate(optimizer, steps):
    return rate_of(made(optimizer, steps))


def updates(config, grads, params, steps=1):
    """The last of ``steps`` updates with the same gradient."""
    tx = make_optimizer(config, steps=100)

    @xjax.jit
    def last(grads, params):
        state = tx.init(params)
        for _ in range(steps):
            out, state = tx.update(grads, state, params)
            params = optim.apply_updates(params, out)
        return out

    return tree_util.tree_map(np.asarray, xjax.device_get(last(grads, params)))


PARAMS = ({"w": jnp.array([3.0, -4.0])}, {"w": jnp.array([2.0])})
GRADS = ({"w": jnp.array([0.5, 0.5])}, {"w": jnp.array([-1.0])})


def test_sgd_is_minus_lr_times_gradient():
    (first, second) = updates(SGD(lr=0.1), GRADS, PARAMS)
    np.testing.assert_allclose(first["w"], [-0.05, -0.05], rtol=1e-6)
    np.testing.assert_allclose(second["w"], [0.1], rtol=1e-6)


def test_sgd_with_momentum_adds_up():
    out = updates(SGD(lr=0.1, momentum=0.5), GRADS, PARAMS, steps=3)
    np.testing.assert_allclose(out[0]["w"], [-0.05 * 1.75] * 2, rtol=1e-6)


def test_weight_decay_is_an_l2_term_on_the_first_layer():
    config = SGD(lr=1.0, weight_decay=0.1, decay_on="first_layer")
    (first, second) = updates(config, GRADS, PARAMS)
    np.testing.assert_allclose(first["w"], [-0.5 - 0.3, -0.5 + 0.4], rtol=1e-6)
    np.testing.assert_allclose(second["w"], [1.0], rtol=1e-6)


def test_adam_decays_in_the_gradient_and_adamw_beside_it():
    l2 = updates(Adam(lr=0.01, weight_decay=0.1), GRADS, PARAMS)
    beside = updates(AdamW(lr=0.01, weight_decay=0.1), GRADS, PARAMS)
    # Adam's first step is the sign of its input: 0.5 + 0.1 * (3, -4) = (0.8, 0.1).
    np.testing.assert_allclose(l2[0]["w"], [-0.01, -0.01], rtol=1e-4)
    np.testing.assert_allclose(beside[0]["w"], [-0.01 * 1.3, -0.01 * 0.6], rtol=1e-4)


def test_clipping_is_by_the_global_norm():
    grads = ({"w": jnp.array([3.0, 0.0])}, {"w": jnp.array([4.0])})
    out = updates(SGD(lr=1.0, clip_norm=1.0), grads, PARAMS)
    np.testing.assert_allclose(out[0]["w"], [-0.6, 0], rtol=1e-5)
    np.testing.assert_allclose(out[1]["w"], [-0.8], rtol=1e-5)


def test_clipping_keeps_the_dtypes_of_the_gradients():
    grads = {"half": jnp.array([3.0, 0.0], jnp.bfloat16), "single": jnp.array([4.0])}
    out = updates(SGD(lr=1.0, clip_norm=1.0), grads, grads)
    assert {name: str(x.dtype) for name, x in out.items()} == {"half": "bfloat16", "single": "float32"}
    np.testing.assert_allclose(np.float32(out["half"]), [-0.6, 0], rtol=2**-8)          # bfloat16 has 8 bits


@pytest.mark.parametrize("kind", [Adam, AdamW, SGD, Lion, Lamb])
def test_cosine_schedule_ends_at_zero(kind):
    config = kind(lr=0.1, schedule=Cosine(warmup_steps=5))
    tx, params = make_optimizer(config, steps=20), PARAMS
    state, sizes, update = tx.init(params), [], xjax.jit(tx.update)
    for _ in range(21):
        out, state = update(GRADS, state, params)
        sizes.append(float(jnp.abs(out[1]["w"])[0]))
    assert sizes[0] == 0.0  # warm-up starts from zero
    assert np.argmax(sizes) in (5, 6)
    assert sizes[20] < 1e-6


def test_constant_rate_with_warm_up():
    rate = learning_rate(Adam(lr=0.2, schedule=Constant(warmup_steps=4)), steps=100)
    np.testing.assert_allclose([float(rate(i)) for i in (0, 2, 4, 50)], [0, 0.1, 0.2, 0.2])


@pytest.mark.parametrize(
    ("layer", "decayed"),
    [
        (GCN(4, 2), ["[0][0]", "[0][1]"]),
        (serial(Dropout(0.5), Dense(3), Relu, Dense(2)), ["[1]['b']", "[1]['w']"]),
    ],
    ids=["gcn", "mlp after a layer without parameters"],
)
def test_first_layer_is_the_first_with_parameters(layer, decayed):
    _, params = layer.init(random.PRNGKey(0), (-1, 5))
    zeros, ones = (tree_util.tree_map(like, params) for like in (jnp.zeros_like, jnp.ones_like))
    out = updates(SGD(lr=1.0, weight_decay=0.1, decay_on="first_layer"), zeros, ones)
    flat, _ = tree_util.tree_flatten_with_path(out)
    assert sorted(tree_util.keystr(path) for path, leaf in flat if leaf.any()) == decayed


@pytest.mark.parametrize(("schedule", "at", "rates"), [
    (Linear(), (0, 50, 100, 120), (1, 0.5, 0, 0)),
    (Linear(end=0.5), (0, 50, 100), (1, 0.75, 0.5)),
    (Linear(warmup_steps=20), (0, 10, 20, 60, 100), (0, 0.5, 1, 0.5, 0)),
    (Cosine(end=0.2), (0, 50, 100, 200), (1, 0.6, 0.2, 0.2)),
    (WarmupStableDecay(warmup_steps=20, decay_fraction=0.25), (0, 10, 20, 79, 90, 100), (0, 0.5, 1, 1, 0.5, 0)),
    (Constant(), (0, 100), (1, 1)),
])
def test_schedules_by_hand(schedule, at, rates):
    rate = learning_rate(SGD(lr=1.0, schedule=schedule), steps=100)
    np.testing.assert_allclose([float(rate(i)) for i in at], rates, atol=1e-6)


def test_more_steps_do_not_change_a_schedule_that_has_begun():
    config = made(SGD(lr=1.0, schedule=Linear()), steps=200, schedule_steps=100)
    np.testing.assert_allclose([float(rate_of(config)(i)) for i in (50, 100, 150)], [0.5, 0, 0], atol=1e-6)


def test_decay_of_matrices_leaves_vectors_alone():
    params = {"w": jnp.ones((2, 2)), "b": jnp.ones(2)}
    zeros = tree_util.tree_map(jnp.zeros_like, params)
    out = updates(SGD(lr=1.0, weight_decay=0.1, decay_on="matrices"), zeros, params)
    assert out["w"].all() and not out["b"].any()


def test_factors_by_path():
    params = {"body": {"w": 1, "b": 1}, "head": {"w": 1, "b": 1}}
    config = made(Adam(), freeze=("body/w",), lr_multipliers={"head/b": 3.0, "head/*": 2.0, "body/*": 0.5})
    assert update_factors(config, params) == {"body": {"w": 0.0, "b": 0.5}, "head": {"w": 2.0, "b": 3.0}}
    with pytest.raises(ConfigError, match=r"freeze: the pattern matches no leaf(.|\n)*fix: .*'body/\*\*'"):
        update_factors(made(Adam(), freeze=("boddy",)), params)


@pytest.mark.parametrize(("optimizer", "arrays"), [
    (SGD(), 3), (SGD(weight_decay=0.1), 3), (SGD(momentum=0.9), 6), (Lion(), 9), (Adam(), 10),
    (AdamW(weight_decay=0.1), 10), (AdamW(clip_norm=1.0), 11), (Lamb(), 20),
], ids=str)
def test_an_update_reads_and_writes_no_array_more_than_its_loops_need(optimizer, arrays):
    """Each result has a loop of its own on CPUs: for SGD, p and the gradient are read, and p is written."""
    tx, n = make_optimizer(optimizer, steps=100), 1 << 16
    params = {"a": jnp.ones((n // 256, 256)), "b": jnp.ones((n // 256, 256))}

    def step(params, state, grads):
        changes, state = tx.update(grads, state, params)
        return optim.apply_updates(params, changes), state

    compiled = xjax.jit(step, donate_argnums=(0, 1)).lower(params, tx.init(params), params).compile()
    assert compiled.cost_analysis()["bytes accessed"] / (2 * n * 4) == pytest.approx(arrays, rel=1e-3)
