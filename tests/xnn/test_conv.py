"""Convolutions, pools and resizing layers: PyTorch's values, open sizes, initial values, models that contain them."""

import functools
from pathlib import Path

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn
from tests.compare import assert_same
from tests.xnn.drawn_params import drawn_params
from xjax import random
from xnn import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    AvgPool,
    BatchNorm,
    Conv,
    ConvLocal,
    ConvTranspose,
    Dense,
    DepthwiseConv,
    Flatten,
    GlobalAvgPool,
    MaxPool,
    Pad,
    PixelShuffle,
    PixelUnshuffle,
    Relu,
    Upsample,
    named,
    residual,
    serial,
)
from xnn.layer import init_types

PEER = dict(np.load(Path(__file__).parent / "peers" / "conv.npz"))      # written by tests/xnn/peers/conv.py
AS_IN_PYTORCH = {
    "conv, one axis": Conv(4, 3, strides=2, padding=1),
    "conv": Conv(4, (3, 2), strides=(2, 1), padding=(1, 0)),
    "conv, three axes": Conv(3, (2, 3, 1), padding=(0, 1, 0), bias=False),
    "conv, dilated groups": Conv(6, (3, 3), dilation=2, padding=2, groups=2),
    "conv, same": Conv(4, (4, 3)),
    "conv, circular": Conv(3, 3, padding="CIRCULAR"),
    "conv, reflect": Conv(3, 5, padding="REFLECT"),
    "depthwise": DepthwiseConv((3, 3), multiplier=2),
    "transposed": ConvTranspose(4, (3, 3), strides=2, padding=1, output_padding=1),
    "transposed, one axis": ConvTranspose(2, 4, strides=3, padding=0),
    "transposed, dilated groups": ConvTranspose(6, (2, 3), strides=2, dilation=2, groups=2, padding=1),
    "max pool": MaxPool((3, 3), strides=2, padding=1),
    "max pool, dilated": MaxPool(2, strides=1, dilation=3),
    "average pool": AvgPool((3, 2), strides=2, padding=1),
    "average pool, inside": AvgPool((3, 3), strides=2, padding=1, count_include_pad=False),
    "adaptive average": AdaptiveAvgPool((3, 7)),
    "adaptive average, size kept": AdaptiveAvgPool((None, 4)),
    "adaptive max": AdaptiveMaxPool((2, 1, 3)),
    "nearest": Upsample(3),
    "nearest, other sizes": Upsample(size=(5, 4)),
    "bilinear": Upsample(size=(7, 3), method="linear"),
    "bilinear, fractional": Upsample(1.5, method="linear"),
    "bilinear, smooth": Upsample(size=(3, 7), method="linear", antialias=True),
    "bicubic": Upsample(size=(7, 4), method="cubic"),
    "bicubic, smooth": Upsample(size=(3, 9), method="cubic", antialias=True),
    "shuffle": PixelShuffle(2),
    "unshuffle": PixelUnshuffle(3),
    "pad, replicate": Pad(((0, 3), (1, 2)), mode="edge"),
    "pad, circular": Pad(((0, 1), (2, 1)), mode="wrap"),
    "pad, cropped": Pad(((1, -2), (-1, 2)), value=0.5),
}


def arrays_of(name):
    return {key.rpartition("/")[2]: value for key, value in PEER.items() if key.rpartition("/")[0] == name}


def params_of(name):
    return {key: value for key, value in arrays_of(name).items() if key in ("w", "b")}


@functools.cache
def as_in_pytorch():
    """All cases as one program, which compiles sooner than one for each."""
    def step(layer, params, x):
        y, transpose = xjax.vjp(layer.apply, params, x)
        return y, *transpose(jnp.cos(y))                                # of sum(sin(y))

    inputs = {name: (params_of(name) or (), arrays_of(name)["x"]) for name in AS_IN_PYTORCH}
    return xjax.jit(lambda inputs: {name: step(layer, *inputs[name]) for name, layer in AS_IN_PYTORCH.items()})(inputs)


@pytest.mark.parametrize("name", AS_IN_PYTORCH)
def test_values_and_gradients_are_those_of_pytorch(name):
    arrays = arrays_of(name)
    y, grads, dx = as_in_pytorch()[name]
    got = {"y": y, "dx": dx, **{f"d{key}": grads[key] for key in params_of(name)}}
    for key, value in got.items():
        # Sums of at most 100 products of numbers near 1, in float32: 100 * 2^-24.
        np.testing.assert_allclose(value, arrays[key], rtol=1e-5, atol=1e-5, err_msg=key)


def test_every_array_of_pytorch_is_compared():
    assert {key.rsplit("/", 1)[0] for key in PEER} == set(AS_IN_PYTORCH)


OPEN = {
    "Conv": (Conv(4, (3, 3), strides=2), (-1, -1, 9, 3), (-1, -1, 5, 4)),
    "Conv, valid": (Conv(4, (3, 3), padding="VALID"), (2, 5, -1, 3), (2, 3, -1, 4)),
    "ConvTranspose": (ConvTranspose(4, 3, strides=2), (-1, -1, 3), (-1, -1, 4)),
    "ConvLocal": (ConvLocal(4, 3), (-1, 5, 3), (-1, 5, 4)),
    "MaxPool": (MaxPool((2, 2)), (-1, -1, 9, 3), (-1, -1, 4, 3)),
    "AdaptiveAvgPool": (AdaptiveAvgPool((2, None)), (-1, -1, -1, 3), (-1, 2, -1, 3)),
    "GlobalAvgPool": (GlobalAvgPool(), (-1, -1, -1, 3), (-1, 3)),
    "Upsample": (Upsample(1.5), (-1, -1, 3, 3), (-1, -1, 4, 3)),
    "PixelShuffle": (PixelShuffle(2), (-1, -1, 3, 4), (-1, -1, 6, 1)),
    "PixelUnshuffle": (PixelUnshuffle(2), (-1, -1, 4, 1), (-1, -1, 2, 4)),
    "Pad": (Pad((1, (0, -2))), (-1, -1, 3, 4), (-1, -1, 1, 4)),
    "in a model": (serial(Conv(4, 3, strides=2), residual(Conv(4, 3), Relu), MaxPool(2), Dense(2)), (-1, -1, 3),
                   (-1, -1, 2)),
}


@pytest.mark.parametrize("name", OPEN)
def test_open_spatial_sizes_stay_open(name, key):
    layer, in_shape, out_shape = OPEN[name]
    assert init_types(layer, in_shape)[0] == out_shape
    closed = tuple(7 if n < 0 else n for n in in_shape) if name != "PixelUnshuffle" else (7, 8, 4, 1)
    shape, params = init_types(layer, closed)
    assert shape == xjax.eval_shape(layer.apply, params, jnp.zeros(closed)).shape
    assert all(n in (-1, m) for n, m in zip(out_shape, shape, strict=True))


@pytest.mark.parametrize("layer", [Conv(8, (3, 3)), MaxPool((2, 2)), AdaptiveAvgPool((2, 2)), ConvLocal(2, (2, 2)),
                                   ConvTranspose(2, (2, 2))], ids=lambda layer: layer.name)
def test_any_number_of_batch_axes(layer, key, npr):
    x = npr.normal(size=(2, 3, 4, 5, 3)).astype(np.float32)
    params = drawn_params(layer, x.shape)
    apply = xjax.jit(layer.apply)
    y = np.asarray(apply(params, x))
    assert y.shape == init_types(layer, x.shape)[0]
    np.testing.assert_allclose(y[1, 2], apply(params, x[1, 2]), rtol=1e-5, atol=1e-6)


def test_causal_outputs_depend_on_no_later_input(key, npr):
    layer = Conv(3, 3, padding="CAUSAL", dilation=2)
    x = jnp.asarray(npr.normal(size=(7, 2)), jnp.float32)
    params = drawn_params(layer, x.shape)
    depends = np.abs(xjax.jit(xjax.jacobian(lambda x: layer.apply(params, x)))(x)).sum((1, 3)) > 0
    np.testing.assert_array_equal(depends, [[j in (i, i - 2, i - 4) for j in range(7)] for i in range(7)])


@pytest.mark.parametrize(("layer", "fan_in"), [
    (Conv(500, (3, 3)), 36), (Conv(600, (2, 2), groups=2), 8), (DepthwiseConv((4, 4), multiplier=200), 16),
    (ConvLocal(300, (2, 1)), 8)], ids=lambda value: getattr(value, "name", None))
def test_weights_have_the_variance_of_lecun(layer, fan_in, key):
    w = layer.init(key, (1, 4, 4, 4))[1]["w"]
    np.testing.assert_allclose(np.var(w) * fan_in, 1, rtol=0.05)       # 5,000 numbers: a deviation of 2 %


def test_each_position_of_a_local_convolution_is_drawn_by_itself(key):
    w = ConvLocal(2, 2).init(key, (1, 4, 3))[1]["w"]
    assert len(np.unique(w)) == w.size


@pytest.mark.parametrize("dtype", ["bfloat16", pytest.param("float16", marks=pytest.mark.slow)])
def test_windows_of_many_positions_in_half_precision(dtype):
    """A sum of ones in bfloat16 stays at 256, and float16 ends at 65504."""
    x = jnp.full((1, 64, 64, 1), 100, dtype)
    means = [AvgPool((64, 64)), AvgPool((64, 64), padding="SAME", count_include_pad=False), xnn.AdaptiveAvgPool((1, 1))]
    *all_means, total = xjax.jit(lambda x: [layer.apply((), x) for layer in (*means, xnn.SumPool((8, 8)))])(x)
    assert [(mean.dtype, float(mean.ravel()[0])) for mean in all_means] == [(x.dtype, 100)] * 3
    assert total.dtype == x.dtype and float(total.ravel()[0]) == 6400


def test_bins_keep_infinities_to_themselves():
    x = jnp.array([1.0, 2.0, jnp.inf, 4.0])[None, :, None]
    np.testing.assert_array_equal(AdaptiveAvgPool(2).apply((), x).ravel(), [1.5, np.inf])
    np.testing.assert_array_equal(AdaptiveMaxPool(2).apply((), -x).ravel(), [-1, -4])


def test_positionwise_convolutions_generate(key):
    """A window of one position needs no cache; a larger one is refused."""
    assert Conv(3, 1).positionwise and Conv(3, (1, 1), groups=1).positionwise
    assert not Conv(3, 1, strides=2).positionwise and not Conv(3, 1, padding=1).positionwise
    model = serial(Conv(3, 1), Dense(2))
    params = drawn_params(model, (1, 4, 2))
    y, _ = model.apply_with_cache(params, model.init_cache(1, 4), jnp.ones((1, 1, 2)))
    assert y.shape == (1, 1, 2)
    with pytest.raises(TypeError, match="Conv: the layer has no cache"):
        Conv(3, 3).apply_with_cache({}, (), jnp.ones((1, 1, 2)))


MODEL = named(conv=Conv(4, (3, 3), strides=2), norm=BatchNorm(), relu=Relu, depthwise=DepthwiseConv((3, 3)),
              up=ConvTranspose(3, (2, 2), strides=2), pool=AvgPool((2, 2)), flat=Flatten, head=Dense(2))


def test_a_model_is_described(key):
    text = xnn.describe(MODEL, (-1, 8, 8, 3))
    assert "Conv(features=4, window=(3, 3), strides=2)" in text and "w f32[3,3,3,4]" in text
    assert f"{2 * 16 * 27 * 4:,}" in text                              # 16 positions, 27 products, 4 features
    assert repr(ConvLocal(2, 3, w_init=xjax.nn.initializers.ones)) == "ConvLocal(features=2, window=3, w_init=ones)"


@pytest.mark.slow
@pytest.mark.parametrize("around", [lambda model: xnn.with_precision(model, "bfloat16"), xnn.with_remat],
                         ids=["precision", "remat"])
def test_precision_and_remat_in_a_training_step(around, key, npr):
    x = jnp.asarray(npr.normal(size=(4, 8, 8, 3)), jnp.float32)
    _, params = MODEL.init(key, x.shape)
    state = MODEL.init_state(x.shape)

    def step(model):
        def loss(params):
            y, moved = model.apply_with_state(params, state, x, train=True)
            return jnp.sum(jnp.sin(y)), moved
        return xjax.jit(xjax.value_and_grad(loss, has_aux=True))(params)

    (value, moved), grads = step(MODEL)
    (other, other_moved), other_grads = step(around(MODEL))
    # In bfloat16 each of about ten layers rounds to 2^-9; the largest gradients are near 10.
    np.testing.assert_allclose(other, value, rtol=0.05, atol=0.1)
    assert_same((other_grads, other_moved), (grads, moved), like="bfloat16", tol=1.5)


def test_an_ensemble_and_rows_of_a_batch(key, npr):
    """`vmap` over parameters, and `repeat`, which stacks them."""
    model = xnn.repeat(residual(Conv(3, (3, 3)), Relu), 2)
    x = npr.normal(size=(2, 4, 4, 3)).astype(np.float32)

    @xjax.jit
    def computed(key, x):
        params = xjax.vmap(lambda key: model.init(key, x.shape)[1])(random.split(key, 3))
        one = xjax.tree.map(lambda leaf: leaf[1], params)
        return xjax.vmap(model.apply, (0, None))(params, x)[1], model.apply(one, x)

    np.testing.assert_allclose(*computed(key, x), rtol=1e-5, atol=1e-5)
