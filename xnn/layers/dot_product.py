"""Attention without parameters: means of values weighted by products of queries and keys, with caches of keys.

`DotProductAttention` is for attention within a sequence, `ContextAttention` for attention to another sequence.
"""

from __future__ import annotations

import functools
import math
import operator
from typing import Any, NamedTuple

import numpy as np

import xjax
import xjax.numpy as jnp
from xjax import nn
from xjax.errors import bad
from xjax.forms import limits
from xjax.nn.attention_in_blocks import ALL, Reach, at_keys, in_blocks
from xjax.typing import Array, ArrayLike, PRNGKey, Shape
from xnn.checks import check_float, type_text
from xnn.layer import CacheFns, Layer, recorded, shape_kept
from xnn.layers.dropout import Dropout
from xnn.layers.positions import check_mask, check_sequence, fill_slots, init_slots, positions_of, write
from xnn.layers.relative import ALiBi, Rotary
from xnn.precision import at_least_float32
from xnn.rng import Rng, fold_in


@recorded()
def DotProductAttention(heads: int, head_size: int, *, kv_heads: int | None = None, causal: bool = False,
                        window: int | None = None, positions: Rotary | ALiBi | None = None,
                        local_positions: Rotary | None = None, dropout: float = 0.0, scale: float | None = None,
                        cap: float | None = None) -> Layer:
    """``softmax(q k^T scale) v`` for each head: the part of `MultiHeadAttention` without projections.

    Shape: query [batch, time, heads * head_size], key and value [batch, time, kv_heads * head_size] -> that of the
    query. For inputs in half precision, softmax is computed in float32. On NVIDIA GPUs such inputs are computed by
    cuDNN, which stores no array of queries times keys, if there is no dropout and the head size is a multiple of 8 up
    to 128. On CPUs the queries of long sequences are computed in blocks, each with dropout of its own; for the longest
    ones weights are recomputed for the gradient, and the memory is linear in the number of positions.

    Args, inputs: as in `MultiHeadAttention`.  Params: ``()``.
    Cache, if causal: keys (rotated) and values [batch, length, kv_heads, head_size]; the position of each slot [batch,
      length], -1 if the slot is empty or left out by a mask; the number of filled slots. With a cache, `mask` [batch,
      time] is for the new positions only, and `bias` has one key for each slot. A window limits the attention, not the
      contents of the cache. More than `length` positions in one call are an error; if several calls exceed `length`,
      the outputs beyond it are NaN.
    """
    sizes = _Heads("DotProductAttention", heads, kv_heads or heads, head_size, scale, Dropout(dropout), cap)
    encoding = _checked_encoding(positions, head_size, window)
    local_encoding = _checked_encoding(local_positions, head_size, window)
    if local_encoding is not None and not (isinstance(encoding, Rotary) and isinstance(local_encoding, Rotary)):
        raise bad("DotProductAttention", "local_positions is another rotation than `positions`",
                  {"positions": repr(positions), "local_positions": repr(local_positions)},
                  "pass positions=Rotary(...) and local_positions=Rotary(...).")

    def rotated(query, key, at, local):
        plain = _rotated(encoding, query, key, at)
        if local is None or local_encoding is None:
            return plain
        pairs = zip(_rotated(local_encoding, query, key, at), plain, strict=True)
        return tuple(jnp.where(local, one, other) for one, other in pairs)

    def apply(params, x, key, value, mask=None, bias=None, positions=None, local=None, *, rng=None, train=False):
        query, key, value = sizes.split(x, key, value)
        masks, key, value = sizes.masks(mask, query, key), _kept(mask, key), _kept(mask, value)
        at, slots = positions_of(sizes.name, x, mask, positions), jnp.arange(x.shape[1])
        query, key = rotated(query, key, at, local)
        seen = _seen(masks, at, at, (slots, slots) if causal else None, window, local, encoding)
        counts_slots = positions is None and local is None and (mask is None or jnp.ndim(mask) == 4)
        reach = window - 1 if window is not None and counts_slots else None
        return sizes.means(query, key, value, seen, bias, rng, train, reach=(reach, 0 if causal else reach))

    def init_cache(batch, length):
        return {**sizes.init_cache(batch, length), **init_slots(batch, length)}

    def apply_with_cache(params, cache, x, key, value, mask=None, bias=None, positions=None, local=None):
        query, key, value = sizes.split(x, key, value)
        at, slots = fill_slots(sizes.name, cache, x, mask, positions)
        key, value = _kept(mask, key), _kept(mask, value)
        query, key = rotated(query, key, at, local)
        start, key_at = cache["filled"], slots["positions"]
        keys, values = write(cache["key"], key, start), write(cache["value"], value, start)
        seen = _seen([key_at[:, None, None] >= 0], at, key_at,
                     (start + jnp.arange(x.shape[1]), jnp.arange(keys.shape[1])), window, local, encoding)
        y = sizes.means(query, keys, values, seen, bias)
        return jnp.where(slots["filled"] <= keys.shape[1], y, np.nan), {"key": keys, "value": values, **slots}

    return Layer(shape_kept, apply, "DotProductAttention",
                 cache=CacheFns(init_cache, apply_with_cache) if causal else None)


@recorded()
def ContextAttention(heads: int, head_size: int, *, kv_heads: int | None = None, dropout: float = 0.0,
                     scale: float | None = None) -> Layer:
    """`DotProductAttention` to keys and values of another sequence: the part of `CrossAttention` without projections.

    Shape: query [batch, time, heads * head_size], key and value [batch, keys, kv_heads * head_size] -> that of the
    query.
    Inputs: key, value: in a call with a cache, None reuses those of the previous call; mask: bool [batch, keys], or
      four axes as in `MultiHeadAttention`.
    Params: ``()``.  Cache: empty at first, then keys, values and mask of the last call that passed them.
    """
    sizes = _Heads("ContextAttention", heads, kv_heads or heads, head_size, scale, Dropout(dropout))

    def apply(params, x, key, value, mask=None, *, rng=None, train=False):
        query, key, value = sizes.split(x, key, value)
        seen = _Seen(sizes.masks(mask, query, key))
        return sizes.means(query, _kept(mask, key), _kept(mask, value), seen, None, rng, train)

    def apply_with_cache(params, cache, x, key, value, mask=None):
        if key is not None:
            query, key, value = sizes.split(x, key, value)
            sizes.masks(mask, query, key)                                         # checks the mask
            seen = {} if mask is None else {"mask": jnp.asarray(mask)}
            cache = {"key": _kept(mask, key), "value": _kept(mask, value), **seen}
        elif mask is not None:
            raise bad(sizes.name, "a mask needs a context; the mask of the first call is in the cache",
                      {"mask": type_text(mask)}, "leave the mask out, or pass the context too.")
        elif not cache:
            raise bad(sizes.name, "there is no context, neither in the call nor in the cache",
                      fix="pass the context in the first call with a cache; context=None is for later calls.")
        query = sizes.split_one("the query", x, heads)
        seen = _Seen(sizes.masks(cache.get("mask"), query, cache["key"]))
        return sizes.means(query, cache["key"], cache["value"], seen, None), cache

    return Layer(shape_kept, apply, "ContextAttention", cache=CacheFns(lambda batch, length: {}, apply_with_cache))


class _Heads(NamedTuple):
    """The sizes of an attention layer, and the part of its computation that does not depend on positions."""

    name: str
    heads: int
    kv_heads: int
    head_size: int
    scale: float | None
    dropout: Layer
    cap: float | None = None

    def split(self, x: Array, key: PRNGKey, value: ArrayLike) -> tuple[Any, Any, Any]:
        """Query, key and value as [batch, time, heads, head_size]."""
        return (self.split_one("the query", x, self.heads), self.split_one("`key`", key, self.kv_heads),
                self.split_one("`value`", value, self.kv_heads))

    def split_one(self, what: str, x: ArrayLike, heads: int) -> Array:
        if x is None:
            raise bad(self.name, f"{what} is None", fix="pass the context; None needs a cache that holds the context.")
        x = check_sequence(self.name, x)
        if x.shape[-1] != heads * self.head_size:
            raise bad(self.name, f"{what} must have {heads} heads of {self.head_size} features",
                      {"given": type_text(x)}, f"pass [batch, time, {heads * self.head_size}].")
        return jnp.reshape(x, (*x.shape[:2], heads, self.head_size))

    def init_cache(self, batch: int, length: int) -> dict[str, Any]:
        shape = (batch, length, self.kv_heads, self.head_size)
        return {"key": jnp.zeros(shape), "value": jnp.zeros(shape)}

    def masks(self, mask: ArrayLike | None, query: Array, key: PRNGKey) -> list[Array]:
        """The mask as a list of one condition [batch, heads, queries, keys]; an empty list without a mask."""
        if mask is None:
            return []
        mask = check_mask(self.name, mask, (query.shape[0], self.heads, query.shape[1], key.shape[1]))
        return [mask if mask.ndim == 4 else mask[:, None, None]]

    def means(self, query: Array, key: PRNGKey, value: Array, seen: _Seen, bias: ArrayLike | None, rng: Rng = None,
              train: bool = False, reach: Reach = ALL) -> Array:
        """The weighted means of values, [batch, queries, heads * head_size].

        `nn.dot_product_attention` is not enough: it has no dropout, and for a query without keys it returns the mean of
        all values.
        Args:
          bias: floats that broadcast to [batch, heads, queries, keys].
          reach: the number of slots before and after its own that a query attends to at most; None: all.
        """
        (batch, time), drops = query.shape[:2], train and self.dropout.settings["rate"] > 0
        bias = self._checked_bias(bias, (batch, self.heads, time, key.shape[1]))
        if not drops and self._fits_cudnn(query, key, value, seen, bias):
            return self._means_by_cudnn(query, key, value, seen, bias, is_causal=reach[1] == 0)
        # Axes: batch, head of the key, head of the query among the heads with this key, position, features.
        query = jnp.reshape(query, (batch, time, self.kv_heads, self.heads // self.kv_heads, self.head_size))
        rows = {"query": jnp.transpose(query, (0, 2, 3, 1, 4)), "bias": bias, "seen": seen.rows}
        key, value = jnp.swapaxes(key, 1, 2), jnp.swapaxes(value, 1, 2)

        def attend(keys, rows, first):
            drawn = rng if first is None else fold_in(rng, first)
            bias = rows["bias"] if rows["bias"] is None else at_keys(rows["bias"], keys)
            return self._means_of_rows(rows["query"], key[:, :, keys], value[:, :, keys],
                                       seen.part(rows["seen"], keys), bias, drawn, train)

        means = in_blocks(attend, rows, (batch * self.heads, time, key.shape[2]), reach)
        return jnp.reshape(jnp.transpose(means, (0, 3, 1, 2, 4)), (batch, time, self.heads * self.head_size))

    def _means_of_rows(self, query: Array, key: Array, value: Array, seen: _Seen, bias: Array | None, rng: Rng,
                       train: bool) -> Array:
        """The means for some queries, in the shape of the queries.

        Args:
          query: [batch, kv_heads, heads of the query with this key, queries, head_size].
          key, value: [batch, kv_heads, keys, head_size].
        """
        shape, keys = query.shape[:-1], key.shape[2]
        # The heads of the query that share a key are rows of one matrix, so the products have one batch axis for each.
        query = jnp.reshape(query, (*shape[:2], shape[2] * shape[3], self.head_size))
        products = jnp.einsum("bknd,bksd->bkns", query, key, preferred_element_type=at_least_float32(query.dtype))
        products = jnp.reshape(products * (1 / math.sqrt(self.head_size) if self.scale is None else self.scale),
                               (*shape, keys))
        if self.cap is not None:
            products = self.cap * jnp.tanh(products / self.cap)
        bias = seen.with_alibi(self.heads, bias)
        if bias is not None:
            products = products + self._by_group(bias, products).astype(products.dtype)
        weights = self._weights(products, seen.conditions()).astype(value.dtype)
        weights = self.dropout.apply((), weights, rng=rng, train=train)
        weights = jnp.reshape(weights, (*query.shape[:3], keys))
        return jnp.reshape(jnp.einsum("bkns,bksd->bknd", weights, value), (*shape, self.head_size))

    def _fits_cudnn(self, query: Array, key: PRNGKey, value: Array, seen: _Seen, bias: Array | None) -> bool:
        """Whether cuDNN computes it: the limits are in the table of forms, and a bias must have the query's dtype."""
        measured = limits("attention by cuDNN", xjax.default_backend())
        if measured is None or query.dtype not in (jnp.float16, jnp.bfloat16) or self.cap is not None:
            return False
        if not query.dtype == key.dtype == value.dtype or seen.alibi is not None or (
                bias is not None and bias.dtype != query.dtype):
            return False
        # With a bias or a mask, cuDNN's derivatives need even numbers of positions.
        is_plain = bias is None and not seen.conditions(in_order=False)
        return (self.head_size <= measured["features"] and not self.head_size % measured["step"]
                and (is_plain or not (query.shape[1] % 2 or key.shape[1] % 2)))

    def _means_by_cudnn(self, query: Array, key: PRNGKey, value: Array, seen: _Seen, bias: Array | None,
                        is_causal: bool) -> Array:
        """As `means`, in one call of cuDNN that does not store the products."""
        positions = query.shape[1], key.shape[1]
        conditions = seen.conditions(in_order=not is_causal)
        mask = functools.reduce(operator.and_, conditions) if conditions else None
        mask, bias = (x if x is None else jnp.broadcast_to(x, (*x.shape[:2], *positions)) for x in (mask, bias))
        y = nn.dot_product_attention(query, key, value, bias, mask, scale=self.scale, is_causal=is_causal,
                                     implementation="cudnn")
        if mask is not None:
            # [batch or 1, heads or 1, queries]
            sees = jnp.any(functools.reduce(operator.and_, seen.conditions()), axis=-1)
            y = jnp.where(jnp.swapaxes(sees, 1, 2)[..., None], y, 0)
        return jnp.reshape(y, (*query.shape[:2], self.heads * self.head_size))

    def _weights(self, products: Array, conditions: list[Array]) -> Array:
        if not conditions:
            return nn.softmax(products, axis=-1)
        sees = self._by_group(functools.reduce(operator.and_, conditions), products)
        # For a query without keys softmax gives equal weights, which become zeros below; with -inf it would give NaN.
        weights = nn.softmax(jnp.where(sees, products, jnp.finfo(products.dtype).min), axis=-1)
        return jnp.where(sees, weights, 0)

    def _checked_bias(self, bias: ArrayLike | None, shape: Shape) -> Array | None:
        """The bias. Raises: TypeError if it does not broadcast to `shape`: [batch, heads, queries, keys]."""
        if bias is None:
            return None
        bias = check_float(self.name, bias)
        if bias.ndim != 4 or any(n not in (1, m) for n, m in zip(bias.shape, shape, strict=True)):
            raise bad(self.name, "the bias does not broadcast to the products of queries and keys",
                      {"bias": type_text(bias), "expected": f"[{','.join(map(str, shape))}], or 1"},
                      "pass [batch, heads, queries, keys].")
        return bias

    def _by_group(self, x: Array, products: Array) -> Array:
        """x, which broadcasts to [batch, heads, queries, keys], in the shape of the products [batch, kv_heads, ...]."""
        split = products.shape[1:3] if x.shape[1] > 1 else (1, 1)
        return jnp.broadcast_to(jnp.reshape(x, (x.shape[0], *split, *x.shape[2:])), products.shape)


Rows = tuple[list[Array], Array | None, Array | None]


class _Seen(NamedTuple):
    """The conditions under which a query attends to a key, and the bias that depends on their positions.

    Attributes:
      masks: bools that broadcast to [batch, heads, queries, keys]; all must hold.
      at: positions of the queries, int [batch or 1, 1, queries, 1], for the window and ALiBi.
      key_at: positions of the keys, int [batch or 1, 1, 1, keys].
      slots, key_slots: int [queries, 1] and [keys]; a query attends to no key of a later slot. None: to all.
      window, local: as in `MultiHeadAttention`.
      alibi: adds a bias.
    """

    masks: list[Array]
    at: Array | None = None
    key_at: Array | None = None
    slots: Array | None = None
    key_slots: Array | None = None
    window: int | None = None
    local: ArrayLike | None = None
    alibi: ALiBi | None = None

    @property
    def rows(self) -> Rows:
        """The arrays that depend on the query, whose last axis but one is that of the queries."""
        return self.masks, self.at, self.slots

    def part(self, rows: Rows, keys: slice) -> _Seen:
        """The same for the queries of `rows` and the keys of a slice."""
        masks, at, slots = rows
        key_at, key_slots = (x if x is None else x[..., keys] for x in (self.key_at, self.key_slots))
        return self._replace(masks=[at_keys(x, keys) for x in masks], at=at, slots=slots, key_at=key_at,
                             key_slots=key_slots)

    def conditions(self, in_order: bool = True) -> list[Array]:
        """Bools that broadcast to [batch, heads, queries, keys]; without `in_order`, slots are not compared."""
        conditions = list(self.masks)
        if in_order and self.slots is not None and self.key_slots is not None:
            conditions.append((self.key_slots[None] <= self.slots)[None, None])
        if self.window is not None:
            near = jnp.abs(self.at - self.key_at) < self.window
            conditions.append(near if self.local is None else near | ~jnp.asarray(self.local))
        return conditions

    def with_alibi(self, heads: int, bias: Array | None) -> Array | None:
        """The bias, plus that of ALiBi if there is one."""
        if self.alibi is None or self.at is None or self.key_at is None:
            return bias
        alibi = self.alibi.bias(heads, self.at[:, 0, :, 0], self.key_at[:, 0, 0])
        return alibi if bias is None else alibi + bias.astype(alibi.dtype)


def _seen(masks: list[Array], at: Array, key_at: Array, slots: tuple[Array, Array] | None, window: int | None,
          local: ArrayLike | None, encoding: Any) -> _Seen:
    """Args: at, key_at: int [batch or 1, time]; slots: of queries and of keys, int [time] each."""
    in_slots = {} if slots is None else {"slots": slots[0][:, None], "key_slots": slots[1]}
    return _Seen(masks, at[:, None, :, None], key_at[:, None, None], **in_slots, window=window, local=local,
                 alibi=encoding if isinstance(encoding, ALiBi) else None)


def _kept(mask: ArrayLike | None, x: Array) -> Array:
    """Keys or values [batch, keys, heads, features], 0 where a mask [batch, keys] is False.

    Their weights are 0, but 0 times NaN is NaN, and padding may be NaN: Embedding gives it for a token out of range.
    """
    if mask is None or jnp.ndim(mask) != 2:
        return x
    return jnp.where(jnp.broadcast_to(jnp.asarray(mask)[:, :, None, None], x.shape), x, 0)


# -- positions -----------------------------------------------------------------------------------------------------


def _rotated(encoding: Any, query: Array, key: PRNGKey, at: Array) -> tuple[Any, Any]:
    return (encoding.rotate(query, at), encoding.rotate(key, at)) if isinstance(encoding, Rotary) else (query, key)


def _checked_encoding(encoding: Any, head_size: int, window: int | None) -> Any:
    """The encoding. Raises: ValueError for a window below 1 or an invalid `Rotary`; TypeError for other encodings."""
    if window is not None and window < 1:
        raise bad("DotProductAttention", "a window must be at least 1", {"window": window}, "window=1.",
                  ValueError)
    if not isinstance(encoding, Rotary | ALiBi | None):
        raise bad("DotProductAttention", "positions must be Rotary(...), ALiBi() or None",
                  {"positions": repr(encoding)}, "pass one of them; LearnedPositions is a layer before the attention.")
    if isinstance(encoding, Rotary):
        encoding.frequencies(head_size)
    return encoding
