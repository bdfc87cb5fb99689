"""Trees with nodes that are registered only with the real JAX: flax and chex dataclasses, and other types.

Such a type is registered with xjax when one of its values is first passed through the bridge.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from xjax.core.trace import Tracer
from xjax.core.tree import flatten, registry
from xjax.core.tree_nodes import register_pytree_node
from xjax.runtime.arrays.array import Array
from xjax.runtime.xla.real_jax import imported_jax
from xjax.typing import PyTree

_LEAVES = (Array, Tracer, bool, int, float, complex, str, bytes, np.ndarray, np.generic, np.dtype)


def flatten_any(tree: PyTree) -> tuple[list[Any], Any]:
    """(leaves, structure) of a tree; types that are registered only with JAX are nodes here too."""
    leaves, structure = flatten(tree)
    new = {type(x): x for x in leaves if not isinstance(x, _LEAVES) and is_jax_node(x)}
    if not new:
        return leaves, structure
    for kind in new:
        adopt(kind)
    return flatten_any(tree)


def is_jax_node(x: object) -> bool:
    """Whether `x` is a node of trees in the real JAX."""
    jax = imported_jax()
    return jax is not None and not jax.tree_util.all_leaves([x])


def adopt(kind: type) -> None:
    """Register with xjax a type that is registered with JAX.

    JAX's functions flatten and rebuild its values; the static part is the structure of one level.
    """
    if registry.is_node(kind):
        return
    tree_util = sys.modules["jax"].tree_util

    def parts(value: Any) -> tuple[tuple, Any]:
        children, structure = tree_util.tree_flatten(value, is_leaf=lambda child: child is not value)
        return tuple(children), structure

    def named_parts(value: Any) -> tuple[tuple, Any]:
        pairs, structure = tree_util.tree_flatten_with_path(value, is_leaf=lambda child: child is not value)
        return tuple((path[0], child) for path, child in pairs), structure

    register_pytree_node(kind, parts, lambda structure, children: structure.unflatten(children), named_parts)
