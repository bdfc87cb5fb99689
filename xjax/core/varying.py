"""Along which axes of a device mesh a value varies: the part `vma` of types in `shard_map(check_vma=True)`.

In such a region a value either has equal copies on all devices along an axis, or varies along it. Its type says so
(`ShapedArray.vma`, the varying manual axes), and every operation infers it: by default a result varies along all axes
along which an operand does, and operands that vary less are cast first, by `pvary`. The transpose of that cast is a
`psum`: the cotangent of a value that devices share is the sum of what each of them contributes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xjax.core.context import context
from xjax.core.types import ShapedArray, Vma

if TYPE_CHECKING:
    from xjax.core.primitive import Primitive

INVARIANT: Vma = frozenset()


class OperandsVary(Exception):
    """Operands of an operation must first be cast so that they vary along these axes, one set for each."""

    def __init__(self, wanted: Sequence[Vma]):
        self.wanted = wanted


def typed_axes() -> Vma:
    """The axes in scope along which types say whether a value varies."""
    return frozenset(axis.name for axis in context.axes if axis.typed)


def axes_in_order(vma: Vma) -> tuple:
    """Names of axes in the order of the mesh."""
    in_scope = [axis.name for axis in context.axes if axis.name in vma]
    return (*in_scope, *sorted(vma.difference(in_scope), key=str))


def vary_together(vmas: Sequence[Vma], **params: Any) -> tuple[Sequence[Vma], Vma]:
    """The rule of most operations: (along what each operand must vary, along what the result varies)."""
    union = INVARIANT.union(*vmas)
    return [union] * len(vmas), union


def vary_apart(vmas: Sequence[Vma], **params: Any) -> tuple[Sequence[Vma], Vma]:
    """The rule of operations without results: each operand stays as it is."""
    return vmas, INVARIANT


def infer_types(p: Primitive, avals: Sequence[ShapedArray], params: dict) -> Any:
    """Result types of an operation on operands of which some vary, or which communicates along axes.

    Raises: OperandsVary if operands must be cast first.
    """
    vmas = [a.vma for a in avals]
    wanted, results = p.vary(vmas, **params)
    if any(w != v for w, v in zip(wanted, vmas, strict=True)):
        raise OperandsVary(wanted)
    out = p.type_rule(*[a.plain for a in avals], **params)
    if not p.multiple_results:
        return out.update(vma=results)
    each = [results] * len(out) if isinstance(results, frozenset) else results
    return tuple([a.update(vma=vma) for a, vma in zip(out, each, strict=True)])


def casts_needed(p: Primitive, avals: Sequence[ShapedArray], params: dict) -> Sequence[Vma] | None:
    """Along what the operands must vary, if some must be cast first."""
    if p.vary is None:                      # its programs were traced for these very types
        return None
    vmas = [a.vma for a in avals]
    wanted, _ = p.vary(vmas, **params)
    return wanted if any(w != v for w, v in zip(wanted, vmas, strict=True)) else None
