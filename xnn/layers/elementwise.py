"""Makers of layers without parameters: a function with its map of shapes, or one that keeps the shape."""

from collections.abc import Callable, Mapping
from typing import Any

import xjax.numpy as jnp
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

    >>> elementwise(xjax.nn.softmax, axis=0)
    softmax(axis=0)
    """

    def apply_fun(x):
        return fun(jnp.asarray(x), **settings)

    name = name or getattr(fun, "__name__", "elementwise")
    return stateless(apply_fun, lambda shape: shape, name, settings, settings.get("axis", -1) == -1)
