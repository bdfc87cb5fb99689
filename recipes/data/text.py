"""Reading of texts, and windows of a stream of tokens."""

from __future__ import annotations

import hashlib
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from recipes.data.encodings import UTF8, encoding_in_words, encoding_of
from recipes.data.facts import listed
from recipes.data.limits import check_file
from recipes.errors import DataError

# Modules that are one file of that name in every Python since 3.11; 2.7 MB together.
STDLIB = (
    "argparse", "bdb", "calendar", "codecs", "configparser", "contextlib", "csv", "dataclasses", "difflib", "doctest",
    "enum", "fractions", "ftplib", "functools", "gettext", "gzip", "heapq", "imaplib", "inspect", "ipaddress", "locale",
    "mailbox", "mimetypes", "optparse", "os", "pdb", "pickle", "pickletools", "platform", "plistlib", "pprint",
    "random", "selectors", "shutil", "smtplib", "socket", "socketserver", "ssl", "statistics", "string", "subprocess",
    "tarfile", "tempfile", "textwrap", "threading", "timeit", "tokenize", "traceback", "turtle", "types", "typing",
    "uuid", "warnings", "weakref", "webbrowser")


class Text(NamedTuple):
    """A module or a file.  Attributes: encoding: of the file."""

    name: str
    text: str
    encoding: str = "utf-8"


def read_modules(names: Sequence[str]) -> list[Text]:
    """The source code of modules of the standard library.  Raises: DataError if this Python does not have it."""
    folder = Path(sysconfig.get_path("stdlib"))
    missing = [name for name in names if not (folder / f"{name}.py").is_file()]
    if missing:
        raise DataError("text", "this Python does not have the source code of its standard library.",
                        {"folder": folder, "missing": ", ".join(missing)}, fix="text files of your own in the config.")
    return [Text(name, read_file(folder / f"{name}.py").text) for name in names]


def read_files(paths: Sequence[Path], pattern: str) -> list[Text]:
    """Text files in the order of ``paths``; of a folder, all that match ``pattern``, sorted.  Raises: DataError."""
    files: list[Path] = []
    for path in paths:
        inside = [path] if path.is_file() else sorted(file for file in path.glob(pattern) if file.is_file())
        if not inside:
            what = "the folder has no file that matches task.pattern." if path.is_dir() else "the text file is missing."
            raise DataError("text", what, {"path": path, "pattern": pattern},
                            fix="task.files='[PATH, ...]' of text files or folders of them.")
        files += inside
    texts = [read_file(file) for file in dict.fromkeys(files)]
    if not any(each.text for each in texts):
        raise DataError("text", "the files are empty.", {"files": len(texts)}, fix="files with text.")
    return texts


def read_file(file: Path) -> Text:
    """A text file in any encoding that `encoding_of` finds.  Raises: DataError for a file that is not text."""
    check_file(file)
    try:
        encoding = encoding_of(file)
        return Text(str(file), file.read_bytes().decode("utf-8" if encoding in UTF8 else encoding), encoding)
    except UnicodeDecodeError as err:
        raise DataError("text", "the file is not a text.", {"file": file, "first wrong byte": err.start},
                        fix="convert it to UTF-8, or leave it out.") from None


def encodings_fact(texts: Iterable[Text]) -> dict[str, str]:
    """A fact of a summary: the files that are not UTF-8, with their encodings."""
    return listed("encoding", {each.name: encoding_in_words(each.encoding) for each in texts
                               if each.encoding not in UTF8})


def digest(texts: Iterable[Text]) -> str:
    """First characters of the SHA-256 of all texts."""
    total = hashlib.sha256()
    for each in texts:
        total.update(each.text.encode() + b"\0")
    return total.hexdigest()[:12]


class Windows:
    """Parts of a stream of tokens as examples: each token of a window is predicted from the tokens before it.

    A window that starts at s has the inputs ``tokens[s : s + length]`` and the targets
    ``tokens[s + 1 : s + length + 1]``.

    Args:
      tokens: integers [n]; n_bytes: [n], the bytes of text of each token.
      stride: tokens between the starts of two windows.
      only_whole: whether to drop windows that exceed the end, if there is a whole one. Otherwise the last is padded.
    """

    def __init__(self, tokens: np.ndarray, n_bytes: np.ndarray, length: int, stride: int, only_whole: bool) -> None:
        self._tokens, self._n_bytes, self._length, self._stride = tokens, n_bytes, length, stride
        targets = len(tokens) - 1
        self._n = max(1, (targets - length) // stride + 1) if only_whole else -(-targets // stride)

    def __len__(self) -> int:
        return self._n

    def take(self, ids: np.ndarray) -> dict[str, np.ndarray]:
        """ "x", "y": i32[rows, length]; "counts": f32[rows, length], 0 for padding; "bytes": f32[rows], of targets."""
        at = np.asarray(ids)[:, None] * self._stride + np.arange(self._length + 1)
        kept = at < len(self._tokens)
        at = np.minimum(at, len(self._tokens) - 1)
        tokens = np.where(kept, self._tokens[at], 0).astype(np.int32)
        n_bytes = (self._n_bytes[at] * kept)[:, 1:].sum(axis=1)
        return {"x": tokens[:, :-1], "y": tokens[:, 1:], "counts": kept[:, 1:].astype(np.float32),
                "bytes": n_bytes.astype(np.float32)}
