"""Rows long enough to be sorted as integers: the order of every dtype, equal keys, NaN, both zeros, every axis."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from xjax import lax
from xjax.core.types import ShapedArray
from xjax.ops.cpu.sort import has_words

pytestmark = pytest.mark.usefixtures("as_shipped")

N = 200
DTYPES = ["float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "uint8", "uint16", "uint32"]
REPEATED = {"bfloat16", "int8", "int16", "uint32"}         # other dtypes have the same kind or width


def numbers(dtype: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Many ties, the extremes, both zeros, both infinities, NaN of both signs."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-20, 20, shape)
    dtype = np.dtype(jnp.dtype(dtype))
    if dtype.kind not in "iu":
        x = x.astype(dtype)
        flat = x.reshape(-1)
        flat[rng.permutation(flat.size)[:60]] = np.repeat(np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0]), 10)
        return x
    x = (x % 40).astype(dtype) if dtype.kind == "u" else x.astype(dtype)
    x.reshape(-1)[:4] = np.iinfo(dtype).max, np.iinfo(dtype).min, np.iinfo(dtype).max, np.iinfo(dtype).min
    return x


@pytest.fixture
def x64(dtype):
    with xjax.enable_x64(dtype == "float64"):
        yield


@pytest.mark.parametrize("dtype", [pytest.param(d, marks=[pytest.mark.slow] * (d in REPEATED)) for d in DTYPES])
def test_order_of_one_and_of_several_arrays(dtype, x64):
    x = numbers(dtype, (3, N))
    positions = np.broadcast_to(np.arange(N, dtype=np.int32), x.shape)
    assert has_words([ShapedArray(x.shape, x.dtype)] * 2, 1, 1) == (dtype != "float64")

    @xjax.jit
    def sorts(x, positions):
        return (lax.sort(x), lax.sort([x, positions], num_keys=1), lax.sort([x.T, positions.T], dimension=0),
                jnp.argsort(x, descending=True))

    alone, (keys, order), (_, order_of_columns), backwards = sorts(x, positions)
    want = np.argsort(x.astype(np.float64), axis=1, kind="stable")
    np.testing.assert_array_equal(order, want)                              # stable; NaN at the end
    np.testing.assert_array_equal(order_of_columns, want.T)
    bits = f"uint{8 * x.dtype.itemsize}"
    moved = np.take_along_axis(x, want, 1)
    np.testing.assert_array_equal(np.asarray(keys).view(bits), moved.view(bits))    # bit for bit, signs of zeros too
    np.testing.assert_array_equal(np.asarray(alone).astype(np.float64), moved.astype(np.float64))
    descending = np.take_along_axis(x, np.asarray(backwards), 1).astype(np.float64)
    assert all((np.diff(row[np.isfinite(row)]) <= 0).all() for row in descending)


@pytest.mark.parametrize("dtype", ["float32"])
def test_zeros_keep_their_signs(dtype, x64):
    x = np.where(np.arange(N) % 2, 0.0, -0.0).astype(np.float32)
    ordered = np.asarray(lax.sort(x))
    assert np.signbit(ordered).sum() == N // 2 and np.signbit(ordered[:N // 2]).all()


def test_derivative_and_batch():
    x = np.random.default_rng(1).permutation(N).astype(np.float32)
    weights = np.arange(N, dtype=np.float32)
    slope = xjax.jit(xjax.grad(lambda x: (lax.sort(x) * weights).sum()))(x)
    np.testing.assert_array_equal(slope, x)                                 # the weight of an element is its rank
    rows = np.stack([x, -x])
    np.testing.assert_array_equal(xjax.vmap(jnp.argsort)(rows), np.argsort(rows, 1))
    np.testing.assert_array_equal(xjax.vmap(lax.sort, 1, 1)(rows.T), np.sort(rows.T, 0))


def test_other_keys_are_compared_as_before():
    rng = np.random.default_rng(2)
    z = (rng.integers(0, 5, N) + 1j * rng.integers(0, 5, N)).astype(np.complex64)
    np.testing.assert_array_equal(lax.sort(z), np.sort(z))
    pairs = lax.sort([rng.integers(0, 5, N), rng.integers(0, 5, N), np.arange(N)], num_keys=2)
    assert all(np.diff(np.asarray(pairs[0]) * 10 + np.asarray(pairs[1])) >= 0)
