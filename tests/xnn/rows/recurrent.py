"""Rows of recurrent cells, scans and stacks; the recurrences of NumPy are loops over the positions."""

import numpy as np

import xjax.numpy as jnp
from tests.xnn.rows.row import KEY, LayerRow
from xjax import nn
from xnn import (
    GRU,
    LSTM,
    RNN,
    BatchNorm,
    ConvLSTMCell,
    Dense,
    GRUCell,
    LayerNorm,
    LSTMCell,
    RNNCell,
    bidirectional,
    composite,
    scan_over_time,
)

STEP = np.ones((2, 3), np.float32)
SEQUENCE = np.ones((2, 4, 3), np.float32)


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _relu(x):
    return np.maximum(x, 0)


# -- one step: (params, x, carry or None) -> (y, carry) ----------------------------------------------------------------


def rnn_step(p, x, h, activation=np.tanh):
    h = np.zeros((*x.shape[:-1], p["w_rec"].shape[0])) if h is None else h
    h = activation(x @ p["w_in"] + h @ p["w_rec"] + p.get("b", 0))
    return h, h


def lstm_step(p, x, carry):
    features = p["w_in"].shape[1] // 4
    zeros = np.zeros((*x.shape[:-1], 1))
    h, c = (zeros.repeat(p["w_rec"].shape[0], -1), zeros.repeat(features, -1)) if carry is None else carry
    i, f, g, o = np.split(x @ p["w_in"] + h @ p["w_rec"] + p.get("b", 0), 4, -1)
    c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
    h = _sigmoid(o) * np.tanh(c) @ p.get("w_proj", np.eye(features))
    return h, (h, c)


def gru_step(p, x, h):
    features = p["w_rec"].shape[0]
    h = np.zeros((*x.shape[:-1], features)) if h is None else h
    (xr, xu, xn), (wr, wu, wn) = (np.split(v, 3, -1) for v in (x @ p["w_in"] + p.get("b", 0), p["w_rec"]))
    r, u = _sigmoid(xr + h @ wr), _sigmoid(xu + h @ wu)
    n = np.tanh(xn + (r * (h @ wn + p["b_rec"]) if "b_rec" in p else (r * h) @ wn))
    h = (1 - u) * n + u * h
    return h, h


def _convolved(x, w):
    """Convolution of [n, *positions, features], padded with zeros."""
    sizes, kernel = x.shape[1:-1], w.shape[:-2]
    around = [(0, 0), *(((k - 1) // 2, k // 2) for k in kernel), (0, 0)]
    padded, y = np.pad(x, around), 0
    for at in np.ndindex(*kernel):
        y = y + padded[(slice(None), *(slice(a, a + n) for a, n in zip(at, sizes, strict=True)))] @ w[at]
    return y


def conv_lstm_step(p, x, carry):
    features = p["w_rec"].shape[-2]
    h, c = (np.zeros((*x.shape[:-1], features)),) * 2 if carry is None else carry
    i, f, g, o = np.split(_convolved(x, p["w_in"]) + _convolved(h, p["w_rec"]) + p["b"], 4, -1)
    c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
    h = _sigmoid(o) * np.tanh(c)
    return h, (h, c)


# -- sequences ---------------------------------------------------------------------------------------------------------


def over_time(step, p, x, counts, reverse=False):
    """Outputs, sequence by sequence of the batch, from a carry of zeros."""
    rows = []
    for row, at in zip(x, counts, strict=True):
        ys, state = [None] * len(row), None
        for t in reversed(range(len(row))) if reverse else range(len(row)):
            if at[t]:
                y, state = step(p, row[None, t], state)
                ys[t] = y[0]
        rows.append([np.zeros_like(next(y for y in ys if y is not None)) if y is None else y for y in ys])
    return np.array(rows)


def _scan(step, reverse=False):
    def value(p, x, lengths=None, mask=None):
        counts = np.ones(x.shape[:2], bool) if mask is None else mask
        if lengths is not None:
            counts = counts & (np.arange(x.shape[1]) < lengths[:, None])
        return over_time(step, p, x, counts, reverse)
    return value


def _stack(step):
    def value(p, x, **which):
        for name in sorted(name for name in p if name != "dropout"):
            x = _two_ways(step)(p[name], x, **which) if "forward" in p[name] else _scan(step)(p[name], x, **which)
        return x
    return value


def _two_ways(step):
    return lambda p, x, **which: np.concatenate(
        [_scan(step)(p["forward"], x, **which), _scan(step, reverse=True)(p["backward"], x, **which)], -1)


def _some_positions(npr):
    mask = npr.random((2, 4)) < 0.6
    mask[:, 1] = True
    return mask


def normalised():
    """A cell composed of layers: an LSTM whose output is normalised and multiplied by a gate of the input."""
    def step(layers, x, carry=None):
        y, carry = layers.lstm(x, carry=carry)
        return layers.norm(y) * layers.gate(x), carry
    return composite(step, "NormalisedCell", lstm=LSTMCell(4), norm=LayerNorm(), gate=Dense(4))


def _normalised_step(p, x, carry):
    y, carry = lstm_step(p["lstm"], x, carry)
    y = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + 1e-5)
    return (y * p["norm"]["scale"] + p["norm"]["bias"]) * (x @ p["gate"]["w"] + p["gate"]["b"]), carry


LENGTHS = {"lengths": lambda npr: npr.integers(1, 5, 2)}
MASK = {"mask": _some_positions}
ROWS = {
    "RNNCell": LayerRow(RNNCell(4), (2, 3), lambda p, x: rnn_step(p, x, None)),
    "RNNCell, relu, no bias": LayerRow(RNNCell(4, activation=nn.relu, bias=False), (2, 5, 3),
                                       lambda p, x: rnn_step(p, x, None, _relu)),
    "LSTMCell": LayerRow(LSTMCell(4), (2, 3), lambda p, x: lstm_step(p, x, None)),
    "LSTMCell, projection": LayerRow(LSTMCell(4, projection=2, bias=False), (2, 3), lambda p, x: lstm_step(p, x, None)),
    "GRUCell": LayerRow(GRUCell(4), (2, 3), lambda p, x, carry: gru_step(p, x, carry),
                        {"carry": lambda npr: npr.normal(size=(2, 4))}),
    "GRUCell, reset before, no bias": LayerRow(GRUCell(4, reset_after=False, bias=False), (2, 3),
                                               lambda p, x: gru_step(p, x, None)),
    "ConvLSTMCell": LayerRow(ConvLSTMCell(2, (3, 2)), (2, 4, 3, 2), lambda p, x: conv_lstm_step(p, x, None), tol=2),
    "scan_over_time": LayerRow(scan_over_time(GRUCell(4)), (2, 4, 3), _scan(gru_step), LENGTHS, tol=2),
    "scan_over_time, reverse": LayerRow(scan_over_time(RNNCell(4), reverse=True, unroll=2), (2, 4, 3),
                                        _scan(rnn_step, reverse=True), LENGTHS, tol=2),
    "scan_over_time, mask": LayerRow(scan_over_time(LSTMCell(4)), (2, 4, 3), _scan(lstm_step), LENGTHS | MASK, tol=2),
    "scan_over_time, ConvLSTM": LayerRow(scan_over_time(ConvLSTMCell(2, 3)), (2, 4, 5, 3), _scan(conv_lstm_step), MASK,
                                         tol=4),
    "scan_over_time, composite": LayerRow(scan_over_time(normalised()), (2, 4, 3), _scan(_normalised_step), MASK,
                                          tol=8),
    "bidirectional": LayerRow(bidirectional(LSTMCell(4), LSTMCell(3)), (2, 4, 3), _two_ways(lstm_step), LENGTHS,
                              tol=2),
    "RNN": LayerRow(RNN(4), (2, 4, 3), _stack(rnn_step), tol=2),
    "GRU": LayerRow(GRU(4, layers=2), (2, 4, 3), _stack(gru_step), tol=2),
    "LSTM": LayerRow(LSTM(4, layers=2, dropout=0.5), (2, 4, 3), _stack(lstm_step), LENGTHS, random=True, tol=2),
    "LSTM, bidirectional": LayerRow(LSTM(4, layers=2, bidirectional=True), (2, 4, 3), _stack(lstm_step), MASK, tol=2),
}


def _made(layer, in_shape=(2, 4, 3)):
    """Calls `apply` of a layer with parameters for this input."""
    def call(x=SEQUENCE, **inputs):
        return lambda: layer.apply(layer.init(KEY, in_shape)[1], jnp.asarray(x), **inputs)
    return call


_lstm = _made(scan_over_time(LSTMCell(4)))
WRONG = {
    "cell, features": (_made(LSTMCell(4), (2, 5))(STEP), TypeError,
                       ["LSTMCell: params['w_in'] has another shape", "f32[2,3]", "f32[5,16]", "[3,16]"]),
    "cell, another cell": (lambda: GRUCell(4).apply(LSTMCell(4).init(KEY, (2, 3))[1], STEP), TypeError,
                           ["GRUCell: the params do not belong", "w_in f32[3,16]", "b_rec [4]"]),
    "cell, open features": (lambda: GRUCell(4).init(KEY, (2, -1)), TypeError, ["GRUCell: init needs the shape"]),
    "LSTMCell, carry": (_made(LSTMCell(4), (2, 3))(STEP, carry=jnp.ones((2, 4))), TypeError,
                        ["LSTMCell: the carry", "f32[2,4]", "(f32[2,4], f32[2,4])", "init_carry"]),
    "GRUCell, carry of another batch": (_made(GRUCell(4), (2, 3))(STEP, carry=jnp.ones((1, 4))), TypeError,
                                        ["GRUCell: the carry", "f32[1,4]", "f32[2,4]"]),
    "LSTMCell, forget_bias": (lambda: LSTMCell(4, bias=False, forget_bias=2.0), ValueError,
                              ["LSTMCell: forget_bias needs a bias", "2.0"]),
    "ConvLSTMCell, forget_bias": (lambda: ConvLSTMCell(4, 3, bias=False, forget_bias=2.0), ValueError,
                                  ["ConvLSTMCell: forget_bias needs a bias"]),
    "ConvLSTMCell, window": (lambda: ConvLSTMCell(4, (3,) * 4), ValueError, ["ConvLSTMCell: window", "(3, 3)"]),
    "ConvLSTMCell, rank": (lambda: ConvLSTMCell(4, (3, 3)).init(KEY, (2, 3)), TypeError,
                           ["ConvLSTMCell: init needs the shape", "(2, 3)"]),
    "scan_over_time, no cell": (lambda: scan_over_time(Dense(3)), TypeError,
                                ["scan_over_time: Dense is not a cell", "carry", "LSTMCell(8)"]),
    "scan_over_time, not called": (lambda: scan_over_time(LSTMCell), TypeError, ["call it: LSTMCell(...)"]),
    "scan_over_time, state": (lambda: scan_over_time(composite(
        lambda layers, x, carry=None: (layers.norm(x), carry), norm=BatchNorm())), TypeError,
        ["scan_over_time: running statistics", "LayerNorm"]),
    "scan_over_time, one step": (_lstm(STEP), TypeError, ["scan_over_time", "3 axes", "f32[2,3]"]),
    "scan_over_time, init of one step": (lambda: scan_over_time(LSTMCell(4)).init(KEY, (2, 3)), TypeError,
                                         ["scan_over_time: init needs the shape", "(2, 3)"]),
    "scan_over_time, mask": (_lstm(mask=jnp.ones((2, 3), bool)), TypeError,
                             ["`mask` does not match", "f32[2,4,3]", "[2,3]", "bools [2,4]"]),
    "scan_over_time, mask of numbers": (_lstm(mask=jnp.ones((2, 4))), TypeError, ["`mask`", "f32[2,4]", "bools [2,4]"]),
    "scan_over_time, lengths": (_lstm(lengths=jnp.ones(3, int)), TypeError, ["`lengths`", "i32[3]", "integers [2]"]),
    "scan_over_time, carry": (_lstm(carry=jnp.ones((2, 4))), TypeError, ["LSTMCell: the carry", "f32[2,4]"]),
    "scan_over_time, no cache": (lambda: scan_over_time(LSTMCell(4), reverse=True).apply_with_cache(
        {}, (), SEQUENCE), TypeError, ["scan_over_time: the layer has no cache"]),
    "scan_over_time, cache and carry": (lambda: scan_over_time(GRUCell(4)).apply_with_cache(
        GRUCell(4).init(KEY, (2, 3))[1], jnp.zeros((2, 4)), SEQUENCE, carry=jnp.zeros((2, 5))), TypeError,
        ["GRUCell: the carry does not have the form", "f32[2,5]", "f32[2,4]"]),
    "LSTM, cache of both directions": (lambda: LSTM(4, bidirectional=True).apply_with_cache(
        LSTM(4, bidirectional=True).init(KEY, (2, 4, 3))[1], LSTM(4, bidirectional=True).init_cache(2, 4), SEQUENCE),
        TypeError, ["scan_over_time: the layer has no cache", "reverse=True"]),
    "bidirectional, carry": (_made(bidirectional(GRUCell(4), GRUCell(4)))(carry=jnp.ones((3, 4))), TypeError,
                             ["bidirectional: the carry needs one entry for each of its 2 scans", "f32[3,4]"]),
    "LSTM, carry": (_made(LSTM(4, layers=2))(carry=(None,)), TypeError, ["LSTM: the carry needs one entry", "2 scans"]),
    "LSTM, layers": (lambda: LSTM(4, layers=0), ValueError, ["LSTM: layers must be at least 1", "0"]),
    "LSTM, dropout": (lambda: LSTM(4, dropout=0.5), ValueError, ["LSTM: dropout is applied between", "layers=2"]),
}
