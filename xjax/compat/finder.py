"""`install_as_jax`: from then on ``import jax`` gives proxy modules over xjax; the real JAX is not imported."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import xjax
from xjax.compat.modules import JAX, Asked, Proxy, missing, sources_of
from xjax.core.errors import advise, bad
from xjax.core.versions import version_numbers
from xjax.jaxlib_versions import installed as jaxlib_version
from xjax.runtime.jit import Jitted


class Installed(NamedTuple):
    """The installation of xjax as jax.

    Attributes:
      version: the version of JAX that programs see.
      modules: the names of the modules that were imported.
      missing: the names that programs looked up in vain.
      real: the version of the real JAX that is installed, and never imported; None if there is none.
    """

    version: str
    modules: tuple[str, ...]
    missing: tuple[Asked, ...]
    real: str | None


class _Distribution(importlib.metadata.Distribution):
    """The entry `jax` of ``importlib.metadata``."""

    def __init__(self, version: str):
        self._version = version

    def read_text(self, filename: str) -> str | None:
        if filename != "METADATA":
            return None
        return f"Metadata-Version: 2.1\nName: {JAX}\nVersion: {self._version}\nSummary: xjax {xjax.__version__}\n"

    def locate_file(self, path: Any) -> Path:
        return Path(str(xjax.__file__)).parent.parent / path


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The import hook: it makes the modules `jax` and ``jax.*``."""

    def __init__(self, version: str):
        self.version = version

    def find_spec(self, fullname: str, path: object = None,
                  target: object = None) -> importlib.machinery.ModuleSpec | None:
        sources = sources_of(fullname) if fullname.partition(".")[0] == JAX else []
        if not sources:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, loader_state=sources, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return Proxy(spec.name, spec.loader_state)

    def exec_module(self, module: ModuleType) -> None:
        if module.__name__ in (JAX, f"{JAX}.version"):
            module.__version__ = self.version
            module.__version_info__ = version_numbers(self.version)

    def find_distributions(self, context: object = None) -> Iterator[importlib.metadata.Distribution]:
        name = getattr(context, "name", None)
        if name is None or re.sub(r"[-_.]+", "-", name).lower() == JAX:
            yield _Distribution(self.version)


_lock = threading.Lock()


def install_as_jax(version: str | None = None) -> Installed:
    """Let ``import jax`` give xjax in this process, for all modules that import it afterwards.

    Args: version: the version of JAX that programs see as ``jax.__version__``; that of jaxlib by default.
    Raises: RuntimeError if the real JAX is already imported, or if another version was installed before.
    """
    with _lock:
        finder = _finder()
        if finder is None:
            if JAX in sys.modules:
                raise _too_late(sys.modules[JAX])
            sys.meta_path.insert(0, Finder(version or jaxlib_version))
            advise.is_logged = True
            importlib.import_module(JAX)                # the mark of the installation; see `xjax_is_jax`
            Jitted.__name__ = Jitted.__qualname__ = "PjitFunction"      # libraries recognize it by the name of its type
        elif version not in (None, finder.version):
            raise bad("install_as_jax", "xjax is already installed as another version of jax",
                      {"version": version, "installed": finder.version},
                      "call install_as_jax once, at the start of the program.", RuntimeError)
    return _status()


def installed() -> Installed | None:
    """The installation in this process; None before `install_as_jax`."""
    return None if _finder() is None else _status()


def _status() -> Installed:
    finder = _finder()
    assert finder is not None
    modules = tuple([name for name, module in [*sys.modules.items()] if isinstance(module, Proxy)])
    return Installed(finder.version, modules, tuple(missing), _real_version(finder))


def _finder() -> Finder | None:
    return next((x for x in sys.meta_path if isinstance(x, Finder)), None)


def _real_version(finder: Finder) -> str | None:
    others: Sequence[Any] = [x for x in sys.meta_path if x is not finder and hasattr(x, "find_distributions")]
    context = importlib.metadata.DistributionFinder.Context(name=JAX)
    return next((each.version for x in others for each in x.find_distributions(context)), None)


def _too_late(jax: ModuleType) -> RuntimeError:
    return bad("install_as_jax", "the real jax is already imported", {"jax": getattr(jax, "__file__", None)},
               "call xjax.install_as_jax() before the first import of jax or of a library that imports it, or run the "
               "program by `python -m xjax`.", RuntimeError)
