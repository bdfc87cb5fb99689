"""Every primitive has every rule; where one cannot exist, that is said, in the list here too."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import xjax
from xjax.core.primitive import RULES, Missing, all_primitives


def load_all() -> None:
    """Import every module of xjax, so that every primitive is declared."""
    for module in pkgutil.walk_packages(xjax.__path__, "xjax."):
        if not module.name.startswith("xjax.interop"):
            importlib.import_module(module.name)


load_all()
PRIMITIVES = sorted(all_primitives().items())
