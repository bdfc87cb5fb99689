"""Mixtures of experts beyond the table: room, losses, balance; and `switch` with state, cache, traced indices."""

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn
from tests.compare import assert_close
from tests.xnn.drawn_params import drawn_params
from tests.xnn.protocol_layers import Centered, Total
from tests.xnn.rows.experts import EXPERT, mixture
from xjax import random, tree_util
from xnn import Dense, MixtureOfExperts, RowKey, auxiliary_loss, serial, switch


def made(layer, x):
    """(Parameters, the initial state)."""
    return drawn_params(layer, x.shape), layer.init_state(x.shape)


def tokens(n, features=5, seed=1):
    return jnp.asarray(np.random.default_rng(seed).normal(size=(n, features)), jnp.float32)


def train(layer, params, state, *inputs, **named):
    """A step of training as one program."""
    return xjax.jit(lambda params, state, *inputs: layer.apply_with_state(
        params, state, *inputs, **named, train=True))(params, state, *inputs)


@pytest.mark.parametrize("k", [1, pytest.param(2, marks=pytest.mark.slow), 3])
@pytest.mark.parametrize("capacity", [None, 1.0, 0.4])
def test_a_loop_over_tokens_gives_the_same(k, capacity):
    x = tokens(12)
    layer = MixtureOfExperts(EXPERT, 3, k=k, capacity=capacity)
    params, state = made(layer, x)
    y, _ = train(layer, params, state, x)
    room = None if capacity is None else int(np.ceil(capacity * k * 12 / 3))
    plain = tree_util.tree_map(np.asarray, {"router": params["router"], "experts": params["experts"][0]})
    np.testing.assert_allclose(y, mixture(plain, np.asarray(x), k=k, room=room), rtol=1e-4, atol=1e-5)


def test_dropped_tokens_are_zero_and_a_residual_passes_them():
    x = np.ones((6, 5), np.float32)                         # equal tokens all choose the same expert
    layer = MixtureOfExperts(Dense(5), 3, k=1, capacity=1.0)
    params, state = made(layer, x)
    y, _ = train(layer, params, state, x)
    assert np.all(np.any(np.asarray(y) != 0, 1) == [True, True, False, False, False, False])
    kept, _ = train(xnn.residual(layer), params, state, x)
    np.testing.assert_array_equal(np.asarray(kept)[2:], np.asarray(x)[2:])
    evaluated = xjax.jit(lambda params, x: layer.apply(params, x, state=state))(params, x)
    assert np.all(np.any(np.asarray(evaluated) != 0, 1)), "evaluation has room for all"


def test_padding_changes_nothing():
    """Values, state and gradients equal those without the padding, which may be NaN."""
    x, real = tokens(7), np.array([[True, True, False, True], [True, True, True, True]])
    padded = np.full((2, 4, 5), np.nan, np.float32)
    padded[real] = x
    layer = MixtureOfExperts(EXPERT, 3, k=2, capacity=None)
    params, state = made(layer, x)

    def loss(params, x, mask):
        y, new = layer.apply_with_state(params, state, x, mask, train=True)
        return jnp.sum(jnp.sin(y)) + auxiliary_loss(new, balance=1.0, z=1.0), (y, new)

    run = xjax.value_and_grad(loss, has_aux=True)
    ((_, (y, new)), grads), ((_, want), want_grads) = xjax.jit(
        lambda params: (run(params, padded, real), run(params, x, None)))(params)
    y = np.asarray(y)
    assert not np.any(y[~real])
    assert_close(((y[real], new), grads), (want, want_grads), tol=0.1)
    nothing, kept = train(layer, params, state, padded, np.zeros(2, bool))
    assert not np.any(nothing) and kept["balance_loss"] == kept["z_loss"] == 0


def test_padding_takes_and_makes_no_room():
    layer = MixtureOfExperts(Dense(5), 3, k=1, capacity=1.0)
    x = np.ones((9, 5), np.float32)             # equal tokens all choose the same expert, which takes a third of them
    params, state = made(layer, x)
    y, _ = train(layer, params, state, x, np.arange(9) > 2)
    assert np.all(np.any(np.asarray(y) != 0, 1) == [False] * 3 + [True] * 2 + [False] * 4)


def test_losses_are_those_of_the_papers():
    x = tokens(16)
    layer = MixtureOfExperts(EXPERT, 4, k=2, capacity=None)
    params, state = made(layer, x)
    _, moved = train(layer, params, state, x)
    logits = np.asarray(x) @ np.asarray(params["router"]["w"])
    probs = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    share = np.bincount(np.argsort(-probs)[:, :2].ravel(), minlength=4) / 32
    np.testing.assert_allclose(moved["balance_loss"], 4 * np.sum(share * probs.mean(0)), rtol=1e-5)
    np.testing.assert_allclose(moved["z_loss"], np.mean(np.log(np.exp(logits).sum(-1)) ** 2), rtol=1e-5)
    np.testing.assert_allclose(moved["load"], 0.9 * 0.25 + 0.1 * share, rtol=1e-5)
    two = {"a": moved, "b": (moved, ())}
    np.testing.assert_allclose(auxiliary_loss(two, balance=0.5, z=2.0), moved["balance_loss"] + 4 * moved["z_loss"])
    assert auxiliary_loss(((), {"mean": jnp.ones(3), "key": random.key(0)})) == 0


def test_training_with_the_balance_loss_balances():
    """A router that sends almost everything to one expert learns equal shares; without the loss it does not."""
    x = np.concatenate([tokens(128, 4), np.ones((128, 1), np.float32)], 1)
    layer = MixtureOfExperts(Dense(2), 4, k=1)
    params, state = made(layer, x)
    skewed = np.array(params["router"]["w"])
    skewed[-1, 0] += 2

    def loss(params, weight):
        y, new = layer.apply_with_state(params, state, x, train=True)
        return 1e-3 * jnp.mean(y**2) + auxiliary_loss(new, balance=weight, z=0.0), new["load"]

    @xjax.jit
    def step(params, weight):
        grads, load = xjax.grad(loss, has_aux=True)(params, weight)
        return tree_util.tree_map(lambda w, g: w - 0.5 * g, params, grads), load

    def shares(weight):
        moved = {**params, "router": {"w": skewed}}
        for _ in range(201):                                        # the last one for the load
            moved, load = step(moved, weight)
        return (np.asarray(load) - 0.9 * 0.25) / 0.1

    assert shares(0.0).max() > 0.6
    assert np.all(np.abs(shares(1.0) - 0.25) < 0.1)


def test_the_losses_reach_the_gradient_through_repeat_and_remat():
    model = xnn.repeat(xnn.with_remat(xnn.residual(MixtureOfExperts(Dense(5), 3))), 2)
    x = tokens(8)
    params, state = made(model, x)

    def loss(params):
        return auxiliary_loss(model.apply_with_state(params, state, x, train=True)[1])

    grads = xjax.jit(xjax.grad(loss))(params)
    assert all(np.any(w != 0) for w in grads["router"]["w"])


def test_noise_is_learned_and_independent_of_blocks():
    x = tokens(8)
    layer = MixtureOfExperts(EXPERT, 3, k=1, capacity=None, noisy=True)
    names = []
    xjax.eval_shape(lambda key: names.extend(layer.init(key, x.shape)[1]), random.key(0))
    assert names == ["router", "experts", "noise"]
    params, state = made(layer, x)
    run = xjax.jit(lambda x, start: layer.apply_with_state(
        params, state, x, rng=RowKey(random.key(5), start), train=True))
    whole, moved = run(x, 0)
    x = np.asarray(x)
    np.testing.assert_allclose(np.concatenate([run(x[:4], 0)[0], run(x[4:], 4)[0]]), whole, rtol=1e-5, atol=1e-6)
    quiet = MixtureOfExperts(EXPERT, 3, k=1, capacity=None)
    _, without = train(quiet, {key: params[key] for key in ("router", "experts")}, state, x)
    assert moved["z_loss"] != without["z_loss"]
    grads = xjax.jit(xjax.grad(lambda params: layer.apply_with_state(
        params, state, x, rng=random.key(5), train=True)[1]["z_loss"]))(params)
    assert np.any(grads["noise"]["w"] != 0)


def test_mixture_in_half_precision_and_in_describe():
    x = tokens(6)
    layer = serial(Dense(4), MixtureOfExperts(EXPERT, 3))
    params, state = made(layer, x)
    half = xnn.with_precision(layer, "bfloat16")
    y, moved = train(half, params, state, x)
    assert y.dtype == np.float32 and moved[1]["balance_loss"].dtype == np.float32
    assert "['experts'] experts(n=3)" in xnn.describe(layer, x.shape)
    assert layer.layers["1/experts/0"].name == "Dense"
    with pytest.raises(IndexError, match="(?s)cannot be sliced.*fix:"):
        layer.layers[1].layers[:1]


def test_mixture_generates_position_by_position():
    model = serial(MixtureOfExperts(Dense(3), 2), Total(3))
    x = np.random.default_rng(2).normal(size=(2, 4, 3)).astype(np.float32)
    params, state = made(model, x)
    whole, cache = xjax.jit(lambda x: model.apply(params, x, state=state))(x), model.init_cache(2, 4)
    step = xjax.jit(lambda cache, x: model.apply_with_cache(params, cache, x, state=state))
    for at in range(4):
        y, cache = step(cache, x[:, at:at + 1])
        np.testing.assert_allclose(y, np.asarray(whole)[:, at:at + 1], rtol=1e-5, atol=1e-5)


# -- switch -------------------------------------------------------------------------------------------------------


def test_switch_by_a_traced_index():
    x = tokens(3)
    model = switch(small=Dense(2), large=serial(Dense(7), xnn.Relu, Dense(2)))
    params, _ = made(model, x)
    run = xjax.jit(model.apply)
    of_each, mapped = xjax.jit(lambda params, x: (
        {name: model.layers[name].apply(params[name], x) for name in ("small", "large")},
        xjax.vmap(model.apply, (None, 0, 0))(params, x, np.array([0, 1, 0]))))(params, x)
    for i, name in enumerate(("small", "large")):
        np.testing.assert_allclose(run(params, x, i), of_each[name], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.asarray(mapped)[1], np.asarray(of_each["large"])[1], rtol=1e-5, atol=1e-6)
    grads = xjax.jit(xjax.grad(lambda params: jnp.sum(run(params, x, 0))))(params)
    assert np.any(grads["small"]["w"] != 0) and not np.any(grads["large"][0]["w"])


def test_switch_moves_the_state_of_the_chosen_layer():
    x = tokens(4, 3)
    model = xnn.repeat(switch(Centered(), serial(Centered(), xnn.Identity)), 2)
    _, params = model.init(random.key(0), x.shape)
    state = model.init_state(x.shape)
    _, moved = xjax.jit(lambda state, i: model.apply_with_state(params, state, x, i, train=True))(state, 1)
    np.testing.assert_array_equal(moved[0]["steps"], [0, 0])
    np.testing.assert_array_equal(moved[1][0]["steps"], [1, 1])


def test_switch_moves_the_cache_of_the_chosen_layer():
    model = switch(Total(2), xnn.Identity)
    y, cache = model.apply_with_cache(((), ()), model.init_cache(1, 3), jnp.ones((1, 3, 2)), 0)
    np.testing.assert_array_equal(y[0, :, 0], [1, 2, 3])
    same, kept = model.apply_with_cache(((), ()), cache, jnp.ones((1, 1, 2)), 1)
    np.testing.assert_array_equal(same, 1)
    np.testing.assert_array_equal(kept[0], cache[0])


def test_switch_draws_and_converts_as_its_layers():
    model = xnn.with_precision(switch(xnn.Dropout(0.5), serial(Dense(3), xnn.Dropout(0.5))), "bfloat16")
    x = jnp.ones((40, 3))
    _, params = model.init(random.key(0), x.shape)
    y = model.apply(params, x, 0, rng=random.key(1), train=True)
    assert y.dtype == np.float32 and set(np.unique(y)) == {0.0, 2.0}
