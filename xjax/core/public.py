"""Attributes of the public modules: lazy imports on first access, and helpful errors for missing attributes."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from xjax.core.errors import bad, closest
from xjax.core.left_out import reason
from xjax.core.other_names import aliases, name_elsewhere


def attributes_of(module: str, lazy: Mapping[str, tuple[str, str]] | None = None) -> Callable[[str], Any]:
    """The `__getattr__` of a public module.

    Args:
      module: the name of the module, "xjax.scipy".
      lazy: public name -> (module that holds it, its name there; "" for the module itself), imported on first access.
        The names are added to the module's `__all__`.
    """
    lazy = lazy or {}
    if lazy:
        public = sys.modules[module].__all__
        public += [name for name in lazy if name not in public]

    def __getattr__(name: str) -> Any:
        if name in lazy:
            holder, attribute = lazy[name]
            value = importlib.import_module(holder)
            value = getattr(value, attribute) if attribute else value
            setattr(sys.modules[module], name, value)
            return value
        if name.startswith("__"):                           # Python itself looks up such names often
            raise AttributeError(name)
        why = reason(module, name)
        if why:
            raise bad(module, f"it has no `{name}`, on purpose", {"reason": why}, "docs/left_out.md lists such names.",
                      exc=AttributeError)
        raise bad(module, f"it has no `{name}`", fix=_suggestion(module, name), exc=AttributeError)

    return __getattr__


def _suggestion(module: str, name: str) -> str:
    """The advice for a name that a module does not have: a similar name, or its name elsewhere."""
    elsewhere = name_elsewhere(module, name)
    if elsewhere:
        return f"use {elsewhere}."
    known = aliases(module)
    close = closest(name, [*sys.modules[module].__all__, *known])
    return f"did you mean {known.get(close, close)!r}?" if close else f"dir({module}) lists what it has."
