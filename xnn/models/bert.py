"""BERT, a transformer encoder for text (Devlin et al., 2019)."""

import xjax.numpy as jnp
from xjax.nn import initializers
from xnn.combinators import repeat
from xnn.compose import composite
from xnn.layer import Layer
from xnn.layers import (
    Dense,
    Dropout,
    Embedding,
    EncoderBlock,
    FeedForward,
    LayerNorm,
    LearnedPositions,
    MultiHeadAttention,
)
from xnn.layers.transformer import exact_gelu
from xnn.models.configs import BERTConfig


def BERT(config: BERTConfig = BERTConfig()) -> Layer:
    """A vector for each token, and one for the text: the pooled vector of the first token.

    Shape: integers [batch, time] -> ([batch, time, features], [batch, features]).
    Inputs: mask, bool [batch, time], False for padding; token_types, integers [batch, time], None: all 0;
      positions, as in `LearnedPositions`.
    Params: ``{"tokens", "types", "positions", "norm", "blocks", "pooler", "dropout"}``. The first axis of the
      parameters of the blocks is the number of the layer. The base model has 109,482,240 parameters.
    """
    w_init, norm = initializers.normal(0.02), LayerNorm(epsilon=config.epsilon)
    attention = MultiHeadAttention(config.features, config.heads, dropout=config.dropout, w_init=w_init)
    feed_forward = FeedForward(config.features, config.hidden, activation=exact_gelu, w_init=w_init)
    block = EncoderBlock(attention, feed_forward, norm=norm, norm_first=False, dropout=config.dropout)

    def forward(layers, tokens, mask=None, token_types=None, positions=None):
        types = jnp.zeros_like(tokens) if token_types is None else token_types
        x = layers.positions(layers.tokens(tokens) + layers.types(types), mask=mask, positions=positions)
        x = layers.blocks(layers.dropout(layers.norm(x)), mask=mask)
        return x, jnp.tanh(layers.pooler(x[:, 0]))

    return composite(
        forward, "BERT", tokens=Embedding(config.vocabulary, config.features, init=w_init),
        types=Embedding(config.types, config.features, init=w_init), positions=LearnedPositions(config.length),
        norm=norm, blocks=repeat(block, config.layers), pooler=Dense(config.features, w_init=w_init),
        dropout=Dropout(config.dropout))
