"""How a column of texts writes its numbers or dates, where that is not plain: 1.234,50 €, 12 %, 31.12.2024.

A form is a rule for a whole column. `form_of` returns the form that most of the cells have; `plain` converts cells to
the plain spelling, -1234.5 or 2024-05-17T14:05. The forms of the training data are saved with the run, since a single
cell such as 1,234 has two meanings.

  decimals  in `1,234.5` a comma separates thousands, in `1.234,5` it is the decimal point. The cells decide. If all
            are such as 1,234, the comma is the decimal point in a file whose values are not separated by commas.
            Apostrophes and no-break spaces separate thousands in both.
  signs     one currency sign or percent sign, the same in all cells. It is left out: 12 % is 12.
  negative  a minus before or after the sign, or brackets: (1,234.50)
  dates     of numbers, with a year of four digits, separated by /, - or . : which is the day is decided by the cells
            with a number above 12, else by points: 03.04.2024 has the day first. Cells such as 03/04/2024 alone have
            no form. Dates with the English name of the month. A time may follow, of 24 or of 12 hours.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

_SPACES = "\xa0\u2009\u202f"
_MARKS = f"['’{_SPACES}]"                                     # that separate thousands, whatever the decimal point is
_SIGN = "[%$¢£¤¥֏؋৳฿៛\u20a0-\u20cf﷼]"
_CELL = re.compile(rf"(?P<open>\()?(?P<minus>[-+−]?)\s*(?P<before>{_SIGN}?)\s*(?P<inner>[-+−]?)"
                   rf"(?P<digits>\d[\d.,'’{_SPACES}]*)\s*(?P<after>{_SIGN}?)(?P<close>\))?")
_PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.I)
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.I)
_DIGITS = {
    ".": re.compile(rf"(\d+|\d{{1,3}}(?P<mark>,|{_MARKS})\d{{3}}((?P=mark)\d{{3}})*)(\.\d*)?"),
    ",": re.compile(rf"(\d+|\d{{1,3}}(?P<mark>\.|{_MARKS})\d{{3}}((?P=mark)\d{{3}})*)(,\d*)?")}
_THOUSANDS_BY_POINTS = re.compile(r"[-+]?\d{1,3}(\.\d{3})*")
_DATE = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4})(.*)")
_DAY, _MONTH, _YEAR = r"(?P<day>\d{1,2})(st|nd|rd|th|\.)?", r"(?P<month>[a-z]{3,9})\.?", r"(?P<year>\d{4})(?P<time>.*)"
_NAMED = re.compile(rf"{_DAY}[ -]{_MONTH},?[ -]{_YEAR}", re.I)
_NAMED_FIRST = re.compile(rf"{_MONTH} {_DAY},? {_YEAR}", re.I)
_COMPACT = re.compile(r"(\d{4})(\d\d)(\d\d)(.*)")
_TIME = re.compile(r"(?:,? |T)(\d{1,2}):(\d\d)(:\d\d(?:\.\d{1,9})?)?(?: ?([ap])\.?m\.?)?", re.I)
_MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
           "december")

Point: TypeAlias = Literal[".", ","]
Order: TypeAlias = Literal["day", "month", "name", "compact"]
_POINTS: tuple[Point, Point] = (".", ",")
_ENOUGH = 2000                                                # different cells by which a form is chosen


class NumberForm(NamedTuple):
    """Attributes: point: the decimal point. sign: a currency or percent sign in each cell; "" for none."""

    point: Point
    sign: str = ""

    @property
    def example(self) -> str:
        number = "1.234,5" if self.point == "," else "1,234.5"
        return f"{number} {self.sign}".rstrip()

    def plain(self, text: str) -> str | None:
        """A cell as a plain number; None for one that has another form."""
        if _INFINITE.fullmatch(text) or (self == PLAIN and _PLAIN.fullmatch(text)):
            return text
        cell = _CELL.fullmatch(text)
        if cell is None or self.sign != cell["before"] + cell["after"] or bool(cell["open"]) != bool(cell["close"]):
            return None
        minus = cell["minus"] + cell["inner"] + ("-" if cell["open"] else "")
        if len(minus) > 1 or not _DIGITS[self.point].fullmatch(cell["digits"]):
            return None
        thousands = "," if self.point == "." else "."
        digits = re.sub(_MARKS, "", cell["digits"].replace(thousands, "")).replace(self.point, ".")
        return ("-" if minus in ("-", "−") else "") + digits


PLAIN = NumberForm(".")                                        # with thousands separated by commas in some cells


class DateForm(NamedTuple):
    """Attributes: order: which number is first; or the month has a name; or 20241231."""

    order: Order

    @property
    def example(self) -> str:
        return {"day": "31/12/2024", "month": "12/31/2024", "name": "31 Dec 2024", "compact": "20241231"}[self.order]

    def plain(self, text: str) -> str | None:
        """A cell as an ISO date; None for one that has another form.  A day may be one that does not exist."""
        if self.order == "name":
            cell = _NAMED.fullmatch(text) or _NAMED_FIRST.fullmatch(text)
            months = [i for i, name in enumerate(_MONTHS, 1) if cell and name.startswith(cell["month"].lower())]
            return _iso(cell["year"], months[0], cell["day"], cell["time"]) if cell and len(months) == 1 else None
        if self.order == "compact":
            cell = _COMPACT.fullmatch(text)
            return cell and _iso(cell[1], cell[2], cell[3], cell[4])
        cell = _DATE.fullmatch(text)
        day, month = (1, 3) if self.order == "day" else (3, 1)
        return cell and _iso(cell[4], cell[month], cell[day], cell[5])


Form: TypeAlias = NumberForm | DateForm

StatedForm = Literal["number 1,234.5", "number 1.234,5", "date 31/12/2024", "date 12/31/2024", "date 20241231"]
STATED: dict[StatedForm, Form] = {
    "number 1,234.5": PLAIN, "number 1.234,5": NumberForm(","), "date 31/12/2024": DateForm("day"),
    "date 12/31/2024": DateForm("month"), "date 20241231": DateForm("compact")}
"""Kinds with a form, as a config states them by an example."""


def form_of(texts: Sequence[str], comma_is_point: bool) -> Form | None:
    """The form that more than half of the texts have; None if these are plain, or if there is none.

    Args:
      texts: different cells, without empty ones and words for gaps.
      comma_is_point: the meaning of a comma if the cells do not decide it.
    """
    some = texts[::max(1, len(texts) // _ENOUGH)]
    return _number_form(some, comma_is_point) or _date_form(some)


def stated_form(texts: Sequence[str], stated: StatedForm) -> Form:
    """The form of an example; numbers have the sign of most of the texts."""
    form = STATED[stated]
    return form if isinstance(form, DateForm) else NumberForm(form.point, _sign(texts))


def has_thousands_by_points(texts: Sequence[str]) -> bool:
    """Whether all texts are whole numbers, some such as 1.234, which are above 1000 where a comma is the point."""
    return any("." in text for text in texts) and all(_THOUSANDS_BY_POINTS.fullmatch(text) for text in texts)


def has_undecided_dates(texts: Sequence[str]) -> bool:
    """Whether most texts are such as 03/04/2024, and none decides which number is the day."""
    cells = [cell for cell in map(_DATE.fullmatch, texts) if cell]
    return 2 * len(cells) > len(texts) and _date_form(texts) is None


def saved_form(form: Form | None) -> dict[str, Any]:
    """A form as JSON; {} for none.  `read_form` is the inverse."""
    return {} if form is None else {"form": form._asdict()}


def read_form(described: dict[str, Any]) -> Form | None:
    form = described.get("form")
    return None if form is None else DateForm(**form) if "order" in form else NumberForm(**form)


def _number_form(texts: Sequence[str], comma_is_point: bool) -> NumberForm | None:
    sign = _sign(texts)
    plain = {point: [NumberForm(point, sign).plain(text) for text in texts] for point in _POINTS}
    counts = {point: len(texts) - each.count(None) for point, each in plain.items()}
    first: Point = "," if comma_is_point and any("," in text or "." in text for text in texts) else "."
    point = max(_POINTS, key=lambda point: (counts[point], point == first))
    differ = any(each not in (None, text) for text, each in zip(texts, plain[point], strict=True))
    return NumberForm(point, sign) if 2 * counts[point] > len(texts) and differ else None


def _sign(texts: Sequence[str]) -> str:
    """That of most of the numbers."""
    signs = Counter(cell["before"] + cell["after"] for cell in map(_CELL.fullmatch, texts) if cell)
    return signs.most_common(1)[0][0] if signs else ""


def _date_form(texts: Sequence[str]) -> DateForm | None:
    enough = len(texts) / 2
    cells = [cell for cell in map(_DATE.fullmatch, texts) if cell and _TIME.fullmatch(cell[5] or " 0:00")]
    if len(cells) > enough:
        day_first, month_first = any(int(cell[1]) > 12 for cell in cells), any(int(cell[3]) > 12 for cell in cells)
        if day_first != month_first:
            return DateForm("day" if day_first else "month")
        return DateForm("day") if not day_first and all(cell[2] == "." for cell in cells) else None
    named = DateForm("name")
    return named if sum(named.plain(text) is not None for text in texts) > enough else None


def _iso(year: str, month: str | int, day: str, time: str) -> str | None:
    date = f"{year}-{int(month):02}-{int(day):02}"
    if not time:
        return date
    clock = _TIME.fullmatch(time)
    if clock is None:
        return None
    hour, half = int(clock[1]), (clock[4] or "").lower()
    if half:
        hour = hour % 12 + (12 if half == "p" else 0) if 1 <= hour <= 12 else 99
    return f"{date}T{hour:02}:{clock[2]}{clock[3] or ''}"
