"""Transformer blocks: attention and a feed-forward network, each with a norm and a residual connection.

A block is built from layers that the caller passes, so their options are not repeated here. The block of Llama is

    EncoderBlock(MultiHeadAttention(4096, 32, kv_heads=8, causal=True, positions=Rotary(), bias=False),
                 FeedForward(4096, 14_336, activation=nn.silu, gated=True, bias=False), norm=RMSNorm())

and the block of BERT has `norm_first=False`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from xjax import nn
from xjax.errors import bad
from xjax.typing import Array, ArrayLike
from xnn.compose import composite
from xnn.layer import Layer, LayerLike, as_layer, call_text, recorded
from xnn.layers.dense import Dense
from xnn.layers.dropout import Dropout
from xnn.layers.norm import LayerNorm


@recorded()
def FeedForward(features: int, hidden: int, *, activation: Callable = nn.gelu, gated: bool = False, bias: bool = True,
                dropout: float = 0.0, w_init: Callable | None = None) -> Layer:
    """``down(f(up(x)))``, or gated ``down(f(gate(x)) * up(x))`` (GLU variants, Shazeer, 2020).

    Shape: [..., n_in] -> [..., features].
    Args:
      features: number of output features.
      hidden: number of hidden features, between `up` and `down`.
      activation: f, a function of arrays; `nn.gelu` is the tanh approximation of GPT-2, `exact_gelu` uses erf.
      gated: whether f is applied to a third projection, the gate; with `nn.silu` it is SwiGLU, as in Llama.
      bias: whether the projections add a vector.
      dropout: dropout rate of the hidden features, in training.
      w_init: initializer of the matrices, as in `Dense`.
    Params: ``{"up", "down"}``, and "gate" if gated, each ``{"w", "b"}`` of a `Dense`; ``"dropout": ()``.
    """

    def feed_forward(layers, x):
        y = activation(layers.gate(x)) * layers.up(x) if gated else activation(layers.up(x))
        return layers.down(layers.dropout(y))

    sizes = {**({"gate": hidden} if gated else {}), "up": hidden, "down": features}
    return composite(feed_forward, "FeedForward", dropout=Dropout(dropout),
                     **{name: Dense(n, bias=bias, w_init=w_init) for name, n in sizes.items()})


def exact_gelu(x: ArrayLike) -> Array:
    """x times the standard normal distribution function of x, by erf: the activation of BERT and ViT."""
    return nn.gelu(x, approximate=False)


@recorded("attention", "feed_forward", "norm")
def EncoderBlock(attention: Layer, feed_forward: Layer, *, norm: Layer | None = None, norm_first: bool = True,
                 norm_out: bool = False, dropout: float = 0.0) -> Layer:
    """``x + attention(norm(x))``, then ``x + feed_forward(norm(x))``.  Shape: [batch, time, features] -> the same.

    With causal attention it is the block of a decoder-only model.

    Args:
      attention: a self-attention layer, such as `MultiHeadAttention`.
      feed_forward: a layer such as `FeedForward`.
      norm: the norm, used at both places with separate parameters; None: `LayerNorm()`.
      norm_first: False normalises the sums, ``norm(x + attention(x))``, as in the original transformer.
      norm_out: whether the two summands that are added to x are normalised too, as in Gemma 2.
      dropout: dropout rate of the two summands, in training.
    Inputs: mask, bias and positions, which `attention` must have; `local`, as in `MultiHeadAttention`; row_mask, if a
      layer has it, such as `MixtureOfExperts` or `BatchNorm`. Those layers get a mask [batch, time] as their row_mask,
      unless the call passes one.
    Params: ``{"attention_norm", "attention", "feed_forward_norm", "feed_forward"}`` and ``"dropout": ()``; with
      `norm_out` also "attention_out_norm" and "feed_forward_out_norm".
    """
    attention = _with_inputs("EncoderBlock", "attention", attention, ("mask", "bias", "positions"))
    norm = LayerNorm() if norm is None else norm

    def block(layers, x, mask=None, bias=None, positions=None, local=None, row_mask=None):
        rows = _rows(mask, row_mask)
        # An attention layer of the user needs no input `local` if the caller does not pass it.
        chosen = {} if local is None else {"local": local}
        x = added("attention", layers, x, rows, mask=mask, bias=bias, positions=positions, **chosen)
        return added("feed_forward", layers, x, rows)

    children = {"attention_norm": norm, "attention": attention, "feed_forward_norm": norm, "feed_forward": feed_forward}
    if norm_out:
        children |= {"attention_out_norm": norm, "feed_forward_out_norm": norm}
    added = _added(norm_first, children)
    return composite(block, "EncoderBlock", **children, dropout=Dropout(dropout))


@recorded("attention", "cross_attention", "feed_forward", "norm")
def DecoderBlock(attention: Layer, cross_attention: Layer, feed_forward: Layer, *, norm: Layer | None = None,
                 norm_first: bool = True, dropout: float = 0.0) -> Layer:
    """`EncoderBlock` with cross-attention between the two layers: the block of a decoder with an encoder.

    Shape: [batch, time, features], context [batch, keys, n_context] -> [batch, time, features].
    Args: attention: a causal layer; cross_attention: a layer such as `CrossAttention`; others as in `EncoderBlock`.
    Inputs: mask, bias, positions, row_mask as in `EncoderBlock`; context and context_mask as in `CrossAttention`.
    Params: those of `EncoderBlock`, and ``{"cross_attention_norm", "cross_attention"}``.
    Raises: ValueError if `attention` has no cache.
    """
    attention = _with_inputs("DecoderBlock", "attention", attention, ("mask", "bias", "positions"))
    cross_attention = _with_inputs("DecoderBlock", "cross_attention", cross_attention, ("context", "context_mask"))
    if attention.cache is None:
        raise bad("DecoderBlock", "the attention of a decoder must be causal", {"attention": call_text(attention)},
                  "MultiHeadAttention(..., causal=True).", ValueError)
    norm = LayerNorm() if norm is None else norm

    def block(layers, x, context, context_mask=None, mask=None, bias=None, positions=None, row_mask=None):
        rows = _rows(mask, row_mask)
        x = added("attention", layers, x, rows, mask=mask, bias=bias, positions=positions)
        x = added("cross_attention", layers, x, rows, context=context, context_mask=context_mask)
        return added("feed_forward", layers, x, rows)

    children = {"attention_norm": norm, "attention": attention, "cross_attention_norm": norm,
                "cross_attention": cross_attention, "feed_forward_norm": norm, "feed_forward": feed_forward}
    added = _added(norm_first, children)
    return composite(block, "DecoderBlock", **children, dropout=Dropout(dropout))


def _rows(mask: ArrayLike | None, row_mask: ArrayLike | None) -> ArrayLike | None:
    """The row mask of a block: `row_mask`, else a mask [batch, time]; a mask of pairs does not say which rows count."""
    return mask if row_mask is None and mask is not None and np.ndim(mask) == 2 else row_mask


def _added(norm_first: bool, children: Mapping[str, LayerLike]) -> Callable:
    """A function ``(name, layers, x, rows, **inputs)``: x plus the layer's output, with the norm before or after.

    The output has a norm of its own if `children` has one for it. The argument `rows` is the row mask, for the layer
    and for its norms if they have that input.
    """
    masked = {name for name, child in children.items() if "row_mask" in as_layer(child, name).extra_inputs}

    def added(name: str, layers: Any, x: ArrayLike, rows: ArrayLike | None, **inputs: Any) -> Array:
        def call(key: str, x: ArrayLike, **inputs: Any) -> Array:
            return layers[key](x, **inputs, **({"row_mask": rows} if key in masked else {}))

        y = call(name, call(f"{name}_norm", x) if norm_first else x, **inputs)
        y = layers.dropout(call(f"{name}_out_norm", y) if f"{name}_out_norm" in children else y)
        return x + y if norm_first else call(f"{name}_norm", x + y)

    return added


def _with_inputs(caller: str, what: str, layer: Layer, names: tuple[str, ...]) -> Layer:
    """The layer. Raises: ValueError if it lacks one of these inputs, which a block passes to it."""
    layer = as_layer(layer, f"{caller}[{what!r}]")
    missing = [name for name in names if name not in layer.extra_inputs]
    if missing:
        raise bad(caller, f"`{what}` has no input `{missing[0]}`",
                  {what: call_text(layer), "inputs": ", ".join(("x", *layer.extra_inputs))},
                  f"pass a layer with the inputs x, {', '.join(names)}.", ValueError)
    return layer
