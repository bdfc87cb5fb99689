"""Casts from values that devices share to values that vary between them, for the types of a checked `shard_map`."""

from __future__ import annotations

from xjax.core.errors import bad
from xjax.core.tree import tree_map
from xjax.core.types import typeof
from xjax.core.varying import axes_in_order, typed_axes
from xjax.ops.collectives import AxisName, all_gather, axis_size, names_of
from xjax.ops.pvary import pvary_p
from xjax.typing import Array, PyTree


def pcast(x: PyTree, axis_name: AxisName, *, to: str) -> PyTree:
    """`x`, or each array of a tree, with a type that varies along mesh axes; nothing is computed.

    In a `shard_map` with `check_vma`, operations cast their operands where necessary. An explicit cast determines where
    the cotangent is summed, since this sum is the transpose of the cast. Outside such a `shard_map`, `x` is returned.

    Args:
      axis_name: a name or a tuple of names, of axes along which `x` does not vary.
      to: "varying".

    Raises: ValueError if `x` already varies along one of the axes; NotImplementedError for the types "unreduced" and
      "reduced".
    """
    if isinstance(axis_name, (set, frozenset)):
        raise bad("lax.pcast", "`axis_name` must be a name or a tuple of names", given={"axis_name": repr(axis_name)},
                  fix="pass a tuple.")
    if to != "varying":
        known = to in ("unreduced", "reduced")
        raise bad("lax.pcast", f"`to` cannot be {to!r}", fix="pass to='varying'; lax.psum over the axis gives a value "
                  "that devices share.", exc=NotImplementedError if known else ValueError)
    names = names_of(axis_name)
    if names:
        axis_size(names)                    # raises for a name that is not in scope
    axes = axes_in_order(typed_axes().intersection(names))
    return tree_map(lambda leaf: _cast(leaf, axes), x) if axes else x


def _cast(x: Array, axes: tuple) -> Array:
    already = [a for a in axes if a in typeof(x).vma]
    if already:
        raise bad("lax.pcast", f"the value varies along {', '.join(map(repr, already))} already",
                  given={"x": typeof(x).str_short()}, fix="leave these axes out.", exc=ValueError)
    return pvary_p.bind(x, axes=axes)


def pvary(x: PyTree, axis_name: AxisName) -> PyTree:
    """`pcast(x, axis_name, to="varying")`, by its older name."""
    return pcast(x, axis_name, to="varying")


def all_gather_invariant(x: PyTree, axis_name: AxisName, *, axis: int = 0, tiled: bool = False) -> PyTree:
    """`all_gather(x, axis_name, to="invarying")`: the result is equal on all devices, and has such a type."""
    return all_gather(x, axis_name, axis=axis, tiled=tiled, to="invarying")
