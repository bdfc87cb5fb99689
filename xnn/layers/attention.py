"""`MultiHeadAttention` and `CrossAttention`: four `Dense` layers around attention without parameters; `LimitAttention`.

The projections are matrices [features, heads * head_size], with the heads one after another, instead of arrays with
three axes. So weights of Hugging Face are their transposes, `params.low_rank` can adapt them, and a mesh axis over the
last axis shards them by heads.
"""

import dataclasses
from collections.abc import Callable
from typing import Literal

import xjax.numpy as jnp
from xjax import nn
from xjax.errors import bad, check_choice
from xjax.typing import Array
from xnn.compose import composite
from xnn.covariance.attention import weighted, with_gaussian_products
from xnn.covariance.evaluation import kernel_after
from xnn.covariance.kernel import NONE
from xnn.layer import Layer, recorded, shape_kept
from xnn.layers.dense import Dense
from xnn.layers.dot_product import ContextAttention, DotProductAttention
from xnn.layers.positions import check_sequence
from xnn.layers.relative import ALiBi, Rotary


@recorded("head_norm")
def MultiHeadAttention(features: int, heads: int, *, head_size: int | None = None, kv_heads: int | None = None,
                       causal: bool = False, window: int | None = None, positions: Rotary | ALiBi | None = None,
                       local_positions: Rotary | None = None, bias: bool = True, out_bias: bool | None = None,
                       head_norm: Layer | None = None, dropout: float = 0.0, scale: float | None = None,
                       cap: float | None = None, w_init: Callable | None = None,
                       query_init: Callable | None = None) -> Layer:
    """Multi-head self-attention: each position gets a weighted mean over all positions (Vaswani et al., 2017).

    Shape: [batch, time, n_in] -> [batch, time, features].

    Args:
      features: number of output features.
      heads: number of heads of the query.
      head_size: features of a head; None: ``features // heads``.
      kv_heads: number of heads of keys and values, each shared by ``heads // kv_heads`` adjacent heads of the query
        (grouped-query attention, Ainslie et al., 2023; 1: multi-query); None: `heads`.
      causal: whether later positions are excluded for each position; needed for generation.
      window: if not None, a position attends only to positions at a distance less than `window`.
      positions: `Rotary()` or `ALiBi()`; with None, attention does not depend on the order of positions.
      local_positions: the rotation where the input `local` is True; None: `positions`.
      bias: whether the four projections add a vector.
      out_bias: whether the last projection does; None: as `bias`.
      head_norm: a norm of the features of each head of query and key, before the rotation (Dehghani et al., 2023).
      dropout: rate at which attention weights are dropped in training.
      scale: factor of the products; None: ``1 / sqrt(head_size)``.
      cap: limit of the products p, which become ``cap * tanh(p / cap)``, as in Gemma 2; None: no limit.
      w_init: initializer of the four matrices, as in `Dense`.
      query_init: that of the query's matrix; None: w_init.
    Inputs:
      mask: bool [batch, time], False for padding, which may be NaN; or [batch or 1, heads or 1, time, time], True
        where the query (third axis) attends to the key (last axis). A query without keys gets zeros, before the last
        projection.
      bias: float, with four axes like the mask; it is added to the products, see `RelativeBias`.
      positions: int [batch or 1, time]. None: positions are counted from 0. A mask [batch, time] excludes padding from
        the count, so padding may be on the left or right.
      local: bool [], whether `window` and `local_positions` apply in this call, for models in which only some of the
        layers are local, see `repeat`; None: the window applies, and `local_positions` do not.
    Params: ``{"query", "key", "value", "out"}``, each ``{"w", "b"}`` of a `Dense`, and ``"attend": ()``; with a
      head_norm its parameters for one head, "query_norm" and "key_norm".
    Cache: that of `DotProductAttention`.
    Raises: ValueError if `features` is not a multiple of `heads` (unless head_size is given), or `heads` not a multiple
      of `kv_heads`.
    """
    head_size, kv_heads = _head_sizes("MultiHeadAttention", features, heads, head_size, kv_heads)
    attend = DotProductAttention(heads, head_size, kv_heads=kv_heads, causal=causal, window=window,
                                 positions=positions, local_positions=local_positions, dropout=dropout, scale=scale,
                                 cap=cap)

    def normed(layers, name, x):
        if head_norm is None:
            return x
        by_head = jnp.reshape(x, (*x.shape[:2], -1, head_size))
        return jnp.reshape(layers[f"{name}_norm"](by_head), x.shape)

    def attention(layers, x, mask=None, bias=None, positions=None, local=None):
        x = check_sequence("MultiHeadAttention", x)
        query, key = normed(layers, "query", layers.query(x)), normed(layers, "key", layers.key(x))
        return layers.out(layers.attend(query, key=key, value=layers.value(x), mask=mask, bias=bias,
                                        positions=positions, local=local))

    projections = _projections(features, heads, kv_heads, head_size, bias, w_init, query_init)
    if out_bias is not None:
        projections["out"] = Dense(features, bias=out_bias, w_init=w_init)
    norms = {} if head_norm is None else {"query_norm": head_norm, "key_norm": head_norm}
    return _without_kernel(composite(attention, "MultiHeadAttention", attend=attend, **projections, **norms))


@recorded()
def CrossAttention(features: int, heads: int, *, head_size: int | None = None, kv_heads: int | None = None,
                   bias: bool = True, dropout: float = 0.0, scale: float | None = None,
                   w_init: Callable | None = None, query_init: Callable | None = None) -> Layer:
    """Attention of each position to a second sequence, the context, such as an encoder's output in a decoder.

    Shape: [batch, time, n_in], context [batch, keys, n_context] -> [batch, time, features].

    Args: as in `MultiHeadAttention`.
    Inputs:
      context: the second sequence. In a call with a cache, None reuses the keys and values of the first call, so they
        are computed once.
      context_mask: bool [batch, keys], False for padding; or [batch or 1, heads or 1, time, keys].
    Params: as in `MultiHeadAttention`.  Cache: empty at first, then keys, values and mask of the context.
    Raises: as in `MultiHeadAttention`.
    """
    head_size, kv_heads = _head_sizes("CrossAttention", features, heads, head_size, kv_heads)

    def attention(layers, x, context, context_mask=None):
        x = check_sequence("CrossAttention", x)
        key, value = (None, None) if context is None else (layers.key(context), layers.value(context))
        return layers.out(layers.attend(layers.query(x), key=key, value=value, mask=context_mask))

    attend = ContextAttention(heads, head_size, kv_heads=kv_heads, dropout=dropout, scale=scale)
    return _without_kernel(composite(attention, "CrossAttention", attend=attend,
                                     **_projections(features, heads, kv_heads, head_size, bias, w_init, query_init)))


def _without_kernel(layer: Layer) -> Layer:
    """The layer, whose `kernel` is refused: in the limit the weights of attention are not constant."""
    def kernel_rule(_, **inputs):
        raise bad(f"{layer.name}.kernel", "the softmax of products of queries and keys has no kernel in closed form",
                  fix="LimitAttention has one, or compute that of the finite network: xnn.kernels.empirical_ntk.")

    return dataclasses.replace(layer, kernel_rule=kernel_rule, parts=layer.parts and layer.parts.then(_without_kernel))


def _head_sizes(caller: str, features: int, heads: int, head_size: int | None, kv_heads: int | None) -> tuple[int, int]:
    """(head_size, kv_heads) with defaults. Raises: ValueError if features or heads are not divisible."""
    if head_size is None and features % heads:
        raise bad(caller, "the features do not divide into heads of equal size",
                  {"features": features, "heads": heads}, "pass head_size=, or another number of heads.", ValueError)
    if kv_heads is not None and (kv_heads < 1 or heads % kv_heads):
        raise bad(caller, "the heads do not divide into groups that share keys and values",
                  {"heads": heads, "kv_heads": kv_heads}, f"pass a divisor of {heads}, such as kv_heads=1.", ValueError)
    return head_size or features // heads, kv_heads or heads


def _projections(features: int, heads: int, kv_heads: int, head_size: int, bias: bool,
                 w_init: Callable | None, query_init: Callable | None) -> dict[str, Layer]:
    sizes = {"query": heads * head_size, "key": kv_heads * head_size, "value": kv_heads * head_size, "out": features}
    return {name: Dense(n, bias=bias, w_init=query_init or w_init if name == "query" else w_init)
            for name, n in sizes.items()}


_WEIGHTS = {"softmax": nn.softmax, "identity": lambda products: products, "relu": nn.relu, "abs": jnp.abs}


@recorded()
def LimitAttention(features: int, heads: int, *, head_size: int | None = None,
                   scaling: Literal["linear", "root"] = "linear",
                   weights: Literal["softmax", "identity", "relu", "abs"] = "softmax", bias: bool = True,
                   w_init: Callable | None = None, b_init: Callable | None = None) -> Layer:
    """Self-attention whose limit of infinite width has a kernel in closed form (Hron et al., 2020).

    Shape: [batch, time, n_in] -> [batch, time, features].

    Args:
      features, heads, head_size: as in `MultiHeadAttention`.
      scaling: "linear": products are divided by `head_size`, and keys are the queries, so that products have a limit;
        "root": products are divided by its root, and are Gaussian in the limit, which needs weights="identity".
      weights: the function of the products that gives the weights of the values; "identity" for the products.
      bias: whether the last projection adds a vector; the others do not.
      w_init, b_init: as in `Dense`.
    Inputs: mask: bool [batch, time], False for padding, which gets no weight.
    Params: ``{"query", "key", "value", "out"}``, each ``{"w", "b"}`` of a `Dense`, and ``"attend": ()``; no "key" with
      linear scaling.
    Raises: ValueError for other weights with scaling="root".
    """
    check_choice("LimitAttention", "scaling", scaling, ("linear", "root"))
    check_choice("LimitAttention", "weights", weights, _WEIGHTS)
    if scaling == "root" and weights != "identity":
        raise bad("LimitAttention", "there is no closed form for a function of Gaussian products", {"weights": weights},
                  'pass weights="identity", or scaling="linear".', ValueError)
    head_size, _ = _head_sizes("LimitAttention", features, heads, head_size, heads)
    names = ("query", "value") if scaling == "linear" else ("query", "key", "value")
    children = {name: Dense(heads * head_size, bias=False, w_init=w_init) for name in names}
    children["attend"] = Layer(shape_kept, lambda params, x, key, value, mask=None, *, rng=None, train=False: attend(
        x, key, value, mask), "attend")
    children["out"] = Dense(features, bias=bias, w_init=w_init, b_init=b_init)
    factor = 1 / head_size if scaling == "linear" else head_size**-0.5

    def weights_of(products: Array, mask: Array | None) -> Array:
        """Args: products: [batch, ..., time, time]; mask: [batch, time]."""
        if mask is None:
            return _WEIGHTS[weights](products)
        seen = jnp.expand_dims(jnp.asarray(mask).astype(bool), tuple(range(1, products.ndim - 1)))
        seen = jnp.broadcast_to(seen, products.shape)
        if weights == "softmax":
            return nn.softmax(products, where=seen)
        return jnp.where(seen, _WEIGHTS[weights](products), 0)

    def attend(query: Array, key: Array, value: Array, mask: Array | None) -> Array:
        query, key, value = (jnp.reshape(one, (*one.shape[:2], heads, head_size)) for one in (query, key, value))
        products = jnp.einsum("bshc,bthc->bhst", query, key) * factor
        y = jnp.einsum("bhst,bthc->bshc", weights_of(products, mask), value)
        return jnp.reshape(y, (*y.shape[:2], heads * head_size))

    def attention(layers, x, mask=None):
        x = check_sequence("LimitAttention", x)
        query = layers.query(x)
        key = query if scaling == "linear" else layers.key(x)
        return layers.out(layers.attend(query, key=key, value=layers.value(x), mask=mask))

    def kernel_rule(kernel, mask=NONE):
        of = {name: kernel_after(children[name], kernel, {}) for name in names}
        if scaling == "linear":
            after = weighted(of["value"], of["query"], weights_of, mask)
        else:
            after = with_gaussian_products(of["query"], of["key"], of["value"], mask)
        return kernel_after(children["out"], after, {})

    return dataclasses.replace(composite(attention, "LimitAttention", **children), kernel_rule=kernel_rule)
