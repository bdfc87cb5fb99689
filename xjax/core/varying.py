"""The mesh axes along which a value varies: the part `vma` of types in `shard_map(check_vma=True)`.

In such a region a value either has equal copies on all devices along an axis, or varies along it. Its type records this
(`ShapedArray.vma`, the varying manual axes), and every operation infers it. By default, a result varies along all axes
along which any operand varies; other operands are first cast by `pvary`. The transpose of that cast is a `psum`: the
cotangent of a value that is equal on all devices is the sum of the contributions of the devices.
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
    """Operands of an operation must first be cast to vary along these axes; one set of axes for each operand."""

    def __init__(self, wanted: Sequence[Vma]):
        self.wanted = wanted


def typed_axes() -> Vma:
    """The axes in scope for which types record whether a value varies along them."""
    return frozenset(axis.name for axis in context.axes if axis.typed)


def axes_in_order(vma: Vma) -> tuple:
    """The names of axes in the order of the mesh."""
    in_scope = [axis.name for axis in context.axes if axis.name in vma]
    return (*in_scope, *sorted(vma.difference(in_scope), key=str))


def vary_together(vmas: Sequence[Vma], **params: object) -> tuple[Sequence[Vma], Vma]:
    """The rule of most operations: (the axes along which each operand must vary, the axes of the result)."""
    union = INVARIANT.union(*vmas)
    return [union] * len(vmas), union


def vary_apart(vmas: Sequence[Vma], **params: object) -> tuple[Sequence[Vma], Vma]:
    """The rule of operations without results: operands are not cast."""
    return vmas, INVARIANT


def infer_types(p: Primitive, avals: Sequence[ShapedArray], params: dict) -> Any:
    """Result types of an operation with operands that vary, or of a collective.

    Raises: OperandsVary if operands must be cast first.
    """
    vmas = [a.vma for a in avals]
    assert p.vary is not None           # without this rule, a primitive does not call this function
    wanted, results = p.vary(vmas, **params)
    if any(w != v for w, v in zip(wanted, vmas, strict=True)):
        raise OperandsVary(wanted)
    out = p.type_rule(*[a.plain for a in avals], **params)
    if not p.multiple_results:
        return out.update(vma=results)
    each = [results] * len(out) if isinstance(results, frozenset) else results
    return tuple([a.update(vma=vma) for a, vma in zip(out, each, strict=True)])


def casts_needed(p: Primitive, avals: Sequence[ShapedArray], params: dict) -> Sequence[Vma] | None:
    """The axes along which the operands must vary, if some must be cast first; else None."""
    if p.vary is None:                      # its programs were traced for exactly these types
        return None
    vmas = [a.vma for a in avals]
    wanted, _ = p.vary(vmas, **params)
    return wanted if any(w != v for w, v in zip(wanted, vmas, strict=True)) else None
