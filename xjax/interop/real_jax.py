"""The real JAX, imported when it is first needed, and its settings while it traces for xjax.

JAX only traces; all programs run in xjax. So JAX does not need an accelerator, and is kept on the CPU unless the user's
program has already started it.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
import threading
from collections.abc import Iterator
from types import ModuleType

from xjax.core.config import config
from xjax.core.errors import bad
from xjax.runtime.xla.real_jax import imported_jax, xjax_is_jax


@functools.cache
def real_jax() -> ModuleType:
    """The module `jax`; it is configured to use the CPU if it has not started a backend.

    Raises: ImportError if it is not installed, RuntimeError if xjax is installed as jax.
    """
    jax = import_or_explain("jax")
    if imported_jax() is None:
        raise bad("xjax.interop", "xjax is installed as jax in this process, so the real JAX cannot be imported",
                  fix="pass the function or library to xjax directly: it runs on xjax.", exc=RuntimeError)
    if jax.config.jax_platforms is None and not _has_started():
        jax.config.update("jax_platforms", "cpu")
    return jax


def import_library(name: str) -> ModuleType:
    """A library that is written in JAX (``"optax"``), imported after the real JAX is configured to use the CPU.

    Where xjax is installed as jax, the library runs on it, and the real JAX is not imported.

    Raises: ImportError if the library or JAX is not installed.
    """
    if not xjax_is_jax():
        real_jax()
    return import_or_explain(name)


def import_or_explain(name: str) -> ModuleType:
    """The module `name`. Raises: ImportError with instructions to install it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0]:
            raise
        raise bad("xjax.interop", f"the module {name!r} is not installed",
                  fix="install the packages for functions written in JAX: pip install 'xjax[nn]'.",
                  exc=ImportError) from None


def _has_started() -> bool:
    """Whether JAX has started a backend. There is no public function for this; if unknown, JAX is not configured."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    ask = getattr(bridge, "backends_are_initialized", None)
    return True if ask is None else ask()


@contextlib.contextmanager
def same_options() -> Iterator[None]:
    """Set the options of JAX that change traced programs to their values in xjax."""
    jax = real_jax()
    with jax.enable_x64(config.enable_x64), jax.threefry_partitionable(config.threefry_partitionable):
        yield


class _World(threading.local):
    """Whether this thread runs JAX code; bridged functions then call their JAX functions directly."""

    inside_jax = False


world = _World()


@contextlib.contextmanager
def inside_jax(inside: bool = True) -> Iterator[None]:
    """Context for JAX code (or, with False, for xjax code that JAX calls)."""
    saved, world.inside_jax = world.inside_jax, inside
    try:
        with same_options():
            yield
    finally:
        world.inside_jax = saved


def is_jax_tracer(x: object) -> bool:
    """Whether `x` is a value that JAX is tracing."""
    jax = imported_jax()
    return jax is not None and isinstance(x, jax.core.Tracer)


def is_jax_array(x: object) -> bool:
    """Whether `x` is an array of the real JAX, concrete or traced."""
    jax = imported_jax()
    return jax is not None and isinstance(x, jax.Array)
