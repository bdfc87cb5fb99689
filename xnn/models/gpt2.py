"""GPT-2, a decoder-only transformer (Radford et al., 2019)."""

from xjax.nn import initializers
from xnn.combinators import named, repeat
from xnn.compose import composite
from xnn.layer import Layer
from xnn.layers import (
    Attend,
    Dense,
    Dropout,
    Embedding,
    EncoderBlock,
    FeedForward,
    LayerNorm,
    LearnedPositions,
    MultiHeadAttention,
)
from xnn.models.configs import GPT2Config
from xnn.models.heads import chosen, kept_tokens, last_kept
from xnn.sharing import shared, with_shared

_W_INIT = initializers.normal(0.02)


def GPT2(config: GPT2Config = GPT2Config()) -> Layer:
    """Logits of the next token at each position, or other outputs by `config.head`.

    Shape: integers [batch, time] -> "next_token": [batch, time, vocabulary]; "none": [batch, time, features];
      "sequence": [batch, classes], from the last token of each text.
    Inputs: mask, bias and positions, as in `MultiHeadAttention`.
    Params: ``{"shared": {"tokens"}, "body": {"positions", "blocks", "norm", ...}}``; the output layer uses the table of
      the embedding. Other heads share nothing: ``{"tokens", "positions", ...}``. The first axis of the parameters of
      the blocks is the number of the layer. The small model has 124,439,808 parameters.
    Cache: keys and values of each block, and the positions so far.
    """
    return chosen("GPT2", config.head, {"next_token": _language_model, "sequence": _classifier,
                                   "none": lambda config: named(**_base(config))})(config)


def _base(config: GPT2Config) -> dict[str, Layer]:
    attention = MultiHeadAttention(config.features, config.heads, causal=True, dropout=config.dropout, w_init=_W_INIT)
    feed_forward = FeedForward(config.features, 4 * config.features, w_init=_W_INIT)
    return {"tokens": Embedding(config.vocabulary, config.features, init=_W_INIT),
            "positions": LearnedPositions(config.length),
            "dropout": Dropout(config.dropout),
            "blocks": repeat(EncoderBlock(attention, feed_forward, dropout=config.dropout), config.layers),
            "norm": LayerNorm()}


def _language_model(config: GPT2Config) -> Layer:
    base = _base(config)
    base["tokens"] = shared("tokens", base["tokens"])
    return with_shared(named(**base, logits=shared("tokens", Attend(config.vocabulary, init=_W_INIT))))


def _classifier(config: GPT2Config) -> Layer:
    def forward(layers, tokens, mask=None, bias=None, positions=None):
        x = layers.dropout(layers.positions(layers.tokens(tokens), mask=mask, positions=positions))
        x = layers.norm(layers.blocks(x, mask=mask, bias=bias, positions=positions))
        return layers.logits(last_kept("GPT2", x, kept_tokens(tokens, mask, config.padding)))

    return composite(forward, "GPT2", **_base(config), logits=Dense(config.classes, bias=False, w_init=_W_INIT))
