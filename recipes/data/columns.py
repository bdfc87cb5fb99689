"""Columns of a table as numbers for a model: numbers, categories and dates, encoded by statistics of the training rows.

`describe_columns` reads the training rows and returns one dict for each column, which is saved with the model;
`encoded` converts any table with these columns to a matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from recipes.errors import DataError
from recipes.lazy import pa

MOST_CATEGORIES = 50
DAYS = {"year": 365.2425, "week": 7.0}

Described = dict[str, Any]              # name, kind, and mean and deviation, or values


def kind_of(column: pa.ChunkedArray) -> Literal["number", "category", "date", "words"]:
    """The kind of a column. Texts with many different values are "words", which no model here can use."""
    types, kind = pa.types, column.type
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind):
        return "number"
    if types.is_temporal(kind) and not types.is_duration(kind) and not types.is_time(kind):
        return "date"
    values = column.drop_null().unique() if is_text(kind) else []
    return "category" if 1 < len(values) <= MOST_CATEGORIES else "words"


def is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def describe_columns(table: pa.Table, names: Sequence[str], train: np.ndarray) -> list[Described]:
    """How to encode columns.  Args: train: row numbers from which means, deviations and categories are computed."""
    return [_describe(name, table.column(name), train) for name in names]


def _describe(name: str, column: pa.ChunkedArray, train: np.ndarray) -> Described:
    kind, gaps = kind_of(column), column.null_count > 0
    if kind == "category":
        values = sorted({str(value) for value in column.take(train).to_pylist() if value is not None})
        return {"name": name, "kind": kind, "values": values, "gaps": gaps}
    numbers = _numbers(column)
    seen = numbers[train][np.isfinite(numbers[train])]
    deviation = float(seen.std()) if len(seen) else 0.0
    return {"name": name, "kind": kind, "mean": float(seen.mean()) if len(seen) else 0.0,
            "deviation": deviation or 1.0, "gaps": bool(gaps or not np.isfinite(numbers).all())}


def encoded(table: pa.Table, columns: Sequence[Described]) -> np.ndarray:
    """f32[rows, features].  Raises: DataError for a gap in a column that had none in training."""
    return np.concatenate([_encode(table.column(each["name"]), each) for each in columns], axis=1).astype(np.float32)


def n_features(columns: Sequence[Described]) -> int:
    """The width of `encoded`."""
    return sum(_width(each) for each in columns)


def _width(described: Described) -> int:
    width = {"category": len(described.get("values", ())), "number": 1, "date": 1 + 2 * len(DAYS)}[described["kind"]]
    return width + described["gaps"]


def _encode(column: pa.ChunkedArray, described: Described) -> np.ndarray:
    """One column as [rows, width]. A last column marks gaps, which are encoded as the mean, or as no category."""
    if described["kind"] == "category":
        places = {value: i for i, value in enumerate(described["values"])}
        ids = np.array([places.get(str(value), -1) if value is not None else -1 for value in column.to_pylist()])
        missing = np.array([value is None for value in column.to_pylist()], bool)
        parts = [ids[:, None] == np.arange(len(places))]
    else:
        numbers = _numbers(column)
        missing = ~np.isfinite(numbers)
        numbers = np.where(missing, described["mean"], numbers)
        parts = [((numbers - described["mean"]) / described["deviation"])[:, None]]
        if described["kind"] == "date":
            turns = [2 * np.pi * numbers / days for days in DAYS.values()]
            parts += [f(turn)[:, None] for turn in turns for f in (np.sin, np.cos)]
    if missing.any() and not described["gaps"]:
        raise DataError("table", f"the column {described['name']!r} has gaps, and had none in training.",
                        {"rows": f"{missing.sum()} of {len(missing)}"}, fix="fill or drop these rows.")
    return np.concatenate([*parts, missing[:, None]] if described["gaps"] else parts, axis=1).astype(np.float64)


def _numbers(column: pa.ChunkedArray) -> np.ndarray:
    """f64[rows], NaN for gaps; dates in days since 1970."""
    if kind_of(column) == "date":
        days = column.cast(pa.timestamp("us")).to_numpy().astype("datetime64[us]")
        return np.where(np.isnat(days), np.nan, days.astype(np.int64) / 86_400e6)
    return column.cast(pa.float64()).to_numpy()
