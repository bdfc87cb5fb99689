"""The checks of checked mode on numbers and indices: NaNs and infinities, integers that do not fit, indices.

A check returns masks over the result: True where the operation made a wrong value. `guards.py` decides whether a True
is a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xjax.checks.automatic import (
    NAN_ELEMENTWISE,
    NAN_OTHERS,
    SCATTERS,
    any_true,
    gather_bounds,
    scatter_bounds,
    slice_bounds,
    update_bounds,
)
from xjax.checks.recorder import either
from xjax.core import dtypes
from xjax.core.config import DEFAULT_MODE
from xjax.core.errors import scope_of
from xjax.core.jaxpr import Eqn
from xjax.core.primitive import Primitive
from xjax.core.types import typeof
from xjax.ops import (
    bitwise,
    collectives,
    complex_numbers,
    conv,
    convert,
    cumulative,
    dot,
    elementwise,
    gather,
    makers,
    piecewise,
    reduce,
    scatter,
    shape,
    slice,
    window_reduce,
)
from xjax.ops.bitwise import bitwise_and, bitwise_not, bitwise_or
from xjax.ops.compare import ge, le, lt, ne
from xjax.ops.convert import convert_element_type
from xjax.ops.index_numbers import GatherScatterMode
from xjax.typing import Array, ArrayLike


class Wrong(NamedTuple):
    """A check of one equation.

    masks: where its result is wrong, bool of the shape of the result or bool[], with the static part of the message.
    values: int32[3], the other part: index, axis and size.
    """

    check: str
    masks: list[tuple[Any, str]]
    values: Any = np.zeros(3, np.int32)


class Tests:
    """Tests of the values of a program, each made once: the result of an operation is an argument of others."""

    __slots__ = ("_results",)

    def __init__(self):
        self._results: dict[tuple[Callable, int], tuple[Any, Any]] = {}

    def __call__(self, test: Callable[[ArrayLike], ArrayLike], x: ArrayLike) -> ArrayLike:
        key = test, id(x)
        if key not in self._results:
            self._results[key] = x, test(x)             # with x, whose id is in use as long as it lives
        return self._results[key][1]


# check(equation, arguments, results, tests) -> the check of the equation
Check = Callable[[Eqn, Sequence[Any], Sequence[Any], Tests], Wrong | None]


def spread(x: ArrayLike, size: tuple[int, ...]) -> ArrayLike:
    """`x` in the shape `size`; a scalar, and an axis of size 1, are repeated."""
    given = typeof(x).shape
    return x if given == size else shape.broadcast_in_dim(x, size, range(len(given)))


def filled(size: tuple[int, ...], value: int) -> ArrayLike:
    """An int32 array of one value, by an operation: an array of NumPy would be an input of the program."""
    return spread(np.int32(value), size)


# -- NaN and infinity ---------------------------------------------------------------------------------------------

def is_nan(x: ArrayLike) -> ArrayLike:
    """Where x is NaN."""
    return ne(x, x)


def is_finite(x: ArrayLike) -> Array:
    """Where x, which may be complex, is neither infinite nor NaN."""
    if dtypes.is_complex(typeof(x).dtype):
        return bitwise_and(elementwise.is_finite(complex_numbers.real(x)),
                           elementwise.is_finite(complex_numbers.imag(x)))
    return elementwise.is_finite(x)


def _is_infinite(x: ArrayLike) -> ArrayLike:
    """Where x is infinite or NaN."""
    return bitwise_not(is_finite(x))


def _any_nan(x: ArrayLike) -> ArrayLike:
    return any_true(is_nan(x))


def _any_infinite(x: ArrayLike) -> ArrayLike:
    return any_true(_is_infinite(x))


def made_bad(eqn: Eqn, args: Sequence[Any], outs: Sequence[Any], tests: Tests) -> Wrong | None:
    """A NaN from arguments without NaN, or an infinity from finite arguments."""
    y = outs[0]
    if len(outs) != 1 or not dtypes.is_inexact(typeof(y).dtype) or 0 in typeof(y).shape:
        return None
    of_args = (is_nan, _is_infinite) if eqn.primitive in _ELEMENTWISE else (_any_nan, _any_infinite)
    values = [x for x in args if dtypes.is_inexact(typeof(x).dtype) and not _is_finite_number(x)]
    nan, infinite = [_only_in(tests(test, y), [tests(of_arg, x) for x in values])
                     for test, of_arg in zip((is_nan, _is_infinite), of_args, strict=True)]
    return Wrong("nan", [(nan, "a NaN"), (infinite, "an infinity")])        # the first that holds, so not a NaN


def _only_in(flags: ArrayLike, before: Sequence[ArrayLike]) -> ArrayLike:
    """Where `flags` holds, but none of `before`."""
    size = typeof(flags).shape
    return bitwise_and(flags, bitwise_not(either([spread(x, size) for x in before]))) if before else flags


def _is_finite_number(x: object) -> bool:
    return isinstance(x, (np.generic, float, complex)) and bool(np.isfinite(x))


# -- integers -----------------------------------------------------------------------------------------------------

def counts(dtype: np.dtype) -> bool:
    """Whether an overflow of this dtype is an error: uint32 and uint64 are modular on purpose."""
    return dtypes.is_int(dtype) and (not dtypes.is_unsigned(dtype) or dtypes.itemsize_bits(dtype) <= 16)


def _floats_of(dtype: np.dtype) -> np.dtype:
    return np.dtype(np.float64 if dtypes.itemsize_bits(dtype) > 32 else np.float32)


def overflows(eqn: Eqn, args: Sequence[Any], outs: Sequence[Any], tests: Tests) -> Wrong | None:
    """The operation in floating point has another result: by a multiple of the number of values of the dtype."""
    y = outs[0]
    dtype = typeof(y).dtype
    if len(outs) != 1 or not counts(dtype) or 0 in typeof(y).shape:
        return None
    wide = _floats_of(dtype)
    params = {k: None if k == "preferred_element_type" else v for k, v in eqn.params.items()}
    if eqn.params.get("y", 0) < 0:                              # a negative power
        return None
    exact = eqn.primitive.bind(*[convert_element_type(x, wide) if dtypes.is_int(typeof(x).dtype) and k not in
                                 _POSITIONS.get(eqn.primitive, ()) else x for k, x in enumerate(args)], **params)
    exact = exact[0] if eqn.primitive.multiple_results else exact
    exact = convert_element_type(exact, wide)
    distance = piecewise.abs(elementwise.sub(exact, convert_element_type(y, wide)))
    half = wide.type(2.0 ** (dtypes.itemsize_bits(dtype) - 1))
    return Wrong("ints", [(bitwise_not(le(distance, half)), str(dtype))])


def _shift(eqn: Eqn, args: Sequence[Any], outs: Sequence[Any], tests: Tests) -> Wrong | None:
    x, count = args
    dtype = typeof(outs[0]).dtype
    if not counts(dtype) or 0 in typeof(outs[0]).shape:
        return None
    size = typeof(outs[0]).shape
    back = bitwise.shift_right_arithmetic_p if not dtypes.is_unsigned(dtype) else bitwise.shift_right_logical_p
    x, count = spread(x, size), spread(count, size)
    bits = dtype.type(dtypes.itemsize_bits(dtype))
    lost = ne(back.bind(outs[0], count), x)
    outside = bitwise_and(bitwise_or(lt(count, dtype.type(0)), ge(count, bits)), ne(x, dtype.type(0)))
    return Wrong("ints", [(bitwise_or(lost, outside), str(dtype))])


def _converted(eqn: Eqn, args: Sequence[Any], outs: Sequence[Any], tests: Tests) -> Wrong | None:
    """A number that the new dtype cannot hold; of floats, one outside of its range."""
    x, y = args[0], outs[0]
    old, new = typeof(x).dtype, typeof(y).dtype
    if dtypes.is_inexact(new):
        return made_bad(eqn, args, outs, tests) if dtypes.is_inexact(old) else None
    if 0 in typeof(y).shape or not dtypes.is_int(new) or dtypes.is_bool(new):
        return None
    bits, signed = dtypes.itemsize_bits(new), not dtypes.is_unsigned(new)
    if dtypes.is_float(old):
        low, high = (-2.0 ** (bits - 1), 2.0 ** (bits - 1)) if signed else (0.0, 2.0 ** bits)
        wide = x if dtypes.itemsize_bits(old) >= 32 else convert_element_type(x, np.float32)
        wide_type = typeof(wide).dtype.type
        below = lt(wide, wide_type(low)) if low < -2.0 ** 23 else le(wide, wide_type(low - 1))
        return Wrong("ints", [(either([below, ge(wide, wide_type(high)), is_nan(wide)]), str(new))])
    if not counts(new) or not dtypes.is_int(old):
        return None
    changed = ne(convert_element_type(y, old), x)
    if dtypes.is_unsigned(old) == signed:
        sign = [lt(v, typeof(v).dtype.type(0)) for v in (x, y) if not dtypes.is_unsigned(typeof(v).dtype)]
        changed = bitwise_or(changed, sign[0])
    return Wrong("ints", [(changed, str(new))])


# -- indices ------------------------------------------------------------------------------------------------------

def _index(bounds: Callable, by_mode: bool) -> Check:
    def check(eqn: Eqn, args: Sequence[Any], outs: Sequence[Any], tests: Tests) -> Wrong | None:
        if by_mode and eqn.params["mode"] is not GatherScatterMode.PROMISE_IN_BOUNDS and (
                DEFAULT_MODE not in scope_of(eqn.source)):
            return None                                     # the caller chose a mode
        wrong = bounds(eqn, args)
        return None if wrong is None else Wrong("index", [(wrong[0], typeof(args[0]).str_short())], wrong[1][0])
    return check


# -- the tables ---------------------------------------------------------------------------------------------------

_ELEMENTWISE = frozenset((*NAN_ELEMENTWISE, elementwise.div_p, makers.accumulate_p, convert.convert_element_type_p))
# Operands that are positions, not numbers.
_POSITIONS: dict[Primitive, tuple[int, ...]] = {p: (1,) for p in SCATTERS}
_ARITHMETIC = (elementwise.add_p, elementwise.sub_p, elementwise.mul_p, elementwise.neg_p, elementwise.square_p,
               elementwise.integer_pow_p, piecewise.abs_p, shape.reduce_sum_p, reduce.reduce_prod_p,
               cumulative.cumsum_p, cumulative.cumprod_p, window_reduce.reduce_window_sum_p, dot.dot_general_p,
               conv.conv_general_dilated_p, collectives.psum_p, gather.scatter_add_p, scatter.scatter_sub_p)
_EXTREMA = (cumulative.cummax_p, cumulative.cummin_p, slice.pad_p)      # they return some of their arguments

CHECKS: dict[str, dict[Primitive, Check]] = {
    "index": {
        gather.gather_p: _index(gather_bounds, True), **{p: _index(scatter_bounds, True) for p in SCATTERS},
        slice.dynamic_slice_p: _index(slice_bounds, False),
        slice.dynamic_update_slice_p: _index(update_bounds, False)},
    "nan": {p: made_bad for p in (*_ELEMENTWISE, *NAN_OTHERS, *SCATTERS) if p not in _EXTREMA} | {
        convert.convert_element_type_p: _converted},
    "ints": {**dict.fromkeys(_ARITHMETIC, overflows), bitwise.shift_left_p: _shift,
             convert.convert_element_type_p: _converted},
}
