"""Element-wise functions that are one operation: tables of names, operations and promotion rules.

Functions made of several operations are in `xjax.numpy.composed`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeAlias, TypeVar

import numpy as np

from xjax.core import dtypes
from xjax.core.aliases import alias
from xjax.core.config import config
from xjax.core.primitive import Primitive
from xjax.numpy.promote import array_like, aval_of, expand_to, promote, promote_shapes, to_inexact, to_numeric
from xjax.ops import bitwise as bits
from xjax.ops import compare, elementwise, piecewise, transcendental
from xjax.ops.complex_numbers import imag_p, real_p
from xjax.runtime.arrays.array import Array
from xjax.runtime.arrays.moves import to_array
from xjax.runtime.dispatch import launched
from xjax.typing import Array as AnyArray
from xjax.typing import ArrayLike

Args = ParamSpec("Args")
Result = TypeVar("Result")
Unary: TypeAlias = Callable[[ArrayLike], AnyArray]
Binary: TypeAlias = Callable[[ArrayLike, ArrayLike], AnyArray]
DTypeRule: TypeAlias = Callable[[np.dtype], np.dtype]

# Dtypes that need no promotion; the narrow types of ml_dtypes take the general path.
_BITS = frozenset({dtypes.bool_, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64,
                   dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64})
_INTS = _BITS - {dtypes.bool_}
_INEXACT = frozenset({dtypes.bfloat16, dtypes.float16, dtypes.float32, dtypes.float64, dtypes.complex64,
                      dtypes.complex128})
_NUMBERS = _INTS | _INEXACT
_ANY = _NUMBERS | _BITS

# (dtype of the array, type of the Python number) -> the Python type of the number as a literal of this dtype.
# Only if a number of that type alone has the dtype too: with x64 a Python float is a float64.
_LITERAL = {(dtypes.float32, float): float, (dtypes.float32, int): float, (dtypes.int32, int): int}
_LITERAL_X64 = {(dtypes.float64, float): float, (dtypes.float64, int): float, (dtypes.int64, int): int}
_SMALL = 2**24


def _same(dtype: np.dtype) -> np.dtype:
    return dtype


def to_array_like(caller: str, x: object) -> AnyArray:
    """`x` as an array or a tracer, for functions that return their argument."""
    x = array_like(caller, x)
    return x if isinstance(x, AnyArray) else to_array(x)                 # pyright: ignore[reportReturnType]


def _named(f: Callable[Args, Result], name: str, doc: str) -> Callable[Args, Result]:
    f.__name__ = f.__qualname__ = name
    f.__doc__ = doc
    f.__module__ = "xjax.numpy"
    return f


# -- makers -------------------------------------------------------------------------------------------------------

def binary(name: str, p: Primitive, doc: str, *, to: DTypeRule = _same, direct: frozenset = _NUMBERS,
           of_bool: Primitive | None = None) -> Binary:
    """A function of two arguments that is the operation `p` after promotion.

    Args:
      to: gives the dtype of the computation for the promoted dtype of the arguments.
      direct: dtypes that `p` accepts; two arrays of one such type need no further checks.
      of_bool: the operation for bool arguments.
    """
    caller = f"numpy.{name}"

    def ufunc(x: ArrayLike, y: ArrayLike, /) -> AnyArray:
        if type(x) is Array:
            aval = x.aval
            if type(y) is Array:
                if aval is y.aval and aval.dtype in direct:
                    return p.bind(x, y)
            elif not aval.weak_type and aval.dtype in direct:
                literal = (_LITERAL_X64 if config.enable_x64 else _LITERAL).get((aval.dtype, type(y)))
                if literal is not None and -_SMALL < y < _SMALL:
                    return p.bind(x, literal(y))
        x, y = promote_shapes(caller, *promote(caller, x, y, to=to))
        if of_bool is not None and _is_bool(x, y):
            return of_bool.bind(x, y)
        return p.bind(x, y)

    return _named(ufunc, name, doc)


def _is_bool(x: ArrayLike, y: ArrayLike) -> bool:
    x = x if hasattr(x, "dtype") else y                  # at most one is a Python number
    return dtypes.is_bool(x.dtype) if hasattr(x, "dtype") else type(x) is bool


def unary(name: str, p: Primitive, doc: str, *, to: DTypeRule = _same, direct: frozenset = _NUMBERS,
          keep: Callable[[np.dtype], bool] | None = None) -> Unary:
    """A function of one argument that is the operation `p` after promotion.

    `keep(dtype)`: whether values of a dtype are returned unchanged (floor of an integer).
    """
    caller = f"numpy.{name}"

    def ufunc(x: ArrayLike, /) -> AnyArray:
        aval = aval_of(caller, x)
        if type(x) is Array and aval.dtype in direct:
            return p.bind(x)
        if keep is not None and keep(aval.dtype):
            return to_array_like(caller, x)
        x, = promote(caller, x, to=to)
        return p.bind(x)

    return _named(launched(p, ufunc), name, doc)


# -- one argument -------------------------------------------------------------------------------------------------

def _inexact(name: str, p: Primitive, doc: str) -> Unary:
    return unary(name, p, f"{doc} Integers become floats.", to=to_inexact, direct=_INEXACT)


def _exact(dtype: np.dtype) -> bool:
    return not dtypes.is_inexact(dtype)


def _has_no_sign(dtype: np.dtype) -> bool:
    return dtypes.is_bool(dtype) or dtypes.is_unsigned(dtype)


exp = _inexact("exp", transcendental.exp_p, "e to the power x, element-wise.")
exp2 = _inexact("exp2", transcendental.exp2_p, "2 to the power x, element-wise.")
expm1 = _inexact("expm1", transcendental.expm1_p, "``exp(x) - 1``, element-wise, exact for small x.")
log = _inexact("log", transcendental.log_p, "Natural logarithm, element-wise: -inf at 0, nan below.")
log2 = _inexact("log2", transcendental.log2_p, "Logarithm to base 2, element-wise: -inf at 0, nan below.")
log1p = _inexact("log1p", transcendental.log1p_p, "``log(1 + x)``, element-wise, exact for small x.")
sin = _inexact("sin", transcendental.sin_p, "Sine, element-wise.")
cos = _inexact("cos", transcendental.cos_p, "Cosine, element-wise.")
tan = _inexact("tan", transcendental.tan_p, "Tangent, element-wise.")
arcsin = _inexact("arcsin", transcendental.asin_p, "Inverse sine, element-wise; nan outside [-1, 1].")
arccos = _inexact("arccos", transcendental.acos_p, "Inverse cosine, element-wise; nan outside [-1, 1].")
arctan = _inexact("arctan", transcendental.atan_p, "Inverse tangent, element-wise, in (-pi/2, pi/2).")
sinh = _inexact("sinh", transcendental.sinh_p, "Hyperbolic sine, element-wise.")
cosh = _inexact("cosh", transcendental.cosh_p, "Hyperbolic cosine, element-wise.")
tanh = _inexact("tanh", transcendental.tanh_p, "Hyperbolic tangent, element-wise.")
arcsinh = _inexact("arcsinh", transcendental.asinh_p, "Inverse hyperbolic sine, element-wise.")
arccosh = _inexact("arccosh", transcendental.acosh_p, "Inverse hyperbolic cosine, element-wise; nan below 1.")
arctanh = _inexact("arctanh", transcendental.atanh_p, "Inverse hyperbolic tangent, element-wise; nan outside [-1, 1].")
sqrt = _inexact("sqrt", transcendental.sqrt_p, "Square root, element-wise; nan below 0. The derivative at 0 is inf.")
cbrt = _inexact("cbrt", transcendental.cbrt_p, "Real cube root, element-wise.")

negative = unary("negative", elementwise.neg_p, "``-x``, element-wise; bool is refused.")
sign = unary("sign", piecewise.sign_p, "-1, 0 or 1 by the sign of x, element-wise; nan stays nan.")
square = unary("square", elementwise.square_p, "``x * x``, element-wise.", to=to_numeric)
floor = unary("floor", elementwise.floor_p, "Largest integer not above x, element-wise, in the dtype of x.",
              direct=_INEXACT, keep=_exact)
ceil = unary("ceil", elementwise.ceil_p, "Smallest integer not below x, element-wise, in the dtype of x.",
             direct=_INEXACT, keep=_exact)
absolute = unary("absolute", piecewise.abs_p, "Absolute value, element-wise; of complex numbers the modulus.",
                 direct=_INEXACT, keep=_has_no_sign)
bitwise_not = unary("bitwise_not", bits.not_p, "Complement, bit by bit: ``~x``; of bool logical not.", direct=_BITS)
abs = alias(absolute, "abs")
invert, bitwise_invert = alias(bitwise_not, "invert"), alias(bitwise_not, "bitwise_invert")
acos, asin, atan = alias(arccos, "acos"), alias(arcsin, "asin"), alias(arctan, "atan")
acosh, asinh, atanh = alias(arccosh, "acosh"), alias(arcsinh, "asinh"), alias(arctanh, "atanh")


# -- two arguments ------------------------------------------------------------------------------------------------

add = binary("add", elementwise.add_p, "``x + y``, element-wise; of bool logical or.", of_bool=bits.or_p)
subtract = binary("subtract", elementwise.sub_p, "``x - y``, element-wise; bool is refused.")
multiply = binary("multiply", elementwise.mul_p, "``x * y``, element-wise; of bool logical and.", of_bool=bits.and_p)
true_divide = binary("true_divide", elementwise.div_p, "``x / y``, element-wise, as a float or complex number.",
                     to=to_inexact, direct=_INEXACT)
divide = alias(true_divide, "divide")
arctan2 = binary("arctan2", transcendental.atan2_p, "Angle of the point (y, x), element-wise, in (-pi, pi].",
                 to=to_inexact, direct=_INEXACT)
atan2 = alias(arctan2, "atan2")
nextafter = binary("nextafter", elementwise.nextafter_p, "The float next to x in the direction of y, element-wise.",
                   to=to_inexact, direct=_INEXACT)
maximum = binary("maximum", piecewise.max_p, "The larger of x and y, element-wise; nan if either is. "
                 "Ties share the gradient equally.", direct=_ANY)
minimum = binary("minimum", piecewise.min_p, "The smaller of x and y, element-wise; nan if either is. "
                 "Ties share the gradient equally.", direct=_ANY)

equal = binary("equal", compare.eq_p, "``x == y``, element-wise.", direct=_ANY)
not_equal = binary("not_equal", compare.ne_p, "``x != y``, element-wise.", direct=_ANY)
bitwise_and = binary("bitwise_and", bits.and_p, "And, bit by bit: ``x & y``.", direct=_BITS)
bitwise_or = binary("bitwise_or", bits.or_p, "Or, bit by bit: ``x | y``.", direct=_BITS)
bitwise_xor = binary("bitwise_xor", bits.xor_p, "Exclusive or, bit by bit: ``x ^ y``.", direct=_BITS)
left_shift = binary("left_shift", bits.shift_left_p, "``x << y``, element-wise, for integers.", to=to_numeric,
                    direct=_INTS)
bitwise_left_shift = alias(left_shift, "bitwise_left_shift")


def right_shift(x1: ArrayLike, x2: ArrayLike, /) -> AnyArray:
    """``x1 >> x2``, element-wise, for integers: signed ones keep their sign."""
    caller = "numpy.right_shift"
    x1, x2 = promote_shapes(caller, *promote(caller, x1, x2, to=to_numeric))
    unsigned = dtypes.is_unsigned(aval_of(caller, x1).dtype)
    return (bits.shift_right_logical_p if unsigned else bits.shift_right_arithmetic_p).bind(x1, x2)


bitwise_right_shift = alias(right_shift, "bitwise_right_shift")


# -- order --------------------------------------------------------------------------------------------------------

_REAL = _ANY - {dtypes.complex64, dtypes.complex128}


def _ordering(name: str, p: Primitive, doc: str) -> Binary:
    """A comparison; complex numbers are ordered by real part, equal ones by imaginary part."""
    of_reals = binary(name, p, doc, direct=_REAL)

    def ordered(x: ArrayLike, y: ArrayLike, /) -> AnyArray:
        if not (_is_complex_value(x) or _is_complex_value(y)):
            return of_reals(x, y)
        caller = f"numpy.{name}"
        x, y = promote_shapes(caller, *promote(caller, x, y))
        (x_re, x_im), (y_re, y_im) = ((real_p.bind(v), imag_p.bind(v)) for v in (x, y))
        by_real = p.bind(x_re, y_re)
        by_imag, tied = (expand_to(caller, v, by_real.shape) for v in (p.bind(x_im, y_im), compare.eq(x_re, y_re)))
        return compare.select(tied, by_imag, by_real)

    return _named(ordered, name, doc)


def _is_complex_value(x: ArrayLike) -> bool:
    return type(x) is complex or dtypes.is_complex(getattr(x, "dtype", None))


less = _ordering("less", compare.lt_p, "``x < y``, element-wise.")
less_equal = _ordering("less_equal", compare.le_p, "``x <= y``, element-wise.")
greater = _ordering("greater", compare.gt_p, "``x > y``, element-wise.")
greater_equal = _ordering("greater_equal", compare.ge_p, "``x >= y``, element-wise.")
