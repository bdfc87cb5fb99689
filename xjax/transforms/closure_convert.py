"""`closure_convert`: converts the values that a function closes over to arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xjax.core.calls import flatten_function, function_name
from xjax.core.errors import bad
from xjax.core.jaxpr import eval_jaxpr
from xjax.core.staging import StagingTracer, trace_to_jaxpr
from xjax.core.tree import flatten, tree_mismatch, tree_unflatten
from xjax.core.types import typeof
from xjax.transforms.batching import BatchTracer
from xjax.transforms.jvp import DualTracer
from xjax.typing import Array, ArrayLike, PyTree


def closure_convert(fun: Callable, *example_args: PyTree) -> tuple[Callable, list[Any]]:
    """(`converted`, `values`) such that `converted(*args, *values)` is `fun(*args)`.

    `values` are the values that `fun` closes over and that may be differentiated. A custom rule can differentiate them
    only if they are arguments: pass `converted` as a static argument and `*values` as ordinary arguments.

    Args:
      fun: a pure function; it is traced once, during this call.
      example_args: arrays or trees of arrays with the types of its arguments.

    >>> def root(y):
    ...     f, values = xjax.closure_convert(lambda x: x * x - y, y)
    ...     return f(3.0, *values)
    >>> float(root(4.0))
    5.0
    """
    caller = f"closure_convert of `{function_name(fun)}`"
    leaves, in_tree = flatten(example_args)
    flat = flatten_function(fun, in_tree, caller=caller)
    closed = trace_to_jaxpr(flat, [typeof(x) for x in leaves], caller)
    is_value = [_may_be_differentiated(x) for x in closed.consts]
    values = [x for x, flag in zip(closed.consts, is_value, strict=True) if flag]
    count = len(example_args)

    def converted(*args: PyTree) -> Array:
        if len(args) != count + len(values):
            raise bad(caller, f"the converted function takes {count} arguments and then {len(values)} captured values",
                      given={"arguments": str(len(args))}, fix="call it as converted(*args, *values).")
        xs, tree = flatten(args[:count])
        if tree != in_tree:
            raise bad(caller, "the arguments must have the structure of the examples",
                      given=tree_mismatch("arguments", in_tree, tree),
                      fix="call closure_convert again with such arguments.")
        captured = iter(args[count:])
        consts = [next(captured) if flag else x for x, flag in zip(closed.consts, is_value, strict=True)]
        return tree_unflatten(flat.out_tree, eval_jaxpr(closed.jaxpr, consts, *xs))

    return converted, values


def _may_be_differentiated(x: ArrayLike) -> bool:
    """Whether a captured value has a tangent, or is staged and may get one when the program is differentiated."""
    while isinstance(x, BatchTracer):
        x = x.value
    if isinstance(x, StagingTracer):
        return x.aval.tangent() is x.aval
    return isinstance(x, DualTracer)
