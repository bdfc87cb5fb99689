"""Shapes of convolutions: dimension numbers, named paddings, sizes of results. Pure functions of integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from xjax.core.errors import bad, did_you_mean
from xjax.core.types import ShapedArray
from xjax.ops.checks import static_int

Axes = tuple[int, ...]
Pads = tuple[tuple[int, int], ...]


class ConvDimensionNumbers(NamedTuple):
    """The roles of the axes in a convolution.

    lhs_spec: axes of the operand as (batch, feature, spatial axes ...).
    rhs_spec: axes of the kernel as (output feature, input feature, spatial axes ...).
    out_spec: axes of the result as (batch, feature, spatial axes ...).
    """

    lhs_spec: Axes
    rhs_spec: Axes
    out_spec: Axes


ConvGeneralDilatedDimensionNumbers = None | ConvDimensionNumbers | tuple[str, str, str]

# The letters of (batch, feature) or (output feature, input feature) in the three strings.
_LETTERS = ("NC", "OI", "NC")


# -- dimension numbers --------------------------------------------------------------------------------------------

def conv_dimension_numbers(lhs_shape: Sequence[int], rhs_shape: Sequence[int],
                           dimension_numbers: ConvGeneralDilatedDimensionNumbers) -> ConvDimensionNumbers:
    """The axes that `dimension_numbers` describes.

    Args:
      lhs_shape, rhs_shape: shapes of operand and kernel, of the same rank.
      dimension_numbers: three strings of one letter per axis (N batch, C feature; O, I output and input feature of the
        kernel; any other letters for spatial axes), a ConvDimensionNumbers, or None for ("NCHW...", "OIHW...",
        "NCHW...").
    Raises: TypeError if the strings do not match each other or the rank.

    >>> conv_dimension_numbers((1, 8, 8, 3), (5, 5, 3, 16), ("NHWC", "HWIO", "NHWC"))
    ConvDimensionNumbers(lhs_spec=(0, 3, 1, 2), rhs_spec=(3, 2, 0, 1), out_spec=(0, 3, 1, 2))
    """
    where, numbers = "lax.conv_dimension_numbers", dimension_numbers
    if isinstance(numbers, ConvDimensionNumbers):
        return numbers
    if len(lhs_shape) != len(rhs_shape):
        raise bad(where, "operand and kernel must have the same number of axes",
                  given={"lhs": str(tuple(lhs_shape)), "rhs": str(tuple(rhs_shape))},
                  fix="give both a batch (or output feature) axis, a feature axis, and the same spatial axes.")
    rank = len(lhs_shape)
    if numbers is None:
        order = tuple(range(rank))
        return ConvDimensionNumbers(order, order, order)
    given = {"dimension_numbers": repr(numbers), "axes": str(rank)}
    fix = "pass three strings such as ('NHWC', 'HWIO', 'NHWC'), a ConvDimensionNumbers, or None."
    if not isinstance(numbers, (tuple, list)) or len(numbers) != 3:
        raise bad(where, "`dimension_numbers` must be three strings", given=given, fix=fix)
    if all(isinstance(spec, (tuple, list)) for spec in numbers):
        return ConvDimensionNumbers(*map(tuple, numbers))
    if not all(isinstance(spec, str) and len(spec) == rank for spec in numbers):
        raise bad(where, "`dimension_numbers` must be three strings with one letter for each axis", given=given,
                  fix=fix)
    return ConvDimensionNumbers(*conv_general_permutations(numbers))


def conv_general_permutations(dimension_numbers: Sequence[str]) -> tuple[Axes, Axes, Axes]:
    """The three strings as positions of (batch, feature, spatial axes in the kernel's order).

    >>> conv_general_permutations(("NWHC", "HWIO", "NHWC"))
    ((0, 3, 2, 1), (3, 2, 0, 1), (0, 3, 1, 2))
    """
    where, given = "lax.conv_general_permutations", {"dimension_numbers": str(tuple(dimension_numbers))}
    for spec, letters in zip(dimension_numbers, _LETTERS, strict=True):
        if len(set(spec)) != len(spec) or not set(letters) <= set(spec):
            raise bad(where, f"{spec!r} must contain {letters[0]!r} and {letters[1]!r}, and no letter may occur twice",
                      given=given, fix="write, for two spatial axes, ('NCHW', 'OIHW', 'NCHW').")
    spatial = [set(spec) - set(letters) for spec, letters in zip(dimension_numbers, _LETTERS, strict=True)]
    if not spatial[0] == spatial[1] == spatial[2]:
        raise bad(where, "the three strings must have the same spatial letters", given=given,
                  fix="use the same letters in all of them, as in ('NHWC', 'HWIO', 'NHWC').")
    in_order = [c for c in dimension_numbers[1] if c in spatial[1]]
    lhs, rhs, out = (tuple(spec.index(c) for c in (*letters, *in_order))
                     for spec, letters in zip(dimension_numbers, _LETTERS, strict=True))
    return lhs, rhs, out


def take(values: Sequence[Any], axes: Sequence[int]) -> tuple[Any, ...]:
    """`values` at `axes`."""
    return tuple(values[a] for a in axes)


def placed(values: Sequence[Any], axes: Sequence[int]) -> tuple[Any, ...]:
    """The inverse of `take`: value i is placed at position axes[i]."""
    return tuple(v for _, v in sorted(zip(axes, values, strict=True)))


# -- paddings -----------------------------------------------------------------------------------------------------

def padtype_to_pads(in_shape: Sequence[int], window_shape: Sequence[int], window_strides: Sequence[int],
                    padding: str) -> list[tuple[int, int]]:
    """(low, high) for each axis from a named padding.

    VALID adds no padding. SAME pads so that the result has ceil(size / stride) positions; if the total is odd, the
    larger half is high, with SAME_LOWER it is low.

    >>> padtype_to_pads((7, 8), (2, 3), (1, 1), "SAME")
    [(0, 1), (1, 1)]
    """
    name = padding.upper() if isinstance(padding, str) else padding
    if name not in _NAMES:
        kind = RuntimeError if isinstance(padding, str) else TypeError
        hint = did_you_mean(name, _NAMES) if isinstance(name, str) else None
        raise bad("padding", f"unknown padding {padding!r}", given={"known": ", ".join(_NAMES)},
                  fix=hint or "pass one of them, or (low, high) pairs.", exc=kind)
    if name == "VALID":
        return [(0, 0)] * len(in_shape)
    if any(stride < 1 for stride in window_strides):
        raise bad("padding", "strides must be positive", given={"strides": str(tuple(window_strides))},
                  fix="pass numbers >= 1.", exc=ValueError)
    pads = []
    for size, window, stride in zip(in_shape, window_shape, window_strides, strict=True):
        total = max((-(-size // stride) - 1) * stride + window - size, 0)
        pads.append((total // 2, total - total // 2) if name == "SAME" else (total - total // 2, total // 2))
    return pads


_NAMES = ("VALID", "SAME", "SAME_LOWER")


def explicit_pads(padding: Sequence[Sequence[int]], caller: str) -> Pads:
    """(low, high) pairs of integers, from a user's argument."""
    try:
        pairs: list[tuple[Any, ...]] = [tuple(pair) for pair in padding]
    except TypeError:
        pairs = [()]
    if any(len(pair) != 2 for pair in pairs):
        raise bad(caller, "`padding` must be a name or a sequence of (low, high) pairs",
                  given={"padding": repr(padding)},
                  fix="pass 'SAME', 'VALID', 'SAME_LOWER', or one pair of integers for each axis.", exc=ValueError)
    return tuple((static_int(lo, "padding", caller), static_int(hi, "padding", caller)) for lo, hi in pairs)


# -- sizes --------------------------------------------------------------------------------------------------------

def dilated(size: int, by: int) -> int:
    """Size of an axis after by - 1 holes are inserted between neighbours."""
    return 1 + by * (size - 1) if size else 0


def dilated_shape(shape: Sequence[int], by: Sequence[int]) -> Axes:
    return tuple(dilated(n, d) for n, d in zip(shape, by, strict=True))


def positions(size: int, window: int, stride: int) -> int:
    """The number of positions of a window."""
    return max((size - window) // stride + 1, 0)


def conv_shape_tuple(lhs_shape: Sequence[int], rhs_shape: Sequence[int], strides: Sequence[int],
                     pads: str | Sequence[tuple[int, int]], batch_group_count: int = 1) -> Axes:
    """Shape of a convolution whose axes are ordered (batch, feature, spatial), (output, input feature, spatial).

    >>> conv_shape_tuple((8, 3, 10, 10), (16, 3, 3, 3), (2, 2), "SAME")
    (8, 16, 5, 5)
    """
    space, window = tuple(lhs_shape[2:]), tuple(rhs_shape[2:])
    if isinstance(pads, str):
        pads = padtype_to_pads(space, window, strides, pads)
    if len(pads) != len(space):
        raise bad("lax.conv_shape_tuple", "`padding` must have one (low, high) pair for each spatial axis",
                  given={"padding": str(tuple(pads)), "spatial sizes": str(space)}, fix=f"pass {len(space)} pairs.")
    padded = [n + lo + hi for n, (lo, hi) in zip(space, pads, strict=True)]
    if any(n < 0 for n in padded):
        raise bad("lax.conv_shape_tuple", "negative padding crops more elements than the axis has",
                  given={"padding": str(tuple(pads)), "spatial sizes": str(space)},
                  fix="crop less: low + high must be at least minus the size.", exc=ValueError)
    space = [positions(n, k, s) for n, k, s in zip(padded, window, strides, strict=True)]
    return (lhs_shape[0] // batch_group_count, rhs_shape[0], *space)


def conv_general_shape_tuple(lhs_shape: Sequence[int], rhs_shape: Sequence[int], window_strides: Sequence[int],
                             padding: str | Sequence[tuple[int, int]], dimension_numbers: Sequence[str]) -> Axes:
    """Shape of a convolution whose axes have the order of three strings.

    >>> conv_general_shape_tuple((8, 10, 10, 3), (3, 3, 3, 16), (1, 1), "VALID", ("NHWC", "HWIO", "NHWC"))
    (8, 8, 8, 16)
    """
    lhs, rhs, out = conv_general_permutations(dimension_numbers)
    return placed(conv_shape_tuple(take(lhs_shape, lhs), take(rhs_shape, rhs), window_strides, padding), out)


def conv_transpose_padding(window: int, stride: int, padding: str | Sequence[int]) -> tuple[int, int]:
    """(low, high) of the transposed convolution, from the padding of the convolution of which it is the transpose.

    Args: window: size of the kernel, with its dilation; padding: "SAME", "VALID" or (low, high).
    """
    if padding == "SAME":
        total = window + stride - 2
        low = window - 1 if stride > window - 1 else -(-total // 2)
        return low, total - low
    if padding == "VALID":
        return window - 1, stride - 1 + max(window - stride, 0)
    if isinstance(padding, (tuple, list)) and len(padding) == 2:
        return window - 1 - padding[0], window - 1 - padding[1]
    raise bad("lax.conv_transpose", f"unknown padding {padding!r}",
              fix="pass 'SAME', 'VALID' or one (low, high) pair for each spatial axis.", exc=ValueError)


def conv_transpose_shape_tuple(lhs_shape: Sequence[int], rhs_shape: Sequence[int], window_strides: Sequence[int],
                               padding: str | Sequence[tuple[int, int]], dimension_numbers: Sequence[str]) -> Axes:
    """Shape of a transposed convolution whose axes have the order of three strings.

    >>> conv_transpose_shape_tuple((8, 5, 5, 3), (4, 4, 3, 16), (2, 2), "SAME", ("NHWC", "HWIO", "NHWC"))
    (8, 10, 10, 16)
    """
    lhs_spec, rhs_spec, out_spec = conv_general_permutations(dimension_numbers)
    lhs, rhs = take(lhs_shape, lhs_spec), take(rhs_shape, rhs_spec)
    if isinstance(padding, str):
        padding = [conv_transpose_padding(k, s, padding) for k, s in zip(rhs[2:], window_strides, strict=True)]
    space = [(n - 1) * s - k + 2 + lo + hi
             for n, k, s, (lo, hi) in zip(lhs[2:], rhs[2:], window_strides, padding, strict=True)]
    return placed((lhs[0], rhs[0], *space), out_spec)


# -- paddings of the adjoints -------------------------------------------------------------------------------------

def adjoint_pads(sizes: Sequence[int], window: Sequence[int], strides: Sequence[int], out: Sequence[int], pads: Pads,
                 dilation: Sequence[int], window_dilation: Sequence[int]) -> Pads:
    """Padding for the convolution of the cotangent, dilated by the strides, with the flipped kernel."""
    result = []
    for n, k, m, (low, _) in zip(dilated_shape(sizes, dilation), dilated_shape(window, window_dilation),
                                 dilated_shape(out, strides), pads, strict=True):
        before = k - 1 - low
        result.append((before, n + k - 1 - m - before))
    return tuple(result)


def kernel_adjoint_pads(sizes: Sequence[int], window: Sequence[int], strides: Sequence[int], out: Sequence[int],
                        pads: Pads, dilation: Sequence[int], window_dilation: Sequence[int]) -> Pads:
    """Padding for the convolution of the operand with the cotangent, which gives the cotangent of the kernel."""
    return tuple((low, m - n + k - 1 - low)
                 for n, k, m, (low, _) in zip(dilated_shape(sizes, dilation), dilated_shape(window, window_dilation),
                                              dilated_shape(out, strides), pads, strict=True))


# -- checks -------------------------------------------------------------------------------------------------------

def check_convolution(lhs: ShapedArray, rhs: ShapedArray, numbers: ConvDimensionNumbers, feature_groups: int,
                      batch_groups: int) -> None:
    """Raise unless ranks, features and groups of a convolution match."""
    caller = "lax.conv_general_dilated"
    given = {"lhs": lhs.str_short(), "rhs": rhs.str_short(), "dimension_numbers": str(tuple(numbers))}
    if lhs.ndim != rhs.ndim or lhs.ndim < 2:
        raise bad(caller, "operand and kernel must have the same number of axes, at least 2", given=given,
                  fix="add the batch axis with x[None], and write kernels with all axes.", exc=ValueError)
    if any(sorted(spec) != list(range(lhs.ndim)) for spec in numbers):
        raise bad(caller, "each of the dimension numbers must name every axis once", given=given,
                  fix="create them with lax.conv_dimension_numbers.", exc=ValueError)
    if feature_groups < 1 or batch_groups < 1 or (feature_groups > 1 and batch_groups > 1):
        raise bad(caller, "`feature_group_count` and `batch_group_count` must be positive, and one of them must be 1",
                  given={"feature_group_count": str(feature_groups), "batch_group_count": str(batch_groups)},
                  fix="group over features or over the batch.", exc=ValueError)
    batch, features = take(lhs.shape, numbers.lhs_spec[:2])
    outputs, inputs = take(rhs.shape, numbers.rhs_spec[:2])
    if features % feature_groups or features // feature_groups != inputs:
        given = {"lhs": f"{lhs.str_short()}   axis {numbers.lhs_spec[1]} has {features} features",
                 "rhs": f"{rhs.str_short()}   axis {numbers.rhs_spec[1]} has {inputs} features",
                 "feature_group_count": str(feature_groups)}
        raise bad(caller, "the features of the kernel do not match the operand", given=given, exc=ValueError,
                  fix="features of lhs must be feature_group_count times the input features of rhs; or name other axes "
                      "in dimension_numbers.")
    for count, name in ((feature_groups, "feature_group_count"), (batch_groups, "batch_group_count")):
        if outputs % count:
            raise bad(caller, f"`{name}` {count} does not divide the {outputs} output features of the kernel",
                      given=given, fix=f"give the kernel a multiple of {count} output features.", exc=ValueError)
    if batch % batch_groups:
        raise bad(caller, f"`batch_group_count` {batch_groups} does not divide the batch size {batch}", given=given,
                  fix=f"make the batch a multiple of {batch_groups}.", exc=ValueError)


def check_window(lhs: ShapedArray, strides: Axes, padding: Pads, lhs_dilation: Axes, rhs_dilation: Axes) -> None:
    """Raise unless there is one stride, padding and dilation for each spatial axis."""
    rank = lhs.ndim - 2
    fields = {"window_strides": strides, "padding": padding, "lhs_dilation": lhs_dilation,
              "rhs_dilation": rhs_dilation}
    wrong = [name for name, values in fields.items()
             if len(values) != rank or (name != "padding" and any(v < 1 for v in values))]
    if wrong:
        raise bad("lax.conv_general_dilated", f"`{wrong[0]}` does not fit {rank} spatial axes",
                  given={"lhs": lhs.str_short(), **{name: str(v) for name, v in fields.items()}},
                  fix="give one positive number (for padding one pair) for each spatial axis.", exc=ValueError)
