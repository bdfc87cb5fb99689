"""The image models: published sizes, PyTorch's values, training with running statistics, precision, errors."""

from pathlib import Path

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn
from tests.compare import assert_close, assert_same
from tests.xnn.drawn_params import drawn_params
from xjax import random, tree_util
from xjax.tree_util import tree_map_with_path
from xnn.layer import init_types
from xnn.models import (
    ConvNeXt,
    ConvNeXtConfig,
    LeNet,
    LeNetConfig,
    ResNet,
    ResNetConfig,
    UNet,
    UNetConfig,
    convnext_tiny,
    resnet18,
    resnet50,
)

PEER = dict(np.load(Path(__file__).parent / "peers" / "image_models.npz"))   # written by peers/image_models.py
SMALL = {
    "LeNet": LeNet(LeNetConfig(classes=4, features=(2, 3), hidden=(6, 5))),
    "ResNet": ResNet(ResNetConfig(((1, 3), (2, 4)), classes=5)),
    "ResNet, bottleneck": ResNet(ResNetConfig(((1, 2), (2, 3)), bottleneck=True, classes=5, small_images=True)),
    "ConvNeXt": ConvNeXt(ConvNeXtConfig(((1, 3), (2, 4)), classes=5, patch=2)),
    "UNet": UNet(UNetConfig(2, (2, 3, 4))),
}


FIRST = {"LeNet": "conv1", "UNet": "down0/conv1"}                  # for the others: "stem/conv"


def path_text(path):
    return "/".join(str(part.key) for part in path)


def peer_tree(name, kind, like):
    """A tree of PyTorch's arrays with the structure of the tree `like`."""
    start = f"{name}/{kind}/"
    arrays = {key.removeprefix(start): value for key, value in PEER.items() if key.startswith(start)}
    tree = tree_map_with_path(lambda path, leaf: arrays.pop(path_text(path)), like)
    assert not arrays
    tree_util.tree_map(lambda one, other: np.testing.assert_equal(one.shape, other.shape), tree, like)
    return tree


def make_params(model, in_shape):
    return xjax.jit(lambda key: model.init(key, in_shape)[1])(random.key(0))


def training_step(model):
    """``(params, state, x) -> (sum(sin(y)), (y, new state)), gradients``."""
    def loss(params, state, x):
        y, moved = model.apply_with_state(params, state, x, train=True)
        return jnp.sum(jnp.sin(y)), (y, moved)
    return xjax.jit(xjax.value_and_grad(loss, has_aux=True))


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.slow] * ("," in name or name in ("ConvNeXt", "UNet"))) for name in SMALL])
def test_values_are_those_of_pytorch_and_training_decreases_the_loss(name):
    """About ten layers, each a sum of at most 50 products in float32, and norms that divide by 0.1 or more."""
    model, x = SMALL[name], PEER[f"{name}/x"]
    params = peer_tree(name, "params", init_types(model, x.shape)[1])
    state, step = model.init_state(x.shape), training_step(model)
    (first, (trained, moved)), grads = step(params, state, x)
    assert_close(trained, PEER[f"{name}/trained"])
    path = f"{FIRST.get(name, 'stem/conv')}/w"
    assert_close(xnn.params.select(grads, path)[path], PEER[f"{name}/gradient"])
    assert_close(moved, peer_tree(name, "state", state))
    y, kept = xjax.jit(model.apply_with_state)(params, moved, x)
    assert_close(y, PEER[f"{name}/y"])
    assert_same(kept, moved, tol=0)
    for _ in range(10):
        params = tree_util.tree_map(lambda w, g: np.asarray(w) - np.float32(0.003) * np.asarray(g), params, grads)
        (last, (_, moved)), grads = step(params, moved, x)
    assert last < first - 0.1 * abs(first)


COUNTS = {
    "LeNet": (LeNet(), (-1, 28, 28, 1), 61_706),
    "ResNet-18": (resnet18(), (-1, 224, 224, 3), 11_689_512),
    "ResNet-18, small images": (resnet18(classes=10, small_images=True), (-1, 32, 32, 3), 11_173_962),
    "ResNet-50": (resnet50(), (-1, 224, 224, 3), 25_557_032),
    "ConvNeXt-T": (convnext_tiny(), (-1, 224, 224, 3), 28_589_128),
}


@pytest.mark.parametrize("name", COUNTS)
def test_numbers_of_parameters_are_the_published_ones(name):
    model, in_shape, count = COUNTS[name]
    shape, params = init_types(model, in_shape)
    assert shape[0] == -1 and len(shape) == 2
    assert sum(np.prod(leaf.shape) for leaf in tree_util.tree_leaves(params)) == count


def test_stages_of_a_resnet_halve_the_image():
    stages = resnet50().layers
    assert init_types(stages[:-1], (-1, 224, 224, 3))[0] == (-1, 7, 7, 2048)
    assert init_types(stages[:1], (-1, 224, -1, 3))[0] == (-1, 56, -1, 64)


def test_names_of_the_parameters():
    params = init_types(resnet18(), (-1, 32, 32, 3))[1]
    assert set(params) == {"stem", "stage0", "stage1", "stage2", "stage3", "head"}
    assert set(params["stage1"]["block0"]) == {"conv1", "conv2", "norm1", "norm2", "shortcut"}
    params = init_types(convnext_tiny(), (-1, 32, 32, 3))[1]
    assert set(params["stage1"]) == {"downsample", "block0", "block1", "block2"}


def test_a_unet_takes_images_of_odd_sizes():
    model = SMALL["UNet"]
    shape, params = init_types(model, (-1, 9, 7, 1))
    y, _ = xjax.eval_shape(model.apply_with_state, params, model.init_state((1, 9, 7, 1)), jnp.ones((1, 9, 7, 1)))
    assert shape == (-1, 9, 7, 2) and y.shape == (1, 9, 7, 2)
    assert init_types(model, (-1, -1, -1, 1))[0] == (-1, -1, -1, 2)


def test_a_block_starts_as_its_shortcut(key, npr):
    model = ResNet(ResNetConfig(((1, 3),), small_images=True, zero_init=True))
    x = jnp.asarray(npr.normal(size=(2, 4, 4, 3)), jnp.float32)
    _, params = model.init(key, x.shape)
    block = model.layers["stage0/block0"]
    y, _ = xjax.jit(lambda params: block.apply_with_state(params, block.init_state(x.shape), x, train=True))(
        params["stage0"]["block0"])
    np.testing.assert_array_equal(y, np.maximum(x, 0))


def test_drop_path_grows_with_the_depth():
    model = ConvNeXt(ConvNeXtConfig(((1, 2), (2, 2), (1, 2)), drop_path=0.3))
    blocks = ("stage0/block0", "stage1/block0", "stage1/block1", "stage2/block0")
    rates = [model.layers[f"{block}/drop"].settings["rate"] for block in blocks]
    np.testing.assert_allclose(rates, [0, 0.1, 0.2, 0.3])


WHOLE_BATCH = {**SMALL, "ResNet": ResNet(ResNetConfig(((1, 3), (2, 4)), classes=5, axis_name="batch")),
               "UNet": UNet(UNetConfig(2, (2, 3, 4), axis_name="batch"))}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["LeNet", "ResNet", "ConvNeXt", "UNet"])
def test_models_in_half_precision_with_remat_and_on_two_devices(name):
    model, x = SMALL[name], np.concatenate([PEER[f"{name}/x"]] * 2)
    params, state = make_params(model, x.shape), model.init_state(x.shape)

    (_, (y, moved)), grads = training_step(model)(params, state, x)
    (_, (half, _)), _ = training_step(xnn.with_precision(model, "bfloat16"))(params, state, x)
    np.testing.assert_allclose(half, y, atol=0.1 * float(np.max(np.abs(y))))      # about 20 roundings to 2^-9
    other = training_step(xnn.with_remat(model))(params, state, x)[1]
    assert_close(other, grads)
    step = xjax.pmap(lambda x: WHOLE_BATCH[name].apply_with_state(params, state, x, train=True), axis_name="batch")
    many, states = step(x.reshape(2, -1, *x.shape[1:]))
    assert_close(many.reshape(y.shape), y)
    assert_close(tree_util.tree_map(lambda leaf: leaf[1], states), moved)


def test_errors_name_the_place():
    with pytest.raises(ValueError, match="LeNet: unknown activation 'gelu'"):
        LeNet(LeNetConfig(activation="gelu"))
    model = SMALL["ResNet"]
    params = drawn_params(model, (1, 32, 32, 3))
    with pytest.raises(TypeError, match=r"Conv: params\['w'\]") as caught:
        model.apply(params, jnp.ones((1, 32, 32, 1)), state=model.init_state((1, 32, 32, 3)))
    assert any("in named['stem'] -> named" in note for note in caught.value.__notes__)
    with pytest.raises(TypeError, match="unexpected keyword argument 'clases'"):
        resnet18(clases=10)
