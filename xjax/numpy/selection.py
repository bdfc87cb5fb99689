"""Conversion of arguments to operands; selection of values: `choose` (for `where`), `clip`, `nan_to_num`."""

from __future__ import annotations

from typing import Any, TypeAlias, overload

import numpy as np

from xjax.core import dtypes
from xjax.core.context import context
from xjax.core.errors import bad
from xjax.core.staging import StagingTrace
from xjax.core.types import typeof
from xjax.numpy.promote import array_like, aval_of, broadcast_shapes, cast, expand_to, promote, promote_shapes, shape_of
from xjax.numpy.ufuncs import DTypeRule, maximum, minimum, to_array_like
from xjax.ops.compare import eq, ne, select_n
from xjax.ops.complex_numbers import complex as complex_
from xjax.ops.complex_numbers import imag, real
from xjax.ops.convert import convert_element_type_p
from xjax.runtime.arrays.moves import to_array
from xjax.runtime.one_launch import one_launch
from xjax.typing import Array, ArrayLike

_NUMBERS = (bool, int, float, complex)
# Values with a dtype and a shape. A NumPy scalar has the attributes of a NumPy array without axes.
HostOrArray: TypeAlias = Array | np.ndarray


@overload
def operand(caller: str, x: Array) -> Array: ...
@overload
def operand(caller: str, x: Any) -> HostOrArray: ...


def operand(caller: str, x: Any) -> Any:
    """An array-like value with a dtype: Python numbers become weak arrays, or literals while staging."""
    x = array_like(caller, x)
    if hasattr(x, "aval"):
        return x
    if type(x) not in _NUMBERS:
        return cast(caller, x, typeof(x).dtype)              # 64 bits become 32, unless x64 is on
    if type(context.trace) is not StagingTrace:
        return to_array(x)
    aval = typeof(x)
    return convert_element_type_p.bind(x, new_dtype=aval.dtype, weak_type=aval.weak_type)


@overload
def operands(caller: str, *xs: Array, to: DTypeRule = ..., strong: bool = False) -> list[Array]: ...
@overload
def operands(caller: str, *xs: ArrayLike, to: DTypeRule = ...,
             strong: bool = False) -> list[HostOrArray]: ...


def operands(caller: str, *xs: Any, to: DTypeRule = lambda dtype: dtype, strong: bool = False) -> list[Any]:
    """Checked arguments of one dtype and rank, none of them a Python number; with `strong`, none weakly typed."""
    promoted = promote_shapes(caller, *promote(caller, *[operand(caller, x) for x in xs], to=to))
    return [cast(caller, x, x.dtype) for x in promoted] if strong else list(promoted)


def refuse_complex(caller: str, *xs: ArrayLike, exc: type[Exception] = TypeError) -> None:
    """Raise unless all values are real."""
    if any(dtypes.is_complex(aval_of(caller, x).dtype) for x in xs):
        raise bad(caller, "complex numbers are not accepted", fix="use the real parts: x.real.", exc=exc)


def refuse_out(caller: str, out: object) -> None:
    """Raise if an output array was passed: arrays never change."""
    if out is not None:
        raise bad(caller, "`out` is not supported: arrays never change", fix="use the value that the function returns.",
                  exc=NotImplementedError)


def choose(condition: ArrayLike, x: ArrayLike, y: ArrayLike, caller: str = "numpy.where") -> Array:
    """`x` where the condition is true, else `y`: `x` and `y` are promoted, and all three broadcast together.

    A 0-d condition is not repeated: it selects the whole array.
    """
    condition = operand(caller, condition)
    if not dtypes.is_bool(condition.dtype):
        condition = ne(condition, 0)
    x, y = promote(caller, x, y)
    shape = broadcast_shapes(condition.shape, shape_of(x), shape_of(y))
    if condition.shape:
        condition = expand_to(caller, condition, shape)
    return select_n(condition, expand_to(caller, y, shape), expand_to(caller, x, shape))


@one_launch(arrays=3)
def clip(arr: ArrayLike, /, min: ArrayLike | None = None, max: ArrayLike | None = None) -> Array:
    """`arr` limited to the interval from `min` to `max`, either of which may be None; `max` if it is below `min`.

    Args: arr, min, max: real arrays that broadcast together; the result has their common dtype.
    Raises: ValueError for complex arguments.
    """
    caller = "numpy.clip"
    refuse_complex(caller, *(x for x in (arr, min, max) if x is not None), exc=ValueError)
    if min is not None:
        arr = maximum(min, arr)
    if max is not None:
        arr = minimum(max, arr)
    return to_array_like(caller, arr)


@one_launch
def nan_to_num(x: ArrayLike, copy: bool = True, nan: ArrayLike = 0.0, posinf: ArrayLike | None = None,
               neginf: ArrayLike | None = None) -> Array:
    """`x` with nan replaced by `nan`, and infinities by default by the largest and the smallest finite number.

    Args: x: number[...]; integers are returned unchanged. copy: accepted as in NumPy; arrays never change.
    """
    caller = "numpy.nan_to_num"
    x = to_array_like(caller, x)
    if not dtypes.is_inexact(x.dtype):
        return x
    if dtypes.is_complex(x.dtype):
        parts = (nan_to_num(part(x), copy, nan, posinf, neginf) for part in (real, imag))
        return complex_(*parts)
    info, x = dtypes.finfo(x.dtype), cast(caller, x, x.dtype)

    def limit(value: ArrayLike | None, default: ArrayLike) -> ArrayLike:
        return cast(caller, float(default) if value is None else value, x.dtype)

    x = choose(ne(x, x), cast(caller, nan, x.dtype), x)
    x = choose(eq(x, float("inf")), limit(posinf, info.max), x)
    return choose(eq(x, float("-inf")), limit(neginf, info.min), x)
