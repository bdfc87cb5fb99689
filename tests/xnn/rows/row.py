"""`LayerRow`: a layer with an input and its value in NumPy."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

import xjax
import xjax.numpy as jnp
from tests.xnn.drawn_params import drawn_params
from xjax import random, tree_util
from xnn import Layer

KEY = random.key(0)             # of invalid calls


class LayerRow(NamedTuple):
    """A layer, its input and its reference value.

    Attributes:
      layer: the layer.
      shape: of its input x, the batch first; small sizes, and 2 or a multiple for the batch, for two devices.
      oracle: ``(params, x, **extra) -> y`` of NumPy arrays: the output in evaluation. With state: in training, from the
        state of `init_state`.
      extra: further inputs by name, `Generator -> array`. Each has the batch first, or no axes.
      below: x has integers in [0, below) in place of floats.
      by_example: whether each example of the batch is computed independently.
      random: whether training draws random numbers.
      tol: tolerance, relative to that of one layer; larger for long sums and recurrences.
    """

    layer: Layer
    shape: tuple[int, ...]
    oracle: Callable[..., Any]
    extra: Mapping[str, Callable[[np.random.Generator], Any]] = {}
    below: int | None = None
    by_example: bool = True
    random: bool = False
    tol: float = 1.0


def draw(row: LayerRow, dtype: Any = np.float32, batch: int = 1) -> tuple[Any, dict[str, Any]]:
    """(x, further inputs): normal numbers away from 0, where activations have kinks; `batch` times as many rows."""
    npr = np.random.default_rng(3)
    shape = (batch * row.shape[0], *row.shape[1:])
    if row.below is not None:
        x = npr.integers(0, row.below, shape).astype(np.int32)
    else:
        x = npr.normal(size=shape)
        x = (x + 0.1 * np.sign(x)).astype(dtype)
    parts = [{name: make(npr) for name, make in row.extra.items()} for _ in range(batch)]
    extra = {name: np.concatenate([part[name] for part in parts]) if np.ndim(parts[0][name]) else parts[0][name]
             for name in row.extra}
    return x, {name: value.astype(dtype) if value.dtype.kind == "f" else value for name, value in extra.items()}


def make_params(row: LayerRow, dtype: Any = np.float32, seed: int = 0) -> Any:
    """Parameters of the layer of a row."""
    x, extra = draw(row)
    return drawn_params(row.layer, x, dtype=dtype, seed=seed, **extra)


def make_state(row: LayerRow, dtype: Any = np.float32) -> Any:
    """The initial state, with floats of this dtype."""
    x, extra = draw(row)
    return tree_util.tree_map(lambda leaf: leaf.astype(dtype) if jnp.issubdtype(leaf.dtype, np.floating) else leaf,
                              row.layer.init_state(x.shape))


def run(row: LayerRow, params: Any, x: Any, extra: Mapping[str, Any], *, rng: Any = None, train: bool = False) -> Any:
    """The output; for a layer with state, that of a step of training."""
    if row.layer.state:
        dtype = next((leaf.dtype for leaf in tree_util.tree_leaves(params)), x.dtype)
        return row.layer.apply_with_state(params, make_state(row, dtype), x, **extra, rng=rng, train=True)[0]
    return row.layer.apply(params, x, **extra, rng=rng, train=train)


def wide() -> Any:
    """A context with 64-bit floats enabled."""
    return xjax.enable_x64(True)
