"""Convolution: `conv_general_dilated`, linear in the operand and in the kernel; the cotangent of each is a convolution.

The algebra concerns the batch and feature axes only, not the spatial axes. A plain convolution is a matrix product,
[n, i] x [o, i] -> [n, o]. With g feature groups it is [n, g i] x [g o, i] -> [n, g o], and with g batch groups
[g n, i] x [g o, i] -> [n, g o]. The adjoints and batched forms of these three are again among these three, after
reshapes that split a group, or the batch axis, from one axis and merge it into another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from xjax.core import dtypes
from xjax.core.calls import constrained
from xjax.core.errors import bad
from xjax.core.primitive import Primitive
from xjax.core.types import ShapedArray, is_linear, typeof
from xjax.ops.arrange import rev
from xjax.ops.checks import ANY, check_kinds, check_same_dtype, static_int
from xjax.ops.conv_numbers import (
    ConvDimensionNumbers,
    ConvGeneralDilatedDimensionNumbers,
    adjoint_pads,
    check_convolution,
    check_window,
    conv_dimension_numbers,
    conv_shape_tuple,
    dilated_shape,
    explicit_pads,
    kernel_adjoint_pads,
    padtype_to_pads,
    placed,
    take,
)
from xjax.ops.conv_text import convolution_text, lower_by
from xjax.ops.convert import convert_element_type
from xjax.ops.cpu.conv import convolution_on_cpu
from xjax.ops.dot import PrecisionLike, canonical_precision
from xjax.ops.gpu.conv import convolution_on_gpu
from xjax.ops.makers import bilinear_jvp
from xjax.ops.shape import move_axis, reshape
from xjax.ops.zeros import zeros_of
from xjax.typing import Array, ArrayLike, DTypeLike


def conv_general_dilated(lhs: ArrayLike, rhs: ArrayLike, window_strides: Sequence[int],
                         padding: str | Sequence[tuple[int, int]], lhs_dilation: Sequence[int] | None = None,
                         rhs_dilation: Sequence[int] | None = None,
                         dimension_numbers: ConvGeneralDilatedDimensionNumbers = None, feature_group_count: int = 1,
                         batch_group_count: int = 1, precision: PrecisionLike = None,
                         preferred_element_type: DTypeLike | None = None, out_sharding: object = None) -> Array:
    """Convolution over any number of spatial axes (without flipping the kernel: a cross-correlation).

    Args:
      lhs, rhs: operand and kernel, any[...] of one dtype and rank, with axes as in `dimension_numbers`.
      window_strides: steps of the kernel, one for each spatial axis in the order of the kernel's axes.
      padding: "SAME", "SAME_LOWER", "VALID", or (low, high) for each spatial axis; negative padding crops.
      lhs_dilation, rhs_dilation: d inserts d - 1 zeros between neighbours of the operand, or of the kernel.
      dimension_numbers: see `conv_dimension_numbers`; None: batch (of the kernel: output feature), feature, spatial.
      feature_group_count: g groups of features that do not mix; the kernel has features / g input features.
      batch_group_count: g groups of the batch, each convolved with its part of the kernel's output features.
      precision: see `Precision`. preferred_element_type: dtype of the sum and the result.
    Raises: ValueError if sizes do not fit; TypeError if dtypes differ.

    >>> x, k = np.arange(5.0, dtype=np.float32), np.array([1.0, 0.0, -1.0], np.float32)
    >>> conv_general_dilated(x.reshape(1, 1, 5), k.reshape(1, 1, 3), (1,), "VALID")
    Array([[[-2., -2., -2.]]], dtype=float32)
    """
    if out_sharding is not None:
        y = conv_general_dilated(lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers,
                                 feature_group_count, batch_group_count, precision, preferred_element_type)
        return constrained("lax.conv_general_dilated", y, out_sharding)
    where, x, k = "lax.conv_general_dilated", typeof(lhs), typeof(rhs)
    numbers = conv_dimension_numbers(x.shape, k.shape, dimension_numbers)
    rank = max(x.ndim - 2, 0)
    strides = _ints(window_strides, "window_strides", where)
    lhs_dilation = (1,) * rank if lhs_dilation is None else _ints(lhs_dilation, "lhs_dilation", where)
    rhs_dilation = (1,) * rank if rhs_dilation is None else _ints(rhs_dilation, "rhs_dilation", where)
    if isinstance(padding, str):
        if any(d != 1 for d in lhs_dilation):
            raise bad(where, f"padding {padding!r} is not defined for a dilated operand",
                      given={"lhs_dilation": str(lhs_dilation)},
                      fix="pass (low, high) pairs, or use lax.conv_transpose.", exc=ValueError)
        window = dilated_shape(take(k.shape, numbers.rhs_spec[2:]), rhs_dilation)
        padding = padtype_to_pads(take(x.shape, numbers.lhs_spec[2:]), window, strides, padding)
    if preferred_element_type is not None:
        preferred_element_type = dtypes.canonicalize_dtype(preferred_element_type)
    return conv_general_dilated_p.bind(
        lhs, rhs, window_strides=strides, padding=explicit_pads(padding, where), lhs_dilation=lhs_dilation,
        rhs_dilation=rhs_dilation, dimension_numbers=numbers,
        feature_group_count=static_int(feature_group_count, "feature_group_count", where),
        batch_group_count=static_int(batch_group_count, "batch_group_count", where),
        precision=canonical_precision(precision), preferred_element_type=preferred_element_type)


def _ints(values: Sequence[Any], name: str, caller: str) -> tuple[int, ...]:
    return tuple(static_int(v, name, caller) for v in values)


def _type(lhs, rhs, *, window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers, feature_group_count,
          batch_group_count, precision, preferred_element_type):
    check_kinds("conv_general_dilated", ANY, lhs, rhs)
    check_same_dtype("conv_general_dilated", lhs, rhs)
    check_convolution(lhs, rhs, dimension_numbers, feature_group_count, batch_group_count)
    check_window(lhs, window_strides, padding, lhs_dilation, rhs_dilation)
    lhs_shape = dilated_shape(take(lhs.shape, dimension_numbers.lhs_spec), (1, 1, *lhs_dilation))
    rhs_shape = dilated_shape(take(rhs.shape, dimension_numbers.rhs_spec), (1, 1, *rhs_dilation))
    shape = conv_shape_tuple(lhs_shape, rhs_shape, window_strides, padding, batch_group_count)
    return ShapedArray(placed(shape, dimension_numbers.out_spec), preferred_element_type or lhs.dtype,
                       lhs.weak_type and rhs.weak_type)


# -- splitting and merging axes -----------------------------------------------------------------------------------

def _split(x: Array, axis: int, outer: int) -> Array:
    """Split an axis of size outer * n into two axes, of sizes outer and n."""
    shape = typeof(x).shape
    return reshape(x, (*shape[:axis], outer, shape[axis] // outer, *shape[axis + 1:]))


def _merge(x: Array, source: int, target: int) -> Array:
    """Merge axis `source` into axis `target` (counted without `source`); `source` is the outer part."""
    x = move_axis(x, source, target)
    shape = typeof(x).shape
    return reshape(x, (*shape[:target], shape[target] * shape[target + 1], *shape[target + 2:]))


# -- transposes ---------------------------------------------------------------------------------------------------

def _transpose(ct, lhs, rhs, **params):
    if is_linear(lhs):
        return [_operand_cotangent(ct, lhs.aval, rhs, **params), None]
    return [None, _kernel_cotangent(ct, lhs, rhs.aval, **params)]


T = TypeVar("T", bound=ArrayLike)


def _as_dtype(x: T, dtype: np.dtype) -> T | Array:
    return x if typeof(x).dtype == dtype else convert_element_type(x, dtype)


def _space(ct: ArrayLike, lhs: ShapedArray, rhs: ShapedArray, numbers: ConvDimensionNumbers) -> tuple:
    """Spatial sizes of operand, kernel and cotangent, in the kernel's order."""
    return tuple(take(shape, spec[2:])
                 for shape, spec in zip((lhs.shape, rhs.shape, typeof(ct).shape), numbers, strict=True))


def _operand_cotangent(ct: ArrayLike, lhs: ShapedArray, rhs: ArrayLike, *, window_strides, padding, lhs_dilation,
                       rhs_dilation, dimension_numbers, feature_group_count, batch_group_count, **rest) -> Array:
    """Convolution of the cotangent with the flipped kernel: input and output features are swapped, and so are strides
    and dilation. Groups move from the kernel's output to its input features; batch groups become feature groups."""
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    sizes, window, out = _space(ct, lhs, typeof(rhs), dimension_numbers)
    groups = max(feature_group_count, batch_group_count)
    if groups > 1:
        rhs = _merge(_split(rhs, rhs_spec[0], groups), rhs_spec[0], rhs_spec[1])
    result = conv_general_dilated_p.bind(
        ct, _as_dtype(rev(rhs, rhs_spec[2:]), typeof(ct).dtype), window_strides=lhs_dilation,
        padding=adjoint_pads(sizes, window, window_strides, out, padding, lhs_dilation, rhs_dilation),
        lhs_dilation=window_strides, rhs_dilation=rhs_dilation,
        dimension_numbers=ConvDimensionNumbers(out_spec, (rhs_spec[1], rhs_spec[0], *rhs_spec[2:]), lhs_spec),
        feature_group_count=groups, batch_group_count=1, **rest)
    result = _as_dtype(result, lhs.dtype)
    if batch_group_count > 1:
        result = _merge(_split(result, lhs_spec[1], batch_group_count), lhs_spec[1], lhs_spec[0])
    return result


def _kernel_cotangent(ct: ArrayLike, lhs: ArrayLike, rhs: ShapedArray, *, window_strides, padding, lhs_dilation,
                      rhs_dilation, dimension_numbers, feature_group_count, batch_group_count,
                      **rest) -> Array | np.ndarray:
    """Convolution of the operand with the cotangent, summed over the batch: batch and features change roles, and so
    do feature groups and batch groups."""
    if not typeof(ct).size:
        return zeros_of(rhs)
    sizes, window, out = _space(ct, typeof(lhs), rhs, dimension_numbers)
    swapped = ConvDimensionNumbers(*((spec[1], spec[0], *spec[2:]) for spec in dimension_numbers))
    result = conv_general_dilated_p.bind(
        _as_dtype(lhs, typeof(ct).dtype), ct, window_strides=rhs_dilation,
        padding=kernel_adjoint_pads(sizes, window, window_strides, out, padding, lhs_dilation, rhs_dilation),
        lhs_dilation=lhs_dilation, rhs_dilation=window_strides,
        dimension_numbers=ConvDimensionNumbers(swapped.lhs_spec, swapped.out_spec, swapped.rhs_spec),
        feature_group_count=batch_group_count, batch_group_count=feature_group_count, **rest)
    return _as_dtype(result, rhs.dtype)


# -- batching -----------------------------------------------------------------------------------------------------

def _batch(axis, args, bdims, *, dimension_numbers, feature_group_count, batch_group_count, **rest):
    if not axis.size:
        return _empty_batch(args, bdims, dimension_numbers=dimension_numbers, feature_group_count=feature_group_count,
                            batch_group_count=batch_group_count, **rest)
    (lhs, rhs), (x, k) = args, bdims
    (batch, feature, *_), (output, *_), (out_batch, out_feature, *_) = dimension_numbers
    groups = max(feature_group_count, batch_group_count)

    def conv(lhs: Array, rhs: Array, size: int = 1) -> Array:
        """`size`: number by which to multiply the groups; feature groups unless there are batch groups."""
        by_batch = batch_group_count > 1
        return conv_general_dilated_p.bind(
            lhs, rhs, dimension_numbers=dimension_numbers,
            feature_group_count=feature_group_count * (1 if by_batch else size),
            batch_group_count=batch_group_count * (size if by_batch else 1), **rest)

    if x is not None and k is not None:                     # each element is a separate group
        result = conv(_merge(lhs, x, batch if batch_group_count > 1 else feature), _merge(rhs, k, output), axis.size)
        return _split(result, out_feature, axis.size), out_feature
    if x is not None:                                       # a larger batch
        into = _merge if batch_group_count == 1 else _merge_within(groups)
        return _split(conv(into(lhs, x, batch), rhs), out_batch, axis.size), out_batch
    if groups == 1:                                         # a kernel with more output features
        return _split(conv(lhs, _merge(rhs, k, output)), out_feature, axis.size), out_feature
    result = _split(conv(lhs, _merge_within(groups)(rhs, k, output)), out_feature, groups)
    result = _split(result, out_feature + 1, axis.size)       # (groups, mapped axis, features of a group)
    return _merge(result, out_feature, out_feature + 1), out_feature


def _merge_within(groups: int):
    """Like `_merge`, but into each group of the target axis, which has the order (groups, source, rest)."""
    def merge(x: Any, source: int, target: int) -> Any:
        x = _split(move_axis(x, source, 0), target + 1, groups)
        return _merge(_merge(x, 0, target + 1), target, target)
    return merge


def _empty_batch(args, bdims, **params):
    """The batch rule for a mapped axis of size 0, which no reshape can split."""
    avals = [a if b is None else a.update(shape=(*a.shape[:b], *a.shape[b + 1:]))
             for a, b in zip(map(typeof, args), bdims, strict=True)]
    out = _type(*avals, **params)
    return zeros_of(ShapedArray((0, *out.shape), out.dtype)), 0


conv_general_dilated_p = Primitive(
    "conv_general_dilated", type_rule=_type, lower=lower_by(convolution_text),
    lower_on={"cpu": lower_by(convolution_on_cpu), "gpu": lower_by(convolution_on_gpu)},
    jvp=bilinear_jvp(lambda: conv_general_dilated_p), transpose=_transpose, batch=_batch)
