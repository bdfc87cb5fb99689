"""Rows of features of times and labels, and of layers that depend on a condition."""

import numpy as np

from tests.xnn.rows.norm import standard
from tests.xnn.rows.row import KEY, LayerRow
from xjax import nn, random
from xnn import (
    AdaLN,
    AdaLNZero,
    Dense,
    FiLM,
    FourierFeatures,
    GroupNorm,
    LabelEmbedding,
    SinusoidalFeatures,
    Tanh,
    serial,
)

X = np.ones((2, 3), np.float32)


def _alternately(angles):
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(*angles.shape[:-1], -1)


def _sinusoidal(features, base=10_000.0, scale=1.0):
    frequencies = scale / base ** (np.arange(0, features, 2) / features)
    return lambda p, x: _alternately(np.asarray(x, np.float64)[..., None] * frequencies)


def _fourier(p, x):
    """The frequencies are float32, those of the key."""
    frequencies = 0.1 * np.asarray(random.normal(random.key(7), (2,), np.float32), np.float64)
    return _alternately(2 * np.pi * np.asarray(x, np.float64)[..., None] * frequencies)


def _silu(x):
    return x / (1 + np.exp(-x))


def _maps(p, x, condition, n):
    y = (condition @ p["w"] + p["b"]).reshape(*condition.shape[:-1], *[1] * (x.ndim - condition.ndim), -1)
    return np.split(y, n, -1)


def _film(p, x, condition):
    scale, shift = _maps(p, x, condition, 2)
    return x * (1 + scale) + shift


def _ada_ln(p, x, condition):
    return _film(p["film"], standard(x, -1, 1e-6), _silu(condition))


def _ada_gn(p, x, condition):
    groups = standard(x.reshape(*x.shape[:-1], 2, -1), (1, 2, 4)).reshape(x.shape)
    return _film(p["film"], groups * p["norm"]["scale"] + p["norm"]["bias"], condition)


def _ada_ln_zero(p, x, condition):
    scale, shift, gate = _maps(p["maps"], x, _silu(condition), 3)
    y = standard(x, -1, 1e-6) * (1 + scale) + shift
    return x + gate * np.tanh(y @ p["layer"][0]["w"] + p["layer"][0]["b"])


def _condition(*shape):
    return {"condition": lambda npr: npr.normal(size=shape)}


ROWS = {
    "SinusoidalFeatures": LayerRow(SinusoidalFeatures(6), (4,), _sinusoidal(6)),
    "SinusoidalFeatures, scaled": LayerRow(SinusoidalFeatures(4, base=100.0, scale=0.5), (4, 2), _sinusoidal(
        4, 100.0, 0.5)),
    "FourierFeatures": LayerRow(FourierFeatures(4, scale=0.1, seed=7), (4,), _fourier),
    "LabelEmbedding": LayerRow(LabelEmbedding(3, 5), (16,), lambda p, x: p["table"][x], below=4, random=True),
    "LabelEmbedding, no dropout": LayerRow(LabelEmbedding(3, 5, dropout=0.0), (4, 2), lambda p, x: p["table"][x],
                                           below=4),
    "FiLM": LayerRow(FiLM(), (2, 3, 4, 5), _film, _condition(2, 3)),
    "FiLM, positions": LayerRow(FiLM(activation=nn.silu), (2, 4, 5), lambda p, x, condition: _film(
        p, x, _silu(condition)), _condition(2, 4, 3)),
    "AdaLN": LayerRow(AdaLN(), (2, 4, 5), _ada_ln, _condition(2, 3)),
    "AdaLN, groups": LayerRow(AdaLN(GroupNorm(2), activation=None), (2, 3, 2, 4), _ada_gn, _condition(2, 3)),
    "AdaLNZero": LayerRow(AdaLNZero(serial(Dense(5), Tanh)), (2, 4, 5), _ada_ln_zero, _condition(2, 3)),
}


def _film_of(condition):
    return FiLM().apply({"w": np.ones((3, 6), np.float32), "b": np.ones(6, np.float32)}, X, condition)


WRONG = {
    "SinusoidalFeatures, odd": (lambda: SinusoidalFeatures(5), ValueError,
                                ["SinusoidalFeatures: sines and cosines", "SinusoidalFeatures(6)"]),
    "FourierFeatures, odd": (lambda: FourierFeatures(5), ValueError, ["FourierFeatures(6)"]),
    "SinusoidalFeatures, bools": (lambda: SinusoidalFeatures(4).apply((), X > 0), TypeError,
                                  ["SinusoidalFeatures: the input must be floating-point"]),
    "LabelEmbedding, rate": (lambda: LabelEmbedding(3, 4, dropout=1.0), ValueError, ["LabelEmbedding: rate"]),
    "LabelEmbedding, no key": (
        lambda: LabelEmbedding(3, 4).apply({"table": np.ones((4, 4))}, np.zeros(2, np.int32), train=True), TypeError,
        ["LabelEmbedding: training needs random bits", "fold_in"]),
    "FiLM, shape of the condition": (lambda: FiLM().init(KEY, (2, 3)), TypeError, ["FiLM", "condition"]),
    "FiLM, batch of the condition": (lambda: _film_of(np.ones((1, 3), np.float32)), TypeError,
                                     ["FiLM: the condition must have the leading axes of x", "f32[1,3]", "[2, n]"]),
    "FiLM, size of the condition": (lambda: _film_of(np.ones((2, 4), np.float32)), TypeError,
                                    ["FiLM: params['w'] has another shape", "f32[2,4]", "w [4,6]"]),
    "AdaLNZero, another shape": (lambda: AdaLNZero(Dense(4)).init(KEY, (2, 3), condition=(2, 3)), TypeError,
                                 ["AdaLNZero: Dense changes the shape", "(2, 3)", "(2, 4)"]),
}
