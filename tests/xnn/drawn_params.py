"""Parameters of tests, drawn by NumPy: compiling the random numbers of `init` takes longer than most layers."""

from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import tree_util
from xnn import Layer
from xnn.layer import init_types


def traced_init(layer: Layer, in_shape: Any, *, dtype: Any = None, seed: int = 0, **inputs: Any) -> tuple[Any, Any]:
    """As ``layer.init``, which is only traced: (shape of the output, parameters).

    No parameter is 0 or 1, the initial values of biases and scales.

    Args: dtype: of all parameters; None: the dtypes that `init` gives.
    """
    out_shape, types = init_types(layer, in_shape, **inputs)
    npr = np.random.default_rng(seed)
    draw = lambda leaf: jnp.asarray(npr.normal(0.1, 0.6, leaf.shape).astype(dtype or leaf.dtype))
    return out_shape, tree_util.tree_map(draw, types)


def drawn_params(layer: Layer, in_shape: Any, **options: Any) -> Any:
    """The parameters of `traced_init`."""
    return traced_init(layer, in_shape, **options)[1]
