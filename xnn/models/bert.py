"""BERT, a transformer encoder for text (Devlin et al., 2019), and encoders of the same form, such as RoBERTa."""

from collections.abc import Callable, Mapping

import xjax.numpy as jnp
from xjax import nn
from xjax.errors import bad
from xjax.nn import initializers
from xjax.typing import Array
from xnn.checks import type_text
from xnn.combinators import repeat
from xnn.compose import composite
from xnn.layer import Layer
from xnn.layers import (
    Attend,
    Bias,
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
from xnn.models.heads import VECTORS, Head, chosen, pooler_head
from xnn.sharing import shared, with_shared

_W_INIT = initializers.normal(0.02)


def BERT(config: BERTConfig = BERTConfig()) -> Layer:
    """A vector for each token, and outputs that the head computes from them.

    Shape: integers [batch, time] -> by `config.head`:

    - "pooler": ([batch, time, features], [batch, features]), the vectors, and the pooled vector of the first token;
    - "none": [batch, time, features];
    - "masked_token": logits of the token at each position [batch, time, vocabulary], by the table of the embedding;
    - "sequence": logits of the text [batch, classes], from the pooled vector;
    - "token": logits of each token [batch, time, classes];
    - "answer": ([batch, time], [batch, time]), logits of the first and the last token of the answer to a question.

    Inputs: mask, bool [batch, time], False for padding; token_types, integers [batch, time], None: all 0;
      positions, as in `LearnedPositions`.
    Params: ``{"tokens", "types", "positions", "norm", "blocks", "dropout"}`` and the layers of the head: "pooler",
      "logits", and for masked tokens "transform", "transform_norm" and "bias", in
      ``{"shared": {"tokens"}, "body": the others}``. The first axis of the parameters of the blocks is the number of
      the layer. The base model has 109,482,240 parameters.
    """
    head = chosen("BERT", config.head, _HEADS)(config)
    norm = LayerNorm(epsilon=config.epsilon)
    attention = MultiHeadAttention(config.features, config.heads, dropout=config.dropout, w_init=_W_INIT)
    feed_forward = FeedForward(config.features, config.hidden, activation=exact_gelu, w_init=_W_INIT)
    block = EncoderBlock(attention, feed_forward, norm=norm, norm_first=False, dropout=config.dropout)
    tokens = Embedding(config.vocabulary, config.features, init=_W_INIT)
    types = {"types": Embedding(config.types, config.features, init=_W_INIT)} if config.types else {}

    def forward(layers, tokens, mask=None, token_types=None, positions=None):
        if positions is None and config.padding is not None:
            positions = _positions_after(config, tokens)
        x = layers.tokens(tokens)
        if config.types:
            x = x + layers.types(jnp.zeros_like(tokens) if token_types is None else token_types)
        elif token_types is not None:
            raise bad("BERT", "the model has no token types", {"token_types": type_text(token_types)},
                      "leave them out, or make the model with types=2.")
        x = layers.norm(layers.positions(x, mask=mask, positions=positions))
        return head.apply(layers, layers.blocks(layers.dropout(x), mask=mask))

    is_tied = config.head == "masked_token"
    model = composite(
        forward, "BERT", tokens=shared("tokens", tokens) if is_tied else tokens, **types,
        positions=LearnedPositions(config.length), norm=norm, blocks=repeat(block, config.layers), **head.layers,
        dropout=Dropout(config.dropout))
    return with_shared(model) if is_tied else model


def _positions_after(config: BERTConfig, tokens: Array) -> Array:
    """Positions [batch, time]: that of padding is its own number, those of other tokens follow."""
    is_kept = (tokens != config.padding).astype("int32")
    return jnp.cumsum(is_kept, 1) * is_kept + config.padding


# -- heads -----------------------------------------------------------------------------------------------------------


def _pooler(config: BERTConfig) -> Head:
    return pooler_head(config.features, nn.relu if config.pooler == "relu" else jnp.tanh, w_init=_W_INIT)


def _masked_token(config: BERTConfig) -> Head:
    layers = {"transform": Dense(config.features, w_init=_W_INIT), "transform_norm": LayerNorm(epsilon=config.epsilon),
              "logits": shared("tokens", Attend(config.vocabulary, init=_W_INIT)), "bias": Bias()}
    return Head(layers, lambda layers, x: layers.bias(layers.logits(
        layers.transform_norm(exact_gelu(layers.transform(x))))))


def _sequence(config: BERTConfig) -> Head:
    pooler = _pooler(config)

    def apply(layers, x):
        _, pooled = pooler.apply(layers, x)
        return layers.logits(layers.dropout(pooled))

    return Head({**pooler.layers, "logits": Dense(config.classes, w_init=_W_INIT)}, apply)


def _token(config: BERTConfig) -> Head:
    return Head({"logits": Dense(config.classes, w_init=_W_INIT)}, lambda layers, x: layers.logits(layers.dropout(x)))


def _answer(config: BERTConfig) -> Head:
    def apply(layers, x):
        logits = layers.logits(x)
        return logits[..., 0], logits[..., 1]

    return Head({"logits": Dense(2, w_init=_W_INIT)}, apply)


_HEADS: Mapping[str, Callable[[BERTConfig], Head]] = {
    "pooler": _pooler, "none": lambda config: VECTORS, "masked_token": _masked_token, "sequence": _sequence,
    "token": _token, "answer": _answer}
