"""PyTorch Geometric's layers on graphs of xnn, for the `peer` of a row.

``peer(params) -> (module, call)``, with the weights of xnn's params; ``call(x, graph)`` runs it on a `TorchGraph`.
"""

from typing import Any, NamedTuple

import numpy as np
import torch

from xnn.graph import Graph


class TorchGraph(NamedTuple):
    """Attributes: edge_index int64[2, e], senders first; weight [e], features [e, d], batch int64[n], or None."""

    edge_index: Any
    weight: Any
    features: Any
    batch: Any


def to_torch(graph: Graph) -> TorchGraph:
    """The graph in PyTorch Geometric's form."""
    tensor = lambda x: None if x is None else torch.tensor(np.array(x))
    return TorchGraph(tensor(np.stack([graph.senders, graph.receivers]).astype(np.int64)), tensor(graph.weight),
                      tensor(graph.edge_features), tensor(np.asarray(graph.node_graph, np.int64)))
