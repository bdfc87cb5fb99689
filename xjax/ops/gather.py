"""gather and scatter-add, each the adjoint of the other: read slices at computed positions, and add to them.

`scatter_primitive` creates all scatters. `scatter_add` is defined here because the transpose of a gather needs it, the
other scatters in `xjax.ops.scatter`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.calls import name_function
from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value, i64_array
from xjax.core.jaxpr import Jaxpr
from xjax.core.primitive import Missing, Primitive
from xjax.core.staging import trace_to_jaxpr
from xjax.core.symbolic.dims import is_empty
from xjax.core.trace import Tracer
from xjax.core.types import ShapedArray, Zero, is_linear, typeof
from xjax.ops.arrange import batched_in_front
from xjax.ops.checks import static_int
from xjax.ops.elementwise import add
from xjax.ops.index_numbers import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    as_ints,
    axes_text,
    check_index_dtype,
    clip_indices,
    flag,
    is_set,
    is_sorted_set,
    shifted,
    valid_indices,
    wide_indices,
)
from xjax.ops.makers import match_scalars
from xjax.ops.shape import broadcast_in_dim, move_axis_to_front
from xjax.ops.zeros import instantiate, zeros_of
from xjax.typing import Array, ArrayLike

_NAN = math.nan          # one object: NaN differs from itself, so a cache key matches by identity


# -- gather -------------------------------------------------------------------------------------------------------

def gather(operand: ArrayLike, start_indices: ArrayLike, dimension_numbers: GatherDimensionNumbers,
           slice_sizes: Sequence[int], *, unique_indices: bool = False, indices_are_sorted: bool = False,
           mode: str | GatherScatterMode | None = None, fill_value: ArrayLike | None = None) -> Array:
    """Slices of `operand` at the positions in `start_indices`.

    Args:
      operand: any[...]; start_indices: int[..., k], an index vector along the last axis.
      dimension_numbers: correspondence of axes, see `GatherDimensionNumbers`.
      slice_sizes: size of a slice along each axis of the operand.
      unique_indices, indices_are_sorted: promises that make the gradient or the gather faster.
      mode: treatment of indices outside the operand, see `GatherScatterMode`; None promises that there are none.
      fill_value: for the mode "fill"; None: NaN, the smallest signed or the largest unsigned integer, or True.
    """
    numbers = GatherDimensionNumbers(*map(as_ints, dimension_numbers))
    mode = GatherScatterMode.PROMISE_IN_BOUNDS if mode is None else GatherScatterMode.from_any(mode)
    if mode is GatherScatterMode.FILL_OR_DROP:
        fill_value = fill_constant(fill_value, typeof(operand).dtype)
    else:
        fill_value = None
    return gather_p.bind(
        operand, start_indices, dimension_numbers=numbers,
        slice_sizes=tuple(static_int(n, "slice_sizes", "lax.gather") for n in slice_sizes),
        unique_indices=bool(unique_indices), indices_are_sorted=bool(indices_are_sorted), mode=mode,
        fill_value=fill_value)


def take_along(x: ArrayLike, index_vectors: ArrayLike, dimension: int) -> Array | np.ndarray:
    """Elements of `x` at positions along one axis; the positions are int[..., 1], and must be valid."""
    if is_empty(typeof(x).shape):                       # a slice of size 1 does not fit into an axis of size 0
        return zeros_of(typeof(x).update(shape=typeof(index_vectors).shape[:-1]))
    others = tuple(d for d in range(typeof(x).ndim) if d != dimension)
    numbers = GatherDimensionNumbers((), (dimension,), (dimension,), others, others)
    return gather(x, index_vectors, numbers, (1,) * typeof(x).ndim, mode=GatherScatterMode.PROMISE_IN_BOUNDS)


def take_all_along(arrays: Sequence[Any], index: ArrayLike, dimension: int) -> list[Any]:
    """From each array, the elements at positions int[...] along one axis, in the shape of the positions."""
    shape = typeof(index).shape
    vectors = broadcast_in_dim(index, (*shape, 1), range(len(shape)))
    return [take_along(x, vectors, dimension) for x in arrays]


def fill_constant(fill_value: ArrayLike | None, dtype: np.dtype) -> Any:
    """The fill value of a gather of this dtype, as a number; None means a value that is easy to notice."""
    if fill_value is not None:
        if isinstance(fill_value, Tracer) or np.ndim(fill_value):
            raise bad("gather", "`fill_value` must be a known number", given={"fill_value": fill_value},
                      fix="read with mode='clip', then select with numpy.where(inside, x, fill_value).")
        known = fill_value if isinstance(fill_value, (int, float, complex, np.generic)) else np.asarray(fill_value)[()]
        return _NAN if isinstance(known, (float, np.floating)) and math.isnan(known) else known
    if dtypes.is_inexact(dtype):
        return _NAN
    if dtypes.is_bool(dtype):
        return True
    if isinstance(dtype, dtypes.ExtendedDType):         # in each word of a key
        dtype = dtypes.uint32
    info = dtypes.iinfo(dtype)
    return int(info.max if dtypes.is_unsigned(dtype) else info.min)


def _gather_fault(x: ShapedArray, indices: ShapedArray, n: GatherDimensionNumbers, sizes: tuple[int, ...],
                  out_ndim: int) -> str | None:
    """A description of the fault in the dimension numbers, or None."""
    batching, collapsed = n.operand_batching_dims, n.collapsed_slice_dims
    if len(sizes) != x.ndim:
        return f"`slice_sizes` must have {x.ndim} entries, one for each axis of the operand"
    if any(not 0 <= s <= size for s, size in zip(sizes, x.shape, strict=True)):
        return "a slice is larger than the operand"
    if not is_sorted_set(n.offset_dims, out_ndim):
        return f"`offset_dims` must be increasing axes of the result, which has {out_ndim} axes"
    if not is_sorted_set(collapsed, x.ndim) or not is_sorted_set(batching, x.ndim) or {*collapsed} & {*batching}:
        return "`collapsed_slice_dims` and `operand_batching_dims` must be increasing, distinct axes of the operand"
    if any(sizes[d] != 1 for d in (*collapsed, *batching)):
        return "collapsed and batching axes must have slice size 1"
    if len(n.offset_dims) + len(collapsed) + len(batching) != x.ndim:
        return "every axis of the operand must be an offset, a collapsed or a batching axis"
    if len(n.start_index_map) != indices.shape[-1] or not is_set(n.start_index_map, x.ndim):
        return "`start_index_map` must name one operand axis for each component of an index vector"
    return _batching_fault(x, indices, n.start_index_map, batching, n.start_indices_batching_dims)


def _batching_fault(x: ShapedArray, indices: ShapedArray, index_map: Sequence[int], operand_dims: Sequence[int],
                    indices_dims: Sequence[int]) -> str | None:
    if {*index_map} & {*operand_dims}:
        return "a batching axis cannot be indexed"
    if len(operand_dims) != len(indices_dims) or not is_set(indices_dims, indices.ndim - 1):
        return "operand and indices must have the same number of batching axes"
    if any(x.shape[a] != indices.shape[b] for a, b in zip(operand_dims, indices_dims, strict=True)):
        return "the batching axes of operand and indices differ in size"
    return None


def _gather_type(x, indices, *, dimension_numbers, slice_sizes, unique_indices, indices_are_sorted, mode, fill_value):
    check_index_dtype("lax.gather", indices)
    n = dimension_numbers
    ndim = indices.ndim - 1 + len(n.offset_dims)
    fault = _gather_fault(x, indices, n, slice_sizes, ndim)
    if mode is GatherScatterMode.ONE_HOT:
        fault = "the mode ONE_HOT does not exist for gather"
    if fault:
        raise bad("lax.gather", fault, given={"operand": x.str_short(), "start_indices": indices.str_short(),
                                              "slice_sizes": str(slice_sizes), "dimension_numbers": str(n)},
                  fix="index with x[i, j], x.at[i].get() or numpy.take_along_axis, which choose the dimension numbers.")
    dropped = {*n.collapsed_slice_dims, *n.operand_batching_dims}
    offsets = iter([s for d, s in enumerate(slice_sizes) if d not in dropped])
    outer = iter(indices.shape[:-1])
    shape = tuple(next(offsets) if d in n.offset_dims else next(outer) for d in range(ndim))
    return x.update(shape=shape)


def _gather_lower(b: Builder, out: ShapedArray, x: Value, indices: Value, *, dimension_numbers, slice_sizes,
                  unique_indices, indices_are_sorted, mode, fill_value) -> Value:
    n = dimension_numbers
    indices = wide_indices(b, indices)
    axes = axes_text({"offset_dims": n.offset_dims, "collapsed_slice_dims": n.collapsed_slice_dims,
                      "operand_batching_dims": n.operand_batching_dims,
                      "start_indices_batching_dims": n.start_indices_batching_dims,
                      "start_index_map": n.start_index_map})
    axes = f"{axes}, " if axes else ""
    text = (f"dimension_numbers = #stablehlo.gather<{axes}index_vector_dim = {indices.aval.ndim - 1}>, "
            f"slice_sizes = {i64_array(slice_sizes)}{flag('indices_are_sorted', indices_are_sorted)}")
    (values,) = b.generic("stablehlo.gather", [x, indices], [out], text)
    if mode is not GatherScatterMode.FILL_OR_DROP or not n.start_index_map:
        return values
    inside = valid_indices(b, indices, x.aval.shape, slice_sizes, n.start_index_map)
    kept = tuple(d for d in range(out.ndim) if d not in n.offset_dims)
    mask = b.broadcast(inside, ShapedArray(out.shape, np.dtype(bool)), kept)
    return b.select(mask, values, b.constant(fill_value, out))


def _gather_jvp(primals, tangents, **params):
    out = gather_p.bind(*primals, **params)
    if type(tangents[0]) is Zero:
        return out, Zero(out.aval.tangent())
    if params["mode"] is GatherScatterMode.FILL_OR_DROP:
        params["fill_value"] = 0                    # the fill value is a constant
    return out, gather_p.bind(tangents[0], primals[1], **params)


def _gather_transpose(ct, x, indices, *, dimension_numbers, slice_sizes, unique_indices, indices_are_sorted, mode,
                      fill_value):
    n = dimension_numbers
    mirrored = ScatterDimensionNumbers(n.offset_dims, n.collapsed_slice_dims, n.start_index_map,
                                       n.operand_batching_dims, n.start_indices_batching_dims)
    into = zeros_of(x.aval)
    return [scatter_add(into, indices, ct, mirrored, indices_are_sorted=indices_are_sorted,
                        unique_indices=unique_indices, mode=mode), None]


def _gather_batch(axis, args, bdims, **params):
    (x, indices), (x_bdim, i_bdim) = args, bdims
    n: GatherDimensionNumbers = params.pop("dimension_numbers")
    sizes = params.pop("slice_sizes")
    if x_bdim is not None:
        x = move_axis_to_front(x, x_bdim)
    if i_bdim is not None:
        indices = move_axis_to_front(indices, i_bdim)
    if i_bdim is None:                              # the batch axis becomes an axis of the slices
        n = GatherDimensionNumbers(
            (0, *shifted(n.offset_dims)), shifted(n.collapsed_slice_dims), shifted(n.start_index_map),
            shifted(n.operand_batching_dims), n.start_indices_batching_dims)
        sizes = (axis.size, *sizes)
    elif x_bdim is None:                            # ... or of the indices
        n = n._replace(offset_dims=shifted(n.offset_dims),
                       start_indices_batching_dims=shifted(n.start_indices_batching_dims))
    elif axis.size == 0:                            # a slice of size 1 does not fit into an axis of size 0
        return zeros_of(_empty_gather(x, indices, n, sizes)), 0
    else:
        n = GatherDimensionNumbers(
            shifted(n.offset_dims), shifted(n.collapsed_slice_dims), shifted(n.start_index_map),
            (0, *shifted(n.operand_batching_dims)), (0, *shifted(n.start_indices_batching_dims)))
        sizes = (1, *sizes)
    return gather_p.bind(x, indices, dimension_numbers=n, slice_sizes=sizes, **params), 0


def _empty_gather(x: Array, indices: Array, n: GatherDimensionNumbers,
                  sizes: tuple[int, ...]) -> ShapedArray:
    """Type of a gather with a batch axis of size 0."""
    dropped = {*n.collapsed_slice_dims, *n.operand_batching_dims}
    offsets = iter([s for d, s in enumerate(sizes) if d not in dropped])
    outer = iter(indices.aval.shape[1:-1])
    ndim = indices.aval.ndim - 2 + len(n.offset_dims)
    shape = tuple(next(offsets) if d in n.offset_dims else next(outer) for d in range(ndim))
    return ShapedArray((0, *shape), x.aval.dtype)


gather_p = Primitive("gather", type_rule=_gather_type, lower=_gather_lower, jvp=_gather_jvp,
                     transpose=_gather_transpose, batch=_gather_batch)


# -- the family of scatters ---------------------------------------------------------------------------------------

@functools.cache
def combiner(operation: Callable, dtype: np.dtype, weak_type: bool = False) -> Jaxpr:
    """Program of two scalars, shown as the `update_jaxpr` of a scatter."""
    scalar = ShapedArray((), dtype, weak_type)
    return trace_to_jaxpr(lambda x, y: [operation(x, y)], [scalar, scalar]).jaxpr


def scatter_function(p: Primitive, operation: Callable | None, doc: str) -> Callable:
    """The public function of a scatter that combines old and new value by `operation` (None: replace)."""
    def apply(operand: ArrayLike, scatter_indices: ArrayLike, updates: ArrayLike,
              dimension_numbers: ScatterDimensionNumbers, *, indices_are_sorted: bool = False,
              unique_indices: bool = False, mode: str | GatherScatterMode | None = None) -> Array:
        operand, updates = match_scalars(operand, updates)
        dtype = typeof(operand).dtype
        return p.bind(
            operand, scatter_indices, updates,
            dimension_numbers=ScatterDimensionNumbers(*map(as_ints, dimension_numbers)),
            update_jaxpr=None if operation is None else combiner(operation, dtype), update_consts=(),
            indices_are_sorted=bool(indices_are_sorted), unique_indices=bool(unique_indices),
            mode=GatherScatterMode.from_any(mode))

    name_function(apply, p.name.replace("-", "_"), "xjax.lax")
    apply.__doc__ = doc + """

    Args:
      operand: any[...]; scatter_indices: int[..., k], an index vector along the last axis.
      updates: array of the operand's dtype, one window for each index vector.
      dimension_numbers: correspondence of axes, see `ScatterDimensionNumbers`.
      indices_are_sorted, unique_indices: promises that allow a faster program.
      mode: treatment of windows not inside the operand, see `GatherScatterMode`; None drops them.
    """
    return apply


def window_sizes(x: ShapedArray, updates: ShapedArray, n: ScatterDimensionNumbers) -> list[int]:
    """Size of a window along each axis of the operand."""
    single = {*n.inserted_window_dims, *n.operand_batching_dims}
    window = iter([updates.shape[d] for d in n.update_window_dims])
    return [1 if d in single else next(window) for d in range(x.ndim)]


def _scatter_fault(x: ShapedArray, indices: ShapedArray, updates: ShapedArray,
                   n: ScatterDimensionNumbers) -> str | None:
    """A description of the fault in the dimension numbers, or None."""
    inserted, batching = n.inserted_window_dims, n.operand_batching_dims
    if updates.ndim != indices.ndim - 1 + len(n.update_window_dims):
        return f"the updates must have {indices.ndim - 1 + len(n.update_window_dims)} axes"
    if not is_sorted_set(n.update_window_dims, updates.ndim):
        return "`update_window_dims` must be increasing axes of the updates"
    if not is_sorted_set(inserted, x.ndim) or not is_sorted_set(batching, x.ndim) or {*inserted} & {*batching}:
        return "`inserted_window_dims` and `operand_batching_dims` must be increasing, distinct axes of the operand"
    if len(n.update_window_dims) + len(inserted) + len(batching) != x.ndim:
        return "every axis of the operand must be a window, an inserted or a batching axis"
    if len(n.scatter_dims_to_operand_dims) != indices.shape[-1] or not is_set(n.scatter_dims_to_operand_dims, x.ndim):
        return "`scatter_dims_to_operand_dims` must name one operand axis for each component of an index vector"
    if any(w > size for w, size in zip(window_sizes(x, updates, n), x.shape, strict=True) if w != 1):
        return "a window of the updates is larger than the operand"
    outer = tuple(s for d, s in enumerate(updates.shape) if d not in n.update_window_dims)
    if outer != indices.shape[:-1]:
        return "the updates must have one window for each index vector"
    return _batching_fault(x, indices, n.scatter_dims_to_operand_dims, batching, n.scatter_indices_batching_dims)


def _scatter_type(name: str) -> Callable:
    caller = f"lax.{name.replace('-', '_')}"

    def rule(x, indices, updates, *, dimension_numbers, update_jaxpr, update_consts, indices_are_sorted,
             unique_indices, mode):
        check_index_dtype(caller, indices)
        if x.dtype != updates.dtype:
            raise bad(caller, "operand and updates differ in dtype",
                      given={"operand": x.str_short(), "updates": updates.str_short()},
                      fix="convert with updates.astype(operand.dtype).")
        fault = _scatter_fault(x, indices, updates, dimension_numbers)
        if mode is GatherScatterMode.ONE_HOT:
            fault = "the mode ONE_HOT does not exist for scatter"
        if fault:
            raise bad(caller, fault, given={"operand": x.str_short(), "scatter_indices": indices.str_short(),
                                           "updates": updates.str_short(),
                                           "dimension_numbers": str(dimension_numbers)},
                      fix="index with x.at[i, j], which chooses the dimension numbers.")
        return x
    return rule


def _scatter_lower(emit: str | Callable | None) -> Callable:
    """Lowering of a scatter. `emit` is the name of the operation on (old, new), None to replace, or a function of
    (builder, old, new, update_jaxpr)."""
    def lower(b: Builder, out: ShapedArray, x: Value, indices: Value, updates: Value, *, dimension_numbers,
              update_jaxpr, update_consts, indices_are_sorted, unique_indices, mode) -> Value:
        n = dimension_numbers
        if is_empty(updates.aval.shape) or is_empty(x.aval.shape):
            return x
        indices = wide_indices(b, indices)
        if mode is GatherScatterMode.CLIP and n.scatter_dims_to_operand_dims:
            windows = window_sizes(x.aval, updates.aval, n)
            indices = clip_indices(b, indices, x.aval.shape, windows, as_ints(n.scatter_dims_to_operand_dims))

        def combine(inner: Builder, old: Value, new: Value) -> list[Value]:
            if emit is None:
                return [new]
            return [inner.binary(emit, old, new) if isinstance(emit, str) else emit(inner, old, new, update_jaxpr)]

        scalar = ShapedArray((), x.aval.dtype)
        axes = axes_text({"update_window_dims": n.update_window_dims, "inserted_window_dims": n.inserted_window_dims,
                          "input_batching_dims": n.operand_batching_dims,
                          "scatter_indices_batching_dims": n.scatter_indices_batching_dims,
                          "scatter_dims_to_operand_dims": n.scatter_dims_to_operand_dims})
        axes = f"{axes}, " if axes else ""
        text = (f"scatter_dimension_numbers = #stablehlo.scatter<{axes}index_vector_dim = {indices.aval.ndim - 1}>"
                f"{flag('indices_are_sorted', indices_are_sorted)}{flag('unique_indices', unique_indices)}")
        return b.generic("stablehlo.scatter", [x, indices, updates], [out], text,
                         [b.region([scalar, scalar], combine)])[0]
    return lower


def _scatter_batch(p: Callable[[], Primitive]) -> Callable:
    def rule(axis, args, bdims, **params):
        (x, indices, updates), (x_bdim, i_bdim, u_bdim) = args, bdims
        n: ScatterDimensionNumbers = params.pop("dimension_numbers")
        x, updates = batched_in_front(axis, (x, updates), (x_bdim, u_bdim))
        if i_bdim is None:                          # the batch axis becomes an axis of the windows
            n = ScatterDimensionNumbers(
                (0, *shifted(n.update_window_dims)), shifted(n.inserted_window_dims),
                shifted(n.scatter_dims_to_operand_dims), shifted(n.operand_batching_dims),
                n.scatter_indices_batching_dims)
        else:
            indices = move_axis_to_front(indices, i_bdim)
            n = ScatterDimensionNumbers(
                shifted(n.update_window_dims), shifted(n.inserted_window_dims),
                shifted(n.scatter_dims_to_operand_dims), (0, *shifted(n.operand_batching_dims)),
                (0, *shifted(n.scatter_indices_batching_dims)))
        return p().bind(x, indices, updates, dimension_numbers=n, **params), 0
    return rule


def scatter_primitive(name: str, emit: str | Callable | None, jvp: Callable[..., Any], transpose: Callable | Missing,
                      p: Callable[[], Primitive]) -> Primitive:
    """Create a scatter; `p` returns the primitive itself, for its own rules."""
    return Primitive(name, type_rule=_scatter_type(name), lower=_scatter_lower(emit), jvp=jvp, transpose=transpose,
                     batch=_scatter_batch(p))


def gather_numbers(n: ScatterDimensionNumbers) -> GatherDimensionNumbers:
    """Dimension numbers of the gather that reads the windows that a scatter writes."""
    return GatherDimensionNumbers(
        as_ints(n.update_window_dims), as_ints(n.inserted_window_dims), as_ints(n.scatter_dims_to_operand_dims),
        as_ints(n.operand_batching_dims), as_ints(n.scatter_indices_batching_dims))


def read_windows(x: ArrayLike, indices: ArrayLike, updates: ShapedArray, n: ScatterDimensionNumbers, *,
                 mode: GatherScatterMode, fill_value: ArrayLike | None = None) -> Array | np.ndarray:
    """The values of `x` in the windows that a scatter of `updates` writes."""
    if is_empty(typeof(x).shape):                          # a window does not fit into an axis of size 0
        return zeros_of(updates.update(dtype=typeof(x).dtype))
    return gather(x, indices, gather_numbers(n), window_sizes(typeof(x), updates, n), mode=mode, fill_value=fill_value)


# -- scatter-add --------------------------------------------------------------------------------------------------

def linear_scatter_jvp(p: Callable[[], Primitive]) -> Callable:
    """jvp rule of a scatter that is linear in operand and updates together."""
    def rule(primals, tangents, **params):
        dx, _, du = tangents
        out = p().bind(*primals, **params)
        if type(dx) is Zero and type(du) is Zero:
            return out, Zero(out.aval.tangent())
        return out, p().bind(instantiate(dx), primals[1], instantiate(du), **params)
    return rule


def _scatter_add_transpose(ct, x, indices, updates, *, dimension_numbers, mode, **params):
    read = None
    if is_linear(updates):
        read = read_windows(ct, indices, updates.aval, dimension_numbers, mode=mode, fill_value=0)
    return [ct if is_linear(x) else None, None, read]


scatter_add_p = scatter_primitive("scatter-add", "stablehlo.add", linear_scatter_jvp(lambda: scatter_add_p),
                                  _scatter_add_transpose, lambda: scatter_add_p)
scatter_add = scatter_function(scatter_add_p, add, "Add `updates` to `operand` at computed positions.")
