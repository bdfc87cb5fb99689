"""Atomic writing: a file is replaced completely or not at all."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def whole_file(file: Path, sync: bool = True) -> Iterator[BinaryIO]:
    """An open temporary file, which replaces `file` at the end; on an error `file` is unchanged.

    Args: sync: wait for the disk before the replacement, so that the old or the new file survives a crash of the
      machine.
    """
    stem = os.fsdecode(os.fsencode(file.name)[:200])              # a name has at most 255 bytes
    scratch = file.with_name(f".{stem}.tmp")
    try:
        with named(file, scratch):
            with scratch.open("wb") as out:
                yield out
                if sync:
                    out.flush()
                    os.fsync(out.fileno())
            os.replace(scratch, file)
    finally:
        scratch.unlink(missing_ok=True)             # already gone if it replaced `file`


@contextlib.contextmanager
def named(file: Path, scratch: Path | None = None) -> Iterator[None]:
    """Gives an OSError in this context the name of `file`, if it has none: an error of a full disk has no name.

    Args: scratch: a temporary file that is written instead; an error with its name gets that of `file` too.
    """
    try:
        yield
    except OSError as err:
        if err.errno is not None and err.filename in (None, scratch and os.fspath(scratch)):
            err.filename = os.fspath(file)
        raise
