"""T5, an encoder-decoder transformer for text with relative positions (Raffel et al., 2020)."""

from collections.abc import Callable

from xjax import nn
from xjax.nn import initializers
from xnn.combinators import repeat, whole
from xnn.compose import composite
from xnn.layer import Layer
from xnn.layers import (
    Attend,
    CrossAttention,
    DecoderBlock,
    Dense,
    Dropout,
    Embedding,
    EncoderBlock,
    FeedForward,
    MultiHeadAttention,
    RelativeBias,
    RMSNorm,
)
from xnn.models.configs import T5Config
from xnn.sharing import shared, with_shared


def T5(config: T5Config = T5Config()) -> Layer:
    """Logits of the next token of the output text.  Shape: integers [batch, time] -> [batch, time, vocabulary].

    Inputs: source, integers [batch, source time], the input of the encoder; source_mask and mask, bool with the shapes
      of source and x, False for padding. `init` takes the shape of source. With a cache, pass the source in the first
      call, and None in later calls.
    Params: ``{"shared": {"tokens"}, "body": {"encoder", "bias", "blocks", "norm", ...}}``. The first axis of the
      parameters of the blocks is the number of the layer. T5 small has 60,506,624 parameters.
    Cache: keys and values of each block, and those of the encoder's output.
    With ``config.decoder=False`` it is the encoder alone: the vectors [batch, time, features] of a text [batch, time].
    Its only input is mask, its params are ``{"tokens", "bias", "blocks", "norm", "dropout"}``.
    """
    return _encoder_decoder(config) if config.decoder else _encoder(config, _embedding(config))


def _encoder_decoder(config: T5Config) -> Layer:
    norm, embed = RMSNorm(epsilon=config.epsilon), shared("tokens", _embedding(config))
    block = DecoderBlock(_attention(config, MultiHeadAttention, causal=True), _attention(config, CrossAttention),
                         _feed_forward(config), norm=norm, dropout=config.dropout)
    logits = shared("tokens", Attend(config.vocabulary)) if config.tied else Dense(config.vocabulary, bias=False)

    is_scaled = config.tied if config.scaled is None else config.scaled

    def forward(layers, tokens, source, source_mask=None, mask=None):
        context = layers.encoder(source, mask=source_mask)
        x = layers.dropout(layers.tokens(tokens))
        x = layers.blocks(x, context=context, context_mask=source_mask, mask=mask, bias=layers.bias(x, mask=mask))
        x = layers.dropout(layers.norm(x))
        return layers.logits(x * config.features**-0.5 if is_scaled else x)

    return with_shared(composite(
        forward, "T5", tokens=embed, encoder=whole(_encoder(config, embed)), bias=_bias(config, False),
        blocks=repeat(block, config.layers), norm=norm, logits=logits, dropout=Dropout(config.dropout)))


def _encoder(config: T5Config, embed: Layer) -> Layer:
    """Vectors of the source: [batch, time] -> [batch, time, features]."""
    norm = RMSNorm(epsilon=config.epsilon)
    block = EncoderBlock(_attention(config, MultiHeadAttention), _feed_forward(config), norm=norm,
                         dropout=config.dropout)

    def encoder(layers, tokens, mask=None):
        x = layers.dropout(layers.tokens(tokens))
        x = layers.blocks(x, mask=mask, bias=layers.bias(x, mask=mask))
        return layers.dropout(layers.norm(x))

    return composite(encoder, "T5Encoder", tokens=embed, bias=_bias(config, True),
                     blocks=repeat(block, config.layers), norm=norm, dropout=Dropout(config.dropout))


def _embedding(config: T5Config) -> Layer:
    return Embedding(config.vocabulary, config.features)


def _bias(config: T5Config, bidirectional: bool) -> Layer:
    return RelativeBias(config.heads, buckets=config.buckets, max_distance=config.max_distance,
                        bidirectional=bidirectional, init=initializers.normal(config.features**-0.5))


def _attention(config: T5Config, kind: Callable[..., Layer], **options: object) -> Layer:
    """Attention without a scale of its products. As in the original T5, the initial matrix of the query has it."""
    query_init = initializers.variance_scaling(1 / config.head_size, "fan_avg", "uniform")
    return kind(config.features, config.heads, head_size=config.head_size, bias=False, dropout=config.dropout,
                scale=1.0, query_init=query_init, **options)


def _feed_forward(config: T5Config) -> Layer:
    return FeedForward(config.features, config.hidden, activation=nn.gelu if config.gated else nn.relu,
                       gated=config.gated, bias=False, dropout=config.dropout)
