"""A lock that allows one process in a run folder. The kernel releases it when the process ends for any reason."""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import time
from collections.abc import Iterator
from pathlib import Path

from recipes.errors import RecipeError


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds ``folder/.lock``.  Raises: RecipeError that names the process which holds it."""
    path = folder / ".lock"
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise RecipeError("run", "another process uses this run folder.",
                              {"folder": folder, "held by": file.read(1000).strip() or "unknown"},
                              "wait for it or stop it, or take another run_dir.") from None
        file.truncate(0)
        with contextlib.suppress(OSError):                    # on a full disk, another process does not see the name
            path.write_text(f"process {os.getpid()} on {platform.node()} since {time.strftime('%Y-%m-%d %H:%M:%S')}\n")
        try:
            yield
        finally:
            file.truncate(0)
