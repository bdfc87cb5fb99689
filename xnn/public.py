"""Names of public modules: loaded when they are first used, listed by `dir`, and suggested for misspelt ones.

This module needs only the standard library: configs of models are read without jaxlib.
"""

import importlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any


def public_names(module: str, modules: Sequence[str] = (), holders: Mapping[str, str] | None = None,
                 others: str | None = None) -> None:
    """Give a module its `__getattr__` and `__dir__`; type checkers do not see them, and report misspelt names.

    Args:
      module: the name of the module, "xnn.graph".
      modules: names of its modules that are loaded at their first use, besides its `__all__`.
      holders: public name -> the module that holds it, which is loaded at its first use.
      others: the module with all other public names; they are loaded together, and make the `__all__`.
    """
    namespace, holders = vars(sys.modules[module]), holders or {}

    def load_others() -> None:
        if others is not None and "__all__" not in namespace:
            holder = importlib.import_module(others)
            namespace.update({name: getattr(holder, name) for name in holder.__all__} | {"__all__": holder.__all__})

    def __getattr__(name: str) -> Any:
        if name in modules:
            return importlib.import_module(f"{module}.{name}")
        if name in holders:
            namespace[name] = getattr(importlib.import_module(holders[name]), name)
            return namespace[name]
        if name.startswith("__") and name != "__all__":     # attributes that the import system reads
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        load_others()
        if name not in namespace:
            here = _here(name, __dir__())
            use = f"{module}.{here}" if here else None
            raise importlib.import_module("xjax.errors").missing_name(module, name, __dir__(), use)
        return namespace[name]

    def __dir__() -> list[str]:
        load_others()
        return sorted({*namespace["__all__"], *modules})

    namespace.update(__getattr__=__getattr__, __dir__=__dir__)


# Names of other libraries that are not similar to the name here.
_OTHER_NAMES = {
    "Linear": "Dense", "Sequential": "serial", "Chain": "serial", "Embed": "Embedding", "Module": "Layer",
    "ModuleList": "named", "ModuleDict": "named", "Lambda": "lambda_", "Swish": "Silu", "remat": "with_remat",
    "checkpoint": "with_remat", "CrossEntropyLoss": "losses.cross_entropy", "MSELoss": "losses.mse",
    "BCEWithLogitsLoss": "losses.binary_cross_entropy", "L1Loss": "losses.mae", "tabulate": "describe",
}


def _here(name: str, names: Sequence[str]) -> str | None:
    """The name here for one of another library: `Dense` for `Linear`, `Relu` for `ReLU`, `Conv` for `Conv2d`."""
    known = _OTHER_NAMES.get(name, "")
    if known.split(".")[0] in names:
        return known
    by_lower = {each.lower(): each for each in names}
    shorter = name.lower()[:-2] if name.lower().endswith(("1d", "2d", "3d")) else ""
    return by_lower.get(name.lower()) or by_lower.get(shorter)
