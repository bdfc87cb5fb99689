"""Output of the options log_compiles, explain_cache_misses, logging_level and dump_ir_to, by the logger 'xjax'."""

from __future__ import annotations

import itertools
import logging
import re
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from xjax.core.config import TRACED, config
from xjax.core.errors import bad, location_text, user_location, warn
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


# -- why a function is traced again -------------------------------------------------------------------------------

_traced_code: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()   # code object -> function last traced


def explain_miss(name: str, fun: Callable, key: tuple, known: Sequence[tuple],
                 names: Sequence[str]) -> None:
    """Log why none of the existing traces of a jitted function fits a call.

    Args:
      key: (tree, avals, static values, static parameters, trace key, axes) of the call.
      known: the keys of the existing traces.
      names: names of the leaves of the arguments.
    """
    if not known:
        given, fix = _first_trace(fun)
    else:
        closest = max(known, key=lambda other: _likeness(key, other))
        given, fix = _differences(key, closest, names)
    line = location_text(user_location()) or "an unknown line"
    what = "again; differences from the closest earlier trace:" if known else "for the first time"
    logger.warning("%s", bad(f"jit `{name}` at {line}", f"is traced {what}", given, fix))


def _likeness(key: tuple, other: tuple) -> tuple:
    same = [a == b for a, b in zip(key, other, strict=True)]
    alike = sum(a is b for a, b in zip(key[1], other[1], strict=False)) if same[0] else -1
    return sum(same), alike


def _first_trace(fun: Callable) -> tuple[Mapping[str, str], str | None]:
    code = getattr(fun, "__code__", None)
    if code is None:
        return {}, None
    before = _traced_code.get(code)
    try:
        _traced_code[code] = weakref.ref(fun)
    except TypeError:
        return {}, None
    if before is None or before() is fun:
        return {}, None
    return ({"function": f"a new object, made by the same code at {Path(code.co_filename).name}:{code.co_firstlineno} "
                         "as a function that was traced before"},
            "define the function once, outside the loop or function that calls it; pass the values that it closes over "
            "as arguments.")


def _differences(key: tuple, old: tuple, names: Sequence[str]) -> tuple[Mapping[str, str], str]:
    """The differences, as old -> new, and how to avoid the first of them."""
    tree, avals, static, _, options, axes = key
    given, fixes = {}, []
    if tree != old[0]:
        given["structure"] = f"{old[0]} -> {tree}"
        fixes.append("pass arguments of one structure: the same keys, lengths and keywords, None in the same places.")
    else:
        changed = {name: (a, b) for name, a, b in zip(names, old[1], avals, strict=True) if a is not b}
        given |= {name: f"{_show(a)} -> {_show(b)}" for name, (a, b) in changed.items()}
        fixes += [_fix(changed.values())] * bool(changed)
    if static != old[2]:
        given["static arguments"] = f"{_static(old[2])} -> {_static(static)}"
        fixes.append("each value of a static argument is traced and compiled; if it is a number to compute with, drop "
                     "it from static_argnums.")
    if options is not old[4]:
        changed = {n: (a, b) for n, a, b in zip(TRACED, old[4].values, options.values, strict=True) if a != b}
        given |= {n if n == "mesh" else f"option {n}": f"{a!r} -> {b!r}" for n, (a, b) in changed.items()}
        fixes.append("always call the function under the same current mesh." if "mesh" in changed else
                     "set options once, at start-up.")
    if axes != old[5]:
        given["named axes"] = f"{old[5]} -> {axes}"
        fixes.append("always call the function under the same named axes.")
    return given, fixes[0] if fixes else ""


def _show(aval: ShapedArray) -> str:
    return aval.str_short() + (" weakly typed" if aval.weak_type else "")


def _fix(pairs: Any) -> str:
    pairs = list(pairs)
    if any(a.shape != b.shape for a, b in pairs):
        return "pad to one shape (numpy.pad, a mask), or call with few different sizes."
    if any(a.dtype != b.dtype for a, b in pairs):
        return "convert the argument to one dtype before the call: x.astype(...)."
    return "always pass an array, numpy.asarray(x, dtype), or always a Python number."


def _static(key: tuple | None) -> str:
    values = [f"{which}={value!r}"[:60] for which, value in zip(key[1], key[2], strict=True)] if key else []
    return ", ".join(values) or "none"
