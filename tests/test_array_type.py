"""The methods that `xjax.Array` declares for type checkers are the methods of arrays."""

import ast
import inspect

import pytest

import xjax.numpy as jnp
from tests.rooms import ROOT
from xjax.numpy.methods import METHODS, PROPERTIES

_SOURCE = ast.parse((ROOT / "xjax" / "core" / "array_type.py").read_text())
_CLASSES = {node.name: node for node in ast.walk(_SOURCE) if isinstance(node, ast.ClassDef)}


def declared(name: str) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in ast.walk(_CLASSES[name]) if isinstance(node, ast.FunctionDef)}


def parameters(function: ast.FunctionDef) -> list[str]:
    """Each parameter with its default, in order, without `self`."""
    for node in ast.walk(function.args):
        if isinstance(node, ast.arg):
            node.annotation = None
    return without_self(eval("lambda " + ast.unparse(function.args).strip() + ": 0"))


def without_self(function) -> list[str]:
    arguments = list(inspect.signature(function).parameters.values())[1:]
    return [f"{each.name}={each.default}" if each.default is not each.empty else each.name for each in arguments]


def test_each_method_is_declared():
    names = {name for name in METHODS if not name.startswith("__r")} | PROPERTIES.keys()
    assert names - {"__setitem__", "__delitem__"} <= declared("Array").keys()
    assert declared("Array").keys() <= set(dir(jnp.ones(3)))


@pytest.mark.parametrize("name", sorted(name for name in METHODS if not name.startswith("__") and name != "compress"))
def test_parameters(name):
    assert parameters(declared("Array")[name]) == without_self(METHODS[name])


def test_updates():
    update = jnp.ones(3).at[0]
    assert declared("_Update").keys() == {name for name in dir(update) if not name.startswith("_")} - {"array", "index"}
