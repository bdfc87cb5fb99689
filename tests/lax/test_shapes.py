"""Small functions on shapes and types, against real JAX."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
from tests.compare import assert_same
from tests.oracle import real_jax
from xjax import lax

jax = real_jax()


def test_broadcast_like():
    def run(lib):
        return lambda x, like: [lib.lax.broadcast_like(x, like), lib.lax.broadcast_like(x[0, 0], like),
                                lib.lax.broadcast_like(x[:, 0], like)]
    x, like = np.arange(3.0, dtype=np.float32)[:, None], np.ones((2, 3, 3), np.int32)
    assert_same(xjax.jit(run(xjax))(x, like), jax.jit(run(jax))(x, like))
    for wrong in (np.ones(4), np.ones((1, 2, 3, 3))):
        with pytest.raises(ValueError, match="fix:"):
            lax.broadcast_like(wrong, like)


@pytest.mark.parametrize("x", [1, 1.5, True, 2j, np.float64(2), np.arange(2), float, np.int64, "float64",
                               np.dtype("f2")], ids=str)
@pytest.mark.filterwarnings("ignore:Explicitly requested dtype:UserWarning")
def test_dtype(x):
    assert lax.dtype(x) == jax.lax.dtype(np.dtype(x) if isinstance(x, str) else x)


def test_shape_as_value():
    for shape in ((), (2, 3)):
        ours, theirs = lax.shape_as_value(shape), jax.lax.shape_as_value(shape)
        assert ours.dtype == theirs.dtype and ours.tolist() == theirs.tolist()


def test_sizes_of_approximate_search():
    """The number of returned candidates is part of the result's shape."""
    for shape in ((5,), (129,), (3000,), (2, 500), (2, 5000)):
        for k in (1, 3):
            for recall, size in ((0.5, -1), (0.99, 20000)):
                def search(lib, k=k, recall=recall, size=size):
                    return lambda x: lib.lax.approx_max_k(x, k, recall_target=recall, aggregate_to_topk=False,
                                                          reduction_input_size_override=size)
                x = xjax.ShapeDtypeStruct(shape, np.float32)
                ours = xjax.eval_shape(search(xjax), x)[0].shape
                assert ours == jax.eval_shape(search(jax), jax.ShapeDtypeStruct(shape, np.float32))[0].shape


@pytest.mark.parametrize("run, exc", [
    (lambda: lax.approx_max_k(np.ones(3), 0), ValueError), (lambda: lax.approx_min_k(np.ones(3), 4), ValueError),
    (lambda: lax.approx_max_k(np.ones(3), 1, recall_target=0.0), ValueError),
    (lambda: lax.approx_max_k(np.ones(3, int), 1), TypeError), (lambda: lax.approx_max_k(1.0, 1), ValueError)])
def test_misuse_of_approximate_search(run, exc):
    with pytest.raises(exc, match="(?s)lax.approx_.*fix:"):
        run()
