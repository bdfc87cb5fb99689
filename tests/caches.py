"""An on-disk cache of the programs that tests compile with xjax and JAX: a second run compiles only changed programs.

The cache is in `~/.cache/xjax-tests` (or in `xjax-tests` of $XDG_CACHE_HOME), apart from the user's own caches, with
one folder for each jaxlib and processor. xjax limits the size of its part itself; JAX's part is trimmed at the end of a
run. The folder may be deleted at any time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
from importlib.metadata import version
from pathlib import Path

MAX_BYTES = 1 << 30             # of each library's part


def folder() -> Path:
    """The folder for the installed jaxlib and this processor, created if absent; in the checkout without a home."""
    name = f"jaxlib-{version('jaxlib')}-{_processor()}"
    home = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "xjax-tests" / name
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        home = Path(__file__).resolve().parents[1] / ".pytest_cache" / "xjax-tests" / name
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    return home


def use_for_xjax() -> None:
    """Set environment variables for this process and its child processes; call it before xjax is imported."""
    os.environ.setdefault("XJAX_COMPILATION_CACHE_DIR", str(folder() / "xjax"))
    os.environ.setdefault("XJAX_COMPILATION_CACHE_MAX_SIZE", str(MAX_BYTES))
    os.environ.setdefault("XJAX_CACHE_COMPILED_FUNCTIONS", "true")


def use_for_jax() -> None:
    """Set JAX's options. JAX's environment variables are not set, because xjax reads them too."""
    import jax

    jax.config.update("jax_compilation_cache_dir", str(folder() / "jax"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def trim(directory: Path, max_bytes: int = MAX_BYTES) -> None:
    """Delete the oldest files until the rest fits. Several processes may do so at the same time."""
    files = []
    for path in directory.glob("*"):
        with contextlib.suppress(OSError):          # another process may have deleted it
            files.append((path.stat().st_mtime, path.stat().st_size, path))
    excess = sum(size for _, size, _ in files) - max_bytes
    for _, size, path in sorted(files):
        if excess <= 0:
            return
        path.unlink(missing_ok=True)
        excess -= size


def _processor() -> str:
    """A short name for the instruction sets of the processor, as Linux lists them; compiled code depends on them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        text = "\n".join(sorted({line for line in lines if line.startswith(("flags", "Features", "model name"))}))
    except OSError:
        text = platform.processor()
    return hashlib.sha256(f"{platform.machine()}\n{text}".encode()).hexdigest()[:8]
