"""The multilayer perceptron."""

from collections.abc import Callable
from dataclasses import dataclass

from xjax import nn
from xnn.combinators import named
from xnn.layer import Layer
from xnn.layers import Dense, Dropout, elementwise


@dataclass(frozen=True, slots=True)
class MLPConfig:
    """Sizes of an `MLP`.

    Attributes:
      hidden: numbers of features of the hidden layers; none for a linear model.
      features: number of outputs.
      activation: after each hidden layer, a function of arrays.
      dropout: rate of dropout after each activation, in training.
    """

    hidden: tuple[int, ...] = (64, 64)
    features: int = 1
    activation: Callable = nn.relu
    dropout: float = 0.0


def MLP(config: MLPConfig = MLPConfig()) -> Layer:
    """Dense layers with an activation between them.  Shape: [..., n_in] -> [..., features].

    Params: ``{"hidden0": {"dense": {"w", "b"}, "activation": (), "dropout": ()}, ..., "head": {"w", "b"}}``.

    >>> MLP(MLPConfig(hidden=(16,), features=3))
    named
      ['hidden0'] named
        ['dense'] Dense(n_out=16)
        ['activation'] relu
        ['dropout'] Dropout(rate=0.0)
      ['head'] Dense(n_out=3)
    """
    hidden = {f"hidden{i}": named(dense=Dense(n), activation=elementwise(config.activation),
                                  dropout=Dropout(config.dropout)) for i, n in enumerate(config.hidden)}
    return named(**hidden, head=Dense(config.features))
