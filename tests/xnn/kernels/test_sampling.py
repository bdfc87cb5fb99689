"""Kernels of infinitely wide networks against means over finite networks of the same layers.

The mean over n networks of width w differs from the limit by a sampling error and a bias. The error is about
``1 / sqrt(n w)`` of the kernel of equal inputs, times a factor of a few for deep networks; the bias is about
``depth / w``. With n w = 50,000 and w = 512 both are below 0.03, the tolerance.
"""

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn
from xjax import random
from xjax.nn.initializers import glorot_uniform, normal, variance_scaling
from xnn import Conv, Dense, Relu, Tanh, residual, serial
from xnn.kernels import empirical_kernel

WIDTH, NETWORKS = 512, 96
W = {"w_init": variance_scaling(1.5, "fan_in", "normal"), "b_init": normal(0.3)}
D = Dense(WIDTH, **W)
C = Conv(128, (3, 3), **W)
ROWS, IMAGES, TOKENS = (4, 6), (3, 5, 5, 2), (3, 6)

MODELS = {
    "default initializers": (serial(Dense(WIDTH), Relu, Dense(WIDTH), Relu, Dense(16)), ROWS),
    "uniform weights": (serial(Dense(WIDTH, w_init=glorot_uniform()), Relu, Dense(64, bias=False)), ROWS),
    "residual": (serial(D, residual(Relu, D), Relu, D), ROWS),
    "two residuals": (serial(D, xnn.repeat(residual(Relu, D), 2), Relu, D), ROWS),
    "gate": (serial(D, xnn.composite(lambda layers, x: layers.value(x) * layers.gate(x), "gate", value=D,
                                     gate=serial(D, xnn.Sigmoid)), D), ROWS),
    "branches": (serial(D, xnn.FanOut(2), xnn.parallel(serial(Relu, D), serial(Tanh, Dense(2 * WIDTH, **W))),
                        xnn.FanInConcat(), D), ROWS),
    "norm": (serial(D, xnn.LayerNorm(), Relu, D, xnn.RMSNorm(), Tanh, D), ROWS),
    "images flat": (serial(C, Relu, C, Relu, xnn.Flatten, Dense(64)), IMAGES),
    "images pooled": (serial(C, Relu, xnn.AvgPool((2, 2), strides=1), C, Relu, xnn.GlobalAvgPool(), Dense(64)), IMAGES),
    "images resized": (serial(C, Relu, xnn.Upsample(size=(4, 7), method="linear"), C, xnn.GlobalSumPool()), IMAGES),
    "images resized, nearest": (serial(C, Relu, xnn.Upsample(size=(4, 7)), C, Relu, xnn.Flatten, Dense(64)), IMAGES),
    "images padded": (serial(C, Relu, xnn.Pad(1, mode="reflect"), C, xnn.AdaptiveAvgPool((2, 2)), xnn.Flatten), IMAGES),
    "transposed": (serial(xnn.ConvTranspose(128, (3, 3), strides=2, **W), Relu, C, xnn.Flatten), IMAGES),
    "dilated groups": (serial(C, Relu, Conv(128, (3, 3), dilation=2, groups=2, **W), xnn.Flatten), IMAGES),
    "local": (serial(xnn.ConvLocal(128, (3, 3), **W), Relu, xnn.GlobalAvgPool(), Dense(64)), IMAGES),
    "tokens": (serial(xnn.Embedding(5, WIDTH), Conv(256, (2,), **W), Relu, xnn.GlobalAvgPool(), D), TOKENS),
    "positions kept": (serial(Conv(256, (3,), **W), Relu, Dense(256, **W)), (2, 4, 3)),
}
FUNCTIONS = [
    "Abs", "Elu", "Celu", "Erf", "ExactGelu", "Gaussian", "Gelu", "HardTanh", "LeakyRelu", "Mish", "QuickGelu",
    "Relu", "Relu6", "Selu", "Sigmoid", "Sign", "Silu", "Sin", "Softplus", "SoftShrink", "SoftSign", "Tanh"]
for _name in FUNCTIONS:
    _layer = getattr(xnn, _name)
    MODELS[_name] = serial(D, _layer if isinstance(_layer, xnn.Layer) else _layer(), D), ROWS
MODELS["powers"] = serial(D, xnn.RectifiedMonomial(2), D, xnn.Polynomial([0.2, 0.5, 0.1]), D), ROWS


def inputs(shape):
    rng = np.random.default_rng(1)
    return rng.integers(0, 5, shape) if shape == TOKENS else rng.normal(size=shape).astype(np.float32)


def means(layer, x, networks=NETWORKS):
    """The mean of both kernels over finite networks: [2, n, n, ...]."""
    kernels = empirical_kernel(layer.apply)

    @xjax.jit
    def of_key(key):
        return jnp.stack(kernels(layer.init(key, x.shape)[1], x))

    return np.mean([of_key(random.PRNGKey(i)) for i in range(networks)], 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_finite_networks(name):
    layer, shape = MODELS[name]
    x = inputs(shape)
    expected, mean = np.stack(layer.kernel(x)), means(layer, x)
    scale = np.max(np.abs(expected), tuple(range(1, expected.ndim)), keepdims=True)
    np.testing.assert_allclose(mean / scale, expected / scale, 0, 0.03)
