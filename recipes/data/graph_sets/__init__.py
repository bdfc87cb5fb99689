"""Readers of published graph sets and of user's own files. They run no code of a file; a wrong file is one error.

- tu.py: folders of the TU collection: many small graphs
- ogb.py: csv folders of the Open Graph Benchmark: one graph or many
- ogb_typed.py: such folders with types of nodes and edges
- npz.py: Amazon, Coauthor and Reddit, as published
- graphml.py: GraphML
- edge_lists.py: lists of edges with ids of any kind, weights and times
- splits.py: transductive, inductive and temporal splits
"""

from recipes.data.graph_sets.edge_lists import read_edge_list
from recipes.data.graph_sets.files import GraphSet, NodeSet, as_labelled
from recipes.data.graph_sets.graphml import read_graphml
from recipes.data.graph_sets.npz import read_npz, read_reddit
from recipes.data.graph_sets.ogb import read_ogb_graphs, read_ogb_nodes
from recipes.data.graph_sets.ogb_typed import TypedSet, read_ogb_typed
from recipes.data.graph_sets.splits import inductive, split_at_random, split_by_time
from recipes.data.graph_sets.tu import read_tu

__all__ = ["GraphSet", "NodeSet", "TypedSet", "as_labelled", "inductive", "read_edge_list", "read_graphml", "read_npz",
           "read_ogb_graphs", "read_ogb_nodes", "read_ogb_typed", "read_reddit", "read_tu", "split_at_random",
           "split_by_time"]
