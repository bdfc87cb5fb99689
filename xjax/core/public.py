"""Attributes of the public modules: heavy ones are imported on first access, and a missing one says what to do."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from xjax.core.errors import bad, did_you_mean
from xjax.core.left_out import reason


def attributes_of(module: str, lazy: Mapping[str, tuple[str, str]] | None = None) -> Callable[[str], Any]:
    """The `__getattr__` of a public module.

    Args:
      module: its name, "xjax.scipy".
      lazy: public name -> (module that holds it, its name there; "" for the module itself), imported on first access.
    """
    lazy = lazy or {}

    def __getattr__(name: str) -> Any:
        if name in lazy:
            holder, attribute = lazy[name]
            found = importlib.import_module(holder)
            found = getattr(found, attribute) if attribute else found
            setattr(sys.modules[module], name, found)
            return found
        if name.startswith("__"):                           # asked for by Python itself, all the time
            raise AttributeError(name)
        why = reason(module, name)
        if why:
            raise bad(module, f"it has no `{name}`, on purpose", {"reason": why}, "docs/left_out.md lists such names.",
                      exc=AttributeError)
        raise bad(module, f"it has no `{name}`",
                  fix=did_you_mean(name, sys.modules[module].__all__) or f"dir({module}) lists what it has.",
                  exc=AttributeError)

    return __getattr__
