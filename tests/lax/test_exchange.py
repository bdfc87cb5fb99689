"""all_to_all over axes of vmap and of devices: values against real JAX on devices, derivatives by adjointness.

JAX cannot map the tiled cases with vmap, nor differentiate the cases in which the axis moves.
"""

from __future__ import annotations

import numpy as np
import pytest

import xjax
from tests.compare import assert_same
from tests.oracle import real_jax
from xjax import lax

jax = real_jax()

N = 4
X = np.random.default_rng(0).standard_normal((N, N, 3, 2 * N)).astype(np.float32)

# split_axis, concat_axis, tiled
CASES = [(0, 0, False), (0, 1, False), (0, 2, False), (2, 0, True), (0, 2, True), (2, 2, True), (2, 1, True)]


def every_case(lib, x):
    return [lib.lax.all_to_all(x, "i", split, concat, tiled=tiled) for split, concat, tiled in CASES]


def weights(y):
    return np.cos(np.arange(y.size, dtype=np.float32)).reshape(y.shape)


def test_over_vmap_and_over_devices():
    if xjax.local_device_count() < N:
        pytest.skip(f"needs {N} devices: start with XLA_FLAGS=--xla_force_host_platform_device_count={N}")
    theirs = jax.pmap(lambda x: every_case(jax, x), axis_name="i")(X)
    for map_ in (xjax.vmap, xjax.pmap):
        ours, back = xjax.vjp(map_(lambda x: every_case(xjax, x), axis_name="i"), X)
        assert_same(ours, theirs)
        for k, y in enumerate(ours):
            (ct,) = back([weights(z) if z is y else np.zeros(z.shape, z.dtype) for z in ours])
            np.testing.assert_allclose((ct * X).sum(), (weights(y) * np.asarray(theirs[k])).sum(), rtol=1e-4)
            np.testing.assert_array_equal(np.sort(ct, None), np.sort(weights(y), None))     # a permutation


def test_beside_another_mapped_axis():
    def f(lib):
        inner = lib.vmap(lambda y: lib.lax.all_to_all(y, "i", 0, 1), in_axes=1, out_axes=2)
        return lib.vmap(lambda x: (inner(x), inner(x * 2)), axis_name="i")
    assert_same(xjax.jit(f(xjax))(X), jax.jit(f(jax))(X))


def test_a_value_that_is_not_mapped():
    """JAX's result has the wrong shape here."""
    y = xjax.vmap(lambda i, w: lax.pswapaxes(w, "i", 0), (0, None), axis_name="i")(np.arange(N), X[0])
    np.testing.assert_array_equal(y, np.swapaxes(np.broadcast_to(X[0], X.shape), 0, 1))


def test_groups_exchange_apart():
    if xjax.local_device_count() < N:
        pytest.skip(f"needs {N} devices: start with XLA_FLAGS=--xla_force_host_platform_device_count={N}")
    x = np.arange(8.0, dtype=np.float32).reshape(4, 2)
    y = xjax.pmap(lambda r: lax.all_to_all(r, "i", 0, 0, axis_index_groups=[[0, 1], [2, 3]]), axis_name="i")(x)
    assert y.tolist() == [[0, 2], [1, 3], [4, 6], [5, 7]]


def test_printed_as_in_jax():
    def text(lib):
        f = lib.pmap(lambda y: lib.lax.all_to_all(y, "i", 0, 1), axis_name="i")
        printed = str(lib.make_jaxpr(f)(np.ones((2, 2, 3), np.float32)))
        return printed[printed.index("all_to_all["):].split("]")[0]
    assert text(xjax).split() == text(jax).split()


def test_misuse():
    with pytest.raises(ValueError, match="(?s)all_to_all.*does not fit.*fix: use tiled"):
        xjax.vmap(lambda x: lax.all_to_all(x, "i", 1, 0), axis_name="i")(X)
    with pytest.raises(ValueError, match="(?s)pbroadcast.*not a position.*fix:"):
        xjax.vmap(lambda x: lax.pbroadcast(x, "i", N), axis_name="i")(X)
    with pytest.raises(NameError, match="fix:"):
        lax.all_to_all(X, "nobody", 0, 0)
