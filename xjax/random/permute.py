"""Random permutations and samples of arrays: permutation, choice."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import xjax.numpy as jnp
from xjax import lax
from xjax.core import dtypes
from xjax.core.calls import constrained
from xjax.core.errors import bad
from xjax.core.key_types import is_key
from xjax.core.types import typeof
from xjax.numpy.promote import array_like, promote_inexact
from xjax.ops.checks import canonical_axis, static_int
from xjax.ops.sort import sort_key_val, top_k
from xjax.random.arguments import check_key, check_shape, compiled
from xjax.random.continuous import gumbel_formula, unit_floats
from xjax.random.discrete import randint
from xjax.random.generators import random_bits, split_key
from xjax.typing import Array, ArrayLike, PRNGKey


def permutation(key: PRNGKey, x: ArrayLike, axis: int = 0, independent: bool = False,
                *, out_sharding: object = None) -> Array:
    """`x` in random order along an axis, or the integers 0 ... x - 1 in random order.

    Args:
      x: an array, or an integer.
      independent: permute each vector along `axis` independently, instead of all in one order.
    """
    if out_sharding is not None:
        return constrained("random.permutation", permutation(key, x, axis, independent), out_sharding)
    key = check_key("permutation", key)
    x = array_like("random.permutation", x)
    aval = typeof(x)
    axis = canonical_axis(axis, aval.ndim or 1, "random.permutation")
    if not aval.shape:
        if not dtypes.is_int(aval.dtype):
            raise bad("random.permutation", "`x` is neither an array with axes nor an integer", given={"x": aval},
                      fix="pass an array, or the number of integers to permute.")
        return compiled(_shuffled_range, max(static_int(x, "x", "random.permutation"), 0))(key)
    if independent or aval.ndim == 1 and not is_key(aval):         # keys cannot be sorted, so they are indexed
        return compiled(_shuffled, axis)(key, x)
    return compiled(_rows_shuffled, axis)(key, x)


def _shuffled_range(n: int, key: PRNGKey) -> Array:
    return _shuffled(0, key, lax.iota(dtypes.canonicalize_dtype(int), n))


def _rows_shuffled(axis: int, key: PRNGKey, x: Array) -> Array:
    return jnp.take(x, _shuffled_range(x.shape[axis], key), axis, unique_indices=True)


def _shuffled(axis: int, key: PRNGKey, x: Array) -> Array:
    """Sort by random 32-bit numbers, repeatedly, until the bias from equal numbers is negligible."""
    rounds = math.ceil(3 * math.log(max(1, x.size)) / math.log(2**32 - 1))
    for _ in range(rounds):
        keys = split_key((2,), key)
        key, subkey = (lax.squeeze(lax.slice_in_dim(keys, i, i + 1), (0,)) for i in (0, 1))
        _, x = sort_key_val(random_bits(32, x.shape, subkey), x, axis)
    return x


def choice(key: PRNGKey, a: ArrayLike, shape: Sequence[int] = (), replace: bool = True, p: ArrayLike | None = None,
           axis: int = 0, mode: str | None = None) -> Array:
    """Random elements of an array, or of the integers 0 ... a - 1.

    Args:
      a: an array, or an integer; shape: that of the samples. replace: whether an element can be drawn several times.
      p: float[n], the probability of each of the n elements along `axis`; None: all equal.
      mode: as in `gumbel`, which is used for draws by p without replacement.
    Returns: the samples, with `shape` in place of the axis.
    Raises: ValueError if there are no elements, too few elements for draws without replacement, or p has another shape.
    """
    caller = "random.choice"
    key = check_key("choice", key)
    shape = check_shape("choice", shape)
    a = array_like(caller, a)
    aval = typeof(a)
    if aval.shape:
        axis = canonical_axis(axis, aval.ndim, caller)
    n = aval.shape[axis] if aval.shape else static_int(a, "a", caller)
    picks = math.prod(shape)
    if not picks:
        return jnp.zeros(shape, aval.dtype)
    if n <= 0 or not replace and picks > n:
        raise bad(caller, f"cannot draw {picks} of {n} elements" + ("" if replace else " without replacement"),
                  given={"a": aval, "shape": str(shape)},
                  fix="pass an array with elements." if n <= 0 else "draw fewer, or pass replace=True.",
                  exc=ValueError)
    if p is None and not replace:
        order = permutation(key, a if aval.shape else n, axis if aval.shape else 0)
        return _in_shape(lax.slice_in_dim(order, 0, picks, axis=axis if aval.shape else 0), shape, axis, aval.ndim)
    chosen = randint(key, shape, 0, n) if p is None else _by_probability(key, p, n, shape, replace, mode)
    return chosen if not aval.shape else _in_shape(jnp.take(a, jnp.reshape(chosen, (picks,)), axis), shape, axis,
                                                   aval.ndim)


def _in_shape(picked: Array, shape: tuple[int, ...], axis: int, ndim: int) -> Array:
    """The samples, which are along one axis, reshaped to `shape`."""
    if not ndim:
        return jnp.reshape(picked, shape)
    return jnp.reshape(picked, picked.shape[:axis] + shape + picked.shape[axis + 1:])


def _by_probability(key: PRNGKey, p: ArrayLike, n: int, shape: tuple[int, ...], replace: bool,
                    mode: str | None) -> Array:
    p, = promote_inexact("random.choice", array_like("random.choice", p))
    if typeof(p).shape != (n,):
        raise bad("random.choice", "`p` must have one probability for each element",
                  given={"p": typeof(p), "elements": str(n)}, fix="pass p of shape (n,).", exc=ValueError)
    if replace:
        return compiled(_by_distribution, shape)(key, p)
    return compiled(_by_scores, shape, gumbel_formula(mode))(key, p)


def _by_distribution(shape: tuple[int, ...], key: PRNGKey, p: Array) -> Array:
    cumulative = jnp.cumsum(p)
    drawn = cumulative[-1] * (1 - unit_floats(shape, cumulative.dtype, key))
    return jnp.searchsorted(cumulative, drawn).astype(int)


def _by_scores(shape: tuple[int, ...], formula: Callable[..., Any], key: PRNGKey, p: Array) -> Array:
    """Draws without replacement: the largest log-probabilities after adding Gumbel noise."""
    scores = formula(p.shape, p.dtype, key) + jnp.log(p)
    return jnp.reshape(top_k(scores, math.prod(shape))[1], shape).astype(int)
