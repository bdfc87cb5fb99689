"""Positions in sequences with padding and in generation, and layers that add a vector for each position.

All layers here and in `xnn.layers.attention` count in the same way (`positions_of`): 0, 1, ... for the positions that a
mask keeps, with padding before or after them. A cache continues the count of each row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.errors import bad
from xjax.nn import initializers
from xjax.typing import Array, ArrayLike, Params, PRNGKey, Shape
from xnn.checks import check_float, check_params, check_shape, type_text
from xnn.covariance.affine import variance_of
from xnn.covariance.fixed import with_fixed_positions, with_random_positions
from xnn.covariance.kernel import NONE, Pair
from xnn.layer import CacheFns, Layer, recorded
from xnn.precision import at_least_float32
from xnn.sparse.segment import rows_at


@recorded()
def LearnedPositions(length: int, *, init: Callable | None = None) -> Layer:
    """x plus row t of a table at position t, as in BERT and GPT-2.  Shape: [batch, time, features] -> the same.

    Args:
      length: number of rows, the maximum number of positions.
      init: initializer ``(key, shape) -> array``; None: normal with standard deviation 0.02, as in GPT-2.
    Inputs: mask, bool [batch, time]: positions with False are not counted; positions, int [batch, time]: positions to
      use instead of counting, for packed sequences.
    Params: ``{"table": [length, features]}``.  Cache: the next position of each row.
    A position outside the table gives NaN.
    Raises: ValueError for a sequence longer than `length`.
    """
    make_table = init or initializers.normal(0.02)

    def init_params(rng: PRNGKey, in_shape: Shape) -> tuple[Shape, Params]:
        in_shape = check_shape("LearnedPositions", in_shape, min_rank=3)
        return in_shape, {"table": make_table(rng, (length, in_shape[-1]))}

    def rows(params: Params, x: Array, at: Array) -> Array:
        check_params("LearnedPositions", params, x, table=(length, x.shape[-1]))
        if x.shape[1] > length:
            raise bad("LearnedPositions", f"the sequence has more than {length} positions", {"x": type_text(x)},
                      f"LearnedPositions({x.shape[1]}), or shorter sequences.", ValueError)
        return rows_at(params["table"], at)

    def kernel_rule(kernel, mask=NONE, positions=NONE):
        _check_counted("LearnedPositions", mask, positions)
        shape = (length, kernel.features)
        return with_random_positions(kernel, variance_of("LearnedPositions", "init", make_table, shape))

    return _adding("LearnedPositions", init_params, rows, kernel_rule)


@recorded()
def SinusoidalPositions(*, base: float = 10_000.0) -> Layer:
    """x plus sines and cosines of the position (Vaswani et al., 2017).  Shape: [batch, time, features] -> the same.

    Feature 2i gets sin(t / base^(2i / features)), feature 2i + 1 the cosine of the same angle.
    Inputs, cache: as in `LearnedPositions`.  Params: ``()``.
    Raises: ValueError from `init` for an odd number of features.
    """

    def init(rng: PRNGKey | None, in_shape: Shape) -> tuple[Shape, Params]:
        in_shape = check_shape("SinusoidalPositions", in_shape, min_rank=3)
        if in_shape[-1] % 2:
            raise bad("SinusoidalPositions", "sines and cosines need an even number of features",
                      {"in_shape": str(in_shape)}, f"use {in_shape[-1] + 1} features.", ValueError)
        return in_shape, ()

    def rows(params: Params, x: Array, at: Array) -> Array:
        return sines_and_cosines(angles_of(x, at, frequencies_of(x.shape[-1], base))).astype(x.dtype)

    def kernel_rule(kernel, mask=NONE, positions=NONE):
        _check_counted("SinusoidalPositions", mask, positions)

        def table(length):
            x = jnp.zeros((1, length, kernel.features), kernel.nngp.dtype)
            return rows((), x, jnp.arange(length)[None])[0]

        return with_fixed_positions(kernel, table)

    return _adding("SinusoidalPositions", init, rows, kernel_rule)


def _check_counted(name: str, mask: Pair, positions: Pair) -> None:
    if any(one is not None for one in (*mask, *positions)):
        raise bad(f"{name}.kernel", "there is a kernel for positions that are counted from 0 only",
                  fix="leave out `mask` and `positions`.", exc=ValueError)


def _adding(name: str, init: Callable, rows: Callable, kernel_rule: Callable) -> Layer:
    """A layer that adds ``rows(params, x, at)`` to x, where `at` has the position of each vector of x."""

    def added(params: Params, x: Array, at: Array) -> Array:
        return x + jnp.broadcast_to(rows(params, x, at), x.shape)

    def apply(params, x, mask=None, positions=None, *, rng=None, train=False):
        x = check_sequence(name, x)
        return added(params, x, positions_of(name, x, mask, positions))

    def init_cache(batch: int, length: int) -> dict[str, Any]:
        return {"next": jnp.zeros(batch, "int32")}

    def apply_with_cache(params, cache, x, mask=None, positions=None):
        x = check_sequence(name, x)
        at = positions_of(name, x, mask, positions, cache["next"])
        return added(params, x, at), {"next": jnp.maximum(cache["next"], jnp.max(_kept(at, mask), 1) + 1)}

    return Layer(init, apply, name, cache=CacheFns(init_cache, apply_with_cache), kernel_rule=kernel_rule)


# -- sinusoids -----------------------------------------------------------------------------------------------------


def frequencies_of(features: int, base: float) -> np.ndarray:
    """[features / 2]: ``base^(-2i / features)``, the frequencies of sinusoidal positions and of sinusoidal times."""
    return np.exp(np.arange(0, features, 2) * (-math.log(base) / features))


def angles_of(x: ArrayLike, at: ArrayLike, frequencies: ArrayLike) -> Array:
    """Position times frequency, [*at.shape, n], in float32 or wider, because float16 cannot count beyond 2048.

    Args: frequencies: [n], or [batch, 1, n].
    """
    dtype, shape = at_least_float32(x.dtype), (*at.shape, np.shape(frequencies)[-1])
    return jnp.broadcast_to(at.astype(dtype)[..., None], shape) * jnp.broadcast_to(
        jnp.asarray(frequencies, dtype), shape)


def sines_and_cosines(angles: Array) -> Array:
    """[..., n] -> [..., 2n]: the sine and the cosine of angle i are the features 2i and 2i + 1."""
    pairs = jnp.stack([jnp.sin(angles), jnp.cos(angles)], -1)
    return jnp.reshape(pairs, (*angles.shape[:-1], 2 * angles.shape[-1]))


# -- counting ------------------------------------------------------------------------------------------------------


def positions_of(caller: str, x: Array, mask: ArrayLike | None, positions: ArrayLike | None,
                 start: Array | None = None) -> Array:
    """int32 [batch or 1, time]: the position of each vector of x [batch, time, features] in its sequence.

    Args:
      mask: None or bools; only a mask with two axes, [batch, time], affects the count.
      positions: int [batch or 1, time], returned instead of counting.
      start: int32 [batch], the first position of each row; None: 0.
    """
    batch, time = x.shape[:2]
    if positions is not None:
        positions = jnp.asarray(positions)
        if not jnp.issubdtype(positions.dtype, np.integer) or positions.shape not in ((batch, time), (1, time)):
            raise bad(caller, "positions must be integers, one for each position of the input",
                      {"x": type_text(x), "positions": type_text(positions), "expected": f"i32[{batch},{time}]"},
                      "pass integers of that shape, or leave them out.")
        return positions.astype("int32")
    if mask is not None and np.ndim(mask) != 4:
        mask = check_mask(caller, mask, (batch, 1, time, time))
        at = jnp.maximum(jnp.cumsum(mask.astype("int32"), 1) - 1, 0)
    else:
        at = jnp.arange(time, dtype="int32")[None]
    return at if start is None else at + start[:, None]


def _kept(at: Array, mask: Array | None) -> Array:
    """The positions, with -1 where a mask [batch, time] is False."""
    return at if mask is None or np.ndim(mask) != 2 else jnp.where(jnp.asarray(mask), at, -1)


def init_slots(batch: int, length: int) -> dict[str, Any]:
    """Bookkeeping of a cache: the position of each slot, -1 if it is empty, and the number of filled slots."""
    return {"positions": jnp.full((batch, length), -1, "int32"), "filled": jnp.zeros((), "int32")}


def fill_slots(caller: str, slots: Mapping[str, Any], x: Array, mask: ArrayLike | None,
               positions: ArrayLike | None) -> tuple[Array, dict[str, Array]]:
    """(Positions of the new vectors x, slots that include them).

    Raises: TypeError for a mask of pairs; ValueError for more vectors than slots.
    """
    length, time = slots["positions"].shape[1], x.shape[1]
    if time > length:
        raise bad(caller, f"the cache has {length} positions, the input {time}", {"x": type_text(x)},
                  f"init_cache(batch, {time}), or longer if more positions follow.", ValueError)
    if mask is not None and np.ndim(mask) != 2:
        raise bad(caller, "with a cache, the mask must have one bool for each new position", {"mask": type_text(mask)},
                  f"pass bools [{x.shape[0]}, {time}].")
    at = positions_of(caller, x, mask, positions, jnp.max(slots["positions"], 1) + 1)
    new = jnp.broadcast_to(_kept(at, mask), x.shape[:2])
    return at, {"positions": write(slots["positions"], new, slots["filled"]), "filled": slots["filled"] + time}


def write(slots: Array, new: Array, at: ArrayLike) -> Array:
    """`slots` [batch, length, ...] with `new` [batch, time, ...] written from slot `at`, in the dtype of `new`.

    An empty cache is float32; with weights in half precision it gets their dtype when it is first written to.
    """
    zero = jnp.zeros((), "int32")
    return lax.dynamic_update_slice(slots.astype(new.dtype), new, (zero, at, *[zero] * (slots.ndim - 2)))


# -- checks --------------------------------------------------------------------------------------------------------


def check_sequence(caller: str, x: ArrayLike) -> Array:
    """x as an array. Raises: TypeError unless it is floats [batch, time, features]."""
    x = check_float(caller, x, 3)
    if x.ndim != 3:
        raise bad(caller, "the input must have the axes [batch, time, features]", {"x": type_text(x)},
                  "reshape it, with all positions along one axis.")
    return x


def check_mask(caller: str, mask: ArrayLike, shape: tuple[int, int, int, int]) -> Array:
    """The mask as bools [batch, keys], or with four axes that broadcast to `shape`: batch, heads, queries, keys."""
    mask = jnp.asarray(mask)
    wanted = (shape[0], shape[3]) if mask.ndim == 2 else shape
    fits = len(wanted) == mask.ndim and all(n in (1, m) for n, m in zip(mask.shape, wanted, strict=True))
    if mask.dtype != bool or not fits or (mask.ndim == 2 and mask.shape != wanted):
        raise bad(caller, "the mask does not have the type that the input needs",
                  {"mask": type_text(mask), "expected": f"bool[{shape[0]},{shape[3]}], True for keys that count, or "
                   f"bool[{','.join(map(str, shape))}] (or 1), True for pairs"},
                  "pass bools of one of these shapes: use mask != 0, or mask[:, None] for a mask with three axes.")
    return mask
