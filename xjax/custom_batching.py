"""Custom rules for `vmap`: `custom_vmap`, and `sequential_vmap`, which loops over the elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xjax.core.public import attributes_of
from xjax.lax.loops import map as loop
from xjax.transforms.custom_vmap import custom_vmap
from xjax.tree_util import tree_flatten, tree_map, tree_unflatten
from xjax.typing import PyTree

__all__ = ["custom_vmap", "sequential_vmap"]


def sequential_vmap(f: Callable) -> custom_vmap:
    """`f`, with a rule for `vmap` that runs it on one element after the other: for functions that cannot be batched.

    >>> @sequential_vmap
    ... def f(x):
    ...     return x + 1
    >>> xjax.vmap(f)(jnp.arange(3))
    Array([1, 2, 3], dtype=int32)
    """
    mapped = custom_vmap(f)

    @mapped.def_vmap
    def rule(axis_size: int, in_batched: list, *args: PyTree) -> tuple[Any, Any]:
        leaves, tree = tree_flatten(args)
        flags = tree_flatten(tuple(in_batched))[0]

        def element(chosen: list) -> PyTree:
            elements = iter(chosen)
            return mapped(*tree_unflatten(tree, [next(elements) if flag else x
                                                 for x, flag in zip(leaves, flags, strict=True)]))

        out = loop(element, [x for x, flag in zip(leaves, flags, strict=True) if flag])
        return out, tree_map(lambda _: True, out)

    return mapped

__getattr__ = attributes_of(__name__)
