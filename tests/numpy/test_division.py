"""Division with remainder at extreme values, and integers to negative powers, as in NumPy."""

import itertools

import numpy as np
import pytest

import xjax
import xjax.numpy as xnp
from tests.sampling import each_once

# Without denormal numbers: XLA's CPU backend reads them as 0.
ENDS = (0.0, -0.0, 1.0, -1.0, 4.0, -4.0, 2.5, -2.5, 6e4, np.inf, -np.inf, np.nan)
PAIRS = np.array(list(itertools.product(ENDS, ENDS))).T


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod", "divmod"])
def test_ends_and_signs_of_zero(name, dtype):
    x, y = PAIRS.astype(dtype)
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(x, y)
    with xjax.enable_x64(True):
        for function in (getattr(xnp, name), xjax.jit(getattr(xnp, name))):
            results = function(x, y)
            for a, b in zip(*((r if isinstance(r, tuple) else (r,)) for r in (results, wanted)), strict=True):
                a = np.asarray(a)
                np.testing.assert_array_equal(a, b)
                number = ~np.isnan(b)
                np.testing.assert_array_equal(np.signbit(a[number]), np.signbit(b[number]))


def test_the_slope_of_a_remainder_that_is_zero():
    """Where x is a multiple of y, the slope is that of the remainder to the right of x."""
    assert xjax.grad(xnp.remainder, (0, 1))(4.0, -4.0) == (1.0, 1.0)
    assert xjax.grad(xnp.remainder, (0, 1))(8.0, 4.0) == (1.0, -2.0)


@pytest.mark.parametrize("x1, x2", [(2, xnp.array([-1])), (np.array([2, 3]), np.array([1, -1])),
                                    (xnp.array(2), xnp.array(-1)), (xnp.array([2], np.uint8), xnp.array(-2))])
def test_integers_to_powers_known_to_be_negative(x1, x2):
    with pytest.raises(TypeError, match="numpy.power: integers to negative powers(.|\n)*fix: make x1 a float array"):
        xnp.power(x1, x2)


@pytest.mark.parametrize("dtype", [np.int8, np.int32])
def test_integers_to_negative_powers_in_a_program(dtype):
    """The whole part of the reciprocal; 127 * 127 is 1 in int8, but 127 is not its own reciprocal."""
    x = np.array([-3, -1, 0, 1, 2, 127], dtype)
    for n, wanted in {-1: [0, -1, 0, 1, 0, 0], -2: [0, 1, 0, 1, 0, 0], -63: [0, -1, 0, 1, 0, 0]}.items():
        np.testing.assert_array_equal(xjax.jit(xnp.power)(x, np.full(6, n, dtype)), wanted)


INTEGERS = [np.dtype(sign + str(size)) for sign in "iu" for size in (1, 2, 4, 8)]


def _integer_pairs(dtype):
    info = np.iinfo(dtype)
    ends = np.array(sorted({info.min, max(info.min + 1, 0), info.max, info.max - 1, 0, 1, 2, 6, 7, 12}
                           | ({-1, -2, -5, -6, info.min + 1} if info.min else set())), dtype)
    return tuple(np.array(list(itertools.product(ends, ends)), dtype).T)


@pytest.mark.parametrize("name, dtype", each_once(["floor_divide", "remainder", "fmod", "divmod", "gcd", "lcm"],
                                                  INTEGERS))
def test_integers_at_their_ends_and_by_zero(name, dtype):
    """Results of division by zero are 0; the smallest integer by -1 is itself; gcd and lcm wrap around."""
    x, y = _integer_pairs(dtype)
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(x, y)
    with xjax.enable_x64(True):
        for function in (getattr(xnp, name), xjax.jit(getattr(xnp, name))):
            np.testing.assert_array_equal(function(x, y), wanted)
            assert np.asarray(function(x, y)).dtype == np.asarray(wanted).dtype


@pytest.mark.parametrize("by", [0, 3, -1, np.int32(0), xnp.array(0), xnp.array([0, 2, -1])])
def test_operators_divide_integers_by_zero(by):
    x = np.array([7, -7, np.iinfo(np.int32).min], np.int32)
    with np.errstate(all="ignore"):
        wanted = x // np.asarray(by, np.int32)
    np.testing.assert_array_equal(xnp.array(x) // by, wanted)
    np.testing.assert_array_equal(xjax.jit(lambda x: x // by)(x), wanted)


@pytest.mark.parametrize("by, tests", [(3, 0), (0, 1), (xnp.array(3, np.uint32), 1)])
def test_a_number_that_is_not_zero_costs_no_test_for_it(by, tests):
    assert str(xjax.make_jaxpr(lambda x: x // by)(np.uint32([7, 8]))).count("select_n") == tests
