"""Parameters of tests: NumPy draws them, for to compile the random numbers of `init` takes longer than most layers."""

from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import tree_util
from xnn import Layer
from xnn.layer import init_types


def traced_init(layer: Layer, in_shape: Any, *, dtype: Any = None, seed: int = 0, **inputs: Any) -> tuple[Any, Any]:
    """As ``layer.init``, which is traced only: (shape of the output, parameters), none of which is 0 or 1, as biases
    and scales are at first.

    Args: dtype: of all parameters; None: those that `init` gives.
    """
    out_shape, types = init_types(layer, in_shape, **inputs)
    npr = np.random.default_rng(seed)
    draw = lambda leaf: jnp.asarray(npr.normal(0.1, 0.6, leaf.shape).astype(dtype or leaf.dtype))
    return out_shape, tree_util.tree_map(draw, types)


def drawn_params(layer: Layer, in_shape: Any, **options: Any) -> Any:
    """The parameters of `traced_init`."""
    return traced_init(layer, in_shape, **options)[1]
