"""What layers read of edges besides the two ends: their features, and their weights as one more feature."""

from typing import Any

import xjax.numpy as jnp
from xjax.errors import bad
from xnn.checks import type_text
from xnn.graph.structure.edges import Edges


def edge_inputs(caller: str, edges: Edges, size: int | None, dtype: Any) -> Any:
    """The [e, size] inputs of the edges in a dtype; None if size is None: then edges count by their ends only.

    They are the features of the edges, if these have `size` columns, or the features and the weights, if there is
    one column less; of a graph with weights alone the weights, for size 1.
    Raises: ValueError for a graph whose edges have another number of features.
    """
    if size is None:
        return None
    features, weight = edges.features, edges.weight
    have = 0 if features is None else features.shape[1]
    parts = []
    if features is not None:
        parts.append(jnp.asarray(features).astype(dtype))
    if have == size - 1 and weight is not None:
        parts.append(jnp.asarray(weight).astype(dtype)[:, None])
    elif have != size:
        raise bad(caller, f"the layer takes {size} features of each edge, the graph has {have}",
                  {"features": "None" if features is None else type_text(features),
                   "weight": "None" if weight is None else type_text(weight)},
                  f"make the layer with edge_features={have or None}, or the Graph with edges [e, {size}]; weights "
                  "count as one feature more.", ValueError)
    return parts[0] if len(parts) == 1 else jnp.concatenate(parts, 1)
