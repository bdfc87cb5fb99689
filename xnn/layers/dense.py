"""Dense: an affine map of the last axis."""

from collections.abc import Callable

import xjax.numpy as jnp
from xjax import random
from xjax.errors import bad
from xjax.nn import initializers
from xnn.checks import check_float, check_params, check_shape
from xnn.covariance.affine import after_matrix
from xnn.layer import Layer, recorded
from xnn.sparse import CSR


@recorded()
def Dense(n_out: int, *, bias: bool = True, w_init: Callable | None = None, b_init: Callable | None = None,) -> Layer:
    """Affine map of the last axis: ``y = x W + b``.  Shape: [..., n_in] -> [..., n_out].

    Args:
      n_out: number of output features.
      bias: False leaves b out.
      w_init, b_init: initializers ``(key, shape) -> array``; None: glorot uniform and zeros.
    Params: ``{"w": [n_in, n_out], "b": [n_out]}``, without "b" if bias is False.
    The input may also be a `CSR` matrix.
    """
    if b_init and not bias:
        raise bad("Dense", "b_init needs a bias", {"bias": "False", "b_init": repr(b_init)},
                  "leave out b_init, or bias=False.")
    w_init = w_init or initializers.glorot_uniform()
    b_init = b_init or initializers.zeros

    def init(rng, in_shape):
        in_shape = check_shape("Dense", in_shape)
        w_rng, b_rng = random.split(rng)
        params = {"w": w_init(w_rng, (in_shape[-1], n_out))}
        if bias:
            params["b"] = b_init(b_rng, (n_out,))
        return (*in_shape[:-1], n_out), params

    def apply(params, x, *, rng=None, train=False):
        x = x if isinstance(x, CSR) else check_float("Dense", x)
        check_params("Dense", params, x, w=(x.shape[-1], n_out), b=(n_out,) if bias else None)
        y = x @ params["w"]
        return y + jnp.broadcast_to(params["b"], y.shape) if bias else y

    def kernel_rule(kernel):
        return after_matrix("Dense", kernel, n_out, w_init, b_init if bias else None)

    return Layer(init, apply, "Dense", positionwise=True, kernel_rule=kernel_rule)
