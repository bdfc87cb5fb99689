"""Calls that JAX refuses or answers differently from NumPy: our results are NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp

X = np.arange(24.0, dtype=np.float32).reshape(4, 6)


@pytest.mark.parametrize("positions", [[-1], [-3, -1], [2, -1]], ids=str)
def test_split_at_positions_from_the_end(positions):
    for axis in (0, 1):
        for ours, theirs in zip(jnp.split(X, positions, axis), np.split(X, positions, axis), strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_an_imaginary_number_is_no_zero_to_trim():
    x = np.array([0, 0, 0.5j, 1, 2j, 0])
    np.testing.assert_array_equal(jnp.trim_zeros(x), np.trim_zeros(x).astype(np.complex64))


@pytest.mark.parametrize("function, returned", [(lambda *_: None, "None"), (lambda row, *_: row[1:], r"\(7,\)")])
def test_padding_by_a_function_that_does_not_return_the_row(function, returned):
    """NumPy's function writes into the row; our arrays are immutable, so the function must return it."""
    with pytest.raises(ValueError, match=f"(?s)numpy.pad.*must return.*{returned}.*fix:"):
        jnp.pad(X, 2, function)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_of_complex_numbers(name, dtype):
    """Ordered by the real part, then by the imaginary part, in the given precision."""
    x = np.array([[1 + 2j, 1 + 1e-12, 1 + 3j], [-1, -1 - 1j, complex(-2, np.nan)]], dtype)
    with xjax.enable_x64(True):
        eager = np.asarray(getattr(jnp, name)(jnp.asarray(x), 1))
        compiled = np.asarray(xjax.jit(lambda x: getattr(jnp, name)(x, 1))(x))
    want = getattr(np, name)(x, 1)
    assert eager.dtype == compiled.dtype == dtype
    np.testing.assert_array_equal(eager, want)
    np.testing.assert_array_equal(compiled, want)


def test_powers_of_a_complex_base():
    np.testing.assert_allclose(jnp.logspace(0, 1, 3, base=2j), np.logspace(0, 1, 3, base=2j), rtol=1e-6, atol=1e-6)
    assert jnp.logspace(0, 1, 3, base=2).dtype == np.float32


def test_parts_of_64_bit_floats():
    """Inside and outside of a block with 64-bit types; outside, JAX cannot split 64-bit floats."""
    x = np.array([0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 5e-324, 1e-310, -2.3e-308, 1.7976931348623157e308])
    with xjax.enable_x64(True):
        wide, inside = jnp.array(x), jnp.frexp(x)
    for mantissa, exponent in (inside, jnp.frexp(wide), xjax.jit(jnp.frexp)(wide), xjax.vmap(jnp.frexp)(wide)):
        want, power = np.frexp(x)
        assert mantissa.dtype == np.float64 and exponent.dtype == np.int32
        np.testing.assert_array_equal(mantissa, want)
        np.testing.assert_array_equal(np.signbit(mantissa), np.signbit(want))
        np.testing.assert_array_equal(exponent, np.where(np.isfinite(x), power, 0))
    np.testing.assert_array_equal(jnp.ldexp(*jnp.frexp(wide))[:7], x[:7])
    np.testing.assert_array_equal(jnp.spacing(wide[2:4]), np.spacing(x[2:4]))
    slopes = xjax.grad(lambda v: jnp.frexp(v)[0].sum())(wide[2:4])
    assert slopes.dtype == np.float64
    np.testing.assert_array_equal(slopes, [0.5, 0.5])
