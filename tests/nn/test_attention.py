"""`dot_product_attention` against real JAX, with each argument and all of them together, and against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
from tests.compare import assert_same
from tests.oracle import real_jax
from xjax.nn import dot_product_attention

_rng = np.random.default_rng(0)
B, T, S, N, K, H = 2, 5, 6, 4, 2, 3


def normal(*shape):
    return _rng.standard_normal(shape).astype(np.float32)


QUERY, KEY, VALUE = normal(B, T, N, H), normal(B, S, K, H), normal(B, S, K, H)
MASK = _rng.random((B, N, T, S)) < 0.7
MASK[0, :, 0] = False                                           # the first query attends to no position
LENGTHS = {"query_seq_lengths": np.array([3, 5], np.int32), "key_value_seq_lengths": np.array([6, 2], np.int32)}

CASES = {
    "plain": {},
    "bias": {"bias": normal(B, N, T, S), "scale": 0.2},
    "mask": {"mask": MASK},
    "mask of three axes": {"mask": MASK[0], "bias": normal(1, 1, T, S)},
    "lengths": LENGTHS,
    "window": {"local_window_size": 1, "is_causal": True},
    "windows": {"local_window_size": (2, 0), "return_residual": True},
    "all": {"bias": normal(1, N, T, S), "mask": MASK[:, :1], "is_causal": True, "local_window_size": (3, 1), **LENGTHS,
            "implementation": "xla", "return_residual": True},
}


def test_as_jax():
    jax = real_jax()

    def run(lib):
        def every(q, k, v):
            return {name: lib.nn.dot_product_attention(q, k, v, **options) for name, options in CASES.items()}

        def loss(q, k, v):
            options = {key: value for key, value in CASES["all"].items() if key != "return_residual"}
            return (lib.nn.dot_product_attention(q, k, v, **options) ** 2).sum()
        # The gradient of a query without attended positions comes only through the mean of the values.
        return lib.jit(lambda *args: (every(*args), lib.grad(loss, (0, 1, 2))(*args)))(QUERY, KEY, VALUE)

    ours, theirs = run(xjax), run(jax)
    for name in CASES:
        assert_same(ours[0][name], theirs[0][name], tol=1 / 4, what=name)
    assert_same(ours[1], theirs[1])


def test_without_batch_in_half_precision():
    """Products and weights are computed in float32; the result has the dtype of the arguments."""
    q, k, v = (x[0].astype(np.float16) for x in (QUERY, KEY, VALUE))
    y, sums = dot_product_attention(q, k, v, return_residual=True)
    assert y.shape == (T, N, H) and sums.shape == (T, N) and y.dtype == sums.dtype == np.float16
    wide = dot_product_attention(*(x.astype(np.float32) for x in (q, k, v)))
    np.testing.assert_allclose(y, wide, atol=2e-3)


def test_float64_is_exact():
    with xjax.enable_x64(True):
        q, k, v = (x.astype(np.float64) for x in (QUERY, KEY, VALUE))
        result = np.asarray(dot_product_attention(q, k, v))
    products = np.einsum("btnh,bsnh->bnts", q, np.repeat(k, N // K, 2)) / np.sqrt(H)
    weights = np.exp(products) / np.exp(products).sum(-1, keepdims=True)
    np.testing.assert_allclose(result, np.einsum("bnts,bsnh->btnh", weights, np.repeat(v, N // K, 2)), rtol=1e-12)


@pytest.mark.parametrize("change, exc, words", [
    ({"value": VALUE[:, 1:]}, ValueError, "does not match"), ({"query": QUERY[:, :, :3]}, ValueError, "multiple"),
    ({"query": QUERY.astype(np.float16)}, ValueError, "one floating-point dtype"),
    ({"mask": MASK.astype(np.float32)}, ValueError, "boolean"), ({"mask": MASK[..., :4]}, ValueError, "broadcast"),
    ({"bias": normal(1, K, T, S)}, ValueError, "broadcast"), ({"bias": normal(1, 1, 1, T, S)}, ValueError, "4 axes"),
    ({"query_seq_lengths": np.ones(3, int)}, ValueError, "integers"),
    ({"implementation": "cudnn"}, NotImplementedError, "'cudnn'"), ({"implementation": "best"}, ValueError, "'best'"),
])
def test_misuse(change, exc, words):
    with pytest.raises(exc, match=f"(?s)nn.dot_product_attention.*{words}.*fix:"):
        dot_product_attention(**{"query": QUERY, "key": KEY, "value": VALUE, **change})
