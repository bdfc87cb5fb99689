"""Attention layers by cuDNN: chosen on GPUs for supported sizes and dtypes, with the values of XLA's own form.

Without a GPU, the text for CUDA shows the choice, and the CPU computes the values.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import xjax
import xnn
from xjax.nn import attention_by_cudnn

BF16 = np.dtype(ml_dtypes.bfloat16)
_rng = np.random.default_rng(0)
BATCH, TIME, HEADS, SIZE = 2, 8, 4, 8
MASK = np.arange(TIME) < np.array([[TIME], [5]])
LATER = np.arange(TIME) >= np.array([[0], [3]])                 # the first queries of the second example have no key


def normal(*shape, dtype=BF16):
    return _rng.standard_normal(shape).astype(dtype)


X = normal(BATCH, TIME, HEADS * SIZE)
CONTEXT = normal(BATCH, 6, 2 * SIZE)


@pytest.fixture
def on_gpu(monkeypatch):
    def switch(name):
        monkeypatch.setattr(xjax, "default_backend", lambda: name)
        monkeypatch.setattr(attention_by_cudnn.backend, "default_backend", lambda: name)
        monkeypatch.setattr(attention_by_cudnn, "_capability", lambda: (9, 0))
    return switch


LAYERS = {
    "causal": (xnn.DotProductAttention(HEADS, SIZE, kv_heads=2, causal=True), {}),
    "plain": (xnn.DotProductAttention(HEADS, SIZE, kv_heads=2), {}),
    "masked": (xnn.DotProductAttention(HEADS, SIZE, kv_heads=2), {"mask": MASK}),
    "causal, blind queries": (xnn.DotProductAttention(HEADS, SIZE, kv_heads=2, causal=True), {"mask": LATER}),
    "window, bias": (xnn.DotProductAttention(HEADS, SIZE, kv_heads=2, causal=True, window=3, scale=0.2), {
        "bias": normal(1, HEADS, TIME, TIME)}),
    "context": (xnn.ContextAttention(HEADS, SIZE, kv_heads=2), {"mask": MASK[:, :6]}),
}


@pytest.mark.parametrize("name", LAYERS)
def test_values_and_gradients_of_both_forms(name, on_gpu):
    layer, inputs = LAYERS[name]
    keys = [CONTEXT] * 2 if name == "context" else [normal(BATCH, TIME, 2 * SIZE) for _ in range(2)]

    def loss(x, key, value):
        return (layer.apply((), x, key, value, **inputs).astype(np.float32) ** 2).sum()

    def run():
        f = xjax.jit(lambda *xs: (layer.apply((), *xs, **inputs), xjax.grad(loss, (0, 1, 2))(*xs)))
        text = xjax.jit(lambda *xs: xjax.grad(loss)(*xs)).trace(X, *keys).lower(lowering_platforms=("cuda",)).as_text()
        return xjax.tree.leaves(f(X, *keys)), text.count("__cudnn$fmha")

    by_xla, none = run()
    on_gpu("gpu")
    by_cudnn, calls = run()
    assert (none, calls) == (0, 2)
    for a, b in zip(by_cudnn, by_xla, strict=True):
        # In both, weights and gradients are rounded to the 8 bits of bfloat16, at different places.
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a.astype(np.float32), b.astype(np.float32), rtol=3e-2, atol=6e-2)


@pytest.mark.parametrize(("size", "dtype", "options", "call"), [
    (SIZE, np.float32, {}, {}), (12, BF16, {}, {}), (136, BF16, {}, {}),
    (SIZE, BF16, {"dropout": 0.5}, {"train": True, "rng": xjax.random.key(0)}),
    (SIZE, BF16, {"positions": xnn.ALiBi()}, {}),
])
def test_others_are_left_to_xla(size, dtype, options, call, on_gpu):
    on_gpu("gpu")
    layer, x = xnn.DotProductAttention(HEADS, size, **options), np.zeros((BATCH, TIME, HEADS * size), dtype)
    text = xjax.jit(lambda x: layer.apply((), x, x, x, **call)).trace(x).lower(lowering_platforms=("cuda",)).as_text()
    assert "cudnn" not in text


def test_odd_lengths_with_a_mask_are_left_to_xla(on_gpu):
    on_gpu("gpu")
    layer, x = xnn.DotProductAttention(HEADS, SIZE), np.zeros((BATCH, 5, HEADS * SIZE), BF16)

    def text(**inputs):
        return xjax.jit(lambda x: layer.apply((), x, x, x, **inputs)).trace(x).lower(
            lowering_platforms=("cuda",)).as_text()

    assert "cudnn" in text() and "cudnn" not in text(mask=np.ones((BATCH, 5), bool))
