"""Compiled gradients of extrema. XLA computes their operands again in each loop that reads them, rounding differently.

Whether an element attains the extremum is a test of equality. Real JAX 0.10 gives wrong gradients for "max" and for
all rows with scatters.
"""

import itertools

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.compare import assert_same
from tests.sampling import each_once
from xjax import lax
from xjax.nn import relu
from xjax.runtime.dispatch import EvalTrace

pytestmark = pytest.mark.usefixtures("as_shipped")

N, F, SEGMENTS = 20, 5, 7
_npr = np.random.default_rng(0)
A = _npr.normal(size=(3, N, F)).astype(np.float32)[0]
WEIGHTS = [_npr.normal(size=(F, F)).astype(np.float32) for _ in range(4)]
BIASES = [_npr.normal(size=(1, F)).astype(np.float32) for _ in range(4)]
SENDERS, RECEIVERS = (_npr.integers(0, N, N) for _ in range(2))
SCALES = _npr.random((N, 1)).astype(np.float32)
IDS = _npr.integers(0, SEGMENTS, N)


def _by_gathers(h, w, b):
    y = h @ w
    return relu(SCALES * (SCALES[SENDERS] * y[SENDERS] + SCALES[RECEIVERS] * y[RECEIVERS] + SCALES * y) + b)


def _by_segments(h, w, b):
    y = (h @ w) * SCALES
    return relu(xjax.ops.segment_sum(y[SENDERS], RECEIVERS, N) * SCALES + b)


CONVOLUTIONS = {"gathers": _by_gathers, "segments": _by_segments}
# name -> a function with an extremum of two operands [N, F]
EXTREMA = {
    "max": lambda x, y: jnp.max(jnp.stack([x, y]), 0),
    "min": lambda x, y: jnp.min(jnp.stack([x, y]), 0),
    "maximum": jnp.maximum,
    "cummax": lambda x, y: lax.cummax(jnp.stack([x, y]), 0),
    "at max": lambda x, y: jnp.full((SEGMENTS, F), -9.0).at[IDS].max(x),
    "at max, into": lambda x, y: x.at[IDS].max(y),
    "at min": lambda x, y: jnp.full((SEGMENTS, F), 9.0).at[IDS].min(x),
    "reduce_window": lambda x, y: lax.reduce_window(x, -jnp.inf, lax.max, (3, 1), (2, 1), "VALID"),
    # These use the rules of "max" and of "at max".
    "max of all": lambda x, y: jnp.max(jnp.concatenate([x, y])),
    "segment_max": lambda x, y: xjax.ops.segment_max(x, IDS, SEGMENTS),
}
REPEATED = ["max of all", "segment_max"]


def assert_compiled_as_eager(extremum, convolution):
    """Compare gradients of the `extremum` of the outputs of two layers, by the parameters of the layers."""
    def loss(params):
        (w, v), (b, c) = params
        x = convolution(A, w, b)
        return jnp.sum(jnp.sin(extremum(x, convolution(x, v, c))))

    params = WEIGHTS[:2], BIASES[:2]
    got, want = xjax.jit(xjax.grad(loss))(params), xjax.grad(loss)(params)
    assert_same(got, want, tol=10, what="gradient")         # sums of up to 20 numbers of size 10
    assert np.any(want[0][0])


@pytest.mark.parametrize("name, convolution", [
    *each_once([name for name in EXTREMA if name not in REPEATED], CONVOLUTIONS),
    *[pytest.param(*pair, marks=pytest.mark.slow) for pair in itertools.product(REPEATED, CONVOLUTIONS)]])
def test_gradients_compiled_and_eager_agree(name, convolution):
    assert_compiled_as_eager(EXTREMA[name], CONVOLUTIONS[convolution])


def test_eager_gradients_launch_no_barrier(monkeypatch):
    launched, process = [], EvalTrace.process
    monkeypatch.setattr(EvalTrace, "process", lambda self, p, *rest: launched.append(p.name) or process(self, p, *rest))
    assert xjax.grad(jnp.max)(jnp.arange(4.0)).tolist() == [0, 0, 0, 1]
    assert "reduce_max" in launched and "optimization_barrier" not in launched
