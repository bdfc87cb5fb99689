"""Embedding, which maps integers to rows of a table, and Attend, its transpose."""

from collections.abc import Callable

import numpy as np

import xjax.numpy as jnp
from xjax.errors import bad
from xjax.nn import initializers
from xnn.checks import at_least_int32, check_float, check_params, check_shape, type_text
from xnn.layer import Layer, recorded
from xnn.sparse.segment import rows_at


@recorded()
def Embedding(n: int, features: int, *, init: Callable | None = None) -> Layer:
    """Row x of a table for each integer x.  Shape: integers [...] -> [..., features].

    Integers outside [0, n) give NaN.
    Args:
      n: number of rows, the size of the vocabulary.
      features: length of a row.
      init: initializer ``(key, shape) -> array``; None: standard normal, PyTorch's default.
    Params: ``{"table": [n, features]}``, as in `Attend`; share them to tie the output layer.
    """
    make_table = init or initializers.normal(1.0)

    def init_params(rng, in_shape):
        return (*in_shape, features), {"table": make_table(rng, (n, features))}

    def apply(params, x, *, rng=None, train=False):
        x = jnp.asarray(x)
        if not jnp.issubdtype(x.dtype, np.integer):
            raise bad("Embedding", "the input must be integers", {"x": type_text(x)},
                      fix="pass token ids, or x.astype('int32').")
        check_params("Embedding", params, x, table=(n, features))
        return rows_at(params["table"], at_least_int32(x))

    return Layer(init_params, apply, "Embedding", positionwise=True)


@recorded()
def Attend(n: int, *, init: Callable | None = None) -> Layer:
    """Products with the rows of a table: the logits of a model that shares the table of its `Embedding`.

    Shape: [..., features] -> [..., n].
    Args: n: number of rows; init: as in `Embedding`.
    Params: ``{"table": [n, features]}``.
    """
    make_table = init or initializers.normal(1.0)

    def init_params(rng, in_shape):
        in_shape = check_shape("Attend", in_shape)
        return (*in_shape[:-1], n), {"table": make_table(rng, (n, in_shape[-1]))}

    def apply(params, x, *, rng=None, train=False):
        x = check_float("Attend", x)
        check_params("Attend", params, x, table=(n, x.shape[-1]))
        return jnp.inner(x, params["table"])

    return Layer(init_params, apply, "Attend", positionwise=True)
