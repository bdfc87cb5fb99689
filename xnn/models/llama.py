"""Llama, a decoder-only transformer with rotary positions and gated feed-forward networks (Touvron et al., 2023)."""

from dataclasses import dataclass

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
    Llama3Scaling,
    MultiHeadAttention,
    RMSNorm,
    Rotary,
)
from xnn.sharing import shared, with_shared


@dataclass(frozen=True, slots=True)
class LlamaConfig:
    """Sizes of a `Llama`; the defaults are Llama 3.1 8B.

    Attributes:
      vocabulary: number of tokens.
      features, hidden, layers: sizes of the blocks and of their feed-forward networks.
      heads, kv_heads: number of heads of queries, and of keys and values.
      head_size: features of a head; features // heads if None.
      base, scaling: of `Rotary`.
      epsilon: of `RMSNorm`.
      tied: whether the output layer is the table of the embedding, as in the small models of Llama 3.2.
    """

    vocabulary: int = 128_256
    features: int = 4096
    hidden: int = 14_336
    layers: int = 32
    heads: int = 32
    kv_heads: int = 8
    head_size: int | None = None
    base: float = 500_000.0
    scaling: Llama3Scaling | None = Llama3Scaling()
    epsilon: float = 1e-5
    tied: bool = False


def Llama(config: LlamaConfig = LlamaConfig()) -> Layer:
    """Logits of the next token at each position.  Shape: integers [batch, time] -> [batch, time, vocabulary].

    Inputs: mask, bias and positions, as of `MultiHeadAttention`.
    Params: ``{"tokens", "blocks", "norm", "logits"}``; if tied ``{"shared": {"tokens"}, "body": the others}``. Those of
      the blocks have a first axis of layers. Llama 3.1 8B has 8,030,261,248 numbers.
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
