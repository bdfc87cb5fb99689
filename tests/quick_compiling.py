"""Compiler options of xjax and real JAX in the tests: few optimizations, which take a third of the usual time.

Compilation takes nearly all of the time of the tests. `FLAGS` are put into XLA_FLAGS, which both libraries read. For
single operations xjax requests an optimization level of its own; `install` sets it to the lowest level too. On jaxlib
0.10, where most of the remaining time is spent in XLA's MLIR emitters, `FLAGS` also select the older emitters.

Tests of XLA's optimizations (fusion, rounding, use of memory) use the fixture `as_shipped`.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Any

_LEVEL = "xla_backend_optimization_level"
_OLDER_EMITTERS = {"xla_cpu_use_fusion_emitters": (False, True), "xla_cpu_parallel_codegen_split_count": (1, 32)}
_OPTIONS = {_LEVEL: (0, 3), **(_OLDER_EMITTERS if version("jaxlib").startswith("0.10.") else {})}

FLAGS = " ".join(f"--{name}={str(quick).lower()}" for name, (quick, _) in _OPTIONS.items())
_SHIPPED = {name: shipped for name, (_, shipped) in _OPTIONS.items()}

_compiles_quickly = False


def flags(devices: int | None = None) -> str:
    """XLA_FLAGS of a process that a test starts, with this number of CPU devices and the quick options of the tests."""
    quick = FLAGS if FLAGS in os.environ.get("XLA_FLAGS", "") else ""
    return quick if devices is None else f"{quick} --xla_force_host_platform_device_count={devices}".lstrip()


def install() -> None:
    """Make xjax and JAX compile quickly, except within `as_shipped`; without effect if the user has set XLA_FLAGS."""
    global _compiles_quickly
    _compiles_quickly = FLAGS in os.environ["XLA_FLAGS"]
    if not _compiles_quickly:
        return
    from xjax.runtime import xla  # here, after XLA_FLAGS is set
    from xjax.runtime.programs import compile_cache

    xla.compile = _chosen(xla.compile)
    compile_cache.compile_cached = _chosen(compile_cache.compile_cached)        # its key includes the options
    if "jax" in sys.modules:
        from jax._src import compiler  # JAX has no public option for all compilations

        compiler.get_compile_options = _chosen_by_jax(compiler.get_compile_options)


def _chosen(compile_: Callable[..., Any]) -> Callable[..., Any]:
    """`compile_` with the current options; options of the caller take precedence."""
    @functools.wraps(compile_)
    def run(*args: Any, optimization_level: int | None = None, options: Any = None, **more: Any) -> Any:
        options = dict(options or {})
        if _compiles_quickly:
            optimization_level = 0
        else:
            level = _SHIPPED[_LEVEL] if optimization_level is None else optimization_level
            options = {**_SHIPPED, _LEVEL: level, **options}
        return compile_(*args, optimization_level=optimization_level, options=options, **more)
    return run


def _chosen_by_jax(get_options: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(get_options)
    def run(*args: Any, **more: Any) -> Any:
        options = get_options(*args, **more)
        if not _compiles_quickly:
            options.env_option_overrides = list({**_SHIPPED, **dict(options.env_option_overrides)}.items())
        return options
    return run


@contextlib.contextmanager
def as_shipped(needed: bool = True) -> Iterator[None]:
    """Within this context, if needed, xjax and JAX compile programs as for users, also already compiled ones."""
    global _compiles_quickly
    if not (needed and _compiles_quickly):
        yield
        return
    _clear_caches()
    _compiles_quickly = False
    try:
        yield
    finally:
        _compiles_quickly = True
        _clear_caches()


def _clear_caches() -> None:
    for name in ("xjax", "jax"):
        if name in sys.modules:
            sys.modules[name].clear_caches()
