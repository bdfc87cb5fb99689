"""`associative_scan`: running results of an associative operation, in log2(n) rounds instead of n steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xjax.core.calls import api_boundary, function_name
from xjax.core.errors import bad
from xjax.core.tree import PyTreeDef, flatten, leaf_paths, tree_mismatch, tree_unflatten
from xjax.core.types import ShapedArray, typeof
from xjax.lax.control import check_callable, flat_arrays, same_type
from xjax.ops.arrange import concatenate, rev
from xjax.ops.checks import canonical_axis
from xjax.ops.convert import convert_element_type
from xjax.ops.identity import copy
from xjax.ops.shape import expand_dims, reshape
from xjax.ops.slice import slice_in_dim
from xjax.typing import Array, PyTree

_WHERE = "associative_scan"


@api_boundary
def associative_scan(fn: Callable, elems: PyTree, reverse: bool = False, axis: int = 0) -> PyTree:
    """``y[0] = x[0]; y[i] = fn(y[i - 1], x[i])`` along an axis, computed in parallel.

    Neighbours are combined in pairs, the n / 2 results are scanned in the same way, and the elements between them are
    filled in. That is about 2 n applications in 2 log2(n) calls of `fn`, each on many elements at once.

    Args:
      fn: `fn(a, b)` on trees like `elems`. It must be associative, ``fn(a, fn(b, c)) == fn(fn(a, b), c)`` (not
        checked), and act element by element along `axis`; it is called with arrays of several sizes along it.
      elems: tree of arrays with the same size along `axis`.
      reverse: start from the last element: ``y[i] = fn(y[i + 1], x[i])``.

    Returns: a tree like `elems`.
    Raises: TypeError if `fn` changes the structure or the types of its arguments, ValueError if sizes differ.

    >>> associative_scan(lambda a, b: a * b, xjax.numpy.arange(1, 6)).tolist()
    [1, 2, 6, 24, 120]
    """
    check_callable(_WHERE, "fn", fn)
    leaves, tree, avals = flat_arrays(_WHERE, "elems", elems)
    axis, size = _axis_and_size(tree, avals, axis)
    if size < 2:
        return tree_unflatten(tree, [copy(x) for x in leaves])          # an array, whatever was passed

    def combine(a: list[Any], b: list[Any]) -> list[Any]:
        out, out_tree = flatten(fn(tree_unflatten(tree, a), tree_unflatten(tree, b)))
        _check_result(function_name(fn), tree, [typeof(x) for x in a], out, out_tree)
        return out

    if reverse:
        leaves = [rev(x, (axis,)) for x in leaves]
    scanned = _scan(combine, leaves, axis, size)
    if reverse:
        scanned = [rev(y, (axis,)) for y in scanned]
    return tree_unflatten(tree, [convert_element_type(y, None) for y in scanned])      # strongly typed, as in JAX


def _scan(combine: Callable, xs: list[Any], axis: int, size: int) -> list[Any]:
    """Running results of `size` elements: those at odd positions from a scan of pairs, then those at even positions."""
    if size < 2:
        return xs
    half = size // 2
    odd = _scan(combine, combine(_part(xs, axis, 0, 2 * half, 2), _part(xs, axis, 1, size, 2)), axis, half)
    between = (size - 1) // 2
    even = _part(xs, axis, 0, 1)
    if between:
        filled = combine(_part(odd, axis, 0, between), _part(xs, axis, 2, size, 2))
        even = [concatenate([x, y], axis) for x, y in zip(even, filled, strict=True)]
    return [_interleaved(x, y, axis) for x, y in zip(even, odd, strict=True)]


def _part(xs: Sequence[Any], axis: int, start: int, stop: int, step: int = 1) -> list[Any]:
    return [slice_in_dim(x, start, stop, step, axis) for x in xs]


def _interleaved(even: Array, odd: Array, axis: int) -> Array:
    """``even[0], odd[0], even[1], odd[1], ...`` along an axis; `even` may have one element more."""
    shape = typeof(odd).shape
    n = shape[axis]
    pairs = [expand_dims(slice_in_dim(even, 0, n, 1, axis), (axis + 1,)), expand_dims(odd, (axis + 1,))]
    merged = reshape(concatenate(pairs, axis + 1), (*shape[:axis], 2 * n, *shape[axis + 1:]))
    if typeof(even).shape[axis] == n:
        return merged
    return concatenate([merged, slice_in_dim(even, n, n + 1, 1, axis)], axis)


# -- checks -------------------------------------------------------------------------------------------------------

def _axis_and_size(tree: PyTree, avals: Sequence[ShapedArray], axis: int) -> tuple[int, int]:
    """(the axis, counted from the front; the size of all arrays along it)."""
    if not avals:
        raise bad(_WHERE, "`elems` holds no array", fix="pass an array, or a tree of arrays.", exc=ValueError)
    axis = canonical_axis(axis, avals[0].ndim, _WHERE)
    sizes = {a.shape[axis] if axis < a.ndim else -1 for a in avals}
    if len(sizes) == 1:
        return axis, sizes.pop()
    raise bad(_WHERE, f"the arrays differ in size along axis {axis}",
              given=dict(zip(leaf_paths("elems", tree), avals, strict=True)),
              fix="give all arrays the same size along the axis to scan.", exc=ValueError)


def _check_result(name: str, tree: PyTree, given: Sequence[ShapedArray], out: Sequence[Any],
                  out_tree: PyTreeDef) -> None:
    """Raise unless `fn` keeps structure and types: its results are its arguments in the next round."""
    if out_tree != tree:
        raise bad(_WHERE, f"`{name}` returns a structure that differs from that of `elems`",
                  given=tree_mismatch("result", tree, out_tree), fix="return the containers of its arguments.")
    wrong = {f"result{path}": f"{typeof(y).str_short()}, given {a.str_short()}"
             for path, a, y in zip(leaf_paths("", tree), given, out, strict=True) if not same_type(a, typeof(y))}
    if wrong:
        raise bad(_WHERE, f"`{name}` returns types that differ from those of its arguments", given=wrong,
                  fix="return arrays of the same shape and dtype, for example with x.astype(...).")
