"""Names of the user (columns, classes, files, runs) where some characters have a meaning: one function for each place.

A name may contain any character. A terminal acts on control characters, rich on ``[bold]``, matplotlib on ``$``, HTML
on ``<``, and libraries that take patterns or addresses on ``[``, ``*``, ``\\`` and ``::`` of a path. Every text with a
name in it passes through the function of the place where it goes; a table of predictions has the name as it is.
"""

from __future__ import annotations

import contextlib
import errno
import html
import os
import re
import tempfile
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path

from rich.text import Text

_JOINERS = "\u200c\u200d"                   # part of the spelling of Persian words and of emojis


def printable(text: object, keep: str = "") -> str:
    """``text`` on one line: control characters, line ends and lone surrogates are written as escapes, as in Python.

    Args: keep: control characters that stay, such as line ends.
    """
    text = str(text)
    return text if text.isprintable() else "".join(c if c in keep else _visible(c) for c in text)


def on_terminal(text: object, style: str = "", keep: str = "") -> Text:
    """``text`` for rich, which reads no markup and no names of emojis in it.  Args: keep: as in `printable`."""
    return Text(printable(text, keep), style)


def on_plot(text: object, most: int = 40) -> str:
    """``text`` for matplotlib, which reads no formula in it; a text longer than ``most`` loses its middle."""
    text = printable(text)
    if len(text) > most:
        text = f"{text[:most // 2]}…{text[-(most - most // 2 - 1):]}"
    return text.replace("$", r"\$")             # matplotlib removes the backslashes where each dollar has one


def in_html(text: object) -> str:
    """``text`` for an HTML page, also between the quotes of an attribute; line ends and tabs stay."""
    return html.escape(printable(text, keep="\n\t"))


def in_utf8(text: str) -> str:
    """``text`` for a file: the bytes of a file name that are not UTF-8, lone surrogates in Python, become escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


@contextlib.contextmanager
def plain_path(path: Path) -> Iterator[Path]:
    """A path to the same file or folder for a library that reads patterns, addresses or options in paths.

    It is ``path`` itself if all of its characters are plain, else a symbolic link in a temporary folder.
    """
    path = path.absolute()
    if _is_plain(path):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="recipes.", dir=plain_folder()) as scratch:
        link = Path(scratch, f"link{path.suffix if _is_plain(path.suffix) else ''}")
        link.symlink_to(path)
        yield link


def _visible(character: str) -> str:
    hidden = unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") and character not in _JOINERS
    return character.encode("unicode_escape").decode("ascii") if hidden else character


def _is_plain(path: object) -> bool:
    return re.fullmatch(r"[A-Za-z0-9/._ ,=+@-]*", str(path)) is not None


def plain_folder() -> str:
    """A folder for temporary files whose path is plain."""
    for folder in (tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm"):
        if _is_plain(folder) and os.access(folder, os.W_OK):
            return folder
    raise FileNotFoundError(errno.ENOENT, "no folder for temporary files has a path of plain characters; set TMPDIR",
                            tempfile.gettempdir())


def composed(name: str) -> str:
    """The name with each letter and its accents as one character, where Unicode has one.

    Unicode has two codings of é, and macOS writes names of files in the other one.
    """
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def alike(names: Iterable[str]) -> list[str]:
    """The names that readers take for one, since they differ in case, spaces or the coding of letters only.

    Returns: ``'Yes', 'yes'`` for each group, with escapes where the names look the same.
    """
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(_without_differences(name), []).append(str(name))
    return [", ".join(map(repr if len({*map(composed, group)}) == len(group) else ascii, group))
            for group in groups.values() if len(group) > 1]


def _without_differences(name: str) -> str:
    """A name without case, spaces, invisible characters, and codings and widths of letters."""
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    return "".join(letter for letter in text if unicodedata.category(letter)[0] not in "ZC")
