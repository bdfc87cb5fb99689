"""Element-wise functions of `xjax.lax`: arrays of one dtype and shape, every number of a dtype, edges included."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from scipy import special

from tests.oracle import holds
from tests.values.row import FunctionRow, rows, since

# "wide" draws from all the numbers of a dtype.
FLOATS = ("f4[2,3]:wide", "f8[3]:wide", "bf[3]:wide", "f2[3]:wide")
COMPLEX = ("c8[3]",)
INTS = ("i4[3]:wide", "u1[4]:wide", "i8[2]:wide")
PAIRS = ("f4[2,3]:wide f4[2,3]:wide", "f8[3]:wide f8[3]:wide", "bf[3]:edges bf[3]:edges", "f2[2]:wide f2[]:wide")
INT_PAIRS = ("i4[3]:wide i4[3]:wide", "u1[4]:wide u1[4]:wide")
BITS = (*INT_PAIRS, "i8[2]:wide i8[2]:wide", "b1[4] b1[4]")
D, DP = ("f8[2,3]",), ("f8[2,3]:positive",)
DD, DDP = ("f8[3] f8[3]",), ("f8[3]:positive f8[3]:positive",)


def table(names, *signatures, **options):
    """Rows from words "name" or "name=NumPy's name"."""
    for word in names.split():
        name, _, theirs = word.partition("=")
        yield FunctionRow(f"lax.{name}", signatures, oracle=getattr(np, theirs or name, None), **options)


def _polynomial(x, coeffs, unroll=None):
    total = np.zeros_like(x)
    for c in coeffs[::-1]:
        total = total * x + np.asarray(c, x.dtype)
    return total


def _polynomials(f, x):
    return (f(x, [1, 2, 3]), f(x, [x, 1, x]), f(x, [2.0]), f(x, []), f(x, [1] * 12), f(x, [1] * 12, unroll=3))


UNARY = [
    *table("neg=negative square", *FLOATS, *INTS, *COMPLEX, grad=(*D, "c16[3]")),
    *table("abs", *FLOATS, "i4[3]:wide", "i8[2]:wide", "c8[3]", grad=(*D, "c16[3]")),
    FunctionRow("lax.abs", ("c8[3]:edges", "c16[3]:edges"), id="edges", oracle=np.abs,
        differs="" if holds(since="0.12") else "of nan + inf i JAX has nan before 0.12"),
    *table("sign", *FLOATS, *INTS, "c8[3]", grad=D),     # an infinite complex number gives NaN, as in JAX
    *table("floor ceil is_finite=isfinite", *FLOATS, grad=D),
    *table("sin cos tan exp sinh cosh tanh asinh atan", *FLOATS, *COMPLEX, grad=(*D, "c16[3]:small")),
    *table("expm1", *FLOATS, *COMPLEX, grad=(*D, "c16[3]:small")),
    *table("exp2 cbrt", *FLOATS, grad=D),
    *table("log sqrt reciprocal", *FLOATS, *COMPLEX, grad=(*DP, "c16[3]:positive")),
    *since("0.12", table("log2", *FLOATS, *COMPLEX, grad=(*DP, "c16[3]:positive"))),
    *since("0.12", rows("lax", "one_minus_square", *FLOATS, *INTS, *COMPLEX, grad=(*D, "c16[3]"), tol=4,
                        oracle=lambda x: 1 - x * x)),
    *since("0.12", rows("lax", "polynomial", "f4[2,3]", "f8[3]", "bf[3]", "i4[3]", "c8[3]", grad=D, tol=16,
                        oracle=_polynomial, call=_polynomials)),
    *table("log1p", *FLOATS, *COMPLEX, grad=(*DP, "c16[3]:positive")),
    *table("asin acos atanh", *FLOATS, *COMPLEX, "f4[5]:signed", grad=("f8[3]:signed", "c16[3]:positive")),
    *table("acosh", *FLOATS, *COMPLEX, "f4[5]:1..8", grad=("f8[3]:2..8", "c16[3]:positive")),
    *rows("lax", "rsqrt", *FLOATS, *COMPLEX, grad=(*DP, "c16[3]:positive"), oracle=lambda x: 1 / np.sqrt(x)),
    *rows("lax", "logistic", *FLOATS, *COMPLEX, grad=(*D, "c16[3]:small"), oracle=lambda x: 1 / (1 + np.exp(-x))),
    *table("real imag conj", "c8[3]:edges", "c16[2,3]", grad=("c16[3]",)),
    *rows("lax", "integer_pow", *FLOATS[:3], *COMPLEX, grad=(*D, "c16[3]"), oracle=np.power,
          call=lambda f, x: tuple(f(x, n) for n in (-3, -1, 0, 1, 2, 3, 7))),
    *rows("lax", "round", *FLOATS, grad=D, oracle=None,
          call=lambda f, x: (f(x), f(x, 0), f(x, 1))),              # NumPy only rounds halves to even
    *rows("lax", "stop_gradient", "f4[2,3]:wide", "i4[3]:wide", oracle=np.copy),
    *rows("lax", "optimization_barrier stage", "f4[2,3]:wide", "i4[3]:wide", oracle=np.copy, grad=D),
    *rows("lax", "erf", *FLOATS, oracle=special.erf, grad=D),
    *rows("lax", "erfc", *FLOATS, oracle=special.erfc, grad=D),
    *rows("lax", "erf_inv", *FLOATS, "f4[5]:signed", oracle=special.erfinv, grad=("f8[3]:signed",)),
    *rows("lax", "lgamma", *FLOATS, "f4[5]:edges", grad=DP,
          oracle=lambda x: np.where(np.isinf(x), np.inf, special.gammaln(x))),        # SciPy: -inf at -inf
    *rows("lax", "digamma", "f4[5]:edges", "f8[3]", "bf[3]", grad=DP,
          oracle=special.digamma, differs="JAX has nan or -inf at 0 and -0"),
    *rows("lax", "bessel_i0e", *FLOATS, "f4[5]", oracle=special.i0e, grad=D),
    *rows("lax", "bessel_i1e", *FLOATS, "f4[5]", oracle=special.i1e, grad=D),
]

BINARY = [
    *table("add sub=subtract mul=multiply", *PAIRS, *INT_PAIRS, "c8[3] c8[3]", "i8[3] i8[]:wide",
           grad=(*DD, "c16[3] c16[]")),
    *table("max=maximum min=minimum", *PAIRS, *INT_PAIRS, "b1[4] b1[4]", grad=DD),
    *table("eq=equal ne=not_equal", *PAIRS, *INT_PAIRS, "b1[4] b1[4]", "c8[3]:edges c8[3]:edges"),
    *table("lt=less le=less_equal gt=greater ge=greater_equal", *PAIRS, *INT_PAIRS, "b1[4] b1[4]"),
    *rows("lax", "div", *PAIRS, "c8[3] c8[3]:positive", grad=(*DDP, "c16[3] c16[3]:positive"), oracle=np.divide),
    *table("atan2=arctan2", *PAIRS, grad=DDP),
    *table("nextafter", "f8[3]:wide f8[3]:wide"),
    *rows("lax", "nextafter", "f4[2,3]:wide f4[2,3]:wide", "f4[4]:edges f4[4]:edges", id="single",
          oracle=lambda x, y: np.nextafter(x.astype(np.float32), y.astype(np.float32))),
    *rows("lax", "rem", *PAIRS[:3], grad=DDP, oracle=np.fmod),
    *rows("lax", "pow", *PAIRS, "c8[3]:positive c8[3]:small", grad=(*DDP, "c16[3]:positive c16[3]:small"),
          oracle=np.power),
    *rows("lax", "complex", "f4[2,3]:edges f4[2,3]:edges", "f8[3] f8[3]", grad=DD,
          oracle=lambda x, y: np.stack([x, y], -1).view(np.complex128)[..., 0]),      # x + 1j * y is NaN if y is inf
]

INTEGERS = [
    *table("bitwise_and bitwise_or bitwise_xor", *BITS),
    *table("bitwise_not", "i4[3]:wide", "u1[4]:wide", "i8[2]:wide", "b1[4]"),
    *rows("lax", "shift_left", "i4[3]:wide i4[3]:0..31", "u1[4]:wide u1[4]:0..7", "i8[2]:wide i8[]:0..63",
          oracle=np.left_shift),
    *rows("lax", "shift_right_arithmetic", "i4[3]:wide i4[3]:0..31", "i1[4]:wide i1[4]:0..7", "i8[2]:wide i8[]:0..63",
          oracle=np.right_shift),
    *rows("lax", "shift_right_logical", "u4[3]:wide u4[3]:0..31", "u1[4]:wide u1[4]:0..7", "u8[2]:wide u8[]:0..63",
          oracle=np.right_shift),
    *rows("lax", "clz", *INTS, oracle=None),
    *rows("lax", "population_count", *INTS,
          oracle=lambda x: np.bitwise_count(x.view(f"u{x.itemsize}")).astype(x.dtype)),
    *rows("lax", "mulhi", "i4[3]:wide i4[3]:wide", "u4[4]:wide u4[4]:wide",
          oracle=lambda x, y: (x.astype(object) * y.astype(object) >> 32).astype(x.dtype)),
]

POSITIVE_PAIRS = ("f4[4]:positive f4[4]:positive", "f8[3]:positive f8[3]:count")
AT_EDGES = "JAX gives NaN at a = 0 and at infinite a, where the limits are 0 and 1"
# The series and continued fractions of these functions differ by some hundred ulp between programs.
SERIES = [
    *rows("lax", "igamma", *POSITIVE_PAIRS, oracle=special.gammainc, grad=DDP),
    *rows("lax", "igammac", *POSITIVE_PAIRS, oracle=special.gammaincc, grad=DDP),
    *rows("lax", "igamma", "f4[3]:edges f4[3]:edges", oracle=special.gammainc, id="edges", differs=AT_EDGES),
    *rows("lax", "igammac", "f4[3]:edges f4[3]:edges", oracle=special.gammaincc, id="edges", differs=AT_EDGES),
    *rows("lax", "igamma_grad_a", "f8[3]:positive f8[3]:positive", oracle=None),
    *rows("lax", "random_gamma_grad", "f4[4]:positive f4[4]:positive", oracle=None),
    *rows("lax", "betainc", "f4[4]:positive f4[4]:positive f4[4]:unit", "f8[3]:positive f8[3]:positive f8[3]:unit",
          "f4[3]:edges f4[3]:edges f4[3]:edges", oracle=special.betainc),
    *rows("lax", "zeta", "f4[4]:1.5..8 f4[4]:positive", "f8[3]:1.5..8 f8[3]:positive", oracle=special.zeta),
    *rows("lax", "polygamma", "f4[3]:0..4 f4[3]:positive", "f8[3]:0..4 f8[3]:positive",
          call=lambda f, n, x: f(n // 1, x), oracle=special.polygamma),
]

CHOICES = [
    *rows("lax", "clamp", "f4[]:-2..0 f4[2,3]:wide f4[]:0..2", "f8[3]:-2..0 f8[3]:wide f8[3]:0..2",
          "i4[3]:-2..0 i4[3]:wide i4[]:0..2", "bf[2] bf[2] bf[2]", grad=("f8[3]:-2..0 f8[3] f8[3]:0..2",),
          oracle=lambda a, x, b: np.minimum(np.maximum(a, x), b)),
    *rows("lax", "select", "b1[2,3] f4[2,3]:wide f4[2,3]:wide", "b1[] i4[3]:wide i4[3]:wide", "b1[3] c8[3] c8[3]",
          oracle=np.where, grad=("b1[3] f8[3] f8[3]",)),
    *rows("lax", "select_n", "i4[2,3]:0..2 f4[2,3]:wide f4[2,3]:wide f4[2,3]:edges", "i4[]:0..2 c8[3] c8[3] c8[3]",
          grad=("i4[3]:0..2 f8[3] f8[3] f8[3]",), oracle=lambda which, *cases: np.choose(which, cases)),
]

REAL_TYPES = (np.bool_, np.int8, np.uint32, np.int64, np.float16, ml_dtypes.bfloat16, np.float64)
CONVERSIONS = [
    *rows("lax", "convert_element_type", "f4[4]:0..9", "i4[4]", "u1[4]:wide", "b1[3]", "bf[4]:0..8",
          call=lambda f, x: tuple(f(x, dtype) for dtype in (*REAL_TYPES, np.complex64)),
          oracle=lambda x, dtype: np.asarray(x).astype(dtype)),
    *rows("lax", "convert_element_type", "f4[4]:edges", "f8[4]:wide", oracle=None, id="saturating", grad=("f8[3]",),
          call=lambda f, x: (f(x, np.uint8), f(x, np.int32), f(x, np.int64), f(x, np.float64))),
    *rows("lax", "convert_element_type", "c8[3]:edges", id="complex", grad=("c16[3]",), oracle=np.astype,
          call=lambda f, x: f(x, np.complex128)),
    *rows("lax", "bitcast_convert_type", "f4[2,4]:wide", "i4[2,4]:wide", "u4[2,4]:wide", oracle=None,
          call=lambda f, x: (f(x, np.uint32), f(x, np.uint16), f(x, np.uint8))),
    *rows("lax", "bitcast_convert_type", "u1[3,4]:wide", "i1[2,4]:wide", oracle=None, id="wider",
          call=lambda f, x: (f(x, np.uint32), f(x, np.int8), f(x[0, 0], np.uint8))),
    *rows("lax", "reduce_precision", "f4[4]:wide", "f8[3]", "bf[3]", "f2[3]:wide", oracle=None,
          call=lambda f, x: (f(x, 5, 10), f(x, 8, 7), f(x, 4, 3))),
]

TO_DTYPES = [
    *rows("lax", "mul", "bf[2,3] bf[2,3]", "i1[3]:wide i1[3]:wide", "f4[3] f4[]", "c8[3] c8[3]", "i1[3] f4[3]",
          oracle=None, id="out_dtype", call=lambda f, x, y: tuple(f(x, y, out_dtype=d) for d in (
              np.float32, "float16", np.int32)), grad=("f8[2,3] f8[2,3]",)),
]

ROWS = [*TO_DTYPES, *UNARY, *BINARY, *INTEGERS, *SERIES, *CHOICES, *CONVERSIONS]
