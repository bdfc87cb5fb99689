"""Graphs: `Graph` and batches of graphs, message-passing layers, pools, and operations on the structure of graphs.

Its modules are loaded when a name is first used: most programs that use xnn need few of them.
"""

from typing import TYPE_CHECKING

from xnn.moved_modules import accept_old_names
from xnn.public import public_names

if TYPE_CHECKING:
    from xnn.graph.api import *

accept_old_names("xnn.graph", {
    "structure": "graph hetero masked edges adjacency row_block groups batching bucketing convert names files arrays",
    "layers": "gcn sage gin attention attention_layer chebyshev composed dropping edge_conv edge_inputs egnn gated "
              "heads jumping mpnn network norm normalize params pna pooling propagate relational spectral",
    "samplers": "blocks sampling subgraphs typed_sampling prefetching inference partitioning node2vec",
    "host": "transforms splits encodings points generators",
})

public_names(__name__, others="xnn.graph.api")
