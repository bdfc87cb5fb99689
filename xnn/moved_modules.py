"""Old names of moved modules and renamed attributes, which are still accepted.

Pickles and users' programs contain the old names.
"""

import importlib
import sys
import warnings
from collections.abc import Callable, Mapping
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def accept_old_names(package: str, rooms: Mapping[str, str]) -> None:
    """Make imports of modules by their old names work, with a DeprecationWarning.

    Args:
      package: name of the package that holds the modules, such as "xnn.graph".
      rooms: name of a subpackage -> old names of the modules in it, separated by spaces. A module that was also renamed
        is written "old=new".
    """
    moved = {}
    for room, names in rooms.items():
        for name in names.split():
            old, _, new = name.partition("=")
            moved[f"{package}.{old}"] = f"{package}.{room}.{new or old}"
    sys.meta_path.append(_OldNames(moved))      # last, so that it is used only if no module has the name


def old_names(module: str, **renamed: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module with renamed attributes, old="new"; a DeprecationWarning shows the new name."""
    def get(name: str) -> Any:
        if name not in renamed:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warnings.warn(f"{module}.{name} is {renamed[name]} now", DeprecationWarning, stacklevel=2)
        return getattr(sys.modules[module], renamed[name])

    return get


def old_attribute(name: str, new: str) -> property:
    """A property for the old name of an attribute, such as "CSR.near", with the same warning as `old_names`."""
    def get(self: Any) -> Any:
        warnings.warn(f"{name} is {new} now", DeprecationWarning, stacklevel=2)
        return getattr(self, new)

    return property(get)


class _OldNames(MetaPathFinder, Loader):
    def __init__(self, moved: Mapping[str, str]) -> None:
        self._moved = moved

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name in self._moved else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        new = self._moved[spec.name]
        warnings.warn(f"{spec.name} is {new} now", DeprecationWarning, stacklevel=2)
        module = importlib.import_module(new)
        spec.loader_state = module.__spec__                 # the import system puts `spec` in its place
        return module

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state
