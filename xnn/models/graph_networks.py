"""Networks on graphs: stacks of layers of one kind, with dropout, norms, activations and pooling."""

from collections.abc import Callable, Mapping
from typing import Any

from xjax import nn
from xjax.errors import bad, check_choice
from xnn.checks import check_shape
from xnn.combinators import named, serial
from xnn.compose import composite
from xnn.composites import combine, dict_of
from xnn.graph.layers.attention import GAT, GATv2
from xnn.graph.layers.gcn import GraphConvolution
from xnn.graph.layers.gin import GIN, GINE
from xnn.graph.layers.jumping import JumpingKnowledge
from xnn.graph.layers.norm import GraphNorm, PairNorm
from xnn.graph.layers.pooling import GraphPool
from xnn.graph.layers.sage import GraphSAGE
from xnn.graph.layers.spectral import APPNP, GCNII, SGC
from xnn.graph.structure.masked import call_on_rows, node_mask
from xnn.inputs import Input, joined
from xnn.layer import Layer, as_layer
from xnn.layers import BatchNorm, Dense, Dropout, LayerNorm, Relu, elementwise
from xnn.models.graph_configs import (
    APPNPConfig,
    GATConfig,
    GATv2Config,
    GCNConfig,
    GCNIIConfig,
    GINConfig,
    GraphSAGEConfig,
    GraphStackConfig,
    SGCConfig,
)

_NORMS = {"batch": BatchNorm, "layer": LayerNorm, "graph": GraphNorm, "pair": PairNorm}


def graph_stack(make_layer: Callable[[int], Layer], config: GraphStackConfig = GraphStackConfig(), *,
                make_last: Callable[[int], Layer] | None = None, name: str = "graph_stack") -> Layer:
    """Layers on a graph, with dropout before each layer, and norm, activation and residual after each hidden layer.

    Without `jumping` and `pool`, the last layer computes the outputs. With either of them, all layers are hidden, and a
    `Dense` computes the outputs from the result of `JumpingKnowledge` or `GraphPool`.

    Shape: x [n, f] -> [n, features], or [g, features] with `pool`.
    Args:
      make_layer: ``number of features -> layer``, called for each layer.
      config: sizes and options.
      make_last: used instead of make_layer for the output layer, such as a layer that averages its heads.
      name: name of the model in messages.
    Inputs: graph; then those of the layers.
    Params: ``{"layer_0", "norm_0", ..., "dropout": (), "activation": (), "jump", "pool": (), "head"}``; the optional
      parts only if the config has them.
    Raises: ValueError for unknown options, and for `jumping` or `pool` without hidden layers.

    >>> config = GraphStackConfig(features=3, hidden=(16,), norm="graph")
    >>> model = graph_stack(lambda n: GraphConvolution(n, norm="symmetric"), config)
    >>> sorted(model.layers.keys())
    ['activation', 'dropout', 'input_dropout', 'layer_0', 'layer_1', 'norm_0']
    """
    with_head = config.jumping is not None or config.pool is not None
    if with_head and not config.hidden:
        raise bad(name, "`jumping` and `pool` need hidden layers", {"hidden": "()"}, "pass hidden=(64,).", ValueError)
    children: dict[str, Layer] = {}
    for i, features in enumerate(config.hidden):
        children[f"layer_{i}"] = as_layer(make_layer(features), f"{name}['layer_{i}']")
        if config.norm is not None:
            children[f"norm_{i}"] = as_layer(_norm(name, config.norm), f"{name}['norm_{i}']")
    if not with_head:
        last = len(config.hidden)
        children[f"layer_{last}"] = as_layer((make_last or make_layer)(config.features), f"{name}['layer_{last}']")
    if config.hidden:
        children["activation"] = elementwise(_activation(name, config.activation))
    first = config.dropout if config.input_dropout is None else config.input_dropout
    children["input_dropout"] = Dropout(first)
    if with_head or config.hidden:
        children["dropout"] = Dropout(config.dropout)
    if config.jumping is not None:
        children["jump"] = JumpingKnowledge(config.jumping)
    if config.pool is not None:
        children["pool"] = GraphPool(config.pool)
    if with_head:
        children["head"] = Dense(config.features)
    return _stack(name, children, len(config.hidden), config.residual)


def _stack(name: str, children: Mapping[str, Layer], hidden: int, residual: bool) -> Layer:
    """The composite of the children made by `graph_stack`."""

    def through(visit, x, add, visit_nodes):
        """Calls the children in order, on shapes or on values; `visit_nodes` also passes the mask of nodes."""
        outs = []
        for i in range(hidden + (f"layer_{hidden}" in children)):
            y = visit_nodes(f"layer_{i}", visit("dropout" if i else "input_dropout", x))
            if i == hidden:
                return y
            y = visit_nodes(f"norm_{i}", y) if f"norm_{i}" in children else y
            x = add(visit("activation", y), x)
            outs.append(x)
        x = visit("jump", tuple(outs)) if "jump" in children else x
        x = visit("pool", x) if "pool" in children else x
        return visit("head", visit("dropout", x))

    def walk(visit, in_shape, shapes):
        seen = set()

        def once(key, shape):
            if key in seen:                                # the activation or dropout, which keep the shape
                return shape
            seen.add(key)
            return visit(key, shape)

        return through(once, check_shape(name, in_shape, min_rank=2), lambda y, x: y, once)

    def forward(call, x, values):
        mask = node_mask(values["graph"], x)
        return through(call, x, lambda y, x: y + x if residual and y.shape == x.shape else y,
                       lambda key, x: call_on_rows(call, key, x, mask, values))

    inputs = joined(name, [[Input("graph")], *(child.inputs for child in children.values())])
    return combine(name, children, walk, forward, dict_of(children), inputs=inputs,
                   rebuild=lambda some: _stack(name, some, hidden, residual))


def GCNStack(config: GCNConfig = GCNConfig()) -> Layer:
    """A network of graph convolutions (Kipf and Welling, 2017), which returns logits.

    Shape, inputs, params: as in `graph_stack`.

    >>> GCNStack(GCNConfig(features=3)).layers["layer_1"]
    GraphConvolution(n_out=3, norm='symmetric') of (x, graph)
    """
    return graph_stack(lambda features: GraphConvolution(features, norm=config.adjacency), config, name="GCNStack")


def GATStack(config: GATConfig = GATConfig()) -> Layer:
    """A network of attention layers (Velickovic et al., 2018), which returns logits.

    The heads of hidden layers are concatenated; the heads of the last layer are averaged.
    Shape, inputs, params: as in `graph_stack`.

    >>> GATStack(GATConfig(features=3)).layers["layer_1"]
    GAT(n_out=3, concat=False, dropout=0.6) of (x, graph)
    """
    return _attention_stack("GATStack", GAT, config, {})


def GATv2Stack(config: GATv2Config = GATv2Config()) -> Layer:
    """A network of `GATv2` layers (Brody et al., 2022); see `GATStack`."""
    return _attention_stack("GATv2Stack", GATv2, config, {"shared_weights": config.shared_weights})


def _attention_stack(name: str, kind: Callable, config: GATConfig, options: Mapping[str, Any]) -> Layer:
    options = {**options, "dropout": config.attention_dropout, "edge_features": config.edge_features}
    return graph_stack(lambda features: kind(features, config.heads, **options), config, name=name,
                       make_last=lambda features: kind(features, config.out_heads, concat=False, **options))


def GraphSAGEStack(config: GraphSAGEConfig = GraphSAGEConfig()) -> Layer:
    """A network of `GraphSAGE` layers (Hamilton et al., 2017), which returns logits.

    The outputs of the last layer are never normalised. Shape, inputs, params: as in `graph_stack`.
    """
    def make(features, normalize=config.normalize):
        return GraphSAGE(features, config.aggregator, project=config.project, normalize=normalize)

    return graph_stack(make, config, make_last=lambda features: make(features, False), name="GraphSAGEStack")


def GINStack(config: GINConfig = GINConfig()) -> Layer:
    """A network of `GIN` layers, or of `GINE` layers with edge features (Xu et al., 2019; Hu et al., 2020).

    Shape, inputs, params: as in `graph_stack`.
    """
    def make(features):
        mlp = serial(Dense(features), Relu, Dense(features))
        if config.edge_features is None:
            return GIN(mlp, train_eps=config.train_eps)
        return GINE(mlp, train_eps=config.train_eps, edge_features=config.edge_features)

    return graph_stack(make, config, name="GINStack")


def APPNPStack(config: APPNPConfig = APPNPConfig()) -> Layer:
    """An MLP whose outputs are propagated by personalised PageRank (Gasteiger et al., 2019); it returns logits.

    Shape: x [n, f] -> [n, features].
    Inputs: graph.
    Params: ``{"dense_0", "dense_1", ...}``, each ``{"w", "b"}``, and ``()`` for the others.
    """
    layers: dict[str, Layer] = {}
    for i, features in enumerate((*config.hidden, config.features)):
        if i:
            layers[f"activation_{i}"] = elementwise(_activation("APPNPStack", config.activation))
        layers |= {f"dropout_{i}": Dropout(config.dropout), f"dense_{i}": Dense(features)}
    propagate = APPNP(config.k, config.alpha, dropout=config.adjacency_dropout, norm=config.adjacency)
    return named(**layers, propagate=propagate)


def SGCStack(config: SGCConfig = SGCConfig()) -> Layer:
    """One affine map of propagated features (Wu et al., 2019), which returns logits.

    Shape: x [n, f] -> [n, features].
    Inputs: graph.
    Params: ``{"dropout": (), "map": {"w", "b"}}``.
    """
    return named(dropout=Dropout(config.dropout), map=SGC(config.features, config.k, norm=config.adjacency))


def GCNIIStack(config: GCNIIConfig = GCNIIConfig()) -> Layer:
    """A deep network of convolutions with initial residual and identity mapping (Chen et al., 2020); returns logits.

    Shape: x [n, f] -> [n, features].
    Inputs: graph.
    Params: ``{"first": {"w", "b"}, "layer_1", ..., "head": {"w", "b"}, "dropout": ()}``.
    """
    names = [f"layer_{i}" for i in range(1, config.layers + 1)]
    convolutions = {name: GCNII(i, alpha=config.alpha, theta=config.theta, shared_weights=config.shared_weights,
                                norm=config.adjacency) for i, name in enumerate(names, 1)}

    def network(layers, x, graph):
        x = initial = nn.relu(layers.first(layers.dropout(x)))
        for name in names:
            x = nn.relu(getattr(layers, name)(layers.dropout(x), graph=graph, initial=initial))
        return layers.head(layers.dropout(x))

    return composite(network, "GCNIIStack", first=Dense(config.hidden), **convolutions, head=Dense(config.features),
                     dropout=Dropout(config.dropout))


def _norm(name: str, norm: Any) -> Any:
    if callable(norm) and not isinstance(norm, Layer):
        return norm()
    check_choice(name, "norm", norm, _NORMS, "pass one of these, or a function that returns a layer.")
    return _NORMS[norm]()


def _activation(name: str, activation: str | Callable) -> Callable:
    function = activation if callable(activation) else getattr(nn, activation, None)
    if not callable(function):
        raise bad(name, "`activation` must be the name of a function of xjax.nn", {"activation": repr(activation)},
                  "use a name such as 'relu' or 'elu', or pass a function of arrays.", ValueError)
    return function
