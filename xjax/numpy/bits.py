"""Bits of integers and floats: gcd and lcm, packed bits, and the parts of a floating-point number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.types import number_of, typeof
from xjax.lax.while_loop import while_loop
from xjax.numpy.composed import ldexp, remainder
from xjax.numpy.manipulate import moveaxis, ravel, reshape
from xjax.numpy.promote import broadcast, to_inexact, to_numeric
from xjax.numpy.reductions import any as any_true
from xjax.numpy.rounding import truth
from xjax.numpy.selection import choose, operands, refuse_complex
from xjax.numpy.ufuncs import to_array_like
from xjax.ops.arrange import broadcasted_iota
from xjax.ops.bitwise import bitwise_and, bitwise_or, clz, shift_left, shift_right_logical
from xjax.ops.checks import canonical_axis, static_int
from xjax.ops.compare import eq, gt, ne, select
from xjax.ops.convert import bitcast_convert_type, convert_element_type
from xjax.ops.elementwise import add, div, is_finite, mul, neg, sub
from xjax.ops.makers import scalar_like
from xjax.ops.piecewise import abs as lax_abs
from xjax.ops.piecewise import max as lax_max
from xjax.ops.piecewise import min as lax_min
from xjax.ops.shape import expand_dims, reduce_sum
from xjax.ops.slice import pad, slice_in_dim
from xjax.runtime.one_launch import one_launch
from xjax.transforms.custom_jvp import custom_jvp
from xjax.typing import Array, ArrayLike

# -- divisors -----------------------------------------------------------------------------------------------------

def _integers(caller: str, x1: ArrayLike, x2: ArrayLike) -> tuple[Any, Any, Callable[[Array], Array]]:
    """The absolute values of x1 and x2, broadcast together, and a function that gives a result their own type."""
    x1, x2 = operands(caller, x1, x2, to=to_numeric)
    if not dtypes.is_int(x1.dtype):
        raise bad(caller, "takes integers", given={"promoted dtype": x1.dtype.name},
                  fix="convert with x.astype(int).", exc=ValueError)
    size1, size2 = broadcast(caller, _size(x1), _size(x2))
    dtype, weak_type = x1.dtype, typeof(x1).weak_type and typeof(x2).weak_type
    return size1, size2, lambda result: convert_element_type(result, dtype, weak_type)


def _size(x: ArrayLike) -> ArrayLike:
    """The absolute value as an unsigned integer, which also holds that of the most negative integer."""
    if dtypes.is_unsigned(x.dtype):
        return x
    return convert_element_type(lax_abs(x), np.dtype(f"uint{dtypes.itemsize_bits(x.dtype)}"))


@one_launch(arrays=2)
def gcd(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Greatest common divisor, element-wise, by Euclid's algorithm; the divisor of 0 and n is n.

    Args: x1, x2: int[...], of any sign, that broadcast together.
    Returns: int[...], not negative; except that the most negative integer is its own absolute value, as in NumPy.
    Raises: ValueError for other dtypes.

    >>> gcd(np.array([12, -9, 0]), 6)
    Array([6, 3, 6], dtype=int32)
    """
    x1, x2, typed = _integers("numpy.gcd", x1, x2)
    return typed(_gcd(x1, x2))


def _gcd(x1: Array, x2: Array) -> Array:
    """`gcd` of unsigned integers."""
    zero = scalar_like(x1, 0)

    def step(pair: tuple[Any, Any]) -> tuple[Any, Any]:
        x, y = pair
        done = eq(y, zero)
        return choose(done, x, y), choose(done, zero, remainder(x, choose(done, scalar_like(y, 1), y)))

    return while_loop(lambda pair: any_true(ne(pair[1], zero)), step, (x1, x2))[0]


@one_launch(arrays=2)
def lcm(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Least common multiple, element-wise; 0 where either is 0. A result too large for the dtype wraps around.

    Args: x1, x2: int[...], of any sign, that broadcast together.
    """
    x1, x2, typed = _integers("numpy.lcm", x1, x2)
    divisor = _gcd(x1, x2)
    divisor = choose(eq(divisor, scalar_like(divisor, 0)), scalar_like(divisor, 1), divisor)
    return typed(mul(x1, div(x2, divisor)))


# -- packed bits --------------------------------------------------------------------------------------------------

_BYTE = 8


def _weights(caller: str, shape: tuple[int, ...], bitorder: str) -> Array:
    """uint8[..., 8]: the shift of each bit of a byte."""
    if bitorder not in ("big", "little"):
        raise bad(caller, f"`bitorder` is {bitorder!r}", fix="pass 'big' or 'little'.", exc=ValueError)
    shift = broadcasted_iota(np.uint8, (*shape, _BYTE), len(shape))
    return sub(np.uint8(_BYTE - 1), shift) if bitorder == "big" else shift


@one_launch
def packbits(a: ArrayLike, axis: int | None = None, bitorder: str = "big") -> Array:
    """Pack eight elements along an axis (None: flattened) into the bits of one uint8: 1 for each nonzero element.

    Args: a: int or bool[..., n, ...]; bitorder: whether the first element is the highest bit ("big") or the lowest.
    Returns: uint8[..., ceil(n / 8), ...]; missing elements count as 0.

    >>> packbits(np.array([1, 0, 1]))
    Array([160], dtype=uint8)
    """
    caller = "numpy.packbits"
    a = to_array_like(caller, a)
    if not (dtypes.is_int(a.dtype) or dtypes.is_bool(a.dtype)):
        raise bad(caller, "takes integers or bool", given={"a": a.aval}, fix="compare first: packbits(a != 0).")
    a, axis = (ravel(a), 0) if axis is None or not a.ndim else (a, canonical_axis(axis, a.ndim, caller))
    elements = convert_element_type(moveaxis(truth(a), axis, -1), np.uint8)
    missing = -elements.shape[-1] % _BYTE
    elements = pad(elements, np.uint8(0), [(0, missing if d == a.ndim - 1 else 0, 0) for d in range(a.ndim)])
    elements = reshape(elements, (*elements.shape[:-1], elements.shape[-1] // _BYTE, _BYTE))
    packed = reduce_sum(shift_left(elements, _weights(caller, elements.shape[:-1], bitorder)), (a.ndim,))
    return moveaxis(packed, -1, axis)


@one_launch
def unpackbits(a: ArrayLike, axis: int | None = None, count: int | None = None, bitorder: str = "big") -> Array:
    """The bits of bytes, as uint8 numbers 0 and 1: the inverse of `packbits`.

    Args: a: uint8[..., n, ...]; count: number of bits to return along the axis: zeros are appended beyond the last bit,
      and a negative number drops bits at the end.
    """
    caller = "numpy.unpackbits"
    a = to_array_like(caller, a)
    if a.dtype != np.uint8:
        raise bad(caller, "takes bytes", given={"a": a.aval}, fix="convert with a.astype(uint8).")
    a, axis = (ravel(a), 0) if axis is None or not a.ndim else (a, canonical_axis(axis, a.ndim, caller))
    elements = expand_dims(moveaxis(a, axis, -1), (a.ndim,))
    shift = _weights(caller, elements.shape[:-1], bitorder)
    bits = bitwise_and(shift_right_logical(_repeated(elements, shift.shape), shift), np.uint8(1))
    bits = reshape(bits, (*elements.shape[:-2], elements.shape[-2] * _BYTE))
    size = bits.shape[-1]
    count = size if count is None else static_int(count, "count", caller)
    stop = min(count, size) if count >= 0 else max(0, size + count)
    bits = slice_in_dim(bits, 0, stop, axis=a.ndim - 1)
    bits = pad(bits, np.uint8(0), [(0, max(0, count - size) if d == a.ndim - 1 else 0, 0) for d in range(a.ndim)])
    return moveaxis(bits, -1, axis)


def _repeated(x: Array, shape: tuple[int, ...]) -> Array:
    return broadcast("numpy.unpackbits", x, np.zeros(shape, np.uint8))[0]


# -- parts of floating-point numbers ------------------------------------------------------------------------------

class _Format:
    """Bits of a float dtype: the unsigned dtype of its size, and the masks of sign, exponent and fraction."""

    def __init__(self, dtype: np.dtype):
        info = dtypes.finfo(dtype)
        self.uint = np.dtype(f"uint{info.bits}")
        self.fraction_bits = info.nmant
        self.exponent_mask = number_of(self.uint, (1 << info.bits - info.nmant - 1) - 1)
        self.fraction_mask = number_of(self.uint, (1 << info.nmant) - 1)
        self.sign_mask = number_of(self.uint, 1 << info.bits - 1)
        self.magnitude_mask = number_of(self.uint, (1 << info.bits - 1) - 1)
        self.bias = int(self.exponent_mask) // 2

    def number(self, value: int) -> np.generic:
        return number_of(self.uint, value)


def _parts(x: ArrayLike) -> tuple[_Format, Any, Any]:
    """(format, bits, exponent field) of a float array."""
    form = _Format(x.dtype)
    bits = bitcast_convert_type(x, form.uint)
    return form, bits, bitwise_and(shift_right_logical(bits, form.number(form.fraction_bits)), form.exponent_mask)


@one_launch
def frexp(x: ArrayLike, /) -> tuple[Any, Any]:
    """(m, e) with ``x = m * 2**e`` and ``0.5 <= |m| < 1``, element-wise; exact for subnormal numbers too.

    Args: x: real[...]; integers become floats.
    Returns: m: float[...], e: int32[...]; for 0, nan and infinities m is x, and e is 0. The derivative of m is 2**-e.

    >>> frexp(np.float32(-3.5))
    (Array(-0.875, dtype=float32), Array(2, dtype=int32))
    """
    caller = "numpy.frexp"
    refuse_complex(caller, x)
    x, = operands(caller, x, to=to_inexact, strong=True)
    form, bits, exponent = _parts(x)
    fraction = bitwise_and(bits, form.fraction_mask)
    # A subnormal number has no implicit leading bit: its fraction is shifted until that bit is set.
    is_subnormal = eq(exponent, form.number(0))
    width = form.uint.itemsize * 8
    shift = sub(clz(lax_max(fraction, form.number(1))), form.number(width - 1 - form.fraction_bits))
    fraction = select(is_subnormal, bitwise_and(shift_left(fraction, shift), form.fraction_mask), fraction)
    field = sub(convert_element_type(exponent, np.int32), np.int32(form.bias - 1))
    small = sub(np.int32(2 - form.bias), convert_element_type(shift, np.int32))
    half = form.number((form.bias - 1) << form.fraction_bits)
    sign = bitwise_and(bits, form.sign_mask)
    mantissa = bitcast_convert_type(bitwise_or(bitwise_or(sign, half), fraction), x.dtype)
    magnitude = bitwise_and(bits, form.magnitude_mask)
    plain = bitwise_and(is_finite(x), ne(magnitude, form.number(0)))
    exponent = choose(plain, select(is_subnormal, small, field), np.int32(0))
    return _mantissa(x, choose(plain, mantissa, x), exponent), exponent


@custom_jvp
def _mantissa(x: ArrayLike, mantissa: Array, exponent: Array) -> Array:
    """`mantissa`, computed from bits, with the derivative of ``x * 2**-exponent``."""
    return mantissa


@_mantissa.defjvp
def _mantissa_jvp(primals: tuple[Any, Any, Any], tangents: tuple[Any, Any, Any]) -> tuple[Any, Any]:
    return _mantissa(*primals), ldexp(tangents[0], neg(primals[2]))


@one_launch
def spacing(x: ArrayLike, /) -> Array:
    """Distance from x to the next number of its dtype away from 0, with the sign of x, element-wise.

    Args: x: real[...]; integers become floats. The result is nan for infinities and nan, and infinite for the largest
      finite numbers, whose next number is infinite.
    """
    caller = "numpy.spacing"
    refuse_complex(caller, x, exc=ValueError)
    x, = operands(caller, x, to=to_inexact, strong=True)
    form, bits, exponent = _parts(x)
    width = form.number(form.fraction_bits)
    # 2**(exponent - fraction_bits), which is subnormal if that exponent is below 1.
    normal = shift_left(sub(exponent, lax_min(exponent, width)), width)
    subnormal = shift_left(form.number(1), sub(lax_min(lax_max(exponent, form.number(1)), width), form.number(1)))
    size = select(gt(exponent, width), normal, _repeated_like(subnormal, normal))
    following = add(bitwise_and(bits, form.magnitude_mask), form.number(1))
    size = select(is_finite(bitcast_convert_type(following, x.dtype)), size, following)
    out = bitcast_convert_type(bitwise_or(size, bitwise_and(bits, form.sign_mask)), x.dtype)
    return choose(is_finite(x), out, scalar_like(x, np.nan))


def _repeated_like(x: Array, like: Array) -> Array:
    return broadcast("numpy.spacing", x, like)[0]


__all__ = ["frexp", "gcd", "lcm", "packbits", "spacing", "unpackbits"]
