"""Constructors of layers without parameters, from a function that changes or keeps the shape."""

from collections.abc import Callable, Mapping
from typing import Any

import xjax.numpy as jnp
from xjax.errors import bad
from xnn.layer import Layer


def stateless(fun: Callable, out_shape: Callable, name: str, settings: Mapping[str, Any] | None = None,
              positionwise: bool = True) -> Layer:
    """A layer without parameters from ``fun(x)`` and ``out_shape(in_shape)``."""

    def init(rng, in_shape):
        return out_shape(in_shape), ()

    def apply(params, x, *, rng=None, train=False):
        return fun(x)

    return Layer(init, apply, name, settings=settings or {}, positionwise=positionwise)


def elementwise(fun: Callable, name: str | None = None, **settings: Any) -> Layer:
    """A layer that applies ``fun(x, **settings)``, which must keep the shape.  Params: ``()``.

    >>> elementwise(xjax.nn.softmax, axis=0)
    softmax(axis=0)
    """
    if isinstance(fun, Layer):                              # callable too, but with parameters as its first argument
        raise bad("elementwise", "needs a function of arrays, not a layer", {"given": repr(fun)},
                  "pass a function such as xjax.nn.relu, or use the layer as a child.", TypeError)

    def apply_fun(x):
        return fun(jnp.asarray(x), **settings)

    name = name or getattr(fun, "__name__", "elementwise")
    return stateless(apply_fun, lambda shape: shape, name, settings, settings.get("axis", -1) == -1)
