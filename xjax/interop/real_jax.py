"""The real JAX, imported when it is first needed, and the settings under which it traces for us.

Only tracing happens there: whatever runs, runs in xjax. So JAX needs no accelerator, and is kept on the CPU unless the
user's program has started it already.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
import threading
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from xjax.core.config import config
from xjax.core.errors import bad


@functools.cache
def real_jax() -> ModuleType:
    """The module `jax`, kept on the CPU while it has no backend yet.

    Raises: ImportError if it is not installed.
    """
    jax = import_or_explain("jax")
    if jax.config.jax_platforms is None and not _has_started():
        jax.config.update("jax_platforms", "cpu")
    return jax


def import_library(name: str) -> ModuleType:
    """A library that is written in JAX (``"optax"``), imported after the real JAX has been put on the CPU.

    Raises: ImportError if it, or JAX, is not installed.
    """
    real_jax()
    return import_or_explain(name)


def import_or_explain(name: str) -> ModuleType:
    """The module `name`. Raises: ImportError that says how to install it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0]:
            raise
        raise bad("xjax.interop", f"the module {name!r} is not installed",
                  fix="install what functions written in JAX need: pip install 'xjax[nn]'.", exc=ImportError) from None


def _has_started() -> bool:
    """Whether JAX has a backend. JAX has no public way to ask; without an answer it is left alone."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    ask = getattr(bridge, "backends_are_initialized", None)
    return True if ask is None else ask()


@contextlib.contextmanager
def same_options() -> Iterator[None]:
    """Options that decide what JAX traces, as they are set in xjax."""
    jax = real_jax()
    with jax.enable_x64(config.enable_x64), jax.threefry_partitionable(config.threefry_partitionable):
        yield


class _World(threading.local):
    """Whether this thread runs a function for JAX: bridged functions then are the JAX functions they stand for."""

    inside_jax = False


world = _World()


@contextlib.contextmanager
def inside_jax(inside: bool = True) -> Iterator[None]:
    """Run JAX code (or, with False, xjax code that JAX calls)."""
    saved, world.inside_jax = world.inside_jax, inside
    try:
        with same_options():
            yield
    finally:
        world.inside_jax = saved


def is_jax_tracer(x: Any) -> bool:
    """Whether `x` is a value that JAX is tracing."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(x, jax.core.Tracer)


def is_jax_array(x: Any) -> bool:
    """Whether `x` is an array of the real JAX, concrete or traced."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(x, jax.Array)
