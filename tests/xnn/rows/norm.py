"""Rows of normalisation layers."""

import numpy as np

from tests.xnn.rows.row import KEY, LayerRow
from xjax.nn import initializers
from xnn import BatchNorm, GroupNorm, InstanceNorm, LayerNorm, LayerScale, RMSNorm

X = np.ones((2, 3), np.float32)


def standard(x, axes, epsilon=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def _affine(p, y):
    return y * p.get("scale", 1) + p.get("bias", 0)


def _layer_norm(p, x):
    return _affine(p, standard(x, -1))


def _group_norm(groups):
    def value(p, x):
        split = x.reshape(*x.shape[:-1], groups, -1)
        return _affine(p, standard(split, (*range(1, x.ndim - 1), x.ndim)).reshape(x.shape))
    return value


def _batch_norm(p, x):
    return _affine(p, standard(x, tuple(range(x.ndim - 1))))


ROWS = {
    "LayerNorm": LayerRow(LayerNorm(), (4, 5), _layer_norm),
    "LayerNorm, axes": LayerRow(LayerNorm((-1, 1), epsilon=0.1), (2, 3, 2, 5), lambda p, x: (
        standard(x, (1, 3), 0.1) * p["scale"][:, None] + p["bias"][:, None])),
    "LayerNorm, plain": LayerRow(LayerNorm(scale=False, bias=False), (4, 5), _layer_norm),
    "RMSNorm": LayerRow(RMSNorm(), (2, 3, 5), lambda p, x: (
        x / np.sqrt(np.mean(x * x, -1, keepdims=True) + 1e-6) * p["scale"])),
    "RMSNorm, offset": LayerRow(RMSNorm(offset=1.0), (2, 3, 5), lambda p, x: (
        x / np.sqrt(np.mean(x * x, -1, keepdims=True) + 1e-6) * (1 + p["scale"]))),
    "GroupNorm": LayerRow(GroupNorm(2), (2, 4, 2, 6), _group_norm(2)),
    "GroupNorm, rank 2": LayerRow(GroupNorm(3), (4, 6), _group_norm(3)),
    "InstanceNorm": LayerRow(InstanceNorm(), (2, 4, 2), _group_norm(2)),
    "InstanceNorm, affine": LayerRow(InstanceNorm(scale=True, bias=True), (2, 4, 2), _group_norm(2)),
    "LayerScale": LayerRow(LayerScale(0.5), (4, 5), lambda p, x: x * p["scale"]),
    "BatchNorm": LayerRow(BatchNorm(), (4, 3), _batch_norm, by_example=False),
    "BatchNorm, initializer": LayerRow(BatchNorm(scale_init=initializers.zeros), (4, 3), _batch_norm, by_example=False),
    "BatchNorm, images": LayerRow(BatchNorm(scale=False), (2, 3, 4, 2), _batch_norm, by_example=False),
}
WRONG = {
    "BatchNorm, initializer": (lambda: BatchNorm(scale=False, scale_init=initializers.zeros), TypeError,
                               ["BatchNorm: scale_init needs a scale"]),
    "BatchNorm, one value": (
        lambda: BatchNorm().apply_with_state({}, BatchNorm().init_state((1, 3)), X[:1], train=True),
        ValueError, ["BatchNorm: training needs more than one value", "LayerNorm"]),
    "BatchNorm, a mask of numbers": (
        lambda: BatchNorm().apply({}, X, np.ones(2, np.float32), state=BatchNorm().init_state((1, 3))), TypeError,
        ["BatchNorm: the mask", "row_mask", "f32[2]", "bool[2]"]),
    "BatchNorm, a mask of other rows": (
        lambda: BatchNorm().apply({}, X, np.ones(3, bool), state=BatchNorm().init_state((1, 3))), TypeError,
        ["BatchNorm: the mask", "bool[3]", "pass bool[2]"]),
    "BatchNorm, state": (
        lambda: BatchNorm().apply({}, X, state=BatchNorm().init_state((1, 4))), TypeError,
        ["BatchNorm: state['mean'] has another shape", "f32[2,3]", "f32[4]", "mean [3]", "init_state"]),
    "BatchNorm, no state": (lambda: BatchNorm().apply({}, X), TypeError, ["BatchNorm", "running statistics"]),
    "GroupNorm, groups": (lambda: GroupNorm(4).init(KEY, (2, 6)), ValueError,
                          ["GroupNorm: the features do not divide", "(2, 6)", "GroupNorm(2)"]),
    "InstanceNorm, positions": (lambda: InstanceNorm().init(KEY, (2, 6)), TypeError,
                                ["InstanceNorm: init needs the shape"]),
    "InstanceNorm, rank": (lambda: InstanceNorm().apply({}, X), TypeError, ["InstanceNorm", "3 axes", "f32[2,3]"]),
    "LayerNorm, integers": (lambda: LayerNorm().apply({}, np.ones((2, 3), int)), TypeError,
                            ["LayerNorm: the input must be floating-point", "i32[2,3]", "Embedding"]),
    "RMSNorm, features": (lambda: RMSNorm().apply({"scale": X[0, :2]}, X), TypeError,
                          ["RMSNorm: params['scale'] has another shape", "f32[2]", "scale [3]"]),
}
