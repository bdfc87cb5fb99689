"""Between the user's functions of trees and the transforms' functions of flat lists: `Flat`, names."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any

from xjax.core.config import config
from xjax.core.errors import bad, drop_internal_frames
from xjax.core.trace import Tracer
from xjax.core.tree import flatten, keystr, tree_flatten_with_path, tree_unflatten
from xjax.core.types import is_array_like


def function_name(f: Any) -> str:
    """A readable name for any callable."""
    if isinstance(f, functools.partial):
        return function_name(f.func)
    name = getattr(f, "__name__", None)
    return name if isinstance(name, str) else type(f).__name__


def leaf_of_arguments(tree: Any, i: int) -> str:
    """Which leaf of (args, kwargs) the i-th is, for messages: ``args[0]['w']``, ``kwargs['x']``."""
    path, _ = tree_flatten_with_path(tree_unflatten(tree, range(tree.num_leaves)))[0][i]
    return ("args", "kwargs")[path[0].idx] + keystr(path[1:])


def canonical_argnums(argnums: int | Sequence[int], count: int, where: str) -> tuple[int, ...]:
    """Positions in [0, count) from an int or a sequence that may count from the end."""
    nums = tuple(argnums) if isinstance(argnums, (tuple, list)) else (argnums,)
    out = []
    for n in nums:
        try:
            n = operator.index(n)
        except TypeError:
            raise bad(where, "argnums must be an int or a sequence of ints", given={"argnums": repr(argnums)},
                      fix="pass positions such as 0 or (0, 2).") from None
        if not -count <= n < count:
            raise bad(where, f"argument {n} is chosen, but only {count} positional arguments were given",
                      given={"argnums": repr(argnums)},
                      fix="pass the argument by position, or choose another with argnums.", exc=ValueError)
        out.append(n % count)
    if len(set(out)) != len(out):
        raise bad(where, "argnums names an argument twice", given={"argnums": repr(argnums)},
                  fix="name each argument once.", exc=ValueError)
    return tuple(out)


def split_args(args: Sequence[Any], nums: Sequence[int]) -> tuple[tuple, tuple]:
    """(chosen arguments in the order of `nums`, the others in theirs)."""
    return tuple(args[n] for n in nums), tuple(x for i, x in enumerate(args) if i not in nums)


def merge_args(chosen: Sequence[Any], rest: Sequence[Any], nums: Sequence[int], count: int) -> list[Any]:
    """Inverse of `split_args`."""
    out, others = [None] * count, iter(rest)
    for n, x in zip(nums, chosen, strict=True):
        out[n] = x
    return [out[i] if i in nums else next(others) for i in range(count)]


class Flat:
    """A function of trees as a function of leaves, `flat(*leaves) -> list of result leaves`.

    After a call, `out_tree` is the structure of the result and `aux`, with `has_aux`, the second result.
    """

    __slots__ = ("fun", "in_tree", "keywords", "has_aux", "where", "out_tree", "_aux")

    def __init__(self, fun: Callable, in_tree: Any, keywords: bool, has_aux: bool, where: str):
        self.fun, self.in_tree, self.keywords = fun, in_tree, keywords
        self.has_aux, self.where = has_aux, where
        self.out_tree, self._aux = None, None

    def __call__(self, *leaves: Any) -> list[Any]:
        args = tree_unflatten(self.in_tree, leaves)
        try:
            out = self.fun(*args[0], **args[1]) if self.keywords else self.fun(*args)
        except Exception as error:
            if config.traceback_filtering != "off":
                drop_internal_frames(error)
            raise
        if self.has_aux:
            if not isinstance(out, (tuple, list)) or len(out) != 2:
                raise bad(self.where, "with has_aux=True the function must return a pair (value, aux)",
                          given={"result": type(out).__name__}, fix="return (value, aux), or drop has_aux.")
            out, aux = out
            self._aux = flatten(aux)
        outs, self.out_tree = flatten(out)
        for y in outs:
            if not isinstance(y, Tracer) and not is_array_like(y):
                raise bad(self.where, f"the function returned a value of type {type(y).__name__}, which is no array",
                          given={"value": repr(y)[:80]},
                          fix="return arrays, numbers, or pytrees of them; register own containers with "
                              "register_pytree_node.")
        return outs

    def leave_trace(self, split: Callable[[Any], tuple]) -> None:
        """Replace the tracers in `aux` by their primal values, when a derivative trace ends."""
        if self._aux is not None:
            leaves, tree = self._aux
            self._aux = [split(x)[0] if isinstance(x, Tracer) else x for x in leaves], tree

    @property
    def aux(self) -> Any:
        leaves, tree = self._aux
        return tree_unflatten(tree, leaves)


def flatten_function(fun: Callable, in_tree: Any, *, keywords: bool = False, has_aux: bool = False,
                     where: str = "") -> Flat:
    """`fun` as a function of the leaves of its arguments: a tuple, or with `keywords` (tuple, dict)."""
    return Flat(fun, in_tree, keywords, has_aux, where or function_name(fun))


def argument_names(f: Callable, args: Sequence[Any], kwargs: dict) -> list[str]:
    """The name of each positional and keyword argument, for messages: ``x``, ``args[2]``."""
    try:
        signature = inspect.signature(f)
        bound = signature.bind(*args, **kwargs)
    except (TypeError, ValueError):         # no signature, or the call does not fit it
        return [f"args[{i}]" for i in range(len(args))] + list(kwargs)
    names: list[str] = []
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            names += [f"{name}[{i}]" for i in range(len(value))]
        elif kind is not inspect.Parameter.VAR_KEYWORD and name not in kwargs:
            names.append(name)
    return names[:len(args)] + list(kwargs)
