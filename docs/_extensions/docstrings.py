"""Docstrings of this repository as MyST Markdown.

A docstring is text with code in backticks, sections such as ``Args:`` in one line or in a block, doctests, and blocks
of code after ``::``. Everything outside of code is text: Markdown's special characters are escaped.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator

SECTIONS = {"Args": "Arguments", "Attributes": "Attributes", "Params": "Parameters of the layer", "Returns": "Returns",
            "Raises": "Raises", "Yields": "Yields", "Shape": "Shape", "Inputs": "Inputs",
            "Extra inputs": "Extra inputs", "Cache": "Cache", "State": "State", "Kernel": "Kernel", "Source": "Source",
            "Sources": "Sources"}
_ANY = "|".join(SECTIONS)
_SECTION = re.compile(rf"({_ANY}):(?:\s+(.*))?$")
_INLINE_SECTION = re.compile(rf"(?<=\S)  +(?=(?:{_ANY}): )")
_ITEM = re.compile(r"(\*{0,2}[\w.]+(?:(?:, | and | or )\*{0,2}[\w.]+)*): +(.*)")
_MARKER = re.compile(r"\s*(?:[-*]|\d+\.) ")
_CODE = re.compile(r"(``.+?``|`[^`]+`)", re.DOTALL)
_SPECIAL = re.compile(r"[\\*_<\[\]{}#~|]")
_PAGE = re.compile(r"\bdocs/((?:\w|\\_)+)\.md\b")
_ERROR = re.compile(r"\b[A-Z]\w*(?:Error|Warning|Exception)\b")


def as_markdown(text: str, parameters: Iterable[str] = ()) -> str:
    """The docstring as Markdown.  `parameters`: names of arguments, to split ``Args:`` that are in one line."""
    blocks = _blocks(inspect.cleandoc(text).splitlines(), frozenset(parameters))
    return "\n\n".join(blocks)


def escaped(text: str) -> str:
    """Text with code in backticks, so that Markdown shows it as it is."""
    parts = _CODE.split(text)
    parts[::2] = [_PAGE.sub(r"[\g<0>](/\1.md)", _SPECIAL.sub(r"\\\g<0>", part)) for part in parts[::2]]
    return "".join(parts)


def _blocks(lines: list[str], parameters: frozenset[str]) -> Iterator[str]:
    lines = list(_with_sections_apart(lines))
    fields: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        start, section = at, _SECTION.match(line)
        if not line.strip():
            at += 1
            continue
        if section:
            at = _end_of_section(lines, at)
            fields += _field(section[1], section[2] or "", lines[start + 1:at], parameters)
            continue
        if fields:
            yield "\n".join(fields)
            fields = []
        if line.lstrip().startswith(">>>"):
            while at < len(lines) and lines[at].strip():
                at += 1
            yield _fenced("pycon", lines[start:at])
        elif line.startswith("  "):
            while at < len(lines) and (not lines[at].strip() or lines[at].startswith("  ")):
                at += 1
            block = textwrap.dedent("\n".join(lines[start:at])).splitlines()
            yield _paragraph(block) if block[0].startswith("- ") else _fenced("python", lines[start:at])
        else:
            while at < len(lines) and lines[at].strip() and not _SECTION.match(lines[at]) \
                    and not lines[at].lstrip().startswith(">>>"):
                at += 1
            yield _paragraph(lines[start:at])
    if fields:
        yield "\n".join(fields)


def _with_sections_apart(lines: list[str]) -> Iterator[str]:
    """A section that begins within a line, after two spaces, gets a line of its own."""
    for line in lines:
        yield from [line] if ">>>" in line else _INLINE_SECTION.sub("\n", line).split("\n")


def _end_of_section(lines: list[str], at: int) -> int:
    """The line after a section: its further lines are indented, also after an empty line."""
    at += 1
    while at < len(lines) and (lines[at].startswith(" ") or (
            not lines[at].strip() and at + 1 < len(lines) and lines[at + 1].startswith(" "))):
        at += 1
    return at


def _paragraph(lines: list[str]) -> str:
    if any(_MARKER.match(line) for line in lines):
        starts = [(match[0] if (match := _MARKER.match(line)) else "") for line in lines]
        return "\n".join(start + escaped(line[len(start):]) for start, line in zip(starts, lines, strict=True))
    text = escaped("\n".join(lines))
    return text[:-1] if text.endswith("::") else text


def _fenced(language: str, lines: list[str]) -> str:
    code = textwrap.dedent("\n".join(lines)).strip("\n")
    return f"```{language}\n{code}\n```"


def _field(name: str, first: str, lines: list[str], parameters: frozenset[str]) -> Iterator[str]:
    items, text = _items(lines, parameters) if not first else ([], "")
    if first:
        text = " ".join([first, *(line.strip() for line in lines)])
        if name in ("Args", "Attributes", "Inputs"):
            items, text = _inline_items(text, parameters)
    yield f":{SECTIONS[name]}:"
    if text:
        yield f"    {_with_errors(name, text)}"
    if items and text:
        yield ""
    for names, meaning in items:
        marked = ", ".join(f"`{each}`" for each in re.split(r", | and | or ", names))
        yield f"    - {marked}: {_with_errors(name, meaning)}"


def _with_errors(section: str, text: str) -> str:
    """Escaped text; in ``Raises``, the names of errors are code."""
    parts = _CODE.split(text)
    if section == "Raises":
        parts[::2] = [_ERROR.sub(r"`\g<0>`", part) for part in parts[::2]]
    return escaped("".join(parts))


def _items(lines: list[str], parameters: frozenset[str]) -> tuple[list[tuple[str, str]], str]:
    """((names, meaning) of each item, the text before the first item) of an indented block."""
    block = textwrap.dedent("\n".join(lines)).splitlines()
    items: list[list[str]] = []
    before: list[str] = []
    for line in block:
        item = _ITEM.match(line)
        if item:
            items.append([item[1], item[2]])
        elif items:
            items[-1][1] += f" {line.strip()}"
        else:
            before.append(line.strip())
    split = [_inline_items(f"{names}: {text}", parameters)[0] or [(names, text)] for names, text in items]
    return [item for each in split for item in each], " ".join(before)


def _inline_items(text: str, parameters: frozenset[str]) -> tuple[list[tuple[str, str]], str]:
    """The same of ``x: an array; axis: an int or None``: an item begins with names of parameters."""
    if not parameters:
        return [], text
    name = rf"\*{{0,2}}(?:{'|'.join(sorted(map(re.escape, parameters), key=len, reverse=True))})"
    starts = list(re.finditer(rf"(?:^|(?<=; )|(?<=\. )|(?<=, ))({name}(?:(?:, | and ){name})*): ", text))
    if not starts or starts[0].start():
        return [], text
    ends = [start.start() for start in starts[1:]] + [len(text)]
    return [(start[1], text[start.end():end].rstrip(" ;,")) for start, end in zip(starts, ends, strict=True)], ""
