"""`vmap`: map a function over array axes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from xjax.core.calls import (
    argument_error,
    argument_names,
    bounded,
    check_callable,
    flatten_function,
    function_name,
)
from xjax.core.errors import bad
from xjax.core.trace import Tag
from xjax.core.tree import flatten, flatten_axes, leaf_paths, tree_structure, tree_unflatten
from xjax.core.types import ShapedArray, typeof
from xjax.ops.checks import static_int
from xjax.transforms.batching import BatchAxis, batch_flat, place_axis
from xjax.transforms.refs import Ref, RefArguments, has_refs, read, refuse_aliases, row_type, write
from xjax.typing import ArrayLike, PyTree


def vmap(fun: Callable, in_axes: PyTree = 0, out_axes: PyTree = 0, axis_name: str | None = None,
         axis_size: int | None = None, spmd_axis_name: Hashable = None) -> Callable:
    """A function that applies `fun` to every element along an axis of its arguments.

    Args:
      in_axes: the axis to map in each positional argument: an int, None (not mapped), or a tree prefix of these.
        `fun` gets a ref of one element for each mapped ref.
      out_axes: the position of the mapped axis in each result; None for results that do not depend on it.
      axis_name: name of the axis for collectives such as `lax.psum`.
      axis_size: its size; needed only if no argument is mapped.
      spmd_axis_name: a mesh axis, or a tuple of mesh axes, over which the mapped axis is sharded by each
        `lax.with_sharding_constraint` and `shard_map` inside; their specs must not name it.

    Raises: ValueError if the sizes of mapped axes differ; it names the arguments that differ.

    >>> xjax.vmap(lambda x, y: x * y, in_axes=(0, None))(xjax.numpy.arange(3), 2)
    Array([0, 2, 4], dtype=int32)
    """
    check_callable("vmap", fun)
    mesh_axes = () if spmd_axis_name is None else spmd_axis_name if isinstance(spmd_axis_name, tuple) else (
        spmd_axis_name,)
    name = f"vmap of `{function_name(fun)}`"
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if not isinstance(in_axes, (int, tuple, type(None))):
        raise bad(name, "in_axes must be an int, None, or a tuple with one entry for each positional argument",
                  given={"in_axes": repr(in_axes)}, fix="write in_axes=0 or in_axes=(0, None).")

    @functools.wraps(fun)
    @bounded
    def vmap_f(*args: object, **kwargs: object) -> PyTree:
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise bad(name, f"in_axes has {len(in_axes)} entries for {len(args)} positional arguments",
                      given={"in_axes": repr(in_axes)}, fix="give one entry for each positional argument.",
                      exc=ValueError)
        leaves, treedef = flatten((args, kwargs))
        dims = flatten_axes(f"{name}: in_axes", treedef, (in_axes, 0))
        refs, given = {}, leaves
        if has_refs(leaves):
            refuse_aliases(name, leaves)
            refs = {i: x for i, x in enumerate(leaves) if type(x) is Ref and dims[i] is not None}
            leaves = [read(x) if i in refs else x for i, x in enumerate(leaves)]
        try:                                    # arguments that are not mapped may have any type
            avals = [None if d is None else typeof(x) for x, d in zip(leaves, dims, strict=True)]
        except TypeError as error:
            raise argument_error(name, fun, leaves, treedef, None) or error from None
        dims = [None if a is None else _in_dim(name, a, d) for a, d in zip(avals, dims, strict=True)]
        size = mapped_size(name, fun, args, kwargs, leaves, dims, axis_size)
        flat = flatten_function(fun, treedef, keywords=True, caller=name)
        axis = BatchAxis(size, axis_name, Tag(name), mesh_axes)
        types = {i: row_type(x.ref_type, dims[i]) for i, x in refs.items()}
        run = RefArguments(flat, types, refs) if refs else flat
        try:
            outs, out_dims = batch_flat(run, axis, leaves, dims)
        finally:
            axis.tag.close()
        if refs:
            count = len(outs) - len(run.written)
            for i, y, b in zip(run.written, outs[count:], out_dims[count:], strict=True):
                write(given[i], place_axis(y, b, dims[i], size))
            outs, out_dims = outs[:count], out_dims[:count]
        wanted = flatten_axes(f"{name}: out_axes", flat.out_tree, tuple(out_axes) if isinstance(out_axes, list)
                              else out_axes)
        placed = [_place(name, y, b, w, size) for y, b, w in zip(outs, out_dims, wanted, strict=True)]
        return tree_unflatten(flat.out_tree, placed)

    return vmap_f


def _in_dim(caller: str, aval: ShapedArray, dim: int) -> int:
    dim = static_int(dim, "in_axes", caller)
    if not -aval.ndim <= dim < aval.ndim:
        raise bad(caller, f"cannot map axis {dim} of an array with {aval.ndim} axes",
                  given={"array": aval.str_short(), "in_axes": str(dim)},
                  fix="choose an axis that the array has, or None to pass the whole array.", exc=ValueError)
    return dim % aval.ndim


def mapped_size(caller: str, fun: Callable, args: Sequence[Any], kwargs: dict, leaves: Sequence[Any],
                dims: Sequence[int | None], axis_size: int | None) -> int:
    """The common size of the mapped axes; the error names the arguments that differ from the others."""
    sizes = {typeof(x).shape[d] for x, d in zip(leaves, dims, strict=True) if d is not None}
    if axis_size is not None:
        sizes.add(axis_size)
    if len(sizes) == 1:
        return sizes.pop()
    if not sizes:
        raise bad(caller, "no argument is mapped, so the size of the axis is unknown",
                  fix="map at least one argument with in_axes, or pass axis_size.", exc=ValueError)
    raise bad(caller, f"{caller.partition(' ')[0]} got inconsistent sizes for array axes to be mapped",
              given=_sizes_by_argument(fun, args, kwargs, leaves, dims, axis_size),
              fix="make the mapped axes equal in size, or pass None in in_axes for arguments that are not mapped.",
              exc=ValueError)


def _sizes_by_argument(fun, args, kwargs, leaves, dims, axis_size) -> list[str]:
    """A line for the most common size, then a line for each argument that differs (at most five)."""
    names = iter(argument_names(fun, args, kwargs))
    paths = []
    for arg in (*args, *(kwargs[k] for k in sorted(kwargs))):
        name = next(names, "argument")
        paths += leaf_paths(name, tree_structure(arg))
    rows = [(typeof(x).shape[d], f"{path}: {typeof(x).str_short()}, axis {d} has size {typeof(x).shape[d]}")
            for x, d, path in zip(leaves, dims, paths, strict=True) if d is not None]
    if axis_size is not None:
        rows.insert(0, (axis_size, f"axis_size: {axis_size}"))
    counts = [n for n, _ in rows]
    usual = max(set(counts), key=lambda n: (counts.count(n), -counts.index(n)))
    same = [text for n, text in rows if n == usual]
    odd = [text for n, text in rows if n != usual]
    lines = same[:1] + odd[:5]
    if len(same) > 1:
        lines[0] += f" ({len(same) - 1} more of this size)"
    return lines + ([f"and {len(odd) - 5} more"] if len(odd) > 5 else [])


def _place(caller: str, y: ArrayLike, bdim: int | None, wanted: int | None, size: int) -> ArrayLike:
    if wanted is None:
        if bdim is not None:
            raise bad(caller, "out_axes is None for a result that depends on the mapped axis",
                      given={"result": typeof(y).str_short()}, fix="give it an axis in out_axes, such as 0.",
                      exc=ValueError)
        return y
    rank = typeof(y).ndim + (bdim is None)
    wanted = static_int(wanted, "out_axes", caller)
    if not -rank <= wanted < rank:
        raise bad(caller, f"out_axes {wanted} is out of bounds for a result with {rank} axes",
                  fix=f"use a value from {-rank} to {rank - 1}.", exc=ValueError)
    return place_axis(y, bdim, wanted % rank, size)
