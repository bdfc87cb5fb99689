"""Llama, a decoder-only transformer with rotary positions and gated feed-forward networks (Touvron et al., 2023)."""

from xjax import nn
from xjax.nn import initializers
from xnn.combinators import named, repeat
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
from xnn.sharing import shared, with_shared


def Llama(config: LlamaConfig = LlamaConfig()) -> Layer:
    """Logits of the next token at each position.  Shape: integers [batch, time] -> [batch, time, vocabulary].

    Inputs: mask, bias and positions, as in `MultiHeadAttention`.
    Params: ``{"tokens", "blocks", "norm", "logits"}``; if tied ``{"shared": {"tokens"}, "body": the others}``.
      The first axis of the parameters of the blocks is the number of the layer. Llama 3.1 8B has 8,030,261,248
      parameters.
    Cache: keys and values of each block.
    """
    w_init = initializers.normal(0.02)
    norm = RMSNorm(epsilon=config.epsilon)
    attention = MultiHeadAttention(
        config.features, config.heads, head_size=config.head_size, kv_heads=config.kv_heads, causal=True,
        positions=Rotary(config.base, scaling=config.scaling), bias=False, w_init=w_init)
    feed_forward = FeedForward(config.features, config.hidden, activation=nn.silu, gated=True, bias=False,
                               w_init=w_init)
    tokens = Embedding(config.vocabulary, config.features, init=w_init)
    blocks = repeat(EncoderBlock(attention, feed_forward, norm=norm), config.layers)
    if config.tied:
        return with_shared(named(tokens=shared("tokens", tokens), blocks=blocks, norm=norm,
                                 logits=shared("tokens", Attend(config.vocabulary, init=w_init))))
    return named(tokens=tokens, blocks=blocks, norm=norm, logits=Dense(config.vocabulary, bias=False, w_init=w_init))
