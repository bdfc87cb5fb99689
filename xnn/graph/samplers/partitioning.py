"""`partition`: the nodes of a graph in parts of equal size with few edges between them.

Multilevel recursive bisection in the manner of METIS (Karypis and Kumar, 1998), written for whole arrays: matchings of
heavy edges make a graph smaller, the small graph is divided along an eigenvector, and at each size, from small to
large, nodes move to the part that they have most edges with, as long as the parts stay balanced. METIS itself is not
used: it moves one node at a time, and is expected to cut somewhat fewer edges.
"""

import importlib
from typing import Any

import numpy as np

from xjax.errors import bad
from xnn.graph.samplers.blocks import random_of, whole

_OF_PARTS = 3
_SMALL = 100                     # nodes of the smallest graph
_MOST_DENSE = 600                # nodes up to which its eigenvectors are computed
_PASSES = 10


def partition(graph: Any, parts: int, *, seed: int = 0, imbalance: float = 0.05) -> np.ndarray:
    """The part of each node, int32[n] in ``0 .. parts - 1``. Directions and weights of edges do not count.

    Args:
      graph: one `Graph` on the host.
      imbalance: no part has more than ``ceil((1 + imbalance) * n / parts)`` nodes; parts may be empty if n < parts.
      seed: of the random numbers; the result is a function of the arguments.
    Raises: ValueError for a number of parts below 1 or an imbalance below 0.

    >>> from xnn.graph import Graph
    >>> two_triangles = Graph.from_edges([0, 1, 2, 3, 4, 5, 0], [1, 2, 0, 4, 5, 3, 3])
    >>> found = partition(two_triangles, 2)
    >>> bool(found[0] == found[1] == found[2] != found[3] == found[4] == found[5])
    True
    """
    if parts < 1 or imbalance < 0:
        raise bad("partition", "needs a number of parts and an imbalance from 0 on",
                  {"parts": parts, "imbalance": imbalance}, "parts=10, imbalance=0.05.", ValueError)
    adjacency = _undirected(whole("partition", graph))
    n, rng = adjacency.shape[0], random_of(seed, parts, of=_OF_PARTS)
    if parts == 1 or n == 0:
        return np.zeros(n, np.int32)
    most = int(np.ceil((1 + imbalance) * n / parts))
    slack = (1 + imbalance) ** (1 / np.ceil(np.log2(parts)))      # of one bisection
    part, weight = np.zeros(n, np.int64), np.ones(n, np.int64)
    pieces = [(np.arange(n), 0, parts)]
    while pieces:
        nodes, first, count = pieces.pop()
        if count == 1 or not len(nodes):
            part[nodes] = first
            continue
        inside = adjacency if count == parts else adjacency[nodes][:, nodes]
        shares = np.array([count // 2, count - count // 2]) / count
        right = _bisected(inside, slack * shares * len(nodes), rng).astype(bool)
        pieces += [(nodes[~right], first, count // 2), (nodes[right], first + count // 2, count - count // 2)]
    part = _refined(adjacency, weight, _balanced(adjacency, part, parts, most), np.full(parts, most), rng)
    part = _balanced(adjacency, part, parts, most)
    return part.astype(np.int32)


def cut(graph: Any, part: np.ndarray) -> int:
    """Number of edges whose ends are in different parts."""
    return int(np.sum(part[np.asarray(graph.senders)] != part[np.asarray(graph.receivers)]))


def _undirected(graph: Any) -> Any:
    """csr[n, n]: number of edges between two different nodes, in either direction."""
    sparse = importlib.import_module("scipy.sparse")
    ones = np.ones(graph.n_edges, np.int64)
    one = sparse.csr_matrix((ones, graph.senders, graph.first), shape=(graph.n_nodes,) * 2)
    both = (one + one.T).tocsr()
    both.setdiag(0)
    both.eliminate_zeros()
    return both


def _matched(adjacency: Any, weight: np.ndarray, heaviest: float, rng: np.random.Generator) -> np.ndarray:
    """For each node the number of its coarse node: pairs over heavy edges, and single nodes.

    Each node that is free proposes its heaviest edge to a free node, with random preference among equals; proposals
    that are mutual become pairs. A few rounds match most nodes. Pairs are not heavier than `heaviest`.
    """
    n = len(weight)
    rows = np.repeat(np.arange(n), np.diff(adjacency.indptr))
    cols, strength = adjacency.indices, adjacency.data.astype(np.float64)
    partner = np.arange(n)
    for _ in range(6):
        free = partner == np.arange(n)
        keep = free[rows] & free[cols] & (weight[rows] + weight[cols] <= heaviest)
        rows, cols, strength = rows[keep], cols[keep], strength[keep]
        if not len(rows):
            break
        # A random number of the pair, equal in both directions, decides among equally heavy edges.
        jitter = rng.random(n)
        score = strength + (jitter[rows] + jitter[cols]) % 1
        best = np.maximum.reduceat(score, starts := np.flatnonzero(np.r_[True, rows[1:] != rows[:-1]]))
        top = np.flatnonzero(score == np.repeat(best, np.diff(np.r_[starts, len(rows)])))
        choice = np.full(n, -1)
        choice[rows[top]] = cols[top]
        mutual = np.flatnonzero((choice >= 0) & (choice[choice] == np.arange(n)))
        partner[mutual] = choice[mutual]
    return np.unique(np.minimum(partner, np.arange(n)), return_inverse=True)[1]


def _contracted(adjacency: Any, coarse_of: np.ndarray, count: int) -> Any:
    sparse = importlib.import_module("scipy.sparse")
    n = len(coarse_of)
    member = sparse.csr_matrix((np.ones(n, np.int64), coarse_of, np.arange(n + 1)), shape=(n, count))
    smaller = (member.T @ adjacency @ member).tocsr()
    smaller.setdiag(0)
    smaller.eliminate_zeros()
    return smaller


def _bisected(adjacency: Any, most: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """0 or 1 for each node: a multilevel bisection. Args: most: nodes of the two parts."""
    weight = np.ones(adjacency.shape[0], np.int64)
    levels, maps = [(adjacency, weight)], []
    while len(weight) > _SMALL:
        coarse_of = _matched(adjacency, weight, max(most.sum() / 40, 2), rng)
        count = int(coarse_of.max()) + 1
        if count > 0.95 * len(weight):                            # hubs, or no edges: smaller graphs do not help
            break
        adjacency = _contracted(adjacency, coarse_of, count)
        weight = np.bincount(coarse_of, weight, count).astype(np.int64)
        levels.append((adjacency, weight))
        maps.append(coarse_of)
    starts = [_refined(adjacency, weight, _at_share(order, weight, most), most, rng) for order in _orders(adjacency)]
    part = min(starts, key=lambda part: _state(adjacency, weight, part, most))
    for (adjacency, weight), coarse_of in zip(levels[-2::-1], maps[::-1], strict=True):
        part = _refined(adjacency, weight, part[coarse_of], most, rng)
    return part


def _orders(adjacency: Any) -> list[np.ndarray]:
    """Orders of the nodes of a small graph in which neighbours are close: Cuthill-McKee's, and those of eigenvectors
    of the normalised Laplacian, the Fiedler vector and the next ones."""
    csgraph, sparse = (importlib.import_module(f"scipy.sparse{part}") for part in (".csgraph", ""))
    n = adjacency.shape[0]
    orders = [csgraph.reverse_cuthill_mckee(adjacency.tocsr(), symmetric_mode=True)]
    if 2 < n <= _MOST_DENSE:
        scale = 1 / np.sqrt(np.maximum(np.asarray(adjacency.sum(1)).ravel(), 1))
        vectors = np.linalg.eigh((sparse.diags(scale) @ adjacency @ sparse.diags(scale)).toarray())[1]
        orders += [np.argsort(vector * scale, kind="stable") for vector in vectors.T[-2:-5:-1]]
    return orders


def _at_share(order: np.ndarray, weight: np.ndarray, most: np.ndarray) -> np.ndarray:
    """1 for the last nodes of an order, whose weight is the share of the second part."""
    before = np.cumsum(weight[order]) - weight[order] / 2
    part = np.zeros(len(order), np.int64)
    part[order] = before > weight.sum() * most[0] / most.sum()
    return part


def _refined(adjacency: Any, weight: np.ndarray, part: np.ndarray, most: np.ndarray,
             rng: np.random.Generator) -> np.ndarray:
    """Passes in which nodes move to the part of most of their edges, those that gain most first, while it has room.

    A random half of the nodes may move in each pass: two neighbours that follow each other would change places. The
    first passes allow parts that are a tenth too heavy, so that nodes can change places by and by.
    """
    n, parts, best, least = len(part), len(most), part, None
    for i in range(_PASSES + 1):
        limit = most * 1.1 if i < _PASSES // 2 else most
        within = _edges_to_parts(adjacency, part, parts)
        sizes, own = np.bincount(part, weight, parts), np.asarray(within[np.arange(n), part]).ravel()
        state = _state(adjacency, weight, part, most)
        if least is None or state < least:
            best, least = part, state
        target, to = _strongest(within, part)
        gain = np.where(target >= 0, to - own, -np.inf)
        worth = _allowed((gain > 0), gain, weight, part, np.maximum(sizes - limit, 0))
        moves = np.flatnonzero(worth & (target >= 0) & (rng.random(n) < 0.5))
        moves = moves[np.lexsort((-gain[moves], target[moves]))]
        moves = moves[_running(weight[moves], target[moves]) <= np.maximum(limit - sizes, 0)[target[moves]]]
        part = part.copy()
        part[moves] = target[moves]
    return best


def _state(adjacency: Any, weight: np.ndarray, part: np.ndarray, most: np.ndarray) -> tuple[float, int]:
    """Smaller is better: balanced first, then few edges between parts."""
    rows = np.repeat(part, np.diff(adjacency.indptr))
    over = np.maximum(np.bincount(part, weight, len(most)) - most, 0).sum()
    return over, int(adjacency.data[rows != part[adjacency.indices]].sum())


def _allowed(worth: np.ndarray, gain: np.ndarray, weight: np.ndarray, part: np.ndarray,
             excess: np.ndarray) -> np.ndarray:
    """`worth`, and those nodes of parts that are too heavy which lose least by leaving them."""
    heavy = np.flatnonzero(excess[part] > 0)
    heavy = heavy[np.lexsort((-gain[heavy], part[heavy]))]
    leaves = heavy[_running(weight[heavy], part[heavy]) - weight[heavy] < 2 * excess[part[heavy]]]  # half may not move
    worth = worth.copy()
    worth[leaves] = True
    return worth


def _edges_to_parts(adjacency: Any, part: np.ndarray, parts: int) -> Any:
    """csr[n, parts]: the edges of each node to each part."""
    sparse = importlib.import_module("scipy.sparse")
    n = len(part)
    return (adjacency @ sparse.csr_matrix((np.ones(n, np.int64), part, np.arange(n + 1)), shape=(n, parts))).tocsr()


def _strongest(within: Any, part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each node the other part with most edges to it, -1 without, and their number."""
    n = len(part)
    rows = np.repeat(np.arange(n), np.diff(within.indptr))
    other = within.indices != part[rows]
    rows, cols, values = rows[other], within.indices[other], within.data[other]
    target, to = np.full(n, -1), np.zeros(n, np.int64)
    if len(rows):
        starts = np.flatnonzero(np.r_[True, rows[1:] != rows[:-1]])
        largest = np.maximum.reduceat(values * within.shape[1] + cols, starts)        # the number first, then the part
        to[rows[starts]], target[rows[starts]] = np.divmod(largest, within.shape[1])
    return target, to


def _running(weight: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Running sums that start again with each group; groups are consecutive."""
    total = np.cumsum(weight)
    starts = np.flatnonzero(np.r_[True, group[1:] != group[:-1]][:len(group)])
    return total - np.repeat((total - weight)[starts], np.diff(np.r_[starts, len(group)]))


def _balanced(adjacency: Any, part: np.ndarray, parts: int, most: int) -> np.ndarray:
    """Nodes with the fewest edges to their own part leave parts with more than `most` nodes, for any that have room."""
    n = len(part)
    own = np.asarray(_edges_to_parts(adjacency, part, parts)[np.arange(n), part]).ravel()
    order = np.lexsort((-own, part))
    rank = np.empty(n, np.int64)
    rank[order] = _running(np.ones(n, np.int64), part[order])
    leave = np.flatnonzero(rank > most)
    room = np.maximum(most - np.bincount(part, minlength=parts), 0)
    part = part.copy()
    part[leave] = np.repeat(np.arange(parts), room)[:len(leave)]
    return part
