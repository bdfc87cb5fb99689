"""`xjax.ops.segment_*`: values against a loop in NumPy, programs against JAX's."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
from tests.compare import assert_same
from tests.oracle import real_jax
from xjax import ops

IDS = np.array([2, 0, 0, 2, 5, -1, 0], np.int32)
DATA = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
CASES = {"segment_sum": (np.add, 0), "segment_prod": (np.multiply, 1), "segment_max": (np.maximum, -np.inf),
         "segment_min": (np.minimum, np.inf)}


def looped(name: str, data: np.ndarray, ids: np.ndarray, count: int) -> np.ndarray:
    combine, neutral = CASES[name]
    out = np.full((count, *data.shape[1:]), neutral, data.dtype)
    for i, row in zip(ids, data, strict=True):
        if 0 <= i < count:
            out[i] = combine(out[i], row)
    return out


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    f = getattr(ops, name)
    want = looped(name, DATA, IDS, 4)
    np.testing.assert_allclose(f(DATA, IDS, 4), want, rtol=1e-6)
    np.testing.assert_allclose(xjax.jit(f, static_argnums=2)(DATA, IDS, 4), want, rtol=1e-6)
    np.testing.assert_allclose(f(DATA, IDS, num_segments=4, bucket_size=2), want, rtol=1e-6)
    np.testing.assert_allclose(f(DATA[:, 0], IDS), looped(name, DATA[:, 0], IDS, 6), rtol=1e-6)
    order = np.argsort(IDS)
    np.testing.assert_allclose(f(DATA[order], IDS[order], 4, indices_are_sorted=True), want, rtol=1e-5)


def test_integers_and_bounds():
    data = np.arange(7, dtype=np.int32)
    assert ops.segment_max(data, IDS, 4).tolist() == [6, np.iinfo(np.int32).min, 3, np.iinfo(np.int32).min]
    assert ops.segment_sum(data, np.uint8([0, 1] * 3 + [255]), 2).tolist() == [6, 9]
    assert ops.segment_sum(np.zeros((0, 2), np.float32), np.zeros(0, np.int32)).shape == (0, 2)


def test_nan_is_kept():
    data = np.array([1.0, np.nan, 2.0], np.float32)
    assert np.isnan(ops.segment_max(data, np.zeros(3, np.int32), 1)[0])


@pytest.mark.parametrize("name", CASES)
def test_gradient_is_that_of_jax(name):
    jax = real_jax()
    unique = name == "segment_prod"                     # JAX has no derivative of a product of several rows
    ids = np.arange(7, dtype=np.int32) if unique else np.maximum(IDS, 0)

    def loss(lib, d):
        return (getattr(lib.ops, name)(d, ids, 8, unique_indices=unique) * lib.numpy.arange(24.0).reshape(8, 3)
                )[:6 if not unique else 7][lib.numpy.array([0, 2, 5])].sum()
    assert_same(*(lib.jit(lib.grad(lambda d: loss(lib, d)))(DATA) for lib in (xjax, jax)))


def test_vmap():
    got = xjax.vmap(lambda d: ops.segment_sum(d, IDS, 4), in_axes=1, out_axes=1)(DATA)
    np.testing.assert_allclose(got, looped("segment_sum", DATA, IDS, 4), rtol=1e-6)


def test_errors():
    with pytest.raises(TypeError, match="pass num_segments=n"):
        xjax.jit(lambda i: ops.segment_sum(DATA, i))(IDS)
    with pytest.raises(TypeError, match="must be integers"):
        ops.segment_sum(DATA, DATA[:, 0], 3)
    with pytest.raises(ValueError, match="one segment id for each row"):
        ops.segment_sum(DATA, IDS[:3], 3)
    with pytest.raises(ValueError, match="must not be negative"):
        ops.segment_sum(DATA, IDS, -1)


@pytest.mark.parametrize("name", CASES)
def test_programs_are_those_of_jax(name):
    jax = real_jax()
    from tests.core.test_printing_as_jax import Rebuild
    rebuilt = Rebuild().bare(jax.make_jaxpr(lambda d, i: getattr(jax.ops, name)(d, i, 3))(DATA, IDS).jaxpr)
    assert str(xjax.make_jaxpr(lambda d, i: getattr(ops, name)(d, i, 3))(DATA, IDS)) == str(rebuilt)


def test_public_names_of_ops():
    assert [name for name in ops.__all__ if not name.startswith("index")] == sorted(CASES)
    with pytest.raises(AttributeError, match="segment_mean"):
        ops.segment_mean


@pytest.mark.parametrize("name", ["segment_sum", "segment_prod", "segment_max", "segment_min"])
def test_one_number_is_a_value_for_each_id(name):
    ids = np.array([0, 2, 2, 5])
    ours, theirs = (getattr(lib.ops, name)(lib.numpy.float32(2.0), ids, 3) for lib in (xjax, real_jax()))
    np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(xjax.jit(lambda x: getattr(xjax.ops, name)(x, ids, 3))(2.0), theirs)
