"""GPT-2, a decoder-only transformer (Radford et al., 2019)."""

from xjax.nn import initializers
from xnn.combinators import named, repeat
from xnn.layer import Layer
from xnn.layers import (
    Attend,
    Dropout,
    Embedding,
    EncoderBlock,
    FeedForward,
    LayerNorm,
    LearnedPositions,
    MultiHeadAttention,
)
from xnn.models.configs import GPT2Config
from xnn.sharing import shared, with_shared


def GPT2(config: GPT2Config = GPT2Config()) -> Layer:
    """Logits of the next token at each position.  Shape: integers [batch, time] -> [batch, time, vocabulary].

    Inputs: mask, bias and positions, as in `MultiHeadAttention`.
    Params: ``{"shared": {"tokens"}, "body": {"positions", "blocks", "norm", ...}}``; the output layer uses the table of
      the embedding. The first axis of the parameters of the blocks is the number of the layer. The small model has
      124,439,808 parameters.
    Cache: keys and values of each block, and the positions so far.
    """
    w_init = initializers.normal(0.02)
    attention = MultiHeadAttention(config.features, config.heads, causal=True, dropout=config.dropout, w_init=w_init)
    feed_forward = FeedForward(config.features, 4 * config.features, w_init=w_init)
    return with_shared(named(
        tokens=shared("tokens", Embedding(config.vocabulary, config.features, init=w_init)),
        positions=LearnedPositions(config.length),
        dropout=Dropout(config.dropout),
        blocks=repeat(EncoderBlock(attention, feed_forward, dropout=config.dropout), config.layers),
        norm=LayerNorm(),
        logits=shared("tokens", Attend(config.vocabulary, init=w_init))))
