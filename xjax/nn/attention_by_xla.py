"""Attention made of products and a softmax, which XLA compiles: the form for all dtypes and devices."""

from __future__ import annotations

import math

import numpy as np

import xjax.numpy as jnp
from xjax.core.promotion import promote_types
from xjax.nn.attention_in_blocks import ALL, Reach, at_keys, in_blocks
from xjax.nn.logsumexp import logsumexp
from xjax.nn.normalize import softmax
from xjax.numpy.promote import library_rules
from xjax.typing import Array, ArrayLike


def attend(query: Array, key: Array, value: Array, bias: Array | None = None, mask: Array | None = None, *,
           scale: float, is_causal: bool, window: int | tuple[int, int] | None,
           lengths: tuple[Array | None, Array | None] = (None, None),
           with_sums: bool = False) -> tuple[Array, Array | None]:
    """(means of values, logarithms of the softmax sums [B, T, N] in float32, or None without `with_sums`).

    Args: as of `nn.dot_product_attention`, all with four axes; lengths: of queries and of keys, each int[B] or None.
    """
    (batch, targets, heads, features), (sources, groups) = query.shape, key.shape[1:3]
    wide = library_rules(promote_types)(query.dtype, np.dtype(np.float32))
    # Axes: batch, head of the key, head of the query among the heads with this key, position, features.
    rows = {"query": jnp.transpose(query.reshape(batch, targets, groups, heads // groups, features), (0, 2, 3, 1, 4)),
            "position": jnp.arange(targets)[:, None],
            **{name: _by_group(x, groups) for name, x in (("bias", bias), ("mask", mask)) if x is not None}}
    key, value = jnp.swapaxes(key, 1, 2), jnp.swapaxes(value, 1, 2)

    def attend_to(seen: slice, rows: dict[str, Array], first: ArrayLike | None) -> list[Array]:
        shape = rows["query"].shape[:-1]
        some = rows["query"].reshape(batch, groups, shape[2] * shape[3], features)
        products = jnp.einsum("bknh,bksh->bkns", some, key[:, :, seen], preferred_element_type=wide)
        products = products.reshape(*shape, products.shape[-1]) * scale
        if "bias" in rows:
            products = products + at_keys(rows["bias"], seen).astype(products.dtype)
        conditions = _conditions(rows["position"], jnp.arange(seen.start, seen.stop), is_causal, window, *lengths)
        if "mask" in rows:
            conditions.append(at_keys(rows["mask"], seen))
        if conditions:
            products = _masked(products, conditions)
        weights = softmax(products, axis=-1).astype(value.dtype).reshape(*some.shape[:-1], products.shape[-1])
        means = jnp.einsum("bkns,bksh->bknh", weights, value[:, :, seen]).reshape(*shape, features)
        return [means, logsumexp(products, axis=-1, keepdims=True)] if with_sums else [means]

    # A query without any key gets the mean of all values, so keys are left out only if there is no such query.
    each_sees_itself = bias is None and mask is None and lengths == (None, None) and targets <= sources
    means, *sums = (jnp.moveaxis(x, 3, 1).reshape(batch, targets, heads, x.shape[-1]) for x in in_blocks(
        attend_to, rows, (batch * heads, targets, sources), _reach(is_causal, window) if each_sees_itself else ALL))
    if lengths[0] is not None:
        means = _without_padding(means, lengths[0])
    return means, sums[0][..., 0] if with_sums else None


def _reach(is_causal: bool, window: int | tuple[int, int] | None) -> Reach:
    """The number of positions before and after its own to which a target attends; None: all."""
    left, right = (window, window) if isinstance(window, int | None) else window
    if window is not None and min(left, right) < 0:
        return ALL
    return left, 0 if is_causal else right


def _by_group(x: Array, groups: int) -> Array:
    """[B, N or 1, T, S] with the axis of heads split as in the products."""
    n = x.shape[1]
    return x[:, :, None] if n == 1 else x.reshape(x.shape[0], groups, n // groups, *x.shape[2:])


@library_rules
def _without_padding(means: Array, lengths: Array) -> Array:
    return jnp.where((jnp.arange(means.shape[1]) < lengths[:, None])[..., None, None], means, 0)


@library_rules
def _masked(products: Array, seen: list[Array]) -> Array:
    # Close to the lowest float32, but finite: the weights of a query without any key are equal, not NaN.
    return jnp.where(math.prod(seen[1:], start=seen[0]), products,
                     -0.7 * float(min(jnp.finfo(products.dtype).max, jnp.finfo(np.float32).max)))


@library_rules
def _conditions(t: Array, s: Array, is_causal: bool, window: int | tuple[int, int] | None,
                query_lengths: Array | None, key_lengths: Array | None) -> list[Array]:
    """Conditions under which targets t [T, 1] attend to sources s [S]: booleans that broadcast to the products."""
    conditions = [t >= s] if is_causal else []
    if window is not None:
        left, right = (window, window) if isinstance(window, int) else window
        conditions.append((t <= s + left) & (t >= s - right))
    conditions += [position < lengths[:, None, None, None, None]
                   for position, lengths in ((t, query_lengths), (s, key_lengths)) if lengths is not None]
    return conditions
