"""Batch normalisation against a transcription in NumPy, norms under precision policies, embeddings, wrong inputs."""

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn
from tests.compare import assert_close
from tests.xnn.drawn_params import drawn_params
from xjax import tree_util
from xnn import Attend, BatchNorm, Dense, Embedding, GroupNorm, InstanceNorm, LayerNorm, RMSNorm, serial
from xnn.layer import init_types


class NumPyBatchNorm:
    """As PyTorch documents: biased variance in the batch, unbiased in the running statistics, momentum of the new."""

    def __init__(self, n, momentum=0.1, unbiased=True):
        self.mean, self.var, self.momentum, self.unbiased = np.zeros(n), np.ones(n), momentum, unbiased

    def train(self, x):
        axes, n = tuple(range(x.ndim - 1)), x.size // x.shape[-1]
        mean, var = x.mean(axes), x.var(axes)
        running = var * n / (n - 1) if self.unbiased else var
        self.mean += self.momentum * (mean - self.mean)
        self.var += self.momentum * (running - self.var)
        return (x - mean) / np.sqrt(var + 1e-5)

    def evaluate(self, x):
        return (x - self.mean) / np.sqrt(self.var + 1e-5)


@pytest.mark.parametrize("options", [{}, {"momentum": 0.01, "unbiased": False}], ids=["PyTorch", "Flax"])
def test_batch_norm_over_100_steps(options, key, npr):
    layer, oracle = BatchNorm(**options), NumPyBatchNorm(3, **options)
    _, params = layer.init(key, (-1, 2, 3))
    state = layer.init_state((-1, 2, 3))
    step = xjax.jit(lambda state, x: layer.apply_with_state(params, state, x, train=True))
    for i in range(100):
        x = npr.normal(loc=i % 7, scale=1 + i % 3, size=(8, 2, 3))
        y, state = step(state, x.astype(np.float32))
        np.testing.assert_allclose(y, oracle.train(x), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(state["mean"], oracle.mean, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(state["var"], oracle.var, rtol=1e-5)
    np.testing.assert_allclose(layer.apply(params, jnp.asarray(x, "float32"), state=state), oracle.evaluate(x),
                               rtol=1e-4, atol=1e-4)


def test_batch_norm_does_not_cancel(key, npr):
    """Two passes: the variance of numbers near 1e4 is exact, where E[x²] - E[x]² loses all digits."""
    x = (1e4 + npr.normal(size=(64, 2))).astype(np.float32)
    layer = BatchNorm()
    y, _ = layer.apply_with_state(layer.init(key, x.shape)[1], layer.init_state(x.shape), x, train=True)
    np.testing.assert_allclose(y, (x - x.mean(0, dtype=float)) / x.std(0, dtype=float), atol=2e-3)


@pytest.mark.parametrize("shape, mask_shape", [((7, 3), (7,)), ((7, 4, 3), (7, 4)), ((7, 4, 3), (7,))])
def test_batch_norm_counts_the_rows_of_the_mask(shape, mask_shape, npr):
    layer, mask = BatchNorm(), npr.random(mask_shape) < 0.6
    params = {"scale": jnp.array([1.0, 2.0, 3.0]), "bias": jnp.ones(3)}
    state = {"mean": jnp.array([1.0, 0.0, -1.0]), "var": jnp.array([1.0, 2.0, 3.0])}
    x = npr.normal(size=shape).astype(np.float32)
    padded = np.where(mask.reshape(mask.shape + (1,) * (x.ndim - mask.ndim)), x, np.nan)
    kept = x[mask].reshape(-1, 3)

    def loss(params, x, mask, train):
        y, moved = layer.apply_with_state(params, state, x, mask, train=train)
        return jnp.sum(jnp.where(jnp.isnan(padded if mask is not None else x), 0, jnp.sin(y))), moved

    run = xjax.value_and_grad(loss, (0, 1), has_aux=True)
    both = xjax.jit(lambda padded, mask, kept: [
        (run(params, padded, mask, train), run(params, kept, None, train)) for train in (True, False)])
    for ((value, moved), (of_params, of_x)), ((want, want_moved), (want_of_params, want_of_x)) in both(
            padded, mask, kept):
        of_x = np.asarray(of_x)
        got = (value, moved, of_params, of_x[mask].reshape(-1, 3))
        assert_close(got, (want, want_moved, want_of_params, want_of_x), tol=0.25)
        assert not np.any(of_x[~mask])


@pytest.mark.parametrize("n", [0, 1])
def test_batch_norm_without_enough_rows_keeps_its_statistics(n, npr):
    layer, x = BatchNorm(scale=False, bias=False), jnp.asarray(npr.normal(size=(4, 3)), jnp.float32)
    state = {"mean": jnp.ones(3), "var": jnp.full(3, 2.0)}
    y, moved = xjax.jit(lambda state, x, mask: layer.apply_with_state({}, state, x, mask, train=True))(
        state, x, np.arange(4) < n)
    assert np.all(np.isfinite(y))
    for key in state:
        np.testing.assert_array_equal(moved[key], state[key])


def test_batch_norm_of_all_devices_with_a_mask(npr):
    x, mask = npr.normal(size=(8, 3)).astype(np.float32), np.array([1, 1, 1, 1, 1, 0, 0, 0], bool)
    layer, one = BatchNorm(axis_name="batch", scale=False, bias=False), BatchNorm(scale=False, bias=False)
    state = one.init_state(x.shape)
    want = xjax.jit(lambda x: one.apply_with_state({}, state, x, train=True))(x[:5])
    step = xjax.pmap(lambda x, mask: layer.apply_with_state({}, state, x, mask, train=True), axis_name="batch",
                     devices=xjax.devices()[:2])
    y, moved = step(x.reshape(2, 4, 3), mask.reshape(2, 4))
    np.testing.assert_allclose(np.asarray(y).reshape(8, 3)[:5], want[0], rtol=1e-5, atol=1e-6)
    for key in state:
        np.testing.assert_allclose(moved[key], np.broadcast_to(want[1][key], (2, 3)), rtol=1e-5)


def test_batch_norm_of_all_devices(key, npr):
    x = npr.normal(size=(8, 5, 3)).astype(np.float32)
    _, params = BatchNorm().init(key, x.shape)
    state = BatchNorm().init_state(x.shape)
    layer = BatchNorm(axis_name="batch")

    def loss(layer, x):
        y, moved = layer.apply_with_state(params, state, x, train=True)
        return jnp.sum(jnp.sin(y) * x), (y, moved)

    gradient, expected = xjax.jit(xjax.grad(lambda x: loss(BatchNorm(), x), has_aux=True))(x)
    for n in (1, 2, 4):
        step = xjax.pmap(xjax.grad(lambda x: loss(layer, x), has_aux=True), axis_name="batch",
                         devices=xjax.devices()[:n])
        own, (y, moved) = step(x.reshape(n, 8 // n, 5, 3))
        np.testing.assert_allclose(np.asarray(y).reshape(x.shape), expected[0], rtol=1e-5, atol=1e-5)
        on_each = tree_util.tree_map(lambda leaf, n=n: np.broadcast_to(leaf, (n, *leaf.shape)), expected[1])
        assert_close(moved, on_each, scale=0)
        np.testing.assert_allclose(np.asarray(own).reshape(x.shape), gradient, rtol=1e-4, atol=1e-4)


NORMS = {"LayerNorm": LayerNorm(), "RMSNorm": RMSNorm(), "GroupNorm": GroupNorm(2), "InstanceNorm": InstanceNorm(),
         "BatchNorm": BatchNorm()}


@pytest.mark.parametrize("name", NORMS)
def test_norms_compute_in_float32(name, key, npr):
    """In half precision only input and output are rounded: squares of 300 do not overflow float16."""
    x = (300 * npr.normal(size=(6, 5, 4))).astype(np.float16).astype(np.float32)
    half = xnn.with_precision(NORMS[name], "float16")

    @xjax.jit
    def of_both(x):
        params, state = NORMS[name].init(key, x.shape)[1], NORMS[name].init_state(x.shape)
        return [[layer.apply_with_state(params, state, x, train=train)[0] for layer in (NORMS[name], half)]
                for train in (False, True)]

    for want, got in of_both(x):
        np.testing.assert_allclose(got, want, rtol=2 ** -10, atol=2 ** -10)
    assert got.dtype == np.float32


@pytest.mark.parametrize("name", NORMS)
def test_norms_in_double_precision(name, key, npr):
    with xjax.enable_x64():
        y, _ = xjax.jit(lambda x: NORMS[name].apply_with_state(
            NORMS[name].init(key, x.shape)[1], NORMS[name].init_state(x.shape), x, train=True))(
            npr.normal(size=(6, 5, 4)))
    axes = {"LayerNorm": 2, "RMSNorm": 2, "GroupNorm": None, "InstanceNorm": 1, "BatchNorm": (0, 1)}[name]
    assert y.dtype == np.float64
    if axes is not None:
        np.testing.assert_allclose(np.mean(np.square(y), axes), 1, rtol=1e-3)


# -- embeddings ---------------------------------------------------------------------------------------------------


def test_embedding_takes_rows(key):
    layer = Embedding(5, 3)
    ids = jnp.array([[0, 4, 1], [2, 2, 3]])
    shape, params = layer.init(key, xjax.ShapeDtypeStruct((-1, 3), "int32"))
    assert shape == (-1, 3, 3) and params["table"].shape == (5, 3)
    np.testing.assert_array_equal(layer.apply(params, ids), np.asarray(params["table"])[np.asarray(ids)])
    gradient = xjax.grad(lambda params: layer.apply(params, ids).sum())(params)["table"]
    np.testing.assert_array_equal(gradient, np.repeat([[1], [1], [2], [1], [1]], 3, 1))
    outside = layer.apply(params, jnp.array([5, -1, 2]))
    assert np.isnan(outside[:2]).all() and not np.isnan(outside[2]).any()


def test_tied_language_model(key):
    """Six lines: the output layer multiplies by the embedding's table."""
    model = xnn.with_shared(serial(
        xnn.shared("words", Embedding(11, 4)),
        LayerNorm(),
        xnn.repeat(xnn.residual(LayerNorm(), Dense(4)), 2),
        xnn.shared("words", Attend(11))))
    tokens = xjax.ShapeDtypeStruct((2, -1), "int32")
    shape, params = init_types(model, tokens)[0], drawn_params(model, tokens)
    assert shape == (2, -1, 11) and list(params["shared"]["words"]) == ["table"]
    logits = xjax.eval_shape(model.apply, params, jnp.array([[1, 2, 3], [4, 5, 6]]))
    assert logits.shape == (2, 3, 11)
    gradient = xjax.jit(xjax.grad(lambda params: model.apply(params, jnp.array([[1, 2]])).sum()))(params)
    assert np.all(np.any(np.asarray(gradient["shared"]["words"]["table"]) != 0, 1))      # every row affects the output


# -- derivatives ---------------------------------------------------------------------------------------------------

DIFFERENTIATED = {
    "batch norm": (BatchNorm(), (0, 1)), "batch norm without parameters": (BatchNorm(scale=False, bias=False), (0, 1)),
    "batch norm with a scale": (BatchNorm(bias=False), (0, 1)), "layer norm": (LayerNorm(), (2,)),
    "layer norm over two axes": (LayerNorm((-2, -1)), (1, 2)), "instance norm": (InstanceNorm(), (1,)),
}


def by_formula(params, x, axes, epsilon=1e-5):
    """The definition, with the derivative of each operation."""
    centered = x - jnp.mean(x, axes, keepdims=True)
    y = centered / jnp.sqrt(jnp.mean(centered**2, axes, keepdims=True) + epsilon)
    return y * jnp.broadcast_to(params.get("scale", 1), x.shape) + jnp.broadcast_to(params.get("bias", 0), x.shape)


@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_derivatives_of_norms_are_those_of_the_definition(name, npr):
    """First and second derivatives, forward and reverse, under vmap too, with values and parameters in float64."""
    layer, axes = DIFFERENTIATED[name]
    with xjax.enable_x64():
        x, dx, ct = (npr.normal(2, 3, (3, 4, 5)) for _ in range(3))
        _, params = layer.init(xjax.random.key(0), x.shape)
        params, dparams = (tree_util.tree_map(lambda p: npr.normal(size=p.shape), params) for _ in range(2))

        def norm(params, x):
            if not layer.state:
                return layer.apply(params, x)
            y, _ = layer.apply_with_state(params, layer.init_state(x.shape), x, train=True)
            return y

        def derivatives(f):
            y, dy = xjax.jvp(f, (params, x), (dparams, dx))
            slopes = xjax.vjp(f, params, x)[1](ct)
            curvature = xjax.jvp(xjax.grad(lambda params, x: jnp.sum(jnp.sin(f(params, x))), (0, 1)), (params, x),
                                 (dparams, dx))[1]
            mapped = xjax.vmap(xjax.grad(lambda x: jnp.sum(ct * f(params, x))))(np.stack([x, 2 * x + 1]))
            return y, dy, slopes, curvature, mapped

        ours, expected = derivatives(norm), derivatives(lambda params, x: by_formula(params, x, axes))
        for a, b in zip(*map(tree_util.tree_leaves, (ours, expected)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_derivatives_of_running_statistics(npr):
    """The moments are results of the same function as y; their slopes are those of NumPy's mean and variance."""
    x = npr.normal(2, 3, (6, 4)).astype(np.float32)
    layer = BatchNorm(momentum=1.0, unbiased=False)
    state, params = layer.init_state(x.shape), {"scale": jnp.ones(4), "bias": jnp.zeros(4)}

    def of_state(name):
        return xjax.grad(lambda x: jnp.sum(layer.apply_with_state(params, state, x, train=True)[1][name]))(x)
    np.testing.assert_allclose(of_state("mean"), np.full(x.shape, 1 / 6), rtol=1e-6)
    np.testing.assert_allclose(of_state("var"), 2 * (x - x.mean(0)) / 6, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("layer", [LayerNorm(), GroupNorm(1), BatchNorm()], ids=lambda one: one.name)
def test_the_gradient_of_a_sum_of_normalised_values_is_zero(layer):
    # With deviations 1,000 times smaller than the mean, the rounding of the mean shifts all normalised values by 1e-4.
    x = (100 + 0.1 * np.random.default_rng(0).normal(size=(64, 64))).astype(np.float32)
    params, state = layer.init(None, x.shape)[1], layer.init_state(x.shape)

    def total(x):
        return jnp.sum(layer.apply_with_state(params, state, x, train=True)[0])

    grad = xjax.grad(total)(x)
    assert np.max(np.abs(grad)) < 20 * np.finfo(np.float32).eps / 0.1          # terms of the sum are 1 / 0.1
