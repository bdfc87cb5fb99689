"""Generated graphs for tests, examples and measurements: grids, random graphs, communities and labelled molecules.

All random graphs are determined by their seed. Edges are in both directions, except with ``directed=True``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xjax.errors import bad
from xjax.typing import ArrayLike
from xnn.graph.host.splits import pairs_of_codes
from xnn.graph.structure.graph import Graph

ATOMS = ("C", "N", "O")
BONDS = ("single", "double", "aromatic")


def grid(rows: int, columns: int, *, periodic: bool = False) -> Graph:
    """A grid in which neighbours in a row or column are joined; `nodes` is (row, column), float32[n, 2].

    Args: periodic: whether the last row and column are joined to the first.

    >>> grid(2, 3)
    <Graph of 6 nodes, 14 edges; nodes f32[6,2]>
    """
    if min(rows, columns) < 1:
        raise bad("graph.grid", "a grid must have at least one row and column", {"rows": rows, "columns": columns},
                  "pass positive numbers.", ValueError)
    number = np.arange(rows * columns).reshape(rows, columns)
    if periodic:
        pairs = [(number, np.roll(number, -1, 1)), (number, np.roll(number, -1, 0))]
    else:
        pairs = [(number[:, :-1], number[:, 1:]), (number[:-1], number[1:])]
    one = np.concatenate([pair[0].reshape(-1) for pair in pairs])
    other = np.concatenate([pair[1].reshape(-1) for pair in pairs])
    different = np.unique(np.sort(np.stack([one, other], 1)[one != other], axis=1), axis=0)
    return _both_ways(different, np.stack(np.divmod(number.reshape(-1), columns), 1).astype(np.float32))


def erdos_renyi(n: int, p: float, seed: int = 0, *, directed: bool = False) -> Graph:
    """A random graph that joins each pair of nodes with probability p (Erdos and Renyi, 1959; Gilbert, 1959).

    The time grows with the number of edges, not of pairs.
    """
    _check_probability("graph.erdos_renyi", "p", p)
    pairs = _random_pairs(np.random.default_rng(seed), n, p, directed)
    if directed:
        return Graph.from_edges(pairs[:, 0], pairs[:, 1], n_nodes=n)
    return _both_ways(pairs, n_nodes=n)


def random_regular(n: int, degree: int, seed: int = 0) -> Graph:
    """A random graph in which every node has `degree` neighbours.

    Ends of edges are paired at random. Loops and repeated edges swap ends with random other edges until there are none
    left. The distribution is nearly uniform over such graphs.

    Raises: ValueError if there is no such graph: `degree` must be below n, and ``n * degree`` even.
    """
    if not 0 <= degree < max(n, 1) or n * degree % 2:
        raise bad("graph.random_regular", "there is no such graph", {"n": n, "degree": degree},
                  "pass a degree below n, with n * degree even.", ValueError)
    if degree > max(n - 1, 0) // 2:                                      # dense: draw the complement
        complement = random_regular(n, n - 1 - degree, seed)
        joined = ~np.eye(n, dtype=bool)
        joined[complement.senders, complement.receivers] = False
        return Graph.from_edges(*np.nonzero(joined), n_nodes=n)
    rng = np.random.default_rng(seed)
    ends = rng.permutation(np.repeat(np.arange(n), degree)).reshape(-1, 2)
    while True:
        ends.sort(axis=1)
        place = ends[:, 0] * n + ends[:, 1]
        first = np.zeros(len(ends), bool)
        first[np.unique(place, return_index=True)[1]] = True
        invalid = np.flatnonzero(~first | (ends[:, 0] == ends[:, 1]))
        if not len(invalid):
            return _both_ways(ends, n_nodes=n)
        mixed = np.union1d(invalid, rng.integers(len(ends), size=2 * len(invalid) + 2))
        ends[mixed] = rng.permutation(ends[mixed].reshape(-1)).reshape(-1, 2)


def planted_partition(n: int, classes: int, *, degree: float = 10.0, mixing: float = 0.2, features: int = 16,
                      signal: float = 1.0, seed: int = 0) -> tuple[Graph, np.ndarray]:
    """A stochastic block model with classes of equal size (Holland et al., 1983).

    100,000 nodes take less than a second.

    Args:
      degree: mean number of neighbours.
      mixing: fraction of the neighbours that are in other classes.
      features: number of features, which are normal around a mean of the class.
      signal: norm of the class means; with 0 the features are independent of the class.
    Returns: ``(graph, labels int32[n])``.

    >>> graph, labels = planted_partition(1000, 4, seed=1)
    >>> same = labels[graph.senders] == labels[graph.receivers]
    >>> bool(0.75 < same.mean() < 0.85), bool(9 < graph.n_edges / 1000 < 11)
    (True, True)
    """
    caller = "graph.planted_partition"
    _check_probability(caller, "mixing", mixing)
    if not 1 <= classes <= n:
        raise bad(caller, "there are more classes than nodes, or none", {"n": n, "classes": classes},
                  "pass at most n classes.", ValueError)
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(n) % classes).astype(np.int32)
    by_class = np.argsort(labels, kind="stable")
    size = np.bincount(labels)
    inside, every = int((size * (size - 1) // 2).sum()), n * (n - 1) // 2
    expected = n * degree / 2
    between = expected * mixing / max(every - inside, 1) if classes > 1 else 0.0
    within = (expected * (1 - mixing) if classes > 1 else expected) / max(inside, 1)
    for name, p in (("within", within), ("between", between)):
        _check_probability(caller, f"probability from `degree` for pairs {name} classes", p)
    pairs = _random_pairs(rng, n, between, directed=False)
    pairs = pairs[labels[pairs[:, 0]] != labels[pairs[:, 1]]]
    # The pairs within classes are numbered consecutively: first all pairs of the first class, then of the second, ...
    code = rng.choice(inside, rng.binomial(inside, within), replace=False) if inside else np.zeros(0, np.int64)
    ends = np.cumsum(size * (size - 1) // 2)
    which = np.searchsorted(ends, code, side="right")
    first = np.cumsum(size) - size
    own = pairs_of_codes(code - (ends - size * (size - 1) // 2)[which], n, True) + first[which][:, None]
    means = rng.normal(size=(classes, features))
    means *= signal / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-9)
    x = (means[labels] + rng.normal(size=(n, features))).astype(np.float32)
    return _both_ways(np.concatenate([pairs, by_class[own]]), x), labels


def molecules(count: int, seed: int = 0, *, carbons: Sequence[int] = (8, 16)) -> tuple[list[Graph], np.ndarray]:
    """Small molecule-like graphs of two classes.

    A molecule is in class 1 if one of its carbon atoms has both an oxygen and a nitrogen atom as neighbours (as in an
    amide), otherwise in class 0. Half of the molecules are in class 1. Both classes have the same distributions of
    elements and rings, and oxygen and nitrogen are always bound to carbon, so that only the neighbourhood separates the
    classes. A third of the molecules has a ring of six aromatic bonds, a third a ring of five single bonds. Oxygen has
    a double bond.

    Args: count: number of molecules; carbons: smallest and largest number of carbon atoms, at least 8.
    Returns: ``(graphs, labels int32[count])``. Node features are one-hot in the order of `ATOMS`, float32[n, 3], edge
      features one-hot in the order of `BONDS`, float32[e, 3]; `globals` is the label.
    """
    low, high = carbons
    if not 8 <= low <= high:
        raise bad("graph.molecules", "a molecule needs at least 8 carbon atoms", {"carbons": f"{low} to {high}"},
                  "pass for example carbons=(8, 16).", ValueError)
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(count) % 2).astype(np.int32)
    return [_molecule(rng, bool(label), int(rng.integers(low, high + 1))) for label in labels], labels


def _molecule(rng: np.random.Generator, together: bool, n: int) -> Graph:
    """One molecule with n carbon atoms; `together`: whether one carbon atom has both an oxygen and a nitrogen atom."""
    ring = (0, 5, 6)[rng.integers(3)]
    atoms = np.arange(1, n)
    # A tree with short branches: each atom is joined to one of the three atoms before it; a ring is a closed chain.
    before = np.maximum(atoms - rng.integers(1, 4, n - 1), 0)
    before = np.where(atoms < ring, atoms - 1, before)
    bonds = np.stack([before, atoms], 1)
    kind = np.where((atoms < ring) & (ring == 6), 2, 0)
    if ring:
        bonds, kind = np.concatenate([bonds, [[0, ring - 1]]]), np.append(kind, 2 if ring == 6 else 0)
    free = np.flatnonzero(np.bincount(bonds.reshape(-1), minlength=n) <= 2)     # at least half: two bonds are free
    groups = int(rng.integers(1, 3))
    places = rng.permutation(free)[:2 * groups]
    at_oxygen, at_nitrogen = places[:groups], places[groups:].copy()
    if together:
        at_nitrogen[0] = at_oxygen[0]
    oxygen, nitrogen = n + np.arange(groups), n + groups + np.arange(groups)
    bonds = np.concatenate([bonds, np.stack([at_oxygen, oxygen], 1), np.stack([at_nitrogen, nitrogen], 1)])
    kind = np.concatenate([kind, np.ones(groups, int), np.zeros(groups, int)])
    element = np.repeat([0, 2, 1], [n, groups, groups])
    place = rng.permutation(n + 2 * groups)                                  # the order of atoms has no information
    nodes = np.empty((len(place), 3), np.float32)
    nodes[place] = np.eye(3, dtype=np.float32)[element]
    return _both_ways(place[bonds], nodes, np.eye(3, dtype=np.float32)[kind], np.int32(together))


def _random_pairs(rng: np.random.Generator, n: int, p: float, directed: bool) -> np.ndarray:
    """Pairs of different nodes, each drawn with probability p."""
    every = n * (n - 1) // (1 if directed else 2)
    code = rng.choice(every, rng.binomial(every, p), replace=False) if every else np.zeros(0, np.int64)
    return pairs_of_codes(code, n, not directed)


def _both_ways(pairs: np.ndarray, nodes: ArrayLike | None = None, edges: ArrayLike | None = None,
               globals: ArrayLike | None = None, n_nodes: int | None = None) -> Graph:
    """A graph with each pair in both directions. Args: pairs: [m, 2], distinct; edges: [m, ...] their features."""
    both = np.concatenate([pairs, pairs[:, ::-1]])
    return Graph.from_edges(both[:, 0], both[:, 1], nodes, None if edges is None else np.concatenate([edges, edges]),
                            globals=globals, n_nodes=n_nodes)


def _check_probability(caller: str, name: str, p: float) -> None:
    if not 0 <= p <= 1:
        raise bad(caller, "a probability is not between 0 and 1", {name: f"{p:g}"}, "pass a number from 0 to 1.",
                  ValueError)
