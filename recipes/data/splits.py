"""The division of examples: shares for validation and for the test, and the rest for training."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Sized

import numpy as np

from recipes.data.facts import Share, Table, listed
from recipes.names import alike, printable

MOST_CLASSES = 20                                             # of a fact in a summary: those with the most examples


def split_by_order(order: np.ndarray, fractions: tuple[float, float]) -> dict[str, np.ndarray]:
    """The ids of each split, ascending: val has the first share of ``order``, test the next."""
    n_val, n_test = (round(fraction * len(order)) for fraction in fractions)
    parts = {"train": order[n_val + n_test:], "val": order[:n_val], "test": order[n_val:n_val + n_test]}
    return {split: np.sort(ids) for split, ids in parts.items()}


def stratified_order(order: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """``order``, changed so that each part of it has each class by its share; a last example of each is at the end.

    Args: order: ids of examples, drawn at random; labels: i[n], of all examples, by id.
    """
    classes, ids = np.unique(labels[order], return_inverse=True)
    counts = np.bincount(ids, minlength=len(classes))
    by_class = np.argsort(ids, kind="stable")
    rank = np.empty(len(order), int)
    rank[by_class] = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    share = np.where(rank == counts[ids] - 1, 1.0, (rank + 0.5) / counts[ids])
    return order[np.argsort(share, kind="stable")]


def sizes_of(split: Mapping[str, Sized]) -> str:
    """The fact `split` of a summary: ``train 70, val 15, test 15``.  Args: split: split -> ids of its examples."""
    return ", ".join(f"{name} {len(ids)}" for name, ids in split.items())


def class_counts(labels: Mapping[str, np.ndarray], classes: Sequence[str]) -> Table:
    """The number of examples of each class.  Args: labels: split -> ids of classes."""
    counts, totals = _counts(labels, classes)
    rows = [(name, *(int(each[i]) for each in counts.values()), Share(totals[i] / max(1, totals.sum())))
            for i, name in enumerate(classes)]
    return Table(("class", *counts, "share"), rows, instead_of=["classes"])


def class_facts(labels: Mapping[str, np.ndarray], classes: Sequence[str]) -> dict[str, str]:
    """Rows of a summary: the number of examples of each class, classes alike, splits without an example of a class.

    Args: labels: split -> ids of classes.
    """
    counts, total = _counts(labels, classes)
    common = np.argsort(-total, kind="stable")[:MOST_CLASSES]
    more = f" and {len(classes) - MOST_CLASSES} more" if len(classes) > MOST_CLASSES else ""
    facts = {"classes": ", ".join(f"{printable(classes[i])}: {total[i]:,}" for i in sorted(common)) + more}
    facts |= listed("alike", dict.fromkeys(alike(classes), "classes that differ in case, spaces or codings of letters"))
    return facts | _classes_without_rows(counts, classes)


def _counts(labels: Mapping[str, np.ndarray], classes: Sequence[str]) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The number of examples of each class: in each split, and in all."""
    counts = {split: np.bincount(ids, minlength=len(classes)) for split, ids in labels.items()}
    return counts, sum(counts.values(), np.zeros(len(classes), int))


def _classes_without_rows(counts_of: Mapping[str, np.ndarray], classes: Sequence[str]) -> dict[str, str]:
    lines = []
    for split, counts in counts_of.items():
        absent = [classes[i] for i in np.flatnonzero(counts == 0)] if counts.any() else []
        if absent:
            more = f" and {len(absent) - 10} more" if len(absent) > 10 else ""
            lines.append(f"{split} has no example of {', '.join(absent[:10])}{more}")
    return {"classes missing": "\n".join(lines)} if lines else {}


def repeated_fact(examples: Mapping[str, Iterable[Hashable]]) -> dict[str, str]:
    """A row of a summary: how many inputs of val and test are inputs of a training example too.

    Args: examples: split -> its inputs, without labels.
    """
    # Others have the same digest by chance in one of 2**64 pairs; the inputs themselves may not fit into memory twice.
    digests = {split: np.fromiter(map(hash, inputs), np.int64) for split, inputs in examples.items()}
    seen = np.sort(digests.pop("train"))
    counts = {split: _n_in(seen, own) for split, own in digests.items()}
    lines = [f"{split}: {count:,} of {len(digests[split]):,} have the inputs of an example of train"
             for split, count in counts.items() if count]
    return {"repeated": "\n".join(lines)} if lines else {}


def _n_in(ascending: np.ndarray, numbers: np.ndarray) -> int:
    """How many numbers are in a sorted array, which is not empty: faster than `np.isin`, which sorts both."""
    places = np.minimum(np.searchsorted(ascending, numbers), len(ascending) - 1)
    return int((ascending[places] == numbers).sum())


def inputs_of(x: np.ndarray) -> Iterator[bytes]:
    """The examples of an array [n, ...], as `repeated_fact` takes them."""
    return (row.tobytes() for row in x)


def split_by_position(n: int, fractions: tuple[float, float]) -> dict[str, slice]:
    """Split -> its part of ``n`` characters or rows: the first part is train, the last shares are val and test."""
    n_test = round(n * fractions[1])
    n_val = min(round(n * fractions[0]), n - n_test)
    return {"train": slice(0, n - n_val - n_test), "val": slice(n - n_val - n_test, n - n_test),
            "test": slice(n - n_test, n)}
