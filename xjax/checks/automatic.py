"""The automatic checks of `checkify`: NaNs, divisions by zero, indices outside of the array."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from xjax.checks.errors import DivisionByZeroError, NaNError, OOBError
from xjax.checks.recorder import Recorder, Rule, apply, either
from xjax.core import dtypes
from xjax.core.context import context
from xjax.core.jaxpr import Eqn
from xjax.core.primitive import Primitive
from xjax.core.types import typeof
from xjax.lax import incomplete, linear_solve, reductions
from xjax.ops import (
    arrange,
    bessel,
    collectives,
    conv,
    cumulative,
    dot,
    elementwise,
    fft,
    gather,
    piecewise,
    reduce,
    rng,
    scatter,
    scatter_product,
    shape,
    slice,
    special,
    transcendental,
    window_reduce,
)
from xjax.ops.compare import eq, gt, lt, ne
from xjax.ops.convert import convert_element_type
from xjax.typing import Array, ArrayLike

# observe(recorder, equation, arguments, results) records checks of one equation.
Observe = Callable[[Recorder, Eqn, Sequence[Any], Sequence[Any]], None]


def observed(*observers: Observe) -> Rule:
    """The rule that applies the operation and then makes these checks."""
    def rule(recorder: Recorder, eqn: Eqn, args: list[Any]) -> Sequence[Any]:
        outs = apply(eqn, args)
        for observe in observers:
            observe(recorder, eqn, args, outs)
        return outs
    return rule


def any_true(flags: ArrayLike) -> Array:
    """Whether an entry of a bool array is true."""
    return reduce.reduce_or(flags, tuple(range(len(typeof(flags).shape))))


# -- NaN and division ---------------------------------------------------------------------------------------------

def _nan(recorder: Recorder, eqn: Eqn, args: Sequence[Any], outs: Sequence[Any]) -> None:
    floats = [y for y in outs if dtypes.is_inexact(typeof(y).dtype)]
    if floats:
        pred = either([any_true(ne(y, y)) for y in floats])
        recorder.fail_if(pred, NaNError, context.source, (eqn.primitive.name,))


def _zero_divisor(recorder: Recorder, eqn: Eqn, args: Sequence[Any], outs: Sequence[Any]) -> None:
    divisor = args[1]
    recorder.fail_if(any_true(eq(divisor, typeof(divisor).dtype.type(0))), DivisionByZeroError, context.source)


# -- indices ------------------------------------------------------------------------------------------------------

# (whether an index is wrong, the values of the message); None where no index can be wrong.
Bounds = tuple[Any, list[Any]] | None


def _bounds(operand: ArrayLike, indices: ArrayLike, upper: Sequence[int], axes: Sequence[int]) -> Bounds:
    """Check index vectors, int[..., k]; their entries are positions along `axes`, at most `upper`.

    The value of the message is int32[3]: the first wrong index, its axis and the size of the axis.
    """
    sizes, aval = typeof(operand).shape, typeof(indices)
    if not axes or 0 in aval.shape:
        return None
    limits, flat_shape = np.iinfo(aval.dtype), (math.prod(aval.shape),)
    highest = np.array([min(u, limits.max) for u in upper], aval.dtype)
    highest = shape.broadcast_in_dim(highest, aval.shape, (len(aval.shape) - 1,))
    wrong = either([lt(indices, aval.dtype.type(0)), gt(indices, highest)])
    position = reduce.argmax(shape.reshape(wrong, flat_shape), 0, np.int32)
    index = slice.dynamic_index_in_dim(shape.reshape(indices, flat_shape), position, 0, False)
    component = piecewise.rem(position, np.int32(len(axes)))
    rows = np.array([(a, min(sizes[a], np.iinfo(np.int32).max)) for a in axes], np.int32)
    axis_and_size = slice.dynamic_index_in_dim(rows, component, 0, False)
    first = shape.reshape(convert_element_type(index, np.int32), (1,))
    return any_true(wrong), [arrange.concatenate([first, axis_and_size], 0)]


def gather_bounds(eqn: Eqn, args: Sequence[Any]) -> Bounds:
    """The indices of a gather."""
    operand, indices = args
    axes, sizes = eqn.params["dimension_numbers"].start_index_map, eqn.params["slice_sizes"]
    return _bounds(operand, indices, [typeof(operand).shape[a] - sizes[a] for a in axes], axes)


def scatter_bounds(eqn: Eqn, args: Sequence[Any]) -> Bounds:
    """The indices of a scatter."""
    operand, indices, updates = args[:3]
    numbers, size = eqn.params["dimension_numbers"], typeof(operand).shape
    without = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    windows = iter(numbers.update_window_dims)
    window = [1 if a in without else typeof(updates).shape[next(windows)] for a in range(len(size))]
    axes = numbers.scatter_dims_to_operand_dims
    return _bounds(operand, indices, [size[a] - window[a] for a in axes], axes)


def _start_bounds(operand: ArrayLike, starts: Sequence[ArrayLike], sizes: Sequence[int]) -> Bounds:
    if not starts:
        return None
    dtype = np.result_type(*[typeof(x).dtype for x in starts])
    vector = arrange.stack([convert_element_type(x, dtype) for x in starts])
    whole = typeof(operand).shape
    return _bounds(operand, vector, [n - m for n, m in zip(whole, sizes, strict=True)], tuple(range(len(whole))))


def slice_bounds(eqn: Eqn, args: Sequence[Any]) -> Bounds:
    """The start of a dynamic slice."""
    return _start_bounds(args[0], args[1:], eqn.params["slice_sizes"])


def update_bounds(eqn: Eqn, args: Sequence[Any]) -> Bounds:
    """The start of an update of a slice."""
    return _start_bounds(args[0], args[2:], typeof(args[1]).shape)


def _index(bounds: Callable[[Eqn, Sequence[Any]], Bounds]) -> Observe:
    def observe(recorder: Recorder, eqn: Eqn, args: Sequence[Any], outs: Sequence[Any]) -> None:
        if (wrong := bounds(eqn, args)) is not None:
            static = (eqn.primitive.name, typeof(args[0]).shape)
            recorder.fail_if(wrong[0], OOBError, context.source, static, wrong[1])
    return observe


# -- the tables ---------------------------------------------------------------------------------------------------

# Operations that may return a NaN: on single elements, and others.
NAN_ELEMENTWISE: tuple[Primitive, ...] = (
    elementwise.add_p, elementwise.sub_p, elementwise.mul_p, elementwise.integer_pow_p, elementwise.square_p,
    elementwise.one_minus_square_p, piecewise.rem_p,
    *[getattr(transcendental, f"{name}_p") for name in (
        "exp", "exp2", "log", "log2", "expm1", "log1p", "logistic", "logistic_slope", "sqrt", "rsqrt", "cbrt",
        "pow_less_one", "pow", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "over_radius2", "sinh", "cosh",
        "times_tanh_slope", "tanh", "asinh", "acosh", "atanh")],
    *[getattr(special, f"{name}_p") for name in ("erf", "erfc", "erf_inv", "lgamma", "digamma", "polygamma", "zeta")],
    bessel.bessel_i0e_p, bessel.bessel_i1e_p, incomplete.igamma_p, incomplete.igammac_p, incomplete.igamma_grad_a_p,
    incomplete.regularized_incomplete_beta_p, rng.rng_uniform_p)
NAN_OTHERS: tuple[Primitive, ...] = (
    cumulative.cumsum_p, cumulative.cumprod_p, cumulative.cummax_p, cumulative.cummin_p, cumulative.cumlogsumexp_p,
    shape.reduce_sum_p, reduce.reduce_prod_p, reductions.reduce_p, reductions.reduce_window_p,
    window_reduce.reduce_window_sum_p, dot.dot_general_p, conv.conv_general_dilated_p, fft.fft_p, slice.pad_p,
    collectives.psum_p, collectives.psum_invariant_p, linear_solve.linear_solve_p)
SCATTERS: tuple[Primitive, ...] = (
    gather.scatter_add_p, scatter.scatter_p, scatter.scatter_sub_p, scatter.scatter_min_p, scatter.scatter_max_p,
    scatter_product.scatter_mul_p)


def _rows(observers: Iterable[tuple[type, Observe]]) -> Callable[[frozenset], Rule | None]:
    """For a set of categories: the rule with their checks, None if there is none."""
    pairs = list(observers)

    def rule(categories: frozenset) -> Rule | None:
        chosen = [observe for category, observe in pairs if category in categories]
        return observed(*chosen) if chosen else None
    return rule


AUTOMATIC_RULES: dict[Primitive, Callable[[frozenset], Rule | None]] = {
    **{p: _rows([(NaNError, _nan)]) for p in (*NAN_ELEMENTWISE, *NAN_OTHERS)},
    **{p: _rows([(OOBError, _index(scatter_bounds)), (NaNError, _nan)]) for p in SCATTERS},
    elementwise.div_p: _rows([(DivisionByZeroError, _zero_divisor), (NaNError, _nan)]),
    gather.gather_p: _rows([(OOBError, _index(gather_bounds))]),
    slice.dynamic_slice_p: _rows([(OOBError, _index(slice_bounds))]),
    slice.dynamic_update_slice_p: _rows([(OOBError, _index(update_bounds))]),
}
