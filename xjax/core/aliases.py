"""Second names of functions: as in JAX, many of them are separate functions with their own `__name__`."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from types import FunctionType
from typing import ParamSpec, TypeVar

Args = ParamSpec("Args")
Result = TypeVar("Result")


def alias(f: Callable[Args, Result], name: str, module: str | None = None) -> Callable[Args, Result]:
    """`f` as another function called `name`: the same code, defaults, attributes and docstring.

    A copy and not a wrapper: a call costs the same as a call of `f`.

    Args: module: its `__module__`, if that is not the module of `f`: pickle looks the function up there.
    """
    assert isinstance(f, FunctionType), f
    other = FunctionType(f.__code__, f.__globals__, name, f.__defaults__, f.__closure__)
    other.__kwdefaults__ = f.__kwdefaults__
    update_wrapper(other, f)
    other.__dict__.clear()                                  # update_wrapper adds `__wrapped__`
    other.__dict__.update(f.__dict__)
    other.__name__ = other.__qualname__ = name
    other.__module__ = module or f.__module__
    return other
