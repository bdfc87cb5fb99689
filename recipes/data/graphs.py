"""Node-labelled graphs on the host."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from recipes.lazy import sp

SPLITS = ("train", "val", "test")


class LabelledGraph(NamedTuple):
    """An undirected graph whose nodes have features and one class each.

    Attributes:
        adjacency: csr[n, n], symmetric, ones or weights of edges, empty diagonal.
        features: csr f32[n, f].
        labels: i32[n]; a node without a label has an arbitrary class, and is in no split.
        n_classes: number of classes.
        split: for each of ``SPLITS`` the ids of its nodes, ascending.
    """

    adjacency: sp.csr_matrix
    features: sp.csr_matrix
    labels: np.ndarray
    n_classes: int
    split: dict[str, np.ndarray]


def undirected(source: np.ndarray, target: np.ndarray, n: int, weights: np.ndarray | None = None) -> sp.csr_matrix:
    """The adjacency of n nodes, f32: ones in both directions, or the weights of the edges, without loops.

    Repeated edges count once, with the mean of their weights.
    """
    keep = source != target
    ends = source[keep], target[keep]
    both = np.concatenate(ends), np.concatenate(ends[::-1])
    out = sp.csr_matrix((np.ones(len(both[0]), np.float32), both), shape=(n, n))            # equal edges are summed
    if weights is None:
        out.data[:] = 1
    else:
        out.data[:] = sp.csr_matrix((np.tile(weights[keep], 2), both), shape=(n, n)).data / out.data
    return out


def row_normalized(features: sp.csr_matrix) -> sp.csr_matrix:
    """Each row divided by its sum; a row whose sum is zero is not changed."""
    total = np.asarray(features.sum(axis=1)).ravel()
    scale = 1 / np.where(total == 0, 1, total)
    return sp.csr_matrix(sp.diags(scale) @ features, dtype=np.float32)
