"""Collectives in which each element of a named axis sends different values to each other element: `all_to_all`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xjax.core.errors import bad
from xjax.core.hlo import i64_matrix
from xjax.core.primitive import LINEAR, Primitive
from xjax.core.tree import tree_map
from xjax.core.types import ShapedArray, typeof
from xjax.ops.checks import canonical_axis, static_int
from xjax.ops.collectives import (
    AxisName,
    alone,
    axis_index,
    axis_size,
    channel,
    groups_key,
    mesh_of,
    names_of,
    no_groups,
    psum,
    vary_exchanged,
)
from xjax.ops.compare import eq, select
from xjax.ops.convert import convert_element_type
from xjax.ops.shape import broadcast_in_dim, expand_dims, move_axis, reshape, squeeze, transpose
from xjax.ops.zeros import zeros_of
from xjax.typing import Array, ArrayLike

Groups = Sequence[Sequence[int]] | None


# -- all_to_all ---------------------------------------------------------------------------------------------------

def all_to_all(x: ArrayLike, axis_name: AxisName, split_axis: int, concat_axis: int, *,
               axis_index_groups: Groups = None, tiled: bool = False) -> Array:
    """Unmap a named axis and map another one: element i sends its slice j along `split_axis` to element j.

    Args:
      x: array or tree of arrays, in which `split_axis` has the size of the named axis (`tiled`: a multiple of it).
      concat_axis: position in the result of the axis that corresponds to the named axis.
      axis_index_groups: groups of positions that exchange values among themselves; not for an axis of vmap.
      tiled: `split_axis` is split into as many parts as the size of the named axis; the parts are concatenated along
        `concat_axis`. Otherwise `split_axis` is removed, and `concat_axis` is a new axis.
    Raises: ValueError if the size of `split_axis` does not match.

    >>> x = jnp.arange(4).reshape(2, 2)
    >>> xjax.vmap(lambda row: all_to_all(row, "i", 0, 0), axis_name="i")(x).tolist()
    [[0, 2], [1, 3]]
    """
    groups = groups_key(axis_index_groups)
    size = axis_size(axis_name) if groups is None else len(groups[0])

    def exchange(leaf: ArrayLike) -> Array:
        aval = typeof(leaf)
        split = canonical_axis(split_axis, aval.ndim, "lax.all_to_all", "split_axis")
        concat = canonical_axis(concat_axis, aval.ndim, "lax.all_to_all", "concat_axis")
        _check_split(aval, split, size, tiled)
        if not tiled and split != concat:
            concat += split < concat            # `concat_axis` counts without the axis that is split
            leaf = expand_dims(leaf, (concat,))
            split += concat < split
        result = all_to_all_p.bind(leaf, split_axis=split, concat_axis=concat, axis_name=axis_name,
                                   axis_index_groups=groups, axis_size=size, tiled=bool(tiled))
        return squeeze(result, (split,)) if not tiled and split != concat else result

    return tree_map(exchange, x)


def pswapaxes(x: ArrayLike, axis_name: AxisName, axis: int, *, axis_index_groups: Groups = None) -> Array:
    """Swap a named axis with axis `axis` of an array, or of each array of a tree; both must have the same size."""
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def _check_split(aval: ShapedArray, split: int, size: int, tiled: bool) -> None:
    n = aval.shape[split]
    if n % size if tiled else n != size:
        raise bad("lax.all_to_all", "the split axis does not fit the size of the named axis",
                  given={"x": aval, "split_axis": f"{split}, size {n}", "named axis": f"size {size}"},
                  fix="pad the axis to a multiple of the size." if tiled else
                      "use tiled=True with a multiple of the size.", exc=ValueError)


def _all_to_all_type(x, *, split_axis, concat_axis, axis_name, axis_index_groups, axis_size, tiled):
    shape = list(x.shape)
    shape[split_axis] //= axis_size
    shape[concat_axis] *= axis_size
    return ShapedArray(tuple(shape), x.dtype)


def _all_to_all_lower(b, out, x, *, split_axis, concat_axis, axis_name, axis_index_groups, axis_size, tiled):
    groups = mesh_of(b, "all_to_all").groups(names_of(axis_name), axis_index_groups)
    if alone(groups):
        return x
    return b.generic("stablehlo.all_to_all", [x], [out],
                     f"split_dimension = {split_axis} : i64, concat_dimension = {concat_axis} : i64, split_count = "
                     f"{axis_size} : i64, replica_groups = {i64_matrix(groups)}, {channel(b)}")[0]


def _all_to_all_transpose(ct, x, *, split_axis, concat_axis, **params):
    return [all_to_all_p.bind(ct, split_axis=concat_axis, concat_axis=split_axis, **params)]


def _all_to_all_batch(axis, args, bdims, *, split_axis, concat_axis, axis_name, axis_index_groups, axis_size, tiled):
    (x,), (bdim,) = args, bdims
    if axis.name not in names_of(axis_name):
        moved = [d + (bdim <= d) for d in (split_axis, concat_axis)]
        return all_to_all_p.bind(x, split_axis=moved[0], concat_axis=moved[1], axis_name=axis_name, tiled=tiled,
                                 axis_index_groups=axis_index_groups, axis_size=axis_size), bdim
    no_groups("all_to_all", axis_index_groups)
    if bdim is None:
        shape = typeof(x).shape
        x, bdim = broadcast_in_dim(x, (axis.size, *shape), range(1, len(shape) + 1)), 0
    return _exchange_in_turn(axis, move_axis(x, bdim, 0), names_of(axis_name), split_axis + 1, concat_axis + 1), 0


def _exchange_in_turn(axis, x, names, split, concat):
    """Exchange along one named axis at a time; vmap maps one of them, to axis 0 of `x`.

    The split axis is reshaped into one axis per name. Each is swapped with its named axis, then all move to `concat`.
    """
    shape, k = typeof(x).shape, len(names)
    sizes = [axis_size(name) for name in names]
    x = reshape(x, (*shape[:split], *sizes, shape[split] // math.prod(sizes), *shape[split + 1:]))
    for at, (name, size) in enumerate(zip(names, sizes, strict=True), split):
        if name == axis.name:
            order = list(range(typeof(x).ndim))
            order[0], order[at] = at, 0
            x = transpose(x, order)
        else:
            x = all_to_all_p.bind(x, split_axis=at, concat_axis=at, axis_name=(name,), axis_index_groups=None,
                                  axis_size=size, tiled=True)
    rest = [d for d in range(typeof(x).ndim) if not split <= d < split + k]
    x = transpose(x, [*rest[:concat], *range(split, split + k), *rest[concat:]])
    shape = typeof(x).shape
    return reshape(x, (*shape[:concat], math.prod(shape[concat:concat + k + 1]), *shape[concat + k + 1:]))


all_to_all_p = Primitive("all_to_all", type_rule=_all_to_all_type, lower=_all_to_all_lower, jvp=LINEAR,
                         transpose=_all_to_all_transpose, batch=_all_to_all_batch, axis_param="axis_name",
                         vary=vary_exchanged)


# -- pbroadcast ---------------------------------------------------------------------------------------------------

def pbroadcast(x: ArrayLike, axis_name: AxisName, source: int) -> Array:
    """The value of element `source` of a named axis, for all elements; `x` is an array or a tree of arrays."""
    source, size = static_int(source, "source", "lax.pbroadcast"), axis_size(axis_name)
    if not 0 <= source < size:
        raise bad("lax.pbroadcast", f"`source` {source} is not a position on an axis of size {size}",
                  fix=f"pass a number from 0 to {size - 1}.", exc=ValueError)
    chosen = eq(axis_index(axis_name), np.int32(source))

    def send(leaf: Array) -> Array:
        aval = typeof(leaf)
        masked = select(broadcast_in_dim(chosen, aval.shape, ()), leaf, zeros_of(aval))
        return convert_element_type(psum(masked, axis_name), aval.dtype)

    return tree_map(send, x)
