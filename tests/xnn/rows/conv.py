"""Rows of convolutions. Their values are loops over the positions of the output."""

import itertools

import numpy as np

from tests.xnn.rows.row import KEY, LayerRow
from xjax.nn import initializers
from xnn import Conv, ConvLocal, ConvTranspose, DepthwiseConv

X = np.ones((2, 5, 5, 3), np.float32)


def filled(x, pads, n, mode="constant"):
    return np.pad(x, [(0, 0)] * (x.ndim - n - 1) + [*pads, (0, 0)], mode)


def seen(x, window, strides, dilation):
    """(position of the output, window of x [..., *window, features] at this position), of a padded x."""
    n = len(window)
    sizes = x.shape[-n - 1:-1]
    out = [(size - d * (k - 1) - 1) // s + 1 for size, k, s, d in zip(sizes, window, strides, dilation, strict=True)]
    for at in itertools.product(*map(range, out)):
        view = tuple(slice(i * s, i * s + d * (k - 1) + 1, d)
                     for i, s, d, k in zip(at, strides, dilation, window, strict=True))
        yield out, at, x[(..., *view, slice(None))]


def convolved(pads, strides=None, dilation=None, groups=1, mode="constant"):
    """The value of a row: weights "w" over windows of x, which is padded by `pads`."""
    n = len(pads)
    strides, dilation = strides or (1,) * n, dilation or (1,) * n

    def value(p, x):
        w = p["w"]
        n_in, n_out = w.shape[-2], w.shape[-1] // groups
        for out, at, part in seen(filled(x, pads, n, mode), w.shape[:n], strides, dilation):
            if not any(at):
                y = np.zeros((*x.shape[:-n - 1], *out, w.shape[-1]))
            for g in range(groups):
                mine, inputs = slice(g * n_out, (g + 1) * n_out), part[..., g * n_in:(g + 1) * n_in]
                y[(..., *at, mine)] = np.tensordot(inputs, w[..., mine], n + 1)
        return y + p.get("b", 0)

    return value


def transposed(strides, removed, more=(0, 0), dilation=(1, 1), groups=1):
    """The value of a transposed convolution over two axes: each input adds a window of weights to the output.

    Args: removed: (before, after) along each axis, dropped from the sum; more: positions added at its end.
    """
    def value(p, x):
        w, (h, v) = p["w"], x.shape[1:3]
        kernel = w[::-1, ::-1]                                  # a window of the output is w in reverse
        n_in, n_out = w.shape[2], w.shape[3] // groups
        sizes = [(n - 1) * s + d * (k - 1) + 1 + m
                 for n, s, d, k, m in zip((h, v), strides, dilation, w.shape[:2], more, strict=True)]
        y = np.zeros((len(x), *sizes, w.shape[3]))
        for i, j, a, b, g in itertools.product(range(h), range(v), *map(range, w.shape[:2]), range(groups)):
            mine = slice(g * n_out, (g + 1) * n_out)
            y[:, i * strides[0] + a * dilation[0], j * strides[1] + b * dilation[1], mine] += (
                x[:, i, j, g * n_in:(g + 1) * n_in] @ kernel[a, b, :, mine])
        (top, bottom), (left, right) = removed
        return y[:, top:sizes[0] - bottom, left:sizes[1] - right] + p.get("b", 0)

    return value


def _local(strides, pads):
    def value(p, x):
        n = len(pads)
        for out, at, part in seen(filled(x, pads, n), p["w"].shape[n:2 * n], strides, (1,) * n):
            if not any(at):
                y = np.zeros((*x.shape[:-n - 1], *out, p["w"].shape[-1]))
            y[(..., *at, slice(None))] = np.tensordot(part, p["w"][at], n + 1)
        return y + p.get("b", 0)

    return value


ROWS = {
    "Conv": LayerRow(Conv(4, (3, 3)), (2, 4, 5, 3), convolved([(1, 1)] * 2)),
    "Conv, one axis": LayerRow(Conv(4, 4, strides=3), (2, 7, 3), convolved([(1, 2)], (3,))),
    "Conv, three axes": LayerRow(Conv(2, (2, 1, 3), padding="VALID", bias=False), (2, 3, 2, 4, 2),
                                 convolved([(0, 0)] * 3)),
    "Conv, strided": LayerRow(Conv(2, (3, 2), strides=(2, 3)), (2, 4, 5, 2), convolved([(0, 1), (0, 0)], (2, 3))),
    "Conv, numbers": LayerRow(Conv(2, (3, 3), strides=2, padding=1), (2, 4, 5, 2), convolved([(1, 1)] * 2, (2, 2))),
    "Conv, pairs": LayerRow(Conv(2, (2, 2), padding=(1, (0, 2))), (2, 3, 4, 2), convolved([(1, 1), (0, 2)])),
    "Conv, dilated": LayerRow(Conv(2, (2, 3), dilation=(3, 2)), (2, 4, 5, 2),
                              convolved([(1, 2), (2, 2)], None, (3, 2))),
    "Conv, groups": LayerRow(Conv(6, (3, 2), groups=2), (2, 4, 3, 4), convolved([(1, 1), (0, 1)], groups=2)),
    "Conv, causal": LayerRow(Conv(3, 3, padding="causal", dilation=2), (2, 6, 2), convolved([(4, 0)], None, (2,))),
    "Conv, circular": LayerRow(Conv(2, (3, 4), padding="CIRCULAR"), (2, 4, 5, 2),
                               convolved([(1, 1), (1, 2)], mode="wrap")),
    "Conv, reflect": LayerRow(Conv(2, (3, 5), padding="REFLECT"), (2, 4, 5, 2),
                              convolved([(1, 1), (2, 2)], mode="reflect")),
    "Conv, batches": LayerRow(Conv(2, 3), (2, 3, 5, 2), convolved([(1, 1)])),
    "Conv, initializers": LayerRow(Conv(2, 1, w_init=initializers.ones, b_init=initializers.ones), (2, 5, 2),
                                   convolved([(0, 0)])),
    "DepthwiseConv": LayerRow(DepthwiseConv((3, 3), multiplier=2), (2, 4, 3, 3), convolved([(1, 1)] * 2, groups=3)),
    "DepthwiseConv, no bias": LayerRow(DepthwiseConv(2, strides=2, bias=False), (2, 5, 3), convolved([(0, 1)], (2,),
                                                                                               groups=3)),
    "ConvTranspose": LayerRow(ConvTranspose(4, (3, 3), strides=2), (2, 3, 4, 3), transposed((2, 2), [(0, 1)] * 2)),
    "ConvTranspose, valid": LayerRow(ConvTranspose(2, (2, 3), strides=(2, 1), padding="VALID"), (2, 3, 4, 3),
                                     transposed((2, 1), [(0, 0)] * 2)),
    "ConvTranspose, wide strides": LayerRow(ConvTranspose(2, (2, 2), strides=3, padding="VALID", bias=False),
                                            (2, 3, 2, 3), transposed((3, 3), [(0, 0)] * 2, more=(1, 1))),
    "ConvTranspose, numbers": LayerRow(ConvTranspose(2, (3, 4), strides=2, padding=(1, (2, 0)), output_padding=1),
                                       (2, 3, 4, 3), transposed((2, 2), [(1, 1), (2, 0)], more=(1, 1))),
    "ConvTranspose, dilated groups": LayerRow(ConvTranspose(4, (2, 2), strides=2, padding=0, dilation=2, groups=2),
                                              (2, 3, 2, 6), transposed((2, 2), [(0, 0)] * 2, (0, 0), (2, 2), 2)),
    "ConvLocal": LayerRow(ConvLocal(3, (2, 3)), (2, 2, 3, 2), _local((1, 1), [(0, 1), (1, 1)])),
    "ConvLocal, valid": LayerRow(ConvLocal(3, (2, 3), padding="VALID"), (2, 3, 4, 2), _local((1, 1), [(0, 0)] * 2)),
    "ConvLocal, strided": LayerRow(ConvLocal(3, 2, strides=2, bias=False), (2, 5, 2),
                                   _local((2,), [(0, 1)])),
}
WRONG = {
    "Conv, rank": (lambda: Conv(2, (3, 3)).apply({}, X[0, 0]), TypeError, ["Conv", "at least 3 axes", "f32[5,3]"]),
    "Conv, rank of init": (lambda: Conv(2, (3, 3)).init(KEY, (-1, 3)), TypeError,
                           ["Conv: the input must have 2 spatial axes", "(-1, 3)", "(-1, 28, 28, 3)"]),
    "Conv, features": (lambda: Conv(2, (3, 3)).apply(Conv(2, (3, 3)).init(KEY, (-1, 5, 5, 4))[1], X), TypeError,
                       ["Conv: params['w'] has another shape", "f32[2,5,5,3]", "f32[3,3,4,2]", "[3,3,3,2]"]),
    "Conv, open features": (lambda: Conv(2, 3).init(KEY, (1, 4, -1)), TypeError, ["Conv", "(1, 4, -1)"]),
    "Conv, window too large": (lambda: Conv(2, (3, 3), padding="VALID").init(KEY, (-1, -1, 2, 3)), ValueError,
                               ["Conv: the window is larger", "(-1, 2)", "(3, 3)", "SAME"]),
    "Conv, window too large in apply": (
        lambda: Conv(2, (6, 1), padding=0).apply(Conv(2, (6, 1)).init(KEY, X.shape)[1], X), ValueError,
        ["Conv: the window is larger", "(5, 5)", "(6, 1)"]),
    "Conv, groups": (lambda: Conv(4, 3, groups=2).init(KEY, (1, 5, 3)), ValueError,
                     ["Conv: the features do not divide", "3", "divisor"]),
    "Conv, groups in apply": (lambda: Conv(4, (1, 1), groups=2).apply({}, X), ValueError,
                              ["Conv: the features do not divide"]),
    "Conv, no groups": (lambda: Conv(4, 3, groups=0).init(KEY, (1, 5, 4)), ValueError, ["do not divide", "groups"]),
    "Conv, no window": (lambda: Conv(4, ()), ValueError, ["Conv: a window must have 1 to 3 axes", "()"]),
    "Conv, float window": (lambda: Conv(4, (3, 2.5)), TypeError, ["Conv: `window`", "2.5"]),
    "Conv, strides": (lambda: Conv(4, (3, 3), strides=(2,)), TypeError, ["Conv: `strides`", "(2,)", "2 ints"]),
    "Conv, stride 0": (lambda: Conv(4, (3, 3), strides=0), TypeError, ["Conv: `strides`", "at least 1", "0"]),
    "Conv, padding": (lambda: Conv(4, 3, padding="SAMEE"), ValueError, ["unknown padding 'SAMEE'", "'SAME', 'VALID'"]),
    "Conv, paddings": (lambda: Conv(4, (3, 3), padding=(1, 2, 3)), TypeError, ["Conv: `padding`", "(1, 2, 3)"]),
    "Conv, negative padding": (lambda: Conv(4, 3, padding=-1), TypeError, ["Conv: `padding`", "at least 0", "-1"]),
    "Conv, causal images": (lambda: Conv(4, (3, 3), padding="CAUSAL"), ValueError, ["causal", "one spatial axis"]),
    "Conv, b_init": (lambda: Conv(4, 3, bias=False, b_init=initializers.ones), TypeError, ["b_init needs a bias"]),
    "Conv, params": (lambda: Conv(4, (3, 3)).apply({"w": X}, X), TypeError,
                     ["Conv: the params do not belong", "w f32[2,5,5,3]", "w [3,3,3,4], b [4]"]),
    "DepthwiseConv, features": (
        lambda: DepthwiseConv((1, 1)).apply(DepthwiseConv((1, 1)).init(KEY, (1, 5, 5, 2))[1], X), TypeError,
        ["DepthwiseConv: params['w']", "f32[1,1,1,2]", "[1,1,1,3]"]),
    "ConvTranspose, circular": (lambda: ConvTranspose(4, 3, padding="CIRCULAR"), ValueError,
                                ["ConvTranspose: unknown padding 'CIRCULAR'", "'SAME', 'VALID'", "Pad"]),
    "ConvTranspose, two sizes": (lambda: ConvTranspose(4, 3, strides=2, output_padding=1), ValueError,
                                 ["ConvTranspose: padding 'SAME'", "output_padding"]),
    "ConvTranspose, output_padding": (lambda: ConvTranspose(4, 3, strides=2, padding=1, output_padding=2),
                                      ValueError, ["output_padding must be less", "(2,)"]),
    "ConvTranspose, padding": (lambda: ConvTranspose(4, 3, padding=4).init(KEY, (1, 2, 3)), ValueError,
                               ["ConvTranspose: the padding removes", "(2,)"]),
    "ConvLocal, open": (lambda: ConvLocal(4, 3).init(KEY, (1, -1, 3)), TypeError,
                        ["ConvLocal: the weights depend on the spatial sizes", "(1, -1, 3)"]),
    "ConvLocal, other sizes": (
        lambda: ConvLocal(1, (1, 1)).apply(ConvLocal(1, (1, 1)).init(KEY, (1, 4, 5, 3))[1], X), TypeError,
        ["ConvLocal: params['w']", "f32[4,5,1,1,3,1]", "[5,5,1,1,3,1]"]),
}
