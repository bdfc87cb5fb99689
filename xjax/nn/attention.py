"""Attention: means of values, weighted by how well the keys that go with them match a query."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core.dtypes import is_bool, is_float, is_int
from xjax.core.errors import bad
from xjax.core.promotion import promote_types
from xjax.core.types import typeof
from xjax.nn.logsumexp import logsumexp
from xjax.nn.normalize import softmax
from xjax.numpy.promote import check_mixed, library_rules

_WHERE = "nn.dot_product_attention"


def dot_product_attention(query: Any, key: Any, value: Any, bias: Any = None, mask: Any = None, *,
                          scale: float | None = None, is_causal: bool = False, query_seq_lengths: Any = None,
                          key_value_seq_lengths: Any = None, local_window_size: int | tuple[int, int] | None = None,
                          implementation: str | None = None, return_residual: bool = False) -> Any:
    """``softmax(scale * query . key + bias) . value`` for every head.

    Args:
      query: float[B, T, N, H]: batch, positions, heads, features of a head; B may be missing, here and in what follows.
      key, value: float[B, S, K, H], of the dtype of `query`; N is a multiple of K, and as many neighbouring heads of
        the query share one of the keys.
      bias: added to the products, of a shape that broadcasts to [B, N, T, S].
      mask: bool, of such a shape: where False, a query does not see a key. One that sees none gets the mean of all.
      scale: None: 1 / sqrt(H).
      is_causal: position t sees positions up to t.
      query_seq_lengths, key_value_seq_lengths: int32[B], how many positions count; the others of a query give zeros.
      local_window_size: position t sees (left, right) positions before and behind; one number is both.
      implementation: None or "xla".
      return_residual: also the logarithms of the sums in softmax, [B, T, N], as constants.
    Returns: float[B, T, N, H], or with `return_residual` a pair.
    Raises: ValueError for shapes or dtypes that do not go together, NotImplementedError for implementation="cudnn".

    >>> x = jnp.ones((2, 1, 4))
    >>> dot_product_attention(x, x, jnp.arange(8.0).reshape(2, 1, 4), is_causal=True)[:, 0, 0].tolist()
    [0.0, 2.0]
    """
    if implementation not in (None, "xla"):
        raise bad(_WHERE, f"there is no implementation {implementation!r}", fix="leave it out, or pass 'xla'.",
                  exc=NotImplementedError if implementation == "cudnn" else ValueError)
    whole = typeof(query).shape
    query, key, value, bias, mask = (x if x is None else _with_four_axes(x) for x in (query, key, value, bias, mask))
    lengths = [x if x is None else jnp.asarray(x) for x in (query_seq_lengths, key_value_seq_lengths)]
    _check(query, key, value, bias, mask, *lengths)
    (batch, targets, heads, features), groups = query.shape, key.shape[2]
    # Axes of products: batch, head of the key, head of the query among those that share it, target, source.
    products = jnp.einsum("btkgh,bskh->bkgts", query.reshape(batch, targets, groups, heads // groups, features), key,
                          preferred_element_type=library_rules(promote_types)(query.dtype, np.dtype(np.float32)))
    products = products * (1 / math.sqrt(features) if scale is None else scale)
    if bias is not None:
        check_mixed(_WHERE, query, bias)
        products = products + _by_group(bias, groups).astype(products.dtype)
    seen = _seen(targets, key.shape[1], is_causal, local_window_size, *lengths)
    if mask is not None:
        seen.append(_by_group(mask, groups))
    if seen:
        products = _masked(products, seen)
    weights = softmax(products, axis=-1).astype(key.dtype)
    found = jnp.einsum("bkgts,bskh->btkgh", weights, value).reshape(query.shape)
    if lengths[0] is not None:
        found = _cut_off(found, lengths[0])
    if not return_residual:
        return found.reshape(whole)
    sums = jnp.moveaxis(logsumexp(products, axis=-1), -1, 1).reshape(batch, targets, heads).astype(key.dtype)
    return found.reshape(whole), lax.stop_gradient(sums).reshape(whole[:-1])


def _with_four_axes(x: Any) -> Any:
    x = jnp.asarray(x)
    return jnp.expand_dims(x, tuple(range(4 - x.ndim))) if x.ndim < 4 else x


def _by_group(x: Any, groups: int) -> Any:
    """[B, N or 1, T, S] with the axis of heads split as that of the products is."""
    n = x.shape[1]
    return x[:, :, None] if n == 1 else x.reshape(x.shape[0], groups, n // groups, *x.shape[2:])


@library_rules
def _cut_off(found: Any, lengths: Any) -> Any:
    return jnp.where((jnp.arange(found.shape[1]) < lengths[:, None])[..., None, None], found, 0)


@library_rules
def _masked(products: Any, seen: list[Any]) -> Any:
    # As far down as float32 goes, but finite: the weights of a query that sees nothing are equal, not NaN.
    return jnp.where(math.prod(seen[1:], start=seen[0]), products,
                     -0.7 * float(min(jnp.finfo(products.dtype).max, jnp.finfo(np.float32).max)))


@library_rules
def _seen(targets: int, sources: int, is_causal: bool, window: int | tuple[int, int] | None, query_lengths: Any,
          key_lengths: Any) -> list[Any]:
    """Which sources a target sees, for each reason why it may not: arrays that broadcast to the products."""
    t, s = jnp.arange(targets)[:, None], jnp.arange(sources)
    found = [t >= s] if is_causal else []
    if window is not None:
        left, right = (window, window) if isinstance(window, int) else window
        found.append((t <= s + left) & (t >= s - right))
    found += [position < lengths[:, None, None, None, None]
              for position, lengths in ((t, query_lengths), (s, key_lengths)) if lengths is not None]
    return found


def _check(query: Any, key: Any, value: Any, bias: Any, mask: Any, *lengths: Any) -> None:
    arrays = {"query": query, "key": key, "value": value, "bias": bias, "mask": mask,
              "query_seq_lengths": lengths[0], "key_value_seq_lengths": lengths[1]}
    given = {name: typeof(x) for name, x in arrays.items() if x is not None}

    def wrong(what: str, fix: str) -> Exception:
        return bad(_WHERE, what, given=given, fix=fix, exc=ValueError)

    if any(x is not None and x.ndim != 4 for x in (query, key, value, bias, mask)):
        raise wrong("an argument has more than 4 axes", "use vmap over further axes.")
    if not (query.dtype == key.dtype == value.dtype and is_float(query.dtype)):
        raise wrong("query, key and value must have one floating-point dtype", "convert them with astype.")
    batch, targets, heads, features = query.shape
    if key.shape != value.shape or key.shape[0] != batch or key.shape[3] != features:
        raise wrong("query [B, T, N, H] does not go with key and value [B, S, K, H]",
                    "make the batches and the features of a head equal.")
    if heads % key.shape[2]:
        raise wrong("the number of heads of the query must be a multiple of that of the key", "repeat heads.")
    if mask is not None and not is_bool(mask.dtype):
        raise wrong("the mask must be of bools", "pass mask > 0, or pass it as bias.")
    wanted = (batch, heads, targets, key.shape[1])
    if any(x is not None and any(n not in (1, m) for n, m in zip(x.shape, wanted, strict=True)) for x in (bias, mask)):
        raise wrong(f"bias and mask must broadcast to [B, N, T, S], which is {list(wanted)}", "reshape them.")
    if any(x is not None and (x.shape != (batch,) or not is_int(x.dtype)) for x in lengths):
        raise wrong("lengths must be integers [B]", "pass one length for each sequence of the batch.")
