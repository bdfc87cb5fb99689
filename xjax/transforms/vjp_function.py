"""`VJP`: the function that `vjp` returns, with its residuals; and trees of flags for arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xjax.core.errors import bad
from xjax.core.tree import flatten, leaf_paths, tree_unflatten, treedef_is_leaf
from xjax.core.tree_nodes import register_pytree_node


class _Absent:
    """Stands in `VJP.args_res` for an argument that is not there; a tree without leaves."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


class NotNeeded(_Absent):
    """Stands for an argument that the backward pass does not read."""


class NotSaveable(_Absent):
    """Stands for an argument that was not to be kept, and must be put back before the backward pass."""


for _absent in (NotNeeded, NotSaveable):
    register_pytree_node(_absent, lambda _: ((), None), lambda _, __, made=_absent: made())


class VJP:
    """Maps a cotangent of the value to the tuple of cotangents of the arguments; a tree, whose leaves are residuals.

    Attributes:
      args_res: the arguments that are residuals as they are, as a list of trees; `NotNeeded()` for others, and
        `NotSaveable()` for those that `saveable_args` kept out. May be assigned.
      opaque_residuals: the values that were computed for the backward pass.
      out_nzs: True for each leaf of the value whose tangent is not known to be zero.
    """

    def __init__(self, fun: Callable, sources: tuple[tuple[bool, int], ...], args_res: list, opaque_residuals: list):
        # `sources`: for each residual, whether it is an argument, and its position among those or the others.
        self._fun, self._sources = fun, sources
        self.args_res, self.opaque_residuals = args_res, opaque_residuals

    @classmethod
    def of(cls, fun: Any, residuals: Sequence[Any], leaves: Sequence[Any], saveable: Sequence[bool]) -> VJP:
        """`fun(residuals, cotangent)` with residuals, of which some are among the leaves of the arguments."""
        position = {id(x): i for i, x in enumerate(leaves)}
        opaque: list[Any] = []
        sources = []
        for x in residuals:
            i = position.get(id(x))
            sources.append((False, len(opaque)) if i is None else (True, i))
            if i is None:
                opaque.append(x)
        read = {i for is_argument, i in sources if is_argument}
        kept = [NotNeeded() if i not in read else x if flag else NotSaveable()
                for i, (x, flag) in enumerate(zip(leaves, saveable, strict=True))]
        return cls(fun, tuple(sources), list(tree_unflatten(fun.in_tree, kept)), opaque)

    @property
    def in_tree(self) -> Any:
        """Structure of the arguments."""
        return self._fun.in_tree

    @property
    def out_tree(self) -> Any:
        """Structure of the value."""
        return self._fun.out_tree

    @property
    def out_nzs(self) -> Any:
        """True for each leaf of the value whose tangent is not known to be zero."""
        return tree_unflatten(self.out_tree, self._fun.lin.nonzero)

    def __call__(self, *cts: Any) -> tuple:
        leaves = flatten(self.args_res, is_leaf=lambda x: isinstance(x, _Absent))[0]
        missing = [i for is_argument, i in self._sources if is_argument and isinstance(leaves[i], NotSaveable)]
        if missing:
            paths = leaf_paths("args_res", self.in_tree)
            raise bad(self._fun.where, "arguments that were not kept must be put back before the backward pass",
                      {paths[i]: "NotSaveable()" for i in missing},
                      "assign the arguments to the function's `args_res`.", exc=ValueError)
        residuals = [leaves[i] if is_argument else self.opaque_residuals[i] for is_argument, i in self._sources]
        return self._fun(residuals, *cts)


register_pytree_node(VJP, lambda vjp: ((vjp.args_res, vjp.opaque_residuals), (vjp._fun, vjp._sources)),
                     lambda aux, children: VJP(*aux, *children))


def flags_of(where: str, name: str, flags: Any, treedef: Any) -> list[bool]:
    """A flag for each leaf, from a tree of bools that is a prefix of `treedef` but for the kinds of its containers."""
    if isinstance(flags, bool):
        return [flags] * treedef.num_leaves
    children, inner = flatten(flags, is_leaf=lambda x: x is not flags)
    subtrees = treedef.children()
    if treedef_is_leaf(inner) or treedef_is_leaf(treedef) or len(children) != len(subtrees):
        raise bad(where, f"`{name}` does not fit the arguments", {name: repr(flags), "arguments": str(treedef)},
                  "pass a bool for each argument, or a tree of bools with as many parts as the argument has.",
                  exc=ValueError)
    return [flag for part, tree in zip(children, subtrees, strict=True) for flag in flags_of(where, name, part, tree)]
