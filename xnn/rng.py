"""Random keys of a model: one stream for each layer, and one for each row in data-parallel programs.

The combinators of xnn call `fold_in`, those of stax call `split`. Both accept the three kinds of `rng`:
None, a key of `xjax.random`, or a `RowKey`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias, overload

import numpy as np

import xjax
import xjax.numpy as jnp
from xjax import random
from xjax.errors import bad
from xjax.typing import Array, ArrayLike, DTypeLike, PRNGKey
from xnn.public import public_names

__all__ = ["Rng", "RowKey", "bernoulli", "bernoulli_at", "check_rng", "fold_in", "normal", "row_keys", "split",
           "uniform"]
public_names(__name__)


class RowKey(NamedTuple):
    """The key of a block of rows of a larger array, for data-parallel programs.

    Row i of the block draws from ``fold_in(key, start + i)``. A row's bits depend only on its
    number in the whole array, so a program draws the same masks whether the rows are split over
    1, 2 or 8 devices. Pass it as `rng` to a layer:

        start = lax.axis_index("batch") * block
        predict_fun(params, x_block, adj_block, rng=RowKey(key, start), train=True)

    Attributes:
      key: the key of `xjax.random` that all blocks share.
      start: int32[], the number of the block's first row in the whole array; may be traced.
    """

    key: PRNGKey
    start: ArrayLike

    def rows(self, n_rows: int) -> Array:
        """int32[n_rows]: the numbers of a block's rows in the whole array."""
        return jnp.asarray(self.start, jnp.int32) + jnp.arange(n_rows, dtype=jnp.int32)

    def fold_in(self, data: ArrayLike) -> RowKey:
        """The same rows with the stream of number `data` of the key."""
        return self._replace(key=random.fold_in(self.key, data))


Rng: TypeAlias = PRNGKey | RowKey | None


@overload
def fold_in(rng: None, data: ArrayLike) -> None: ...
@overload
def fold_in(rng: RowKey, data: ArrayLike) -> RowKey: ...
@overload
def fold_in(rng: PRNGKey, data: ArrayLike) -> PRNGKey: ...
def fold_in(rng: Rng, data: ArrayLike) -> Rng:
    """The stream of number `data` of `rng`: `random.fold_in` of the key.

    Args:
      rng: key, RowKey or None.
      data: int, or an integer scalar array.
    Returns: of the same type as rng; None for None.
    """
    if rng is None:
        return None
    if isinstance(rng, RowKey):
        return rng.fold_in(data)
    return random.fold_in(rng, data)


@overload
def split(rng: None, n: int) -> tuple[None, ...]: ...
@overload
def split(rng: RowKey, n: int) -> tuple[RowKey, ...]: ...
@overload
def split(rng: PRNGKey, n: int) -> tuple[PRNGKey, ...]: ...
def split(rng: Rng, n: int) -> tuple[Rng, ...]:
    """n new streams of `rng`, which also depend on n: `random.split` of the key.

    Args: rng: key, RowKey or None.
    Returns: a tuple of n elements of the same type as rng; of n times None for None.
    """
    if rng is None:
        return (None,) * n
    if isinstance(rng, RowKey):
        return tuple(rng._replace(key=key) for key in random.split(rng.key, n))
    return tuple(random.split(rng, n))


def row_keys(rng: PRNGKey | RowKey, n_rows: int) -> Array:
    """A key for each row, which depends only on the row's number; rows of a plain key are numbered from 0."""
    rows = rng if isinstance(rng, RowKey) else RowKey(rng, 0)
    return xjax.vmap(lambda row: random.fold_in(rows.key, row))(rows.rows(n_rows))


def bernoulli(rng: PRNGKey | RowKey, prob: float, shape: tuple[int, ...]) -> Array:
    """bool[shape], true with probability `prob`; a `RowKey` draws axis 0 row by row.

    A plain key draws the whole array at once, which is fastest, but then each bit depends on the shape.
    """
    return _drawn(rng, shape, lambda key, shape: random.bernoulli(key, prob, shape))


def normal(rng: PRNGKey | RowKey, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    """Standard normal numbers; `rng` as in `bernoulli`."""
    return _drawn(rng, shape, lambda key, shape: random.normal(key, shape, dtype))


def uniform(rng: PRNGKey | RowKey, shape: tuple[int, ...], dtype: DTypeLike, lower: float, upper: float) -> Array:
    """Uniform numbers in [lower, upper); `rng` as in `bernoulli`."""
    return _drawn(rng, shape, lambda key, shape: random.uniform(key, shape, dtype, lower, upper))


def _drawn(rng: PRNGKey | RowKey, shape: tuple[int, ...], draw: Callable[..., Array]) -> Array:
    if not isinstance(rng, RowKey):
        return draw(rng, shape)
    return xjax.vmap(lambda row: draw(random.fold_in(rng.key, row), shape[1:]))(rng.rows(shape[0]))


def check_rng(caller: str, rng: Rng, **given: object) -> None:
    """Raises: TypeError if rng is None, in a layer that draws random numbers in training."""
    if rng is None:
        raise bad(caller, "training needs random bits, but rng is None", {**given, "train": "True", "rng": "None"},
                  fix="pass rng=random.fold_in(key, step), or train=False to evaluate.")


def bernoulli_at(rng: PRNGKey | RowKey, prob: float, rows: Array | np.ndarray, cols: Array | np.ndarray) -> Array:
    """bool[n], one draw for each position (rows[k], cols[k]) of a sparse array.

    With a `RowKey` the bit depends only on the row's number in the whole array and on the column,
    so the order, padding and sharding of the stored values do not change it.
    """
    if not isinstance(rng, RowKey):
        return random.bernoulli(rng, prob, rows.shape)

    def draw(row, col):
        return random.bernoulli(random.fold_in(random.fold_in(rng.key, row), col), prob)

    return xjax.vmap(draw)(jnp.asarray(rng.start, jnp.int32) + rows, cols)
