"""The examples in the docstrings run, module by module."""

import doctest
import importlib
import pkgutil

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn

# Modules whose functions are defined elsewhere, under names that their examples use.
_DEFINED_IN = {"xjax.tree": ("xjax.core.tree", "xjax.core.tree_nodes")}
# Libraries that a module's examples need besides the core dependencies.
_NEEDS = {"xnn.optim": "optax", "xjax.interop.bridge": "jax"}


def _modules(package):
    return [info.name for info in pkgutil.walk_packages(package.__path__, package.__name__ + ".")]


@pytest.mark.parametrize("name", [*_modules(xjax), *_modules(xnn)])
def test_doctests(name):
    if name in _NEEDS:
        pytest.importorskip(_NEEDS[name])
    module = importlib.import_module(name)
    names = {"xjax": xjax, "xnn": xnn, "jnp": jnp, "np": np, "lax": xjax.lax, "random": xjax.random}
    for holder in _DEFINED_IN.get(name, ()):
        names |= vars(importlib.import_module(holder))
    result = doctest.testmod(module, extraglobs={k: v for k, v in names.items() if k not in vars(module)},
                             optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert result.failed == 0
