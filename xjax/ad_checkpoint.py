"""`checkpoint`, its policies, and the values that a derivative saves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xjax import checkpoint_policies
from xjax.core import dtypes
from xjax.core.calls import argument_names, flatten_function, function_name
from xjax.core.public import attributes_of
from xjax.core.staging import trace_to_jaxpr
from xjax.core.tree import flatten, keystr, tree_flatten_with_path
from xjax.core.types import ShapedArray, typeof
from xjax.transforms.checkpoint_policies import (
    Offloadable,
    Recompute,
    Saveable,
    checkpoint_name,
    checkpoint_name_fwd,
    name_p,
)
from xjax.transforms.linearize import linearize_flat
from xjax.transforms.remat import checkpoint
from xjax.transforms.residuals import origins
from xjax.typing import ArrayLike

__all__ = [
    "Offloadable", "Recompute", "Saveable", "checkpoint", "checkpoint_name", "checkpoint_name_fwd",
    "checkpoint_policies", "name_p", "print_saved_residuals"]


def print_saved_residuals(f: Callable, *args: object, **kwargs: object) -> None:
    """Print the residuals of the backward pass of `f(*args, **kwargs)`: the type of each value, and its origin.

    >>> print_saved_residuals(lambda x: xjax.numpy.sin(x), 1.0)
    f32[] output of cos from ...
    """
    for aval, source in saved_residuals(f, *args, **kwargs):
        print(f"{aval.str_short()} {source}")


def saved_residuals(f: Callable, *args: object, **kwargs: object) -> list[tuple[ShapedArray, str]]:
    """(type, origin) of each residual of the backward pass, each value once."""
    caller = f"saved_residuals of `{function_name(f)}`"
    leaves, tree = flatten((args, kwargs))
    avals = [typeof(x) for x in leaves]
    active = [dtypes.is_inexact(a.dtype) for a in avals]

    def residuals(*xs: ArrayLike) -> list[Any]:
        flat = flatten_function(f, tree, keywords=True, caller=caller)
        return linearize_flat(flat, xs, active, caller).program.consts

    return origins(trace_to_jaxpr(residuals, avals, caller).jaxpr, _names(f, args, kwargs))


def _names(f: Callable, args: tuple, kwargs: dict) -> list[str]:
    """The name of each leaf of the arguments in the user's function: ``params['w']``."""
    keys = sorted(kwargs)                               # the order of a flattened dict
    names = argument_names(f, args, kwargs)[:len(args)] + keys
    values = [*args, *(kwargs[k] for k in keys)]
    return [name + keystr(path) for name, value in zip(names, values, strict=True)
            for path, _ in tree_flatten_with_path(value)[0]]


__getattr__ = attributes_of(__name__)
