"""Csv, tsv, parquet and json files as tables, read by Hugging Face ``datasets``."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from recipes.data.columns import is_text
from recipes.errors import DataError
from recipes.lazy import datasets, pa, parquet

READERS = {
    ".csv": lambda *args, **options: datasets.Dataset.from_csv(*args, **options),
    ".tsv": lambda *args, **options: datasets.Dataset.from_csv(*args, sep="\t", **options),
    ".parquet": lambda *args, **options: datasets.Dataset.from_parquet(*args, **options),
    ".json": lambda *args, **options: datasets.Dataset.from_json(*args, **options),
    ".jsonl": lambda *args, **options: datasets.Dataset.from_json(*args, **options),
}


def read_table(file: Path) -> pa.Table:
    """The whole file.  Raises: DataError if it is missing, damaged or empty, or has two columns of one name."""
    reader = READERS.get(file.suffix.lower())
    if reader is None or not file.is_file():
        raise DataError("table", "the data file is missing." if reader else "the file's format is not known.",
                        {"file": file, "kinds": ", ".join(READERS)},
                        fix="task.file=PATH of an existing csv, tsv, parquet or json file.")
    datasets.disable_progress_bars()
    datasets.logging.set_verbosity_error()
    try:
        if file.suffix.lower() == ".parquet":                 # datasets does not verify the checksums of pages
            parquet.ParquetFile(file, page_checksum_verification=True).read()
        with tempfile.TemporaryDirectory() as scratch:        # not the user's cache, which may be outdated
            table = reader(str(file), cache_dir=scratch, keep_in_memory=True).data.table.combine_chunks()
    except Exception as err:                                  # datasets wraps errors of its readers
        why = " ".join(str(err.__cause__ or err).split())
        raise DataError("table", "the data file cannot be read.",
                        {"file": file, "why": f"{type(err.__cause__ or err).__name__}: {why}"},
                        fix="one header line and one kind of value in each column (csv), or a whole file.") from err
    if not table.num_rows:
        raise DataError("table", "the file has no rows.", {"file": file}, fix="another file.")
    double = _named_twice(file) or [name for name in table.column_names if table.column_names.count(name) > 1]
    if double:
        raise DataError("table", f"the column {double[0]!r} occurs twice.", {"file": file},
                        fix="give each column its own name.")
    return table


def _named_twice(file: Path) -> list[str]:
    """Names that occur twice in the first line of a csv file, whose reader would rename the second to "x.1"."""
    if file.suffix.lower() not in (".csv", ".tsv"):
        return []
    with file.open(encoding="utf-8", errors="replace") as lines:
        names = next(lines, "").rstrip("\r\n").split("\t" if file.suffix.lower() == ".tsv" else ",")
    return [name for name in names if names.count(name) > 1]


def check_columns(table: pa.Table, names: Sequence[str], file: Path, keys: str) -> None:
    """Raises: DataError for a name that is not a column.  Args: keys: the keys of the config with these names."""
    unknown = [name for name in names if name not in table.column_names]
    if unknown:
        raise DataError("table", f"there is no column {', '.join(map(repr, unknown))}.",
                        {"file": file, "columns": ", ".join(table.column_names)},
                        fix=f"name columns of the file in {keys}.")


def check_no_stray_words(table: pa.Table, names: Sequence[str], file: Path) -> None:
    """Raises: DataError for a column of numbers with a few words, which make it a column of words."""
    for name in names:
        if not is_text(table.schema.field(name).type):
            continue
        values = table.column(name).to_pylist()
        words = [(row, value) for row, value in enumerate(values) if value is not None and not _is_number(value)]
        if words and len(words) < len(values) / 2:
            row, value = words[0]
            what = f"the column {name!r} has numbers, and words in {len(words)} of {len(values)} rows."
            raise DataError("table", what, {"file": file, "first": f"{value[:40]!r} in row {row + 1} after the header"},
                            fix="correct these values, or name the columns to use in task.features.")


def gaps_in(table: pa.Table, names: Sequence[str]) -> dict[str, str]:
    """Column -> "3 of 100", for columns with missing values, NaN or infinities."""
    gaps = {}
    for name in names:
        column = table.column(name)
        count = column.null_count
        if pa.types.is_floating(column.type):
            count += int((~np.isfinite(column.drop_null().to_numpy())).sum())
        if count:
            gaps[name] = f"{count} of {len(column)}"
    return gaps


def refuse_gaps(gaps: Mapping[str, str], file: Path, fix: str) -> None:
    """Raises: DataError if there are gaps."""
    if gaps:
        raise DataError("table", "values are missing.", {"file": file, **gaps}, fix=fix)


def class_target(table: pa.Table, name: str, file: Path) -> tuple[np.ndarray, list[str]]:
    """(i32[rows], class names in order).  Raises: DataError if the column does not contain classes."""
    column = table.column(name)
    if pa.types.is_floating(column.type):
        raise _no_target("classification", file, name, f"it holds {column.type}")
    classes, ids = np.unique(np.array([str(value) for value in column.to_pylist()]), return_inverse=True)
    if len(classes) < 2:
        raise _no_target("classification", file, name, f"it has only one value, {str(classes[0])!r}")
    return ids.astype(np.int32), classes.tolist()


def number_target(table: pa.Table, name: str, file: Path) -> np.ndarray:
    """f32[rows].  Raises: DataError if the column does not contain numbers."""
    kind = table.schema.field(name).type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise _no_target("regression", file, name, f"it holds {kind}")
    return table.column(name).cast(pa.float64()).to_numpy().astype(np.float32)


def _no_target(kind: str, file: Path, name: str, why: str) -> DataError:
    return DataError("table", f"the target does not suit a {kind}.", {"file": file, name: why},
                     fix="another task.target; or task.kind=regression for decimal numbers, classification for "
                         "words and integers.")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
