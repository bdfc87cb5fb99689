"""Kernels of infinitely wide networks against means over finite networks of the same layers.

The mean over networks of width w differs from the limit by a sampling error and by a bias ``b / w + O(1 / w**2)``.
``(4 m(w) - m(w / 4)) / 3``, for the means m over networks of two widths, has no bias of first order. Its standard error
is computed from the samples. The difference from the limit may be `ERRORS` standard errors, plus `BIAS` of the kernel
of equal inputs for the terms of second order. The standard error must be below `SHARP` of it, so that the bound is not
wide enough for a wrong rule.
"""

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn
from xjax import random
from xjax.nn.initializers import glorot_uniform, normal
from xnn import Conv, Dense, GraphConvolution, Relu, Tanh, residual, serial
from xnn.graph import APPNP, GIN, SGC, ChebConv, Graph, GraphPool, GraphSAGE, batch
from xnn.kernels import empirical_kernel, normal_weights

WIDTH, NETWORKS = 128, 512
ERRORS, BIAS, SHARP = 4.5, 0.003, 0.025
W = normal_weights(1.5**0.5, 0.3)
INIT = {"w_init": W["w_init"]}
ROWS, IMAGES, TOKENS = (4, 6), (3, 5, 5, 2), (3, 6)

FUNCTIONS = [
    "Abs", "Elu", "Celu", "Erf", "ExactGelu", "Gaussian", "Gelu", "HardTanh", "LeakyRelu", "Mish", "QuickGelu",
    "Relu", "Relu6", "Selu", "Sigmoid", "Sign", "Silu", "Sin", "Softplus", "SoftShrink", "SoftSign", "Tanh"]
HEAVY_TAILS = {"powers": 0.05, "attention, Gaussian products": 0.05}   # products of Gaussian values: wider than SHARP
# For the error of 64 terms of the expansion of a function with a kink; the bounds of `expansion_error` are 1 % to 7 %.
INEXACT = {"HardTanh": 0.01, "Relu6": 0.01, "SoftShrink": 0.01, "Selu": 0.01}


def function(name):
    """The layer of an elementwise function."""
    layer = getattr(xnn, name)
    return layer if isinstance(layer, xnn.Layer) else layer()


def models(width):
    """Name -> (model, shape of its inputs)."""
    D, C = Dense(width, **W), Conv(width // 2, (3, 3), **W)
    return {
        "default initializers": (serial(Dense(width), Relu, Dense(width), Relu, Dense(width)), ROWS),
        "uniform weights": (serial(Dense(width, w_init=glorot_uniform()), Relu, Dense(width, bias=False)), ROWS),
        "residual": (serial(D, residual(Relu, D), Relu, D), ROWS),
        "two residuals": (serial(D, xnn.repeat(residual(Relu, D), 2), Relu, D), ROWS),
        "gate": (serial(D, xnn.composite(lambda layers, x: layers.value(x) * layers.gate(x), "gate", value=D,
                                         gate=serial(D, xnn.Sigmoid)), D), ROWS),
        "branches": (serial(D, xnn.FanOut(2), xnn.parallel(serial(Relu, D), serial(Tanh, Dense(2 * width, **W))),
                            xnn.FanInConcat(), D), ROWS),
        "norm": (serial(D, xnn.LayerNorm(), Relu, D, xnn.RMSNorm(), Tanh, D), ROWS),
        "images flat": (serial(C, Relu, C, Relu, xnn.Flatten, Dense(width)), IMAGES),
        "images pooled": (serial(C, Relu, xnn.AvgPool((2, 2), strides=1), C, Relu, xnn.GlobalAvgPool(), Dense(width)),
                          IMAGES),
        "images resized": (serial(C, Relu, xnn.Upsample(size=(4, 7), method="linear"), C, xnn.GlobalSumPool()), IMAGES),
        "images resized, nearest": (serial(C, Relu, xnn.Upsample(size=(4, 7)), C, Relu, xnn.Flatten, Dense(width)),
                                    IMAGES),
        # The time grows with the number of outputs, each of which is a backward pass.
        "images padded": (serial(C, Relu, xnn.Pad(1, mode="reflect"), Conv(width // 8, (3, 3), **W),
                                 xnn.AdaptiveAvgPool((2, 2)), xnn.Flatten), IMAGES),
        "transposed": (serial(xnn.ConvTranspose(width // 4, (3, 3), strides=2, **W), Relu,
                              Conv(width // 4, (3, 3), **W), xnn.GlobalAvgPool()), IMAGES),
        "dilated groups": (serial(C, Relu, Conv(width // 8, (3, 3), dilation=2, groups=2, **W), xnn.Flatten), IMAGES),
        "local": (serial(xnn.ConvLocal(width // 4, (3, 3), **W), Relu, xnn.GlobalAvgPool(), Dense(width)), IMAGES),
        "tokens": (serial(xnn.Embedding(5, width), Conv(width // 2, (2,), **W), Relu, xnn.GlobalAvgPool(), D), TOKENS),
        "learned positions": (serial(xnn.Embedding(5, width), xnn.LearnedPositions(6, init=normal(1.0)), Relu, D,
                                     xnn.GlobalAvgPool()), TOKENS),
        "sinusoidal positions": (serial(xnn.Embedding(5, width), xnn.SinusoidalPositions(), D, Relu,
                                        xnn.GlobalAvgPool(), D), TOKENS),
        "attention": (serial(D, xnn.LimitAttention(width, 4, **W), Relu, xnn.GlobalAvgPool(), D), (3, 5, 4)),
        "attention, Gaussian products": (serial(
            D, xnn.LimitAttention(width, width // 8, scaling="root", weights="identity", **W),
            xnn.GlobalAvgPool()), (3, 5, 4)),
        "positions kept": (serial(Conv(width // 2, (3,), **W), Relu, Dense(width // 2, **W)), (2, 4, 3)),
        "parameters of features": (serial(D, xnn.Scale(), xnn.Bias(), xnn.PReLU(per_feature=True), xnn.LayerScale(0.5),
                                          D), ROWS),
        "gate of halves": (serial(Dense(2 * width, **W), xnn.ReGLU, D), ROWS),
        "reshaped": (serial(C, xnn.Reshape(25, width // 2), Relu, xnn.GlobalAvgPool(), D), IMAGES),
        "powers": (serial(D, xnn.RectifiedMonomial(2), D, xnn.Polynomial([0.2, 0.5, 0.1]), D), ROWS),
        **{name: (serial(D, function(name), D), ROWS) for name in FUNCTIONS},
    }


def inputs(shape):
    rng = np.random.default_rng(1)
    return rng.integers(0, 5, shape) if shape == TOKENS else rng.normal(size=shape).astype(np.float32)


def compare(errors_of, inexact=0.0, sharp=SHARP):
    """Args: errors_of: width -> differences of both kernels from the limit, over its scale: [networks, 2, ...]."""
    wide, narrow = errors_of(WIDTH), errors_of(WIDTH // 4)
    error = (4 * np.mean(wide, 0) - np.mean(narrow, 0)) / 3
    deviation = np.sqrt((16 * np.var(wide, 0) + np.var(narrow, 0)) / 9 / NETWORKS)
    assert deviation.max() < sharp
    excess = np.max((np.abs(error) - BIAS - inexact) / np.maximum(deviation, 1e-6))
    assert excess < ERRORS, f"{excess:.1f} standard errors of at most {deviation.max():.4f}"


def over_scale(drawn, expected):
    """The differences of kernels of networks from the limit, over its largest value for each of the two kernels."""
    scale = np.max(np.abs(expected), tuple(range(1, expected.ndim)), keepdims=True)
    samples = np.stack([drawn(random.PRNGKey(i)) for i in range(NETWORKS)])
    return (samples - expected) / np.where(scale > 0, scale, 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", models(WIDTH))
def test_finite_networks(name):
    def errors_of(width):
        layer, shape = models(width)[name]
        x, kernels = inputs(shape), empirical_kernel(layer.apply)
        return over_scale(xjax.jit(lambda key: jnp.stack(kernels(layer.init(key, x.shape)[1], x))),
                          np.stack(layer.kernel(x)))

    compare(errors_of, INEXACT.get(name, 0.0), HEAVY_TAILS.get(name, SHARP))


GRAPH = batch([Graph.from_edges([0, 1, 2], [1, 2, 0]), Graph.from_edges([0, 1], [1, 2]), Graph.from_edges([0], [1])])


def graph_models(width):
    """Name -> model."""
    D, G = Dense(width, **W), GraphConvolution(width, norm="symmetric", **W)
    return {
        "convolutions": serial(G, Relu, G, Relu, D),
        "isomorphism": serial(GIN(serial(D, Relu, D)), Relu, GIN(serial(D, Relu, D)), GraphPool("sum"), D),
        "mean of neighbours": serial(GraphSAGE(width, **INIT), Relu, GraphSAGE(width, "sum", own=False, **INIT)),
        "polynomials": serial(ChebConv(width, 3, **INIT), Relu, D),
        "simple convolution": serial(D, Relu, SGC(width, 2, **W)),
        "propagated predictions": serial(D, Relu, D, APPNP(3)),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", graph_models(WIDTH))
def test_finite_networks_on_graphs(name):
    x = inputs((8, 5))

    def errors_of(width):
        layer = graph_models(width)[name]

        def both(key):
            params = layer.init(key, x.shape)[1]
            y = layer.apply(params, x, GRAPH)
            leaves = xjax.tree.leaves(xjax.jacrev(lambda p: layer.apply(p, x, GRAPH)[:, :16])(params))
            flat = [jnp.reshape(leaf, (*leaf.shape[:2], -1)) for leaf in leaves]
            ntk = sum(jnp.einsum("ico,jco->ij", leaf, leaf) for leaf in flat) / 16
            return jnp.stack([y @ y.T / y.shape[1], ntk])

        return over_scale(xjax.jit(both), np.stack(layer.kernel(x, graph=GRAPH)))

    compare(errors_of)
