"""A csv or parquet file as arrays, read by Hugging Face ``datasets``."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from recipes.config import TableConfig
from recipes.errors import DataError

# Read at the import of datasets: without it every load of a local file calls the network.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import datasets

READERS = {
    ".csv": datasets.Dataset.from_csv,
    ".tsv": lambda *args, **kwargs: datasets.Dataset.from_csv(*args, sep="\t", **kwargs),
    ".parquet": datasets.Dataset.from_parquet,
}


class TableData(NamedTuple):
    """Rows of numbers and what to predict.

    Attributes:
        x: f32[n, f]; features: the f column names; ignored: columns that are no numbers.
        y: i32[n], ids into ``classes``, or f32[n] for a regression, where ``classes`` is empty.
    """

    x: np.ndarray
    y: np.ndarray
    features: list[str]
    ignored: list[str]
    classes: list[str]


def load_table(config: TableConfig) -> TableData:
    """Reads ``config.file``.

    Raises: DataError if the file is missing or unreadable, a column is unknown, holds no numbers
        or has gaps, or the target does not fit ``config.kind``.
    """
    table = _read(config.file)
    columns = table.column_names
    wanted = config.features if config.features is not None else ()
    unknown = [name for name in (config.target, *wanted) if name not in columns]
    if unknown:
        raise DataError(
            "table",
            f"there is no column {', '.join(map(repr, unknown))}.",
            {"file": config.file, "columns": ", ".join(columns)},
            fix="name columns of the file in task.target and task.features.",
        )
    others = [name for name in columns if name != config.target]
    numbers = [name for name in others if _is_number(table.schema.field(name).type)]
    features = list(config.features) if config.features is not None else numbers
    words = [name for name in features if name not in numbers]
    if words or not features:
        raise DataError(
            "table",
            "the features must be columns of numbers other than the target.",
            {"file": config.file, "no feature": ", ".join(words) or "-", "numbers": numbers},
            fix="leave them out of task.features, or turn them into numbers in the file.",
        )
    _check_complete(table.select([*features, config.target]), config.file)
    x = np.stack([_to_float(table, name) for name in features], axis=1)
    y, classes = _target(table, config)
    ignored = [name for name in others if name not in features]
    return TableData(x.astype(np.float32), y, features, ignored, classes)


def _read(file: Path) -> pa.Table:
    reader = READERS.get(file.suffix.lower())
    if reader is None or not file.is_file():
        raise DataError(
            "table",
            "the data file is missing." if reader else "the file's kind is not known.",
            {"file": file, "kinds": ", ".join(READERS)},
            fix="task.file=PATH of an existing csv, tsv or parquet file.",
        )
    datasets.disable_progress_bars()
    datasets.logging.set_verbosity_error()
    try:
        with tempfile.TemporaryDirectory() as scratch:  # never the user's cache: it may be stale
            read = reader(str(file), cache_dir=scratch, keep_in_memory=True)
            return read.data.table.combine_chunks()
    except Exception as err:  # datasets wraps the readers' many errors in its own
        why = " ".join(str(err.__cause__ or err).split())
        raise DataError(
            "table",
            "the data file cannot be read.",
            {"file": file, "why": f"{type(err.__cause__ or err).__name__}: {why}"},
            fix="one header line and one kind of value in each column (csv), or a whole file.",
        ) from err


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)


def _to_float(table: pa.Table, name: str) -> np.ndarray:
    return table.column(name).to_numpy().astype(np.float64)


def _check_complete(table: pa.Table, file: Path) -> None:
    gaps = {}
    for name in table.column_names:
        column = table.column(name)
        count = column.null_count
        if pa.types.is_floating(column.type):
            count += int((~np.isfinite(column.drop_null().to_numpy())).sum())
        if count:
            gaps[name] = f"{count} of {len(column)}"
    if gaps or not table.num_rows:
        raise DataError(
            "table",
            "values are missing." if gaps else "the file has no rows.",
            {"file": file, **gaps},
            fix="fill or drop these rows, or leave the column out of task.features.",
        )


def _target(table: pa.Table, config: TableConfig) -> tuple[np.ndarray, list[str]]:
    kind = table.schema.field(config.target).type
    if config.kind == "regression" and _is_number(kind):
        return _to_float(table, config.target).astype(np.float32), []
    if config.kind == "classification" and not pa.types.is_floating(kind):
        values = np.array([str(v) for v in table.column(config.target).to_pylist()])
        classes, ids = np.unique(values, return_inverse=True)
        if len(classes) >= 2:
            return ids.astype(np.int32), classes.tolist()
        why, fix = f"it has the one value {str(classes[0])!r}", "another task.target."
    else:
        why = f"it holds {kind}"
        fix = "task.kind=regression for a float target, classification for words and whole numbers."
    raise DataError(
        "table",
        f"the target does not suit a {config.kind}.",
        {"file": config.file, config.target: why},
        fix=fix,
    )
