"""Passages of text with a class each: of modules of the standard library, or columns of a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from recipes.data.cells import is_text
from recipes.data.splits import split_by_order, split_by_position, stratified_order
from recipes.data.tables import READERS, Table, class_kind, gaps_in, read_table, refuse_gaps
from recipes.data.text import read_file, read_modules
from recipes.errors import DataError

# Large modules that differ in subject; see `recipes.data.text.STDLIB`.
MODULES = ("doctest", "ipaddress", "mailbox", "optparse", "pickletools", "subprocess", "tarfile", "turtle")


class Passages(NamedTuple):
    """Texts with a class each, and their splits.

    Attributes:
      texts: those of all splits.
      labels: i32[n], ids into ``classes``.
      rows: split -> its ids into ``texts``.
      layout: facts of a summary about the file.
      left_out: column of a table -> why it is not used.
    """

    texts: list[str]
    labels: np.ndarray
    classes: list[str]
    rows: dict[str, np.ndarray]
    layout: dict[str, str]
    left_out: dict[str, str]

    @property
    def labels_of_splits(self) -> dict[str, np.ndarray]:
        return {split: self.labels[ids] for split, ids in self.rows.items()}


def module_passages(characters: int, fractions: tuple[float, float]) -> Passages:
    """Passages of `MODULES`; the last shares of each module are val and test.  Raises: DataError.

    Args: characters: length of a passage; a shorter rest at the end of a part is dropped.
    """
    texts, labels, rows = [], [], {"train": [], "val": [], "test": []}
    for label, module in enumerate(read_modules(MODULES)):
        for split, part in split_by_position(len(module.text), fractions).items():
            inside = module.text[part]
            starts = range(0, len(inside) - characters + 1, characters)
            rows[split] += range(len(texts), len(texts) + len(starts))
            texts += [inside[start:start + characters] for start in starts]
            labels += [label] * len(starts)
    return Passages(texts, np.array(labels, np.int32), list(MODULES), _checked(rows), {}, {})


def table_passages(file: Path, text: str, label: str, fractions: tuple[float, float], seed: int,
                   stratify: bool = True) -> Passages:
    """The rows of a table, split at random.  Raises: DataError.

    Args: stratify: whether each split has each class by its share.
    """
    table = _checked_table(file, (text, label), "name columns of the file in task.text and task.label.")
    refuse_gaps(gaps_in(table, {text: "category", label: class_kind(table[label])}), file, "fill or drop these rows.")
    classes, labels = np.unique(table[label].texts().astype(str), return_inverse=True)
    if len(classes) < 2:
        raise DataError("passages", "there are fewer than two classes.", {"file": file, label: repr(str(classes[0]))},
                        fix="another task.label.")
    order = np.random.default_rng(seed).permutation(table.num_rows)
    if stratify:
        rows = split_by_order(stratified_order(order, labels), fractions)
    else:
        rows = {split: np.sort(order[part]) for split, part in split_by_position(table.num_rows, fractions).items()}
    left_out = {f"column {name}": f"not used, {table.num_rows:,} rows"
                for name in table if name not in (text, label)}
    return Passages(_whole_texts(table, text), labels.astype(np.int32), classes.tolist(),
                    _checked({split: ids.tolist() for split, ids in rows.items()}), table.layout.facts(), left_out)


def _checked_table(file: Path, names: Sequence[str], fix: str) -> Table:
    """Raises: DataError for a missing column."""
    table = read_table(file)
    if unknown := [name for name in names if name not in table]:
        raise DataError("passages", f"there is no column {', '.join(map(repr, unknown))}.",
                        {"file": file, "columns": ", ".join(table)},
                        fix=fix)
    return table


def _whole_texts(table: Table, name: str) -> list[str]:
    """The cells of a column with the spaces around them.  Raises: DataError for an empty one."""
    refuse_gaps(gaps_in(table, {name: "category"}), table.file, "fill or drop these rows.")
    values = table[name].values
    return values.to_pylist() if is_text(values.type) else table[name].texts().tolist()


def read_passages(file: Path, text: str) -> dict[int, str]:
    """The column ``text`` of a table, or the lines of a text file, without blank ones, by their numbers from 1.

    Raises: DataError.
    """
    if file.suffix.lower() in READERS:
        table = _checked_table(file, [text], f"a file whose texts are in a column {text!r}.")
        return dict(enumerate(_whole_texts(table, text), 1))
    if not file.is_file():
        raise DataError("passages", "the file is missing.", {"file": file},
                        fix=f"a text file with one passage in each line, or a table ({', '.join(READERS)}).")
    numbered = enumerate(read_file(file).text.replace("\r\n", "\n").split("\n"), 1)
    lines = {number: line for number, line in numbered if line.strip()}
    if not lines:
        raise DataError("passages", "the file has no lines.", {"file": file}, fix="one passage in each line.")
    return lines


def _checked(rows: dict[str, list[int]]) -> dict[str, np.ndarray]:
    if not rows["train"]:
        raise DataError("passages", "no text is left to train on.", {split: len(ids) for split, ids in rows.items()},
                        fix="smaller task.val_fraction and task.test_fraction, shorter passages, or more of them.")
    return {split: np.array(ids, int) for split, ids in rows.items()}
