"""Columns of a table as numbers for a model: numbers, categories and dates, encoded by statistics of the training rows.

`choose_features` decides which columns are used, and their kinds. `describe_columns` reads the training rows and
returns one dict for each column, which is saved with the model; `encoded` converts any table with these columns to a
matrix.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from recipes.data.cells import Column, Kind, StatedKind
from recipes.data.forms import read_form, saved_form
from recipes.data.tables import Table, check_no_stray_words, is_index
from recipes.errors import DataError
from recipes.names import composed

MOST_CATEGORIES = 50
_SQUARED = 1e150                                              # the square of a larger number may be infinite
DAYS = {"year": 365.2425, "week": 7.0}
# Texts that pandas reads as empty cells, and with it the first versions of this package.
EMPTY_IN_PANDAS = ("NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "-NaN", "-nan", "NULL", "null", "None")

Described = dict[str, Any]              # name, kind, form of the cells, and mean and deviation, or values


class Features(NamedTuple):
    """Columns to predict from.

    Attributes:
      kinds: name -> kind.
      left_out: name of another column -> why it is not used.
    """

    kinds: dict[str, Kind]
    left_out: dict[str, str]


# ---- which columns -------------------------------------------------------------------------------------------------


def choose_features(table: Table, stated: Mapping[str, StatedKind], wanted: Sequence[str] | None,
                    without: Iterable[str], train: np.ndarray) -> Features:
    """`usable_columns`, of which there must be some.

    Raises: DataError as `usable_columns` does, or if a wanted column, or every column, cannot be used.
    """
    features = usable_columns(table, stated, wanted, without, train)
    refused = [name for name in wanted or () if name not in features.kinds]
    if refused or not features.kinds:
        raise DataError("table", "the features must be columns of numbers, dates or categories other than the target.",
                        {"file": table.file, **{name: features.left_out.get(name, "the target, or the column of ids")
                                                for name in refused or features.left_out}},
                        fix="other columns in task.features, or their kinds in task.columns.")
    return features


def usable_columns(table: Table, stated: Mapping[str, StatedKind], wanted: Sequence[str] | None,
                   without: Iterable[str], train: np.ndarray) -> Features:
    """The columns that a model can use, and their kinds.

    Args:
      stated: kinds that the config states; they are used whatever their cells.
      wanted: the columns to use; None: all but ``without`` that a model can use.
      train: row numbers of the training rows.
    Raises: DataError for a column of numbers or dates with a few words.
    """
    features, apart = Features({}, {}), set(without)
    check_no_stray_words(table, [name for name in (table if wanted is None else wanted)
                                 if name not in apart and name not in stated])
    for name in (each for each in table if each not in apart):
        kind = _stated(stated, name) or table[name].kind
        why = _why_not(table[name], kind, stated.get(name), wanted, train)
        if why is None:
            features.kinds[name] = kind
        else:
            features.left_out[name] = why
    return features


def _stated(stated: Mapping[str, StatedKind], name: str) -> Kind | None:
    kind = stated.get(name)
    return None if kind == "ignore" else kind


def _why_not(column: Column, kind: Kind, stated: str | None, wanted: Sequence[str] | None,
             train: np.ndarray) -> str | None:
    """Why a column is not used; None if it is."""
    if stated == "ignore":
        return "by task.columns"
    if wanted is not None and column.name not in wanted:
        return "not in task.features"
    if column.is_other and stated is None:
        return f"values of the type {column.values.type}"
    missing = column.missing(kind)
    if missing.all():
        return "no values"
    if stated is not None:
        return None
    if wanted is None and is_index(column.name):
        return "the index of pandas, or a column without a name"
    if kind == "category":
        if column.has_undecided_dates:
            return "dates such as 03/04/2024: the kind 'date 31/12/2024' or 'date 12/31/2024' in task.columns decides"
        different = len(column.different()[0])
        if different == 1 and not missing.any():
            return f"the same text in all {len(column)} rows"
        if different == 1 or different > MOST_CATEGORIES:
            return f"texts with {different} different values, in {(~missing).sum()} rows"
    elif wanted is None and not missing.any():
        numbers = _numbers(column, kind)[train]
        if _is_constant(numbers, column):
            return f"the same {kind} in all {len(train)} rows of the training split"
    return None


# ---- numbers -------------------------------------------------------------------------------------------------------


def describe_columns(table: Table, kinds: Mapping[str, Kind], train: np.ndarray) -> list[Described]:
    """How to encode columns.  Args: train: row numbers from which means, deviations and categories are computed."""
    return [describe_column(table[name], kind, train) for name, kind in kinds.items()]


def describe_column(column: Column, kind: Kind, train: np.ndarray) -> Described:
    """See `describe_columns`."""
    gaps = bool(column.missing(kind).any())
    if kind == "category":
        texts, ids = column.different()
        values = sorted(texts[i] for i in np.unique(ids[train]) if i >= 0)
        return {"name": column.name, "kind": kind, "values": values, "gaps": gaps}
    seen = _numbers(column, kind)[train]
    seen = seen[np.isfinite(seen)]
    constant = _is_constant(seen, column)
    mean, deviation = mean_and_deviation(seen)
    described = {"name": column.name, "kind": kind, **saved_form(column.form),
                 "mean": mean, "deviation": 1.0 if constant else deviation, "gaps": gaps}
    return described | {"constant": True} if constant else described


def mean_and_deviation(numbers: np.ndarray) -> tuple[float, float]:
    """Those of finite f64[n], 0 for none; also of numbers whose squares are out of range, as markers of gaps are."""
    largest = float(np.abs(numbers).max(initial=0.0))
    unit = largest if largest > _SQUARED else 1.0
    scaled = numbers / unit
    return (unit * float(scaled.mean()), unit * float(scaled.std())) if len(numbers) else (0.0, 0.0)


def _is_constant(numbers: np.ndarray, column: Column) -> bool:
    """Whether numbers differ by no more than their rounding, so that their deviation has no meaning."""
    with np.errstate(over="ignore"):                          # a range that is infinite is not constant
        return not len(numbers) or bool(np.ptp(numbers) <= 4 * column.rounding * np.abs(numbers).max())


def encoded(table: Table, columns: Sequence[Described]) -> np.ndarray:
    """f32[rows, features].  Raises: DataError for a gap in a column that had none in training."""
    x, start = np.empty((table.num_rows, n_features(columns)), np.float32), 0
    for each in columns:                                      # one at a time: a column is float64 until it is encoded
        x[:, start:start + _width(each)] = _encode(table[each["name"]].in_form(read_form(each)), each)
        start += _width(each)
    return x


def unseen(table: Table, columns: Sequence[Described]) -> dict[str, str]:
    """Column -> "2 of 10, first 'blue' in row 3", for categories that the training rows did not have."""
    unknown = {}
    for each in columns:
        if each["kind"] == "category":
            column = table[each["name"]]
            rows = np.flatnonzero((_places(column, each) < 0) & ~_without_category(column, each))
            if len(rows):
                unknown[column.name] = f"{len(rows)} of {len(column)}, first {column.cell(rows[0])}"
    return unknown


def forms_in_words(table: Table, columns: Sequence[Described]) -> dict[str, str]:
    """Column -> "numbers such as 1.234,5, here 573.245,67", where numbers or dates are not written plainly."""
    words = {}
    for each in columns:
        if form := read_form(each):
            first = table[each["name"]].first_in(form)
            words[each["name"]] = f"{each['kind']}s such as {form.example}" + (f", here {first}" if first else "")
    return words


def zones_in_words(table: Table, kinds: Mapping[str, Kind]) -> dict[str, str]:
    """Column -> "40 of 120 times without a zone, read as UTC", for columns where other times have one."""
    counts = {name: table[name].times_without_zone for name, kind in kinds.items() if kind == "date"}
    return {name: f"{count:,} of {table.num_rows:,} times without a zone, read as UTC; others have one"
            for name, count in counts.items() if count}


def n_features(columns: Sequence[Described]) -> int:
    """The width of `encoded`."""
    return sum(_width(each) for each in columns)


def _width(described: Described) -> int:
    width = {"category": len(described.get("values", ())), "number": 1, "date": 1 + 2 * len(DAYS)}[described["kind"]]
    return width + described["gaps"]


def _encode(column: Column, described: Described) -> np.ndarray:
    """One column as [rows, width]. A last column marks gaps, which are encoded as the mean, or as no category.

    A column that was constant in training is 0: no weight of the model has learned from it.
    """
    kind = described["kind"]
    if kind == "category":
        missing = _without_category(column, described)
        parts = [_places(column, described)[:, None] == np.arange(len(described["values"]))]
    else:
        numbers = _numbers(column, kind)
        missing = ~np.isfinite(numbers)
        numbers = np.where(missing, described["mean"], numbers)
        parts = [((numbers - described["mean"]) / described["deviation"])[:, None]]
        if kind == "date":
            turns = [2 * np.pi * numbers / days for days in DAYS.values()]
            parts += [f(turn)[:, None] for turn in turns for f in (np.sin, np.cos)]
        if described.get("constant"):
            parts = [np.zeros_like(part) for part in parts]
    if missing.any() and not described["gaps"]:
        first = np.flatnonzero(missing)[0]
        raise DataError("table", f"the column {column.name!r} has gaps, and had none in training.",
                        {"file": column.file, "first": column.cell(first),
                         "rows": f"{missing.sum()} of {len(missing)}"},
                        fix="fill or drop these rows.")
    return np.concatenate([*parts, missing[:, None]] if described["gaps"] else parts, axis=1).astype(np.float64)


def _without_category(column: Column, described: Described) -> np.ndarray:
    """bool[rows]: the gaps of a column of categories.

    If training had gaps and no category NA, a cell NA is a gap: earlier versions read it as an empty cell.
    """
    texts, ids = column.different()
    words = [described["gaps"] and text in EMPTY_IN_PANDAS and text not in described["values"] for text in texts]
    return column.missing("category") | np.array([*words, False], bool)[ids]


def _places(column: Column, described: Described) -> np.ndarray:
    """[rows], the number of the category of each cell; -1 for a gap, and for a text that training did not have.

    Other spellings of a number, such as 1.0 for 1, and the other coding of é are the same category, unless training
    had both.
    """
    places = {value.strip(): i for i, value in enumerate(described["values"])}      # earlier versions kept spaces
    numbers = {value: i for text, i in reversed(places.items()) if (value := _number(text)) is not None}
    texts, ids = column.different()
    by_composed = {composed(text): i for text, i in reversed(places.items())}
    by_text = [places.get(text, numbers.get(_number(text), by_composed.get(composed(text), -1))) for text in texts]
    return np.array([*by_text, -1], int)[ids]


def _number(text: str) -> float | None:
    if text[:1] == "0" and text.isdecimal() and len(text) > 1:            # a code: 01 is not 1
        return None
    try:
        return float(text)
    except ValueError:
        return None


def _numbers(column: Column, kind: Kind) -> np.ndarray:
    """f64[rows], NaN for gaps; dates in days since 1970."""
    return column.days() if kind == "date" else column.numbers()
