"""Files that are written whole or not at all."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def whole_file(file: Path, sync: bool = True) -> Iterator[BinaryIO]:
    """Open to be written in place of ``file``, which stays as it is until the end, and if anything fails.

    Args: sync: wait for the disk before the file gets its name, so that a machine that stops leaves the old or the new.
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
        scratch.unlink(missing_ok=True)             # not there if it has its name
