"""Reductions over axes: sums, products, extrema, logical ones, moments; running sums; and versions that ignore nan."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xjax.core import dtypes
from xjax.core.aliases import alias
from xjax.core.calls import name_function
from xjax.core.dtypes import accumulator_dtype
from xjax.core.errors import bad
from xjax.core.types import number_of
from xjax.numpy.composed import conjugate, real
from xjax.numpy.lengths import root_of_squares
from xjax.numpy.promote import as_dtype, aval_of, cast, default_int, expand_to, to_inexact
from xjax.numpy.rounding import isnan
from xjax.numpy.selection import choose, operand, refuse_out
from xjax.numpy.ufuncs import add as add_arrays
from xjax.numpy.ufuncs import maximum, minimum, multiply, to_array_like
from xjax.ops import cumulative
from xjax.ops.bitwise import bitwise_and, bitwise_not, bitwise_or
from xjax.ops.checks import canonical_axes, canonical_axis
from xjax.ops.compare import gt
from xjax.ops.convert import convert_element_type, size_as
from xjax.ops.elementwise import div, mul, sub
from xjax.ops.elementwise import square as lax_square
from xjax.ops.reduce import argmax as lax_argmax
from xjax.ops.reduce import argmin as lax_argmin
from xjax.ops.reduce import reduce_and, reduce_max, reduce_min, reduce_or, reduce_prod
from xjax.ops.shape import expand_dims, reduce_sum, reshape
from xjax.ops.slice import pad as lax_pad
from xjax.runtime.one_launch import one_launch
from xjax.typing import Array, ArrayLike, Axis, DTypeLike

# -- common parts -------------------------------------------------------------------------------------------------

def _axes(caller: str, axis: Axis, ndim: int) -> tuple[int, ...]:
    return tuple(sorted(canonical_axes(axis, ndim, caller)))


def _masked(caller: str, x: Array, mask: ArrayLike | None, neutral: complex) -> Array:
    """`x` with the neutral element where the mask is false."""
    if mask is None:
        return x
    if not dtypes.is_bool(aval_of(caller, mask).dtype):
        raise bad(caller, "`where` must be a bool array", given={"where": aval_of(caller, mask)},
                  fix="compare it with something: where=mask != 0.", exc=ValueError)
    return choose(mask, x, cast(caller, neutral, x.dtype), caller)


def _finish(caller: str, y: Array, axes: Sequence[int], keepdims: bool, dtype: DTypeLike,
            initial: ArrayLike | None = None, join: Callable[..., Array] | None = None) -> Array:
    if initial is not None and join is not None:
        if np.ndim(initial):
            raise bad(caller, "`initial` must be a number", given={"initial": str(np.shape(initial))},
                      fix="pass a number.", exc=ValueError)
        y = join(cast(caller, initial, y.dtype), y)
    y = convert_element_type(y, dtype)
    return expand_dims(y, axes) if keepdims else y


def _sum_dtype(dtype: np.dtype) -> np.dtype:
    """Narrow integers and bool are summed as default integers."""
    if dtypes.is_inexact(dtype):
        return dtype
    default = default_int()
    if dtypes.is_unsigned(dtype):
        default = dtypes.canonicalize_dtype(np.uint64)
    wide = not dtypes.is_bool(dtype) and dtypes.itemsize_bits(dtype) >= dtypes.itemsize_bits(default)
    return dtype if wide else default


def _total(name: str, reduce: Callable, neutral: int, join: Callable, doc: str) -> Callable[..., Array]:
    caller = f"numpy.{name}"

    @one_launch
    def total(a: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, out: None = None, keepdims: bool = False,
              initial: ArrayLike | None = None, where: ArrayLike | None = None, promote_integers: bool = True) -> Array:
        refuse_out(caller, out)
        a = to_array_like(caller, a)
        result = as_dtype(dtype, caller) if dtype is not None else dtypes.explicit_dtype(a.dtype)
        if dtype is None and (promote_integers or dtypes.is_bool(result)):
            result = _sum_dtype(result)
        axes = _axes(caller, axis, a.ndim)
        if dtypes.is_bool(result):
            a, computed = convert_element_type(a, result), default_int()        # counts the elements that are not 0
        else:
            computed = accumulator_dtype(result)
        x = _masked(caller, convert_element_type(a, computed, a.weak_type and computed == a.dtype), where, neutral)
        return _finish(caller, reduce(x, axes), axes, keepdims, result, initial, join)

    name_function(total, name)
    total.__doc__ = f"""{doc} over `axis` (default: all axes).

    Args:
      a: number[...] or bool; narrow integers are computed as default integers unless `dtype` is given, 16-bit floats as
        float32.
      dtype: of the result. out: not supported. keepdims: whether reduced axes are kept, with size 1.
      initial: a number to start from. where: bool[...]; elements where it is false are ignored.
    """
    return total


sum = _total("sum", reduce_sum, 0, add_arrays, "Sum")
prod = _total("prod", reduce_prod, 1, multiply, "Product")


def _extremum(name: str, reduce: Callable, sign: int, join: Callable, doc: str) -> Callable[..., Array]:
    caller = f"numpy.{name}"

    @one_launch
    def extremum(a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False,
                 initial: ArrayLike | None = None, where: ArrayLike | None = None) -> Array:
        refuse_out(caller, out)
        a = to_array_like(caller, a)
        axes = _axes(caller, axis, a.ndim)
        if initial is None:
            if where is not None:
                raise bad(caller, "`where` needs `initial`: an extremum of no elements is undefined",
                          fix="pass initial=....", exc=ValueError)
            if math.prod(a.shape[d] for d in axes) == 0:
                raise bad(caller, "zero-size array to reduction operation which has no identity",
                          given={"a": a.aval, "axis": str(axes)}, fix="pass initial=....", exc=ValueError)
        x = _masked(caller, a, where, _extreme(a.dtype, sign))
        return _finish(caller, reduce(x, axes), axes, keepdims, dtypes.explicit_dtype(a.dtype), initial, join)

    name_function(extremum, name)
    extremum.__doc__ = f"""{doc} over `axis` (default: all axes); nan if one is nan. Ties share the gradient equally.

    Args: as for `sum`; `where` needs `initial`.
    Raises: ValueError if there are no elements and no `initial`.
    """
    return extremum


def _extreme(dtype: np.dtype, sign: int) -> float:
    """The neutral value of a maximum (sign 1) or a minimum (sign -1)."""
    if dtypes.is_bool(dtype):
        return sign < 0
    if dtypes.is_int(dtype):
        return int(dtypes.iinfo(dtype).min if sign > 0 else dtypes.iinfo(dtype).max)
    return -math.inf * sign


max = _extremum("max", reduce_max, 1, maximum, "Maximum")
min = _extremum("min", reduce_min, -1, minimum, "Minimum")
amax, amin = alias(max, "amax"), alias(min, "amin")


@one_launch
def minmax(a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False,
           initial: ArrayLike | tuple[ArrayLike, ArrayLike] | None = None,
           where: ArrayLike | None = None) -> tuple[Array, Array]:
    """(minimum, maximum) over `axis` (default: all axes).

    Args: initial: as in `min`, a value for both or a tuple of two values; the others: as in `min`.

    >>> low, high = minmax(np.array([2, -7, 8]))
    >>> int(low), int(high)
    (-7, 8)
    """
    refuse_out("numpy.minmax", out)
    low, high = initial if isinstance(initial, tuple) else (initial, initial)
    return (min(a, axis, keepdims=keepdims, initial=low, where=where),
            max(a, axis, keepdims=keepdims, initial=high, where=where))


def _logical(name: str, reduce: Callable, neutral: bool, join: Callable, doc: str) -> Callable[..., Array]:
    caller = f"numpy.{name}"

    @one_launch
    def logical(a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False, *,
                where: ArrayLike | None = None) -> Array:
        refuse_out(caller, out)
        a = to_array_like(caller, a)
        axes = _axes(caller, axis, a.ndim)
        x = _masked(caller, convert_element_type(a, np.bool_), where, neutral)
        return _finish(caller, reduce(x, axes), axes, keepdims, np.dtype(bool))

    name_function(logical, name)
    logical.__doc__ = f"Whether {doc} `axis` (default: all axes) is true: not 0. `where` as for `sum`."
    return logical


all = _logical("all", reduce_and, True, bitwise_and, "every element over")
any = _logical("any", reduce_or, False, bitwise_or, "some element over")


def _arg(name: str, reduce: Callable, doc: str) -> Callable[..., Array]:
    caller = f"numpy.{name}"

    @one_launch
    def arg(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
        refuse_out(caller, out)
        a = to_array_like(caller, a)
        rank = a.ndim
        if axis is None:
            a, axis = reshape(a, (a.size,)), 0
        axis = canonical_axis(axis, a.ndim, caller)
        if not a.shape[axis]:
            raise bad(caller, "the axis is empty", given={"a": a.aval}, fix="pass a non-empty axis.",
                      exc=ValueError)
        index = reduce(a, axis, default_int())
        if not keepdims:
            return index
        return expand_dims(index, (axis,)) if a.ndim == rank else reshape(index, (1,) * rank)

    name_function(arg, name)
    arg.__doc__ = f"Index of the {doc} along `axis` (default: flattened): the first one, or the first nan if any."
    return arg


argmax = _arg("argmax", lax_argmax, "largest element")
argmin = _arg("argmin", lax_argmin, "smallest element")


# -- moments ------------------------------------------------------------------------------------------------------

@one_launch
def mean(a: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, out: None = None, keepdims: bool = False, *,
         where: ArrayLike | None = None) -> Array:
    """Mean over `axis` (default: all axes); nan if there are no elements.

    Args: as for `sum`; integers give floats.
    """
    caller = "numpy.mean"
    refuse_out(caller, out)
    a = to_array_like(caller, a)
    result = as_dtype(dtype, caller) if dtype is not None else dtypes.explicit_dtype(to_inexact(a.dtype))
    axes = _axes(caller, axis, a.ndim)
    computed = accumulator_dtype(result)
    total = sum(a, axes, dtype=computed, keepdims=keepdims, where=where)
    count = _count(caller, a, axes, where, computed, keepdims)
    return convert_element_type(div(total, count), result)


def _count(caller: str, a: Array, axes: Sequence[int], mask: ArrayLike | None, dtype: DTypeLike,
           keepdims: bool) -> ArrayLike:
    """Number of elements included: a number, or an array if there is a mask."""
    if mask is None:
        return size_as(math.prod(a.shape[d] for d in axes), np.dtype(dtype))
    mask = expand_to(caller, operand(caller, mask), a.shape)
    return sum(mask, axes, dtype=dtype, keepdims=keepdims)


@one_launch
def var(a: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, out: None = None, ddof: float = 0,
        keepdims: bool = False, *, where: ArrayLike | None = None, mean: ArrayLike | None = None,
        correction: float | None = None) -> Array:
    """Mean squared distance from the mean over `axis` (default: all axes), computed in two passes.

    Args: ddof, correction: subtracted from the count in the divisor; mean: the mean, with kept axes, if it is known.
      The others as for `sum`.
    Returns: a real array; nan where the divisor is not positive.
    """
    refuse_out("numpy.var", out)
    apart = _deviations("numpy.var", a, axis, dtype, ddof, where, mean, correction)
    x = _masked("numpy.var", sub(apart.x, apart.center), where, 0)
    squared = real(mul(x, conjugate(x))) if dtypes.is_complex(x.dtype) else lax_square(x)
    total = reduce_sum(squared, apart.axes)
    if where is None:
        value = div(total, _divisor(apart, total.dtype))
    else:
        value = choose(gt(apart.divisor, 0), div(total, apart.divisor), math.nan)
    value = convert_element_type(value, apart.result)
    return expand_dims(value, apart.axes) if keepdims else value


class _Deviations(NamedTuple):
    """The parts of variances and standard deviations."""

    x: Any                          # in the dtype of the sums
    center: Any                     # the mean, with kept axes
    divisor: Any                    # of the sum of squares: a number, or an array if there is a mask
    axes: tuple[int, ...]
    computed: Any                   # the dtype of the computation, before it is widened for sums
    result: Any                     # the dtype of the result


def _divisor(apart: _Deviations, dtype: np.dtype) -> Any:
    """The divisor without a mask; nan if it is not positive."""
    if isinstance(apart.divisor, np.generic):
        return apart.divisor if apart.divisor > 0 else number_of(dtype, math.nan)
    return choose(gt(apart.divisor, 0), apart.divisor, math.nan)                # the axes have a symbolic size


def _deviations(caller: str, a: ArrayLike, axis: Axis, dtype: DTypeLike | None, ddof: float, mask: ArrayLike | None,
                center: ArrayLike | None, correction: float | None) -> _Deviations:
    a = to_array_like(caller, a)
    asked = None if dtype is None else as_dtype(dtype, caller)
    computed = _variance_dtype(a.dtype, asked)
    if asked is not None and dtypes.is_complex(a.dtype) and not dtypes.is_complex(asked):
        raise bad(caller, "`dtype` must not be real for a complex array", given={"a": a.aval, "dtype": asked},
                  fix="leave `dtype` out: the result is real.", exc=ValueError)
    axes = _axes(caller, axis, a.ndim)
    x = convert_element_type(a, accumulator_dtype(computed))
    center = mean(x, axes, keepdims=True, where=mask) if center is None else center
    center = convert_element_type(operand(caller, center), x.dtype)
    part = dtypes.finfo(x.dtype).dtype
    divisor = _count(caller, x, axes, mask, part, keepdims=False)
    less = part.type(ddof if correction is None else correction)
    divisor = divisor - less if isinstance(divisor, np.generic) else sub(divisor, less)
    result = asked if asked is not None else computed
    return _Deviations(x, center, divisor, axes, computed, dtypes.finfo(result).dtype if dtypes.is_complex(result)
                       else result)


def _variance_dtype(dtype: np.dtype, asked: np.dtype | None) -> np.dtype:
    if asked is None or asked.kind not in "fc" or dtype.kind not in "fciub":
        return to_inexact(dtypes.explicit_dtype(dtype) if asked is None else asked)
    joint = np.promote_types(dtype, asked)
    return joint if joint in (dtype, asked) else to_inexact(dtypes.canonicalize_dtype(joint))


@one_launch
def std(a: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, out: None = None, ddof: float = 0,
        keepdims: bool = False, *, where: ArrayLike | None = None, mean: ArrayLike | None = None,
        correction: float | None = None) -> Array:
    """Standard deviation: the root of `var`, right even where `var` is out of the range of the dtype.

    Its gradient at constant data is nan, as in JAX.
    """
    refuse_out("numpy.std", out)
    apart = _deviations("numpy.std", a, axis, dtype, ddof, where, mean, correction)
    if where is None:
        divisor = _divisor(apart, apart.divisor.dtype)
    else:
        divisor = choose(gt(apart.divisor, 0), apart.divisor, math.nan)
    x = apart.x if where is None else choose(where, apart.x, apart.center)
    value = root_of_squares(sub(x, apart.center), apart.axes, divisor, flat_at_zero=False, narrow=apart.computed)
    value = convert_element_type(value, apart.result)
    return expand_dims(value, apart.axes) if keepdims else value


@one_launch
def count_nonzero(a: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Array:
    """Number of elements that are not 0 over `axis` (default: all axes), as a default integer."""
    a = operand("numpy.count_nonzero", a)
    return sum(convert_element_type(a, np.bool_), axis, dtype=default_int(), keepdims=keepdims)


@one_launch
def ptp(a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False) -> Array:
    """Largest minus smallest element over `axis` (default: all axes)."""
    refuse_out("numpy.ptp", out)
    return sub(max(a, axis, keepdims=keepdims), min(a, axis, keepdims=keepdims))


# -- without nan --------------------------------------------------------------------------------------------------

def _without_nan(caller: str, a: ArrayLike, neutral: complex) -> Array:
    a = to_array_like(caller, a)
    return choose(isnan(a), cast(caller, neutral, a.dtype), a) if dtypes.is_inexact(a.dtype) else a


def _nan_total(name: str, total: Callable, neutral: int) -> Callable[..., Array]:
    @one_launch
    def nan_total(a: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, out: None = None,
                  keepdims: bool = False, initial: ArrayLike | None = None, where: ArrayLike | None = None) -> Array:
        return total(_without_nan(f"numpy.{name}", a, neutral), axis, dtype, out, keepdims, initial, where)

    name_function(nan_total, name)
    nan_total.__doc__ = f"`{name[3:]}` of the elements that are not nan."
    return nan_total


nansum = _nan_total("nansum", sum, 0)
nanprod = _nan_total("nanprod", prod, 1)


def _nan_extremum(name: str, extremum: Callable, sign: int) -> Callable[..., Array]:
    caller = f"numpy.{name}"

    @one_launch
    def nan_extremum(a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False,
                     initial: ArrayLike | None = None, where: ArrayLike | None = None) -> Array:
        a = to_array_like(caller, a)
        if not dtypes.is_inexact(a.dtype):
            return extremum(a, axis, out, keepdims, initial, where)
        value = extremum(_without_nan(caller, a, _extreme(a.dtype, sign)), axis, out, keepdims, initial, where)
        if initial is not None:
            return value
        return choose(all(isnan(a), axis, keepdims=keepdims), cast(caller, math.nan, a.dtype), value)

    name_function(nan_extremum, name)
    nan_extremum.__doc__ = f"`{name[3:]}` of the elements that are not nan; nan where there is none."
    return nan_extremum


nanmax = _nan_extremum("nanmax", max, 1)
nanmin = _nan_extremum("nanmin", min, -1)


def _nan_arg(name: str, arg: Callable, sign: int) -> Callable[..., Array]:
    caller = f"numpy.{name}"

    @one_launch
    def nan_arg(a: Array, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
        a = to_array_like(caller, a)
        value = arg(_without_nan(caller, a, _extreme(a.dtype, sign)), axis, out, keepdims)
        if not dtypes.is_inexact(a.dtype):
            return value
        return choose(all(isnan(a), axis, keepdims=bool(keepdims)), cast(caller, -1, value.dtype), value)

    name_function(nan_arg, name)
    nan_arg.__doc__ = f"`{name[3:]}` of the elements that are not nan; -1 where there is none."
    return nan_arg


nanargmax = _nan_arg("nanargmax", argmax, 1)
nanargmin = _nan_arg("nanargmin", argmin, -1)


def _numbers_only(caller: str, a: Array, mask: ArrayLike | None) -> Array:
    """Mask of the elements that are not nan (and in the user's mask)."""
    valid = bitwise_not(isnan(a))
    return valid if mask is None else bitwise_and(valid, expand_to(caller, operand(caller, mask), a.shape))


@one_launch
def nanmean(a: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, out: None = None, keepdims: bool = False,
            where: ArrayLike | None = None) -> Array:
    """`mean` of the elements that are not nan; nan where there is none."""
    a = to_array_like("numpy.nanmean", a)
    mask = _numbers_only("numpy.nanmean", a, where) if dtypes.is_inexact(a.dtype) else where
    return mean(a, axis, dtype, out, keepdims, where=mask)


def _nan_moment(name: str, moment: Callable) -> Callable[..., Array]:
    caller = f"numpy.{name}"

    @one_launch
    def nan_moment(a: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, out: None = None, ddof: float = 0,
                   keepdims: bool = False, where: ArrayLike | None = None, mean: Array | None = None) -> Array:
        a = to_array_like(caller, a)
        mask = _numbers_only(caller, a, where) if dtypes.is_inexact(a.dtype) else where
        a = _without_nan(caller, a, 0)                          # the gradient of nan is nan, masked or not
        return moment(a, axis, dtype, out, ddof, keepdims, where=mask, mean=mean)

    name_function(nan_moment, name)
    nan_moment.__doc__ = f"`{name[3:]}` of the elements that are not nan; nan where there are too few."
    return nan_moment


nanvar = _nan_moment("nanvar", var)
nanstd = _nan_moment("nanstd", std)


# -- running ------------------------------------------------------------------------------------------------------

def _running(name: str, run: Callable, neutral: complex, doc: str) -> Callable[..., Array]:
    caller = f"numpy.{name}"

    @one_launch
    def running(a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None) -> Array:
        refuse_out(caller, out)
        a = to_array_like(caller, a)
        if axis is None:
            a, axis = reshape(a, (a.size,)), 0
        axis = canonical_axis(axis, a.ndim, caller)
        if neutral is not None:
            a = _without_nan(caller, a, neutral)
        kept = dtypes.explicit_dtype(a.dtype) if dtype is None else as_dtype(dtype, caller)
        a = a if kept == a.dtype and not a.aval.weak_type else convert_element_type(a, kept)
        if not dtypes.is_bool(a.dtype):
            return run(a, axis)
        counts = run(convert_element_type(a, default_int()), axis)
        return counts if dtype is None else convert_element_type(counts, a.dtype)

    name_function(running, name)
    running.__doc__ = f"{doc} along `axis` (default: of the flattened array)."
    return running


cumsum = _running("cumsum", cumulative.cumsum, None, "Running sum")
cumprod = _running("cumprod", cumulative.cumprod, None, "Running product")
nancumsum = _running("nancumsum", cumulative.cumsum, 0, "Running sum, nan counted as 0,")
nancumprod = _running("nancumprod", cumulative.cumprod, 1, "Running product, nan counted as 1,")


@one_launch
def cumulative_sum(x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike | None = None,
                   include_initial: bool = False) -> Array:
    """Running sum along `axis`, which may be left out for vectors; with `include_initial` it starts with 0.

    Integers narrower than the default integer are summed as default integers (`cumsum` keeps their dtype).
    """
    caller = "numpy.cumulative_sum"
    x = to_array_like(caller, x)
    dtype = _sum_dtype(x.dtype) if dtype is None else dtype
    return _cumulative(caller, cumsum, 0, x, axis, dtype, include_initial)


@one_launch
def cumulative_prod(x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike | None = None,
                    include_initial: bool = False) -> Array:
    """Running product along `axis`, which may be left out for vectors; with `include_initial` it starts with 1."""
    return _cumulative("numpy.cumulative_prod", cumprod, 1, x, axis, dtype, include_initial)


def _cumulative(caller: str, run: Callable, start: int, x: ArrayLike, axis: int | None, dtype: DTypeLike | None,
                initial: bool) -> Array:
    x = to_array_like(caller, x)
    if axis is None and x.ndim != 1:
        raise bad(caller, "`axis` is needed for arrays that are not vectors", given={"x": x.aval}, fix="pass axis=....",
                  exc=ValueError)
    axis = canonical_axis(0 if axis is None else axis, x.ndim, caller)
    out = run(x, axis, dtype)
    if not initial:
        return out
    config = [(1, 0, 0) if d == axis else (0, 0, 0) for d in range(x.ndim)]
    return lax_pad(out, number_of(out.dtype, start), config)
