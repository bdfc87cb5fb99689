"""The layout of a csv or tsv file: the separator of its values, and the lines before its header."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple

from recipes.data.encodings import UTF8, encoding_in_words

OTHER_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "vertical bars", ",": "commas"}
_LOOKED_AT = 100                                              # records by which the separator is found
_EXCEL = re.compile(r'"?sep=(.)"?\s*(?:\r\n|\r|\n)')             # the first line of some files of Excel

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_MARKED = re.compile(r"(#.*(?:\r\n|\r|\n))+")


class Layout(NamedTuple):
    """How a file of text holds a table.

    Attributes:
      encoding: name of a codec.
      separator: between values; "" if the file is not csv.
      unusual: whether the file name says another separator.
      skipped: lines before the header.
    """

    encoding: str = "utf-8"
    separator: str = ""
    unusual: bool = False
    skipped: tuple[str, ...] = ()

    def facts(self) -> dict[str, str]:
        """Rows of a summary, for properties that are not usual."""
        facts = {} if self.encoding in UTF8 else {"encoding": encoding_in_words(self.encoding)}
        facts |= {"values": f"separated by {OTHER_SEPARATORS[self.separator]}"} if self.unusual else {}
        return facts | ({"skipped": "before the header: " + ", ".join(self.skipped)} if self.skipped else {})


def layout_of(text: str, encoding: str, usual: str) -> tuple[Layout, str]:
    """(The layout of a csv file, its text from the header on).

    The separator is the one with which the header has the most values, and each of the first records as many as the
    header; with none such, it is the ``usual`` one. A line ``sep=;`` states it. Lines that begin with # and have fewer
    values than the first other line are before the header.
    """
    stated = _EXCEL.match(text)
    text = text[stated.end():] if stated else text
    marked = _MARKED.match(text)
    rows = text[marked.end():] if marked else text
    separator = stated[1] if stated and stated[1] in OTHER_SEPARATORS else _separator(rows, usual)
    width, skipped = _n_values(rows, separator), []
    for line in marked[0].splitlines(keepends=True) if marked else ():
        if _n_values(line, separator) >= width:
            break
        skipped.append(line)
    text = text[sum(map(len, skipped)):]
    return Layout(encoding, separator, separator != usual, tuple(line.strip() for line in skipped)), text


def first_long_record(text: str, layout: Layout) -> str | None:
    """"line 7 has 5 values, and the header 4", for the first record with more values than the header.

    Args: text: from the header on.
    """
    reader = csv.reader(_lines(text), delimiter=layout.separator)
    width = len(next(reader, []))
    try:
        return next((f"line {reader.line_num + len(layout.skipped)} has {len(record)} values, and the header {width}"
                     for record in reader if len(record) > width), None)
    except csv.Error:
        return None


def _separator(text: str, usual: str) -> str:
    fitting = {separator: width for separator in (usual, *OTHER_SEPARATORS) if (width := _width(text, separator)) > 1}
    return max(fitting, key=lambda separator: fitting[separator], default=usual)


def _width(text: str, separator: str) -> int:
    """How many values each of the first records has; 0 if they differ."""
    try:
        widths = {len(record) for record in itertools.islice(_records(text, separator), _LOOKED_AT) if record}
    except csv.Error:
        return 0
    return widths.pop() if len(widths) == 1 else 0


def _n_values(text: str, separator: str) -> int:
    return len(next(_records(text, separator), []))


def _records(text: str, separator: str) -> Iterator[list[str]]:
    return csv.reader(_lines(text), delimiter=separator)


def _lines(text: str) -> Iterator[str]:
    """The lines with their ends, one at a time: mostly the first ones are read, and the text may be large."""
    return (line[0] for line in _LINE.finditer(text))
