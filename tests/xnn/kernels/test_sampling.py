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
from xnn import Conv, Dense, GraphConvolution, Relu, Tanh, residual, serial
from xnn.graph import APPNP, GIN, SGC, Graph, GraphPool, batch
from xnn.kernels import empirical_kernel

WIDTH, NETWORKS = 512, 96
W = {"w_init": variance_scaling(1.5, "fan_in", "normal"), "b_init": normal(0.3)}
D = Dense(WIDTH, **W)
C = Conv(256, (3, 3), **W)
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
    "learned positions": (serial(xnn.Embedding(5, WIDTH), xnn.LearnedPositions(6, init=normal(1.0)), Relu, D,
                                 xnn.GlobalAvgPool()), TOKENS),
    "sinusoidal positions": (serial(xnn.Embedding(5, WIDTH), xnn.SinusoidalPositions(), D, Relu, xnn.GlobalAvgPool(),
                                    D), TOKENS),
    "attention": (serial(D, xnn.LimitAttention(WIDTH, 8, **W), Relu, xnn.GlobalAvgPool(), D), (3, 5, 4)),
    "attention, Gaussian products": (serial(D, xnn.LimitAttention(256, 16, scaling="root", weights="identity", **W),
                                            xnn.GlobalAvgPool()), (3, 5, 4)),
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


GRAPH = batch([Graph.from_edges([0, 1, 2], [1, 2, 0]), Graph.from_edges([0, 1], [1, 2]), Graph.from_edges([0], [1])])
G = GraphConvolution(WIDTH, norm="symmetric", **W)
GRAPH_MODELS = {
    "convolutions": serial(G, Relu, G, Relu, D),
    "isomorphism": serial(GIN(serial(D, Relu, D)), Relu, GIN(serial(D, Relu, D)), GraphPool("sum"), D),
    "learned weight of a node": serial(GIN(serial(D, Relu, D), train_eps=True), GraphPool("mean")),
    "simple convolution": serial(D, Relu, SGC(WIDTH, 2, **W)),
    "propagated predictions": serial(D, Relu, D, APPNP(3)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAPH_MODELS)
def test_finite_networks_on_graphs(name):
    layer, x = GRAPH_MODELS[name], inputs((8, 5))
    expected = np.stack(layer.kernel(x, graph=GRAPH))

    def both(params):
        y = layer.apply(params, x, GRAPH)
        leaves = xjax.tree.leaves(xjax.jacrev(lambda p: layer.apply(p, x, GRAPH)[:, :16])(params))
        ntk = sum(jnp.einsum("ico,jco->ij", *[jnp.reshape(leaf, (*leaf.shape[:2], -1))] * 2) for leaf in leaves) / 16
        return jnp.stack([y @ y.T / y.shape[1], ntk])

    drawn = xjax.jit(lambda key: both(layer.init(key, x.shape)[1]))
    mean = np.mean([drawn(random.PRNGKey(i)) for i in range(NETWORKS)], 0)
    scale = np.max(np.abs(expected), (1, 2), keepdims=True)
    np.testing.assert_allclose(mean / scale, expected / scale, 0, 0.03)
