"""Functions of `xjax.nn` and `xjax.nn.initializers`, compared with their formulas in NumPy."""

from __future__ import annotations

import numpy as np
from scipy import special

from tests.values.row import FunctionRow, rows

FLOATS = ("f4[2,3]:wide", "f8[4]:edges", "bf[3]")
FINITE = ("f4[2,4]", "f8[4]", "bf[2]")
D = ("f8[2,4]",)
SELU_ALPHA, SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def nn(name, call, *signatures, oracle=None, **options):
    """The one row of a function that has options."""
    return rows("nn", name, *signatures, call=call, oracle=oracle, **options)


def formulas(*signatures, **by_name):
    """A row for each function, with its formula."""
    return [FunctionRow(f"nn.{name}", signatures, oracle=formula, grad=D) for name, formula in by_name.items()]


def _gelu(x, approximate=True):
    if approximate:
        return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))
    return x * special.ndtr(x)


def _elu(x, alpha=1.0):
    return np.where(x > 0, x, alpha * np.expm1(x))


ACTIVATIONS = [
    *formulas(*FLOATS, "i4[3]:wide", identity=np.copy, relu=lambda x: np.maximum(x, 0)),
    *formulas(*FLOATS, "i4[3]", relu6=lambda x: np.clip(x, 0, 6), hard_tanh=lambda x: np.clip(x, -1, 1)),
    *formulas(*FLOATS, sigmoid=special.expit),
    *formulas(*FLOATS, "i4[3]", tanh=np.tanh, softplus=lambda x: np.logaddexp(x, 0),
              log_sigmoid=lambda x: -np.logaddexp(-x, 0)),
    *formulas(*FINITE, silu=lambda x: x * special.expit(x), swish=lambda x: x * special.expit(x),
              mish=lambda x: x * np.tanh(np.logaddexp(x, 0)), hard_sigmoid=lambda x: np.clip(x + 3, 0, 6) / 6,
              hard_silu=lambda x: x * np.clip(x + 3, 0, 6) / 6, hard_swish=lambda x: x * np.clip(x + 3, 0, 6) / 6,
              soft_sign=lambda x: x / (1 + np.abs(x)), selu=lambda x: SELU_SCALE * _elu(x, SELU_ALPHA),
              sparse_sigmoid=lambda x: np.clip((x + 1) / 2, 0, 1),
              sparse_plus=lambda x: np.where(x <= -1, 0, np.where(x >= 1, x, (x + 1) ** 2 / 4))),
    # At the edges: the results at infinities and NaN are JAX's choice.
    *rows("nn", "silu mish hard_sigmoid hard_silu soft_sign selu elu celu gelu sparse_sigmoid sparse_plus log1mexp",
          "f4[3]:edges", "f8[3]:wide", oracle=None, id="edges"),
    *rows("nn", "squareplus", "f4[3]:edges", id="edges", differs="JAX has nan at -inf; here its limit, 0",
          oracle=lambda x: np.where(np.isneginf(x), 0, (x + np.sqrt(x * x + 4)) / 2)),
    *nn("leaky_relu", lambda f, x: (f(x), f(x, 0.5)), *FLOATS, "i4[3]", grad=D,
        oracle=lambda x, slope=0.01: np.where(x >= 0, x, slope * x)),
    *nn("elu", lambda f, x: (f(x), f(x, 0.5)), *FINITE, grad=D, oracle=_elu),
    *nn("celu", lambda f, x: (f(x), f(x, 0.5)), *FINITE, grad=D,
        oracle=lambda x, alpha=1.0: np.maximum(x, 0) + alpha * np.expm1(np.minimum(x, 0) / alpha)),
    *nn("squareplus", lambda f, x: (f(x), f(x, 1), f(x, 0)), *FINITE, grad=D,
        oracle=lambda x, b=4: (x + np.sqrt(x * x + b)) / 2),
    *nn("gelu", lambda f, x: (f(x), f(x, False)), *FINITE, grad=D, oracle=_gelu),
    *nn("glu", lambda f, x: (f(x), f(x, 0)), "f4[2,4]:wide", "f8[2,4]", "bf[2,4]", grad=D, oracle=lambda x, axis=-1: (
        lambda a, b: a * special.expit(b))(*np.split(x, 2, axis))),
    *nn("log1mexp", lambda f, x: f(x), "f4[4]:0.0625..8", "f8[4]:0.0625..8", "bf[3]:0.0625..8",
        grad=("f8[3]:0.0625..8",), oracle=lambda x: np.log(-np.expm1(-x))),
]

ROWS_OF_X = ("f4[2,3,4]", "f8[2,3,4]", "bf[2,3,4]")
D3 = ("f8[2,3,4]",)


def _along_axes(f, x):
    return f(x), f(x, axis=0), f(x, axis=(0, -1)), f(x, axis=1, where=x[:, :1] < 4)


def _masked_softmax(x, axis=-1, where=True):
    y = np.where(where, np.exp(x - np.max(x, axis, keepdims=True, where=where, initial=-1e9)), 0)
    return np.divide(y, y.sum(axis, keepdims=True), out=np.zeros_like(y), where=y > 0)      # 0 without elements


def _log_softmax(x, axis=-1, where=True):
    return np.where(where, np.log(_masked_softmax(x, axis, where)), -np.inf)


def _standardize(x, axis=-1, mean=None, variance=None, epsilon=1e-5):
    mean = x.mean(axis, keepdims=True) if mean is None else mean
    variance = ((x - mean) ** 2).mean(axis, keepdims=True) if variance is None else variance
    return (x - mean) / np.sqrt(variance + epsilon)


def _attention(q, k, v, bias=0, mask=True, *, scale=None, is_causal=False):
    """Arrays have the shape [batch, time, heads, channels]; each group of heads shares a head of k and v."""
    groups = q.shape[2] // k.shape[2]
    k, v = np.repeat(k, groups, 2), np.repeat(v, groups, 2)
    logits = np.einsum("btnh,bsnh->bnts", q, k) * (scale or 1 / np.sqrt(q.shape[-1])) + bias
    mask = mask & np.tri(*logits.shape[-2:], dtype=bool) if is_causal else mask
    return np.einsum("bnts,bsnh->btnh", _masked_softmax(np.where(mask, logits, -1e30)), v)


QKV = "f8[1,3,4,2]:small f8[1,3,2,2]:small f8[1,3,2,2]:small"
SINGLE_QKV = QKV.replace("f8", "f4")

NORMALIZED = [
    *nn("softmax", _along_axes, *ROWS_OF_X, grad=D3, oracle=_masked_softmax),
    *nn("log_softmax", _along_axes, *ROWS_OF_X, oracle=_log_softmax),
    *nn("log_softmax", lambda f, x: (f(x), f(x, axis=(0, -1))), *ROWS_OF_X, grad=D3, id="smooth"),
    *rows("nn", "softmax log_softmax logsumexp logmeanexp", "f4[2,3]:edges", "f8[3]:wide", "f2[3]:wide", oracle=None,
          id="edges"),
    *nn("logsumexp", lambda f, x: (f(x), f(x, 0), f(x, (0, -1), keepdims=True), f(x, 1, b=x[0, 0], return_sign=True)),
        *ROWS_OF_X, "i4[2,3,4]", oracle=special.logsumexp,
        grad=("f8[2,3,4]:positive",)),          # by factors that are all 0 JAX has nan: tests/nn/test_accumulation.py
    *nn("logsumexp", lambda f, x: (f(x, 1, where=x < 4), f(x, b=2.0)), *ROWS_OF_X, grad=D3, id="where"),
    *nn("logmeanexp", lambda f, x: (f(x), f(x, 0), f(x, (0, -1), keepdims=True)), *ROWS_OF_X, grad=D3,
        oracle=lambda x, axis=(0, 1, 2), keepdims=False: np.log(np.exp(x).mean(axis, keepdims=keepdims))),
    *nn("logmeanexp", lambda f, x: f(x, 1, where=x < 4), *ROWS_OF_X, grad=D3, id="where"),
    *nn("standardize", lambda f, x: (f(x), f(x, axis=(0, 1), epsilon=0.5), f(x, mean=x[:1], variance=x * x)),
        *ROWS_OF_X[:2], grad=D3, oracle=_standardize),
    # In half precision JAX subtracts two rounded squares, with errors of 4 % in some draws.
    *nn("standardize", lambda f, x: (f(x), f(x, axis=(0, 1), epsilon=0.5)), *ROWS_OF_X[2:], oracle=_standardize,
        id="half", differs="JAX rounds squares before they are subtracted"),
    *nn("standardize", lambda f, x: (f(x, where=x < 4), f(x, algorithm="stable")), *ROWS_OF_X[:2], grad=D3,
        id="options"),
    *nn("one_hot", lambda f, x: (f(x, 4), f(x, 4, dtype=np.int8, axis=0), f(x, 0)), "i4[2,3]", "u1[]", "i8[0]",
        oracle=lambda x, n, axis=-1, dtype=None: np.moveaxis(x[..., None] == np.arange(n), -1, axis).astype(float)),
    *nn("dot_product_attention", lambda f, q, k, v: (f(q, k, v), f(q, k, v, is_causal=True), f(q, k, v, scale=0.5)),
        SINGLE_QKV, QKV, oracle=_attention, grad=(QKV,), differs="JAX rounds the weights of float64 to float32"),
    *nn("dot_product_attention", lambda f, q, k, v, bias, mask: f(q, k, v, bias, mask | (bias == bias.max())),
        f"{SINGLE_QKV} f4[1,4,3,3] b1[1,1,3,3]", id="bias_and_mask"),
    *nn("dot_product_attention", lambda f, q, k, v: (
        f(q[0], k[0], v[0]), f(q, k, v, local_window_size=1), f(q, k, v, local_window_size=(1, 0)),
        f(q, k, v, query_seq_lengths=np.array([2], np.int32), key_value_seq_lengths=np.array([1], np.int32)),
        f(q, k, v, return_residual=True)), SINGLE_QKV, QKV.replace("f8", "bf"), id="windows"),
]


def initializers(names, call, **options):
    """The draws from a key are JAX's own."""
    return rows("nn.initializers", names, "u4[2]:wide", call=call, **options)


INITIALIZERS = [
    *initializers("glorot_uniform glorot_normal lecun_uniform lecun_normal he_uniform he_normal kaiming_normal "
                  "kaiming_uniform xavier_normal xavier_uniform", lambda f, key: (
                      f()(key, (3, 4)), f(in_axis=0, out_axis=2, batch_axis=1, dtype=np.float32)(key, (3, 4, 2)))),
    *initializers("normal uniform", lambda f, key: (f()(key, (3, 4)), f(2.0, np.float32)(key, (5,)))),
    *initializers("truncated_normal", lambda f, key: (f()(key, (3, 4)), f(2.0, np.float32, -1.0, 3.0)(key, (5,)))),
    *initializers("zeros ones", lambda f, key: (f(key, (3, 4)), f(key, (0,), np.int8))),
    *initializers("constant", lambda f, key: (f(2)(key, (3, 4)), f(np.arange(3), np.int32)(key, (2, 3)))),
    *initializers("variance_scaling", lambda f, key: (
        f(2.0, "fan_avg", "normal")(key, (3, 4)), f(0.5, "fan_geo_avg", "uniform")(key, (2, 3, 4)),
        f(1.0, "fan_out", "truncated_normal", dtype=np.float32)(key, (3, 4)))),
    # The condition of the orthogonalised random matrix magnifies rounding.
    *initializers("orthogonal", lambda f, key: (f()(key, (4, 3)), f(2.0, 0)(key, (2, 4))), tol=1e3),
    *initializers("delta_orthogonal", lambda f, key: (f()(key, (3, 2, 4)), f(0.5)(key, (3, 3, 2, 2))), tol=1e3),
]

ROWS = [*ACTIVATIONS, *NORMALIZED, *INITIALIZERS]
