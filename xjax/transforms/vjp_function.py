"""`VJP`: the function that `vjp` returns, with its residuals; and trees of flags for arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from xjax.core.errors import bad
from xjax.core.jaxpr import Jaxpr
from xjax.core.tree import PyTreeDef, flatten, leaf_paths, tree_unflatten, treedef_is_leaf
from xjax.core.tree_nodes import register_pytree_node
from xjax.typing import PyTree


class _Absent:
    """Placeholder in `VJP.args_res` for an argument that is not stored; a tree without leaves."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


class NotNeeded(_Absent):
    """Placeholder for an argument that the backward pass does not use."""


class NotSaveable(_Absent):
    """Placeholder for an argument that must not be kept, and must be assigned before the backward pass."""


for _absent in (NotNeeded, NotSaveable):
    register_pytree_node(_absent, lambda _: ((), None), lambda _, __, made=_absent: made())


class VJP:
    """Maps a cotangent of the value to the tuple of cotangents of the arguments; a tree whose leaves are residuals.

    Attributes:
      args_res: the arguments that are residuals themselves, as a list of trees; `NotNeeded()` for other arguments,
        `NotSaveable()` for arguments that `saveable_args` excludes. May be assigned.
      opaque_residuals: the values that were computed for the backward pass.
      out_nzs: True for each leaf of the value whose tangent is not known to be zero.
      fun: the function of the residuals and a cotangent.
      jaxpr: the linear program that `fun` transposes, from residuals (`constvars`) and tangents to tangents.
      want_logs: whether a call returns the pair of the cotangents and a dict of logs.
    """

    def __init__(self, fun: Callable, sources: tuple[tuple[bool, int], ...], args_res: list, opaque_residuals: list,
                 want_logs: bool = False):
        # `sources`: for each residual, whether it is an argument, and its position among arguments or other residuals.
        self.fun, self._sources = fun, sources
        self.args_res, self.opaque_residuals, self.want_logs = args_res, opaque_residuals, want_logs

    @classmethod
    def of(cls, fun: Callable, residuals: Sequence[Any], leaves: Sequence[Any], saveable: Sequence[bool]) -> VJP:
        """`fun(residuals, cotangent)` with its residuals; some of them may be leaves of the arguments."""
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
    def in_tree(self) -> PyTreeDef:
        """Structure of the arguments."""
        return self.fun.in_tree

    @property
    def out_tree(self) -> PyTreeDef:
        """Structure of the value."""
        return self.fun.out_tree

    @property
    def out_nzs(self) -> Any:
        """True for each leaf of the value whose tangent is not known to be zero."""
        return tree_unflatten(self.out_tree, self.fun.lin.nonzero)

    @property
    def jaxpr(self) -> Jaxpr:
        """The linear program."""
        return self.fun.jaxpr

    @property
    def structured_residuals(self) -> list:
        """Residuals of user-defined types: always empty, because all residuals are arrays."""
        return []

    @property
    def with_logs(self) -> VJP:
        """The function that returns (cotangents, logs); the dict of logs is empty, because rules do not write logs."""
        return self.replace(want_logs=True)

    def replace(self, **changed: Any) -> VJP:
        """The function with other `fun`, `args_res`, `opaque_residuals` or `want_logs`."""
        fields = ("fun", "args_res", "opaque_residuals", "want_logs")
        unknown = sorted(set(changed) - set(fields))
        if unknown:
            raise bad(f"{self.fun.caller}: replace", "there is no such field", {"given": ", ".join(unknown)},
                      f"fields are {', '.join(fields)}.")
        fun, *rest = (changed.get(name, getattr(self, name)) for name in fields)
        return VJP(fun, self._sources, *rest)

    def with_refs(self, *refs: object) -> NoReturn:
        """Not supported: in JAX, it adds gradients to mutable arrays. Raises: NotImplementedError."""
        raise bad(f"{self.fun.caller}: with_refs", "mutable arrays are not in scope", {"arguments": len(refs)},
                  "add the cotangents that the function returns: total = tree.map(numpy.add, total, back(ct)).",
                  exc=NotImplementedError)

    def __repr__(self) -> str:
        return (f"VJP({self.fun.caller}, in_tree={self.in_tree}, out_tree={self.out_tree}, args_res={self.args_res}, "
                f"opaque_residuals={self.opaque_residuals})")

    def __call__(self, *cts: PyTree) -> tuple:
        leaves = flatten(self.args_res, is_leaf=lambda x: isinstance(x, _Absent))[0]
        missing = [i for is_argument, i in self._sources if is_argument and isinstance(leaves[i], NotSaveable)]
        if missing:
            paths = leaf_paths("args_res", self.in_tree)
            raise bad(self.fun.caller, "arguments that were not kept must be assigned before the backward pass",
                      {paths[i]: "NotSaveable()" for i in missing},
                      "assign the arguments to the attribute `args_res` of the function.", exc=ValueError)
        residuals = [leaves[i] if is_argument else self.opaque_residuals[i] for is_argument, i in self._sources]
        in_cts = self.fun(residuals, *cts)
        return (in_cts, {}) if self.want_logs else in_cts


register_pytree_node(
    VJP, lambda vjp: ((vjp.args_res, vjp.opaque_residuals), (vjp.fun, vjp._sources, vjp.want_logs)),
    lambda aux, children: VJP(*aux[:2], *children, aux[2]))


def flags_of(caller: str, name: str, flags: PyTree, treedef: PyTreeDef) -> list[bool]:
    """A flag for each leaf, from a tree of bools that is a prefix of `treedef`; the types of containers may differ."""
    if isinstance(flags, bool):
        return [flags] * treedef.num_leaves
    children, inner = flatten(flags, is_leaf=lambda x: x is not flags)
    subtrees = treedef.children()
    if treedef_is_leaf(inner) or treedef_is_leaf(treedef) or len(children) != len(subtrees):
        raise bad(caller, f"`{name}` does not match the arguments", {name: repr(flags), "arguments": str(treedef)},
                  "pass a bool for each argument, or a tree of bools with as many parts as the argument has.",
                  exc=ValueError)
    return [flag for part, tree in zip(children, subtrees, strict=True) for flag in flags_of(caller, name, part, tree)]
