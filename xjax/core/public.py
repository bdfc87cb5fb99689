"""Attributes of the public modules: lazy imports on first access, and helpful errors for missing attributes."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from xjax.core.errors import bad, closest, did_you_mean
from xjax.core.left_out import reason
from xjax.core.other_names import aliases, name_elsewhere


def attributes_of(module: str, lazy: Mapping[str, tuple[str, str]] | None = None) -> Callable[[str], Any]:
    """The `__getattr__` of a public module. A module with lazy names also gets a `__dir__`, which lists them.

    Args:
      module: the name of the module, "xjax.scipy".
      lazy: public name -> (module that holds it, its name there; "" for the module itself), imported on first access.
        The names are added to the module's `__all__`.
    """
    lazy, namespace = lazy or {}, vars(sys.modules[module])
    if lazy:
        public = namespace["__all__"]
        public += [name for name in lazy if name not in public]
        namespace["__dir__"] = lambda: sorted({*namespace, *public})

    def __getattr__(name: str) -> Any:
        if name in lazy:
            holder, attribute = lazy[name]
            value = importlib.import_module(holder)
            namespace[name] = getattr(value, attribute) if attribute else value
            return namespace[name]
        if name.startswith("__"):                           # Python itself looks up such names often
            raise AttributeError(name)
        why = reason(module, name)
        if why:
            raise _without_name(name, bad(module, f"it has no `{name}`, on purpose", {"reason": why},
                                          "docs/left_out.md lists such names.", exc=AttributeError))
        raise _missing(module, name, _suggestion(module, name))

    return __getattr__


def missing_name(module: str, name: str, choices: Iterable[str], use: str | None = None) -> AttributeError:
    """The error for a name that a module does not have.

    Args: choices: the names that it has; use: the replacement, if it is known.
    """
    fix = f"use {use}." if use else did_you_mean(name, choices) or f"dir({module}) lists what it has."
    return _missing(module, name, fix)


def _missing(module: str, name: str, fix: str) -> AttributeError:
    return _without_name(name, bad(module, f"it has no `{name}`", fix=fix, exc=AttributeError))


def _without_name(name: str, error: AttributeError) -> AttributeError:
    """The error, without the object, in whose names Python would look for a second suggestion."""
    error.name, error.obj = name, None
    return error


def _suggestion(module: str, name: str) -> str:
    """The advice for a name that a module does not have: a similar name, or its name elsewhere."""
    elsewhere = name_elsewhere(module, name)
    if elsewhere:
        return f"use {elsewhere}."
    known = aliases(module)
    close = closest(name, [*sys.modules[module].__all__, *known])
    return f"did you mean {known.get(close, close)!r}?" if close else f"dir({module}) lists what it has."
