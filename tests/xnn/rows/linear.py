"""Rows of layers that are products with a matrix, and of embeddings."""

import numpy as np

import xnn
from tests.xnn.rows.row import KEY, LayerRow
from xjax import nn
from xnn import Attend, Bias, Bilinear, Dense, DenseGeneral, Einsum, Embedding, Scale

X = np.ones((3, 5), np.float32)


def _affine(p, x):
    return x @ p["w"] + p.get("b", 0)


def _bilinear(p, x, other):
    return np.einsum("...i,ijk,...j->...k", x, p["w"], other) + p.get("b", 0)


ROWS = {
    "Dense": LayerRow(Dense(3), (4, 5), _affine),
    "Dense, no bias": LayerRow(Dense(3, bias=False), (4, 5), _affine),
    "Dense, rank 3": LayerRow(Dense(2), (2, 4, 5), _affine),
    "Dense, initializers": LayerRow(Dense(3, w_init=nn.initializers.ones, b_init=nn.initializers.ones), (4, 5),
                                    _affine),
    "DenseGeneral": LayerRow(DenseGeneral((3, 2), (-2, -1)), (4, 3, 2, 5), lambda p, x: (
        np.tensordot(x, p["w"], 2) + p["b"])),
    "DenseGeneral, one axis": LayerRow(DenseGeneral(3, 1, bias=False), (4, 5, 2), lambda p, x: (
        x.swapaxes(1, 2) @ p["w"])),
    "Einsum": LayerRow(Einsum("...td,dhk->...htk", (5, 2, 3)), (2, 4, 5), lambda p, x: (
        np.einsum("btd,dhk->bhtk", x, p["w"]) + p["b"][:, None])),
    "Einsum, no bias": LayerRow(Einsum("bhk,hkd->bd", (2, 3, 4), bias=False), (4, 2, 3), lambda p, x: (
        np.einsum("bhk,hkd->bd", x, p["w"]))),
    "Einsum, by group": LayerRow(Einsum("bgi,gio->bgo", (2, 3, 4)), (4, 2, 3), lambda p, x: (
        np.einsum("bgi,gio->bgo", x, p["w"]) + p["b"])),
    "Bilinear": LayerRow(Bilinear(3), (4, 5), _bilinear, {"other": lambda npr: npr.normal(size=(4, 2))}),
    "Bilinear, no bias": LayerRow(Bilinear(3, bias=False), (2, 3, 5), _bilinear,
                                  {"other": lambda npr: npr.normal(size=(2, 3, 2))}),
    "Bias": LayerRow(Bias(), (4, 5), lambda p, x: x + p["b"]),
    "Bias, axes": LayerRow(Bias((-1, 1)), (2, 3, 2, 5), lambda p, x: x + p["b"][:, None]),
    "Scale": LayerRow(Scale(), (2, 3, 5), lambda p, x: x * p["scale"]),
    "Scale, axis": LayerRow(Scale(1, init=nn.initializers.constant(0.1)), (2, 3, 5),
                            lambda p, x: x * p["scale"][:, None]),
    "Embedding": LayerRow(Embedding(7, 3), (2, 4), lambda p, x: p["table"][x], below=7),
    "Attend": LayerRow(Attend(7), (2, 4, 3), lambda p, x: x @ p["table"].T),
}


def _params(layer, in_shape):
    return lambda: layer.init(KEY, in_shape)[1]


WRONG = {
    "Dense, bias": (lambda: Dense(2, bias=False, b_init=nn.initializers.ones), TypeError,
                    ["Dense: b_init needs a bias"]),
    "Dense, features": (lambda: Dense(2).apply(Dense(2).init(KEY, (-1, 4))[1], X), TypeError,
                        ["Dense: params['w'] has another shape than the input needs", "f32[3,5]", "f32[4,2]", "[5,2]"]),
    "Dense, open features": (lambda: Dense(2).init(KEY, (4, -1)), TypeError,
                             ["Dense: init needs the shape", "(4, -1)", "leading"]),
    "Dense, shape": (lambda: Dense(2).init(KEY, 4), TypeError, ["in_shape", "4"]),
    "Dense, scalar": (lambda: Dense(2).apply({}, np.float32(3)), TypeError, ["Dense", "at least 1 axis", "f32[]"]),
    "Dense, another layer": (lambda: xnn.serial(Dense(2, bias=False)).apply(
        (Dense(2).init(KEY, (-1, 5))[1],), X), TypeError, ["Dense: the params do not belong", "b f32[2]", "w [5,2]"]),
    "Embedding, floats": (lambda: Embedding(3, 2).apply({"table": X[:, :2]}, X), TypeError,
                          ["Embedding: the input must be integers", "f32[3,5]"]),
    "Attend, features": (lambda: Attend(3).apply({"table": X}, X[:, :2]), TypeError,
                         ["Attend: params['table'] has another shape", "f32[3,2]", "f32[3,5]", "[3,2]"]),
    "DenseGeneral, axis": (lambda: DenseGeneral(2, (1, 3)).init(KEY, (2, 3, 4)), TypeError,
                           ["DenseGeneral: the axes must be different axes", "(2, 3, 4)", "(1, 3)"]),
    "DenseGeneral, open": (lambda: DenseGeneral(2, (1, 2)).init(KEY, (2, -1, 4)), TypeError, ["known size"]),
    "DenseGeneral, twice": (lambda: DenseGeneral(2, (1, -1)).init(KEY, (2, 3)), TypeError, ["different axes"]),
    "Einsum, equation": (lambda: Einsum("btd,dk", (3, 4)), ValueError,
                         ["Einsum: the equation must name each axis", "'btd,dk'"]),
    "Einsum, shape": (lambda: Einsum("btd,dk->btk", (3, 4, 5)), ValueError, ["(3, 4, 5), of w"]),
    "Einsum, size": (lambda: Einsum("btd,dk->btk", (3, 4)).init(KEY, (2, 5, 6)), TypeError,
                     ["Einsum: the input does not match", "axis 'd' has size 6 in x, 3 in w", "(2, 5, 6)"]),
    "Einsum, rank": (lambda: Einsum("btd,dk->btk", (5, 4)).apply({}, X), TypeError, ["x has 2 axes"]),
    "Bilinear, no shape": (lambda: Bilinear(2).init(KEY, (3, 5)), TypeError, ["shape of `other`", "other=shape"]),
    "Bilinear, batch": (lambda: Bilinear(2).apply({}, X, X[:2]), TypeError,
                        ["Bilinear: the leading sizes of the inputs differ", "f32[3,5]", "f32[2,5]"]),
    "Bilinear, sizes": (lambda: Bilinear(2).apply({"w": np.ones((5, 4, 2)), "b": np.ones(2)}, X, X), TypeError,
                        ["Bilinear: params['w'] has another shape", "[5,5,2]"]),
    "Bias, axis": (lambda: Bias(2).init(KEY, (3, 5)), TypeError, ["Bias: the axes must be different", "(3, 5)"]),
    "Scale, features": (lambda: Scale().apply({"scale": X[0, :2]}, X), TypeError,
                        ["Scale: params['scale'] has another shape", "scale [5]"]),
}
