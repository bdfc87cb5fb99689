"""The examples in the docstrings run, module by module."""

import doctest
import importlib
import pkgutil

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn

# Modules whose import needs more than the core dependencies; their packages are tested under tests/recipes.
_OPTIONAL = {"xnn.optim"}


def _modules(package):
    for info in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if info.name not in _OPTIONAL:
            yield info.name


@pytest.mark.parametrize("name", [*_modules(xjax), *_modules(xnn)])
def test_doctests(name):
    module = importlib.import_module(name)
    names = {"xjax": xjax, "jnp": jnp, "np": np, "lax": xjax.lax, "random": xjax.random}
    result = doctest.testmod(module, extraglobs={k: v for k, v in names.items() if k not in vars(module)},
                             optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert result.failed == 0
