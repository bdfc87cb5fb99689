"""One column of a table: its cells as the file spells them, and its kind, which is decided once by these rules.

Files of text (csv, tsv, json) are read as texts, without spaces around them; parquet files keep their types. A column
whose type is a number, boolean or date has this kind. In any other column the cells decide; empty ones do not count:

  codes     some cell is a whole number with leading zeros, such as 007: the column is text
  number    all cells are numbers (-3, 1.5, 2e-3, inf), or all are true or false, or numbers of one form of
            `recipes.data.forms`; words of `MISSING` are missing values
  date      all cells are ISO dates: 2024-05-17 or 2024/05/17, and optionally a time and a zone, 2024-05-17T12:30:00Z,
            or dates of one form of `recipes.data.forms`; words of `MISSING` are missing values
  category  all other texts, as spelled. A word such as NA or None is a text here, not a missing value.

A config may state the kind of a column. Then every cell must be of this kind; "number" takes codes as numbers, and
"category" takes everything as texts.
"""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from recipes.data.forms import (
    Form,
    StatedForm,
    form_of,
    has_thousands_by_points,
    has_undecided_dates,
    stated_form,
)
from recipes.errors import DataError
from recipes.lazy import arrow, pa

Kind = Literal["number", "category", "date"]
StatedKind = Literal["number", "category", "date", "ignore"]

MISSING = ("na", "n/a", "#n/a", "<na>", "nan", "-nan", "nat", "null", "none", "?", "-", "--", ".")
"""Words, in lower case, for a missing value in a column of numbers or dates."""

_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_INFINITE = r"^[+-]?[iI][nN][fF]([iI][nN][iI][tT][yY])?$"
_TRUTH = {"true": 1.0, "false": 0.0}
_CODE = r"^0\d+$"
_TIME = r"[T ]\d\d:\d\d(:\d\d([.,]\d{1,9})?)?"
_ZONE = r" ?(Z|[+-]\d\d(:?\d\d)?)"
_DATE = rf"^\d{{4}}(-\d\d-|/\d\d/)\d\d({_TIME}({_ZONE})?)?$"


class _Different(NamedTuple):
    """The different cells of a column.

    Attributes:
      texts: arrow strings, without null.
      ids: i64[rows], numbers into `texts`; -1 for an empty cell.
    """

    texts: pa.Array
    ids: np.ndarray

    def spread(self, values: np.ndarray, empty: object) -> np.ndarray:
        """[rows], from a value for each text; ``empty`` for empty cells."""
        return np.append(values, np.array([empty], values.dtype))[self.ids]


class Column:
    """The cells of one column.

    Args:
      values: arrow; `file` and `name` are for messages.
      comma_is_point: the meaning of the comma in numbers such as 1,234, if the other cells do not decide it.
    """

    def __init__(self, file: Path, name: str, values: pa.ChunkedArray, comma_is_point: bool = False) -> None:
        self.file, self.name, self._comma_is_point = file, name, comma_is_point
        kind = values.type
        self.values = values.cast(kind.value_type) if pa.types.is_dictionary(kind) else values

    def __len__(self) -> int:
        return len(self.values)

    # ---- kinds ---------------------------------------------------------------------------------------------------

    @cached_property
    def stored(self) -> Kind | None:
        """The kind that the type of a parquet file says; None for texts and other types, whose cells decide."""
        types, kind = pa.types, self.values.type
        if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind):
            return "number"
        return "date" if types.is_date(kind) or types.is_timestamp(kind) else None

    @property
    def is_other(self) -> bool:
        """Whether a parquet file has values of a type that is neither text, number nor date, such as lists."""
        return self.stored is None and not is_text(self.values.type) and not pa.types.is_null(self.values.type)

    @cached_property
    def kind(self) -> Kind:
        """By the rules of this module."""
        if self.stored is not None:
            return self.stored
        if self.is_other or self.has_codes:
            return "category"
        if self.form is None and self._cast is not None and np.isfinite(self._cast).any():
            return "number"
        counted = ~self._words
        for kind, right in self._readings():
            if counted.any() and right[counted].all():
                return kind
        return "category"

    @cached_property
    def form(self) -> Form | None:
        """How the cells write numbers or dates; None for plainly, and for cells that are neither."""
        if self.stored is not None or self.is_other or self._cast is not None or self.has_codes:
            return None
        texts = self._different.texts.filter(pa.array(~self._words)).to_pylist()
        return form_of(texts, self._comma_is_point) if texts else None

    def first_in(self, form: Form) -> str:
        """The first different cell that has the form, and is not plain; "" if there is none."""
        texts = (each.as_py() for each in self._different.texts)
        return next((text for text in texts if form.plain(text) not in (None, text)), "")

    def in_stated_form(self, stated: StatedForm) -> Column:
        """The same cells, in a form that a config states."""
        return self.in_form(stated_form(self._different.texts.to_pylist(), stated))

    def in_form(self, form: Form | None) -> Column:
        """The same cells, whose numbers or dates have this form."""
        if form == self.form:
            return self
        column = Column(self.file, self.name, self.values, self._comma_is_point)
        column.form = form
        return column

    @property
    def has_thousands_by_points(self) -> bool:
        """Whether the cells are numbers such as 1.234 only, which is above 1000 where a comma is the decimal point."""
        return (self.stored is None and self.kind == "number" and self.form is None
                and has_thousands_by_points(self._different.texts.filter(pa.array(~self._words)).to_pylist()))

    @property
    def has_undecided_dates(self) -> bool:
        """Whether the cells are such as 03/04/2024, and no cell decides which number is the day."""
        return self.kind == "category" and not self.is_other and has_undecided_dates(self._different.texts.to_pylist())

    def _readings(self) -> tuple[tuple[Kind, np.ndarray], ...]:
        """Kinds that cells of text may have, with whether each different cell can be read so."""
        return ("number", self._numeric), ("date", self._dated)

    @cached_property
    def nearly(self) -> tuple[Kind, np.ndarray] | None:
        """If more than half of the cells of a column of texts are numbers or dates: (which, rows of the others)."""
        if self.stored is not None or self.is_other or self.kind != "category" or self.has_codes:
            return None
        for kind, right in self._readings():
            others = self._different.spread(~right & ~self._words, False)
            rows = np.flatnonzero(others)
            if len(rows) and len(rows) < (self._different.ids >= 0).sum() / 2 and right.any():
                return kind, rows
        return None

    def missing(self, kind: Kind) -> np.ndarray:
        """bool[rows]: empty cells; for numbers and dates also words such as NA, and infinite numbers."""
        if kind == "category":
            return np.asarray(self._trimmed.is_null()) if self._trimmed is not None else self._different.ids < 0
        return ~np.isfinite(self.numbers() if kind == "number" else self.days())

    # ---- values --------------------------------------------------------------------------------------------------

    def texts(self) -> np.ndarray:
        """object[rows]: the cells as the file spells them, without spaces around them; None for empty ones."""
        return self._different.spread(np.array(self._different.texts.to_pylist(), object), None)

    def different(self) -> tuple[list[str], np.ndarray]:
        """(The different texts, i64[rows]: which of them each cell is, -1 for an empty one)."""
        return self._different.texts.to_pylist(), self._different.ids

    def numbers(self) -> np.ndarray:
        """f64[rows], NaN for missing values.  Raises: DataError for a cell that is not a number."""
        return self._numbers

    @cached_property
    def _numbers(self) -> np.ndarray:
        if self.stored == "number":
            kind = self.values.type
            values = self.values.cast(pa.int8()) if pa.types.is_boolean(kind) else self.values
            return values.cast(pa.float64(), safe=False).to_numpy()
        if self.stored == "date":
            raise self._refusal("numbers", np.arange(len(self)))
        if self.form is None and self._cast is not None:
            return self._cast
        self._check("numbers", self._numeric)
        values = np.full(len(self._written), np.nan)
        plain = self._matches(_NUMBER) | self._matches(_INFINITE)
        signed = arrow.replace_substring_regex(self._written.filter(pa.array(plain)), r"^\+", "")
        values[plain] = signed.cast(pa.float64()).to_numpy()
        lower = arrow.utf8_lower(self._different.texts)
        for word, value in _TRUTH.items():
            values[_as_bool(arrow.equal(lower, word))] = value
        return self._different.spread(values, np.nan)

    def days(self) -> np.ndarray:
        """f64[rows]: days since 1970, UTC where the cell has a zone; NaN for missing values.

        Raises: DataError for a cell that is not a date.
        """
        if self.stored == "date":
            times = self.values.cast(pa.timestamp("us"), safe=False).to_numpy().astype("datetime64[us]")
            return np.where(np.isnat(times), np.nan, times.astype(np.int64) / 86_400e6)
        if self.stored == "number" and self.form is None:
            raise self._refusal("dates", np.arange(len(self)))
        self._check("dates", self._dated)
        return self._different.spread(self._days, np.nan)

    @property
    def times_without_zone(self) -> int:
        """How many cells of a column of dates have a time without a zone, where others have one."""
        if self.stored is not None or self.kind != "date":
            return 0
        timed, zoned = self._matches(_TIME), self._matches(f"{_TIME}{_ZONE}$")
        return int(self._different.spread(timed & ~zoned, False).sum()) if zoned.any() else 0

    @property
    def rounding(self) -> float:
        """The relative error of one rounding of the cells' values."""
        kind = self.values.type
        narrow = {"halffloat": np.float16, "float": np.float32}.get(str(kind), np.float64)
        return float(np.finfo(narrow).eps)

    # ---- parts ---------------------------------------------------------------------------------------------------

    @cached_property
    def _trimmed(self) -> pa.Array | None:
        """The cells of a column of texts without spaces around them, null for empty ones; None for other types."""
        if not is_text(self.values.type):
            return None
        trimmed = arrow.utf8_trim_whitespace(self.values)
        trimmed = trimmed.combine_chunks() if isinstance(trimmed, pa.ChunkedArray) else trimmed
        return arrow.if_else(arrow.equal(trimmed, ""), pa.scalar(None, trimmed.type), trimmed)

    @cached_property
    def _cast(self) -> np.ndarray | None:
        """f64[rows], NaN for empty cells, if all cells are numbers or nan; None otherwise: a fast way to the same."""
        try:
            return None if self._trimmed is None else self._trimmed.cast(pa.float64()).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid:
            return None

    @cached_property
    def _different(self) -> _Different:
        trimmed = self._trimmed
        if trimmed is None:
            texts = [None if value is None else spelled(value) for value in self.values.to_pylist()]
            texts = _without_fraction(texts) if pa.types.is_floating(self.values.type) else texts
            trimmed = pa.array(texts, pa.string())
        encoded = trimmed.dictionary_encode()
        return _Different(encoded.dictionary, encoded.indices.cast(pa.int64()).fill_null(-1).to_numpy())

    @cached_property
    def _written(self) -> pa.Array:
        """The different texts, with numbers and dates in the plain spelling, and "" for texts of another form."""
        texts = self._different.texts
        return texts if self.form is None else pa.array([self.form.plain(text) or "" for text in texts.to_pylist()],
                                                        texts.type)

    def _matches(self, pattern: str) -> np.ndarray:
        return _as_bool(arrow.match_substring_regex(self._written, pattern))

    @cached_property
    def has_codes(self) -> bool:
        """Whether a cell is a whole number with leading zeros."""
        cells = self._trimmed if self._cast is not None else self._different.texts
        return bool(_as_bool(arrow.match_substring_regex(cells, _CODE)).any())

    @cached_property
    def _words(self) -> np.ndarray:
        lower = arrow.utf8_lower(self._different.texts)
        return _as_bool(arrow.is_in(lower, value_set=pa.array(MISSING, lower.type)))

    @cached_property
    def _numeric(self) -> np.ndarray:
        """Which of the different texts are numbers; true and false are, if there are no others."""
        numbers = self._matches(_NUMBER) | self._matches(_INFINITE)
        lower = arrow.utf8_lower(self._different.texts)
        truths = _as_bool(arrow.is_in(lower, value_set=pa.array(list(_TRUTH), lower.type)))
        return truths if not numbers.any() else numbers

    @cached_property
    def _dated(self) -> np.ndarray:
        return np.isfinite(self._days)

    @cached_property
    def _days(self) -> np.ndarray:
        """f64[different texts], NaN for others than dates."""
        likely, days = self._matches(_DATE), np.full(len(self._written), np.nan)
        days[likely] = [_day(text) for text in self._written.filter(pa.array(likely)).to_pylist()]
        return days

    def _check(self, needed: str, right: np.ndarray) -> None:
        wrong = np.flatnonzero(self._different.spread(~right & ~self._words, False))
        if len(wrong):
            raise self._refusal(needed, wrong)

    def _refusal(self, needed: str, rows: np.ndarray) -> DataError:
        plain = "dates such as 2024-05-17 or 2024-05-17T12:30:00" if needed == "dates" else "numbers such as 12 or -0.5"
        form = f"{needed} such as {self.form.example}" if self.form else plain
        return DataError("table", f"the column {self.name!r} must have {needed}, and has other values.",
                         {"file": self.file, "first": self.cell(rows[0]), "rows": f"{len(rows)} of {len(self)}"},
                         fix=f"{form} in this column, or empty cells.")

    def cell(self, row: int) -> str:
        """A cell and its place, for messages.  Args: row: counted from 0."""
        value = self.values[int(row)].as_py()
        return f"{'an empty cell' if value is None or value == '' else repr(spelled(value)[:40])} in row {row + 1} " \
               "after the header"


def spelled(value: object) -> str:
    """A value of a typed column as text: ISO for dates, JSON for lists and dicts."""
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    return json.dumps(value, default=str) if isinstance(value, list | dict) else str(value)


def as_labels(values: np.ndarray) -> np.ndarray:
    """Labels of an array as texts, "" if unknown: -1, NaN, and the texts "" and "-1". Whole floats have no fraction."""
    texts = as_texts(values)
    return np.where(texts == "-1", "", texts)


def as_texts(values: np.ndarray) -> np.ndarray:
    """The elements of an array as texts, without spaces around them; "" for NaN."""
    if values.dtype.kind == "S":
        values = np.char.decode(values, "utf-8")
    if values.dtype.kind != "f":
        return np.char.strip(values.astype(str))
    texts = _without_fraction([None if math.isnan(value) else str(value) for value in values.tolist()])
    return np.array(["" if text is None else text for text in texts], str)


def is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _without_fraction(texts: list[str | None]) -> list[str | None]:
    """Floats that are all whole, as integers with gaps become in pandas, lose their ".0"; NaN is an empty cell."""
    texts = [None if text in ("nan", None) else text for text in texts]
    present = [text for text in texts if text is not None]
    if all(text.endswith(".0") for text in present):
        return [None if text is None else text[:-2] for text in texts]
    return texts


def _day(text: str) -> float:
    """Days since 1970; NaN for a day or time that does not exist."""
    try:
        time = datetime.fromisoformat(text.replace("/", "-").replace(",", "."))
    except ValueError:
        return math.nan
    if time.tzinfo is not None:
        time = time.astimezone(UTC).replace(tzinfo=None)
    return (time - datetime(1970, 1, 1)).total_seconds() / 86_400


def _as_bool(values: pa.Array) -> np.ndarray:
    return np.asarray(values.fill_null(False).to_numpy(zero_copy_only=False), bool)
