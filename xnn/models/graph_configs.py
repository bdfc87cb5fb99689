"""The configs of networks on graphs; like those in `xnn.models.configs`, they can be read without loading jaxlib."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class GraphStackConfig:
    """The common options of all stacks of layers on graphs, see `graph_stack`.

    Attributes:
      features: number of outputs of each node, or of each graph with `pool`.
      hidden: numbers of features of the hidden layers; empty for a single layer.
      activation: activation after each hidden layer: a function of arrays, or the name of a function in `xjax.nn`.
      dropout: dropout rate of the input of each layer, in training.
      input_dropout: dropout rate of the input of the first layer; None: the same as `dropout`.
      norm: the layer after each hidden layer, before the activation: `BatchNorm`, `LayerNorm`, `GraphNorm` or
        `PairNorm`, or a function without arguments that returns a layer; None for no norm.
      residual: whether a hidden layer adds its input, if the number of features is the same.
      jumping: how `JumpingKnowledge` combines the hidden layers; None: only the last hidden layer is used.
      pool: how `GraphPool` reduces the nodes of each graph; None: the outputs are per node.
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
      adjacency: "symmetric" or "row" normalises the adjacency in each layer, as `GraphConvolution(norm=...)` does. None
        takes an adjacency already prepared by `normalized_adjacency`, which is faster.
    """

    hidden: tuple[int, ...] = (16,)
    adjacency: Literal["symmetric", "row"] | None = "symmetric"


@dataclass(frozen=True, slots=True)
class GATConfig(GraphStackConfig):
    """Sizes of a `GATStack`; the defaults are those of Velickovic et al. (2018) for Cora.

    Attributes: those of `GraphStackConfig`, and
      hidden: numbers of features of each head of the hidden layers, whose heads are concatenated.
      heads: number of heads of the hidden layers.
      out_heads: number of heads of the output layer, which are averaged; 8 in the paper for Pubmed.
      attention_dropout: rate at which attention weights are dropped in training.
      edge_features: number of edge features that the scores use; None: no edge features.
    """

    hidden: tuple[int, ...] = (8,)
    activation: str | Callable = "elu"
    dropout: float = 0.6
    heads: int = 8
    out_heads: int = 1
    attention_dropout: float = 0.6
    edge_features: int | None = None


@dataclass(frozen=True, slots=True)
class GATv2Config(GATConfig):
    """Sizes of a `GATv2Stack`; the defaults are those of `GATConfig`.

    The paper (Brody et al., 2022) gives no sizes for Cora.

    Attributes: those of `GATConfig`, and
      shared_weights: whether receivers are mapped by the same weights as senders.
    """

    shared_weights: bool = False


@dataclass(frozen=True, slots=True)
class GraphSAGEConfig(GraphStackConfig):
    """Sizes of a `GraphSAGEStack`: two layers, as in Hamilton et al. (2017), a paper without results for Cora.

    Attributes: those of `GraphStackConfig`, and
      aggregator: how neighbours are reduced.
      project: whether neighbours are first mapped by a layer; with "max" it is the paper's pooling aggregator.
      normalize: whether each output vector of a layer is scaled to length 1.
    """

    aggregator: Literal["mean", "sum", "max"] = "mean"
    project: bool = False
    normalize: bool = False


@dataclass(frozen=True, slots=True)
class GINConfig(GraphStackConfig):
    """Sizes of a `GINStack`: four layers with 64 features, as in Xu et al. (2019) for social networks.

    Each layer has an MLP with one hidden layer of the same number of features. The default norm is "layer"; the paper
    uses BatchNorm.

    Attributes: those of `GraphStackConfig`, and
      train_eps: whether the weight of a node's own features is learned.
      edge_features: number of edge features, which `GINE` adds to the features of the sender; None: `GIN`.
    """

    hidden: tuple[int, ...] = (64, 64, 64, 64)
    norm: Literal["batch", "layer", "graph", "pair"] | Callable | None = "layer"
    train_eps: bool = False
    edge_features: int | None = None


@dataclass(frozen=True, slots=True)
class APPNPConfig:
    """Sizes of an `APPNPStack`; the defaults are those of Gasteiger et al. (2019).

    Attributes:
      features: number of outputs of each node.
      hidden: numbers of features of the hidden layers of the MLP.
      activation: activation after each hidden layer: a function of arrays, or the name of a function in `xjax.nn`.
      dropout: dropout rate of the input of each layer, in training.
      k: number of propagations.
      alpha: probability to return to the outputs of the MLP.
      adjacency_dropout: rate at which values of the adjacency are dropped in training, separately in each propagation.
      adjacency: as in `GCNConfig`.
    """

    features: int = 7
    hidden: tuple[int, ...] = (64,)
    activation: str | Callable = "relu"
    dropout: float = 0.5
    k: int = 10
    alpha: float = 0.1
    adjacency_dropout: float = 0.5
    adjacency: Literal["symmetric", "row"] | None = "symmetric"


@dataclass(frozen=True, slots=True)
class SGCConfig:
    """Sizes of an `SGCStack`; the defaults are those of Wu et al. (2019).

    Attributes:
      features: number of outputs of each node.
      k: number of propagations.
      dropout: dropout rate of the input, in training.
      adjacency: as in `GCNConfig`.
    """

    features: int = 7
    k: int = 2
    dropout: float = 0.0
    adjacency: Literal["symmetric", "row"] | None = "symmetric"


@dataclass(frozen=True, slots=True)
class GCNIIConfig:
    """Sizes of a `GCNIIStack`; the defaults are those of Chen et al. (2020) for Cora.

    Attributes:
      features: number of outputs of each node.
      hidden: number of features of all hidden layers.
      layers: number of convolutions.
      dropout: dropout rate of the input of each layer, in training.
      alpha: share of the initial features, those before the first convolution, in the input of each convolution.
      theta: the paper's lambda; with a larger value, the matrices of the convolutions are farther from the identity.
      shared_weights: whether the initial features are multiplied by the same matrix as the propagated features.
      adjacency: as in `GCNConfig`.
    """

    features: int = 7
    hidden: int = 64
    layers: int = 64
    dropout: float = 0.6
    alpha: float = 0.1
    theta: float = 0.5
    shared_weights: bool = True
    adjacency: Literal["symmetric", "row"] | None = "symmetric"
