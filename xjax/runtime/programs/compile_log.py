"""Output of the options log_compiles, logging_level and dump_ir_to, by the logger 'xjax'."""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xjax.core.config import config
from xjax.core.errors import warn
from xjax.core.types import ShapedArray

logger = logging.getLogger("xjax")
logger.setLevel(config.logging_level)
config.on_update("logging_level", lambda old, new: logger.setLevel(new))


def log_step(step: str, name: str, avals: Sequence[ShapedArray], seconds: float) -> None:
    """``traced jit `f` for (f32[3], i32[]) in 0.012 s``: a warning under log_compiles, else at level DEBUG."""
    level = logging.WARNING if config.log_compiles else logging.DEBUG
    if logger.isEnabledFor(level):
        types = ", ".join(a.str_short() for a in avals)
        logger.log(level, "%s %s for (%s) in %.3f s", step, name, types, seconds)


_dumped = itertools.count(1)


def dump_program(text: str) -> None:
    """Write a program to be compiled to the folder of the option dump_ir_to."""
    if config.dump_ir_to:
        name = re.match(r'module @"?([\w.]*)', text)
        folder = Path(config.dump_ir_to)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{next(_dumped):04d}_{name[1] if name else 'program'}.mlir").write_text(text)


def warn_of_large(caller: str, consts: Sequence[Any]) -> None:
    """Warn if the captured arrays of a function take more bytes than the option captured_constants_warn_bytes."""
    limit = config.captured_constants_warn_bytes
    size = sum(getattr(c, "nbytes", 0) for c in consts)
    if 0 <= limit < size:
        warn(f"{caller}: the function captures arrays of {size:,} bytes, which each call passes to the executable. "
             "fix: pass them as arguments.")
