"""Communication along named axes: psum, pmax, pmin, pmean, all_gather, psum_scatter, ppermute, axis_index.

A named axis is an axis of a device mesh (`pmap`, `shard_map`) or the axis of a `vmap(axis_name=...)`. On a mesh the
operation is lowered to a collective; under `vmap` the batch rule replaces it with plain array operations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.context import UNNAMED, context, find_axis
from xjax.core.errors import bad, did_you_mean
from xjax.core.hlo import Builder, Value, i64_matrix, return_text, tensor_type
from xjax.core.primitive import LINEAR, ZERO, JVPRule, Missing, Primitive
from xjax.core.tree import flatten, tree_unflatten
from xjax.core.types import ShapedArray, Vma, Zero, number_of, typeof
from xjax.core.varying import typed_axes
from xjax.ops.arrange import concatenate, iota
from xjax.ops.checks import canonical_axis
from xjax.ops.convert import convert_element_type
from xjax.ops.elementwise import add, div, mul
from xjax.ops.pvary import pvary_p
from xjax.ops.reduce import reduce_max, reduce_min
from xjax.ops.shape import broadcast_in_dim, move_axis, reduce_sum, reshape
from xjax.ops.slice import dynamic_slice_in_dim, slice_in_dim
from xjax.ops.zeros import zeros_of
from xjax.typing import Array, ArrayLike, PyTree

AxisName = Hashable | Sequence[Hashable]
Groups = Sequence[Sequence[int]] | None         # the values of `axis_index_groups`
INT32 = np.dtype(np.int32)


def names_of(axis_name: AxisName) -> tuple:
    return tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)


def axis_size(axis_name: AxisName) -> int:
    """Size of a named axis (product of the sizes, for a tuple of names): a Python int.

    Raises: NameError if no vmap, pmap or shard_map around the call has an axis of that name.
    """
    return math.prod(_size(name) for name in names_of(axis_name))


def _size(name: AxisName) -> int:
    axis = find_axis(name)
    if axis is None:
        known = [a.name for a in context.axes if a.name != UNNAMED]
        hint = did_you_mean(str(name), [str(k) for k in known]) if known else None
        way = (f"call it inside a function mapped with vmap or pmap(..., axis_name={name!r}), or with shard_map over a "
               "mesh that has the axis.")
        raise bad("axis name", f"unbound axis name: {name}",
                  given={"axes in scope": ", ".join(map(repr, known)) or "none"},
                  fix=hint or f"{'use an axis in scope, or ' if known else ''}{way}", exc=NameError)
    return axis.size


class MeshAxes:
    """The mesh that lowered code runs under; it determines which devices communicate in a collective.

    Attributes:
      manual: the axes along which the code is that of one device; along other axes the compiler shards it.
      mesh_name, sdy_names: names of the mesh and of its axes in the program's text.
    """

    __slots__ = ("names", "sizes", "manual", "mesh_name", "sdy_names")

    def __init__(self, names: Sequence[AxisName], sizes: Sequence[int], manual: frozenset, mesh_name: str,
                 sdy_names: Sequence[str]):
        self.names, self.sizes, self.manual = tuple(names), tuple(sizes), manual
        self.mesh_name, self.sdy_names = mesh_name, tuple(sdy_names)

    @property
    def automatic(self) -> list[str]:
        """Names in the program's text of the axes that are not manual."""
        return [text for name, text in zip(self.names, self.sdy_names, strict=True) if name not in self.manual]

    def groups(self, axes: Sequence[AxisName], index_groups: Sequence[Sequence[int]] | None) -> list[list[int]]:
        """Groups of positions that communicate along `axes`, each in the order of the index along them."""
        ids = np.arange(math.prod(self.sizes)).reshape(self.sizes)
        along = [self.names.index(a) for a in axes]
        others = [i for i in range(len(self.names)) if i not in along]
        rows = ids.transpose(*others, *along).reshape(-1, math.prod(self.sizes[i] for i in along))
        if index_groups is not None:
            return [[int(row[i]) for i in group] for row in rows for group in index_groups]
        return rows.tolist()

    def stride(self, axis: AxisName) -> tuple[int, int]:
        """(stride, size) of an axis in the row-major numbering of positions."""
        i = self.names.index(axis)
        return math.prod(self.sizes[i + 1:]), self.sizes[i]


def mesh_of(b: Builder, caller: str) -> MeshAxes:
    if b.axes is None:
        raise bad(f"lax.{caller}", "a collective is compiled outside the function that maps its axis",
                  fix="call it inside the function given to vmap, pmap or shard_map.", exc=NameError)
    return b.axes


def alone(groups: Sequence[Sequence[int]]) -> bool:
    """Whether each device communicates with itself only, as on a mesh of one device; then nothing is sent.

    XLA would still execute such a collective.
    """
    return all(len(group) == 1 for group in groups)


def _among(b: Builder, groups: Sequence[Sequence[int]]) -> str:
    """Replica-group attributes of a collective."""
    return f"replica_groups = {i64_matrix(groups)}, {channel(b)}, use_global_device_ids"


def channel(b: Builder) -> str:
    return f"channel_handle = #stablehlo.channel_handle<handle = {b.module.number()}, type = 1>"


def no_groups(caller: str, axis_index_groups: Groups) -> None:
    if axis_index_groups is not None:
        raise bad(f"lax.{caller}", "axis_index_groups over an axis of vmap", fix="use pmap or shard_map, or reshape "
                  "the mapped axis and reduce over a part of it.", exc=NotImplementedError)


def groups_key(groups: Groups) -> tuple[tuple[int, ...], ...] | None:
    return None if groups is None else tuple(tuple(int(i) for i in g) for g in groups)


# -- psum, pmax, pmin ---------------------------------------------------------------------------------------------

_NUMBERS = (int, float, complex)                # Python numbers


def psum(x: PyTree, axis_name: AxisName, *, axis_index_groups: Groups = None) -> PyTree:
    """Sum over a named axis; every element of the axis gets the total. Leaves of trees are summed one by one.

    For a Python number the result is a Python number: ``psum(1, "i")`` is the size of the axis.
    """
    names, groups = names_of(axis_name), groups_key(axis_index_groups)
    size = axis_size(names) if groups is None else len(groups[0])
    leaves, tree = flatten(x)
    arrays = [_as_number(leaf) for leaf in leaves if type(leaf) not in _NUMBERS]
    sums = iter(_sums(arrays, names, groups))
    return tree_unflatten(tree, [leaf * size if type(leaf) in _NUMBERS else next(sums) for leaf in leaves])


def _sums(arrays: Sequence[Any], names: tuple, groups: Groups) -> Sequence[Any]:
    """Sums over the named axes; axes that types track have their own operation, whose result does not vary."""
    if not arrays:
        return ()
    typed, others = _split_typed("psum", names, groups)
    if others:
        arrays = psum_p.bind(*arrays, axes=others, axis_index_groups=groups)
    return [psum_invariant_p.bind(x, axes=typed) for x in arrays] if typed else arrays


def _split_typed(caller: str, names: tuple, groups: Groups) -> tuple[tuple, tuple]:
    """(names of the axes that types track, names of the other axes)."""
    in_scope = typed_axes()
    typed = tuple(a for a in names if a in in_scope)
    if typed and groups is not None:
        raise bad(f"lax.{caller}", "the sum over groups of a checked shard_map would have no type: it is equal on the "
                  "devices of a group only", given={"axis_index_groups": str(groups)},
                  fix="use a mesh with one more axis and sum over that, or shard_map(..., check_vma=False).",
                  exc=NotImplementedError)
    return typed, tuple(a for a in names if a not in in_scope)


def _as_number(x: Array) -> Array:
    """Bools are summed as int32."""
    return convert_element_type(x, INT32) if typeof(x).dtype == np.bool_ else x


def pmean(x: PyTree, axis_name: AxisName, *, axis_index_groups: Groups = None) -> PyTree:
    """Mean over a named axis; see `psum`."""
    size = psum(1, axis_name, axis_index_groups=axis_index_groups)
    leaves, tree = flatten(psum(x, axis_name, axis_index_groups=axis_index_groups))
    return tree_unflatten(tree, [leaf / size if type(leaf) in _NUMBERS else _divide(leaf, size)
                                 for leaf in leaves])


def _divide(x: Array, n: int) -> Array:
    dtype = dtypes.to_inexact_dtype(typeof(x).dtype)
    return div(convert_element_type(x, dtype), number_of(dtype, n))


def pmax(x: ArrayLike, axis_name: AxisName, *, axis_index_groups: Groups = None) -> Array:
    """Maximum over a named axis, element by element; NaN propagates."""
    return _extreme(pmax_p, x, axis_name, axis_index_groups)


def pmin(x: ArrayLike, axis_name: AxisName, *, axis_index_groups: Groups = None) -> Array:
    """Minimum over a named axis, element by element; NaN propagates."""
    return _extreme(pmin_p, x, axis_name, axis_index_groups)


def _extreme(p: Primitive, x: Array, axis_name: AxisName, axis_index_groups: Groups) -> Array:
    names = names_of(axis_name)
    axis_size(names)
    leaves, tree = flatten(x)
    groups = groups_key(axis_index_groups)
    _split_typed(p.name, names, groups)
    return tree_unflatten(tree, p.bind(*leaves, axes=names, axis_index_groups=groups))


def _vary_along(axes: Sequence[AxisName]) -> Vma:
    return typed_axes().intersection(axes)


def _vary_reduced(vmas, *, axes, **params):
    """One result per operand, equal on all devices along the axes."""
    along = _vary_along(axes)
    return [vma | along for vma in vmas], [vma - along for vma in vmas]


def vary_exchanged(vmas, *, axis_name, **params):
    """Varying axes of operations whose result differs between devices along `axis_name`."""
    vma = vmas[0] | _vary_along(names_of(axis_name))
    return [vma], vma


def _all_reduce(name: str, combine: str, over_vmap: Callable[..., Any], jvp: JVPRule,
                transpose: Callable | Missing) -> Primitive:
    """A collective that combines equal shapes. `over_vmap(x, bdim or None, size)` is its result on a mapped axis."""
    def type_rule(*avals, axes, axis_index_groups):
        return tuple(a.strong() for a in avals)

    def lower(b, outs, *xs, axes, axis_index_groups):
        groups = mesh_of(b, name).groups(axes, axis_index_groups)
        if alone(groups):
            return list(xs)
        results = []
        for x, out in zip(xs, outs, strict=True):
            scalar = ShapedArray((), out.dtype)
            region = b.region([scalar, scalar], lambda inner, p, q: [inner.binary(combine, p, q)])
            results += b.generic("stablehlo.all_reduce", [x], [out], _among(b, groups), [region])
        return results

    def batch(axis, args, bdims, *, axes, axis_index_groups):
        rest = tuple(a for a in axes if a != axis.name)
        args = list(args)
        if axis.name in axes:
            no_groups(name, axis_index_groups)
            args = [over_vmap(x, b, axis.size) for x, b in zip(args, bdims, strict=True)]
            bdims = [None] * len(args)
        if rest:
            args = p.bind(*args, axes=rest, axis_index_groups=axis_index_groups)
        return args, bdims

    p = Primitive(name, type_rule=type_rule, lower=lower, jvp=jvp, transpose=transpose, batch=batch,
                  multiple_results=True, axis_param="axes", vary=_vary_reduced)
    return p


def _psum_jvp(primals, tangents, **params):
    outs = psum_p.bind(*primals, **params)
    some = [dx for dx in tangents if type(dx) is not Zero]
    summed = iter(psum_p.bind(*some, **params) if some else ())
    return outs, [Zero(dx.aval) if type(dx) is Zero else next(summed) for dx in tangents]


def _psum_transpose(cts, *args, **params):
    # Every device computes the same function of the total, so each gets the sum of all cotangents.
    some = [ct for ct in cts if type(ct) is not Zero]
    summed = iter(psum_p.bind(*some, **params) if some else ())
    return [None if type(ct) is Zero else next(summed) for ct in cts]


def _vmapped_sum(x: ArrayLike, bdim: int | None, size: int) -> Array:
    return mul(x, number_of(typeof(x).dtype, size)) if bdim is None else reduce_sum(x, (bdim,))


_EXTREME = Missing("the maximum over devices has no derivative rule",
                   fix="use all_gather and reduce the result, or stop_gradient the argument.")

psum_p = _all_reduce("psum", "stablehlo.add", _vmapped_sum, _psum_jvp, _psum_transpose)
pmax_p = _all_reduce("pmax", "stablehlo.maximum", lambda x, b, n: x if b is None else reduce_max(x, (b,)), _EXTREME,
                     _EXTREME)
pmin_p = _all_reduce("pmin", "stablehlo.minimum", lambda x, b, n: x if b is None else reduce_min(x, (b,)), _EXTREME,
                     _EXTREME)


def _sum_lower(b, out, x, *, axes):
    return psum_p.lower(b, [out], x, axes=axes, axis_index_groups=None)[0]


def _sum_transpose(ct, x, *, axes):
    return [pvary_p.bind(ct, axes=axes)]


def _sum_vary(vmas, *, axes):
    return [vmas[0] | frozenset(axes)], vmas[0] - frozenset(axes)


def _sum_batch(axis, args, bdims, *, axes):
    return psum_invariant_p.bind(*args, axes=axes), bdims[0]


# The sum along axes that types track: all devices share the total, and so its cotangent.
psum_invariant_p = Primitive("psum_invariant", type_rule=lambda x, *, axes: x.strong(), lower=_sum_lower, jvp=LINEAR,
                             transpose=_sum_transpose, batch=_sum_batch, vary=_sum_vary, axis_param="axes")


# -- axis_index ---------------------------------------------------------------------------------------------------

def axis_index(axis_name: AxisName) -> Array:
    """Position along a named axis (row-major over a tuple of names): int32 scalar."""
    index = None
    for name in names_of(axis_name):
        size = _size(name)
        here = axis_index_p.bind(axis_name=name)
        index = here if index is None else add(mul(index, INT32.type(size)), here)
    return broadcast_in_dim(0, (), ()) if index is None else index


def _axis_index_lower(b, out, *, axis_name):
    axes = mesh_of(b, "axis_index")
    automatic = axes.automatic
    if not automatic:
        return _position(b, out, axes, axis_name)
    # The position is known only in code that is manual along all axes of the mesh.
    inner = Builder(b.module, axes, b.level + 1)
    position = _position(inner, out, axes, axis_name)
    body = "\n".join([*inner.lines, return_text("sdy.return", [position])])
    along = ", ".join(f'"{name}"' for name in automatic)
    return b.op(f"sdy.manual_computation() in_shardings=[] out_shardings=[<@{axes.mesh_name}, []>] "
                f"manual_axes={{{along}}} () {{\n{body}\n}} : () -> {tensor_type(out)}", out)


def _position(b, out, axes, axis_name):
    stride, size = axes.stride(axis_name)
    if size == 1:
        return b.constant(0, out)
    unsigned = ShapedArray((), np.dtype(np.uint32))
    position = b.op("stablehlo.partition_id : tensor<ui32>", unsigned)
    position = b.div(position, stride)
    return b.convert(b.binary("stablehlo.remainder", position, b.constant(size, unsigned)), INT32)


def _axis_index_vary(vmas, *, axis_name):
    return [], _vary_along([axis_name])


def _axis_index_batch(axis, args, bdims, *, axis_name):
    return iota(INT32, axis.size), 0


axis_index_p = Primitive("axis_index", type_rule=lambda *, axis_name: ShapedArray((), INT32), lower=_axis_index_lower,
                         jvp=ZERO, transpose=Missing("a position has no derivative"), batch=_axis_index_batch,
                         axis_param="axis_name", vary=_axis_index_vary)


# -- all_gather and psum_scatter, adjoint to each other -----------------------------------------------------------

def all_gather(x: ArrayLike, axis_name: AxisName, *, axis_index_groups: Groups = None,
               axis: int = 0, tiled: bool = False, to: str = "varying") -> Array:
    """The values of all elements of a named axis, stacked along a new axis (with `tiled`, concatenated along `axis`).

    Args: to: the type of the result in a checked `shard_map`, see `pcast`: "varying" along the axis, or "invarying",
      that is equal on all devices, so that an output spec may omit the axis.
    """
    if to not in ("varying", "invarying"):
        raise bad("lax.all_gather", f"`to` cannot be {to!r}", fix="pass 'varying' or 'invarying'.",
                  exc=NotImplementedError if to == "reduced" else ValueError)
    names, groups = names_of(axis_name), groups_key(axis_index_groups)
    size = axis_size(names) if groups is None else len(groups[0])
    invariant = to == "invarying" and typed_axes().issuperset(names)
    if invariant:
        _split_typed("all_gather", names, groups)

    def gather(leaf: Array) -> Array:
        dim = canonical_axis(axis, typeof(leaf).ndim + (not tiled), "lax.all_gather")
        p = all_gather_invariant_p if invariant else all_gather_p
        return p.bind(leaf, all_gather_dimension=dim, axis_name=names, axis_index_groups=groups, axis_size=size,
                      tiled=tiled)

    leaves, tree = flatten(x)
    return tree_unflatten(tree, [gather(leaf) for leaf in leaves])


def _all_gather_type(x, *, all_gather_dimension, axis_name, axis_index_groups, axis_size, tiled):
    d, shape = all_gather_dimension, x.shape
    shape = (*shape[:d], shape[d] * axis_size, *shape[d + 1:]) if tiled else (*shape[:d], axis_size, *shape[d:])
    return ShapedArray(shape, x.dtype)


def _all_gather_lower(b, out, x, *, all_gather_dimension, axis_name, axis_index_groups, axis_size, tiled):
    d = all_gather_dimension
    if not tiled:
        x = _insert_axis(b, x, d)
    groups = mesh_of(b, "all_gather").groups(axis_name, axis_index_groups)
    if alone(groups):
        return x
    return b.generic("stablehlo.all_gather", [x], [out], f"all_gather_dim = {d} : i64, {_among(b, groups)}")[0]


def _insert_axis(b: Builder, x: Value, d: int) -> Value:
    aval = ShapedArray((*x.aval.shape[:d], 1, *x.aval.shape[d:]), x.aval.dtype)
    return b.op(f"stablehlo.reshape {x} : ({x.type}) -> {tensor_type(aval)}", aval)


def _all_gather_transpose(ct, x, *, all_gather_dimension, **params):
    return [reduce_scatter_p.bind(ct, scatter_dimension=all_gather_dimension, **params)]


def _all_gather_batch(axis, args, bdims, *, all_gather_dimension, axis_name, axis_index_groups, axis_size, tiled):
    (x,), (bdim,), d = args, bdims, all_gather_dimension
    if axis.name not in axis_name:
        moved = d if bdim is None else d + (bdim <= d if tiled else bdim < d)
        out = all_gather_p.bind(x, all_gather_dimension=moved, axis_name=axis_name, axis_size=axis_size, tiled=tiled,
                                axis_index_groups=axis_index_groups)
        return out, None if bdim is None else bdim + (not tiled and moved <= bdim)
    no_groups("all_gather", axis_index_groups)
    if len(axis_name) > 1:              # the last axis varies fastest, so it is gathered first
        for i, name in enumerate(reversed(axis_name)):
            x, bdim = _all_gather_batch(axis, [x], [bdim], all_gather_dimension=d, axis_name=(name,),
                                        axis_index_groups=None, axis_size=_size(name), tiled=tiled or i > 0)
        return x, bdim
    if bdim is None:
        shape = typeof(x).shape
        x = broadcast_in_dim(x, (axis.size, *shape), range(1, len(shape) + 1))
        bdim = 0
    x = move_axis(x, bdim, d)
    if tiled:
        shape = typeof(x).shape
        x = reshape(x, (*shape[:d], shape[d] * shape[d + 1], *shape[d + 2:]))
    return x, None


all_gather_p = Primitive("all_gather", type_rule=_all_gather_type, lower=_all_gather_lower, jvp=LINEAR,
                         transpose=_all_gather_transpose, batch=_all_gather_batch, axis_param="axis_name",
                         vary=vary_exchanged)


def _own_part(ct, x, *, all_gather_dimension, axis_name, axis_index_groups, axis_size, tiled):
    """A device's part of a cotangent that all devices share: the part for the values that the device contributed."""
    d, n = all_gather_dimension, typeof(ct).shape[all_gather_dimension] // axis_size
    part = dynamic_slice_in_dim(ct, mul(axis_index(axis_name), INT32.type(n)), n, d)
    shape = typeof(part).shape
    return [part if tiled else reshape(part, (*shape[:d], *shape[d + 1:]))]


def _vary_gathered(vmas, *, axis_name, **params):
    return [vmas[0] | frozenset(axis_name)], vmas[0] - frozenset(axis_name)


def _gathered_batch(axis, args, bdims, **params):
    (x,), (bdim,), d = args, bdims, params["all_gather_dimension"]
    moved = d + (bdim <= d if params["tiled"] else bdim < d)
    out = all_gather_invariant_p.bind(x, **{**params, "all_gather_dimension": moved})
    return out, bdim + (not params["tiled"] and moved <= bdim)


all_gather_invariant_p = Primitive("all_gather_invariant", type_rule=_all_gather_type, lower=_all_gather_lower,
                                   jvp=LINEAR, transpose=_own_part, batch=_gathered_batch, axis_param="axis_name",
                                   vary=_vary_gathered)


def psum_scatter(x: ArrayLike, axis_name: AxisName, *, scatter_dimension: int = 0,
                 axis_index_groups: Groups = None, tiled: bool = False) -> Array:
    """Sum over a named axis; each element of the axis keeps its part of the sum along `scatter_dimension`.

    That dimension must have the size of the named axis, and is removed. With `tiled` its size must be a multiple of
    the axis size, and it is split.
    """
    names, groups = names_of(axis_name), groups_key(axis_index_groups)
    size = axis_size(names) if groups is None else len(groups[0])

    def scatter(leaf: Array) -> Array:
        aval = typeof(leaf)
        dim = canonical_axis(scatter_dimension, aval.ndim, "lax.psum_scatter", "scatter_dimension")
        n = aval.shape[dim]
        if n % size if tiled else n != size:
            raise bad("lax.psum_scatter", "the scattered dimension does not fit the axis",
                      given={"operand": aval.str_short(), "scatter_dimension": str(dim), "axis size": str(size)},
                      fix="use tiled=True with a multiple of the axis size." if not tiled else
                          "pad the dimension to a multiple of the axis size.", exc=ValueError)
        return reduce_scatter_p.bind(leaf, scatter_dimension=dim, axis_name=names, axis_index_groups=groups,
                                     axis_size=size, tiled=tiled)

    leaves, tree = flatten(x)
    return tree_unflatten(tree, [scatter(leaf) for leaf in leaves])


def _scatter_type(x, *, scatter_dimension, axis_name, axis_index_groups, axis_size, tiled):
    d, shape = scatter_dimension, x.shape
    shape = (*shape[:d], shape[d] // axis_size, *shape[d + 1:]) if tiled else (*shape[:d], *shape[d + 1:])
    return ShapedArray(shape, x.dtype)


def _scatter_lower(b, out, x, *, scatter_dimension, axis_name, axis_index_groups, axis_size, tiled):
    d = scatter_dimension
    groups = mesh_of(b, "psum_scatter").groups(axis_name, axis_index_groups)
    y = x
    if not alone(groups):
        scalar = ShapedArray((), out.dtype)
        region = b.region([scalar, scalar], lambda inner, p, q: [inner.add(p, q)])
        part = out if tiled else ShapedArray((*out.shape[:d], 1, *out.shape[d:]), out.dtype)
        y, = b.generic("stablehlo.reduce_scatter", [x], [part], f"scatter_dimension = {d} : i64, {_among(b, groups)}",
                       [region])
    return y if tiled else b.op(f"stablehlo.reshape {y} : ({y.type}) -> {tensor_type(out)}", out)


def _scatter_transpose(ct, x, *, scatter_dimension, **params):
    return [all_gather_p.bind(ct, all_gather_dimension=scatter_dimension, **params)]


def _scatter_batch(axis, args, bdims, *, scatter_dimension, axis_name, axis_index_groups, axis_size, tiled):
    (x,), (bdim,), d = args, bdims, scatter_dimension
    if axis.name not in axis_name:
        moved = d + (bdim <= d)
        out = reduce_scatter_p.bind(x, scatter_dimension=moved, axis_name=axis_name, axis_size=axis_size, tiled=tiled,
                                    axis_index_groups=axis_index_groups)
        return out, bdim - (not tiled and moved < bdim)
    no_groups("psum_scatter", axis_index_groups)
    if len(axis_name) > 1:              # the first axis varies slowest, so its parts are the largest
        for i, name in enumerate(axis_name):
            x, bdim = _scatter_batch(axis, [x], [bdim], scatter_dimension=d, axis_name=(name,), axis_index_groups=None,
                                     axis_size=_size(name), tiled=tiled or i < len(axis_name) - 1)
        return x, bdim
    total = _vmapped_sum(x, bdim, axis.size)
    if tiled:
        shape = typeof(total).shape
        total = reshape(total, (*shape[:d], axis.size, shape[d] // axis.size, *shape[d + 1:]))
    return total, d


reduce_scatter_p = Primitive("reduce_scatter", type_rule=_scatter_type, lower=_scatter_lower, jvp=LINEAR,
                             transpose=_scatter_transpose, batch=_scatter_batch, axis_param="axis_name",
                             vary=vary_exchanged)


# -- ppermute -----------------------------------------------------------------------------------------------------

def ppermute(x: ArrayLike, axis_name: AxisName, perm: Sequence[tuple[int, int]]) -> Array:
    """Send values along a named axis. `perm` has pairs (source, destination); an element that receives none gets zeros.
    """
    names = names_of(axis_name)
    size = axis_size(names)
    pairs = tuple((int(s), int(d)) for s, d in perm)
    ends = [{s for s, _ in pairs}, {d for _, d in pairs}]
    if any(len(e) != len(pairs) for e in ends) or any(not 0 <= i < size for e in ends for i in e):
        raise bad("lax.ppermute", "a source or destination occurs twice, or is out of range",
                  given={"perm": str(pairs), "axis size": str(size)},
                  fix="use each source and each destination at most once.", exc=ValueError)
    leaves, tree = flatten(x)
    return tree_unflatten(tree, [ppermute_p.bind(leaf, axis_name=names, perm=pairs) for leaf in leaves])


def pshuffle(x: ArrayLike, axis_name: AxisName, perm: Sequence[int]) -> Array:
    """Permute a named axis: element i gets the value of element `perm[i]`."""
    return ppermute(x, axis_name, [(source, i) for i, source in enumerate(perm)])


def _ppermute_lower(b, out, x, *, axis_name, perm):
    rows = mesh_of(b, "ppermute").groups(axis_name, None)
    if not perm:
        return b.constant(0, out)
    if len(perm) == len(rows[0]) and all(source == target for source, target in perm):
        return x
    pairs = [(row[s], row[d]) for row in rows for s, d in perm]
    return b.generic("stablehlo.collective_permute", [x], [out],
                     f"source_target_pairs = {i64_matrix(pairs)}, {channel(b)}")[0]


def _ppermute_transpose(ct, x, *, axis_name, perm):
    return [ppermute_p.bind(ct, axis_name=axis_name, perm=tuple((d, s) for s, d in perm))]


def _ppermute_batch(axis, args, bdims, *, axis_name, perm):
    (x,), (bdim,) = args, bdims
    if axis.name not in axis_name:
        return ppermute_p.bind(x, axis_name=axis_name, perm=perm), bdim
    if len(axis_name) > 1:
        raise bad("lax.ppermute", "cannot permute several named axes if vmap maps one of them",
                  given={"axes": str(axis_name)}, fix="permute along one axis at a time.",
                  exc=NotImplementedError)
    shape = typeof(x).shape
    if bdim is None:
        x = broadcast_in_dim(x, (axis.size, *shape), range(1, len(shape) + 1))
    else:
        x = move_axis(x, bdim, 0)
    sources = dict((d, s) for s, d in perm)
    rows = [slice_in_dim(x, sources[i], sources[i] + 1) if i in sources
            else zeros_of(ShapedArray((1, *typeof(x).shape[1:]), typeof(x).dtype)) for i in range(axis.size)]
    return concatenate(rows, 0), 0


ppermute_p = Primitive("ppermute", type_rule=lambda x, *, axis_name, perm: x, lower=_ppermute_lower, jvp=LINEAR,
                       transpose=_ppermute_transpose, batch=_ppermute_batch, axis_param="axis_name",
                       vary=vary_exchanged)
