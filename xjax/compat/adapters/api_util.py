"""`jax.api_util`: functions of trees as functions of flat lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from xjax.compat.adapters.extend__core import DebugInfo
from xjax.compat.linear_util import Store, Thunk, WrappedFun, transformation_with_aux2
from xjax.core import tree
from xjax.core.calls import argument_names, as_argnums, function_name, merge_args, split_args
from xjax.core.tree import PyTreeDef, flatten, tree_unflatten
from xjax.core.types import ShapedArray
from xjax.runtime.stages import abstract
from xjax.typing import ArrayLike, PyTree

__all__ = ["argnums_partial", "debug_info", "flatten_axes", "flatten_fun", "flatten_fun_nokwargs", "safe_map",
           "shaped_abstractify"]


def flatten_fun(f: WrappedFun, in_tree: PyTreeDef) -> tuple[WrappedFun, Thunk]:
    """A function of the leaves of (args, kwargs), to leaves of its result.  Returns: (function, thunk of the tree)."""
    return _flat_call(f, in_tree, True)


def flatten_fun_nokwargs(f: WrappedFun, in_tree: PyTreeDef) -> tuple[WrappedFun, Thunk]:
    """As `flatten_fun`, for the leaves of a tuple of arguments."""
    return _flat_call(f, in_tree, False)


@transformation_with_aux2
def _flat_call(f: Callable, store: Store, in_tree: PyTreeDef, keywords: bool, *leaves: ArrayLike) -> list[Any]:
    args = tree_unflatten(in_tree, leaves)
    outs, out_tree = flatten(f(*args[0], **args[1]) if keywords else f(*args))
    store.store(out_tree)
    return outs


def debug_info(traced_for: str, fun: Callable, args: Sequence[Any], kwargs: Mapping[str, Any],
               **options: object) -> DebugInfo:
    """The names of a function and its arguments in messages."""
    return DebugInfo(traced_for, function_name(fun), tuple(argument_names(fun, args, dict(kwargs))))


def safe_map(f: Callable, *lists: Iterable[Any]) -> list[Any]:
    """``list(map(f, *lists))`` for lists of one length."""
    return [f(*items) for items in zip(*map(list, lists), strict=True)]


def shaped_abstractify(x: object) -> ShapedArray:
    """The type of an array or of a value with `shape` and `dtype`."""
    return abstract(x)


def argnums_partial(f: WrappedFun, dyn_argnums: int | Sequence[int], args: Sequence[Any],
                    require_static_args_hashable: bool = True) -> tuple[WrappedFun, tuple[Any, ...]]:
    """(a function of the arguments at `dyn_argnums`, these arguments); the others are fixed."""
    nums = tuple(n % len(args) for n in as_argnums(dyn_argnums, "argnums_partial"))
    chosen, rest = split_args(args, nums)
    return f.with_call(lambda *xs, **kwargs: f.call_wrapped(*merge_args(xs, rest, nums, len(args)), **kwargs)), chosen


def flatten_axes(name: str, treedef: PyTreeDef, axis_tree: PyTree, *, kws: bool = False,
                 tupled_args: bool = False) -> list[Any]:
    """A prefix tree of axes as one axis for each leaf.  Args: kws, tupled_args: without effect: for messages of JAX."""
    return tree.flatten_axes(name, treedef, axis_tree)
