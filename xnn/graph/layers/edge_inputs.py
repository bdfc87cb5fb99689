"""Edge inputs of layers: the edge features, with edge weights as an optional additional feature."""

from __future__ import annotations

import xjax.numpy as jnp
from xjax.errors import bad
from xjax.typing import Array, DTypeLike
from xnn.checks import type_text
from xnn.graph.structure.edges import Edges


def edge_inputs(caller: str, edges: Edges, size: int | None, dtype: DTypeLike) -> Array | None:
    """The inputs [e, size] of the edges in the given dtype; None if size is None.

    They are the edge features if these have `size` columns. If they have one column less, the edge weights are appended
    as the last column; for a graph with only weights and size 1, the inputs are the weights.
    Raises: ValueError if the edges have another number of features.
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
        raise bad(caller, f"the layer takes {size} features of each edge, but the graph has {have}",
                  {"features": "None" if features is None else type_text(features),
                   "weight": "None" if weight is None else type_text(weight)},
                  f"make the layer with edge_features={have or None}, or the Graph with edges [e, {size}]; weights "
                  "count as an additional feature.", ValueError)
    return parts[0] if len(parts) == 1 else jnp.concatenate(parts, 1)
