"""Functions of JAX through the bridge: the calls of the table of values, with JAX's function bridged, equal JAX's."""

import zlib

import numpy as np
import pytest

import xjax
from tests.compare import assert_same
from tests.oracle import real_jax
from tests.sampling import one_in
from tests.values.signatures import words
from tests.values.table import ROWS
from xjax import interop

jax = real_jax()

# Rows whose function cannot be bridged, with the reason.
REASONS = dict.fromkeys(("shard_map", "lax.pcast"), "programs over a mesh are written with xjax.shard_map")
# Rows with float64 results that JAX computes in float32.
IN_SINGLE = {"numpy.kaiser-single", "scipy.linalg.pascal"}
CALLS = [row for row in ROWS if row.jit]


@pytest.fixture(autouse=True)
def double_precision():
    with xjax.enable_x64(True), jax.enable_x64(True):
        yield
    xjax.clear_caches()
    jax.clear_caches()


@pytest.mark.parametrize("row", one_in(211, CALLS, name=str))
def test_bridged_calls_equal_jax(row):
    rng = np.random.default_rng(zlib.crc32(str(row).encode()))
    call = row.function(jax)
    for signature in row.signatures[:2]:
        xs = [word.random(rng) for word in words(signature)]
        try:
            expected = jax.jit(call)(*xs)
        except Exception:                   # JAX itself cannot; the table lists these cases elsewhere
            continue
        bridged = interop.from_jax(call)
        if str(row) in REASONS:
            with pytest.raises(NotImplementedError, match="(?s)no counterpart.*parameters.*versions.*fix:"):
                bridged(*xs)
            continue
        result = xjax.tree.map(xjax.numpy.asarray, bridged(*xs))        # also of Python numbers, as jit does
        like = np.float32 if str(row) in IN_SINGLE else None
        assert_same(result, expected, tol=4 * row.tol, like=like, what=f"{row} of {signature}")


def test_reasons_are_needed():
    assert REASONS.keys() | IN_SINGLE <= {str(row) for row in CALLS}
