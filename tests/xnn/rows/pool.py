"""Rows of pools and of layers that change the spatial sizes."""

import itertools

import numpy as np

from tests.xnn.rows.conv import filled, seen
from tests.xnn.rows.row import KEY, LayerRow
from xnn import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    AvgPool,
    GlobalAvgPool,
    GlobalMaxPool,
    GlobalSumPool,
    MaxPool,
    Pad,
    PixelShuffle,
    PixelUnshuffle,
    SumPool,
    Upsample,
)

X = np.ones((2, 5, 4, 3), np.float32)


def plain(layer, value, shape=(2, 5, 4, 3)):
    return LayerRow(layer, shape, lambda p, x: value(x))


def masked(layer, reduce, shape=(2, 5, 4, 3)):
    """A pool over the positions of a random mask; `reduce` of [positions, features]."""
    def value(p, x, row_mask):
        return np.stack([reduce(one[mask]) for one, mask in zip(x, row_mask, strict=True)])

    return LayerRow(layer, shape, value, {"row_mask": lambda npr: npr.random(shape[:-1]) < 0.6})


def pooled(reduce, window, strides, pads, fill=np.nan, dilation=None):
    """The value of a pool: `reduce` over axes of each window of x, which is padded with `fill`."""
    n = len(window)

    def value(x):
        inside = np.pad(x, [(0, 0), *pads, (0, 0)], constant_values=fill)
        for out, at, part in seen(inside, window, strides, dilation or (1,) * n):
            if not any(at):
                y = np.zeros((len(x), *out, x.shape[-1]))
            y[:, *at] = reduce(part, tuple(range(1, n + 1)))
        return y

    return value


def binned(reduce, *out):
    """The value of an adaptive pool over two axes."""
    def value(x):
        edges = [[(i * n // m, -(-(i + 1) * n // m)) for i in range(m)] for n, m in zip(x.shape[1:3], out, strict=True)]
        return np.stack([np.stack([reduce(x[:, a:b, c:d], (1, 2)) for c, d in edges[1]], 1) for a, b in edges[0]], 1)

    return value


def resampled(weights):
    """The value of Upsample along one axis: weights [new, old]."""
    return lambda x: np.einsum("nif,oi->nof", x, np.asarray(weights))


def _cubic(x):
    """Weight of a position at distance x in Keys' interpolation (1981) with a = -0.75."""
    x, a = abs(x), -0.75
    return (a + 2) * x**3 - (a + 3) * x**2 + 1 if x < 1 else a * (x**3 - 5 * x**2 + 8 * x - 4) if x < 2 else 0.0


def _cubic_weights(old, new):
    weights = np.zeros((new, old))
    for o, i in itertools.product(range(new), range(-2, old + 2)):        # beyond the edges, the value at the edge
        weights[o, np.clip(i, 0, old - 1)] += _cubic((o + 0.5) * old / new - 0.5 - i)
    return weights


def _shuffled(x):
    n, h, w, c = x.shape
    y = np.zeros((n, 2 * h, 2 * w, c // 4))
    for i, j in np.ndindex(2, 2):
        y[:, i::2, j::2] = x[..., 2 * i + j::4]
    return y


def _unshuffled(x):
    y = np.zeros((len(x), x.shape[1] // 2, x.shape[2] // 2, 4 * x.shape[3]))
    for i, j in np.ndindex(2, 2):
        y[..., 2 * i + j::4] = x[:, i::2, j::2]
    return y


NONE, ONE = [(0, 0)] * 2, [(1, 1)] * 2
ROWS = {
    "MaxPool": plain(MaxPool((2, 2)), pooled(np.max, (2, 2), (2, 2), NONE)),
    "MaxPool, padded": plain(MaxPool((3, 3), strides=2, padding=1), pooled(np.nanmax, (3, 3), (2, 2), ONE)),
    "MaxPool, dilated": plain(MaxPool((2, 2), strides=1, dilation=(3, 2)), pooled(np.max, (2, 2), (1, 1), NONE,
                                                                                  dilation=(3, 2))),
    "MaxPool, one axis": plain(MaxPool(3, padding="SAME"), pooled(np.nanmax, (3,), (3,), [(0, 1)]), (2, 5, 3)),
    "SumPool": plain(SumPool((2, 3), strides=1), pooled(np.sum, (2, 3), (1, 1), NONE)),
    "SumPool, padded": plain(SumPool((2, 2), padding=((1, 0), 1)), pooled(np.nansum, (2, 2), (2, 2), [(1, 0), (1, 1)])),
    "AvgPool": plain(AvgPool((2, 2)), pooled(np.mean, (2, 2), (2, 2), NONE)),
    "AvgPool, padded": plain(AvgPool((3, 3), strides=2, padding=1), pooled(np.mean, (3, 3), (2, 2), ONE, 0)),
    "AvgPool, inside": plain(AvgPool((3, 3), strides=2, padding="SAME", count_include_pad=False),
                             pooled(np.nanmean, (3, 3), (2, 2), [(1, 1), (0, 1)])),
    "AdaptiveAvgPool": plain(AdaptiveAvgPool((3, 2)), binned(np.mean, 3, 2)),
    "AdaptiveAvgPool, larger": plain(AdaptiveAvgPool((None, 7)), binned(np.mean, 5, 7)),
    "AdaptiveMaxPool": plain(AdaptiveMaxPool((2, 3)), binned(np.max, 2, 3)),
    "GlobalAvgPool": plain(GlobalAvgPool(), lambda x: x.mean((1, 2))),
    "GlobalAvgPool, axes kept": plain(GlobalAvgPool(keepdims=True), lambda x: x.mean((1, 2), keepdims=True)),
    "GlobalAvgPool, masked": masked(GlobalAvgPool(), lambda rows: rows.mean(0)),
    "GlobalMaxPool, masked": masked(GlobalMaxPool(), lambda rows: rows.max(0), (2, 5, 3)),
    "GlobalMaxPool": plain(GlobalMaxPool(), lambda x: x.max(1), (2, 5, 3)),
    "GlobalSumPool": plain(GlobalSumPool(), lambda x: x.sum((1, 2))),
    "Upsample": plain(Upsample(2), lambda x: x.repeat(2, 1).repeat(2, 2)),
    "Upsample, size": plain(Upsample(size=(5, 8)), lambda x: x.repeat(2, 2)),
    "Upsample, linear": plain(Upsample((2,), method="linear"), resampled(
        [[1, 0, 0], [.75, .25, 0], [.25, .75, 0], [0, .75, .25], [0, .25, .75], [0, 0, 1]]), (2, 3, 2)),
    "Upsample, cubic": plain(Upsample(size=5, method="cubic"), resampled(_cubic_weights(3, 5)), (2, 3, 2)),
    "PixelShuffle": plain(PixelShuffle(2), _shuffled, (2, 3, 2, 8)),
    "PixelShuffle, one axis": plain(PixelShuffle(3), lambda x: x.reshape(2, 2, 2, 3).swapaxes(2, 3).reshape(2, 6, 2),
                                    (2, 2, 6)),
    "PixelUnshuffle": plain(PixelUnshuffle(2), _unshuffled, (2, 4, 6, 3)),
    "Pad": plain(Pad(1), lambda x: filled(x, ONE, 2)),
    "Pad, cropped": plain(Pad(((-1, 2), -1), value=3.0), lambda x: np.pad(
        x[:, 1:, 1:-1], [(0, 0), (0, 2), (0, 0), (0, 0)], constant_values=3)),
    "Pad, reflect": plain(Pad((2, (0, 1)), mode="reflect"), lambda x: filled(x, [(2, 2), (0, 1)], 2, "reflect")),
}
WRONG = {
    "MaxPool, too large": (lambda: MaxPool((6, 1)).apply((), X), ValueError,
                           ["MaxPool: the window is larger", "(5, 4)", "(6, 1)"]),
    "MaxPool, rank": (lambda: MaxPool((2, 2)).init(KEY, (-1, 3)), TypeError, ["2 spatial axes", "(-1, 3)"]),
    "MaxPool, only padding": (lambda: MaxPool((2, 2), padding=2), ValueError, ["MaxPool", "padding only"]),
    "MaxPool, integers": (lambda: MaxPool((2, 2)).apply((), X.astype(int)), TypeError,
                          ["MaxPool: the input must be floating-point", "i32[2,5,4,3]"]),
    "AvgPool, causal": (lambda: AvgPool(2, padding="CAUSAL"), ValueError, ["AvgPool: unknown padding 'CAUSAL'"]),
    "AdaptiveAvgPool, bins": (lambda: AdaptiveAvgPool((0, 2)), TypeError,
                              ["AdaptiveAvgPool: `out_sizes`", "(0, 2)"]),
    "AdaptiveMaxPool, rank": (lambda: AdaptiveMaxPool((2, 2)).apply((), X[0, 0]), TypeError,
                              ["AdaptiveMaxPool", "at least 3 axes"]),
    "GlobalAvgPool, rank": (lambda: GlobalAvgPool().apply((), X[0, 0]), TypeError, ["GlobalAvgPool", "f32[4,3]"]),
    "GlobalMaxPool, no positions": (lambda: GlobalMaxPool().init(KEY, (1, 3)), TypeError, ["GlobalMaxPool"]),
    "Upsample, neither": (lambda: Upsample(), TypeError, ["Upsample: takes either", "None"]),
    "Upsample, method": (lambda: Upsample(2, method="bilinear"), ValueError, ["'bilinear'", "'nearest', 'linear'"]),
    "Upsample, antialias": (lambda: Upsample(2, antialias=True), ValueError, ["Upsample", '"nearest"', "linear"]),
    "Upsample, axes": (lambda: Upsample((2, 2, 2)).apply((), X), TypeError, ["Upsample: `scale`", "(2, 2, 2)"]),
    "Upsample, size": (lambda: Upsample(size=(2, 2, 2)).apply((), X), TypeError, ["Upsample: `size`", "2 ints"]),
    "Upsample, negative": (lambda: Upsample(-1), TypeError, ["Upsample: `scale` must be positive", "-1"]),
    "Upsample, nothing": (lambda: Upsample(0.2).apply((), X), ValueError, ["an axis of the output is empty", "0.2"]),
    "PixelShuffle, features": (lambda: PixelShuffle(2).apply((), X), ValueError, ["(2, 5, 4, 3)", "multiple of 4"]),
    "PixelUnshuffle, sizes": (lambda: PixelUnshuffle(2).apply((), X), ValueError, ["(2, 5, 4, 3)", "Pad"]),
    "PixelShuffle, factor": (lambda: PixelShuffle(0), TypeError, ["PixelShuffle: `factor`", "0"]),
    "Pad, mode": (lambda: Pad(1, mode="replicate"), ValueError, ["Pad: unknown mode 'replicate'", "edge"]),
    "Pad, value": (lambda: Pad(1, mode="wrap", value=1), TypeError, ["Pad: mode 'wrap' takes no value"]),
    "Pad, widths": (lambda: Pad((1, 2, 3)).apply((), X), TypeError, ["Pad: `widths`", "(1, 2, 3)"]),
    "Pad, all cropped": (lambda: Pad(-2).apply((), X), ValueError, ["Pad: cropping leaves no", "(2, 5, 4, 3)"]),
}
