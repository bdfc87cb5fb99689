"""`partition`: divides the nodes of a graph into parts of about equal size with few edges between them.

The method is multilevel recursive bisection, as in METIS (Karypis and Kumar, 1998), vectorised. Matchings of heavy
edges coarsen the graph, and the smallest graph is bisected along an eigenvector. Then at each level, from coarse to
fine, nodes move to the part to which they have most edges, as long as the parts stay balanced. METIS itself is not
used: it moves one node at a time, and is expected to leave somewhat fewer edges between parts.
"""

import importlib
from typing import Any

import numpy as np

from xjax.errors import bad
from xnn.graph.samplers.blocks import random_of, whole

_OF_PARTS = 3
_SMALL = 100                     # coarsening stops at this number of nodes
_MOST_DENSE = 600                # largest number of nodes for which eigenvectors are computed
_PASSES = 10                     # of refinement


def partition(graph: Any, parts: int, *, seed: int = 0, imbalance: float = 0.05) -> np.ndarray:
    """The part of each node, int32[n] in ``0 .. parts - 1``. Directions and weights of edges are ignored.

    Args:
      graph: one `Graph` on the host.
      parts: number of parts.
      seed: seed of the random numbers; equal arguments give equal results.
      imbalance: no part has more than ``ceil((1 + imbalance) * n / parts)`` nodes; parts may be empty if n < parts.
    Raises: ValueError for a number of parts below 1 or an imbalance below 0.

    >>> from xnn.graph import Graph
    >>> two_triangles = Graph.from_edges([0, 1, 2, 3, 4, 5, 0], [1, 2, 0, 4, 5, 3, 3])
    >>> part = partition(two_triangles, 2)
    >>> bool(part[0] == part[1] == part[2] != part[3] == part[4] == part[5])
    True
    """
    if parts < 1 or imbalance < 0:
        raise bad("partition", "needs at least one part, and an imbalance of at least 0",
                  {"parts": parts, "imbalance": imbalance}, "pass for example parts=10, imbalance=0.05.", ValueError)
    adjacency = _undirected(whole("partition", graph))
    n, rng = adjacency.shape[0], random_of(seed, parts, of=_OF_PARTS)
    if parts == 1 or n == 0:
        return np.zeros(n, np.int32)
    most = int(np.ceil((1 + imbalance) * n / parts))
    slack = (1 + imbalance) ** (1 / np.ceil(np.log2(parts)))      # for each bisection
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
    """The coarse node of each node; a coarse node is a pair of nodes joined by a heavy edge, or a single node.

    Each unmatched node proposes its heaviest edge to another unmatched node, with random choice among equally heavy
    edges; mutual proposals become pairs. A few rounds match most nodes. No pair is heavier than `heaviest`.
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
        # A random number for the pair, equal in both directions, breaks ties between equally heavy edges.
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
    """A multilevel bisection: 0 or 1 for each node. Args: most: largest numbers of nodes of the two parts."""
    weight = np.ones(adjacency.shape[0], np.int64)
    levels, maps = [(adjacency, weight)], []
    while len(weight) > _SMALL:
        coarse_of = _matched(adjacency, weight, max(most.sum() / 40, 2), rng)
        count = int(coarse_of.max()) + 1
        if count > 0.95 * len(weight):                            # few matches: hubs, or no edges
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
    """Orders of the nodes of a small graph in which neighbours are close: the reverse Cuthill-McKee order, and the
    orders of the Fiedler vector and the next two eigenvectors of the normalised Laplacian."""
    csgraph, sparse = (importlib.import_module(f"scipy.sparse{part}") for part in (".csgraph", ""))
    n = adjacency.shape[0]
    orders = [csgraph.reverse_cuthill_mckee(adjacency.tocsr(), symmetric_mode=True)]
    if 2 < n <= _MOST_DENSE:
        scale = 1 / np.sqrt(np.maximum(np.asarray(adjacency.sum(1)).ravel(), 1))
        vectors = np.linalg.eigh((sparse.diags(scale) @ adjacency @ sparse.diags(scale)).toarray())[1]
        orders += [np.argsort(vector * scale, kind="stable") for vector in vectors.T[-2:-5:-1]]
    return orders


def _at_share(order: np.ndarray, weight: np.ndarray, most: np.ndarray) -> np.ndarray:
    """A bisection of an order: 1 for the last nodes, so that the second part has its share of the weight."""
    before = np.cumsum(weight[order]) - weight[order] / 2
    part = np.zeros(len(order), np.int64)
    part[order] = before > weight.sum() * most[0] / most.sum()
    return part


def _refined(adjacency: Any, weight: np.ndarray, part: np.ndarray, most: np.ndarray,
             rng: np.random.Generator) -> np.ndarray:
    """Moves nodes to the part to which they have most edges while it has room, in several passes, largest gain first.

    In each pass only a random half of the nodes may move, because otherwise two neighbours could swap parts forever.
    The first passes allow parts that are 10 % too heavy, so that nodes can be exchanged one at a time.
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
    """(Excess weight, weight of the edges between parts): a smaller tuple is a better partition."""
    rows = np.repeat(part, np.diff(adjacency.indptr))
    over = np.maximum(np.bincount(part, weight, len(most)) - most, 0).sum()
    return over, int(adjacency.data[rows != part[adjacency.indices]].sum())


def _allowed(worth: np.ndarray, gain: np.ndarray, weight: np.ndarray, part: np.ndarray,
             excess: np.ndarray) -> np.ndarray:
    """`worth`, with the nodes added that lose least by leaving parts that are too heavy."""
    heavy = np.flatnonzero(excess[part] > 0)
    heavy = heavy[np.lexsort((-gain[heavy], part[heavy]))]
    leaves = heavy[_running(weight[heavy], part[heavy]) - weight[heavy] < 2 * excess[part[heavy]]]  # half may move
    worth = worth.copy()
    worth[leaves] = True
    return worth


def _edges_to_parts(adjacency: Any, part: np.ndarray, parts: int) -> Any:
    """csr[n, parts]: number of edges from each node to each part."""
    sparse = importlib.import_module("scipy.sparse")
    n = len(part)
    return (adjacency @ sparse.csr_matrix((np.ones(n, np.int64), part, np.arange(n + 1)), shape=(n, parts))).tocsr()


def _strongest(within: Any, part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each node the other part to which it has most edges, -1 if it has none, and the number of these edges."""
    n = len(part)
    rows = np.repeat(np.arange(n), np.diff(within.indptr))
    other = within.indices != part[rows]
    rows, cols, values = rows[other], within.indices[other], within.data[other]
    target, to = np.full(n, -1), np.zeros(n, np.int64)
    if len(rows):
        starts = np.flatnonzero(np.r_[True, rows[1:] != rows[:-1]])
        largest = np.maximum.reduceat(values * within.shape[1] + cols, starts)        # number of edges, then part
        to[rows[starts]], target[rows[starts]] = np.divmod(largest, within.shape[1])
    return target, to


def _running(weight: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Running sums that restart with each group; the nodes of a group are consecutive."""
    total = np.cumsum(weight)
    starts = np.flatnonzero(np.r_[True, group[1:] != group[:-1]][:len(group)])
    return total - np.repeat((total - weight)[starts], np.diff(np.r_[starts, len(group)]))


def _balanced(adjacency: Any, part: np.ndarray, parts: int, most: int) -> np.ndarray:
    """Moves nodes from parts with more than `most` nodes to parts with room, fewest edges to the own part first."""
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
