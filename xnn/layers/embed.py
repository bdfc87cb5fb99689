"""Embedding, which maps integers to rows of a table, and Attend, its transpose."""

from collections.abc import Callable

import numpy as np

import xjax.numpy as jnp
from xjax.errors import bad
from xjax.nn import initializers
from xnn.checks import at_least_int32, check_float, check_params, check_shape, type_text
from xnn.covariance.affine import affine, variance_of, vectors_of_tokens
from xnn.covariance.kernel import Points, of_points
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

    @of_points
    def kernel_rule(points):
        if not isinstance(points, Points):
            raise bad("Embedding.kernel", "the kernel of a table needs the tokens themselves",
                      fix="let Embedding be the first layer.", exc=ValueError)
        return vectors_of_tokens(points, features, variance_of("Embedding", "init", make_table, (n, features)))

    return Layer(init_params, apply, "Embedding", positionwise=True, kernel_rule=kernel_rule)


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

    def kernel_rule(kernel):
        shape = (n, kernel.features)
        return affine(kernel, n, kernel.features, variance_of("Attend", "init", make_table, shape), None)

    return Layer(init_params, apply, "Attend", positionwise=True, kernel_rule=kernel_rule)
