"""Where NumPy gives an answer and JAX refuses or gives another one: ours is NumPy's; and what NumPy alone can do."""

from __future__ import annotations

import numpy as np
import pytest

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


@pytest.mark.parametrize("function, given", [(lambda *_: None, "None"), (lambda row, *_: row[1:], r"\(7,\)")])
def test_padding_by_a_function_that_does_not_return_the_row(function, given):
    """NumPy's function writes into the row; arrays here cannot be written into."""
    with pytest.raises(ValueError, match=f"(?s)numpy.pad.*must return.*{given}.*fix:"):
        jnp.pad(X, 2, function)
