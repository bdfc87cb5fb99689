"""How tests compile: in half the time.

Nearly all of the time of the tests is compiling, with jaxlib 0.10 most of it in XLA's MLIR emitters. So there `FLAGS`
are in XLA_FLAGS, for xjax and for real JAX, the oracle: XLA takes its older emitters. Tests of what XLA makes of a
program (what it fuses and rounds, how much memory it takes) use the fixture `as_shipped`. Later versions compile
everything as shipped: they are quicker, and have the newer emitters only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

_OPTIONS = {"xla_cpu_use_fusion_emitters": (False, True), "xla_cpu_parallel_codegen_split_count": (1, 32)}
_HELD = version("jaxlib").startswith("0.10.")

FLAGS = " ".join(f"--{name}={str(quick).lower()}" for name, (quick, _) in _OPTIONS.items()) if _HELD else ""
SHIPPED = {name: shipped for name, (_, shipped) in _OPTIONS.items()} if _HELD else {}


@contextlib.contextmanager
def as_shipped() -> Iterator[None]:
    """Within, xjax compiles programs as it does for users, also those that it has compiled already."""
    if not SHIPPED:
        yield
        return
    import xjax  # here: XLA_FLAGS is set before
    from xjax.core.config import Override
    from xjax.runtime import xla

    compile_quickly = xla.compile

    def compile_(*args: Any, options: Any = None, **more: Any) -> Any:
        return compile_quickly(*args, options={**SHIPPED, **(options or {})}, **more)

    xjax.clear_caches()
    xla.compile = compile_
    try:
        with Override("enable_compilation_cache", False):        # its entries were compiled quickly
            yield
    finally:
        xla.compile = compile_quickly
        xjax.clear_caches()
