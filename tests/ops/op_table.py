"""Rows for element-wise operations; `structural_table` has rows for operations that change shapes."""

from __future__ import annotations

import numpy as np
from scipy import special

from tests.ops.row import ANY, BINARY, BOOL, COMPLEX, FLOATS, INEXACT, INTS, NUMBERS, UNARY, OpRow
from tests.oracle import current, holds, only

REAL = FLOATS + INTS
POSITIVE = (0.2, 3.0)
SINCE_0_12 = holds(since="0.12")          # since then JAX computes some derivatives differently
OWN_SLOPE = False           # of programs: for accuracy (tests/accuracy) the slope differs from JAX's formula
OPEN_UNIT = (-0.9, 0.9)
TERNARY = (((2, 3), (2, 3), (2, 3)), ((), (3,), ()), ((), (), ()), ((0, 2), (0, 2), (0, 2)))


def unary(name, oracle=None, dtypes=INEXACT, **changes):
    return OpRow(name, oracle=oracle, dtypes=dtypes, **{"special": True, **changes})


def binary(name, oracle=None, dtypes=NUMBERS, **changes):
    return OpRow(name, oracle=oracle, shapes=BINARY, dtypes=dtypes, **{"special": True, **changes})


def bits(name, oracle, dtypes=INTS + BOOL, domain=(0, 7)):
    return binary(name, oracle, dtypes, domain=domain, order=0)


def logistic(x):
    return 1 / (1 + np.exp(-x))


ARITHMETIC = [
    unary("neg", np.negative, NUMBERS),
    binary("add", np.add),
    binary("sub", np.subtract),
    binary("mul", np.multiply),
    # Integers: NumPy's true_divide and floor_divide are other functions, so JAX is the oracle. The slope by y has
    # another formula than JAX's: see tests/accuracy.
    binary("div", dtypes=NUMBERS, domain=(0.5, 9), programs=False),
    OpRow("div", id="div_floats", oracle=np.divide, shapes=BINARY, dtypes=INEXACT, domain=(0.5, 2), programs=False),
    unary("square", np.square, NUMBERS),
    only(unary("one_minus_square", lambda x: 1 - x * x, NUMBERS), since="0.12"),
    *(OpRow("integer_pow", lambda lax, x, y=y: lax.integer_pow(x, y), oracle=lambda x, y=y: x ** float(y),
            dtypes=INEXACT, domain=(0.5, 1.5), special=True, id=f"integer_pow_{y}", tol=4, order=0 if y == 0 else 2)
      for y in (-3, -1, 0, 1, 2, 3, 7)),
    OpRow("integer_pow", lambda lax, x: lax.integer_pow(x, 5), dtypes=INTS, order=0, id="integer_pow_of_integers"),
    OpRow("reciprocal", oracle=np.reciprocal, dtypes=INEXACT, domain=POSITIVE, special=True),
]

ROUNDING = [
    unary("floor", np.floor, FLOATS, order=0),
    unary("ceil", np.ceil, FLOATS, order=0),
    unary("round", dtypes=FLOATS, order=0, domain=(-5, 5)),
    OpRow("round", lambda lax, x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), oracle=np.rint, dtypes=FLOATS,
          order=0, special=True, id="round_to_even"),
    unary("is_finite", np.isfinite, FLOATS, order=0),
    binary("nextafter", dtypes=FLOATS, order=0),
]

COMPARISONS = [
    *(binary(name, oracle, ANY, order=0, domain=(-2, 3))
      for name, oracle in (("eq", np.equal), ("ne", np.not_equal))),
    *(binary(name, oracle, REAL + BOOL, order=0, domain=(-2, 3))
      for name, oracle in (("lt", np.less), ("le", np.less_equal), ("gt", np.greater), ("ge", np.greater_equal))),
    OpRow("select_n", oracle=lambda p, x, y: np.where(p, y, x),
          shapes=(((2, 3), (2, 3), (2, 3)), ((), (3,), (3,)), ((), (), ()), ((0,), (0,), (0,))),
          dtypes=(("bool", "float32", "float32"), ("bool", "complex64", "complex64"), ("bool", "uint8", "uint8"),
                  ("bool", "bool", "bool"))),
    # Out-of-range integers select the first or the last case; a gradient in JAX loses them, so programs differ.
    OpRow("select_n", oracle=lambda i, x, y, z: np.choose(i, [x, y, z], mode="clip"), id="select_n_of_three",
          shapes=(((4, 3), (4, 3), (4, 3), (4, 3)), ((), (3,), (3,), (3,))), domain=(-2, 4), programs=False,
          dtypes=(("int32", "float32", "float32", "float32"), ("uint8", "complex64", "complex64", "complex64"))),
    OpRow("select_n", lambda lax, i, x: lax.select_n(i, x), oracle=lambda i, x: x, id="select_n_of_one",
          shapes=(((3,), (3,)), ((), (3,))), dtypes=(("int32", "float32"), ("bool", "float32")), programs=False),
    OpRow("select", oracle=np.where, shapes=(((2, 3), (2, 3), (2, 3)), ((), (3,), (3,))),
          dtypes=(("bool", "float32", "float32"),)),
    OpRow("clamp", oracle=lambda a, x, b: np.minimum(np.maximum(x, a), b), shapes=TERNARY, dtypes=REAL,
          domain=((-1, 0), (-2, 2), (0, 1)), special=True),
]

PIECEWISE = [
    unary("sign", np.sign, FLOATS + INTS, order=0),
    OpRow("sign", id="sign_of_complex", dtypes=COMPLEX, order=0),
    unary("abs", np.abs, ("float32", "float16", "bfloat16", "int32", "int8")),
    unary("abs", np.abs, COMPLEX, id="abs_of_complex", programs=False,
          special=SINCE_0_12),                  # abs of nan + inf i is inf since 0.12
    binary("max", np.maximum, FLOATS + COMPLEX + INTS + BOOL, special=False, programs=SINCE_0_12),
    binary("min", np.minimum, FLOATS + COMPLEX + INTS + BOOL, special=False, programs=SINCE_0_12),
    binary("max", np.maximum, REAL + BOOL, order=0, id="max_special"),
    binary("min", np.minimum, REAL + BOOL, order=0, id="min_special"),
    binary("rem", np.fmod, FLOATS, domain=((5.2, 5.8), (1.1, 1.6)), programs=OWN_SLOPE),
    binary("rem", dtypes=INTS, domain=(1, 9), order=0, id="rem_of_integers"),
]

TRANSCENDENTAL = [
    unary("exp", np.exp),
    unary("exp2", np.exp2, tol=4),
    unary("log", np.log, domain=POSITIVE),
    only(unary("log2", np.log2, domain=POSITIVE, programs=OWN_SLOPE), since="0.12"),
    *(only(OpRow("polynomial", lambda lax, x, c, n=n: lax.polynomial(x, [1, c, *[0.25] * n]), id=f"polynomial_{n + 2}",
                 oracle=lambda x, c, n=n: 1 + c * x + sum(0.25 * x ** k for k in range(2, n + 2)),
                 shapes=(((2, 3), (2, 3)), ((2, 3), (1, 3)), ((0,), (1,))), domain=(-1, 1), tol=8), since="0.12")
      for n in (2, 9)),
    unary("expm1", np.expm1, programs=SINCE_0_12),
    unary("log1p", np.log1p, domain=(-0.8, 2)),
    unary("logistic", logistic, programs=OWN_SLOPE),
    unary("sqrt", np.sqrt, domain=POSITIVE),
    unary("rsqrt", lambda x: 1 / np.sqrt(x), domain=POSITIVE, tol=4, programs=OWN_SLOPE),
    unary("cbrt", np.cbrt, FLOATS, domain=POSITIVE, programs=OWN_SLOPE),
    unary("sin", np.sin),
    unary("cos", np.cos),
    unary("tan", np.tan, domain=(-1.2, 1.2), tol=4),
    unary("asin", np.arcsin, domain=OPEN_UNIT, programs=SINCE_0_12),
    unary("acos", np.arccos, domain=OPEN_UNIT, programs=SINCE_0_12),
    unary("atan", np.arctan, domain=OPEN_UNIT),
    unary("sinh", np.sinh),
    unary("cosh", np.cosh),
    unary("tanh", np.tanh, programs=SINCE_0_12),
    unary("asinh", np.arcsinh, programs=SINCE_0_12),
    unary("acosh", np.arccosh, domain=(1.2, 3), programs=SINCE_0_12),
    unary("atanh", np.arctanh, domain=OPEN_UNIT, programs=SINCE_0_12),
    binary("atan2", np.arctan2, FLOATS, programs=OWN_SLOPE),
    # NumPy has no arctan2 of complex numbers.
    OpRow("atan2", id="atan2_of_complex", shapes=BINARY[:2], dtypes=COMPLEX, domain=POSITIVE),
    binary("pow", np.power, INEXACT, domain=(0.3, 2), tol=4, programs=OWN_SLOPE),
    OpRow("pow", oracle=lambda x, y: np.power(x, y.astype(float)), id="pow_to_integers", shapes=BINARY, tol=4,
          dtypes=(("float32", "int32"), ("bfloat16", "uint8"), ("complex64", "int8")), domain=((0.3, 2), (-3, 3))),
]

BITS = [
    OpRow("bitwise_not", oracle=np.invert, dtypes=INTS + BOOL, order=0, domain=(0, 9), special=True),
    bits("bitwise_and", np.bitwise_and),
    bits("bitwise_or", np.bitwise_or),
    bits("bitwise_xor", np.bitwise_xor),
    bits("shift_left", np.left_shift, INTS),
    bits("shift_right_arithmetic", dtypes=INTS, oracle=None),
    bits("shift_right_logical", dtypes=INTS, oracle=None),
    bits("mulhi", dtypes=("int32", "uint32"), oracle=None),
    OpRow("population_count", oracle=np.bitwise_count, dtypes=INTS, order=0, domain=(0, 99)),
    OpRow("clz", dtypes=INTS, order=0, domain=(0, 99), special=True),
]

COMPLEX_PARTS = [
    OpRow("real", oracle=np.real, dtypes=COMPLEX),
    OpRow("imag", oracle=np.imag, dtypes=COMPLEX),
    OpRow("complex", oracle=lambda x, y: x + 1j * y, shapes=BINARY, dtypes=("float32",)),
    OpRow("conj", oracle=np.conj, dtypes=("float32", "complex64")),
]

SPECIAL = [
    unary("erf", special.erf, FLOATS, programs=not SINCE_0_12),
    unary("erfc", special.erfc, FLOATS, programs=not SINCE_0_12),
    unary("erf_inv", special.erfinv, FLOATS, domain=OPEN_UNIT),
    unary("lgamma", special.gammaln, FLOATS, domain=POSITIVE),
    unary("digamma", special.digamma, FLOATS, domain=POSITIVE, tol=4, programs=OWN_SLOPE,
          special=False),                       # inf at -0 as in SciPy: tests/scipy/ends
    OpRow("polygamma", lambda lax, x: lax.polygamma(1.0, x), oracle=lambda x: special.polygamma(1, x),
          dtypes=("float32",), domain=POSITIVE, tol=4),
    # JAX has no derivative of zeta.
    OpRow("zeta", lambda lax, q: lax.zeta(3.0, q), oracle=lambda q: special.zeta(3, q), dtypes=("float32",),
          domain=POSITIVE, tol=4, programs=False),
    unary("bessel_i0e", special.i0e, FLOATS, tol=4, programs=OWN_SLOPE),
    unary("bessel_i1e", special.i1e, FLOATS, domain=POSITIVE, tol=4, programs=OWN_SLOPE),
    # Loops: JAX writes the density in another order. Dense grids are compared in tests/scipy.
    OpRow("igamma", oracle=special.gammainc, shapes=BINARY[:2], dtypes=FLOATS, domain=(0.5, 4), order=0, tol=8),
    OpRow("igamma", lambda lax, x: lax.igamma(lax.full_like(x, 1.5), x), oracle=lambda x: special.gammainc(1.5, x),
          shapes=UNARY[1:], dtypes=("float32",), domain=(0.5, 4), tol=8, id="igamma_of_x", programs=False),
    OpRow("igammac", oracle=special.gammaincc, shapes=BINARY[1:3], dtypes=("float32",), domain=(0.5, 4), order=1, tol=8,
          programs=False),
    OpRow("igamma_grad_a", shapes=BINARY[1:3], dtypes=("float32",), domain=(0.5, 4), order=0, tol=20),
    OpRow("betainc", oracle=special.betainc, shapes=TERNARY[1:], dtypes=("float32",), order=0, tol=20,
          domain=((0.5, 4), (0.5, 4), (0.1, 0.9))),
    OpRow("betainc", lambda lax, x: lax.betainc(lax.full_like(x, 1.5), lax.full_like(x, 0.7), x),
          oracle=lambda x: special.betainc(1.5, 0.7, x), shapes=UNARY[1:], dtypes=("float32",), domain=(0.1, 0.9),
          tol=20, id="betainc_of_x", programs=False),
]

CONVERSIONS = [
    *(OpRow("convert_element_type", lambda lax, x, d=d: lax.convert_element_type(x, d), id=f"convert_to_{d}",
            shapes=UNARY[:1], dtypes=tuple(s for s in ANY if s != "complex64" or d == "complex64"), order=0,
            domain=(-3.9, 5.9))
      for d in (*ANY, "float8_e4m3fn", "int4")),
    # Python types are single or double precision depending on the mode, so derivatives can be checked.
    *(OpRow("convert_element_type", lambda lax, x, d=d: lax.convert_element_type(x, d), dtypes=dtypes,
            id=f"convert_to_python_{d.__name__}")
      for d, dtypes in ((float, ("float32", "bfloat16", "int32")), (complex, ("float32", "complex64")))),
    OpRow("convert_element_type", lambda lax, x: lax.convert_element_type(x, float), oracle=np.real, dtypes=COMPLEX,
          id="convert_complex_to_real"),
    OpRow("bitcast_convert_type", lambda lax, x: lax.bitcast_convert_type(x, np.int32), id="bitcast_same_width",
          dtypes=("float32", "uint32"), order=0),
    OpRow("bitcast_convert_type", lambda lax, x: lax.bitcast_convert_type(x, np.uint8), id="bitcast_narrower",
          dtypes=("float32", "float16", "int8"), order=0),
    OpRow("bitcast_convert_type", lambda lax, x: lax.bitcast_convert_type(x, np.uint32), id="bitcast_wider",
          shapes=(((3, 4),), ((2, 3, 4),)), dtypes=("uint8", "int8"), order=0, domain=(0, 99)),
    OpRow("reduce_precision", lambda lax, x: lax.reduce_precision(x, 5, 2), dtypes=FLOATS, order=0),
]

IDENTITIES = [
    OpRow("copy", lambda lax, x: lax.copy_p.bind(x), oracle=lambda x: x, dtypes=ANY),
    OpRow("stop_gradient", oracle=lambda x: x, dtypes=ANY, order=0),
    OpRow("optimization_barrier", lambda lax, x, y: lax.optimization_barrier((x, y)), oracle=lambda x, y: (x, y),
          shapes=(((2, 3), (2,)), ((), ())), dtypes=(("float32", "float32"), ("int32", "complex64"))),
]

# The algebra of axes (`xjax.ops.shape`); `structural_table` has the other operations on shapes.
AXES = [
    OpRow("broadcast_in_dim", lambda lax, x: lax.broadcast_in_dim(x, (4, 2, 3), (0, 2)),
          oracle=lambda x: np.broadcast_to(x[:, None], (4, 2, 3)), shapes=(((4, 3),), ((4, 1),), ((1, 1),)),
          dtypes=ANY),
    OpRow("reduce_sum", lambda lax, x: lax.reduce_sum(x, (0, 2)), oracle=lambda x: x.sum((0, 2)),
          shapes=(((2, 3, 4),), ((2, 0, 3),)), dtypes=("float32", "complex64", "int32")),
    OpRow("reshape", lambda lax, x: lax.reshape(x, (4, 3)), oracle=lambda x: x.reshape(4, 3),
          shapes=(((2, 6),), ((12,),)), dtypes=ANY),
    OpRow("squeeze", lambda lax, x: lax.squeeze(x, (0, -2)), oracle=lambda x: x.squeeze((0, -2)),
          shapes=(((1, 3, 1, 2),), ((1, 1, 1),)), dtypes=ANY),
    OpRow("transpose", lambda lax, x: lax.transpose(x, (2, 0, 1)), oracle=lambda x: x.transpose(2, 0, 1),
          shapes=(((2, 3, 4),), ((2, 0, 4),)), dtypes=ANY),
    OpRow("unstack", lambda lax, x: lax.unstack(x, 1), oracle=lambda x: [x[:, i] for i in range(x.shape[1])],
          shapes=(((2, 3),), ((2, 3, 2),)), dtypes=("float32", "int32")),
]

TABLE = current([*ARITHMETIC, *ROUNDING, *COMPARISONS, *PIECEWISE, *TRANSCENDENTAL, *BITS, *COMPLEX_PARTS, *SPECIAL,
               *CONVERSIONS, *IDENTITIES, *AXES])
assert len({str(row) for row in TABLE}) == len(TABLE), "two rows have one name"
