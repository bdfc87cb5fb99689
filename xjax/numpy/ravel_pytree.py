"""`ravel_pytree`: a tree of arrays as one vector, and back."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from xjax.core.dtypes import is_complex
from xjax.core.errors import bad
from xjax.core.promotion import result_type
from xjax.core.tree import PyTreeDef, tree_flatten, tree_unflatten
from xjax.core.types import typeof
from xjax.numpy.composed import real
from xjax.numpy.creation import zeros
from xjax.numpy.promote import cast
from xjax.numpy.selection import operand
from xjax.ops.arrange import concatenate, split
from xjax.ops.shape import reshape
from xjax.typing import Array, ArrayLike, DTypeLike, PyTree


@dataclasses.dataclass(frozen=True)
class Unravel:
    """The function from a vector back to a tree with the recorded shapes (and dtypes).

    Functions of equal trees are equal, so one may be a static argument of `jit`.
    """

    tree: PyTreeDef
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[Any, ...]
    common: Any

    def __call__(self, flat: ArrayLike) -> Any:
        """The tree of the parts of `flat`.

        If all leaves had one dtype, the new leaves have the dtype of the vector; otherwise the dtypes are restored.
        Raises: ValueError for a vector of another size; TypeError for another dtype, if the leaves had several dtypes.
        """
        caller = "flatten_util.ravel_pytree"
        flat = operand(caller, flat)
        sizes = [math.prod(shape) for shape in self.shapes]
        if not flat.ndim or flat.shape[0] != sum(sizes):
            raise bad(caller, f"the vector must have {sum(sizes)} elements, as many as the tree",
                      given={"vector": typeof(flat)}, fix="pass a vector of the size that ravel_pytree returned.",
                      exc=ValueError)
        several = len(set(self.dtypes)) > 1
        if several and flat.dtype != self.common:
            raise bad(caller, f"the vector must have dtype {np.dtype(self.common).name}, to which the leaves were "
                      "promoted", given={"vector": typeof(flat)}, fix="convert it with astype.")
        if not sizes:
            return tree_unflatten(self.tree, [])
        leaves = [reshape(part, shape) for part, shape in zip(split(flat, sizes), self.shapes, strict=True)]
        if several:
            leaves = [_restored(caller, x, dtype) for x, dtype in zip(leaves, self.dtypes, strict=True)]
        return tree_unflatten(self.tree, leaves)


def _restored(caller: str, x: Array, dtype: DTypeLike) -> Array:
    return cast(caller, x if is_complex(dtype) or not is_complex(x.dtype) else real(x), dtype)


def ravel_pytree(pytree: PyTree) -> tuple[Any, Unravel]:
    """All leaves of a tree, one after the other in one vector, and the function from such a vector back to a tree.

    Args: pytree: a tree of arrays and numbers of any shape and dtype, which are promoted to one dtype.
    Returns: (number[n], unravel: number[n] -> tree). A tree without leaves gives an empty float32 vector.
    Raises: TypeError for leaves that are not arrays or numbers.

    >>> flat, unravel = ravel_pytree({"b": 1.0, "w": np.ones((2, 2), np.float32)})
    >>> flat
    Array([1., 1., 1., 1., 1.], dtype=float32)
    >>> unravel(2 * flat)["w"].shape
    (2, 2)
    """
    caller = "flatten_util.ravel_pytree"
    leaves, tree = tree_flatten(pytree)
    xs = [operand(caller, x) for x in leaves]
    dtypes = tuple(x.dtype for x in xs)
    common = result_type(*dtypes) if dtypes else np.dtype(np.float32)
    unravel = Unravel(tree, tuple(typeof(x).shape for x in xs), dtypes, common)
    if not xs:
        return zeros(0, common), unravel
    if len(set(dtypes)) > 1:
        xs = [cast(caller, x, common) for x in xs]
    return concatenate([reshape(x, (math.prod(x.shape),)) for x in xs], 0), unravel


__all__ = ["Unravel", "ravel_pytree"]
