"""Elementwise functions over the whole range of each dtype: values, slopes and second derivatives against exact ones.

Every differentiable elementwise function of xjax.lax, xjax.numpy and xjax.nn has a row. A function that is a single
operation has its row in the namespace `lax`. Functions of xjax.scipy.special have a table of their own.
"""

from __future__ import annotations

import math
from itertools import product

import ml_dtypes
import mpmath
import numpy as np
import pytest
from mpmath import mp
from scipy import special

import xjax
from tests.accuracy import exact
from tests.accuracy.points import DTYPES
from tests.accuracy.row import Bound, ScalarRow, first_order, near_zero, near_zero_beside, over_bound, second_order
from tests.accuracy.tally import assert_few_own_bounds
from tests.quick_compiling import as_shipped
from tests.sampling import one_in
from xjax import lax, nn
from xjax import numpy as jnp
from xjax.core.jaxpr import ClosedJaxpr, Var
from xjax.core.primitive import all_primitives


def inside(low, high):
    return lambda x: low < x < high


def positive(x):
    return x > 0


def nonzero(x):
    return x != 0


def off(*kinks):
    """A domain without the neighbourhoods of points that have no derivative, into which arguments may be rounded."""
    return lambda x: all(abs(x - kink) > 1e-6 for kink in kinks)


def at_most(bound):
    return lambda x: abs(x) <= bound


SMALLEST = [float(ml_dtypes.finfo(dtype).smallest_normal) for dtype in DTYPES]


def normal_remainder(x, y):
    """Whether no remainder is below the smallest normal number of a dtype, which XLA may read as 0."""
    return quotient_is_moderate(x, y) and not any(abs(math.fmod(x, y)) < low <= abs(y) for low in SMALLEST)


# -- exact functions ------------------------------------------------------------------------------------------------

def real(f):
    """A function of mpmath that raises ValueError where its result is not real."""
    def of_reals(*xs):
        y = f(*xs)
        if isinstance(y, mpmath.mpc) and y.imag:
            raise ValueError("not real")
        return y.real
    return of_reals


def cbrt(x):
    return mpmath.sign(x) * mpmath.cbrt(abs(x))


def logistic(x):
    return 1 / (1 + mpmath.exp(-x))


def softplus(x):
    return mpmath.log1p(mpmath.exp(x)) if x < 0 else x + mpmath.log1p(mpmath.exp(-x))


def tanh(x):
    return mpmath.expm1(2 * x) / (mpmath.exp(2 * x) + 1) if x < 0 else -mpmath.expm1(-2 * x) / (1 + mpmath.exp(-2 * x))


def erfc(x):
    """erfc, except for arguments that mpmath cannot compute; their results are those of large numbers in any dtype."""
    return mpmath.erfc(x) if abs(x) < 200 else mpmath.mpf(0 if x > 0 else 2)


def erf_inv(x):
    """Newton's method from SciPy's value; each step doubles the number of correct digits."""
    if abs(x) >= 1:
        raise ValueError("infinite")
    y = mpmath.mpf(float(special.erfinv(float(x)))) if abs(x) > 1e-300 else x * mpmath.sqrt(mpmath.pi) / 2
    for _ in range(int(mp.prec).bit_length()):
        y -= (mpmath.erf(y) - x) * mpmath.exp(y * y) * mpmath.sqrt(mpmath.pi) / 2
    return y


def lgamma(x):
    return mpmath.loggamma(x).real


def rem(x, y):
    quotient = x / y
    return x - y * (mpmath.floor(quotient) if quotient > 0 else mpmath.ceil(quotient))


def mod(x, y):
    return x - y * mpmath.floor(x / y)


def logaddexp(x, y):
    return max(x, y) + mpmath.log1p(mpmath.exp(-abs(x - y)))


def logaddexp2(x, y):
    return max(x, y) + mpmath.log1p(mpmath.exp(-abs(x - y) * mpmath.log(2))) / mpmath.log(2)


def sinc(x):
    return mpmath.sinpi(x) / (mpmath.pi * x)


def elu(x, alpha=1):
    return x if x > 0 else alpha * mpmath.expm1(x)


def tanh_gelu(x):
    scale = mpmath.sqrt(2 / mpmath.pi)
    inner = scale * (x + mpmath.mpf("0.044715") * x ** 3)
    return x * logistic(2 * inner)


def log1mexp(x):
    return mpmath.log(-mpmath.expm1(-x))


def clipped(low, high):
    return lambda x: min(max(x, low), high)


# -- the rows ---------------------------------------------------------------------------------------------------------

def quotient_is_moderate(x, y):
    """Whether the remainder is continuous within the steps of the differences: it jumps at each multiple of y.

    XLA on CPUs returns 0 for a remainder below the normal numbers, as if x were a multiple.
    """
    rest = abs(math.fmod(x, y))
    is_lost = any(rest < tiny <= abs(y) for tiny in (2.0**-126, 2.0**-1022))
    return abs(x) < 2.0**20 * abs(y) and rest != 0 and not is_lost


FROM_VALUE = ("computed from the value, as a difference where it is close to 1: this saves a second exponential, which "
              "made value and slope take 1.4 times as long")
SUM_WITH_TANH = ("1 + tanh has no correct digits below -5: the logistic function has all, but made value and slope "
                 "take 1.2 times as long")
ROUNDED_SQUARE = "of exp(-x**2): correcting it made value and slope take 1.1 times as long, and the value of erfc 1.2"
SLOPES_OF_ERF = {"slope 0 float64": Bound(47, ROUNDED_SQUARE), "second 0 0 float32": Bound(24, ROUNDED_SQUARE),
                 "second 0 0 float64": Bound(19, ROUNDED_SQUARE)}
ROUNDED_ARGUMENT = "the argument of erfc and exp is rounded, which costs its square in units"
ROOTS_OF_DIGAMMA = "below 0 it is a difference of terms of the size of log(-x), with a root in each interval"

LAX = [
    ScalarRow("lax.neg", lax.neg, lambda x: -x),
    ScalarRow("lax.abs", lax.abs, abs),
    ScalarRow("lax.add", lax.add, lambda x, y: x + y, args=2),
    ScalarRow("lax.sub", lax.sub, lambda x, y: x - y, args=2),
    ScalarRow("lax.mul", lax.mul, lambda x, y: x * y, args=2),
    ScalarRow("lax.div", lax.div, lambda x, y: x / y, args=2),
    ScalarRow("lax.rem", lax.rem, rem, args=2, domain=quotient_is_moderate),
    ScalarRow("lax.max", lax.max, max, args=2, domain=lambda x, y: x != y),
    ScalarRow("lax.min", lax.min, min, args=2, domain=lambda x, y: x != y),
    ScalarRow("lax.clamp", lambda x: lax.clamp(-jnp.ones_like(x), x, jnp.ones_like(x)), clipped(-1, 1),
              domain=off(-1, 1)),
    ScalarRow("lax.square", lax.square, lambda x: x * x),
    ScalarRow("lax.one_minus_square", lax.one_minus_square, lambda x: 1 - x * x),
    ScalarRow("lax.reciprocal", lax.reciprocal, lambda x: 1 / x),
    *(ScalarRow(f"lax.integer_pow {n}", lambda x, n=n: lax.integer_pow(x, n), lambda x, n=n: x**n)
      for n in (3, 7, -2, -3)),
    ScalarRow("lax.pow", lax.pow, real(lambda x, y: x**y), args=2, domain=lambda x, y: x > 0),
    ScalarRow("lax.sqrt", lax.sqrt, real(mpmath.sqrt), domain=positive),
    ScalarRow("lax.rsqrt", lax.rsqrt, real(lambda x: 1 / mpmath.sqrt(x)), domain=positive),
    ScalarRow("lax.cbrt", lax.cbrt, cbrt),
    ScalarRow("lax.exp", lax.exp, mpmath.exp),
    ScalarRow("lax.exp2", lax.exp2, lambda x: mpmath.mpf(2) ** x),
    ScalarRow("lax.expm1", lax.expm1, mpmath.expm1),
    ScalarRow("lax.log", lax.log, mpmath.log, domain=positive),
    ScalarRow("lax.log2", lax.log2, lambda x: mpmath.log(x) / mpmath.log(2), domain=positive),
    ScalarRow("lax.log1p", lax.log1p, mpmath.log1p, domain=lambda x: x > -1),
    ScalarRow("lax.logistic", lax.logistic, logistic,
              bounds={f"{kind} {dtype}": Bound(0.5, FROM_VALUE, scale=1) for kind in ("slope 0", "second 0 0")
                      for dtype in ("float32", "float64")}),
    ScalarRow("lax.sin", lax.sin, mpmath.sin),
    ScalarRow("lax.cos", lax.cos, mpmath.cos),
    ScalarRow("lax.tan", lax.tan, mpmath.tan),
    ScalarRow("lax.asin", lax.asin, mpmath.asin, domain=inside(-1, 1)),
    ScalarRow("lax.acos", lax.acos, mpmath.acos, domain=inside(-1, 1)),
    ScalarRow("lax.atan", lax.atan, mpmath.atan),
    ScalarRow("lax.atan2", lax.atan2, mpmath.atan2, args=2),
    ScalarRow("lax.sinh", lax.sinh, mpmath.sinh),
    ScalarRow("lax.cosh", lax.cosh, mpmath.cosh),
    ScalarRow("lax.tanh", lax.tanh, tanh,
              bounds={f"{kind} {dtype}": Bound(ulps, FROM_VALUE, scale=1)
                      for kind, ulps in (("slope 0", 1.1), ("second 0 0", 7))
                      for dtype in ("bfloat16", "float32", "float64")}),
    ScalarRow("lax.asinh", lax.asinh, mpmath.asinh),
    ScalarRow("lax.acosh", lax.acosh, real(mpmath.acosh), domain=lambda x: x > 1),
    ScalarRow("lax.atanh", lax.atanh, mpmath.atanh, domain=inside(-1, 1)),
    ScalarRow("lax.erf", lax.erf, mpmath.erf, bounds=SLOPES_OF_ERF),
    ScalarRow("lax.erfc", lax.erfc, erfc, bounds={**SLOPES_OF_ERF, "value float64": Bound(63, ROUNDED_SQUARE)}),
    ScalarRow("lax.erf_inv", lax.erf_inv, erf_inv, domain=inside(-1, 1),
              bounds={"second 0 0 float32": Bound(
                  5.1, "the slope is exp(y**2) of XLA's y, which is about one unit off")}),
    ScalarRow("lax.lgamma", lax.lgamma, lgamma, domain=lambda x: x > 0 or x % 1,
              bounds={"value float32": Bound(11.1, "below 0 it has a root in each interval"),
                      "slope 0 float32": Bound(35, ROOTS_OF_DIGAMMA), "slope 0 float64": Bound(17, ROOTS_OF_DIGAMMA)}),
    ScalarRow("lax.digamma", lax.digamma, mpmath.digamma, domain=lambda x: x > 0 or x % 1,
              bounds={"value float32": Bound(35, ROOTS_OF_DIGAMMA), "value float64": Bound(17, ROOTS_OF_DIGAMMA),
                      "second 0 0 float64": Bound(6.5, "below 0 it has a root in each interval"),
                      "slope 0 float32": Bound(7.6, "the exponential of XLA's lgamma(1), which is not 0"),
                      "second 0 0 float32": Bound(18, "below 0 it has a root in each interval")}),
]

NUMPY = [
    ScalarRow("numpy.hypot", jnp.hypot, lambda x, y: mpmath.sqrt(x * x + y * y), args=2),
    ScalarRow("numpy.logaddexp", jnp.logaddexp, logaddexp, args=2,
              bounds={f"second {pair} float32": Bound(4.8, "an exponential of the rounded difference of the arguments")
                      for pair in ("0 0", "0 1", "1 1")}),
    ScalarRow("numpy.logaddexp2", jnp.logaddexp2, logaddexp2, args=2),
    ScalarRow("numpy.log10", jnp.log10, mpmath.log10, domain=positive),
    ScalarRow("numpy.sinc", jnp.sinc, sinc, roots={"second 0 0": (-0.66259, 0.66259)}),
    ScalarRow("numpy.i0", jnp.i0, lambda x: mpmath.besseli(0, x), domain=at_most(750),
              bounds={"slope 0 float64": Bound(5.3, "XLA's function of order 1")}),
    ScalarRow("numpy.deg2rad", jnp.deg2rad, mpmath.radians),
    ScalarRow("numpy.rad2deg", jnp.rad2deg, mpmath.degrees),
    ScalarRow("numpy.copysign", jnp.copysign, lambda x, y: abs(x) * mpmath.sign(y), args=2, grads=(0,)),
    ScalarRow("numpy.fmax", jnp.fmax, max, args=2, domain=lambda x, y: x != y),
    ScalarRow("numpy.fmin", jnp.fmin, min, args=2, domain=lambda x, y: x != y),
    ScalarRow("numpy.remainder", jnp.remainder, mod, args=2, domain=normal_remainder),
    ScalarRow("numpy.divmod", lambda x, y: jnp.divmod(x, y)[1], mod, args=2, domain=normal_remainder),
    ScalarRow("numpy.modf", lambda x: jnp.modf(x)[0], lambda x: rem(x, 1), domain=lambda x: x % 1 and abs(x) < 2.0**50),
    ScalarRow("numpy.ldexp", lambda x: jnp.ldexp(x, 3), lambda x: 8 * x),
    ScalarRow("numpy.clip", lambda x: jnp.clip(x, -1, 1), clipped(-1, 1), domain=off(-1, 1)),
    ScalarRow("numpy.nan_to_num", jnp.nan_to_num, lambda x: x),
    ScalarRow("numpy.where", lambda x, y: jnp.where(x > y, x, y), max, args=2, domain=lambda x, y: x != y),
]

NN = [
    ScalarRow("nn.relu", nn.relu, lambda x: max(x, 0)),
    ScalarRow("nn.relu6", nn.relu6, clipped(0, 6), domain=off(6)),
    ScalarRow("nn.leaky_relu", nn.leaky_relu, lambda x: x if x > 0 else x / 100),
    ScalarRow("nn.hard_tanh", nn.hard_tanh, clipped(-1, 1), domain=off(-1, 1)),
    ScalarRow("nn.hard_sigmoid", nn.hard_sigmoid, lambda x: clipped(0, 6)(x + 3) / 6, domain=off(-3, 3)),
    ScalarRow("nn.hard_silu", nn.hard_silu, lambda x: x * clipped(0, 6)(x + 3) / 6, domain=off(-3, 3)),
    ScalarRow("nn.sparse_plus", nn.sparse_plus, lambda x: 0 if x < -1 else x if x > 1 else (x + 1)**2 / 4,
        domain=off(-1, 1)),
    ScalarRow("nn.sparse_sigmoid", nn.sparse_sigmoid, lambda x: clipped(0, 2)(x + 1) / 2, domain=off(-1, 1)),
    ScalarRow("nn.softplus", nn.softplus, softplus),
    ScalarRow("nn.log_sigmoid", nn.log_sigmoid, lambda x: -softplus(-x)),
    ScalarRow("nn.soft_sign", nn.soft_sign, lambda x: x / (abs(x) + 1)),
    ScalarRow("nn.silu", nn.silu, lambda x: x * logistic(x),
        roots={"slope 0": (-1.2784645,), "second 0 0": (-2.3993573, 2.3993573)}),
    ScalarRow("nn.mish", nn.mish, lambda x: x * tanh(softplus(x)),
        roots={"slope 0": (-1.1924312,), "second 0 0": (-2.2563764, 1.4905712)}),
    ScalarRow("nn.squareplus", nn.squareplus, lambda x: (x + mpmath.sqrt(x * x + 4)) / 2),
    ScalarRow("nn.elu", nn.elu, elu),
    ScalarRow("nn.celu", lambda x: nn.celu(x, 0.5), lambda x: x if x > 0 else mpmath.expm1(2 * x) / 2),
    ScalarRow("nn.selu", nn.selu, lambda x: mpmath.mpf("1.0507009873554804934193349852946")
        * elu(x, mpmath.mpf("1.6732632423543772848170429916717"))),
    ScalarRow("nn.gelu", nn.gelu, tanh_gelu,
        bounds={f"{kind} {dtype}": Bound(ulps, SUM_WITH_TANH, scale=1)
                for dtype, all_ulps in (("float32", (0.7, 1.6, 12)), ("float64", (1.1, 3, 193)))
                for kind, ulps in zip(("value", "slope 0", "second 0 0"), all_ulps, strict=True)}),
    ScalarRow("nn.gelu exact", lambda x: nn.gelu(x, approximate=False), lambda x: x * erfc(-x / mpmath.sqrt(2)) / 2,
        roots={"slope 0": (-0.7517915,), "second 0 0": (-2**0.5, 2**0.5)},
        bounds={f"{kind} {dtype}": Bound(ulps, ROUNDED_ARGUMENT)
                for dtype, all_ulps in (("float32", (76, 106, 51)), ("float64", (1058, 1088, 52)))
                for kind, ulps in zip(("value", "slope 0", "second 0 0"), all_ulps, strict=True)}),
    ScalarRow("nn.log1mexp", nn.log1mexp, log1mexp, domain=positive),
]

ROWS = LAX + NUMPY + NN
ROWS_BY_NAME = {row.name: row for row in ROWS}
EVERY = 41                  # one in 41 pairs (row, dtype) is in the fast set; not a multiple of the dtypes



@pytest.fixture(scope="module", autouse=True)
def compiled_as_for_users():
    """XLA's choice of an implementation (of cbrt, for example) depends on the optimization level."""
    with as_shipped():
        yield


def sample(rows):
    """All pairs of a row and a dtype; one in `EVERY` is in the fast set."""
    return one_in(EVERY, product(rows, DTYPES), name=lambda pair: f"{pair[0]}-{pair[1]}")


@pytest.mark.parametrize("row_and_dtype", sample(ROWS))
def test_value_and_slopes(row_and_dtype):
    row, dtype = row_and_dtype
    assert not over_bound(row, dtype, first_order(row, dtype, 24))


@pytest.mark.parametrize("row_and_dtype", sample(ROWS))
def test_second_derivatives(row_and_dtype):
    row, dtype = row_and_dtype
    assert not over_bound(row, dtype, second_order(row, dtype, 12))


@pytest.mark.parametrize("row_and_dtype", sample(row for row in ROWS if row.args == 1 and row.name != "lax.acosh"))
def test_value_and_slope_at_zero_and_below_normal_numbers(row_and_dtype):
    row, dtype = row_and_dtype
    assert not over_bound(row, dtype, near_zero(row, dtype))


REMAINDERS = ("lax.rem", "numpy.remainder", "numpy.divmod")
BESIDE_ZERO = {     # The slope by the exponent is 0 at x = 0, even where the power is infinite.
    "lax.pow": lambda x, y: x > 0.1 or (x >= 0 and y > 0.1)}


@pytest.mark.parametrize("row_and_dtype", sample(row for row in ROWS if row.args == 2 and row.name not in REMAINDERS))
def test_values_and_slopes_of_pairs_with_zeros_and_denormal_numbers(row_and_dtype):
    row, dtype = row_and_dtype
    assert not over_bound(row, dtype, near_zero_beside(row, dtype, BESIDE_ZERO.get(row.name)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_remainders_of_zeros_and_denormal_numbers(dtype):
    """Remainders jump at 0; denormal numbers may be read as zeros. Remainders of division by 0 are nan."""
    smallest = float(ml_dtypes.finfo(dtype).smallest_normal)
    for x, y in product((0.0, -0.0, smallest / 4, -smallest / 4), (1.75, -0.625)):
        for row, exactly, quotient in ((ROWS_BY_NAME["lax.rem"], np.fmod, np.trunc),
                                       (ROWS_BY_NAME["numpy.remainder"], np.remainder, np.floor)):
            with xjax.enable_x64(True):
                value, back = xjax.vjp(row.fun, *np.array([x, y], dtype))
                slopes = [float(slope) for slope in back(jnp.ones_like(value))]
                assert np.isnan(np.asarray(row.fun(np.array(y, dtype), np.array(0, dtype)), np.float64))
            read = [x, 0 * x]
            assert min(abs(float(value) - exactly(at, y)) for at in read) < smallest
            assert slopes[0] == 1 and slopes[1] in [-quotient(at / y) for at in read]


def test_slope_of_rem_where_the_quotient_rounds_to_a_whole_number():
    x, y = np.float32(918.33551025390625), np.float32(1.6369616985321045)
    assert x / y == 561 and float(x) / float(y) < 561
    assert xjax.grad(lax.rem, 1)(x, y) == -560


def test_slopes_of_python_numbers():
    for row in NUMPY + NN:
        at = [0.25, 0.75][:row.args]
        np.testing.assert_allclose(xjax.grad(row.fun, row.smooth)(*at), [
            float(exact.derivative(row.exact, at, (i,))) for i in row.smooth], rtol=1e-6)


def test_few_results_have_bounds_of_their_own():
    assert_few_own_bounds(ROWS)


# -- every function has a row -----------------------------------------------------------------------------------------

# Differentiable elementwise functions without a row.
NO_ROW = {
    **dict.fromkeys((
        "lax.bessel_i0e", "lax.bessel_i1e", "lax.igamma", "lax.igammac", "lax.polygamma", "lax.random_gamma_grad",
        "lax.zeta"), "a special function: test_special.py"),
    **dict.fromkeys((
        "lax.broadcast_like", "lax.convert_element_type", "lax.stage", "numpy.array", "numpy.asarray",
        "numpy.atleast_1d", "numpy.atleast_2d", "numpy.block", "numpy.broadcast_arrays", "numpy.conj",
        "numpy.conjugate", "numpy.copy", "numpy.full_like", "numpy.positive", "numpy.real", "numpy.squeeze",
        "numpy.stack", "numpy.tril", "numpy.triu", "nn.identity"), "returns the elements as they are, or 0"),
    "numpy.angle": "for real numbers it is 0 or pi",
    "numpy.heaviside": "a step; the slope by its value at 0 is 0 or 1",
}
MOVE_NOTHING = {"bitcast_convert_type", "broadcast_in_dim", "clamp", "convert_element_type", "select_n", "iota"}
ELEMENTWISE = MOVE_NOTHING | {name for name, p in all_primitives().items()
                              if getattr(p.lower, "__qualname__", "").startswith("elementwise_lower.")}


def derivative_program(f, args):
    """The program of the derivative of `f`, a function of `args` arrays; None unless it has only elementwise operations
    and its result is a float array of the same shape that depends on the tangents."""
    xs = [np.full((2, 3), 0.5 + i, np.float32) for i in range(args)]
    try:
        program = xjax.make_jaxpr(lambda xs, dxs: xjax.jvp(f, xs, dxs)[1])(tuple(xs), tuple(xs)).jaxpr
    except Exception:                                               # not a function of this number of arrays
        return None
    if [(v.aval.shape, v.aval.dtype) for v in program.outvars] != [((2, 3), np.float32)]:
        return None
    moving = set(program.invars[args:])
    for eqn in program.eqns:
        if any(v in moving for v in eqn.invars if isinstance(v, Var)):
            moving.update(eqn.outvars)
    return program if program.outvars[0] in moving and operations(program) <= ELEMENTWISE else None


def operations(program):
    """The names of the operations of a program and of its inner programs, without calls themselves."""
    names = set()
    for eqn in program.eqns:
        inner = [p.jaxpr for p in eqn.params.values() if isinstance(p, ClosedJaxpr)]
        names |= set().union(*map(operations, inner)) if inner else {eqn.primitive.name}
    return names


def test_every_differentiable_elementwise_function_has_a_row():
    """Or has the same derivative program as a function with a row."""
    known = {str(derivative_program(row.fun, row.args)) for row in ROWS}
    missing = {f"{name}.{member}" for name, namespace in (("lax", lax), ("numpy", jnp), ("nn", nn))
               for member in namespace.__all__ for args in (1, 2)
               if callable(f := getattr(namespace, member)) and not isinstance(f, type)
               and (program := derivative_program(f, args)) is not None and str(program) not in known}
    assert missing <= NO_ROW.keys() | {row.name for row in ROWS}
