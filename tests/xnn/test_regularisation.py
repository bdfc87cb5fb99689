"""Layers that draw in training, beyond the table: rates, moments, blocks of rows; normalised weights."""

import functools

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn
from tests.xnn.drawn_params import drawn_params
from xjax import random
from xnn import AlphaDropout, Dense, Dropout, GaussianDropout, GaussianNoise, RowKey, StochasticDepth

DRAWING = {
    "Dropout": Dropout(0.5),
    "spatial Dropout": Dropout(0.5, broadcast=(1,)),
    "Dropout of all rows together": Dropout(0.5, broadcast=(0,)),
    "StochasticDepth": StochasticDepth(0.5),
    "AlphaDropout": AlphaDropout(0.5),
    "GaussianNoise": GaussianNoise(0.5),
    "GaussianDropout": GaussianDropout(0.5),
    "RReLU": xnn.RReLU(),
}


@pytest.mark.parametrize("name", DRAWING)
def test_row_key_draws_the_same_for_any_number_of_blocks(name, key):
    layer, x = DRAWING[name], -np.ones((8, 3, 2), np.float32)
    draw = lambda x, start: layer.apply((), x, rng=RowKey(key, start), train=True)
    whole, blocks = xjax.jit(lambda x: (draw(x, 0), [draw(x[at:at + 4], at) for at in (0, 4)]))(x)
    np.testing.assert_array_equal(np.concatenate(blocks), whole)
    rows = len(np.unique(np.asarray(whole).reshape(8, -1), axis=0))
    assert rows == 1 if "together" in name else rows > 1


@functools.cache
def trained_in(dtype):
    """All cases in one program."""
    x = np.ones((4, 3, 2), jnp.dtype(dtype))
    return xjax.jit(lambda key: {name: layer.apply((), x, rng=key, train=True) for name, layer in DRAWING.items()})(
        random.PRNGKey(0))


@pytest.mark.parametrize("name", DRAWING)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_training_keeps_the_dtype(name, dtype):
    y = trained_in(dtype)[name]
    assert y.dtype == jnp.dtype(dtype) and np.isfinite(np.asarray(y, np.float32)).all()


def test_dropout_of_features_and_of_examples(key):
    x = np.ones((16, 4, 5, 8), np.float32)
    spatial, depth = map(np.asarray, xjax.jit(lambda key: [layer.apply((), x, rng=key, train=True) for layer in (
        Dropout(0.5, broadcast=(1, 2)), StochasticDepth(0.2))])(key))
    np.testing.assert_array_equal(spatial, np.broadcast_to(spatial[:, :1, :1], x.shape))
    assert set(np.unique(spatial)) == {0.0, 2.0}
    np.testing.assert_array_equal(depth, np.broadcast_to(depth[:, :1, :1, :1], x.shape))
    assert set(np.unique(depth)) == {0.0, np.float32(1.25)}


def test_stochastic_depth_of_a_residual_branch(key):
    x = jnp.arange(40.0).reshape(20, 2)
    y = xnn.residual(xnn.Exp, StochasticDepth(0.5)).apply(((), ()), x, rng=key, train=True)
    skipped = np.all(np.asarray(y == x), 1)
    assert 0 < skipped.sum() < 20


def test_alpha_dropout_keeps_mean_and_variance(key):
    rates = (0.1, 0.5)

    @xjax.jit
    def drawn(key):
        x = xjax.nn.selu(random.normal(key, (500, 400)))
        return x, [AlphaDropout(rate).apply((), x, rng=random.fold_in(key, 1), train=True) for rate in rates]

    x, ys = drawn(key)
    for y in ys:
        # 200,000 values: three standard deviations of their mean are 0.007, of their variance about 0.01
        assert abs(np.mean(y) - np.mean(x)) < 0.01 and abs(np.var(y) - np.var(x)) < 0.02


@pytest.mark.parametrize("layer, std", [(GaussianNoise(0.3), 0.3), (GaussianDropout(0.2), 2 * 0.5)],
                         ids=["add", "times"])
def test_moments_of_gaussian_noise(layer, std, key):
    y = layer.apply((), jnp.full((400, 250), 2.0), rng=key, train=True)
    # 100,000 draws: three standard deviations of the mean are 0.01 std, of the deviation 0.007 std
    assert abs(np.mean(y) - 2) < 0.01 * std and abs(np.std(y) / std - 1) < 0.007


def test_random_slopes_are_uniform(key):
    y = np.asarray(xnn.RReLU(0.1, 0.3).apply((), jnp.full((400, 250), -1.0), rng=key, train=True))
    assert -0.3 <= y.min() < -0.299 and -0.101 < y.max() <= -0.1
    assert abs(y.mean() + 0.2) < 0.001


# -- normalised weights -------------------------------------------------------------------------------------------


def test_weight_norm_starts_as_the_layer(key, npr):
    model = xnn.serial(Dense(4), xnn.Tanh, Dense(3, bias=False))
    x = npr.normal(size=(2, 5)).astype(np.float32)
    normed = xnn.weight_norm(model)
    shape, params = normed.init(key, x.shape)
    plain = model.init(key, x.shape)[1]
    assert shape == (2, 3) and list(xnn.params.paths(params)) == ["0/b", "0/w/g", "0/w/v", "2/w/g", "2/w/v"]
    got, want = xjax.jit(lambda params, plain: (normed.apply(params, x), model.apply(plain, x)))(params, plain)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_weight_norm_direction_and_length(key):
    """The gradient of v is orthogonal to v (Salimans and Kingma, 2016), so only g changes the length of w."""
    layer = xnn.weight_norm(Dense(3))
    params = drawn_params(layer, (-1, 5))
    grads = xjax.jit(xjax.grad(lambda params: jnp.sum(jnp.sin(layer.apply(params, jnp.ones((2, 5)))))))(params)
    np.testing.assert_allclose(np.sum(np.asarray(grads["w"]["v"]) * params["w"]["v"], 0), 0, atol=1e-6)


def test_weight_norm_of_zero_and_of_large_half_precision_weights():
    layer = xnn.weight_norm(Dense(2, bias=False))
    grads = xjax.jit(xjax.grad(lambda params: jnp.sum(layer.apply(params, jnp.ones((1, 3))))))(
        {"w": {"g": jnp.zeros(2), "v": jnp.zeros((3, 2))}})
    assert all(np.isfinite(leaf).all() for leaf in xjax.tree.leaves(grads))
    large = {"w": {"g": jnp.ones(2, "float16"), "v": jnp.full((3, 2), 1000, "float16")}}
    y = xjax.jit(layer.apply)(large, jnp.ones((1, 3), "float16"))
    np.testing.assert_allclose(y, 3 ** 0.5, rtol=1e-3)


@pytest.mark.parametrize("wrapper", [xnn.weight_norm, xnn.spectral_norm], ids=lambda wrapper: wrapper.__name__)
def test_wrappers_within_composites(wrapper, key):
    """State, precision, remat and describe treat the wrapper as any composite."""
    model = xnn.repeat(xnn.with_remat(xnn.residual(wrapper(xnn.serial(Dense(4), xnn.BatchNorm())))), 2)
    x = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    params = drawn_params(model, x.shape)
    state = model.init_state(x.shape, key)
    y, moved = xjax.jit(lambda params, state: model.apply_with_state(params, state, x, train=True))(params, state)
    assert y.shape == x.shape and xjax.tree.structure(moved) == xjax.tree.structure(state)
    half = xnn.with_precision(model, "bfloat16")
    close, _ = xjax.jit(lambda params, state: half.apply_with_state(params, state, x, train=True))(params, state)
    np.testing.assert_allclose(close, y, atol=0.2)            # two blocks, each rounded to 8 bits several times
    assert wrapper.__name__ in xnn.describe(model, x.shape)


def test_spectral_norm_follows_the_weights(key, npr):
    layer = xnn.spectral_norm(Dense(4, bias=False))
    x = jnp.eye(6)
    params, state = {"w": jnp.asarray(npr.normal(size=(6, 4)), jnp.float32)}, layer.init_state((-1, 6))
    step = xjax.jit(lambda state: layer.apply_with_state(params, state, x, train=True)[1])
    for _ in range(100):
        state = step(state)
    y = xjax.jit(lambda state: layer.apply(params, x, state=state))(state)
    np.testing.assert_allclose(np.linalg.norm(y, 2), 1, rtol=1e-5)
    np.testing.assert_allclose(y, params["w"] / np.linalg.norm(params["w"], 2), rtol=1e-4, atol=1e-6)


def test_spectral_norm_of_one_iteration(key, npr):
    """The transcription of Algorithm 1 of Miyato et al. (2018), and its gradient at fixed vectors."""
    layer = xnn.spectral_norm(Dense(4, bias=False))
    w, x = npr.normal(size=(6, 4)).astype(np.float32), npr.normal(size=(2, 6)).astype(np.float32)
    u = np.asarray(layer.init_state((-1, 6), key)["u"]["w"])
    v = w @ u / np.linalg.norm(w @ u)
    new = v @ w / np.linalg.norm(v @ w)
    state = {"u": {"w": jnp.asarray(u)}, "layer": ()}

    def run(params):
        y, moved = layer.apply_with_state(params, state, x, train=True)
        return jnp.sum(y), (y, moved)

    grads, (y, moved) = xjax.jit(xjax.grad(run, has_aux=True))({"w": jnp.asarray(w)})
    np.testing.assert_allclose(moved["u"]["w"], new, rtol=1e-5)
    sigma = v @ w @ new
    np.testing.assert_allclose(y, x @ w / sigma, rtol=1e-4, atol=1e-5)
    outer = x.sum(0)[:, None] * np.ones(4)
    np.testing.assert_allclose(grads["w"], outer / sigma - np.sum(outer * w) / sigma**2 * np.outer(v, new), rtol=1e-4,
                               atol=1e-5)


def test_spectral_norm_of_a_kernel_is_that_of_its_matrix(key, npr):
    w = jnp.asarray(npr.normal(size=(3, 2, 4)), jnp.float32)
    layer = xnn.spectral_norm(xnn.Einsum("bij,ijo->bo", w.shape, bias=False), steps=50)
    @xjax.jit
    def trained_and_evaluated(w, state):
        _, state = layer.apply_with_state({"w": w}, state, jnp.ones((1, 3, 2)), train=True)
        return layer.apply({"w": w}, jnp.eye(6).reshape(6, 3, 2), state=state)

    y = trained_and_evaluated(w, layer.init_state((1, 3, 2)))
    np.testing.assert_allclose(np.linalg.norm(y, 2), 1, rtol=1e-4)
