"""Graphs: `Graph` and batches of graphs, message-passing layers, pools, and operations on the structure of graphs.

Its modules are loaded when a name is first used: most programs that use xnn need few of them.
"""

import importlib
from typing import TYPE_CHECKING, Any

from xnn.moved_modules import accept_old_names

if TYPE_CHECKING:
    from xnn.graph.api import *

accept_old_names("xnn.graph", {
    "structure": "graph hetero masked edges adjacency row_block groups batching bucketing convert names files arrays",
    "layers": "gcn sage gin attention attention_layer chebyshev composed dropping edge_conv edge_inputs egnn gated "
              "heads jumping mpnn network norm normalize params pna pooling propagate relational spectral",
    "samplers": "blocks sampling subgraphs typed_sampling prefetching inference partitioning node2vec",
    "host": "transforms splits encodings points generators",
})

if not TYPE_CHECKING:                                                    # for type checkers, other names are errors
    def __getattr__(name: str) -> Any:
        if name.startswith("__") and name != "__all__":                  # looked up by the import system
            raise AttributeError(f"module 'xnn.graph' has no attribute {name!r}")
        api = importlib.import_module("xnn.graph.api")
        globals().update({"__all__": api.__all__}, **{each: getattr(api, each) for each in api.__all__})
        if name not in globals():
            raise AttributeError(f"module 'xnn.graph' has no attribute {name!r}")
        return globals()[name]


def __dir__() -> list[str]:
    return sorted(importlib.import_module("xnn.graph.api").__all__)
