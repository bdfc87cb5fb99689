"""The division of examples: shares for validation and for the test, and the rest for training."""

from __future__ import annotations

import numpy as np


def split_by_order(order: np.ndarray, fractions: tuple[float, float]) -> dict[str, np.ndarray]:
    """The ids of each split, ascending: val has the first share of ``order``, test the next."""
    n_val, n_test = (round(fraction * len(order)) for fraction in fractions)
    parts = {"train": order[n_val + n_test:], "val": order[:n_val], "test": order[n_val:n_val + n_test]}
    return {split: np.sort(ids) for split, ids in parts.items()}


def split_by_position(n: int, fractions: tuple[float, float]) -> dict[str, slice]:
    """Split -> its part of ``n`` characters or rows: the first part is train, the last shares are val and test."""
    n_test = round(n * fractions[1])
    n_val = min(round(n * fractions[0]), n - n_test)
    return {"train": slice(0, n - n_val - n_test), "val": slice(n - n_val - n_test, n - n_test),
            "test": slice(n - n_test, n)}
