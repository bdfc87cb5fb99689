"""Attention in blocks of queries: the values and derivatives of the whole, with fewer products and less memory."""

from __future__ import annotations

import re

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn
from tests.compare import assert_close, assert_same
from tests.sampling import each_once
from xjax.core.forms import FORMS
from xjax.nn import dot_product_attention
from xnn import ALiBi, DotProductAttention, Rotary

_FORM = "attention in blocks"
# Blocks of 5 queries, the last of 1; and loops over blocks of 2, with one block after the loop and a loop of 2.
SIZES = {"blocks": {"queries": 8, "block": 2, "blocks": 4, "blocks_recomputed": 3, "recomputed": 1 << 30},
         "recomputed": {"queries": 8, "block": 2, "blocks": 4, "blocks_recomputed": 3, "recomputed": 0}}
_rng = np.random.default_rng(0)
B, T, N, K, H = 2, 13, 4, 2, 3


def normal(*shape):
    return _rng.standard_normal(shape).astype(np.float32)


def use(monkeypatch, limits):
    monkeypatch.setitem(FORMS, _FORM, FORMS[_FORM]._replace(cpu=limits))


QUERY, KEY, VALUE, TANGENT = normal(B, T, N, H), normal(B, T, K, H), normal(B, T, K, H), normal(B, T, N, H)
MASK = _rng.random((B, N, T, T)) < 0.7
MASK[0, :, 3] = False                                           # a query attends to no position
FUNCTIONS = {
    "plain": {},
    "causal": {"is_causal": True, "return_residual": True},
    "window": {"local_window_size": (2, 1)},
    "causal window": {"local_window_size": 3, "is_causal": True},
    "window before the first key": {"local_window_size": (-1, 4)},
    "masked": {"is_causal": True, "mask": MASK},
    "bias": {"is_causal": True, "bias": normal(B, 1, T, T), "return_residual": True},
    "bias of a key": {"is_causal": True, "bias": normal(1, N, 1, T), "mask": MASK[:, :, :, :1]},
    "lengths": {"is_causal": True, "query_seq_lengths": np.array([3, 13], np.int32),
                "key_value_seq_lengths": np.array([13, 2], np.int32)},
}


def of_function(options):
    """Values, derivatives along a tangent and gradients, also by vmap."""
    def attend(*args):
        y = dot_product_attention(*args, **options)
        return y[0] if isinstance(y, tuple) else y

    def loss(*args):
        return (attend(*args) ** 2).sum()

    def run(*args):
        return (dot_product_attention(*args, **options), xjax.jvp(lambda q: attend(q, *args[1:]), args[:1], (TANGENT,)),
                xjax.grad(loss, (0, 1, 2))(*args), xjax.vmap(lambda q: attend(q, *args[1:]))(jnp.stack([args[0]] * 2)))

    return xjax.jit(run)(QUERY, KEY, VALUE)


@pytest.mark.parametrize("name, size", each_once(FUNCTIONS, SIZES))
def test_function(name, size, monkeypatch):
    use(monkeypatch, None)
    whole = of_function(FUNCTIONS[name])
    use(monkeypatch, SIZES[size])
    assert_close(of_function(FUNCTIONS[name]), whole, what=name)


LAYERS = {
    "causal": ({"causal": True, "kv_heads": 2, "positions": Rotary()}, {}),
    "plain": ({}, {}),
    "cap": ({"causal": True, "cap": 2.0}, {}),
    "window": ({"window": 3}, {}),
    "causal window with ALiBi": ({"window": 3, "causal": True, "positions": ALiBi()}, {}),
    "window of padded sequences": ({"window": 3, "causal": True}, {"mask": np.arange(T) >= np.array([[0], [6]])}),
    "window of given positions": ({"window": 3}, {"positions": np.arange(T)[None, ::-1] // 2}),
    "window of some layers": ({"window": 2, "causal": True}, {"local": np.array(False)}),
    "window and pairs": ({"window": 4, "causal": True}, {"mask": MASK, "bias": normal(1, N, T, T)}),
    "bias of a key": ({"causal": True}, {"bias": normal(B, 1, 1, T), "mask": MASK[:1, :, :, :1]}),
}


def of_layer(options, inputs):
    layer = DotProductAttention(N, H + 1, **options)
    x, key, value = (_x(name, n) for name, n in (("x", N), ("key", options.get("kv_heads", N)),
                                                 ("value", options.get("kv_heads", N))))

    def loss(*args):
        return (layer.apply((), *args, **inputs) ** 2).sum()

    return xjax.jit(lambda *args: (layer.apply((), *args, **inputs), xjax.grad(loss, (0, 1, 2))(*args)))(x, key, value)


def _x(name, heads):
    return np.random.default_rng(len(name)).standard_normal((B, T, heads * (H + 1))).astype(np.float32)


@pytest.mark.parametrize("name, size", each_once(LAYERS, SIZES))
def test_layer(name, size, monkeypatch):
    use(monkeypatch, None)
    whole = of_layer(*LAYERS[name])
    use(monkeypatch, SIZES[size])
    assert_close(of_layer(*LAYERS[name]), whole, what=name)


def test_context(monkeypatch):
    """More queries than keys; a loop over blocks keeps the mask of each query."""
    layer, mask = xnn.ContextAttention(N, H), _rng.random((B, 1, T, 5)) < 0.5
    x, context = normal(B, T, N * H), normal(B, 5, N * H)
    results = []
    for limits in (None, SIZES["recomputed"]):
        use(monkeypatch, limits)
        results.append(xjax.jit(lambda: layer.apply((), x, context, context, mask=mask))())
    assert_close(*results)


@pytest.mark.parametrize("size", SIZES)
def test_dropout_differs_between_queries_and_is_the_same_in_the_gradient(size, monkeypatch):
    use(monkeypatch, SIZES[size])
    layer, rng = DotProductAttention(1, T, causal=True, dropout=0.5), xjax.random.key(0)
    x, value = np.zeros((1, T, T), np.float32), np.eye(T, dtype=np.float32)[None]
    apply = xjax.jit(lambda value: layer.apply((), x, x, value, rng=rng, train=True)[0])
    weights = np.asarray(apply(value))                                       # with these values, means are the weights
    kept = weights > 0
    np.testing.assert_allclose(weights, np.where(kept, 2 / np.arange(1, T + 1)[:, None], 0), rtol=1e-6)
    assert not kept[np.triu_indices(T, 1)].any() and 0.3 < kept[np.tril_indices(T)].mean() < 0.7
    assert len({row[:4].tobytes() for row in kept[4:]}) > 3
    assert_same(apply(value), weights)
    gradient = np.asarray(xjax.jit(xjax.grad(lambda value: apply(value).trace()))(value))[0]
    np.testing.assert_allclose(gradient, weights.T, rtol=1e-6)


def products_of(text):
    """The number of multiplications of queries and keys in a program's text."""
    results = re.findall(r"dot_general.*-> tensor<1x1x(\d+)x(\d+)xf32>", text)
    return sum(int(rows) * int(columns) for rows, columns in results)


def test_keys_out_of_reach_are_left_out(monkeypatch):
    limits = {**SIZES["blocks"], "queries": 256, "block": 32}
    x = np.zeros((1, 256, 1, 4), np.float32)
    products = {}
    for name, options in (("all", {}), ("causal", {"is_causal": True}), ("window", {"local_window_size": 16})):
        use(monkeypatch, limits)
        products[name] = products_of(
            xjax.jit(lambda x, options=options: dot_product_attention(x, x, x, **options)).lower(x).as_text())
    of_means = 256 * 4
    assert products["all"] == 256 * 256 + of_means
    assert products["causal"] == 64 * (64 + 128 + 192 + 256) + 4 * 64 * 4
    assert products["window"] == 64 * (80 + 96 + 96 + 80) + 4 * 64 * 4


def test_memory_is_linear_in_the_number_of_queries(monkeypatch):
    def bytes_of(queries):
        x = xjax.ShapeDtypeStruct((1, queries, 2, 8), np.float32)
        gradient = xjax.grad(lambda x: (dot_product_attention(x, x, x) ** 2).sum())
        return xjax.jit(gradient).lower(x).compile().memory_analysis().temp_size_in_bytes

    use(monkeypatch, {**SIZES["recomputed"], "block": 32})
    assert bytes_of(2048) < 2.2 * bytes_of(1024)
    use(monkeypatch, None)
    assert bytes_of(1024) > 3.5 * bytes_of(512)                              # the whole matrix of weights


def test_the_limits_of_the_table():
    """At the limits: 256 causal queries are computed in blocks, 255 are not."""
    for queries, is_whole in ((255, True), (256, False)):
        x = np.zeros((1, queries, 1, 4), np.float32)
        text = xjax.jit(lambda x: dot_product_attention(x, x, x, is_causal=True)).lower(x).as_text()
        assert (f"tensor<1x1x{queries}x{queries}xf32>" in text) is is_whole
