"""Element-wise functions of `xjax.numpy`: every number of a dtype, edges included, and broadcasting."""

from __future__ import annotations

import numpy as np

from tests.values.row import rows

# "wide" draws from all the numbers of a dtype.
FLOATS = ("f4[2,3]:wide", "f8[3]:wide", "bf[3]:wide", "f2[3]:wide")
REALS = ("f4[2,3]:wide", "f8[3]:wide", "bf[3]:wide", "f2[0,2]", "i4[3]:wide", "u1[2]:wide", "b1[]")
# NumPy's float of a narrow integer has half precision; xjax's and JAX's have 32 bits.
NARROW = ("b1[2]",)
NUMBERS = ("f4[2,3]:wide", "f8[3]:wide", "bf[3]:wide", "f2[3]:wide", "i4[3]", "c8[3]", "c16[2]")
COMPLEX = ("c8[3]", "c16[2]")
INTS = ("i4[3]:wide", "u1[4]:wide")
BITS = ("i4[2,3]:wide", "u1[4]:wide", "i8[2]:wide", "i1[]:wide", "b1[2]")
PAIRS = ("f4[2,3]:wide f4[3]:wide", "f8[3]:wide f8[]:wide", "bf[3]:edges f4[1]:edges", "f4[0,2] f4[2]")
INT_PAIRS = ("i4[3]:wide i4[2,1]:wide", "u1[4]:wide i1[4]:wide", "i8[2]:wide i4[2]:wide")
BIT_PAIRS = (*INT_PAIRS, "i1[2,1]:wide i1[3]:wide", "b1[2] b1[2,1]", "i4[0] i4[]")
MIXED = ("f4[3]:wide i4[2,1]:wide", "i4[3]:wide b1[]")
D = ("f8[2,3]",)
DD = ("f8[2,3]:positive f8[3]:positive",)
DC = ("f8[3]", "c16[3]")

ROWS = [
    # -- signs and parts
    *rows("numpy", "negative positive square sign absolute", *FLOATS, *INTS, grad=D),
    *rows("numpy", "negative square absolute reciprocal", "c8[3]", grad=("c16[3]:0.25..2",), id="complex"),
    # The direction of a complex number has the derivative 0 here, as in JAX: a convention, not the slope.
    *rows("numpy", "sign", "c8[3]", id="complex"),
    *rows("numpy", "square absolute positive", "b1[2]", oracle=None, id="bool"),        # NumPy's are int8, or raise
    *rows("numpy", "conjugate real imag", "f4[2,3]:wide", "i4[3]:wide", "b1[2]", *COMPLEX, grad=DC),
    # For a 0-d float JAX returns the default float; xjax keeps its dtype, as for arrays.
    *rows("numpy", "angle", "f4[2,3]:edges", "i4[3]", "c8[3]:edges", "c16[]", grad=("c16[3]:0.5..2",),
          call=lambda f, x: (f(x), f(x, deg=True))),
    *rows("numpy", "isreal iscomplex", *FLOATS[:3], "i4[3]", "b1[2]", "c8[3]:edges"),
    *rows("numpy", "fabs", *REALS, grad=D),
    *rows("numpy", "signbit", *FLOATS, *INTS),
    *rows("numpy", "copysign", *PAIRS, MIXED[0], grad=DD),
    # -- rounding
    *rows("numpy", "floor ceil rint trunc", *REALS, grad=D),
    *rows("numpy", "round", *FLOATS, "i4[3]", "c8[3]", grad=D, call=lambda f, x: (f(x), f(x, 1))),
    *rows("numpy", "round", "f4[3]:-512..512", "f8[2]:-999..999", id="tens",
          call=lambda f, x: (f(x, -1), f(x, decimals=-2))),
    *rows("numpy", "modf", *FLOATS, "i4[3]", grad=D, differs="an infinity has the fraction 0, in JAX nan"),
    *rows("numpy", "frexp", *FLOATS, "i4[3]"),
    # -- tests
    *rows("numpy", "isnan isfinite", *FLOATS[:4], "i4[3]:wide", "b1[2]", "c8[3]:edges"),
    *rows("numpy", "isinf", *FLOATS[:4], "i4[3]:wide", "b1[2]", "c8[3]:edges"),
    *rows("numpy", "isposinf isneginf", *FLOATS, "i4[3]:wide", "b1[2]"),
    *rows("numpy", "logical_not", *FLOATS, "i4[3]", "b1[2]", "c8[3]:edges"),
    *rows("numpy", "logical_and logical_or logical_xor", "f4[2,3]:edges i4[3]:small", "bf[3]:edges b1[]", "c8[2] u1[2]",
          "b1[0,2] b1[2]"),
    *rows("numpy", "equal not_equal", *PAIRS, *INT_PAIRS[::2], "c8[3]:edges c8[]:edges"),
    *rows("numpy", "less less_equal greater greater_equal", *PAIRS, *INT_PAIRS[::2], "b1[2] b1[2,1]"),
    # -- bits
    *rows("numpy", "bitwise_and bitwise_or bitwise_xor", *BIT_PAIRS),
    *rows("numpy", "bitwise_not", *BITS),
    *rows("numpy", "bitwise_count", *BITS[:4]),
    *rows("numpy", "left_shift right_shift", "i4[3]:wide i4[2,1]:0..31", "u1[4]:wide u1[4]:0..7",
          "i8[2]:wide i8[]:0..63"),
    *rows("numpy", "gcd lcm", "i4[3]:-999..999 i4[2,1]:-999..999", "u1[4]:0..15 u1[]:0..15", "i8[2] i4[2]"),
    # -- arithmetic
    *rows("numpy", "add subtract multiply", *PAIRS, INT_PAIRS[0], "c8[3] c8[3]", grad=DD),
    *rows("numpy", "divide", *PAIRS, "i4[3]:wide i4[2,1]:wide", "c8[3]:positive c8[3]:positive", grad=DD),
    # Derivatives away from whole quotients, where JAX's depend on XLA's division.
    *rows("numpy", "floor_divide remainder fmod divmod", *PAIRS, "i4[3]:wide i4[2,1]:1..9",
          "i8[2]:wide i8[]:-9..-1", "u1[4]:wide u1[4]:1..255", grad=("f8[2,3]:5..5.9375 f8[3]:2..2.4375",)),
    *rows("numpy", "maximum minimum fmax fmin", *PAIRS, INT_PAIRS[0], MIXED[0], grad=("f8[2,3] f8[3]",)),
    *rows("numpy", "reciprocal", *FLOATS, grad=("f8[3]:positive",)),
    *rows("numpy", "hypot", *PAIRS, MIXED[1]),
    *rows("numpy", "hypot", "f8[2,3] f8[3]", id="derivatives", grad=("f8[2,3] f8[3]",),
          differs="JAX has 1/2 as the derivatives at (0, 0), since 0.12 nan; here they are 0"),
    *rows("numpy", "heaviside", *PAIRS, MIXED[1], grad=("f8[2,3] f8[3]",)),
    *rows("numpy", "power", "f4[2,3]:wide f4[3]", "bf[3] bf[1]", "c8[3] c8[3]", grad=DD),
    # An integer exponent keeps its dtype, and the derivative at 0 exact.
    *rows("numpy", "power", "f4[3] i4[3]:positive", grad=("f8[3] i4[3]:positive",), id="integer-exponent"),
    # Powers out of range are computed modulo 2**n up to the exponent 63, as in JAX; NumPy does so for all exponents.
    *rows("numpy", "power", "i4[3] i4[2,1]:count", "u1[4]:wide u1[4]:0..63", id="integers"),
    *rows("numpy", "power", "f4[2,3]:wide", "i4[3]", grad=DC, id="static",
          call=lambda f, x: (f(x, 0), f(x, 1), f(x, 3))),
    *rows("numpy", "float_power", "f4[3]:positive f4[2,1]", "f8[3]:wide f8[]:wide", "i4[3]:positive i4[3]:small",
          grad=DD),
    *rows("numpy", "ldexp", "f4[2,3]:wide i4[3]", "f8[3]:wide i4[]:-999..999", "f2[2] i1[2]", "i4[3] i4[3]",
          grad=("f8[3] i4[3]",)),
    # -- exponentials and logarithms
    *rows("numpy", "exp expm1 exp2 log log2 log10 log1p sqrt cbrt sin cos tan sinh cosh tanh arcsin arccos arctan "
          "arcsinh deg2rad rad2deg sinc i0 reciprocal", *NARROW, oracle=None, id="narrow"),
    *rows("numpy", "exp expm1 exp2", *NUMBERS, grad=DC),
    *rows("numpy", "log log2 log10 log1p sqrt", *NUMBERS, grad=("f8[2,3]:positive", "c16[3]:0.5..2")),
    *rows("numpy", "cbrt", *FLOATS, "i4[3]", grad=("f8[2,3]:positive",)),
    *rows("numpy", "logaddexp logaddexp2", *PAIRS, "i4[3] i4[2,1]", grad=("f8[2,3] f8[3]",)),
    # -- trigonometry
    *rows("numpy", "sin cos tan sinh cosh tanh", *NUMBERS, grad=("f8[2,3]:small", "c16[3]:small")),
    *rows("numpy", "arcsin arccos arctanh", "f4[2,3]:signed", "f4[3]:wide", "f8[3]:edges", "bf[3]:signed",
          *COMPLEX, grad=("f8[2,3]:signed", "c16[3]:0.25..2")),
    *rows("numpy", "arctan arcsinh", *NUMBERS, grad=("f8[2,3]", "c16[3]:0.25..0.75")),
    *rows("numpy", "arccosh", *NUMBERS, grad=("f8[2,3]:1.5..8", "c16[3]:0.25..2")),
    *rows("numpy", "arctan2", *PAIRS, MIXED[1], grad=DD),
    *rows("numpy", "deg2rad rad2deg", *FLOATS, "i4[3]", grad=D),
    *rows("numpy", "sinc", "f4[2,3]", "bf[3]", "f2[3]", "i4[3]", *COMPLEX, grad=D),
    *rows("numpy", "sinc", "f4[3]:wide", id="wide", oracle=lambda x: np.sinc(np.where(np.isinf(x), 1, x)),
          differs="JAX and NumPy have nan at infinity, and JAX where pi x overflows; here its limit, 0"),
    *rows("numpy", "i0", "f4[2,3]", "f8[3]:-99..99", "bf[3]", "i4[3]", grad=D),
    # -- neighbours in a dtype: in double precision NumPy's belongs to another dtype
    *rows("numpy", "nextafter", "f8[3]:wide f8[2,1]:wide"),
    *rows("numpy", "nextafter", "f4[3]:wide f4[2,1]:wide", "bf[3]:wide bf[]:wide", "f2[3]:wide f2[3]:wide", oracle=None,
          id="single"),
    *rows("numpy", "spacing", "f8[3]:wide"),
    # For negative halves NumPy and JAX return the distance upwards, xjax that away from 0, as for every other dtype.
    *rows("numpy", "spacing", "f4[3]:wide", "bf[3]:0..999", "f2[3]:0..999", oracle=None, id="single"),
    # -- choices
    *rows("numpy", "clip", "f4[2,3]:wide f4[3]:small f4[]:positive", "f8[3]:edges f8[3] f8[3]", "i4[3]:wide i4[] i4[]",
          "bf[3] bf[] f4[]", grad=("f8[2,3] f8[3]:-2..0 f8[3]:0..2",),
          call=lambda f, x, low, high: (f(x, low, high), f(x, low, None), f(x, None, high))),
    # The largest number of the dtype replaces inf.
    *rows("numpy", "nan_to_num", "f8[3]:wide", "i4[3]", "c16[3]:edges", grad=D,
          call=lambda f, x: (f(x), f(x, nan=1.5, posinf=7.0, neginf=-7.0))),
    *rows("numpy", "nan_to_num", *FLOATS, "c8[3]:edges", oracle=None, id="single",
          call=lambda f, x: (f(x), f(x, nan=1.5, posinf=7.0, neginf=-7.0))),
    *rows("numpy", "where", "b1[3] f4[2,3]:wide f4[]", "i4[3] i4[3]:wide f8[2,1]:wide", "f4[2] c8[2] f4[2]",
          "b1[] bf[3]:wide i4[3]", "b1[0] f4[0] f4[0]", grad=("b1[3] f8[2,3] f8[3]",)),
    *rows("numpy", "select", "b1[3] b1[3] f4[3] f4[3]", "b1[2,1] b1[2,3] i4[3] i4[2,3]", "b1[2] b1[] c8[2] f8[2]",
          grad=("b1[3] b1[3] f8[3] f8[3]",),
          call=lambda f, a, b, x, y: (f([a, b], [x, y]), f([a, b], [x, y], 7), f([a], [x]))),
    *rows("numpy", "choose", "i4[2,3]:-9..9 f4[3] f4[2,1]", "u1[3] i4[3] i4[]", grad=("i4[3] f8[3] f8[3]",),
          call=lambda f, i, x, y: (f(i, [x, y], mode="wrap"), f(i, [x, y], mode="clip"))),
    *rows("numpy", "piecewise", "f4[2,3]:wide", "i4[3]", "f8[]:edges", grad=D,
          call=lambda f, x: (f(x, [x < 0, x > 1], [lambda v: -v, lambda v: v * v, 3]),
                             f(x, [x < 0], [2, lambda v: v + 1]))),
    *rows("numpy", "isclose", "f4[2,3]:edges f4[3]:edges", "f8[3]:wide f8[3]:wide", "i4[3] i4[2,1]",
          "c8[3]:edges c8[3]:edges", "bf[3]:edges f4[]:edges",
          call=lambda f, x, y: (f(x, y), f(x, y, rtol=0.5, atol=0.25), f(x, y, equal_nan=True), f(x, x), f(x, x + 1))),
    # -- methods of ufuncs
    *rows("numpy", "add multiply maximum minimum", "f4[3,4]", grad=("f8[3,4]:positive",), id="methods",
          call=lambda f, x: (f.reduce(x), f.reduce(x, axis=1, keepdims=True), f.accumulate(x, axis=1), f.outer(x[0], x),
                             f.reduceat(x, np.array([0, 1, 0]), axis=1))),
    *rows("numpy", "logical_and logical_or logical_xor", "b1[3,4]", "i4[2,3]:small", id="methods",
          call=lambda f, x: (f.reduce(x), f.reduce(x, axis=1, keepdims=True), f.outer(x[0], x))),
    *rows("numpy", "bitwise_and bitwise_or bitwise_xor subtract", "i4[3,4]:wide", "u1[2,3]:wide", id="methods",
          call=lambda f, x: (f.reduce(x), f.reduce(x, axis=1, keepdims=True), f.accumulate(x, axis=1),
                             f.outer(x[0], x))),
    *rows("numpy", "logaddexp logaddexp2", "f4[3,4]", "f8[2,3]:edges", id="methods",
          call=lambda f, x: (f.reduce(x), f.reduce(x, axis=1), f.accumulate(x, axis=1), f.outer(x[0], x))),
    # NumPy's works in place.
    *rows("numpy", "add maximum", "f4[3,4] f4[2]", grad=("f8[3,4] f8[2]",), id="at", oracle=None,
          call=lambda f, x, y: f.at(x, (np.array([1, 1]), np.array([2, 2])), y, inplace=False)),
]
