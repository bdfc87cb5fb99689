"""A language model with stacked LSTM layers (Zaremba et al., 2014)."""

from xjax.errors import bad
from xjax.nn import initializers
from xnn.compose import composite
from xnn.layer import Layer
from xnn.layers import LSTM, Attend, Dense, Dropout, Embedding
from xnn.models.configs import LSTMLanguageModelConfig
from xnn.sharing import shared, with_shared


def LSTMLanguageModel(config: LSTMLanguageModelConfig = LSTMLanguageModelConfig()) -> Layer:
    """Logits of the next token at each position: embedding, stacked LSTM, output layer.

    Shape: integers [batch, time] -> logits [batch, time, vocabulary]; with return_carry (logits, carries of `LSTM`).
    Inputs: lengths, mask and carry, as in `LSTM`.
    Params: ``{"embedding", "lstm", "logits", "dropout"}``; if tied ``{"shared": {"tokens": ...}, "body": these}``, and
      the table is drawn with standard deviation features^-1/2, so that the initial logits are small.
    Cache: the carries; each call of `apply_with_cache` takes the next tokens.

    >>> import xjax
    >>> model = LSTMLanguageModel(LSTMLanguageModelConfig(vocabulary=50, features=8))
    >>> shape, params = model.init(xjax.random.key(0), xjax.ShapeDtypeStruct((4, 10), "int32"))
    >>> shape, list(params["body"])
    ((4, 10, 50), ['embedding', 'lstm', 'logits', 'dropout'])
    """
    if config.layers < 1:
        raise bad("LSTMLanguageModel", "layers must be at least 1", {"layers": config.layers}, "pass layers=2.",
                  ValueError)
    table = initializers.normal(config.features ** -0.5) if config.tied else None
    embedding = Embedding(config.vocabulary, config.features, init=table)
    logits = Attend(config.vocabulary, init=table) if config.tied else Dense(config.vocabulary)
    lstm = LSTM(config.features, layers=config.layers, dropout=config.dropout if config.layers > 1 else 0.0,
                unroll=config.unroll, return_carry=True)

    def forward(layers, tokens, lengths=None, mask=None, carry=None):
        x = layers.dropout(layers.embedding(tokens))
        y, carry = layers.lstm(x, lengths=lengths, mask=mask, carry=carry)
        y = layers.logits(layers.dropout(y))
        return (y, carry) if config.return_carry else y

    def model(embedding, logits):
        return composite(forward, "LSTMLanguageModel", embedding=embedding, lstm=lstm, logits=logits,
                         dropout=Dropout(config.dropout))

    if config.tied:
        return with_shared(model(shared("tokens", embedding), shared("tokens", logits)))
    return model(embedding, logits)
