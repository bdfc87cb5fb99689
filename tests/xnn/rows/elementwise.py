"""Rows of layers without parameters: changes of shape, branches, any function."""

import numpy as np

import xnn
from tests.xnn.rows.row import KEY, LayerRow


def plain(layer, value, shape=(4, 5), **settings):
    """A row of a layer without parameters."""
    return LayerRow(layer, shape, lambda p, x, **extra: value(x, **extra), **settings)


ROWS = {
    "Identity": plain(xnn.Identity, lambda x: x),
    "Flatten": plain(xnn.Flatten, lambda x: x.reshape(4, 10), (4, 5, 2)),
    "Reshape": plain(xnn.Reshape(2, 5), lambda x: x.reshape(4, 2, 5), (4, 10)),
    "Reshape, open": plain(xnn.Reshape(5, -1), lambda x: x.reshape(4, 5, 2), (4, 10)),
    "MaskRows": plain(xnn.MaskRows(), lambda x, row_mask: np.where(row_mask[:, None], x, 0),
                      extra={"row_mask": lambda npr: npr.random(4) < 0.6}),
    "FanOut": plain(xnn.FanOut(2), lambda x: (x, x)),
    "FanInSum": plain(xnn.serial(xnn.FanOut(3), xnn.FanInSum), lambda x: 3 * x),
    "FanInProd": plain(xnn.serial(xnn.FanOut(3), xnn.FanInProd), lambda x: x**3),
    "FanInConcat": plain(xnn.serial(xnn.FanOut(2), xnn.FanInConcat(1)), lambda x: np.concatenate([x, x], 1)),
    "residual": plain(xnn.residual(xnn.Tanh), lambda x: x + np.tanh(x)),
    "first": plain(xnn.lambda_(lambda x: x[:, 0], name="first"), lambda x: x[:, 0], (4, 3, 5)),
    "scaled": plain(xnn.lambda_(lambda x, scale: x * scale, lambda shape: shape, "scaled"), lambda x, scale: x * scale,
                    extra={"scale": lambda npr: npr.normal(size=(4, 5))}),
}
WRONG = {
    "Reshape, size": (lambda: xnn.Reshape(3, 4).init(KEY, (2, 10)), TypeError,
                      ["Reshape: the number of elements differs", "10 per row", "(3, 4)"]),
    "Reshape, two open": (lambda: xnn.Reshape(-1, -1), TypeError, ["only one size may be -1"]),
    "Flatten, open": (lambda: xnn.Flatten.init(KEY, (2, -1, 3)), TypeError, ["Flatten", "(2, -1, 3)"]),
    "lambda_, shape of an input": (
        lambda: xnn.lambda_(lambda x, scale: x * scale, name="scaled").init(KEY, (2, 3)), TypeError,
        ["scaled: init needs the shape of `scale`", "scale=shape"]),
    "lambda_, inputs": (lambda: xnn.lambda_(lambda x: x, name="same").apply((), np.ones(2), np.ones(2)), TypeError,
                        ["same: takes 0 extra inputs, 1 given"]),
}
