"""Csv, tsv, parquet and json files as tables, whose cells keep their spelling: see `recipes.data.cells`."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from recipes.config import close_to
from recipes.data.cells import Column, Kind, StatedKind
from recipes.data.encodings import encoding_of
from recipes.data.forms import STATED, NumberForm, StatedForm
from recipes.data.layout import Layout, first_long_record, layout_of
from recipes.data.limits import check_file, check_fits
from recipes.errors import DataError
from recipes.lazy import arrow_csv, pa, parquet, pd
from recipes.names import composed

SPLITS = ("train", "val", "test")
TITLES = 20                                                   # rows in which a header is looked for
TOTALS = ("total", "totals", "grand total", "subtotal", "sum", "average", "mean", "count")
# Names under which pandas writes the numbers of rows, and that an empty name in a header gets.
_INDEX = re.compile(r"__index_level_\d+__|Unnamed: \d+")

# Files of programs for tables.
_SHEETS = (".xlsx", ".xls", ".xlsm", ".ods", ".numbers")
_FIX_OF_SHEETS = "save the sheet as csv, in Excel by Save As, CSV UTF-8."


class Table:
    """The columns of a file, in their order.

    Attributes:
      file: where it was read.
      columns: name -> `Column`.
      num_rows: how many rows.
      layout: encoding and separator of a text file.
    """

    def __init__(self, file: Path, content: pa.Table, layout: Layout) -> None:
        self.file, self.num_rows, self.layout = file, content.num_rows, layout
        comma_is_point = layout.separator not in ("", ",")
        self.columns = {name.strip(): Column(file, name.strip(), content.column(i), comma_is_point)
                        for i, name in enumerate(content.column_names)}
        if any(_has_decimal_commas(column) for column in self.columns.values()):
            self.columns = {name: column.in_form(NumberForm(",")) if column.has_thousands_by_points else column
                            for name, column in self.columns.items()}
        self._by_composed = {composed(name): name for name in self.columns}

    @property
    def column_names(self) -> list[str]:
        return list(self.columns)

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __contains__(self, name: str) -> bool:
        return self._own(name) in self.columns

    def state(self, stated: Mapping[str, Literal[StatedKind, StatedForm]]) -> dict[str, StatedKind]:
        """Gives columns the forms that a config states.  Returns: name -> kind, of each stated column."""
        kinds: dict[str, StatedKind] = {}
        for name, kind in stated.items():
            if kind in STATED:
                self.columns[self._own(name)] = self[name].in_stated_form(kind)
                kinds[self._own(name)] = "number" if kind.startswith("number") else "date"
            else:
                kinds[self._own(name)] = kind
        return kinds

    def __getitem__(self, name: str) -> Column:
        """A name in either coding of its letters; runs of earlier versions have names with spaces around them."""
        return self.columns[self._own(name)]

    def _own(self, name: str) -> str:
        """The name as this file writes it."""
        return name.strip() if name.strip() in self.columns else self._by_composed.get(composed(name.strip()), name)


def read_table(file: Path, empty: bool = False) -> Table:
    """The whole file.  Raises: DataError if it is missing or damaged, has no rows, or has two columns of one name.

    Args: empty: whether a file without rows is allowed.
    """
    reader = READERS.get(file.suffix.lower())
    if reader is None or not file.is_file():
        raise DataError("table", "the data file is missing." if reader else "the file's format is not known.",
                        {"file": file, "kinds": ", ".join(READERS)},
                        fix=_FIX_OF_SHEETS if file.suffix.lower() in _SHEETS else
                        "the path of an existing csv, tsv, parquet or json file.")
    try:
        check_file(file)
        encoding = "utf-8" if file.suffix.lower() == ".parquet" else encoding_of(file)
        content, layout = reader(file, encoding)
    except DataError:
        raise
    except Exception as err:                                  # pandas, pyarrow and csv raise errors of many types
        why = " ".join(str(err).split())
        raise DataError("table", "the data file cannot be read.",
                        {"file": file, "why": f"{type(err).__name__}: {why}"},
                        fix="one header line, and as many values in each line (csv), or a whole file.") from err
    _check_names([name.strip() for name in content.column_names], file)
    if not content.num_rows and not empty:
        raise DataError("table", "the file has no rows.", {"file": file, "columns": ", ".join(content.column_names)},
                        fix="a file with at least one row after its header.")
    return Table(file, content, layout)


def _separated(file: Path, encoding: str, usual: str) -> tuple[pa.Table, Layout]:
    """The cells of a csv file, all as texts. A line with too few values has empty cells at its end.

    pyarrow is faster than pandas, and does not read such lines.

    Args: usual: the separator in files of this name; see `layout_of`.
    """
    with file.open(encoding=encoding, newline="") as content:
        layout, text = layout_of(content.read(), encoding, usual)
    lines = io.StringIO(text, newline="")
    header = next(csv.reader(lines, delimiter=layout.separator), [])
    names = [name.strip() or f"Unnamed: {i}" for i, name in enumerate(header)]
    if not names:
        raise ValueError("the file is empty")
    _check_names(names, file)
    rows = lines.read()
    try:
        types = arrow_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.large_string()),
                                         strings_can_be_null=False)
        return arrow_csv.read_csv(
            pa.BufferReader(rows.encode()), arrow_csv.ReadOptions(column_names=names, block_size=1 << 24),
            arrow_csv.ParseOptions(delimiter=layout.separator, newlines_in_values=True), types), layout
    except pa.ArrowInvalid:
        if long := first_long_record(text, layout):
            raise ValueError(long) from None
        frame = pd.read_csv(io.StringIO(rows), sep=layout.separator, header=None, names=names, index_col=False,
                            dtype=str, keep_default_na=False, na_filter=False)
        return pa.table({name: pa.array(frame[name], pa.large_string()) for name in names}), layout


def _parquet(file: Path, encoding: str) -> tuple[pa.Table, Layout]:
    with file.open("rb") as content:
        table = parquet.ParquetFile(content, page_checksum_verification=True)
        groups = [table.metadata.row_group(i) for i in range(table.num_row_groups)]
        check_fits(file, sum(max(group.total_byte_size, 8 * group.num_rows * group.num_columns) for group in groups))
        return table.read(), Layout()


def _json(file: Path, encoding: str) -> tuple[pa.Table, Layout]:
    """A list of records, a dict of lists, or a record in each line. Numbers keep their spelling."""
    text = file.read_text(encoding)
    parse = json.JSONDecoder(parse_int=str, parse_float=str).decode
    if file.suffix.lower() == ".json" and text.lstrip()[:1] in ("[", "{"):
        try:
            content = parse(text)
        except ValueError:                                    # a record in each line
            content = [parse(line) for line in text.split("\n") if line.strip()]
    else:
        content = [parse(line) for line in text.split("\n") if line.strip()]
    if isinstance(content, dict) and content and all(isinstance(values, list) for values in content.values()):
        return pa.table({name: _texts(values) for name, values in content.items()}), Layout(encoding)
    records = [content] if isinstance(content, dict) else content
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise ValueError("the file needs a record such as {\"column\": 1} for each row")
    names = dict.fromkeys(name for record in records for name in record)
    return pa.table({name: _texts(record.get(name) for record in records) for name in names}), Layout(encoding)


def _texts(values: Iterable[Any]) -> pa.Array:
    return pa.array([value if value is None or isinstance(value, str) else json.dumps(value) for value in values],
                    pa.large_string())


READERS: dict[str, Callable[[Path, str], tuple[pa.Table, Layout]]] = {
    ".csv": lambda file, encoding: _separated(file, encoding, ","),
    ".tsv": lambda file, encoding: _separated(file, encoding, "\t"),
    ".parquet": _parquet, ".json": _json, ".jsonl": _json}


def _has_decimal_commas(column: Column) -> bool:
    return isinstance(column.form, NumberForm) and column.form.point == ","


# ---- checks --------------------------------------------------------------------------------------------------------


def _check_names(names: Sequence[str], file: Path) -> None:
    if double := [name for name in names if names.count(name) > 1]:
        raise DataError("table", f"the column {double[0]!r} occurs twice.", {"file": file},
                        fix="give each column its own name.")


def check_columns(table: Table, names: Iterable[str], keys: str) -> None:
    """Raises: DataError for a name that is not a column.  Args: keys: the keys of the config with these names."""
    unknown = [name for name in names if name not in table]
    if unknown:
        close = close_to(unknown[0], table) if len(unknown) == 1 else ""
        header = _row_with(table, unknown)
        fix = f"name columns of the file in {keys}."
        raise DataError("table", f"there is no column {', '.join(map(repr, unknown))}{close or '.'}",
                        {"file": table.file, "columns": ", ".join(table)},
                        fix=fix if header is None else f"delete the lines before row {header + 1} after the header: "
                                                       "it is the true header.")


def _row_with(table: Table, names: Sequence[str]) -> int | None:
    """The first of the `TITLES` rows whose cells include the names: a title is written before the true header."""
    for row in range(min(TITLES, table.num_rows)):
        if {*names} <= {str(column.values[row].as_py()).strip() for column in table.columns.values()}:
            return row
    return None


def total_fact(table: Table) -> dict[str, str]:
    """A row of a summary: the last row of the file is such as spreadsheets write sums in."""
    for column in table.columns.values():
        text = str(column.values[table.num_rows - 1].as_py()).strip()
        if text.strip(": ").lower() in TOTALS and column.texts().tolist().count(text) == 1:
            return {"last row": f"{text!r} in the column {column.name!r}: delete the row if it sums up the others"}
    return {}


def check_no_stray_words(table: Table, names: Iterable[str]) -> None:
    """Raises: DataError for a column of numbers or dates with a few other texts, which make it a column of texts."""
    for name in names:
        if nearly := table[name].nearly:
            kind, rows = nearly
            what = f"the column {name!r} has {kind}s, and words in {len(rows)} of {table.num_rows} rows."
            raise DataError("table", what, {"file": table.file, "first": table[name].cell(rows[0])},
                            fix="correct these values, or state the kind of the column in task.columns.")


def gaps_in(table: Table, kinds: Mapping[str, Kind]) -> dict[str, str]:
    """Column -> "3 of 100, first in row 7", for columns with missing values, NaN or infinities."""
    gaps = {}
    for name, kind in kinds.items():
        rows = np.flatnonzero(table[name].missing(kind))
        if len(rows):
            gaps[name] = f"{len(rows):,} of {table.num_rows:,}, first in row {rows[0] + 1:,}"
    return gaps


def refuse_gaps(gaps: Mapping[str, str], file: Path, fix: str) -> None:
    """Raises: DataError if there are gaps."""
    if gaps:
        raise DataError("table", "values are missing.", {"file": file, **gaps}, fix=fix)


def is_index(name: str) -> bool:
    """Whether pandas wrote the column: the numbers of rows. A column without a name counts as one."""
    return _INDEX.fullmatch(name) is not None


# ---- targets -------------------------------------------------------------------------------------------------------


def class_kind(column: Column, stated: str | None = None) -> Kind:
    """The kind by which cells of a column of classes are missing: in a column of numbers, NA is not a class.

    Args: stated: the kind that the config states; "category": every text is a class.
    """
    return "number" if column.kind == "number" and column.stored is None and stated != "category" else "category"


def stated_split(column: Column) -> dict[str, np.ndarray]:
    """Row numbers of each split, by the words of a column.  Raises: DataError for other words, or without train."""
    words = np.char.lower([word or "" for word in column.texts()])
    if len(strange := np.flatnonzero(~np.isin(words, SPLITS))):
        raise DataError("table", f"the column {column.name!r} has other words than train, val and test.",
                        {"file": column.file, "first": column.cell(strange[0]),
                         "rows": f"{len(strange)} of {len(column)}"},
                        fix="one of these words in each row.")
    if "train" not in words:
        raise DataError("table", f"no row of the column {column.name!r} has the word train.", {"file": column.file},
                        fix="the word train in the rows to train on.")
    return {split: np.flatnonzero(words == split) for split in SPLITS}


def class_target(column: Column, stated: str | None = None) -> tuple[np.ndarray, list[str]]:
    """(i32[rows], class names in order, as spelled).  Raises: DataError if the column does not contain classes."""
    if column.kind == "number" and stated != "category":
        numbers = column.numbers()
        broken = np.flatnonzero(np.isfinite(numbers) & (numbers != np.round(numbers)))
        if len(broken):
            raise _no_target("classification", column, f"it holds decimal numbers, {column.cell(broken[0])}")
    texts, ids = column.different()
    classes = sorted(texts)
    if len(classes) < 2:
        raise _no_target("classification", column, f"it has only one value, {classes[0]!r}")
    places = {name: i for i, name in enumerate(classes)}
    return np.array([places[text] for text in texts], np.int32)[ids], classes


def check_number_target(column: Column) -> Kind:
    """The kind of a target for regression.  Raises: DataError if the column does not contain numbers."""
    try:
        column.numbers()
    except DataError as err:
        other = f"it holds {column.kind.replace('category', 'text')}s, {column.cell(0)}"
        raise err if column.nearly else _no_target("regression", column, other) from None
    return "number"


def _no_target(kind: str, column: Column, why: str) -> DataError:
    return DataError("table", f"the target does not suit a {kind}.", {"file": column.file, column.name: why},
                     fix="another task.target; or task.kind=regression for decimal numbers, classification for "
                         "words and integers.")
