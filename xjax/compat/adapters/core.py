"""`jax.core`: the types and traces that programs test for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xjax.compat.adapters.extend__core import AbstractValue
from xjax.compat.traces import Trace, Tracer
from xjax.core import jaxpr as core
from xjax.core.context import Context, current_trace
from xjax.core.jaxpr import Atom
from xjax.core.types import ShapedArray, aval_of_type, typeof
from xjax.runtime.api import ensure_compile_time_eval
from xjax.typing import ArrayLike

__all__ = ["AbstractValue", "Atom", "ParamDict", "ShapedArray", "Trace", "Tracer", "Value", "ensure_compile_time_eval",
           "eval_context", "eval_jaxpr", "pytype_aval_mappings"]

ParamDict = dict[str, Any]
Value = Any


class _TypesOfValues(dict[type, Callable]):
    """Functions that return the type of a value, by its class; a class that is added is accepted as an array.

    Its values are converted by their method `__array__`.
    """

    def __setitem__(self, kind: type, rule: Callable) -> None:
        super().__setitem__(kind, rule)
        aval_of_type[kind] = lambda x: typeof(np.asarray(x))


pytype_aval_mappings = _TypesOfValues({np.ndarray: typeof})


def eval_context() -> current_trace:
    """A context in which operations run eagerly."""
    return current_trace(Context.trace)


def eval_jaxpr(jaxpr: core.Jaxpr, consts: Sequence[Any], *args: ArrayLike,
               propagate_source_info: bool = True) -> list[Any]:
    """The results of a program.

    Args: propagate_source_info: without effect: positions of equations are always kept.
    """
    return core.eval_jaxpr(jaxpr.jaxpr, consts, *args)
