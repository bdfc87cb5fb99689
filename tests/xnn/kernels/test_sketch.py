"""Features whose inner products approximate a kernel."""

import numpy as np
import pytest

import xjax
import xnn
from xjax import random
from xjax.nn.initializers import normal
from xnn import Conv, Dense, Relu, serial
from xnn.kernels import sketched_features, tiled_kernel

MODELS = {
    "dense": (serial(Dense(64, b_init=normal(0.5)), Relu, Dense(64), Relu, Dense(1)), (6, 10)),
    "other functions": (serial(Dense(64), xnn.Tanh, xnn.Dropout(0.5), Dense(64, bias=False), xnn.ExactGelu, Dense(1)),
                        (6, 10)),
    "pooled": (serial(Conv(16, (3, 3)), Relu, Conv(16, (3, 3), strides=2, padding="CIRCULAR"), Relu,
                      xnn.GlobalAvgPool(), Dense(1)), (5, 6, 6, 2)),
    "flat": (serial(Conv(16, (3,)), Relu, xnn.AvgPool(2), Conv(16, (2,), dilation=2), Relu, xnn.Flatten, Dense(1)),
             (5, 9, 2)),
    "parameters of features": (serial(Dense(64), xnn.Bias(init=normal(0.5)), Relu, xnn.LayerScale(0.7),
                                      xnn.GaussianNoise(0.1), Dense(64), xnn.Scale(), Relu, Dense(1)), (6, 10)),
    "masked": (serial(xnn.MaskRows(), Conv(16, (3,)), Relu, xnn.Reshape(3, 3, 16), xnn.Reshape(9, 16),
                      xnn.GlobalAvgPool(), Dense(1)), (5, 9, 2)),
}


# The fast set has one parameterization of each model, in turn.
@pytest.mark.parametrize("name, parameterization", [
    pytest.param(name, one, marks=[pytest.mark.slow] * (i % 2 != j))
    for i, name in enumerate(MODELS) for j, one in enumerate(("standard", "ntk"))])
def test_inner_products(name, parameterization):
    layer, shape = MODELS[name]
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    mask = {"row_mask": np.arange(9) < np.arange(5, 10)[:, None]} if name == "masked" else {}
    exact = layer.kernel(x, parameterization=parameterization, **mask)
    errors = {}
    for size in (64, 1024):
        mean = np.mean([[f @ f.T for f in sketched_features(
            layer, random.key(i), nngp_features=size, ntk_features=size, parameterization=parameterization)(x, **mask)]
            for i in range(6)], 0)
        errors[size] = [np.max(abs(a - b)) / np.max(b) for a, b in zip(mean, exact, strict=True)]
    # Six maps with 1,024 features: 1 / sqrt(6,144) = 0.013 of the largest entry for one factor. An NTK of two layers
    # has products of four, which doubles the deviation; the largest of 25 entries deviates by 2.5 of it: 0.07.
    assert max(errors[1024]) < 0.12
    assert sum(errors[1024]) < sum(errors[64])


def test_the_map_is_fixed_by_the_key():
    layer, shape = MODELS["dense"]
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    features = sketched_features(layer, random.key(0), nngp_features=32, ntk_features=16)
    whole, part = features(x), features(x[2:4])
    np.testing.assert_allclose(whole.ntk[2:4], part.ntk, 1e-5, 1e-6)
    again = sketched_features(layer, random.key(0), nngp_features=32, ntk_features=16)(x)
    np.testing.assert_array_equal(again.ntk, whole.ntk)
    np.testing.assert_allclose(xjax.jit(features)(x).nngp, whole.nngp, 1e-5)
    assert sketched_features(layer, random.key(0), nngp_features=32, get="nngp")(x).ntk is None


def test_regression_with_features():
    rng = np.random.default_rng(0)
    layer = serial(Dense(64), Relu, Dense(1))
    x, others = rng.normal(size=(400, 5)).astype(np.float32), rng.normal(size=(100, 5)).astype(np.float32)
    target = lambda x: np.sin(x[:, :1]) + x[:, 1:2] ** 2
    k, across = tiled_kernel(layer, x, get="ntk"), tiled_kernel(layer, others, x, get="ntk")
    scale = np.mean(np.diagonal(k)) * 1e-3
    exact = across @ np.linalg.solve(k + scale * np.eye(400), target(x))
    features = sketched_features(layer, random.key(0), nngp_features=2048, ntk_features=2048)
    a, b = features(x).ntk, features(others).ntk
    sketched = b @ np.linalg.solve(a.T @ a + scale * np.eye(a.shape[1]), a.T @ target(x))
    error = lambda y: np.mean((y - target(others)) ** 2)
    assert error(sketched) < 1.3 * error(exact) + 1e-3


def test_errors():
    x = np.ones((2, 4, 4, 1), np.float32)
    with pytest.raises(TypeError, match="MaxPool.kernel"):
        sketched_features(serial(Conv(4, (3, 3)), xnn.MaxPool((2, 2)), xnn.Flatten), random.key(0))(x)
    with pytest.raises(ValueError, match="output of the model has positions"):
        sketched_features(Conv(4, (3, 3)), random.key(0))(x)
    with pytest.raises(ValueError, match="nngp_features"):
        sketched_features(Dense(1), random.key(0), nngp_features=0)
    with pytest.raises(TypeError, match="PReLU has no random features"):
        sketched_features(serial(Dense(4), xnn.PReLU()), random.key(0))(x[:, 0, :, 0])
    with pytest.raises(TypeError, match="no features"):
        sketched_features(serial(Dense(4), xnn.LayerNorm()), random.key(0))(x[:, 0, :, 0])
