"""Networks on graphs, as sections of a config: `Network`, one of eight models of xnn, chosen by its name.

Each device draws dropout masks for its nodes from their numbers in the whole graph, so these masks do not depend on the
number of devices. Masks of edges do (`attention_dropout`, `adjacency_dropout`): with them, another number of devices
gives other results, of the same distribution.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field

import xnn.models.graph_configs as configs
from recipes.config import ACTIVATIONS, check_choice, check_numbers, fault, section_of
from recipes.lazy import xnn

_FILLED_IN = ("features", "pool", "adjacency", "edge_features")

GCN = section_of("gcn", configs.GCNConfig, without=_FILLED_IN)
GAT = section_of("gat", configs.GATConfig, without=_FILLED_IN)
GATv2 = section_of("gatv2", configs.GATv2Config, without=_FILLED_IN)
GraphSAGE = section_of("graphsage", configs.GraphSAGEConfig, without=_FILLED_IN)
GIN = section_of("gin", configs.GINConfig, without=_FILLED_IN)
APPNP = section_of("appnp", configs.APPNPConfig, without=_FILLED_IN)
SGC = section_of("sgc", configs.SGCConfig, without=_FILLED_IN)
GCNII = section_of("gcnii", configs.GCNIIConfig, without=_FILLED_IN)

Network = Annotated[GCN | GAT | GATv2 | GraphSAGE | GIN | APPNP | SGC | GCNII, Field(discriminator="name")]
Pooled = Annotated[GIN | GCN | GAT | GATv2 | GraphSAGE, Field(discriminator="name")]

_FUNCTIONS = {"gcn": "GCNStack", "gat": "GATStack", "gatv2": "GATv2Stack", "graphsage": "GraphSAGEStack",
              "gin": "GINStack", "appnp": "APPNPStack", "sgc": "SGCStack", "gcnii": "GCNIIStack"}


def make_network(section: Any, features: int, *, adjacency: str | None = None, pool: str | None = None,
                 edge_features: int | None = None, one_hot: bool = False) -> xnn.Layer:
    """The layer, which returns logits.  Shape: x [n, f] -> [n, features], or [graphs, features] with `pool`.

    Args:
      adjacency: how the models of `takes_normalized` normalise the adjacency; None: it is normalised already.
      pool: the reduction over the nodes of each graph; None: no pool.
      edge_features: number of features of an edge, for models that take them; None: no features.
      one_hot: whether x is sparse, a one-hot vector of each node; models of `needs_dense` then begin with a map to
        vectors as wide as their first layer.
    """
    filled_in: dict[str, Any] = {"features": features}
    if isinstance(section, GCN | APPNP | SGC | GCNII):
        filled_in["adjacency"] = adjacency
    if isinstance(section, GCN | GAT | GATv2 | GraphSAGE | GIN):
        filled_in["pool"] = pool
    if takes_edge_features(section):
        filled_in["edge_features"] = edge_features
    network = getattr(xnn.models, _FUNCTIONS[section.name])(section.make(**filled_in))
    if one_hot and needs_dense(section):
        width = section.hidden[0] if section.hidden else features
        return xnn.named(vectors=xnn.Dense(width, bias=False), network=network)
    return network


def takes_normalized(section: object) -> bool:
    """Whether the model needs a normalised adjacency with self-loops; other models take the edges unchanged."""
    return isinstance(section, GCN | APPNP | SGC | GCNII)


def takes_edge_features(section: object) -> bool:
    """Whether the model can use features of edges."""
    return isinstance(section, GAT | GATv2 | GIN)


def takes_weights(section: object) -> bool:
    """Whether the model uses weights of edges: as values of the adjacency, or as a feature of each edge."""
    return takes_normalized(section) or takes_edge_features(section)


def unused_weights(config: Any, trained: bool = True) -> str:
    """Why the model of a task's config does not use weights of edges; "" if it does.

    Args: trained: whether it was trained with weights.
    """
    if not config.edge_weights:
        return "not used, by task.edge_weights"
    if config.model is not None and not takes_weights(config.model):
        return f"not used by {config.model.name}"
    return "" if trained else "not used, the training data had no weights"


def needs_dense(section: object) -> bool:
    """Whether the model adds the features of neighbours before it maps them, which sparse features do not allow."""
    return isinstance(section, GIN) or (isinstance(section, GraphSAGE) and section.aggregator == "max"
                                        and not section.project)


def check_norm(config: Any) -> None:
    """Raises: a fault if the key norm is set, and the model takes the adjacency unchanged."""
    if config.is_changed("norm") and not takes_normalized(config.model):
        raise fault("task.norm", f"is for gcn, appnp, sgc and gcnii, not for {config.model.name}")


def width_of(section: Any, outputs: int) -> int:
    """Number of columns in most products with the adjacency."""
    if isinstance(section, APPNP | SGC):
        return outputs
    hidden = section.hidden if isinstance(section, GCNII) else max(section.hidden, default=outputs)
    return hidden * getattr(section, "heads", 1)


def check_network(section: BaseModel, pooled: bool = False) -> None:
    """Raises: a fault of the config if a number is out of range, or an option does not suit the task."""
    check_numbers(section)
    check_choice("task.model.activation", getattr(section, "activation", "relu"), ACTIVATIONS)
    norms = (None, "layer", "graph") if pooled else (None, "layer")
    norm = getattr(section, "norm", None)
    if norm not in norms:
        raise fault("task.model.norm", f"must be one of {', '.join(map(str, norms[1:]))} or null in this task, got "
                                       f"{norm!r}: its statistics would be those of one device, or include padding")
    needs_layers = pooled or getattr(section, "jumping", None) is not None
    if needs_layers and not getattr(section, "hidden", True):
        raise fault("task.model.hidden", "needs at least one layer")
