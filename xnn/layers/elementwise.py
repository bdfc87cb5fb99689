"""Layers without parameters: activations and changes of shape, most of them rows of one table.

They are layers, not constructors: ``serial(Dense(32), Relu, Dense(10))``. For another setting of
a function make your own: ``Steep = elementwise(nn.leaky_relu, negative_slope=0.2)``.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import xjax.numpy as jnp
from xjax import nn
from xjax.errors import bad
from xnn.layer import Layer


def stateless(fun: Callable, out_shape: Callable, name: str, settings: Mapping[str, Any] | None = None,
              positionwise: bool = True) -> Layer:
    """Layer without parameters from ``fun(x)`` and the map of shapes ``out_shape(in_shape)``."""

    def init(rng, in_shape):
        return out_shape(in_shape), ()

    def apply(params, x, *, rng=None, train=False):
        return fun(x)

    return Layer(init, apply, name, settings=settings or {}, positionwise=positionwise)


def elementwise(fun: Callable, name: str | None = None, **settings: Any) -> Layer:
    """Layer that applies ``fun(x, **settings)``, which keeps the shape.  Params: ``()``.

    >>> elementwise(nn.softmax, axis=0)
    softmax(axis=0)
    """

    def apply_fun(x):
        return fun(jnp.asarray(x), **settings)

    name = name or getattr(fun, "__name__", "elementwise")
    return stateless(apply_fun, lambda shape: shape, name, settings, settings.get("axis", -1) == -1)


Relu = elementwise(nn.relu, "Relu")
Tanh = elementwise(jnp.tanh, "Tanh")
Sigmoid = elementwise(nn.sigmoid, "Sigmoid")
Elu = elementwise(nn.elu, "Elu")
LeakyRelu = elementwise(nn.leaky_relu, "LeakyRelu")
Selu = elementwise(nn.selu, "Selu")
Gelu = elementwise(nn.gelu, "Gelu")
Softplus = elementwise(nn.softplus, "Softplus")
Exp = elementwise(jnp.exp, "Exp")
Softmax = elementwise(nn.softmax, "Softmax", axis=-1)
LogSoftmax = elementwise(nn.log_softmax, "LogSoftmax", axis=-1)
Identity = stateless(lambda x: x, lambda shape: shape, "Identity")


def Reshape(*sizes: int) -> Layer:
    """New shape for all axes but the first.  Shape: [n, ...] -> [n, *sizes].

    Args: sizes: ints; one of them may be -1, and takes what is left.
    Raises: TypeError if the number of elements differs.
    """
    if sum(size < 0 for size in sizes) > 1:
        raise bad("Reshape", "more than one size is -1", {"sizes": repr(sizes)}, "leave one open.")

    def out_shape(in_shape):
        total, known = math.prod(in_shape[1:]), math.prod(size for size in sizes if size >= 0)
        left = total // known if known else 0
        out = tuple(left if size < 0 else size for size in sizes)
        if math.prod(out) != total:
            raise bad(
                "Reshape",
                "the number of elements differs",
                {"in_shape": f"{in_shape}, {total} per row", "sizes": f"{sizes}"},
                fix="choose sizes with that product; -1 stands for what is left.",
            )
        return (in_shape[0], *out)

    return stateless(lambda x: jnp.reshape(x, out_shape(jnp.shape(x))), out_shape, "Reshape", {"sizes": sizes}, False)


def _flat(shape):
    if not shape or min(shape[1:], default=0) < 0:
        raise bad("Flatten", "only the first size may be -1", {"in_shape": repr(shape)}, "fix it.")
    return (shape[0], math.prod(shape[1:]))


Flatten = stateless(lambda x: jnp.reshape(x, _flat(jnp.shape(x))), _flat, "Flatten", positionwise=False)
