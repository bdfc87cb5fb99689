"""Parameters of layers on graphs, whose shapes depend only on the number of input features."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import xjax.numpy as jnp
from xjax import random
from xjax.nn import initializers
from xjax.typing import Array, PRNGKey


def drawn(rng: PRNGKey | None, shapes: Mapping[str, Any], w_init: Callable | None = None,
          b_init: Callable | None = None) -> dict[str, Any]:
    """Draws parameters of the given shapes, and omits those with the shape None.

    Args: w_init, b_init: initializers of matrices and of vectors; Glorot uniform and zeros if None.

    >>> sorted(drawn(random.key(0), {"w": (3, 2), "b": (2,), "w_edge": None}))
    ['b', 'w']
    """
    w_init, b_init = w_init or initializers.glorot_uniform(), b_init or initializers.zeros
    shapes = {name: shape for name, shape in shapes.items() if shape is not None}
    if not shapes:
        return {}                                          # rng may be None here
    return {name: (w_init if len(shape) > 1 else b_init)(key, shape)
            for key, (name, shape) in zip(random.split(rng, len(shapes)), shapes.items(), strict=True)}


def affine(params: Mapping[str, Any], x: Array, name: str = "") -> Array:
    """``x w + b`` with the parameters ``w`` and ``b``, or ``w_name`` and ``b_name``; without b if it is missing."""
    suffix = f"_{name}" if name else ""
    return plus(x @ params[f"w{suffix}"], params, f"b{suffix}")


def plus(y: Array, params: Mapping[str, Any], name: str = "b") -> Array:
    """``y + b``, or y if the parameter b is missing."""
    return y + jnp.broadcast_to(params[name], y.shape) if name in params else y
