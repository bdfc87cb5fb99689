"""Element-wise operations outside of the table: derivatives at the edges, conversions, error messages."""

from __future__ import annotations

import functools
import importlib
import pkgutil

import numpy as np
import pytest

import xjax
from tests.ops import op_table, structural_table
from tests.ops.row import primitives_of
from tests.oracle import current, only, real_jax
from tests.refusals import assert_refused
from tests.values.signatures import words
from xjax import lax
from xjax.core.primitive import all_primitives

# -- every primitive has a row ------------------------------------------------------------------------------------

ELSEWHERE = {
    **dict.fromkeys(("all_gather", "all_to_all", "axis_index", "pbroadcast", "pmax", "pmin", "ppermute", "psum",
                     "reduce_scatter"), "a collective: needs a mapped axis"),
    **dict.fromkeys(("all_gather_invariant", "psum_invariant", "pvary"),
                    "types of a checked shard_map: tests/parallel"),
    "add_any": "made by differentiation only",
    "empty": "has no value to check",
    **dict.fromkeys(("name", "offload"), "saved values of checkpoint: tests/transforms/test_remat.py"),
    "computed_again": "in branches that seldom run: tests/numpy/test_lengths.py",
    **dict.fromkeys(("logistic_slope", "over_radius2", "pow_less_one", "times_tanh_slope"),
                    "made by differentiation only: tests/accuracy/test_elementwise.py"),
    "bessel_derivative": "made by differentiation only: tests/accuracy/test_special.py",
    **dict.fromkeys(("select_and_gather_add", "select_and_scatter_add"),
                    "derivatives of windows: tests/ops/test_window.py and test_conv.py"),
    **dict.fromkeys(("random_wrap", "random_unwrap", "rng_bit_generator", "rng_uniform"),
                    "random keys: tests/random/test_typed_keys.py"),
    "threefry2x32": "random bits: test_structural.test_threefry_bits",
    **current(dict.fromkeys(("log2", "one_minus_square"), only("this JAX has none to compare with", until="0.12"))),
}


@pytest.mark.filterwarnings("ignore:Casting complex values:numpy.exceptions.ComplexWarning")
def test_every_primitive_has_a_row():
    """A new operation without a row fails here; operations with inner programs have test files of their own."""
    for module in pkgutil.iter_modules(importlib.import_module("xjax.ops").__path__, "xjax.ops."):
        importlib.import_module(module.name)
    covered = set().union(*[primitives_of(row, lax) for row in (*op_table.TABLE, *structural_table.TABLE)])
    first_order = {name for name, p in all_primitives().items() if p.cacheable}
    missing = {name for name in first_order - covered - set(ELSEWHERE)
               if all_primitives()[name].type_rule.__module__.startswith("xjax.ops")}
    assert not missing or not missing - reached_by_values(), "add rows for their functions in lax to tests/values"


def reached_by_values() -> set[str]:
    """Primitives that functions of lax bind for the first signature of their rows in tests/values."""
    names, rng = set(), np.random.default_rng(0)
    for row in importlib.import_module("tests.values.table").ROWS:
        if row.jit and row.name.startswith("lax."):
            xs = [word.random(rng) for word in words(row.signatures[0])]
            names |= {eqn.primitive.name for eqn in xjax.make_jaxpr(row.function(xjax))(*xs).eqns}
    return names


# -- derivatives at the edges -------------------------------------------------------------------------------------

EDGES = {
    "abs at 0": (lambda lax, x: lax.abs(x), 0.0),
    "abs at -0": (lambda lax, x: lax.abs(x), -0.0),
    "sqrt at 0": (lambda lax, x: lax.sqrt(x), 0.0),
    "rsqrt at 0": (lambda lax, x: lax.rsqrt(x), 0.0),
    "cbrt at 0": (lambda lax, x: lax.cbrt(x), 0.0),
    "log at 0": (lambda lax, x: lax.log(x), 0.0),
    "log1p at -1": (lambda lax, x: lax.log1p(x), -1.0),
    "log of a negative number": (lambda lax, x: lax.log(x), -1.0),
    "max at a tie": (lambda lax, x: lax.max(x, np.float32(2)), 2.0),
    "min at a tie": (lambda lax, x: lax.min(np.float32(2), x), 2.0),
    "max of x and x": (lambda lax, x: lax.max(x, x), 2.0),
    "max beside nan": (lambda lax, x: lax.max(x, np.float32("nan")), 2.0),
    "clamp at the lower limit": (lambda lax, x: lax.clamp(np.float32(0), x, np.float32(1)), 0.0),
    "clamp at the upper limit": (lambda lax, x: lax.clamp(np.float32(0), x, np.float32(1)), 1.0),
    "the limit of clamp": (lambda lax, x: lax.clamp(x, np.float32(0), np.float32(5)), 2.0),
    "integer_pow 0 at 0": (lambda lax, x: lax.integer_pow(x, 0), 0.0),
    "integer_pow 1 at 0": (lambda lax, x: lax.integer_pow(x, 1), 0.0),
    "integer_pow -1 at 0": (lambda lax, x: lax.integer_pow(x, -1), 0.0),
    "pow to an integer 0 at 0": (lambda lax, x: lax.pow(x, np.int32(0)), 0.0),
    "pow to an integer 1 at 0": (lambda lax, x: lax.pow(x, np.int32(1)), 0.0),
    "pow to a float 0 at 0": (lambda lax, x: lax.pow(x, np.float32(0)), 0.0),
    "pow to a float 2 at 0": (lambda lax, x: lax.pow(x, np.float32(2)), 0.0),
    "exponent of pow at base 0": (lambda lax, y: lax.pow(np.float32(0), y), 2.0),
    "exponent of pow at a negative base": (lambda lax, y: lax.pow(np.float32(-2), y), 2.0),
    "atan2 at the origin": (lambda lax, x: lax.atan2(x, np.float32(0)), 0.0),
    "asin at 1": (lambda lax, x: lax.asin(x), 1.0),
    "acosh at 1": (lambda lax, x: lax.acosh(x), 1.0),
    "erf_inv at 1": (lambda lax, x: lax.erf_inv(x), 1.0),
    "tanh far out": (lambda lax, x: lax.tanh(x), 50.0),
    "logistic far out": (lambda lax, x: lax.logistic(x), -200.0),
    "rem at a multiple": (lambda lax, x: lax.rem(x, np.float32(2)), 4.0),
    "division by 0": (lambda lax, y: lax.div(np.float32(1), y), 0.0),
    "floor": (lambda lax, x: lax.floor(x), 1.5),
    "a selected branch that is nan elsewhere": (
        lambda lax, x: lax.select(lax.gt(x, np.float32(0)), lax.log(x), lax.mul(x, x)), -1.0),
    "stop_gradient": (lambda lax, x: lax.mul(x, lax.stop_gradient(x)), 3.0),
}


def at_the_edge(library, name, x):
    """[value, gradient, tangent]."""
    def f(x):
        return EDGES[name][0](library.lax, x)
    return [*library.value_and_grad(f)(x), library.jvp(f, (x,), (np.float32(1),))[1]]


@functools.cache
def edges_in_jax():
    """All edges, in one program."""
    jax = real_jax()
    return jax.jit(lambda xs: {name: at_the_edge(jax, name, x) for name, x in xs.items()})(
        {name: np.float32(x) for name, (_, x) in EDGES.items()})


@pytest.mark.parametrize("name", EDGES)
def test_derivative_at_the_edge(name):
    """Where the derivative jumps, is infinite or nan, it equals JAX's."""
    np.testing.assert_allclose(at_the_edge(xjax, name, np.float32(EDGES[name][1])), edges_in_jax()[name], rtol=1e-6)


def test_abs_of_complex_zero_has_derivative_zero():
    assert complex(xjax.grad(lax.abs)(np.complex64(0))) == 0


def test_limits_of_clamp_may_be_scalars():
    """Each limit gets the sum over the elements that it clamps (JAX fails here)."""
    x = np.float32([-3, 0, 1, 5, 9])
    _, pullback = xjax.vjp(lax.clamp, np.float32(-1), x, np.float32(4))
    low, mid, high = pullback(np.float32([1, 2, 4, 8, 16]))
    assert (float(low), list(np.asarray(mid)), float(high)) == (1.0, [0.0, 2.0, 4.0, 0.0, 0.0], 24.0)


def test_select_n_out_of_range_is_differentiated_where_it_was_picked():
    which = np.int32([-5, 0, 1, 2, 9])
    _, pullback = xjax.vjp(lambda *cases: lax.select_n(which, *cases), *[np.zeros(5, np.float32)] * 3)
    cts = [list(np.asarray(ct)) for ct in pullback(np.float32([1, 2, 3, 4, 5]))]
    assert cts == [[1, 2, 0, 0, 0], [0, 0, 3, 0, 0], [0, 0, 0, 4, 5]]


def test_exp2_is_exact_at_integers():
    x = np.arange(-100, 101, dtype=np.float32)
    np.testing.assert_array_equal(lax.exp2(x), np.exp2(x))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64])
def test_mulhi(dtype):
    """Compared with Python's exact integers, compiled and eager, in all widths."""
    info = np.iinfo(dtype)
    ends = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 3, info.max // 2, info.max // 3]
    random = np.random.default_rng(0).integers(info.min, info.max, 40, dtype, endpoint=True)
    x, y = (v.reshape(-1) for v in np.meshgrid(*(np.array([*ends, *map(int, half)], dtype)
                                                 for half in (random[:20], random[20:]))))
    want = [int(a) * int(b) >> info.bits for a, b in zip(x, y, strict=True)]
    with xjax.enable_x64(True):
        assert np.asarray(lax.mulhi(x, y)).tolist() == want
        assert np.asarray(xjax.jit(lax.mulhi)(x, y)).tolist() == want


# -- nan and complex order ----------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.complex64])
def test_extrema_keep_nan(name, dtype):
    x, y = np.array([np.nan, 1, np.nan, 2], dtype), np.array([1, np.nan, np.nan, 3], dtype)
    assert list(np.isnan(np.asarray(getattr(lax, name)(x, y)))) == [True, True, True, False]


def test_complex_numbers_are_ordered_as_in_numpy():
    z = (np.array([0, 1, 2])[:, None] + 1j * np.array([-1, 0, 1])).reshape(-1).astype(np.complex64)
    x, y = np.repeat(z, 9), np.tile(z, 9)
    np.testing.assert_array_equal(lax.max(x, y), np.maximum(x, y))
    np.testing.assert_array_equal(lax.min(x, y), np.minimum(x, y))
    np.testing.assert_array_equal(lax.clamp(np.complex64(1), z, np.complex64(1 + 1j)),
                                  np.minimum(np.maximum(z, 1), 1 + 1j))


# -- conversions --------------------------------------------------------------------------------------------------

def test_conversion_to_its_own_type_returns_the_array():
    x = lax.add(np.float32([1, 2]), np.float32(0))
    assert lax.convert_element_type(x, np.float32) is x
    assert lax.convert_element_type(x, None) is x
    assert lax.convert_element_type(x, np.float32, weak_type=True).weak_type


def test_numbers_are_converted_while_tracing():
    program = xjax.make_jaxpr(lambda x: lax.add(x, lax.convert_element_type(2, np.float32)))(np.float32(1))
    assert [eqn.primitive.name for eqn in program.eqns] == ["add"]


@pytest.mark.parametrize("value, dtype, expected", [
    (2**100, np.float32, 2.0**100), (-1, np.uint32, 2**32 - 1), (300, np.uint8, 44), (0.5, np.bool_, True),
    (1e20, np.int32, 2**31 - 1), (-1e20, np.int32, -2**31), (float("nan"), np.int32, 0), (-3.7, np.int32, -3),
    (-1.0, np.uint8, 0), (1e20, np.uint8, 255), (True, np.int8, 1), (2.5, np.complex64, 2.5),
])
def test_numbers_convert_as_arrays_do(value, dtype, expected):
    """A number, which NumPy converts, and an array, which XLA converts, have the same result."""
    result = lax.convert_element_type(value, dtype)
    assert result.dtype == dtype and np.asarray(result) == expected
    if value != 2**100:                             # too large for any integer dtype
        array = np.array([value], {int: np.int32, float: np.float32, bool: np.bool_}[type(value)])
        assert np.asarray(lax.convert_element_type(array, dtype))[0] == expected


def test_complex_to_real_warns_but_to_bool_does_not(recwarn):
    z = np.complex64([0, 1j, 2])
    np.testing.assert_array_equal(lax.convert_element_type(z, np.bool_), [False, True, True])
    assert not recwarn
    with pytest.warns(np.exceptions.ComplexWarning, match="imaginary part"):
        np.testing.assert_array_equal(lax.convert_element_type(z, np.float32), [0, 0, 2])


def test_python_numbers_take_the_dtype_beside_them():
    assert lax.mul(2, np.float16([1])).dtype == np.float16
    assert lax.max(np.uint8([1, 9]), 4).dtype == np.uint8
    weak = lax.add(1.0, 2.0)
    assert weak.weak_type and lax.mul(weak, 2.0).weak_type and not lax.mul(weak, np.float32(2)).weak_type


# -- errors -------------------------------------------------------------------------------------------------------

F32, I32 = np.ones((2, 3), np.float32), np.ones((2, 3), np.int32)
ERRORS = [
    (lambda: lax.sin(I32), TypeError, ["lax.sin", "int32", "floating-point, complex"]),
    (lambda: lax.add(F32, I32), TypeError, ["lax.add", "f32[2,3]", "i32[2,3]"]),
    (lambda: lax.add(2.5, I32), TypeError, ["lax.add", "f32[]", "i32[2,3]"]),
    (lambda: lax.add(F32, np.ones((2, 4), np.float32)), TypeError, ["lax.add", "(2, 3)", "(2, 4)"]),
    (lambda: lax.add(F32, np.ones(3, np.float32)), TypeError, ["lax.add", "(2, 3)", "(3,)"]),
    (lambda: lax.bitwise_and(F32, F32), TypeError, ["lax.and", "float32", "bool, integer"]),
    (lambda: lax.lt(F32 * 1j, F32 * 1j), TypeError, ["lax.lt", "complex64"]),
    (lambda: lax.abs(np.uint8([1])), TypeError, ["lax.abs", "uint8"]),
    (lambda: lax.complex(np.float16(1), np.float16(1)), TypeError, ["lax.complex", "float16"]),
    (lambda: lax.integer_pow(I32, -1), TypeError, ["lax.integer_pow", "negative power", "int32"]),
    (lambda: lax.integer_pow(F32, 2.5), TypeError, ["lax.integer_pow", "`y`", "2.5"]),
    (lambda: lax.select_n(True), ValueError, ["lax.select_n", "at least one case"]),
    (lambda: lax.select_n(True, F32, F32[0]), TypeError, ["lax.select_n", "f32[2,3]", "f32[3]"]),
    (lambda: lax.select_n(True, F32, I32), TypeError, ["lax.select_n", "f32[2,3]", "i32[2,3]"]),
    (lambda: lax.select_n(np.ones(3, bool), F32, F32), TypeError, ["lax.select_n", "bool[3]", "f32[2,3]"]),
    (lambda: lax.select_n(True, F32, F32, F32), TypeError, ["lax.select_n", "3 cases"]),
    (lambda: lax.select_n(F32, F32, F32), TypeError, ["lax.select_n", "float32"]),
    (lambda: lax.clamp(F32[0], F32, F32), TypeError, ["lax.clamp", "f32[3]", "f32[2,3]"]),
    (lambda: lax.round(F32, 7), ValueError, ["7", "RoundingMethod"]),
    (lambda: lax.bitcast_convert_type(np.ones((2, 3), np.uint8), np.uint32), ValueError, ["u8[2,3]", "size 4"]),
    (lambda: lax.bitcast_convert_type(np.ones(2, bool), np.uint8), TypeError, ["bool[2]", "uint8"]),
    (lambda: lax.reduce_precision(F32, 0, 3), ValueError, ["lax.reduce_precision", "exponent_bits  0"]),
    (lambda: lax.convert_element_type(F32, "flaot32"), TypeError, ["flaot32", "float32"]),
    (lambda: lax.sin([1.0]), TypeError, ["list", "numpy.array"]),
    (lambda: xjax.grad(lambda x: lax.nextafter(x, 2.0))(1.0), NotImplementedError, ["nextafter"]),
    (lambda: xjax.grad(lambda m: lax.polygamma(m, 2.0))(1.0), NotImplementedError, ["lax.polygamma", "`m`"]),
]


@pytest.mark.parametrize("call, kind, words", ERRORS, ids=[f"{k}-{e[2][0]}" for k, e in enumerate(ERRORS)])
def test_errors_name_what_was_given_and_what_to_do(call, kind, words):
    assert_refused(call, kind, words, fix="RoundingMethod" not in words)   # the message of the enum has no fix
