"""`symbolic_args_specs`: types of arguments with symbolic shapes."""

from __future__ import annotations

from collections.abc import Sequence

from xjax.core.errors import bad
from xjax.core.symbolic.scope import SymbolicScope, symbolic_shape
from xjax.core.tree import broadcast_prefix, flatten, tree_unflatten
from xjax.runtime.stages import ShapeDtypeStruct
from xjax.typing import PyTree


def symbolic_args_specs(args: PyTree, shapes_specs: PyTree, constraints: Sequence[str] = (),
                        scope: SymbolicScope | None = None) -> PyTree:
    """A `ShapeDtypeStruct` for each argument, with its dtype and a symbolic shape.

    Args:
      args: a tree of arrays or `ShapeDtypeStruct`s, such as the tuple of arguments.
      shapes_specs: for all arguments, or a tree that is a prefix of `args`: text as for `symbolic_shape`, whose ``_``
        and ``...`` are the sizes of the argument; None for its own shape.
      constraints, scope: as for `symbolic_shape`.

    Raises: ValueError for text that is not a shape or does not fit the argument.

    >>> x = xjax.ShapeDtypeStruct((8, 3), "float32")
    >>> symbolic_args_specs((x, x), ("b, ...", None))
    (ShapeDtypeStruct(shape=(b, 3), dtype=float32), ShapeDtypeStruct(shape=(8, 3), dtype=float32))
    """
    caller = "export.symbolic_args_specs"
    if scope is not None and constraints:
        raise bad(caller, "takes a scope or constraints, not both", None, "give the constraints to SymbolicScope.",
                  ValueError)
    scope = SymbolicScope(constraints) if scope is None else scope
    if isinstance(args, tuple) and isinstance(shapes_specs, list):
        shapes_specs = tuple(shapes_specs)
    leaves, tree = flatten(args)
    texts = broadcast_prefix(shapes_specs, args, lambda x: x is None, caller)
    types = [ShapeDtypeStruct.like(x) for x in leaves]
    return tree_unflatten(tree, [
        t.update(shape=symbolic_shape(text, scope=scope, like=t.shape), sharding=None)
        for t, text in zip(types, texts, strict=True)])
