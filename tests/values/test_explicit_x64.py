"""The option `explicit_x64_dtypes="allow"`: arrays of 64 bits requested by name while 64 bits are off.

Functions are traced and not run, because only types depend on the option. Each row of the table of values gets arrays
of double precision, and its results and gradients have JAX's types.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.compare import assert_same_types, outcome
from tests.oracle import real_jax
from tests.sampling import one_in
from tests.values.row import FunctionRow
from tests.values.signatures import Word, words
from tests.values.table import ROWS

jax = real_jax()

WIDE = {np.dtype(narrow): wide for narrow, wide in [
    ("float32", "float64"), ("complex64", "complex128"), ("float64", "float64"), ("complex128", "complex128")]}
# Name of a row -> the reason why its types differ from JAX's.
DIFFERENT = {
    "numpy.from_dlpack": "an array that is passed on keeps its dtype here",
    **dict.fromkeys(["numpy.kaiser", "numpy.kaiser-single"], "the window is float32 here whatever beta is"),
    **dict.fromkeys(["lax.custom_root", "lax.custom_root-aux"],
                    "the row makes a NumPy array of 64 bits, which becomes one of 32 here as everywhere"),
    "scipy.special.gammasgn": "float64 here, float32 in JAX",
}


@contextlib.contextmanager
def allowed(library: Any) -> Iterator[None]:
    before = library.config.jax_explicit_x64_dtypes
    library.config.update("jax_explicit_x64_dtypes", "allow")
    try:
        yield
    finally:
        library.config.update("jax_explicit_x64_dtypes", before)


def is_wide(word: Word) -> bool:
    return word.dtype in WIDE


def types(library: Any, row: FunctionRow, signature: str, of_gradient: bool) -> Any:
    """Types of a row's results for floats of 64 bits, and of the gradients with respect to these."""
    parsed = words(signature)
    rng = np.random.default_rng(0)
    arrays = [library.numpy.asarray(w.random(rng), dtype=WIDE.get(w.dtype, w.dtype)) for w in parsed]
    function = row.function(library)
    if not row.jit:
        return function(*arrays)
    if not of_gradient:
        return library.eval_shape(lambda *xs: function(*xs), *arrays)

    def value_and_gradient(smooth: dict[int, Any]) -> Any:
        def floats(smooth: dict[int, Any]) -> list[Any]:
            ys = library.tree.leaves(function(*[smooth.get(i, x) for i, x in enumerate(arrays)]))
            return [y for y in ys if library.numpy.issubdtype(y.dtype, np.inexact)]
        ys, pullback = library.vjp(floats, smooth)
        return ys, pullback(ys)
    return library.eval_shape(value_and_gradient, {i: arrays[i] for i, w in enumerate(parsed) if is_wide(w)})


@pytest.mark.parametrize("row", one_in(40, [r for r in ROWS if any(map(is_wide, words(r.signatures[0])))]), ids=str)
def test_types_are_those_of_jax(row):
    """JAX fails at some rows, where its own constants have 32 bits; there xjax may give a result."""
    for signature, of_gradient in [*((s, False) for s in row.signatures), *((s, row.jit) for s in row.grad)]:
        with allowed(xjax), allowed(jax):
            theirs = outcome(types, jax, row, signature, of_gradient)
            ours = outcome(types, xjax, row, signature, of_gradient)
        if theirs.error is None and str(row) not in DIFFERENT:
            assert ours.error is None, f"{row} of {signature}: {ours.error}"
            assert_same_types(xjax.tree.leaves(ours.value), jax.tree.leaves(theirs.value), what=f"{row} of {signature}")


def test_values_have_64_bits():
    with allowed(xjax):
        x = jnp.asarray([0.1, 1e300], "float64")
        assert jnp.array(0.1, "float64").item() == 0.1
        np.testing.assert_array_equal(x, [0.1, 1e300])
        np.testing.assert_array_equal(x * 3, np.array([0.1, 1e300]) * 3)
        np.testing.assert_array_equal(x + np.array([0.1, 1e300]), np.array([0.1, 1e300]) * 2)     # JAX: inf
        np.testing.assert_array_equal(xjax.grad(lambda x: (x ** 3).sum())(x[:1]), 3 * np.float64(0.1) ** 2)
        np.testing.assert_array_equal(xjax.jit(jnp.full, static_argnums=(0, 1, 2))((2,), 0.1, "float64"), [0.1, 0.1])
        assert abs(jnp.sin(x[0]) - np.sin(0.1)) <= 1e-16


def test_only_what_was_named_has_64_bits():
    with allowed(xjax):
        for x in (jnp.ones(2), jnp.asarray(np.ones(2)), xjax.jit(lambda x: x)(np.ones(2)), jnp.ones(2, float),
                  jnp.ones(2) * np.float64(2), jnp.sin(np.float64(1))):
            assert x.dtype == np.float32
        assert jnp.arange(3).dtype == jnp.argmax(jnp.ones(3, "float64")).dtype == np.int32
        assert (jnp.ones(2, "int64") + jnp.ones(2)).dtype == np.float32
        assert xjax.ShapeDtypeStruct((2,), "float64").dtype == np.float64
    assert xjax.ShapeDtypeStruct((2,), "float64").dtype == np.float32
