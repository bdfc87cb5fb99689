"""The public names of `xnn.graph`: its `__init__` loads this module when one of the names is first used."""

from xnn.graph.host.encodings import degree_encoding, laplacian_encoding, random_walk_encoding
from xnn.graph.host.generators import erdos_renyi, grid, molecules, planted_partition, random_regular
from xnn.graph.host.points import knn_graph, radius_graph
from xnn.graph.host.splits import EdgeSplit, Pairs, Split, negative_edges, split_by_time, split_edges, split_nodes
from xnn.graph.host.transforms import (
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
from xnn.graph.layers.attention import GAT, GATv2, GraphTransformer
from xnn.graph.layers.attention_layer import AttentionLayer, AttentionWeights
from xnn.graph.layers.chebyshev import ChebConv
from xnn.graph.layers.dropping import drop_edges, drop_nodes, with_drop_edge
from xnn.graph.layers.edge_conv import EdgeConv, PointNet, knn_edges
from xnn.graph.layers.egnn import EGNN
from xnn.graph.layers.gated import GatedGCN, GatedGraph, GatedGraphConvolution
from xnn.graph.layers.gcn import GCN, GraphConvolution
from xnn.graph.layers.gin import GIN, GINE
from xnn.graph.layers.heads import GAE, VGAE, EdgeHead, GraphHead, NodeHead, reconstruction_loss
from xnn.graph.layers.jumping import JumpingKnowledge, virtual_node
from xnn.graph.layers.mpnn import MPNN
from xnn.graph.layers.network import (
    DeepSets,
    GraphMapFeatures,
    GraphNetGAT,
    GraphNetwork,
    InteractionNetwork,
    RelationNetwork,
)
from xnn.graph.layers.norm import GraphNorm, GraphSizeNorm, MessageNorm, PairNorm
from xnn.graph.layers.normalize import normalized_adjacency
from xnn.graph.layers.pna import PNA, degree_histogram
from xnn.graph.layers.pooling import AttentionPool, GraphPool, SAGPool, Set2Set, SortPool, TopKPool, largest_nodes
from xnn.graph.layers.relational import RGCN, HeteroConvolution
from xnn.graph.layers.sage import GraphSAGE
from xnn.graph.layers.spectral import APPNP, GCNII, SGC
from xnn.graph.samplers.blocks import Block
from xnn.graph.samplers.inference import infer_by_layers
from xnn.graph.samplers.node2vec import Node2Vec, negative_windows, random_walks, skip_gram_loss, walk_windows
from xnn.graph.samplers.partitioning import cut, partition
from xnn.graph.samplers.prefetching import prefetch
from xnn.graph.samplers.sampling import NeighbourSampler, SeedBatches
from xnn.graph.samplers.subgraphs import ClusterBatches, RandomWalkSampler
from xnn.graph.samplers.typed_sampling import TypedBlock, TypedSampler
from xnn.graph.structure.adjacency import as_adjacency, as_edges
from xnn.graph.structure.batching import at_edges, at_nodes, batch, pad, take_graphs, unbatch
from xnn.graph.structure.bucketing import Bucket, GraphBatches, buckets, pad_to_bucket
from xnn.graph.structure.edges import Edges
from xnn.graph.structure.files import SavedGraph, load_graph, save_graph
from xnn.graph.structure.graph import Graph
from xnn.graph.structure.groups import Groups, as_groups
from xnn.graph.structure.hetero import HeteroGraph
from xnn.graph.structure.masked import MaskedGraph, kept_part, mask_graph, with_node_mask
from xnn.graph.structure.names import NodeNames
from xnn.graph.structure.row_block import RowBlock, rows_moved, split_rows
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
    "APPNP", "AttentionLayer", "AttentionPool", "AttentionWeights", "Block", "Bucket", "ChebConv", "ClusterBatches",
    "DeepSets", "EGNN", "EdgeConv", "EdgeHead", "EdgeSplit", "Edges", "GAE", "GAT", "GATv2", "GCN", "GCNII", "GIN",
    "GINE", "GatedGCN", "GatedGraph", "GatedGraphConvolution", "Graph", "GraphBatches", "GraphConvolution", "GraphHead",
    "GraphMapFeatures", "GraphNetGAT", "GraphNetwork", "GraphNorm", "GraphPool", "GraphSAGE", "GraphSizeNorm",
    "GraphTransformer", "Groups", "HeteroConvolution", "HeteroGraph", "InteractionNetwork", "JumpingKnowledge", "MPNN",
    "MaskedGraph", "MessageNorm", "NeighbourSampler", "Node2Vec", "NodeHead", "NodeNames", "PNA", "PairNorm", "Pairs",
    "PointNet", "RGCN", "RandomWalkSampler", "RelationNetwork", "RowBlock", "SAGPool", "SGC", "SavedGraph",
    "SeedBatches", "Set2Set", "SortPool", "Split", "TopKPool", "TypedBlock", "TypedSampler", "VGAE", "add_self_loops",
    "as_adjacency", "as_edges", "as_groups", "at_edges", "at_nodes", "batch", "buckets", "coalesce", "cut", "degree",
    "degree_encoding", "degree_histogram", "drop_edges", "drop_nodes", "erdos_renyi", "grid", "infer_by_layers",
    "is_undirected", "k_hop", "kept_part", "knn_edges", "knn_graph", "laplacian_encoding", "largest_component",
    "largest_nodes", "load_graph", "mask_graph", "molecules", "negative_edges", "negative_windows",
    "normalized_adjacency", "pad", "pad_to_bucket", "partition", "planted_partition", "prefetch", "radius_graph",
    "random_regular", "random_walk_encoding", "random_walks", "reconstruction_loss", "remove_self_loops", "reverse",
    "rows_moved", "save_graph", "segment_count", "segment_max", "segment_mean", "segment_min", "segment_prod",
    "segment_softmax", "segment_std", "segment_sum", "segment_top_k", "skip_gram_loss", "split_by_time", "split_edges",
    "split_nodes", "split_rows", "subgraph", "take_graphs", "to_undirected", "unbatch", "virtual_node", "walk_windows",
    "with_drop_edge", "with_node_mask"]
