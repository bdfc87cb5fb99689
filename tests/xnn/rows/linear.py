"""Rows of layers that are products with a matrix, and of embeddings."""

import numpy as np

import xnn
from tests.xnn.rows.row import Row
from xjax import nn
from xnn import Attend, Dense, Embedding

X = np.ones((3, 5), np.float32)


def _affine(p, x):
    return x @ p["w"] + p.get("b", 0)


ROWS = {
    "Dense": Row(Dense(3), (4, 5), _affine),
    "Dense, no bias": Row(Dense(3, bias=False), (4, 5), _affine),
    "Dense, rank 3": Row(Dense(2), (2, 4, 5), _affine),
    "Dense, initializers": Row(Dense(3, w_init=nn.initializers.ones, b_init=nn.initializers.ones), (4, 5), _affine),
    "Embedding": Row(Embedding(7, 3), (2, 4), lambda p, x: p["table"][x], below=7),
    "Attend": Row(Attend(7), (2, 4, 3), lambda p, x: x @ p["table"].T),
}


def _params(layer, in_shape):
    return lambda key: layer.init(key, in_shape)[1]


WRONG = {
    "Dense, features": (lambda key: Dense(2).apply(Dense(2).init(key, (-1, 4))[1], X), TypeError,
                        ["Dense: params['w'] has another shape than the input needs", "f32[3,5]", "f32[4,2]", "[5,2]"]),
    "Dense, open features": (lambda key: Dense(2).init(key, (4, -1)), TypeError,
                             ["Dense: init needs the shape", "(4, -1)", "leading"]),
    "Dense, shape": (lambda key: Dense(2).init(key, 4), TypeError, ["in_shape", "4"]),
    "Dense, scalar": (lambda key: Dense(2).apply({}, np.float32(3)), TypeError, ["Dense", "at least 1 axis", "f32[]"]),
    "Dense, another layer": (lambda key: xnn.serial(Dense(2, bias=False)).apply(
        (Dense(2).init(key, (-1, 5))[1],), X), TypeError, ["Dense: the params are not those", "b f32[2]", "w [5,2]"]),
    "Embedding, floats": (lambda key: Embedding(3, 2).apply({"table": X[:, :2]}, X), TypeError,
                          ["Embedding: the input must be integers", "f32[3,5]"]),
    "Attend, features": (lambda key: Attend(3).apply({"table": X}, X[:, :2]), TypeError,
                         ["Attend: params['table'] has another shape", "f32[3,2]", "f32[3,5]", "[3,2]"]),
}
