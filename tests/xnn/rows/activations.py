"""Rows of activations."""

import math

import numpy as np

import xnn
from tests.xnn.rows.row import KEY, LayerRow
from xjax import nn

X = np.ones((2, 3), np.float32)


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _softplus(x):
    return np.log1p(np.exp(x))


def _selu(x):
    return 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x))


def _sparse_plus(x):
    return np.where(x < -1, 0, np.where(x > 1, x, (x + 1) ** 2 / 4))


_exact_gelu = np.vectorize(lambda v: 0.5 * v * (1 + math.erf(v / math.sqrt(2))))
_tanh_gelu = np.vectorize(lambda v: 0.5 * v * (1 + math.tanh(0.7978845608028654 * (v + 0.044715 * v**3))))


def _prelu(p, x):
    return np.maximum(x, 0) + p["slope"] * np.minimum(x, 0)


def of_function(layer, value, **settings):
    """A row of an activation without parameters."""
    return LayerRow(layer, (4, 6), lambda p, x: value(x), **settings)


def gated(layer, gate):
    return of_function(layer, lambda x: x[:, :3] * gate(x[:, 3:]))


_erf = np.vectorize(math.erf)

ROWS = {
    "Abs": of_function(xnn.Abs, np.abs),
    "Sign": of_function(xnn.Sign, np.sign),
    "ABRelu": of_function(xnn.ABRelu(-0.5, 2.0), lambda x: np.where(x > 0, 2 * x, -0.5 * x)),
    "RectifiedMonomial": of_function(xnn.RectifiedMonomial(2), lambda x: np.maximum(x, 0) ** 2),
    "Erf": of_function(xnn.Erf(0.7, 1.3, 0.4), lambda x: 1.3 * _erf(0.7 * x) + 0.4),
    "Sin": of_function(xnn.Sin(0.7, 1.3, 0.4), lambda x: 1.3 * np.sin(0.7 * x + 0.4)),
    "Cos": of_function(xnn.Cos(0.7, 1.3, 0.4), lambda x: 1.3 * np.cos(0.7 * x + 0.4)),
    "Gaussian": of_function(xnn.Gaussian(0.7, 1.3), lambda x: 1.3 * np.exp(-0.7 * x**2)),
    "Polynomial": of_function(xnn.Polynomial([1.0, -2.0, 0.5]), lambda x: 1 - 2 * x + x**2 / 2),
    "Monomial": of_function(xnn.Monomial(3), lambda x: x**3),
    "Hermite": of_function(xnn.Hermite(2), lambda x: (x**2 - 1) / math.sqrt(2)),
    "Relu": of_function(xnn.Relu, lambda x: np.maximum(x, 0)),
    "Relu6": of_function(xnn.Relu6, lambda x: np.clip(x, 0, 6)),
    "LeakyRelu": of_function(xnn.LeakyRelu, lambda x: np.where(x > 0, x, 0.01 * x)),
    "leaky_relu": of_function(xnn.elementwise(nn.leaky_relu, negative_slope=0.5), lambda x: np.where(x > 0, x, x / 2)),
    "Elu": of_function(xnn.Elu, lambda x: np.where(x > 0, x, np.expm1(x))),
    "Celu": of_function(xnn.Celu, lambda x: np.where(x > 0, x, np.expm1(x))),
    "Selu": of_function(xnn.Selu, _selu),
    "Gelu": of_function(xnn.Gelu, _tanh_gelu),
    "ExactGelu": of_function(xnn.ExactGelu, _exact_gelu),
    "QuickGelu": of_function(xnn.QuickGelu, lambda x: x * _sigmoid(1.702 * x)),
    "Silu": of_function(xnn.Silu, lambda x: x * _sigmoid(x)),
    "Mish": of_function(xnn.Mish, lambda x: x * np.tanh(_softplus(x))),
    "Softplus": of_function(xnn.Softplus, _softplus),
    "Squareplus": of_function(xnn.Squareplus, lambda x: (x + np.sqrt(x * x + 4)) / 2),
    "SparsePlus": of_function(xnn.SparsePlus, _sparse_plus),
    "Tanh": of_function(xnn.Tanh, np.tanh),
    "TanhShrink": of_function(xnn.TanhShrink, lambda x: x - np.tanh(x)),
    "Sigmoid": of_function(xnn.Sigmoid, _sigmoid),
    "LogSigmoid": of_function(xnn.LogSigmoid, lambda x: np.log(_sigmoid(x))),
    "SparseSigmoid": of_function(xnn.SparseSigmoid, lambda x: np.clip((x + 1) / 2, 0, 1)),
    "SoftSign": of_function(xnn.SoftSign, lambda x: x / (1 + np.abs(x))),
    "HardTanh": of_function(xnn.HardTanh, lambda x: np.clip(x, -1, 1)),
    "HardSigmoid": of_function(xnn.HardSigmoid, lambda x: np.clip(x + 3, 0, 6) / 6),
    "HardSwish": of_function(xnn.HardSwish, lambda x: x * np.clip(x + 3, 0, 6) / 6),
    "HardShrink": of_function(xnn.HardShrink, lambda x: np.where(np.abs(x) > 0.5, x, 0)),
    "SoftShrink": of_function(xnn.SoftShrink, lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0)),
    "Exp": of_function(xnn.Exp, np.exp),
    "Softmax": of_function(xnn.Softmax, _softmax),
    "Softmin": of_function(xnn.Softmin, lambda x: _softmax(-x)),
    "LogSoftmax": of_function(xnn.LogSoftmax, lambda x: np.log(_softmax(x))),
    "Threshold": of_function(xnn.Threshold(0.3, -1.0), lambda x: np.where(x > 0.3, x, -1)),
    "PReLU": LayerRow(xnn.PReLU(), (4, 5), _prelu),
    "PReLU, per feature": LayerRow(xnn.PReLU(per_feature=True, slope=0.1), (2, 3, 5), _prelu),
    "RReLU": of_function(xnn.RReLU(0.1, 0.3), lambda x: np.where(x > 0, x, 0.2 * x), random=True),
    "GLU": gated(xnn.GLU, _sigmoid),
    "ReGLU": gated(xnn.ReGLU, lambda x: np.maximum(x, 0)),
    "GeGLU": gated(xnn.GeGLU, _tanh_gelu),
    "SwiGLU": gated(xnn.SwiGLU, lambda x: x * _sigmoid(x)),
    "Maxout": of_function(xnn.Maxout(3), lambda x: np.stack([x[:, :3].max(-1), x[:, 3:].max(-1)], -1)),
}
WRONG = {
    "GLU, odd": (lambda: xnn.GLU.init(KEY, (2, 3)), ValueError,
                 ["GLU: the number of features must be a multiple of 2", "(2, 3)", "Dense(2 * n)"]),
    "GLU, integers": (lambda: xnn.GLU.apply((), np.ones((2, 4), int)), TypeError, ["GLU", "floating-point"]),
    "SwiGLU, open": (lambda: xnn.SwiGLU.init(KEY, (2, -1)), TypeError, ["SwiGLU: init needs the shape", "(2, -1)"]),
    "Maxout, groups": (lambda: xnn.Maxout(2).apply((), X), ValueError, ["Maxout", "a multiple of 2", "(2, 3)"]),
    "Maxout, pieces": (lambda: xnn.Maxout(0), ValueError, ["Maxout: a group must have at least one feature"]),
    "PReLU, features": (lambda: xnn.PReLU(per_feature=True).apply({"slope": X[0, :2]}, X), TypeError,
                        ["PReLU: params['slope'] has another shape", "f32[2]", "slope [3]"]),
    "RReLU, limits": (lambda: xnn.RReLU(0.5, 0.1), ValueError, ["RReLU: lower must not be above upper", "0.5"]),
    "RReLU, no rng": (lambda: xnn.RReLU().apply((), X, train=True), TypeError,
                      ["RReLU: training needs random bits", "train=False"]),
}
