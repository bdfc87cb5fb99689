"""node2vec: random walks on a graph, generated on the host, and node embeddings trained on them.

A program draws windows of nodes on the host, and trains on them::

    rng = np.random.default_rng(0)
    model = Node2Vec(graph.n_nodes, 128)
    starts = np.tile(rng.permutation(graph.n_nodes), 10)
    walks = random_walks(graph, starts, 20, p=1.0, q=0.5, rng=rng)
    windows = walk_windows(walks, 10)
    others = negative_windows(windows, graph.n_nodes, rng)
    loss = skip_gram_loss(model.apply(params, windows), model.apply(params, others))
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import xjax.numpy as jnp
from xjax.errors import bad
from xjax.typing import Array, ArrayLike
from xnn.checks import type_text
from xnn.graph.layers.heads import reconstruction_loss
from xnn.graph.structure.adjacency import as_edges
from xnn.graph.structure.graph import Graph, host
from xnn.layer import Layer
from xnn.layers.embed import Embedding


def Node2Vec(n_nodes: int, features: int) -> Layer:
    """Node embeddings, and their dot products for nodes of the same window (Grover and Leskovec, 2016).

    The embeddings are ``params["table"]``. As in PyTorch Geometric, all nodes of a window use the same table; word2vec
    has a second table for the nodes after the first.

    Shape: windows int[m, context] -> [m, context - 1], dot products of the first node with each of the other nodes.

    Args: n_nodes: number of nodes; features: size of an embedding.
    Params: ``{"table": [n_nodes, features]}``, normally distributed at first, as in `Embedding`.
    Raises: TypeError if windows are not integers [m, context].

    >>> Node2Vec(3, 2).apply({"table": jnp.array([[1.0, 0.0], [1.0, 2.0], [0.0, 3.0]])}, np.array([[1, 0, 2]]))
    Array([[1., 6.]], dtype=float32)
    """
    table = Embedding(n_nodes, features)

    def init(rng, in_shape):
        _, params = table.init(rng, ())
        return (in_shape[0], in_shape[1] - 1), params

    def apply(params, x, *, rng=None, train=False):
        if jnp.ndim(x) != 2:
            raise bad("Node2Vec", "windows must be a matrix of ids of nodes", {"x": type_text(x)},
                      fix="pass int[m, context], as walk_windows returns.")
        rows = table.apply(params, x)
        return jnp.sum(rows[:, :1] * rows[:, 1:], -1)

    return Layer(init, apply, "Node2Vec", settings={"n_nodes": n_nodes, "features": features})


def skip_gram_loss(windows: ArrayLike, others: ArrayLike) -> Array:
    """``-mean(log sigmoid(a)) - mean(log(1 - sigmoid(b)))``, a the outputs for windows, b for negative windows."""
    return reconstruction_loss(windows, others)


def random_walks(graph: Any, starts: Any, length: int, p: float = 1.0, q: float = 1.0,
                 rng: np.random.Generator | int = 0) -> np.ndarray:
    """Random walks along the edges, from senders to receivers.

    The next node is drawn in proportion to the weight of the edge, times a factor. The factor is 1 / p for a return to
    the previous node, 1 for a node that the previous node has an edge to, and 1 / q for other nodes. A walk stays at a
    node without outgoing edges.

    Args:
      graph: concrete, in any form that `as_edges` takes; edge weights must be at least 0, and are 1 if it has none.
        Padding edges are ignored.
      starts: int[m], the first node of each walk.
      length: number of steps.
      p, q: above 0. A large p makes returns unlikely; a small q makes walks move away from the previous node.
      rng: generator, or a seed. The walks depend only on it and on the other arguments.
    Returns: int32[m, length + 1], the nodes of each walk.
    Raises: ValueError for p or q that are not positive, negative weights, and starts out of range.

    >>> random_walks(Graph.from_edges([0, 1, 2], [1, 2, 0]), [0, 2], 3)
    array([[0, 1, 2, 0],
           [2, 0, 1, 2]], dtype=int32)
    """
    if not (p > 0 and q > 0):
        raise bad("random_walks", "p and q must be positive", {"p": repr(p), "q": repr(q)},
                  "pass p=1.0, q=1.0.", ValueError)
    out, rng = _outgoing(graph), np.random.default_rng(rng)
    starts = np.asarray(starts, np.int64)
    if starts.ndim != 1 or (starts.size and not 0 <= starts.min() <= starts.max() < out.n_nodes):
        raise bad("random_walks", "a start is out of range", {"starts": type_text(starts), "nodes": out.n_nodes},
                  f"pass int[m] from 0 to {out.n_nodes - 1}.", ValueError)
    walks = np.empty((length + 1, len(starts)), np.int64)
    walks[0] = starts
    for step in range(length):
        if step == 0 or p == q == 1:
            walks[step + 1] = out.draw(walks[step], rng)
        else:
            walks[step + 1] = _biased(out, walks[step - 1], walks[step], p, q, rng)
    return np.ascontiguousarray(walks.T.astype(np.int32))


def walk_windows(walks: np.ndarray, context: int) -> np.ndarray:
    """All windows of `context` consecutive nodes of walks [m, length + 1]: int32[m (length + 2 - context), context].

    Raises: ValueError for walks shorter than the context.
    """
    if not 2 <= context <= walks.shape[1]:
        raise bad("walk_windows", "`context` must be from 2 to the number of nodes of a walk",
                  {"context": context, "walks": type_text(walks)}, "make longer walks, or a shorter context.",
                  ValueError)
    return np.lib.stride_tricks.sliding_window_view(walks, context, axis=1).reshape(-1, context)


def negative_windows(windows: np.ndarray, n_nodes: int, rng: np.random.Generator | int = 0,
                     count: int = 1) -> np.ndarray:
    """Negative windows: `count` for each window, with the same first node and uniformly drawn other nodes; int32."""
    first = np.repeat(windows[:, :1], count, axis=0)
    drawn = np.random.default_rng(rng).integers(0, n_nodes, (len(first), windows.shape[1] - 1), np.int32)
    return np.concatenate([first.astype(np.int32), drawn], 1)


# -- steps of walks -----------------------------------------------------------------------------------------------


class _Outgoing(NamedTuple):
    """The edges, grouped by sender.

    Attributes:
      starts: int64[n + 1], the edges of node i are ``starts[i] .. starts[i + 1] - 1``.
      receivers: int64[e], ascending for each sender.
      keys: int64[e], ``sender * n_nodes + receiver``, ascending.
      total: float64[e + 1], running sum of the weights; None without weights.
    """

    n_nodes: int
    starts: np.ndarray
    receivers: np.ndarray
    keys: np.ndarray
    total: np.ndarray | None

    def draw(self, nodes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A receiver for each of the nodes, drawn in proportion to the weights; a node without edges returns itself."""
        first, last, u = self.starts[nodes], self.starts[nodes + 1], rng.random(len(nodes))
        if self.total is None:
            place, has_edges = first + (u * (last - first)).astype(np.int64), last > first
        else:
            low, high = self.total[first], self.total[last]
            place, has_edges = np.searchsorted(self.total, low + u * (high - low), "right") - 1, high > low
        if not len(self.receivers):
            return nodes
        return np.where(has_edges, self.receivers[np.clip(place, first, np.maximum(last - 1, 0))], nodes)

    def has(self, senders: np.ndarray, receivers: np.ndarray) -> np.ndarray:
        """bool: whether each pair has an edge from the sender to the receiver."""
        key = senders * self.n_nodes + receivers
        place = np.minimum(np.searchsorted(self.keys, key), max(len(self.keys) - 1, 0))
        return self.keys[place] == key if len(self.keys) else np.zeros(len(key), bool)


def _outgoing(graph: Any) -> _Outgoing:
    if isinstance(graph, Graph):
        graph = host("random_walks", graph)
    n_nodes = getattr(graph, "n_nodes", None)
    if n_nodes is None:
        n_nodes = graph.shape[0] if hasattr(graph, "shape") else 1 + int(max(np.max(part) for part in graph[0]))
    edges = as_edges(graph, np.zeros((n_nodes, 0), np.float32), "random_walks")
    kept = slice(None) if edges.mask is None else np.asarray(edges.mask)
    senders, receivers = (np.asarray(ends, np.int64)[kept] for ends in (edges.senders, edges.receivers))
    keys = senders * n_nodes + receivers
    order = np.argsort(keys, kind="stable")
    total = None
    if edges.weight is not None:
        weight = np.asarray(edges.weight, np.float64)[kept][order]
        if weight.min(initial=0) < 0:
            raise bad("random_walks", "an edge has a negative weight", {"smallest": f"{weight.min():g}"},
                      "pass weights of at least 0.", ValueError)
        total = np.concatenate([[0.0], np.cumsum(weight)])
    starts = np.concatenate([[0], np.cumsum(np.bincount(senders, minlength=n_nodes))])
    return _Outgoing(n_nodes, starts, receivers[order], keys[order], total)


_ROUNDS = 8         # rounds of rejection, fast if most proposals are accepted; then the exact draw, for any p and q


def _biased(out: _Outgoing, before: np.ndarray, nodes: np.ndarray, p: float, q: float,
            rng: np.random.Generator) -> np.ndarray:
    """The next nodes, by rejection sampling: a proposal by weight is accepted with its factor / the largest factor."""
    largest = max(1 / p, 1.0, 1 / q)
    chosen, still = nodes.copy(), np.arange(len(nodes))
    for _ in range(_ROUNDS):
        proposed = out.draw(nodes[still], rng)
        accepted = rng.random(len(still)) * largest < _factor(out, before[still], proposed, p, q)
        chosen[still[accepted]] = proposed[accepted]
        still = still[~accepted]
    chosen[still] = _exact(out, before[still], nodes[still], p, q, rng)
    return chosen


def _exact(out: _Outgoing, before: np.ndarray, nodes: np.ndarray, p: float, q: float,
           rng: np.random.Generator) -> np.ndarray:
    """The next nodes, drawn from the exact distribution over all edges of `nodes`."""
    first, degree = out.starts[nodes], out.starts[nodes + 1] - out.starts[nodes]
    owner, ends = np.repeat(np.arange(len(nodes)), degree), np.cumsum(degree)
    places = first[owner] + np.arange(len(owner)) - (ends - degree)[owner]
    share = _factor(out, before[owner], out.receivers[places], p, q)
    if out.total is not None:
        share = share * (out.total[places + 1] - out.total[places])
    total = np.concatenate([[0.0], np.cumsum(share)])
    low, high = total[ends - degree], total[ends]
    chosen = np.searchsorted(total, low + rng.random(len(nodes)) * (high - low), "right") - 1
    has_edges = high > low
    result = nodes.copy()
    result[has_edges] = out.receivers[places[np.minimum(chosen, ends - 1)[has_edges]]]
    return result


def _factor(out: _Outgoing, before: np.ndarray, proposed: np.ndarray, p: float, q: float) -> np.ndarray:
    return np.where(proposed == before, 1 / p, np.where(out.has(before, proposed), 1.0, 1 / q))
