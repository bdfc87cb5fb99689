"""Passages of text with a class each: of modules of the standard library, or columns of a table."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from recipes.data.splits import split_by_position
from recipes.data.tables import READERS, read_table
from recipes.data.text import read_modules
from recipes.errors import DataError

# Large modules that differ in subject; see `recipes.data.text.STDLIB`.
MODULES = ("doctest", "ipaddress", "mailbox", "optparse", "pickletools", "subprocess", "tarfile", "turtle")


class Passages(NamedTuple):
    """Texts with a class each, and their splits.

    Attributes:
      texts: those of all splits.
      labels: i32[n], ids into ``classes``.
      rows: split -> its ids into ``texts``.
    """

    texts: list[str]
    labels: np.ndarray
    classes: list[str]
    rows: dict[str, np.ndarray]


def module_passages(characters: int, fractions: tuple[float, float]) -> Passages:
    """Passages of `MODULES`; the last shares of each module are val and test.  Raises: DataError.

    Args: characters: length of a passage; a shorter rest at the end of a part is dropped.
    """
    texts, labels, rows = [], [], {"train": [], "val": [], "test": []}
    for label, (_, text) in enumerate(read_modules(MODULES)):
        for split, part in split_by_position(len(text), fractions).items():
            inside = text[part]
            starts = range(0, len(inside) - characters + 1, characters)
            rows[split] += range(len(texts), len(texts) + len(starts))
            texts += [inside[start:start + characters] for start in starts]
            labels += [label] * len(starts)
    return Passages(texts, np.array(labels, np.int32), list(MODULES), _checked(rows))


def table_passages(file: Path, text: str, label: str, fractions: tuple[float, float], seed: int) -> Passages:
    """The rows of a table, split at random.  Raises: DataError."""
    texts, values = text_columns(file, text, label)
    classes, labels = np.unique(np.array(values), return_inverse=True)
    if len(classes) < 2:
        raise DataError("passages", "there are fewer than two classes.", {"file": file, label: repr(classes[0])},
                        fix="another task.label.")
    order = np.random.default_rng(seed).permutation(len(texts))
    parts = split_by_position(len(texts), fractions)
    rows = {split: np.sort(order[part]).tolist() for split, part in parts.items()}
    return Passages(texts, labels.astype(np.int32), classes.tolist(), _checked(rows))


def text_columns(file: Path, *names: str) -> list[list[str]]:
    """Columns of a table as texts.  Raises: DataError for a column that is missing, or has gaps."""
    table = read_table(file)
    columns = table.column_names
    if unknown := [name for name in names if name not in columns]:
        raise DataError("passages", f"there is no column {', '.join(map(repr, unknown))}.",
                        {"file": file, "columns": ", ".join(columns)},
                        fix="name columns of the file in task.text and task.label.")
    if not table.num_rows:
        raise DataError("passages", "the file has no rows.", {"file": file}, fix="a file with texts.")
    if gaps := {name: f"{table.column(name).null_count} of {table.num_rows}" for name in names
                if table.column(name).null_count}:
        raise DataError("passages", "values are missing.", {"file": file, **gaps}, fix="fill or drop these rows.")
    return [[str(value) for value in table.column(name).to_pylist()] for name in names]


def read_passages(file: Path, text: str) -> list[str]:
    """The column ``text`` of a table, or the lines of a text file.  Raises: DataError."""
    if file.suffix.lower() in READERS:
        return text_columns(file, text)[0]
    if not file.is_file():
        raise DataError("passages", "the file is missing.", {"file": file},
                        fix=f"a text file with one passage in each line, or a table ({', '.join(READERS)}).")
    try:
        lines = [line for line in file.read_text("utf-8").split("\n") if line.strip()]
    except UnicodeDecodeError as err:
        raise DataError("passages", "the file is not UTF-8 text.", {"file": file, "first wrong byte": err.start},
                        fix="convert it to UTF-8.") from None
    if not lines:
        raise DataError("passages", "the file has no lines.", {"file": file}, fix="one passage in each line.")
    return lines


def _checked(rows: dict[str, list[int]]) -> dict[str, np.ndarray]:
    if not rows["train"]:
        raise DataError("passages", "no text is left to train on.", {split: len(ids) for split, ids in rows.items()},
                        fix="smaller task.val_fraction and task.test_fraction, shorter passages, or more of them.")
    return {split: np.array(ids, int) for split, ids in rows.items()}
