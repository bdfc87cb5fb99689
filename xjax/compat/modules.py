"""Modules under JAX's names: each is a proxy of a module of xjax, or of an adapter in this package, or of both."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, NamedTuple

import xjax
from xjax.compat.private import private_module
from xjax.core.errors import bad

JAX, XJAX, ADAPTERS = "jax", "xjax", "xjax.compat.adapters"

# Packages and modules of xjax whose names have another meaning in JAX, or none.
NOT_OF_JAX = frozenset({"compat", "core", "forms", "interop", "jaxlib_versions", "runtime", "transforms", "version"})


class Asked(NamedTuple):
    """A name that a program looked up and that does not exist here."""

    module: str
    name: str
    asker: str


missing: list[Asked] = []
"""The names that were looked up in vain, in the order of the first look-up."""


class Proxy(ModuleType):
    """A module of JAX whose attributes are those of its sources.

    An attribute that a program sets is set here, not on a module of xjax. A look-up stores the attribute here, so the
    next one is that of any module.
    """

    def __init__(self, name: str, sources: Sequence[ModuleType]):
        super().__init__(name, sources[0].__doc__)
        self.__dict__["__xjax_sources__"] = tuple(sources)
        self.__file__ = str(Path(str(xjax.__file__)).parent / name.replace(".", "/")) + ".py"
        self.__all__ = sorted({public for source in sources for public in getattr(source, "__all__", ())})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        advice = "report it with the name of the library, or avoid the call."
        for source in self.__xjax_sources__:
            try:
                value = getattr(source, name)
            except AttributeError as error:
                advice = str(error).partition("fix:")[2].strip() or advice
                continue
            if isinstance(value, ModuleType) and value.__name__.partition(".")[0] == XJAX:
                if not sources_of(f"{self.__name__}.{name}"):           # a module of xjax's implementation
                    continue
                value = importlib.import_module(f"{self.__name__}.{name}")
            setattr(self, name, value)
            return value
        if sources_of(f"{self.__name__}.{name}"):
            return importlib.import_module(f"{self.__name__}.{name}")
        raise self._without(name, advice)

    def _without(self, name: str, advice: str) -> AttributeError:
        asker = _asker(sys._getframe(1))
        if all(asked[:2] != (self.__name__, name) for asked in missing):
            missing.append(Asked(self.__name__, name, asker))
        error = bad(self.__name__, f"xjax has no `{name}`", {"asked by": asker}, advice, AttributeError)
        error.name, error.obj = name, None
        return error

    def __dir__(self) -> list[str]:
        return sorted({*vars(self), *(name for source in self.__xjax_sources__ for name in dir(source))})


def sources_of(name: str) -> list[ModuleType]:
    """The modules that provide the attributes of the module `name` of JAX, an adapter first; none if there is none."""
    path = name.partition(".")[2]
    adapter = f"{ADAPTERS}.{path.replace('.', '__') or 'jax'}"
    sources = [importlib.import_module(adapter)] if importlib.util.find_spec(adapter) else []
    private = private_module(path)
    if private is not None:
        sources.append(private)
    public = f"{XJAX}.{path}" if path else XJAX
    if path.partition(".")[0] not in NOT_OF_JAX and _exists(public):
        module = importlib.import_module(public)
        if "__getattr__" in vars(module):               # public modules explain names that they do not have
            sources.append(module)
    return sources


def _exists(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:                         # there is no parent
        return False


def _asker(frame: FrameType | None) -> str:
    """The place of a look-up: the module of the frame outside this file, and the line."""
    while frame is not None and frame.f_globals.get("__name__") in (__name__, "importlib._bootstrap"):
        frame = frame.f_back
    if frame is None:
        return "unknown"
    return f"{frame.f_globals.get('__name__', '?')} ({frame.f_code.co_filename}:{frame.f_lineno})"
