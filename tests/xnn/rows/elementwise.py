"""Rows of layers without parameters: activations, changes of shape, branches, dropout."""

import math

import numpy as np

import xnn
from tests.xnn.rows.row import Row
from xjax import nn
from xnn import Dropout

X = np.ones((2, 3), np.float32)


def _softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


_tanh_gelu = np.vectorize(lambda v: 0.5 * v * (1 + math.tanh(0.7978845608028654 * (v + 0.044715 * v**3))))


def _selu(x):
    return 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x))


def plain(layer, value, shape=(4, 5), **settings):
    """A row of a layer without parameters."""
    return Row(layer, shape, lambda p, x, **extra: value(x, **extra), **settings)


ROWS = {
    "Identity": plain(xnn.Identity, lambda x: x),
    "Relu": plain(xnn.Relu, lambda x: np.maximum(x, 0)),
    "Tanh": plain(xnn.Tanh, np.tanh),
    "Sigmoid": plain(xnn.Sigmoid, lambda x: 1 / (1 + np.exp(-x))),
    "Elu": plain(xnn.Elu, lambda x: np.where(x > 0, x, np.expm1(x))),
    "LeakyRelu": plain(xnn.LeakyRelu, lambda x: np.where(x > 0, x, 0.01 * x)),
    "Selu": plain(xnn.Selu, _selu),
    "Gelu": plain(xnn.Gelu, _tanh_gelu),
    "Softplus": plain(xnn.Softplus, lambda x: np.log1p(np.exp(x))),
    "Exp": plain(xnn.Exp, np.exp),
    "Softmax": plain(xnn.Softmax, _softmax),
    "LogSoftmax": plain(xnn.LogSoftmax, lambda x: np.log(_softmax(x))),
    "leaky_relu": plain(xnn.elementwise(nn.leaky_relu, negative_slope=0.5), lambda x: np.where(x > 0, x, 0.5 * x)),
    "Flatten": plain(xnn.Flatten, lambda x: x.reshape(4, 10), (4, 5, 2)),
    "Reshape": plain(xnn.Reshape(2, 5), lambda x: x.reshape(4, 2, 5), (4, 10)),
    "Reshape, open": plain(xnn.Reshape(5, -1), lambda x: x.reshape(4, 5, 2), (4, 10)),
    "FanOut": plain(xnn.FanOut(2), lambda x: (x, x)),
    "FanInSum": plain(xnn.serial(xnn.FanOut(3), xnn.FanInSum), lambda x: 3 * x),
    "FanInConcat": plain(xnn.serial(xnn.FanOut(2), xnn.FanInConcat(1)), lambda x: np.concatenate([x, x], 1)),
    "residual": plain(xnn.residual(xnn.Tanh), lambda x: x + np.tanh(x)),
    "Dropout": plain(Dropout(0.5), lambda x: x, random=True),
    "Dropout, rate 0": plain(Dropout(0.0), lambda x: x),
}
WRONG = {
    "Dropout, rate": (lambda key: Dropout(1.0), ValueError, ["Dropout: rate", "1.0", "keep rate"]),
    "Dropout, negative": (lambda key: Dropout(-0.1), ValueError, ["[0, 1)", "-0.1"]),
    "Dropout, no rng": (lambda key: Dropout(0.5).apply((), X, train=True), TypeError,
                        ["Dropout: training needs random bits", "rng", "train=False"]),
    "Reshape, size": (lambda key: xnn.Reshape(3, 4).init(key, (2, 10)), TypeError,
                      ["Reshape: the number of elements differs", "10 per row", "(3, 4)"]),
    "Reshape, two open": (lambda key: xnn.Reshape(-1, -1), TypeError, ["more than one size is -1"]),
    "Flatten, open": (lambda key: xnn.Flatten.init(key, (2, -1, 3)), TypeError, ["Flatten", "(2, -1, 3)"]),
}
