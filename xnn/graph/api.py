"""The names of `xnn.graph`: its `__init__` loads this file when one of them is first used."""

from xnn.graph.adjacency import as_adjacency, as_edges
from xnn.graph.attention import GAT, GATv2, GraphTransformer
from xnn.graph.attention_layer import AttentionLayer, AttentionWeights
from xnn.graph.batching import at_edges, at_nodes, batch, pad, take_graphs, unbatch
from xnn.graph.blocks import Block
from xnn.graph.bucketing import Bucket, GraphBatches, buckets, pad_to_bucket
from xnn.graph.chebyshev import ChebConv
from xnn.graph.dropping import drop_edges, drop_nodes, with_drop_edge
from xnn.graph.edge_conv import EdgeConv, PointNet, knn_edges
from xnn.graph.edges import Edges
from xnn.graph.egnn import EGNN
from xnn.graph.encodings import degree_encoding, laplacian_encoding, random_walk_encoding
from xnn.graph.files import SavedGraph, load_graph, save_graph
from xnn.graph.gated import GatedGCN, GatedGraph, GatedGraphConvolution
from xnn.graph.gcn import GCN, GraphConvolution
from xnn.graph.generators import erdos_renyi, grid, molecules, planted_partition, random_regular
from xnn.graph.gin import GIN, GINE
from xnn.graph.graph import Graph
from xnn.graph.groups import Groups, as_groups
from xnn.graph.heads import GAE, VGAE, EdgeHead, GraphHead, NodeHead, reconstruction_loss
from xnn.graph.hetero import HeteroGraph
from xnn.graph.inference import infer_by_layers
from xnn.graph.jumping import JumpingKnowledge, virtual_node
from xnn.graph.masked import MaskedGraph, kept_part, mask_graph, with_node_mask
from xnn.graph.mpnn import MPNN
from xnn.graph.names import NodeNames
from xnn.graph.network import DeepSets, GraphMapFeatures, GraphNetGAT, GraphNetwork, InteractionNetwork, RelationNetwork
from xnn.graph.node2vec import Node2Vec, negative_windows, random_walks, skip_gram_loss, walk_windows
from xnn.graph.norm import GraphNorm, GraphSizeNorm, MessageNorm, PairNorm
from xnn.graph.normalize import normalized_adjacency
from xnn.graph.partitioning import cut, partition
from xnn.graph.pna import PNA, degree_histogram
from xnn.graph.points import knn_graph, radius_graph
from xnn.graph.pooling import AttentionPool, GraphPool, SAGPool, Set2Set, SortPool, TopKPool, largest_nodes
from xnn.graph.prefetching import prefetch
from xnn.graph.relational import RGCN, HeteroConvolution
from xnn.graph.row_block import RowBlock, rows_moved, split_rows
from xnn.graph.sage import GraphSAGE
from xnn.graph.sampling import NeighbourSampler, SeedBatches
from xnn.graph.spectral import APPNP, GCNII, SGC
from xnn.graph.splits import EdgeSplit, Pairs, Split, negative_edges, split_by_time, split_edges, split_nodes
from xnn.graph.subgraphs import ClusterBatches, RandomWalkSampler
from xnn.graph.transforms import (
    add_self_loops,
    coalesce,
    degree,
    is_undirected,
    k_hop,
    largest_component,
    remove_self_loops,
    reverse,
    subgraph,
    to_undirected,
)
from xnn.graph.typed_sampling import TypedBlock, TypedSampler
from xnn.sparse.segment import (
    segment_count,
    segment_max,
    segment_mean,
    segment_min,
    segment_prod,
    segment_softmax,
    segment_std,
    segment_sum,
    segment_top_k,
)

__all__ = [
    "APPNP",
    "AttentionLayer",
    "AttentionPool",
    "AttentionWeights",
    "Block",
    "Bucket",
    "ChebConv",
    "ClusterBatches",
    "DeepSets",
    "EGNN",
    "EdgeConv",
    "EdgeHead",
    "EdgeSplit",
    "Edges",
    "GAE",
    "GAT",
    "GATv2",
    "GCN",
    "GCNII",
    "GIN",
    "GINE",
    "GatedGCN",
    "GatedGraph",
    "GatedGraphConvolution",
    "Graph",
    "GraphBatches",
    "GraphConvolution",
    "GraphHead",
    "GraphMapFeatures",
    "GraphNetGAT",
    "GraphNetwork",
    "GraphNorm",
    "GraphPool",
    "GraphSAGE",
    "GraphSizeNorm",
    "GraphTransformer",
    "Groups",
    "HeteroConvolution",
    "HeteroGraph",
    "InteractionNetwork",
    "JumpingKnowledge",
    "MPNN",
    "MaskedGraph",
    "MessageNorm",
    "NeighbourSampler",
    "Node2Vec",
    "NodeHead",
    "NodeNames",
    "PNA",
    "PairNorm",
    "Pairs",
    "PointNet",
    "RGCN",
    "RandomWalkSampler",
    "RelationNetwork",
    "RowBlock",
    "SAGPool",
    "SGC",
    "SavedGraph",
    "SeedBatches",
    "Set2Set",
    "SortPool",
    "Split",
    "TopKPool",
    "TypedBlock",
    "TypedSampler",
    "VGAE",
    "add_self_loops",
    "as_adjacency",
    "as_edges",
    "as_groups",
    "at_edges",
    "at_nodes",
    "batch",
    "buckets",
    "coalesce",
    "cut",
    "degree",
    "degree_encoding",
    "degree_histogram",
    "drop_edges",
    "drop_nodes",
    "erdos_renyi",
    "grid",
    "infer_by_layers",
    "is_undirected",
    "k_hop",
    "kept_part",
    "knn_edges",
    "knn_graph",
    "laplacian_encoding",
    "largest_component",
    "largest_nodes",
    "load_graph",
    "mask_graph",
    "molecules",
    "negative_edges",
    "negative_windows",
    "normalized_adjacency",
    "pad",
    "pad_to_bucket",
    "partition",
    "planted_partition",
    "prefetch",
    "radius_graph",
    "random_regular",
    "random_walk_encoding",
    "random_walks",
    "reconstruction_loss",
    "remove_self_loops",
    "reverse",
    "rows_moved",
    "save_graph",
    "segment_count",
    "segment_max",
    "segment_mean",
    "segment_min",
    "segment_prod",
    "segment_softmax",
    "segment_std",
    "segment_sum",
    "segment_top_k",
    "skip_gram_loss",
    "split_by_time",
    "split_edges",
    "split_nodes",
    "split_rows",
    "subgraph",
    "take_graphs",
    "to_undirected",
    "unbatch",
    "virtual_node",
    "walk_windows",
    "with_drop_edge",
    "with_node_mask",
]
