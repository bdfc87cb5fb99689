"""Other forms of convolution: short forms, transposed convolution, patches, and kernels that are not shared."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.types import number_of, typeof
from xjax.ops.arrange import rev
from xjax.ops.conv import conv_general_dilated
from xjax.ops.conv_numbers import (
    ConvGeneralDilatedDimensionNumbers,
    conv_dimension_numbers,
    conv_transpose_padding,
    dilated_shape,
    placed,
    take,
)
from xjax.ops.convert import convert_element_type
from xjax.ops.dot import PrecisionLike, dot_general
from xjax.ops.shape import reshape, transpose
from xjax.ops.window import make_window, windows_of
from xjax.typing import Array, ArrayLike, DTypeLike

Pads = str | Sequence[tuple[int, int]]


# -- short forms --------------------------------------------------------------------------------------------------

def conv(lhs: ArrayLike, rhs: ArrayLike, window_strides: Sequence[int], padding: str, precision: PrecisionLike = None,
         preferred_element_type: DTypeLike | None = None) -> Array:
    """`conv_general_dilated` of an operand [batch, feature, ...] and a kernel [output, input feature, ...]."""
    return conv_general_dilated(lhs, rhs, window_strides, padding, precision=precision,
                                preferred_element_type=preferred_element_type)


def conv_with_general_padding(lhs: ArrayLike, rhs: ArrayLike, window_strides: Sequence[int], padding: Pads,
                              lhs_dilation: Sequence[int] | None, rhs_dilation: Sequence[int] | None,
                              precision: PrecisionLike = None,
                              preferred_element_type: DTypeLike | None = None) -> Array:
    """`conv` with any padding and with dilations."""
    return conv_general_dilated(lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, precision=precision,
                                preferred_element_type=preferred_element_type)


# -- transposed convolution ---------------------------------------------------------------------------------------

_DEFAULT_NUMBERS = {2: ("NC", "IO", "NC"), 3: ("NHC", "HIO", "NHC"), 4: ("NHWC", "HWIO", "NHWC"),
                    5: ("NHWDC", "HWDIO", "NHWDC")}


def conv_transpose(lhs: ArrayLike, rhs: ArrayLike, strides: Sequence[int], padding: Pads,
                   rhs_dilation: Sequence[int] | None = None,
                   dimension_numbers: ConvGeneralDilatedDimensionNumbers = None, transpose_kernel: bool = False,
                   precision: PrecisionLike = None, preferred_element_type: DTypeLike | None = None,
                   use_consistent_padding: bool = False) -> Array:
    """Convolution with fractional strides; the result is about `strides` times larger than the operand.

    Args:
      lhs, rhs: operand and kernel, number[...]; None for `dimension_numbers` means features last: NHWC, HWIO.
      strides: factor of enlargement, for each spatial axis.
      padding: "SAME", "VALID": the padding of the convolution of which this one is the transpose. (low, high) for each
        axis: padding of the operand after dilation; with `use_consistent_padding`, of the other convolution, too.
      transpose_kernel: flip the kernel and swap its features: the result is the gradient of a convolution with it.
      Other arguments: as for `conv_general_dilated`.

    >>> x, k = np.ones((1, 2, 1), np.float32), np.array([1.0, 2.0], np.float32).reshape(2, 1, 1)
    >>> conv_transpose(x, k, (2,), "VALID").ravel()
    Array([2., 1., 2., 1.], dtype=float32)
    """
    where, ndim = "lax.conv_transpose", typeof(lhs).ndim
    if dimension_numbers is None:
        if ndim not in _DEFAULT_NUMBERS:
            raise bad(where, f"there is no default for {ndim - 2} spatial axes", given={"lhs": typeof(lhs).str_short()},
                      fix="pass dimension_numbers, such as ('NHWC', 'HWIO', 'NHWC').", exc=ValueError)
        dimension_numbers = _DEFAULT_NUMBERS[ndim]
    numbers = conv_dimension_numbers(typeof(lhs).shape, typeof(rhs).shape, dimension_numbers)
    spec = numbers.rhs_spec
    if rhs_dilation is None:
        rhs_dilation = (1,) * (ndim - 2)
    if use_consistent_padding or padding in ("SAME", "VALID"):
        window = dilated_shape(take(typeof(rhs).shape, spec[2:]), rhs_dilation)
        each = [padding] * len(strides) if isinstance(padding, str) else padding
        padding = [conv_transpose_padding(k, s, p) for k, s, p in zip(window, strides, each, strict=True)]
    if transpose_kernel:
        order = list(range(ndim))
        order[spec[0]], order[spec[1]] = spec[1], spec[0]
        rhs = transpose(rev(rhs, spec[2:]), order)
    return conv_general_dilated(lhs, rhs, (1,) * (ndim - 2), padding, strides, rhs_dilation, numbers,
                                precision=precision, preferred_element_type=preferred_element_type)


# -- patches ------------------------------------------------------------------------------------------------------

def conv_general_dilated_patches(lhs: ArrayLike, filter_shape: Sequence[int], window_strides: Sequence[int],
                                 padding: Pads, lhs_dilation: Sequence[int] | None = None,
                                 rhs_dilation: Sequence[int] | None = None,
                                 dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
                                 precision: PrecisionLike = None,
                                 preferred_element_type: DTypeLike | None = None) -> Array:
    """The elements that a kernel of `filter_shape` covers at each position, as features of the result.

    They are slices, not a convolution with unit kernels. So they are exact, and an infinity does not spread;
    `precision` is accepted and has no effect.

    Args: lhs: any[...]; others: as for `conv_general_dilated`, with `dimension_numbers` for a kernel of `filter_shape`.
    Returns: array with prod(filter_shape) * features features; those of one input feature are consecutive.

    >>> x = np.arange(4.0, dtype=np.float32).reshape(1, 1, 4)
    >>> conv_general_dilated_patches(x, (2,), (1,), "VALID")
    Array([[[0., 1., 2.],
            [1., 2., 3.]]], dtype=float32)
    """
    where, aval = "lax.conv_general_dilated_patches", typeof(lhs)
    numbers = conv_dimension_numbers(aval.shape, (1, 1, *filter_shape), dimension_numbers)
    x = transpose(lhs, numbers.lhs_spec)
    batch, features, *sizes = typeof(x).shape
    spatial = make_window(where, sizes, filter_shape, window_strides, padding, lhs_dilation, rhs_dilation)
    window = spatial.batched(0).batched(0)
    patches = windows_of(x, number_of(aval.dtype, 0), window)       # (1, 1, *filter, batch, features, *positions)
    rank = len(sizes)
    order = (0, 1, 2 + rank, 3 + rank, *range(2, 2 + rank), *range(4 + rank, 4 + 2 * rank))
    patches = reshape(transpose(patches, order), (batch, features * math.prod(filter_shape), *window.out_shape(
        typeof(x).shape)[2:]))
    if preferred_element_type is not None:
        patches = convert_element_type(patches, dtypes.canonicalize_dtype(preferred_element_type))
    return transpose(patches, placed(range(rank + 2), numbers.out_spec))


def conv_general_dilated_local(lhs: ArrayLike, rhs: ArrayLike, window_strides: Sequence[int], padding: Pads,
                               filter_shape: Sequence[int], lhs_dilation: Sequence[int] | None = None,
                               rhs_dilation: Sequence[int] | None = None,
                               dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
                               precision: PrecisionLike = None) -> Array:
    """Convolution with a different kernel at every position of the result (a locally connected layer).

    Args:
      lhs: number[...].
      rhs: kernels. The spatial axes are those of the result; the input features are those of
        `conv_general_dilated_patches`, prod(filter_shape) * features.
      filter_shape: spatial sizes of a kernel, in the order of the kernel's axes. Others: as for `conv_general_dilated`.

    >>> x = np.arange(4.0, dtype=np.float32).reshape(1, 1, 4)
    >>> kernels = np.array([[[1, 0, 2], [0, 1, 0]]], np.float32)          # [output, patch, position]
    >>> conv_general_dilated_local(x, kernels, (1,), "VALID", (2,))
    Array([[[0., 2., 4.]]], dtype=float32)
    """
    patches = conv_general_dilated_patches(lhs, filter_shape, window_strides, padding, lhs_dilation, rhs_dilation,
                                           dimension_numbers)
    numbers = conv_dimension_numbers(typeof(lhs).shape, (1, 1, *filter_shape), dimension_numbers)
    out, kernel = numbers.out_spec, numbers.rhs_spec
    spatial = sorted(zip(out[2:], kernel[2:], strict=True))
    product = dot_general(patches, rhs, (((out[1],), (kernel[1],)), tuple(zip(*spatial, strict=True)) or ((), ())),
                          precision=precision)
    # The product has the spatial axes in the order of the result, then batch, then output features.
    return transpose(product, placed(range(len(out)), (*(a for a, _ in spatial), out[0], out[1])))
