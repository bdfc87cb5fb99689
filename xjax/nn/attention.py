"""Attention: means of values, weighted by how well their keys match a query."""

from __future__ import annotations

import math
from typing import Literal, overload

import xjax.numpy as jnp
from xjax import lax
from xjax.core.dtypes import is_bool, is_float, is_int
from xjax.core.errors import bad, check_choice
from xjax.core.types import typeof
from xjax.nn.attention_by_cudnn import attend_by_cudnn
from xjax.nn.attention_by_xla import attend
from xjax.numpy.promote import check_mixed
from xjax.typing import Array, ArrayLike

_CALLER = "nn.dot_product_attention"


@overload
def dot_product_attention(query: ArrayLike, key: ArrayLike, value: ArrayLike, bias: ArrayLike | None = None,
                          mask: ArrayLike | None = None, *, scale: float | None = None, is_causal: bool = False,
                          query_seq_lengths: ArrayLike | None = None, key_value_seq_lengths: ArrayLike | None = None,
                          local_window_size: int | tuple[int, int] | None = None, implementation: str | None = None,
                          return_residual: Literal[False] = False) -> Array: ...
@overload
def dot_product_attention(query: ArrayLike, key: ArrayLike, value: ArrayLike, bias: ArrayLike | None = None,
                          mask: ArrayLike | None = None, *, scale: float | None = None, is_causal: bool = False,
                          query_seq_lengths: ArrayLike | None = None, key_value_seq_lengths: ArrayLike | None = None,
                          local_window_size: int | tuple[int, int] | None = None, implementation: str | None = None,
                          return_residual: Literal[True]) -> tuple[Array, Array]: ...


def dot_product_attention(query: ArrayLike, key: ArrayLike, value: ArrayLike, bias: ArrayLike | None = None,
                          mask: ArrayLike | None = None, *, scale: float | None = None, is_causal: bool = False,
                          query_seq_lengths: ArrayLike | None = None, key_value_seq_lengths: ArrayLike | None = None,
                          local_window_size: int | tuple[int, int] | None = None, implementation: str | None = None,
                          return_residual: bool = False) -> Array | tuple[Array, Array]:
    """``softmax(scale * query . key + bias) . value`` for every head.

    Args:
      query: float[B, T, N, H]: batch, positions, heads, features of a head; B may be missing in all arguments.
      key, value: float[B, S, K, H], of the dtype of `query`; N is a multiple of K, and N / K neighbouring heads of the
        query share one head of the key.
      bias: added to the products, of a shape that broadcasts to [B, N, T, S].
      mask: bool, broadcasts to [B, N, T, S]: where False, the query does not attend to the key. A query without any key
        gets the mean of all values.
      scale: None: 1 / sqrt(H).
      is_causal: position t attends to positions up to t.
      query_seq_lengths, key_value_seq_lengths: int32[B], number of valid positions; results at invalid positions of the
        query are zeros.
      local_window_size: (left, right): position t attends to positions t - left to t + right; a number means both.
      implementation: "xla" (also for None), or "cudnn": cuDNN's attention on NVIDIA GPUs, for float16 and bfloat16, a
        head of at most 128 features (256 from Hopper on), a multiple of 8, and windows to the left. A program that XLA
        shards automatically uses "xla".
      return_residual: also return the logarithms of the softmax sums, [B, T, N], without derivatives.
    Returns: float[B, T, N, H], or with `return_residual` a pair.
    Raises: ValueError for shapes or dtypes that do not match, NotImplementedError for implementation="cudnn" on other
      devices, or with arguments that cuDNN does not support.

    >>> x = jnp.ones((2, 1, 4))
    >>> dot_product_attention(x, x, jnp.arange(8.0).reshape(2, 1, 4), is_causal=True)[:, 0, 0].tolist()
    [0.0, 2.0]
    """
    check_choice(_CALLER, "implementation", implementation, ("xla", "cudnn", None))
    whole = typeof(query).shape
    query, key, value = (_with_four_axes(x) for x in (query, key, value))
    bias, mask = (x if x is None else _with_four_axes(x) for x in (bias, mask))
    lengths = tuple(x if x is None else jnp.asarray(x) for x in (query_seq_lengths, key_value_seq_lengths))
    _check(query, key, value, bias, mask, *lengths)
    if bias is not None:
        check_mixed(_CALLER, query, bias)
    form = attend_by_cudnn if implementation == "cudnn" else attend
    means, sums = form(query, key, value, bias, mask, is_causal=is_causal, window=local_window_size,
                       scale=1 / math.sqrt(query.shape[3]) if scale is None else scale, lengths=lengths,
                       with_sums=return_residual)
    if not return_residual:
        return means.reshape(whole)
    assert sums is not None
    return means.reshape(whole), lax.stop_gradient(sums.astype(key.dtype)).reshape(whole[:-1])


def _with_four_axes(x: ArrayLike) -> Array:
    x = jnp.asarray(x)
    return jnp.expand_dims(x, tuple(range(4 - x.ndim))) if x.ndim < 4 else x


def _check(query: Array, key: Array, value: Array, bias: Array | None, mask: Array | None,
           *lengths: Array | None) -> None:
    arrays = {"query": query, "key": key, "value": value, "bias": bias, "mask": mask,
              "query_seq_lengths": lengths[0], "key_value_seq_lengths": lengths[1]}
    given = {name: typeof(x) for name, x in arrays.items() if x is not None}

    def wrong(what: str, fix: str) -> Exception:
        return bad(_CALLER, what, given=given, fix=fix, exc=ValueError)

    if any(x is not None and x.ndim != 4 for x in (query, key, value, bias, mask)):
        raise wrong("an argument has more than 4 axes", "use vmap over further axes.")
    if not (query.dtype == key.dtype == value.dtype and is_float(query.dtype)):
        raise wrong("query, key and value must have one floating-point dtype", "convert them with astype.")
    batch, targets, heads, features = query.shape
    if key.shape != value.shape or key.shape[0] != batch or key.shape[3] != features:
        raise wrong("query [B, T, N, H] does not match key and value [B, S, K, H]",
                    "make the batches and the features of a head equal.")
    if heads % key.shape[2]:
        raise wrong("the number of query heads must be a multiple of the number of key heads", "repeat heads.")
    if mask is not None and not is_bool(mask.dtype):
        raise wrong("the mask must be boolean", "pass mask > 0, or pass it as bias.")
    wanted = (batch, heads, targets, key.shape[1])
    if any(x is not None and any(n not in (1, m) for n, m in zip(x.shape, wanted, strict=True)) for x in (bias, mask)):
        raise wrong(f"bias and mask must broadcast to [B, N, T, S], which is {list(wanted)}", "reshape them.")
    if any(x is not None and (x.shape != (batch,) or not is_int(x.dtype)) for x in lengths):
        raise wrong("lengths must be integers [B]", "pass one length for each sequence of the batch.")
