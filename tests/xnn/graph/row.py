"""`GraphRow`: a layer on a graph, with its value in NumPy and, if it exists, PyTorch Geometric's layer."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from tests.xnn.drawn_params import drawn_params
from xjax import random, tree_util
from xnn import Layer
from xnn.graph import Graph

KEY = random.key(0)             # of invalid calls


class GraphRow(NamedTuple):
    """A layer, its reference values and its properties.

    Attributes:
      layer: ``apply(params, x, graph, ...) -> y``, x the features of the nodes.
      oracle: ``(params, x, graph) -> y`` of NumPy arrays in float64: the output in evaluation, by loops from the
        paper's formula. The graph is a `Graph` of NumPy arrays.
      features: number of features of a node.
      weights: whether the layer reads the weights of edges.
      edge_features: number of features of an edge, for a layer that reads them; None for others.
      per: "node": y has a row for each node; "graph": for each graph of a batch.
      random: whether training draws random numbers.
      extra: further inputs by name, ``(Generator, graph) -> array``.
      peer: ``(params) -> torch module`` with the same weights, and its call: see `tests/xnn/graph/peers.py`. None if
        PyTorch Geometric has no such layer.
      ordered: whether y depends on the order of the edges that a node receives.
      sparse: whether the features of the nodes may be a `CSR`.
      tol: tolerance, relative to that of one layer; larger for long sums and recurrences.
    """

    layer: Layer
    oracle: Callable[..., Any]
    features: int = 4
    weights: bool = False
    edge_features: int | None = None
    per: str = "node"
    random: bool = False
    extra: Mapping[str, Callable] = {}
    peer: Callable[..., Any] | None = None
    ordered: bool = False
    sparse: bool = False
    tol: float = 1.0


def draw_graph(row: GraphRow, seed: int = 0, n: int = 7, p: float = 0.35, dtype: Any = np.float32) -> Graph:
    """A directed graph without self loops whose last node has no edges; features of nodes and edges are normal."""
    npr = np.random.default_rng(seed)
    there = (npr.random((n, n)) < p) & ~np.eye(n, dtype=bool)
    there[-1] = there[:, -1] = False
    receivers, senders = np.nonzero(there)
    edges = {}
    if row.weights:
        edges["weight"] = npr.uniform(0.5, 1.5, len(senders)).astype(dtype)
    if row.edge_features is not None:
        edges["features"] = npr.normal(size=(len(senders), row.edge_features)).astype(dtype)
    x = npr.normal(size=(n, row.features))
    return Graph.from_edges(senders, receivers, (x + 0.1 * np.sign(x)).astype(dtype), edges or None)


def empty_graph(row: GraphRow, n: int = 3) -> Graph:
    """A graph without edges."""
    graph = draw_graph(row, n=n, p=0.0)
    assert graph.n_edges == 0
    return graph


def draw_extra(row: GraphRow, graph: Graph, dtype: Any = np.float32) -> dict[str, Any]:
    """The further inputs of a row."""
    npr = np.random.default_rng(9)
    made = {name: np.asarray(make(npr, graph)) for name, make in row.extra.items()}
    return {name: value.astype(dtype) if value.dtype.kind == "f" else value for name, value in made.items()}


def make_params(row: GraphRow, dtype: Any = np.float32, seed: int = 0) -> Any:
    """Parameters of a row."""
    return drawn_params(row.layer, (-1, row.features), dtype=dtype, seed=seed, **init_shapes(row, draw_graph(row)))


def init_shapes(row: GraphRow, graph: Graph) -> dict[str, Any]:
    """The shapes that `init` needs besides that of x: the graph, if weights depend on its edge features."""
    needed = {"graph": graph} if "graph" in row.layer.sized_by else {}
    return needed | {name: value for name, value in draw_extra(row, graph).items() if name in row.layer.sized_by}


def run(row: GraphRow, params: Any, x: Any, graph: Any, extra: Mapping[str, Any] = {}, *, rng: Any = None,
        train: bool = False) -> Any:
    """The output; for a layer with state, that of a training step from its initial state."""
    if row.layer.state:
        state = row.layer.init_state(x.shape)
        dtype = next((leaf.dtype for leaf in tree_util.tree_leaves(params)), x.dtype)
        state = tree_util.tree_map(lambda leaf: leaf.astype(dtype) if leaf.dtype.kind == "f" else leaf, state)
        return row.layer.apply_with_state(params, state, x, graph, **extra, rng=rng, train=True)[0]
    return row.layer.apply(params, x, graph, **extra, rng=rng, train=train)
