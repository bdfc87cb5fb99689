"""Rounding, signs, and tests for nan and infinities; logical functions and closeness, element-wise."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

import numpy as np

from xjax.core import dtypes
from xjax.core.aliases import alias
from xjax.core.errors import bad
from xjax.core.primitive import Primitive
from xjax.numpy.promote import aval_of, default_float, expand_to, refuse_float0, to_inexact
from xjax.numpy.selection import HostOrArray, choose, operand, operands, refuse_complex, refuse_out
from xjax.numpy.ufuncs import greater, less, to_array_like
from xjax.ops import bitwise as bits
from xjax.ops import complex_numbers
from xjax.ops.compare import eq, le, lt, ne
from xjax.ops.convert import bitcast_convert_type, convert_element_type
from xjax.ops.elementwise import RoundingMethod, add, div, floor, is_finite, mul, neg, sub
from xjax.ops.elementwise import ceil as lax_ceil
from xjax.ops.elementwise import round as lax_round
from xjax.ops.makers import scalar_like
from xjax.ops.piecewise import abs as lax_abs
from xjax.runtime.one_launch import one_launch
from xjax.typing import Array, ArrayLike

# -- rounding -----------------------------------------------------------------------------------------------------

@one_launch
def round(a: ArrayLike, decimals: int = 0, out: None = None) -> Array:
    """`a` rounded to `decimals` places after the point, halves to even.

    Args: a: number[...]; integers are returned unchanged (decimals >= 0). out: not supported, as in JAX.
    """
    caller = "numpy.round"
    refuse_out(caller, out)
    a = to_array_like(caller, a)
    decimals = operator.index(decimals)
    if not dtypes.is_inexact(a.dtype):
        if decimals < 0:
            raise bad(caller, "integers are not rounded to tens or hundreds", given={"decimals": decimals},
                      fix="convert to a float first: round(x.astype(float), decimals).", exc=NotImplementedError)
        return a
    return _by_parts(lambda x: _round_real(x, decimals), a)


around = alias(round, "around")


def _round_real(x: Array, decimals: int) -> Array:
    if decimals == 0:
        return lax_round(x, RoundingMethod.TO_NEAREST_EVEN)
    narrow = dtypes.itemsize_bits(x.dtype) < 32                     # 10 ** decimals would overflow
    wide = convert_element_type(x, np.float32) if narrow else x
    factor = scalar_like(wide, 10.0 ** decimals)
    rounded = div(lax_round(mul(wide, factor), RoundingMethod.TO_NEAREST_EVEN), factor)
    return convert_element_type(rounded, x.dtype) if narrow else rounded


def _by_parts(f: Callable, x: ArrayLike) -> Array:
    """`f(x)` for floats; for complex numbers, `f` of the real and of the imaginary part."""
    if not dtypes.is_complex(x.dtype):
        return f(x)
    return complex_numbers.complex(f(complex_numbers.real(x)), f(complex_numbers.imag(x)))


@one_launch
def rint(x: ArrayLike, /) -> Array:
    """Nearest integer as a float, element-wise, halves to even."""
    x, = operands("numpy.rint", x, to=lambda dtype: dtype if dtypes.is_inexact(dtype) else default_float())
    return _by_parts(lambda part: lax_round(part, RoundingMethod.TO_NEAREST_EVEN), x)


@one_launch
def trunc(x: ArrayLike, /) -> Array:
    """x without its fractional part, element-wise, in the dtype of x."""
    x = to_array_like("numpy.trunc", x)
    if not dtypes.is_inexact(x.dtype):
        return x
    return choose(lt(x, 0), lax_ceil(x), floor(x))


fix = trunc


# -- signs --------------------------------------------------------------------------------------------------------

@one_launch
def fabs(x: ArrayLike, /) -> Array:
    """Absolute value, element-wise, as a float; complex numbers are refused."""
    caller = "numpy.fabs"
    x, = operands(caller, x, to=to_inexact)
    refuse_complex(caller, x)
    return lax_abs(x)


@one_launch
def signbit(x: ArrayLike, /) -> Array:
    """Whether the sign bit of x is set, element-wise: true for negative numbers and -0.0."""
    caller = "numpy.signbit"
    x = operand(caller, x)
    refuse_complex(caller, x, exc=ValueError)
    if dtypes.is_float(x.dtype):
        width = dtypes.itemsize_bits(x.dtype)
        return lt(bitcast_convert_type(x, np.dtype(f"int{width}")), 0)
    return filled_bool(x, False) if dtypes.is_bool(x.dtype) or dtypes.is_unsigned(x.dtype) else lt(x, 0)


def filled_bool(x: ArrayLike, value: bool) -> Array:
    """bool array of the shape of `x`, all of one value."""
    return expand_to("numpy.full", np.bool_(value), aval_of("numpy.full", x).shape)


@one_launch(arrays=2)
def copysign(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 with the sign of x2, element-wise, as a float."""
    caller = "numpy.copysign"
    x1, x2 = operands(caller, x1, x2, to=to_inexact)
    refuse_complex(caller, x1)
    return choose(signbit(x2), neg(lax_abs(x1)), lax_abs(x1))


# -- nan, inf -----------------------------------------------------------------------------------------------------

@one_launch
def isnan(x: ArrayLike, /) -> Array:
    """Whether x is nan, element-wise."""
    x = operand("numpy.isnan", x)
    if dtypes.is_inexact(x.dtype):
        return ne(x, x)
    refuse_float0("numpy.isnan", aval_of("numpy.isnan", x))
    return filled_bool(x, False)


@one_launch
def isfinite(x: ArrayLike, /) -> Array:
    """Whether x is neither nan nor infinite, element-wise."""
    x = operand("numpy.isfinite", x)
    if not dtypes.is_inexact(x.dtype):
        return filled_bool(x, True)
    return _on_parts(is_finite, bits.bitwise_and, x)


@one_launch
def isinf(x: ArrayLike, /) -> Array:
    """Whether x is infinite, element-wise."""
    x = operand("numpy.isinf", x)
    if not dtypes.is_inexact(x.dtype):
        return filled_bool(x, False)
    return _on_parts(lambda part: eq(lax_abs(part), math.inf), bits.bitwise_or, x)


def _on_parts(test: Callable, join: Callable, x: ArrayLike) -> Array:
    if not dtypes.is_complex(x.dtype):
        return test(x)
    return join(test(complex_numbers.real(x)), test(complex_numbers.imag(x)))


def _is_infinity(name: str, value: float) -> Callable[..., Array]:
    def is_infinity(x: ArrayLike, /, out: None = None) -> Array:
        caller = f"numpy.{name}"
        refuse_out(caller, out)
        x = operand(caller, x)
        refuse_complex(caller, x, exc=ValueError)
        return eq(x, value) if dtypes.is_float(x.dtype) else filled_bool(x, False)

    is_infinity.__name__ = is_infinity.__qualname__ = name
    is_infinity.__doc__ = f"Whether x is {value}, element-wise; for real x."
    return is_infinity


isposinf = _is_infinity("isposinf", math.inf)
isneginf = _is_infinity("isneginf", -math.inf)


@one_launch(arrays=2)
def fmax(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The larger of x1 and x2, element-wise; of a number and nan, the number."""
    x1, x2 = operands("numpy.fmax", x1, x2)
    return choose(bits.bitwise_or(greater(x1, x2), ne(x2, x2)), x1, x2)


@one_launch(arrays=2)
def fmin(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The smaller of x1 and x2, element-wise; of a number and nan, the number."""
    x1, x2 = operands("numpy.fmin", x1, x2)
    return choose(bits.bitwise_or(less(x1, x2), ne(x2, x2)), x1, x2)


# -- logic --------------------------------------------------------------------------------------------------------

def _logical(name: str, p: Primitive, doc: str) -> Callable[..., Array]:
    def logical(x: ArrayLike, y: ArrayLike, /) -> Array:
        x, y = operands(f"numpy.{name}", x, y)
        return p.bind(truth(x), truth(y))

    logical.__name__ = logical.__qualname__ = name
    logical.__doc__ = doc
    return logical


def truth(x: HostOrArray) -> HostOrArray:
    """``x != 0``; a bool array unchanged."""
    return x if dtypes.is_bool(x.dtype) else ne(x, 0)


logical_and = _logical("logical_and", bits.and_p, "``x and y``, element-wise; numbers are true where not 0.")
logical_or = _logical("logical_or", bits.or_p, "``x or y``, element-wise; numbers are true where not 0.")
logical_xor = _logical("logical_xor", bits.xor_p, "Whether exactly one of x and y is true, element-wise.")


@one_launch
def logical_not(x: ArrayLike, /) -> Array:
    """``not x``, element-wise; numbers are true where not 0."""
    return bits.bitwise_not(truth(operand("numpy.logical_not", x)))


# -- closeness ------------------------------------------------------------------------------------------------------

@one_launch(arrays=4)
def isclose(a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1e-05, atol: ArrayLike = 1e-08,
            equal_nan: bool = False) -> Array:
    """Whether ``|a - b| <= atol + rtol * |b|``, element-wise; infinities are close to themselves.

    Args: a, b: number[...] that broadcast together; equal_nan: whether nan is close to nan.
    """
    caller = "numpy.isclose"
    a, b = operands(caller, a, b)
    if not dtypes.is_inexact(a.dtype):
        if dtypes.is_bool(a.dtype) or isinstance(a.dtype, dtypes.ExtendedDType):
            return eq(a, b)
        a, b = operands(caller, a, b, to=to_inexact)
    part = dtypes.finfo(a.dtype).dtype
    rtol, atol = (convert_element_type(operand(caller, tolerance), part) for tolerance in (rtol, atol))
    near = le(lax_abs(sub(a, b)), add(atol, mul(rtol, lax_abs(b))))
    close = bits.bitwise_or(eq(a, b), bits.bitwise_and(isfinite(b), near))
    return bits.bitwise_or(close, bits.bitwise_and(isnan(a), isnan(b))) if equal_nan else close
