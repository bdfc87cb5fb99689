"""Rows of layers that draw random numbers in training, and of normalised weights."""

import numpy as np

import xnn
from tests.xnn.rows.elementwise import plain
from tests.xnn.rows.row import KEY, LayerRow
from xnn import AlphaDropout, Dense, Dropout, GaussianDropout, GaussianNoise, StochasticDepth

X = np.ones((2, 3), np.float32)


def identity(layer, shape=(4, 5)):
    return plain(layer, lambda x: x, shape, random=True)


def _weight_norm(p, x):
    v = p["w"]["v"]
    return x @ (p["w"]["g"] * v / np.sqrt((v * v).sum(0))) + p["b"]


def _whole_weight_norm(p, x):
    v = p["w"]["v"]
    return x @ (p["w"]["g"] * v / np.sqrt((v * v).sum())) + p["b"]


def _spectral_norm(p, x):
    w, b = p["dense"]["w"], p["dense"]["b"]
    return (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5) @ (w / np.linalg.norm(w, 2)) + b


ROWS = {
    "Dropout": identity(Dropout(0.5)),
    "Dropout, rate 0": plain(Dropout(0.0), lambda x: x),
    "Dropout, spatial": identity(Dropout(0.5, broadcast=(1, 2)), (4, 2, 3, 5)),
    "StochasticDepth": identity(StochasticDepth(0.5), (8, 3, 2)),
    "AlphaDropout": identity(AlphaDropout(0.5)),
    "AlphaDropout, features": identity(AlphaDropout(0.5, broadcast=(1,)), (4, 3, 5)),
    "GaussianNoise": identity(GaussianNoise(0.5)),
    "GaussianDropout": identity(GaussianDropout(0.3)),
    "weight_norm": LayerRow(xnn.weight_norm(Dense(3)), (4, 5), _weight_norm),
    "weight_norm, whole": LayerRow(xnn.weight_norm(Dense(3), axis=None), (4, 5), _whole_weight_norm),
    # With so many iterations the singular vectors have converged, so their derivatives do not affect σ.
    "spectral_norm": LayerRow(xnn.spectral_norm(xnn.named(
        norm=xnn.BatchNorm(scale=False, bias=False), dense=Dense(3)), steps=60), (4, 5), _spectral_norm,
                              by_example=False),
}


def _apply(layer, params=()):
    return lambda: layer.apply(params, X, rng=KEY, train=True)


def _no_rng(layer):
    return (lambda: layer.apply((), X, train=True), TypeError,
            [f"{layer.name}: training needs random bits", "rng", "train=False"])


WRONG = {
    "Dropout, rate": (lambda: Dropout(1.0), ValueError, ["Dropout: rate", "1.0", "keep rate"]),
    "Dropout, negative": (lambda: Dropout(-0.1), ValueError, ["[0, 1)", "-0.1"]),
    "Dropout, no rng": _no_rng(Dropout(0.5)),
    "Dropout, axes": (_apply(Dropout(0.5, broadcast=(1, 2))), TypeError,
                      ["Dropout: `broadcast` must be axes of a dense input", "f32[2,3]", "(1, 2)"]),
    "Dropout, sparse": (lambda: Dropout(0.5, broadcast=(1,)).apply((), xnn.CSR.from_dense(X), rng=KEY, train=True),
                        TypeError, ["sparse f32[2,3]", "leave `broadcast` out"]),
    "StochasticDepth, rate": (lambda: StochasticDepth(2), ValueError, ["StochasticDepth: rate", "2"]),
    "StochasticDepth, no rng": _no_rng(StochasticDepth(0.5)),
    "AlphaDropout, rate": (lambda: AlphaDropout(1), ValueError, ["AlphaDropout: rate"]),
    "AlphaDropout, no rng": _no_rng(AlphaDropout(0.5)),
    "GaussianNoise, std": (lambda: GaussianNoise(-1.0), ValueError, ["GaussianNoise: std", "-1.0"]),
    "GaussianNoise, no rng": _no_rng(GaussianNoise(0.5)),
    "GaussianDropout, rate": (lambda: GaussianDropout(1.0), ValueError, ["GaussianDropout: rate", "1.0"]),
    "GaussianDropout, no rng": _no_rng(GaussianDropout(0.5)),
    "weight_norm, pattern": (lambda: xnn.weight_norm(Dense(2), "kernel").init(KEY, (-1, 3)), ValueError,
                             ["weight_norm: the pattern matches no leaf", "'kernel'"]),
    "weight_norm, axis": (lambda: xnn.weight_norm(Dense(2), axis=2).init(KEY, (-1, 3)), ValueError,
                          ["weight_norm: a weight must have at least 3 axes", "(3, 2)"]),
    "weight_norm, g": (lambda: xnn.weight_norm(Dense(2)).apply({"w": {"g": X[0], "v": X.T}, "b": X[:, 0]}, X),
                       TypeError, ["weight_norm: g must have one entry", "(3,)", "(3, 2)"]),
    "spectral_norm, vector": (lambda: xnn.spectral_norm(Dense(2), "b").init(KEY, (-1, 3)), ValueError,
                              ["spectral_norm: a weight must have at least 2 axes", "b"]),
    "spectral_norm, steps": (lambda: xnn.spectral_norm(Dense(2), steps=0), ValueError,
                             ["spectral_norm: steps must be at least 1"]),
    "spectral_norm, no state": (lambda: xnn.spectral_norm(Dense(2)).apply({}, X), TypeError,
                                ["spectral_norm: evaluation needs the running statistics"]),
    "spectral_norm, state": (
        lambda: xnn.spectral_norm(Dense(2)).apply({"w": X.T, "b": X[:, 0]}, X, state={"u": {}}), TypeError,
        ["spectral_norm: needs state", "'layer'"]),
    "spectral_norm, state of other weights": (
        lambda: xnn.spectral_norm(Dense(2)).apply({"w": X.T, "b": X[:, 0]}, X, state={"u": {"v": X}, "layer": ()}),
        TypeError, ["spectral_norm: the state belongs to other weights", "w", "v"]),
}
