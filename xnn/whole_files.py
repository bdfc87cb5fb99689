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
    scratch = file.with_name(f".{file.name}.tmp")
    try:
        with scratch.open("wb") as out:
            yield out
            if sync:
                out.flush()
                os.fsync(out.fileno())
        os.replace(scratch, file)
    finally:
        scratch.unlink(missing_ok=True)             # already gone if it replaced `file`
