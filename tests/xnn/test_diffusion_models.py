"""Models with the inputs `time` and `label`: PyTorch's values, published sizes, the inputs, precision, errors."""

from pathlib import Path

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn
from tests.compare import assert_close
from tests.refusals import assert_refused
from tests.xnn.drawn_params import drawn_params
from xjax import random, tree_util
from xnn import AdaLNZero, FeedForward, serial, shared, with_shared
from xnn.layer import init_types
from xnn.models import DiT, DiTConfig, UNet, UNetConfig

PEER = dict(np.load(Path(__file__).parent / "peers" / "diffusion.npz"))      # written by peers/diffusion.py
SMALL = {
    "DiT": DiT(DiTConfig(image=4, patch=2, outputs=2, features=8, hidden=12, layers=2, heads=2, labels=3)),
    "UNet": UNet(UNetConfig(2, (4, 8), norm="group", groups=2, attention=(1,), heads=2, time="sinusoidal", labels=3)),
}
SLOW_UNET = ["DiT", pytest.param("UNet", marks=pytest.mark.slow)]
SHAPES = {"DiT": (2, 4, 4, 3), "UNet": (2, 6, 4, 1)}


def peer(name):
    """(x, time, label, parameters with the structure of the model's, y, (path, gradient))."""
    params = {key.removeprefix(f"{name}/params/"): value for key, value in PEER.items() if "/params/" in key}
    types = init_types(SMALL[name], SHAPES[name])[1]
    paths = xnn.params.paths(types)
    made = tree_util.tree_unflatten(tree_util.tree_structure(types), [params[path] for path in paths])
    tree_util.tree_map(lambda one, other: np.testing.assert_equal(one.shape, other.shape), made, types)
    gradient = next((key.partition("/gradient/")[2], value) for key, value in PEER.items()
                    if key.startswith(f"{name}/gradient/"))
    return *(PEER[f"{name}/{key}"] for key in ("x", "time", "label")), made, PEER[f"{name}/y"], gradient


@pytest.mark.parametrize("name", SLOW_UNET)
def test_values_and_gradients_are_those_of_pytorch(name):
    x, time, label, params, want, (path, gradient) = peer(name)

    def total(params):
        y = SMALL[name].apply(params, x, time=time, label=label)
        return jnp.sum(jnp.sin(y)), y

    (_, y), grads = xjax.jit(xjax.value_and_grad(total, has_aux=True))(params)
    assert_close(y, want)                                           # about ten layers, of at most 50 products each
    assert_close(xnn.params.select(grads, path)[path], gradient)


# The paper counts the embeddings of positions too, which are constants here: one vector for each patch.
@pytest.mark.parametrize(("features", "layers", "heads", "patch", "count"), [
    (1152, 28, 16, 2, 675_129_632), (384, 12, 6, 2, 32_963_360), (768, 12, 12, 4, 130_475_648),
], ids=["DiT-XL/2", "DiT-S/2", "DiT-B/4"])
def test_parameter_counts_are_those_published(features, layers, heads, patch, count):
    model = DiT(DiTConfig(patch=patch, features=features, hidden=4 * features, layers=layers, heads=heads))
    shape, params = init_types(model, (-1, 32, 32, 4))
    assert shape == (-1, 32, 32, 8)
    positions = (32 // patch) ** 2 * features
    assert sum(leaf.size for leaf in tree_util.tree_leaves(params)) + positions == count


def test_describe_counts_the_cost_with_shapes_of_the_inputs():
    text = xnn.describe(SMALL["DiT"], SHAPES["DiT"], time=(2,), label=jnp.zeros(2, "int32"))
    assert "?" not in text.splitlines()[-1]


@pytest.mark.parametrize("name", SLOW_UNET)
def test_a_label_that_is_left_out_is_the_null_label_and_one_time_is_for_all(name):
    x, time, _, params, *_ = peer(name)
    apply = xjax.jit(SMALL[name].apply)
    y = apply(params, x, time=time[0])
    np.testing.assert_array_equal(y, apply(params, x, time=np.repeat(time[:1], 2), label=np.array([3, 3])))
    assert not np.allclose(y, apply(params, x, time=time[0], label=1))


def test_training_drops_labels():
    """With a rate near 1 the labels of all images are dropped."""
    model = UNet(UNetConfig(1, (4,), norm=False, labels=3, label_dropout=0.999999))
    x, label = jnp.ones((2, 3, 3, 1)), jnp.array([0, 1])
    params = drawn_params(model, x.shape)
    dropped = model.apply(params, x, label=label, rng=random.key(0), train=True)
    assert_close(dropped, model.apply(params, x))
    assert not np.allclose(dropped, model.apply(params, x, label=label))


@pytest.mark.parametrize("name", ["UNet", pytest.param("DiT", marks=pytest.mark.slow)])
def test_models_start_without_the_condition(name):
    """The maps of a condition start at zero; a DiT then also returns zeros."""
    model, x = SMALL[name], np.random.default_rng(0).normal(size=SHAPES[name]).astype(np.float32)
    _, params = xjax.jit(lambda key: model.init(key, SHAPES[name]))(random.key(0))
    apply = xjax.jit(model.apply)
    one, other = (apply(params, x, time=time, label=label) for time, label in ((3, 1), (500, 2)))
    np.testing.assert_array_equal(one, other)
    assert np.any(one) == (name == "UNet")


@pytest.mark.parametrize(("options", "inputs"), [
    ({}, ()), ({"time": "fourier"}, ("time",)), ({"labels": 2}, ("label",)),
    ({"time": "sinusoidal", "labels": 2}, ("time", "label"))])
def test_a_unet_has_the_inputs_of_its_config(options, inputs):
    model = UNet(UNetConfig(1, (4, 8), **options))
    assert model.extra_inputs == (*inputs, "row_mask")
    shape, params = init_types(model, (-1, -1, -1, 1))
    assert shape == (-1, -1, -1, 1)
    network = params["network"] if inputs else params
    assert {"down0", "bottom", "up0", "merge0", "head"} <= set(network)
    assert ("film" in network["down0"]) == bool(inputs)


@pytest.mark.parametrize("name", SLOW_UNET)
def test_half_precision_keeps_times(name):
    """Steps of 1 below 1000 differ in bfloat16, which has 8 bits, because times are not rounded."""
    x, _, label, params, *_ = peer(name)
    half = xnn.with_precision(SMALL[name], "bfloat16")
    y = {time: xjax.jit(half.apply)(params, x, time=time, label=label) for time in (998, 999)}
    assert not np.array_equal(y[998], y[999])
    for time in (jnp.float32(999), jnp.full(len(x), 999.0)):
        np.testing.assert_array_equal(xjax.jit(half.apply)(params, x, time=time, label=label), y[999])
    whole = xjax.jit(SMALL[name].apply)(params, x, time=999, label=label)
    np.testing.assert_allclose(y[999], whole, atol=0.1 * float(np.max(np.abs(whole))))   # about 20 roundings to 2^-9
    remat = xnn.with_remat(SMALL[name])
    assert_close(xjax.jit(remat.apply)(params, x, time=999, label=label), whole)


def test_blocks_can_share_weights():
    """The maps of the condition are those of each place, the feed-forward network is one."""
    block = AdaLNZero(shared("network", FeedForward(4, 6)))
    model, plain = with_shared(serial(block, block)), serial(*[AdaLNZero(FeedForward(4, 6))] * 2)
    x, condition = np.ones((2, 3, 4), np.float32), np.ones((2, 5), np.float32)
    params = drawn_params(model, x, condition=condition)
    assert set(params["shared"]) == {"network"} and params["body"][0]["layer"] == ()
    copies = tuple({**part, "layer": params["shared"]["network"]} for part in params["body"])
    np.testing.assert_array_equal(model.apply(params, x, condition=condition),
                                  plain.apply(copies, x, condition=condition))


def test_attention_of_a_unet_is_at_its_resolutions():
    model = UNet(UNetConfig(1, (4, 8, 8), norm=False, attention=(0, 2)))
    params = init_types(model, (-1, 8, 8, 1))[1]
    assert {name for name, part in params.items() if "attention" in part} == {"down0", "merge0", "bottom"}


def test_errors():
    model, x = SMALL["UNet"], jnp.ones(SHAPES["UNet"])
    params = drawn_params(model, x.shape)
    for call, exc, words in [
        (lambda: model.apply(params, x), TypeError, ["UNet: takes 1 extra input", "time, label=None"]),
        (lambda: model.apply(params, x, time=jnp.ones(3)), TypeError,
         ["UNet: `time` must have one", "f32[3]", "(2,)"]),
        (lambda: UNet(UNetConfig(1, time="fourrier")), ValueError, ["UNet", "time", "fourier"]),
        (lambda: UNet(UNetConfig(1, norm="layer")), ValueError, ["UNet", "norm", "group"]),
        (lambda: UNet(UNetConfig(1, norm=False, time="sinusoidal")).apply({}, x, label=1), TypeError,
         ["no input `label`"]),
        (lambda: DiT(DiTConfig(features=6, heads=2)), ValueError, ["DiT: sines and cosines", "8 features"]),
        (lambda: DiT(DiTConfig(image=5)), ValueError, ["DiT: the image size must be a multiple"]),
    ]:
        assert_refused(call, exc, words)
