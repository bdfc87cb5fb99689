"""The encoding of a text file: by its first bytes, else UTF-8, else that of Western European texts from Windows."""

from __future__ import annotations

import codecs
import re
from pathlib import Path

UTF8 = ("utf-8", "utf-8-sig")
# The first bytes of files; those of UTF-32 begin with those of UTF-16.
_MARKS = ((codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"), (codecs.BOM_UTF8, "utf-8-sig"),
          (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_WORDS = {"utf-16-le": "UTF-16", "utf-16-be": "UTF-16", "cp1252": "Windows-1252", "latin-1": "Latin-1"}
_BINARY = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")       # bytes that no text has in an encoding of one byte
_CHUNK = 1 << 20


def encoding_of(file: Path) -> str:
    """The name of a codec of Python.  Raises: UnicodeDecodeError for a file that is not text."""
    with file.open("rb") as content:
        start = content.read(_CHUNK)
        for mark, encoding in _MARKS:
            if start.startswith(mark):
                return encoding
        if encoding := _wide(start):
            return encoding
        decoder, chunk, undefined = codecs.getincrementaldecoder("utf-8")(), start, False
        try:
            while chunk:
                decoder.decode(chunk)
                chunk = content.read(_CHUNK)
            decoder.decode(b"", True)
            return "utf-8"
        except UnicodeDecodeError:
            content.seek(0)
            while chunk := content.read(_CHUNK):
                if _BINARY.search(chunk):
                    raise
                undefined = undefined or re.search(rb"[\x81\x8d\x8f\x90\x9d]", chunk) is not None
    return "latin-1" if undefined else "cp1252"


def encoding_in_words(encoding: str) -> str:
    """For a summary: "UTF-16", "Windows-1252, because the file is not UTF-8"."""
    name = _WORDS.get(encoding, encoding.upper())
    return f"{name}, because the file is not UTF-8" if encoding in ("cp1252", "latin-1") else name


def _wide(start: bytes) -> str | None:
    """UTF-16 without a mark: every second byte of Western text is zero."""
    pairs = len(start) // 2
    for encoding, zeros in (("utf-16-le", start[1:2 * pairs:2]), ("utf-16-be", start[0:2 * pairs:2])):
        others = start[(encoding == "utf-16-be"):2 * pairs:2]
        if pairs and zeros.count(0) > 0.7 * pairs and others.count(0) == 0:
            return encoding
    return None
