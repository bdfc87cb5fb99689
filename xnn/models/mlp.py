"""The multilayer perceptron."""

from collections.abc import Callable

from xjax import nn
from xjax.errors import bad
from xnn.combinators import named
from xnn.layer import Layer
from xnn.layers import Dense, Dropout, elementwise
from xnn.models.configs import MLPConfig


def MLP(config: MLPConfig = MLPConfig()) -> Layer:
    """Dense layers with activations between them.  Shape: [..., n_in] -> [..., features].

    Params: ``{"hidden0": {"dense": {"w", "b"}, "activation": (), "dropout": ()}, ..., "head": {"w", "b"}}``.

    >>> MLP(MLPConfig(hidden=(16,), features=3))
    named
      ['hidden0'] named
        ['dense'] Dense(n_out=16)
        ['activation'] relu
        ['dropout'] Dropout(rate=0.0)
      ['head'] Dense(n_out=3)
    """
    hidden = {f"hidden{i}": named(dense=Dense(n), activation=elementwise(_function(config.activation)),
                                  dropout=Dropout(config.dropout)) for i, n in enumerate(config.hidden)}
    return named(**hidden, head=Dense(config.features))


def _function(activation: str | Callable) -> Callable:
    if callable(activation):
        return activation
    if not callable(getattr(nn, activation, None)):
        raise bad("MLP", "`activation` must be the name of a function of xjax.nn", {"activation": repr(activation)},
                  fix="use a name such as 'relu', 'gelu', 'silu' or 'tanh', or pass a function of arrays.")
    return getattr(nn, activation)
