"""Functions of a whole tree of gradients: its norm, and the tree clipped to a norm."""

from __future__ import annotations

import xjax.numpy as jnp
from xjax import tree_util
from xjax.typing import Array, ArrayLike, PyTree


def l2_norm(tree: PyTree) -> Array:
    """Root of the sum of the squares of all entries of all arrays, in float32 or wider.

    Its derivative at 0 is NaN, like that of sqrt.

    >>> float(l2_norm({"a": jnp.array([3.0]), "b": jnp.array(4.0)}))
    5.0
    """
    return jnp.sqrt(sum(jnp.vdot(x, x) for x in map(_wide, tree_util.tree_leaves(tree))))


def _wide(x: Array) -> Array:
    """Half precision as float32, because squares of numbers above 256 overflow float16."""
    return x.astype(jnp.float32) if jnp.result_type(x) in (jnp.float16, jnp.bfloat16) else x


def clip_grads(grad_tree: PyTree, max_norm: ArrayLike) -> PyTree:
    """The tree unchanged if its `l2_norm` is at most max_norm, else scaled to that norm; gradients keep their dtypes.

    >>> clip_grads([jnp.array([30.0, 40.0])], 5.0)
    [Array([3., 4.], dtype=float32)]
    """
    norm = l2_norm(grad_tree)
    small = norm <= max_norm

    def clip(g: Array) -> Array:
        dtype, g = jnp.result_type(g), _wide(g)
        clipped = jnp.where(small, g, g * (max_norm / jnp.where(small, 1, norm)))
        return clipped.astype(dtype) if jnp.issubdtype(dtype, jnp.inexact) else clipped

    return tree_util.tree_map(clip, grad_tree)
