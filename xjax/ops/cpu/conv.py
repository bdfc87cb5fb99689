"""Convolutions on a CPU: six kinds that XLA runs slowly use other operations; the rest have the feature axis last.

- Depthwise convolutions: one product for each element of the kernel, fused in one loop (30 to 50 times as fast).
- Convolutions of few input features, such as images, with small kernels: the same (2 to 30 times).
- Kernels with one element (1 x 1), and the gradients of such kernels: one matrix product (1.2 to 3 times).
- Gradients of operands with strides, or with many features and few positions: one product, and a sum of its shifted
  parts (0.6 to 0.97 of the time).
- Gradients of the kernels of transposed convolutions: a product for each element of the kernel (0.2 of the time).
- The gradient of a depthwise kernel: a loop over rows of images, with one accumulator per kernel element (7 times).
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from xjax.core.forms import limits
from xjax.core.hlo import Argument, Builder, Value, tensor_type
from xjax.core.lowering import lower_apart, lower_barrier
from xjax.core.types import ShapedArray
from xjax.ops.arrange import rev_p
from xjax.ops.conv_numbers import Axes, ConvDimensionNumbers, placed, take
from xjax.ops.conv_text import Convolution, convolution_text
from xjax.ops.cpu.dot import product_of_columns
from xjax.ops.dot_operands import as_matrices, free_axes
from xjax.ops.text import concatenate_text, dot_text, dynamic_slice_text, reshape_text, slice_text, transpose_text
from xjax.ops.window import Window, emit_elements, emit_pad

_I32 = ShapedArray((), np.dtype(np.int32))


def convolution_on_cpu(b: Builder, out: ShapedArray, lhs: Value, rhs: Value, p: Convolution) -> Value:
    """The convolution in other operations where XLA's own is slow; else XLA's own, with features last."""
    result = _in_other_operations(b, out, lhs, rhs, p)
    return _features_last(b, out, lhs, rhs, p) if result is None else result


def _features_last(b: Builder, out: ShapedArray, lhs: Value, rhs: Value, p: Convolution) -> Value:
    """XLA's own convolution, with the only order of axes for which its CPU backend has fast code.

    XLA chooses that order by itself, but not inside loops and branches.
    """
    if limits("convolutions with features last", "cpu") is None:
        return convolution_text(b, out, lhs, rhs, p)
    n, (lhs_spec, rhs_spec, out_spec) = out.ndim, p.dimension_numbers
    lhs = _moved(b, lhs, (lhs_spec[0], *lhs_spec[2:], lhs_spec[1]))
    rhs = _moved(b, rhs, (*rhs_spec[2:], rhs_spec[1], rhs_spec[0]))
    order = (out_spec[0], *out_spec[2:], out_spec[1])
    images = (0, n - 1, *range(1, n - 1))
    last = ConvDimensionNumbers(images, (n - 1, n - 2, *range(n - 2)), images)
    result = convolution_text(b, ShapedArray(take(out.shape, order), out.dtype), lhs, rhs,
                              p._replace(dimension_numbers=last))
    return transpose_text(b, result, placed(range(n), order))


def _moved(b: Builder, x: Value, order: Axes) -> Value:
    """`x` with its axes in another order; a large operand is transposed apart from the operations that compute it.

    XLA computes operations that it fuses with a transpose in the order of the result, one strided element at a time.
    """
    bounds = limits("transposes of convolutions apart", "cpu")
    large = bounds is not None and x.aval.size >= bounds["elements"]
    if large and type(x) is not Argument and not b.is_cut and order[-1] != x.aval.ndim - 1:
        x, = lower_barrier(b, [x])
    return transpose_text(b, x, order)


def _in_other_operations(b: Builder, out: ShapedArray, lhs: Value, rhs: Value, p: Convolution) -> Value | None:
    """The convolution in other operations, or None if XLA's own is as fast."""
    if out.dtype != lhs.aval.dtype or out.dtype not in (np.float32, np.float64):
        return None
    if max(p.feature_group_count, p.batch_group_count) == 1:
        forms = (_product, _shifted_products, _products_of_positions, _of_few_features)
    else:           # if XLA shards the batch over devices, a loop over images would gather all of them
        forms = (_depthwise,) if b.is_cut else (_depthwise, _depthwise_kernel_gradient)
    for emit in forms:
        result = emit(b, out, lhs, rhs, p)
        if result is not None:
            return result
    return None


# -- products -----------------------------------------------------------------------------------------------------

def _product(b: Builder, out: ShapedArray, lhs: Value, rhs: Value, p: Convolution) -> Value | None:
    """The convolution as one matrix product, if the kernel has one element or the result has one position."""
    lhs_spec, rhs_spec, out_spec = p.dimension_numbers
    window, positions = take(rhs.aval.shape, rhs_spec[2:]), take(out.shape, out_spec[2:])
    if limits("convolutions by one product", "cpu") is None:
        return None
    if math.prod(window) == math.prod(p.window_strides) == 1:        # every element of lhs is read, and read once
        return _padded(b, _matrix_product(b, lhs, rhs, p, over_positions=False), out_spec, p)
    over_positions = math.prod(positions) == 1
    if not over_positions and math.prod(window) > 1:
        return None
    counts, steps = (window, p.rhs_dilation) if over_positions else (positions, p.window_strides)
    ends = [(n - 1) * step + 1 for n, step in zip(counts, steps, strict=True)]
    batch, features, *sizes = take(lhs.aval.shape, lhs_spec)
    reads_padding = any(low or end > size for (low, _), end, size in zip(p.padding, ends, sizes, strict=True))
    if reads_padding or math.prod(p.lhs_dilation) > 1:
        return None
    limit, step = placed((batch, features, *ends), lhs_spec), placed((1, 1, *steps), lhs_spec)
    x = slice_text(b, lhs, (0,) * out.ndim, limit, step)
    return _matrix_product(b, x, rhs, p, over_positions)


def _matrix_product(b: Builder, lhs: Value, rhs: Value, p: Convolution, over_positions: bool) -> Value:
    """Sum of products over the features, and over all positions too or, for a kernel of one element, at each."""
    lhs_spec, rhs_spec, out_spec = p.dimension_numbers
    outputs, features = take(rhs.aval.shape, rhs_spec[:2])
    contract = (lhs_spec[1:], rhs_spec[1:])
    if not over_positions:
        last = rhs_spec[1] > rhs_spec[0]                                # whether the input features are last
        rhs = reshape_text(b, rhs, (outputs, features) if last else (features, outputs))
        contract = (lhs_spec[1:2], (int(last),))
    free = free_axes(lhs.aval.ndim, contract[0])
    out, numbers = ShapedArray((*take(lhs.aval.shape, free), outputs), lhs.aval.dtype), (contract, ((), ()))
    result = product_of_columns(b, out, lhs, rhs, numbers)
    if result is None:
        merged = as_matrices(b, out, lhs, rhs, numbers)
        result = merged.result(b, dot_text(b, merged.lhs, merged.rhs, merged.out, merged.contract), out)
    axes = [*(out_spec[lhs_spec.index(a)] for a in free), out_spec[1]]  # of the axes of the product, in the result
    shape = [1] * lhs.aval.ndim
    for axis, size in zip(axes, out.shape, strict=True):
        shape[axis] = size
    return reshape_text(b, transpose_text(b, result, sorted(range(len(axes)), key=axes.__getitem__)), shape)


# -- shifted products ---------------------------------------------------------------------------------------------

def _shifted_products(b: Builder, out: ShapedArray, lhs: Value, rhs: Value, p: Convolution) -> Value | None:
    """The gradient of an operand: one product with all elements of the kernel, then a sum of its shifted parts.

    The kernel is neither reversed nor transposed, and nothing is multiplied with the zeros that strides insert into the
    cotangent.
    """
    lhs_spec, rhs_spec, out_spec = p.dimension_numbers
    n, bounds = out.ndim, limits("convolutions by shifted products", "cpu")
    images, kernel = (0, n - 1, *range(1, n - 1)), (n - 2, n - 1, *range(n - 2))
    if bounds is None or not (lhs_spec == out_spec == images and rhs_spec == kernel):
        return None
    *space, outputs, features = rhs.aval.shape
    positions = lhs.aval.size // features
    has_few_positions = math.prod(p.lhs_dilation) > 1 or positions <= bounds["positions"] * features
    pays = math.prod(space) >= bounds["many"] or (has_few_positions and min(features, outputs) >= bounds["features"])
    if math.prod(p.window_strides) > 1 or not 1 < math.prod(space) <= bounds["taps"] or not pays:
        return None
    rhs, is_reversed = _before_reversal(rhs, tuple(range(n - 2)))
    taps = list(np.ndindex(*space))
    product = dot_text(b, reshape_text(b, lhs, (positions, features)),
                       reshape_text(b, rhs, (len(taps) * outputs, features)),
                       ShapedArray((positions, len(taps) * outputs), out.dtype), ((1,), (1,)))

    def shifted(b: Builder, product: Value, tap: Axes, column: int) -> Value:
        part = slice_text(b, product, (0, column * outputs), (positions, (column + 1) * outputs))
        part = reshape_text(b, part, (*lhs.aval.shape[:-1], outputs))
        low = [pad - k * step for (pad, _), k, step in zip(p.padding, tap, p.rhs_dilation, strict=True)]
        ends = [lo + (size - 1) * d + 1 for lo, size, d in zip(low, lhs.aval.shape[1:-1], p.lhs_dilation, strict=True)]
        high = [size - end for size, end in zip(out.shape[1:-1], ends, strict=True)]
        zero = b.constant(0, ShapedArray((), out.dtype))
        return emit_pad(b, part, zero, (0, *low, 0), (0, *high, 0), (0, *(d - 1 for d in p.lhs_dilation), 0))

    def sums(b: Builder, product: Value) -> Value:
        columns = range(len(taps))
        return _sum(b, [shifted(b, product, tap, column) for tap, column in
                        zip(taps, reversed(columns) if is_reversed else columns, strict=True)])
    return lower_apart(b, sums, [product])


def _before_reversal(x: Value, axes: Axes) -> tuple[Value, bool]:
    """(The operand of a reversal along `axes`, True) if `x` is its result, else (x, False)."""
    if x.recipe is not None and x.recipe.lower == rev_p.lower and set(x.recipe.params["dimensions"]) == set(axes):
        return x.recipe.operands[0], True
    return x, False


# -- one product for each position ---------------------------------------------------------------------------------

def _products_of_positions(b: Builder, out: ShapedArray, lhs: Value, rhs: Value, p: Convolution) -> Value | None:
    """The gradient of the kernel of a transposed convolution: each element is a product with a strided part of `rhs`.

    Nothing is multiplied with the zeros that the dilation inserts into `lhs`.
    """
    lhs_spec, rhs_spec, out_spec = p.dimension_numbers
    bounds, positions = limits("convolutions by products of positions", "cpu"), take(out.shape, out_spec[2:])
    if (bounds is None or math.prod(p.lhs_dilation) == 1 or math.prod((*p.window_strides, *p.rhs_dilation)) > 1
            or math.prod(positions) > bounds["results"]):
        return None
    outputs, features, *window = take(rhs.aval.shape, rhs_spec)
    lengths = [(n - 1) * d + 1 for n, d in zip(take(lhs.aval.shape, lhs_spec[2:]), p.lhs_dilation, strict=True)]
    # The element k of the result reads rhs from pad - k on, and at most `low` and `high` positions outside of it.
    low = [max(0, count - 1 - pad) for count, (pad, _) in zip(positions, p.padding, strict=True)]
    high = [max(0, pad + length - n) for (pad, _), length, n in zip(p.padding, lengths, window, strict=True)]
    zero, none = b.constant(0, ShapedArray((), out.dtype)), [0] * out.ndim
    rhs, results = emit_pad(b, rhs, zero, placed((0, 0, *low), rhs_spec), placed((0, 0, *high), rhs_spec), none), []
    for at in np.ndindex(*positions):
        starts = [lo + pad - k for lo, (pad, _), k in zip(low, p.padding, at, strict=True)]
        ends = [start + length for start, length in zip(starts, lengths, strict=True)]
        part = slice_text(b, rhs, placed((0, 0, *starts), rhs_spec), placed((outputs, features, *ends), rhs_spec),
                          placed((1, 1, *p.lhs_dilation), rhs_spec))
        results.append(_matrix_product(b, lhs, part, p, over_positions=True))
    for count, axis in reversed(list(zip(positions, out_spec[2:], strict=True))):
        results = [_joined(b, results[i:i + count], axis) for i in range(0, len(results), count)]
    return results[0]


def _joined(b: Builder, xs: Sequence[Value], axis: int) -> Value:
    shape = list(xs[0].aval.shape)
    shape[axis] *= len(xs)
    return concatenate_text(b, xs, ShapedArray(tuple(shape), xs[0].aval.dtype), axis)


# -- depthwise ----------------------------------------------------------------------------------------------------

def _depthwise(b: Builder, out: ShapedArray, lhs: Value, rhs: Value, p: Convolution) -> Value | None:
    lhs_spec, rhs_spec, out_spec = p.dimension_numbers
    groups, space = p.feature_group_count, take(rhs.aval.shape, rhs_spec[2:])
    bounds = limits("depthwise convolutions by taps", "cpu")
    if bounds is None or groups == 1 or groups != lhs.aval.shape[lhs_spec[1]] or math.prod(space) > bounds["taps"]:
        return None

    def sums(b: Builder, lhs: Value, rhs: Value) -> Value:
        shares = []
        for at, element in _elements(b, lhs, space, p):
            x = _repeated(b, transpose_text(b, element, placed(lhs_spec, out_spec)), out.shape, out_spec[1])
            shares.append(b.mul(x, _weights(b, out, rhs, 0, at, p)))
        return _sum(b, shares)
    return lower_apart(b, sums, [lhs, rhs])


def _elements(b: Builder, lhs: Value, space: Axes, p: Convolution) -> Iterator[tuple[Axes, Value]]:
    """For each element of the kernel: its position in the kernel, and the elements of `lhs` that it is multiplied with.
    """
    spec = p.dimension_numbers.lhs_spec
    window = Window(*(placed((one, one, *values), spec) for one, values in (
        (1, space), (1, p.window_strides), ((0, 0), p.padding), (1, p.lhs_dilation), (1, p.rhs_dilation))))
    zero = b.constant(0, ShapedArray((), lhs.aval.dtype))
    taps = itertools.product(*map(range, window.window_dimensions))
    for tap, element in zip(taps, emit_elements(b, lhs, zero, window), strict=True):
        yield take(tap, spec[2:]), element


def _weights(b: Builder, out: ShapedArray, rhs: Value, feature: int, at: Axes, p: Convolution) -> Value:
    """One element of the kernel for each output feature, repeated to the shape of the result."""
    spec = p.dimension_numbers.rhs_spec
    outputs = rhs.aval.shape[spec[0]]
    weights = slice_text(b, rhs, placed((0, feature, *at), spec),
                         placed((outputs, feature + 1, *(a + 1 for a in at)), spec))
    return b.broadcast(reshape_text(b, weights, (outputs,)), out, (p.dimension_numbers.out_spec[1],))


def _sum(b: Builder, xs: Sequence[Value]) -> Value:
    return functools.reduce(lambda x, y: b.add(x, y), xs)


def _repeated(b: Builder, x: Value, shape: Axes, axis: int) -> Value:
    """`x` with each element repeated along an axis, so that it has `shape`."""
    if x.aval.shape == shape:
        return x
    size = x.aval.shape[axis]
    wide = ShapedArray((*shape[:axis], size, shape[axis] // size, *shape[axis + 1:]), x.aval.dtype)
    kept = [a for a in range(wide.ndim) if a != axis + 1]
    return reshape_text(b, b.broadcast(x, wide, kept), shape)


# -- few features -------------------------------------------------------------------------------------------------

def _of_few_features(b: Builder, out: ShapedArray, lhs: Value, rhs: Value, p: Convolution) -> Value | None:
    lhs_spec, rhs_spec, out_spec = p.dimension_numbers
    outputs, features, *space = take(rhs.aval.shape, rhs_spec)
    terms = features * math.prod(space)
    bounds = limits("convolutions by terms", "cpu")
    if (bounds is None or not 0 < features <= bounds["features"] or terms > bounds["terms"]
            or terms * outputs > bounds["products_last" if out_spec[1] == out.ndim - 1 else "products"]):
        return None
    axes = placed((out_spec[0], *out_spec[2:]), _without(lhs_spec, 1))        # of the axes of one feature

    def sums(b: Builder, lhs: Value, rhs: Value) -> Value:
        shares = []
        for at, element in _elements(b, lhs, tuple(space), p):
            for i in range(features):
                x = _feature(b, element, lhs_spec[1], i)
                shares.append(b.mul(b.broadcast(x, out, axes),
                                       _weights(b, out, rhs, i, at, p)))
        return _sum(b, shares)
    return lower_apart(b, sums, [lhs, rhs])


def _feature(b: Builder, x: Value, axis: int, i: int) -> Value:
    """`x` at one position of an axis, without that axis."""
    starts, limits = [0] * x.aval.ndim, list(x.aval.shape)
    starts[axis], limits[axis] = i, i + 1
    part = slice_text(b, x, starts, limits)
    return reshape_text(b, part, part.aval.shape[:axis] + part.aval.shape[axis + 1:])


# -- gradients of depthwise kernels -------------------------------------------------------------------------------
# In these convolutions the images are summed over (the "features"), and the cotangent is the large "kernel".

def _depthwise_kernel_gradient(b: Builder, out: ShapedArray, lhs: Value, rhs: Value, p: Convolution) -> Value | None:
    lhs_spec, rhs_spec, out_spec = p.dimension_numbers
    groups, space, window = p.batch_group_count, take(out.shape, out_spec[2:]), take(rhs.aval.shape, rhs_spec[2:])
    last, bounds = lhs.aval.ndim - 1, limits("depthwise convolutions by taps", "cpu")
    if (bounds is None or groups == 1 or not groups == lhs.aval.shape[lhs_spec[0]] == out.shape[out_spec[1]]
            or not window or math.prod(space) > bounds["taps"] or not lhs_spec[0] == rhs_spec[0] == last
            or not all(list(spec[2:]) == sorted(spec[2:]) for spec in (lhs_spec, rhs_spec))):
        return None
    if len(window) == 1:
        return _with_rows(b, out, lhs, rhs, p)
    padded, taps = _padded(b, lhs, lhs_spec, p), list(np.ndindex(*space))
    rest = ShapedArray((*window[1:], groups), out.dtype)
    x_axes = (lhs.aval.ndim - 3, *range(lhs.aval.ndim - 3))         # (features, other spatial axes) of a row

    def step(inner: Builder, i: Value, sums: Sequence[Value], x: Value, y: Value) -> list[Value]:
        per_image = inner.constant(window[0], _I32)
        image, row = inner.div(i, per_image), inner.binary("stablehlo.remainder", i, per_image)
        y = _at(inner, y, {rhs_spec[1]: image, rhs_spec[2]: row})
        top = inner.mul(row, p.rhs_dilation[0])
        rows = [_at(inner, x, {lhs_spec[1]: image, lhs_spec[2]: inner.binary(
            "stablehlo.add", top, inner.constant(k * p.window_strides[0], _I32))}) for k in range(space[0])]
        inside = p._replace(window_strides=p.window_strides[1:], rhs_dilation=p.rhs_dilation[1:])
        new = []
        for total, tap in zip(sums, taps, strict=True):
            part = _part(inner, rows[tap[0]], x_axes, tap[1:], window[1:], inside)
            new.append(inner.add(total, inner.mul(part, y)))
        return new

    count = rhs.aval.shape[rhs_spec[1]] * window[0]
    sums = _loop(b, count, step, [b.constant(0, rest)] * len(taps), [padded, rhs])
    stacked = _stacked(b, sums, (*space, *rest.shape))
    zero, axes = b.constant(0, ShapedArray((), out.dtype)), list(range(len(space), stacked.aval.ndim - 1))
    total = ShapedArray((*space, groups), out.dtype)
    summed = b.op(f"stablehlo.reduce({stacked} init: {zero}) applies stablehlo.add across dimensions = {axes} : "
                  f"({stacked.type}, {zero.type}) -> {tensor_type(total)}", total)
    summed = reshape_text(b, summed, (1, *total.shape))
    return transpose_text(b, summed, placed((0, len(space) + 1, *range(1, len(space) + 1)), out_spec))


def _with_rows(b: Builder, out: ShapedArray, lhs: Value, rhs: Value, p: Convolution) -> Value:
    """The gradient of a depthwise kernel over one axis, as a gradient over two axes: whole images are rows."""
    def widened(shape: Axes, spec: Axes) -> Axes:
        return (*shape[:spec[2]], 1, *shape[spec[2]:])

    lhs_spec, rhs_spec, out_spec = p.dimension_numbers
    specs = [(*(a + (a >= spec[2]) for a in spec[:2]), spec[2], spec[2] + 1) for spec in p.dimension_numbers]
    wide = p._replace(window_strides=(1, *p.window_strides), padding=((0, 0), *p.padding),
                      lhs_dilation=(1, *p.lhs_dilation), rhs_dilation=(1, *p.rhs_dilation),
                      dimension_numbers=ConvDimensionNumbers(*specs))
    lhs, rhs = (reshape_text(b, x, widened(x.aval.shape, spec)) for x, spec in ((lhs, lhs_spec), (rhs, rhs_spec)))
    result = _depthwise_kernel_gradient(b, out.update(shape=widened(out.shape, out_spec)), lhs, rhs, wide)
    return reshape_text(b, result, out.shape)


# -- pieces -------------------------------------------------------------------------------------------------------

def _padded(b: Builder, x: Value, spec: Axes, p: Convolution) -> Value:
    """`x` with the padding and the dilation of the operand; `spec`: the axes of batch, features and positions."""
    low, high = (placed((0, 0, *(pair[i] for pair in p.padding)), spec) for i in range(2))
    zero = b.constant(0, ShapedArray((), x.aval.dtype))
    return emit_pad(b, x, zero, low, high, placed((0, 0, *(d - 1 for d in p.lhs_dilation)), spec))


def _without(spec: Axes, dropped: int) -> Axes:
    """The spec of an array from which one of its axes was removed."""
    gone = spec[dropped]
    return tuple(a - (a > gone) for a in spec if a != gone)


def _at(b: Builder, x: Value, at: dict[int, Value]) -> Value:
    """`x` at computed positions of some axes, without these axes."""
    sizes = [1 if a in at else n for a, n in enumerate(x.aval.shape)]
    starts = [at.get(a) or b.constant(0, _I32) for a in range(x.aval.ndim)]
    part = dynamic_slice_text(b, x, starts, sizes)
    return reshape_text(b, part, tuple(n for a, n in enumerate(x.aval.shape) if a not in at))


def _part(b: Builder, x: Value, axes: Axes, tap: Sequence[int], window: Axes, p: Convolution) -> Value:
    """The elements of `x` that one kernel element is multiplied with; `axes` are (features, spatial ...) of `x`."""
    features = x.aval.shape[axes[0]]
    starts = [k * s for k, s in zip(tap, p.window_strides, strict=True)]
    limits = [lo + (n - 1) * d + 1 for lo, n, d in zip(starts, window, p.rhs_dilation, strict=True)]
    return slice_text(b, x, placed((0, *starts), axes), placed((features, *limits), axes),
                      placed((1, *p.rhs_dilation), axes))


def _stacked(b: Builder, xs: Sequence[Value], shape: Axes) -> Value:
    """Arrays stacked one after another, reshaped to `shape`."""
    rows = [reshape_text(b, x, (1, *x.aval.shape)) for x in xs]
    out = ShapedArray((len(rows), *xs[0].aval.shape), xs[0].aval.dtype)
    return reshape_text(b, concatenate_text(b, rows, out, 0), shape)


def _loop(b: Builder, count: int, step: Callable[..., list[Value]], starts: Sequence[Value],
          inputs: Sequence[Value]) -> list[Value]:
    """``for i in range(count): sums = step(builder, i, sums, *inputs)``."""
    operands = [b.constant(0, _I32), *starts, *inputs]
    avals = [v.aval for v in operands]

    def cond(inner: Builder, i: Value, *rest: Value) -> list[Value]:
        return [inner.compare("LT", i, inner.constant(count, _I32))]

    def body(inner: Builder, i: Value, *rest: Value) -> list[Value]:
        sums, others = rest[:len(starts)], rest[len(starts):]
        after = inner.add(i, 1)
        return [after, *step(inner, i, sums, *others), *others]

    return b.generic("stablehlo.while", operands, avals, regions=[b.region(avals, cond), b.region(avals, body)])[
        1:1 + len(starts)]
