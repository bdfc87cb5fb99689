"""The configs of networks on graphs; as those in `xnn.models.configs` they can be read without loading jaxlib."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class GraphStackConfig:
    """What all stacks of layers on graphs have in common, see `graph_stack`.

    Attributes:
      features: number of outputs of each node, or of each graph with `pool`.
      hidden: numbers of features of the hidden layers; none for a single layer.
      activation: after each hidden layer, a function of arrays, or the name of one in `xjax.nn`.
      dropout: rate of dropout of the input of each layer, in training.
      input_dropout: that of the first layer; None: as `dropout`.
      norm: after each hidden layer, before the activation: `BatchNorm`, `LayerNorm`, `GraphNorm` or `PairNorm`, or a
        function without arguments that returns a layer; None for none.
      residual: whether a hidden layer adds its input, where the number of features is the same.
      jumping: how `JumpingKnowledge` combines the hidden layers; None: the last one counts.
      pool: how `GraphPool` reduces the nodes of each graph; None for outputs of nodes.
    """

    features: int = 7
    hidden: tuple[int, ...] = (64,)
    activation: str | Callable = "relu"
    dropout: float = 0.5
    input_dropout: float | None = None
    norm: Literal["batch", "layer", "graph", "pair"] | Callable | None = None
    residual: bool = False
    jumping: Literal["concat", "max", "lstm"] | None = None
    pool: Literal["sum", "mean", "max", "min", "std"] | None = None


@dataclass(frozen=True, slots=True)
class GCNConfig(GraphStackConfig):
    """Sizes of a `GCNStack`; the defaults are those of Kipf and Welling (2017) for Cora.

    Attributes: those of `GraphStackConfig`, and
      adjacency: "symmetric" or "row" normalises it in each layer, as `GraphConvolution(norm=...)`; None takes one that
        `normalized_adjacency` prepared, which is faster.
    """

    hidden: tuple[int, ...] = (16,)
    adjacency: Literal["symmetric", "row"] | None = "symmetric"
