"""Llama, a decoder-only transformer with rotary positions and gated feed-forward networks (Touvron et al., 2023).

Mistral, Qwen and Gemma are options of the same model.
"""

import math

import xjax.numpy as jnp
from xjax import nn
from xjax.errors import bad
from xjax.nn import initializers
from xnn.combinators import repeat
from xnn.compose import composite
from xnn.layer import Layer
from xnn.layers import (
    Attend,
    Dense,
    Embedding,
    EncoderBlock,
    FeedForward,
    MultiHeadAttention,
    RMSNorm,
    Rotary,
)
from xnn.models.configs import LlamaConfig
from xnn.models.heads import kept_tokens, last_kept
from xnn.sharing import shared, with_shared

_INIT = initializers.normal(0.02)
_ACTIVATIONS = {"silu": nn.silu, "gelu": nn.gelu}


def Llama(config: LlamaConfig = LlamaConfig()) -> Layer:
    """Logits of the next token at each position.  Shape: integers [batch, time] -> [batch, time, vocabulary].

    Other outputs, by `config.head`: "sequence" [batch, classes], "token" [batch, time, classes], and "none" [batch,
    time, features].
    Inputs: mask, bias and positions, as in `MultiHeadAttention`.
    Params: ``{"tokens", "blocks", "norm", "logits"}``; if tied ``{"shared": {"tokens"}, "body": the others}``.
      The first axis of the parameters of the blocks is the number of the layer. Llama 3.1 8B has 8,030,261,248
      parameters.
    Cache: keys and values of each block.
    Raises: ValueError if `config.local` has not one entry for each layer.
    """
    tokens = Embedding(config.vocabulary, config.features, init=_INIT)
    is_tied = config.tied and config.head == "next_token"
    layers = {"tokens": shared("tokens", tokens) if is_tied else tokens, "blocks": _blocks(config),
              "norm": _norm(config), **_head(config)}

    def decoder(layers, tokens, mask=None, bias=None, positions=None):
        x = layers.tokens(tokens)
        if config.embedding_scale:
            x = x * math.sqrt(config.features)
        x = layers.norm(layers.blocks(x, mask=mask, bias=bias, positions=positions))
        if config.head == "none":
            return x
        if config.head == "sequence":
            x = last_kept("Llama", x, kept_tokens(tokens, mask, config.padding))
        logits = layers.logits(x)
        if config.head != "next_token" or config.logit_cap is None:
            return logits
        return config.logit_cap * jnp.tanh(logits / config.logit_cap)

    model = composite(decoder, "Llama", **layers)
    return with_shared(model) if is_tied else model


def _blocks(config: LlamaConfig) -> Layer:
    if config.local is not None and len(config.local) != config.layers:
        raise bad("Llama", "`local` needs one entry for each layer", {"local": config.local, "layers": config.layers},
                  "local=None makes all layers local that have a window.", ValueError)
    attention = MultiHeadAttention(
        config.features, config.heads, head_size=config.head_size, kv_heads=config.kv_heads, causal=True,
        window=config.window, positions=Rotary(config.base, scaling=config.scaling),
        local_positions=None if config.local_base is None else Rotary(config.local_base),
        bias=config.bias != "none", out_bias=False if config.bias == "inputs" else None,
        head_norm=_norm(config) if config.head_norm else None, cap=config.attention_cap,
        scale=None if config.query_size is None else config.query_size**-0.5, w_init=_INIT)
    feed_forward = FeedForward(config.features, config.hidden, activation=_ACTIVATIONS[config.activation], gated=True,
                               bias=config.feed_forward_bias, w_init=_INIT)
    block = EncoderBlock(attention, feed_forward, norm=_norm(config), norm_out=config.norm_out)
    # Without `local` all layers are alike; they then need the input only for the rotation of local layers.
    needs_local = config.local is not None or config.local_base is not None
    local = config.local if config.local is not None else (config.window is not None,) * config.layers
    return repeat(block, config.layers, each={"local": local} if needs_local else None)


def _head(config: LlamaConfig) -> dict[str, Layer]:
    """The output layer as "logits"; none for features."""
    match config.head:
        case "none":
            return {}
        case "next_token" if config.tied:
            return {"logits": shared("tokens", Attend(config.vocabulary, init=_INIT))}
        case "next_token":
            return {"logits": Dense(config.vocabulary, bias=False, w_init=_INIT)}
        case _:
            return {"logits": Dense(config.classes, bias=config.head == "token", w_init=_INIT)}


def _norm(config: LlamaConfig) -> Layer:
    return RMSNorm(epsilon=config.epsilon, offset=config.norm_offset)
