"""Lowering of convolutions to text: XLA's own operation, and functions shared by all lowerings."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xjax.core import dtypes
from xjax.core.hlo import Builder, Value, tensor_type
from xjax.core.types import ShapedArray
from xjax.ops.conv_numbers import Axes, ConvDimensionNumbers, placed
from xjax.ops.dot_operands import operand_types


class Convolution(NamedTuple):
    """The parameters of `conv_general_dilated`."""

    window_strides: Axes
    padding: tuple[tuple[int, int], ...]
    lhs_dilation: Axes
    rhs_dilation: Axes
    dimension_numbers: ConvDimensionNumbers
    feature_group_count: int
    batch_group_count: int
    precision: Any
    preferred_element_type: Any


# Writes a convolution of non-empty real operands of one dtype.
Emit = Callable[[Builder, ShapedArray, Value, Value, Convolution], Value]


def lower_by(emit: Emit) -> Callable:
    """The lowering of convolutions of all types, based on `emit`."""
    def lower(b: Builder, out: ShapedArray, lhs: Value, rhs: Value, **params: Any) -> Value:
        if not (out.size and lhs.aval.size and rhs.aval.size):
            return b.constant(0, out.strong())
        lhs, rhs, dtype = operand_types(b, lhs, rhs, out.dtype)
        write = functools.partial(_complex, emit) if dtypes.is_complex(lhs.aval.dtype) else emit
        return b.convert(write(b, ShapedArray(out.shape, dtype), lhs, rhs, Convolution(**params)), out.dtype)
    return lower


def convolution_text(b: Builder, out: ShapedArray, lhs: Value, rhs: Value, p: Convolution) -> Value:
    """XLA's own convolution."""
    labels = [_labels(spec, kinds) for spec, kinds in zip(p.dimension_numbers, ("bf", "oi", "bf"), strict=True)]
    window = ""
    if p.window_strides:
        pads = [list(pair) for pair in p.padding]
        window = (f"stride = {list(p.window_strides)}, pad = {pads}, lhs_dilate = {list(p.lhs_dilation)}, "
                  f"rhs_dilate = {list(p.rhs_dilation)}")
    exact = ""
    if isinstance(p.precision, tuple):      # algorithms exist for matrix products only
        exact = f", precision_config = [{', '.join(f'#stablehlo<precision {q.name}>' for q in p.precision)}]"
    return b.op(f"stablehlo.convolution({lhs}, {rhs}) dim_numbers = {labels[0]}x{labels[1]}->{labels[2]}, "
                f"window = {{{window}}} {{batch_group_count = {p.batch_group_count} : i64, "
                f"feature_group_count = {p.feature_group_count} : i64{exact}}} : ({lhs.type}, {rhs.type}) -> "
                f"{tensor_type(out)}", out)


def _labels(spec: Sequence[int], kinds: str) -> str:
    """`[b, 0, 1, f]`: the role of each axis."""
    return f"[{', '.join(placed([*kinds, *map(str, range(len(spec) - 2))], spec))}]"


def _complex(emit: Emit, b: Builder, out: ShapedArray, lhs: Value, rhs: Value, p: Convolution) -> Value:
    """Three real convolutions (Gauss): XLA runs complex ones as plain loops on CPU, and not at all on GPU."""
    part = np.dtype(np.float32 if lhs.aval.dtype == np.complex64 else np.float64)
    real_out = ShapedArray(out.shape, part)

    def parts(x: Value) -> list[Value]:
        aval = ShapedArray(x.aval.shape, part)
        return [b.op(f"stablehlo.{name} {x} : ({x.type}) -> {tensor_type(aval)}", aval) for name in ("real", "imag")]

    def conv(x: Value, y: Value) -> Value:
        return emit(b, real_out, x, y, p)

    (x_re, x_im), (y_re, y_im) = parts(lhs), parts(rhs)
    common = conv(b.add(x_re, x_im), y_re)
    first = conv(x_re, b.sub(y_im, y_re))
    second = conv(x_im, b.add(y_re, y_im))
    re, im = b.sub(common, second), b.add(common, first)
    wide = ShapedArray(out.shape, np.dtype(np.complex64 if part == np.float32 else np.complex128))
    return b.op(f"stablehlo.complex {re}, {im} : {tensor_type(wide)}", wide)
