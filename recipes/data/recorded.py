"""The data of a run that is opened again: its columns and classes are the recorded ones, whatever the rules are now.

Earlier versions read a column of codes such as 007 as numbers, dates of a csv file as texts, and a constant column as
any other. A run that was trained so continues so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from recipes.data.columns import EMPTY_IN_PANDAS, Described, Features, describe_column
from recipes.data.forms import read_form
from recipes.data.tables import Table

_CLOSE = 1e-6                                                 # statistics were computed in another order of sums


def recorded_features(table: Table, recorded: Mapping[str, Any], apart: Sequence[str]) -> Features | None:
    """The columns of a run, with its kinds; None if the table lacks one of them: it has changed.

    Args: apart: names of columns that are neither features nor left out.
    """
    kinds = {column["name"]: column["kind"] for column in recorded["columns"]}
    if any(name not in table for name in kinds):
        return None
    left_out = [name for name in table if name not in kinds and name not in apart]
    return Features(kinds, dict.fromkeys(left_out, "the run does not use it"))


def columns_as_recorded(table: Table, recorded: Sequence[Described], train: np.ndarray) -> list[Described]:
    """The recorded descriptions of columns where the data agree with them; elsewhere those of the data.

    Args: train: row numbers of the training rows.
    """
    now = [describe_column(table[was["name"]].in_form(read_form(was)), was["kind"], train) for was in recorded]
    return [was if _agrees(column, was) else column for column, was in zip(now, recorded, strict=True)]


def _agrees(now: Described, was: Described) -> bool:
    if was["kind"] == "category":
        gaps = {*(EMPTY_IN_PANDAS if was["gaps"] else ())} - {*was["values"]}
        return {each.strip() for each in was["values"]} == {*now["values"]} - gaps
    same_mean = math.isclose(now["mean"], was["mean"], rel_tol=_CLOSE, abs_tol=_CLOSE * now["deviation"])
    rounding = "constant" in now and "constant" not in was    # its recorded deviation is 1, or rounding noise
    same_deviation = rounding or math.isclose(now["deviation"], was["deviation"], rel_tol=_CLOSE)
    return same_mean and same_deviation and now["gaps"] == was["gaps"]


def classes_as_recorded(classes: list[str], labels: np.ndarray,
                        recorded: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """(Classes in the spelling and order of the run, their ids for ``labels``); unchanged if they are other classes."""
    places = {name: i for i, name in enumerate(recorded)}
    values = {_value(name): i for name, i in places.items()}
    ids = [places.get(name, values.get(_value(name), -1)) for name in classes]
    if {*ids} != {*places.values()}:
        return classes, labels
    return list(recorded), np.array(ids, labels.dtype)[labels]


def _value(name: str) -> float | str:
    """The class as pandas read its text: a number, a truth value, or the text."""
    try:
        return float(name)
    except ValueError:
        return name.lower() if name.lower() in ("true", "false") else name
