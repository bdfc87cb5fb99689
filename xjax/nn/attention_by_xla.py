"""Attention made of products and a softmax, which XLA compiles: the form for all dtypes and devices."""

from __future__ import annotations

import math

import numpy as np

import xjax.numpy as jnp
from xjax.core.promotion import promote_types
from xjax.nn.logsumexp import logsumexp
from xjax.nn.normalize import softmax
from xjax.numpy.promote import library_rules
from xjax.typing import Array


def attend(query: Array, key: Array, value: Array, bias: Array | None = None, mask: Array | None = None, *,
           scale: float, is_causal: bool, window: int | tuple[int, int] | None,
           lengths: tuple[Array | None, Array | None] = (None, None),
           with_sums: bool = False) -> tuple[Array, Array | None]:
    """(means of values, logarithms of the softmax sums [B, T, N] in float32, or None without `with_sums`).

    Args: as of `nn.dot_product_attention`, all with four axes; lengths: of queries and of keys, each int[B] or None.
    """
    (batch, targets, heads, features), groups = query.shape, key.shape[2]
    # Axes of products: batch, head of the key, head of the query among the heads with this key, target, source.
    products = jnp.einsum("btkgh,bskh->bkgts", query.reshape(batch, targets, groups, heads // groups, features), key,
                          preferred_element_type=library_rules(promote_types)(query.dtype, np.dtype(np.float32)))
    products = products * scale
    if bias is not None:
        products = products + _by_group(bias, groups).astype(products.dtype)
    seen = _conditions(targets, key.shape[1], is_causal, window, *lengths)
    if mask is not None:
        seen.append(_by_group(mask, groups))
    if seen:
        products = _masked(products, seen)
    weights = softmax(products, axis=-1).astype(key.dtype)
    means = jnp.einsum("bkgts,bskh->btkgh", weights, value).reshape(query.shape)
    if lengths[0] is not None:
        means = _without_padding(means, lengths[0])
    if not with_sums:
        return means, None
    return means, jnp.moveaxis(logsumexp(products, axis=-1), -1, 1).reshape(batch, targets, heads)


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
def _conditions(targets: int, sources: int, is_causal: bool, window: int | tuple[int, int] | None,
                query_lengths: Array | None, key_lengths: Array | None) -> list[Array]:
    """Conditions under which a target attends to a source: boolean arrays that broadcast to the products."""
    t, s = jnp.arange(targets)[:, None], jnp.arange(sources)
    conditions = [t >= s] if is_causal else []
    if window is not None:
        left, right = (window, window) if isinstance(window, int) else window
        conditions.append((t <= s + left) & (t >= s - right))
    conditions += [position < lengths[:, None, None, None, None]
                   for position, lengths in ((t, query_lengths), (s, key_lengths)) if lengths is not None]
    return conditions
