"""`set_cache_dir`: compiled programs are kept in a folder, where later processes find them."""

from __future__ import annotations

import os

from xjax.core.config import config
from xjax.core.public import attributes_of
from xjax.runtime.programs.compile_cache import reopen

__all__ = ["reset_cache", "set_cache_dir"]


def set_cache_dir(path: str | os.PathLike[str]) -> None:
    """Keep compiled functions in this folder, and look for them there before compiling.

    It sets the options `jax_compilation_cache_dir` and `cache_compiled_functions`. The folder is created if it does not
    exist. It must belong to the user and be closed to others, since its files are native code.
    """
    config.update("jax_compilation_cache_dir", os.fspath(path))
    config.update("cache_compiled_functions", True)


def reset_cache() -> None:
    """Look at the folder again, as if no program had been compiled; its files stay."""
    reopen()


__getattr__ = attributes_of(__name__)
