"""Activations and functions along an axis: values and derivatives against JAX, and against differences in float64."""

import ml_dtypes
import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.oracle import real_jax
from tests.refusals import assert_refused
from tests.sampling import one_in
from xjax import nn

X = np.concatenate([np.linspace(-7, 7, 29), [1e3, -1e3]])
MASK = np.array([[True, False, True], [False, False, False], [True, True, True]])
ELEMENTWISE = {
    **{name: {} for name in (
        "celu", "elu", "gelu", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh", "identity", "leaky_relu",
        "log_sigmoid", "mish", "relu", "relu6", "selu", "sigmoid", "silu", "soft_sign", "softplus", "sparse_plus",
        "sparse_sigmoid", "squareplus", "swish", "tanh")},
    "gelu by erf": {"approximate": False}, "celu 2": {"alpha": 2.0}, "elu 0.5": {"alpha": 0.5},
    "leaky_relu 0.2": {"negative_slope": 0.2}, "squareplus 1": {"b": 1.0}}
ROWS = np.random.default_rng(0).normal(size=(2, 3, 4))
ALONG_AXIS = {
    "glu": ("glu", {}), "glu 0": ("glu", {"axis": 0}),
    **{f"{name} {axis}": (name, {"axis": axis}) for name in ("softmax", "log_softmax", "standardize", "logsumexp")
       for axis in (0, -1, (0, 2))},
    "softmax all": ("softmax", {"axis": None}), "logsumexp all": ("logsumexp", {}),
    "logsumexp keepdims": ("logsumexp", {"axis": 1, "keepdims": True}),
    "logsumexp b": ("logsumexp", {"axis": 2, "b": np.linspace(0.0, 2.0, 4)}),
    "logsumexp where": ("logsumexp", {"axis": 2, "where": ROWS > -0.5}),
    "logmeanexp": ("logmeanexp", {}), "logmeanexp where": ("logmeanexp", {"axis": 2, "where": ROWS > -0.5}),
    "softmax where": ("softmax", {"where": ROWS > -0.5}), "log_softmax where": ("log_softmax", {"where": ROWS > -9}),
    "standardize stable": ("standardize", {"algorithm": "stable"}),
    "standardize where": ("standardize", {"axis": (0, 2), "where": ROWS > -0.5}),
    "standardize given": ("standardize", {"mean": 0.5, "variance": 2.0})}


def function(library, label, keywords):
    return lambda x: getattr(library.nn, label.split(" ")[0])(x, **keywords)


def slopes(f, x, step=1e-6):
    return np.array([(np.sum(f(x + d)) - np.sum(f(x - d))) / (2 * step)
                     for d in step * np.eye(x.size).reshape(x.size, *x.shape)]).reshape(x.shape)


@pytest.mark.parametrize("label", one_in(2, ELEMENTWISE))
def test_elementwise(label):
    smooth, step = X[1:29:2] + 0.013, 1e-6                              # away from kinks
    points = np.concatenate([X, smooth, smooth + step, smooth - step])
    with xjax.enable_x64(True):
        f = function(xjax, label, ELEMENTWISE[label])
        value, slope = map(np.asarray, xjax.jit(lambda x: (f(x), xjax.vmap(xjax.grad(f))(x)))(points))
    _, _, above, below = np.split(value, np.cumsum([X.size, smooth.size, smooth.size]))
    np.testing.assert_allclose(slope[X.size:X.size + smooth.size], (above - below) / (2 * step), rtol=1e-6, atol=1e-8)
    jax = real_jax()
    with jax.enable_x64(True):
        g = function(jax, label, ELEMENTWISE[label])
        want, want_slope = jax.jit(lambda x: (g(x), jax.vmap(jax.grad(g))(x)))(points)
        # JAX computes these as sums whose terms cancel: terms of 1 and a tanh, and numbers of up to 1000.
        cancelled = {"gelu": 1e-14, "squareplus": 2e-13, "squareplus 1": 2e-13}.get(label, 1e-15)
        np.testing.assert_allclose(value, want, rtol=1e-12, atol=cancelled)
        # Slopes of tanh are differences from 1. The versions of JAX round different ones of these, by some 1e-16 each,
        # and multiply them by points of up to 30.
        np.testing.assert_allclose(slope, want_slope, rtol=1e-12, atol=4e-15)


@pytest.mark.parametrize("label", ELEMENTWISE)
def test_result_types(label):
    jax = real_jax()
    for x in (1.5, np.float32(1), np.ones(3, jnp.bfloat16)):
        ours, theirs = (library.make_jaxpr(function(library, label, ELEMENTWISE[label]))(x).out_avals[0]
                        for library in (xjax, jax))
        assert (ours.dtype, ours.weak_type) == (theirs.dtype, theirs.weak_type)


@pytest.mark.parametrize("label", one_in(3, ALONG_AXIS))
def test_along_axis(label):
    name, keywords = ALONG_AXIS[label]
    with xjax.enable_x64(True):
        f = xjax.jit(function(xjax, name, keywords))
        value, slope = f(ROWS), xjax.jit(xjax.grad(lambda x: (f(x) ** 2).sum()))(ROWS)
        np.testing.assert_allclose(slope, slopes(lambda x: np.asarray(f(x)) ** 2, ROWS), rtol=1e-6, atol=1e-7)
    jax = real_jax()
    with jax.enable_x64(True):
        g = function(jax, name, keywords)
        want, want_slope = jax.jit(lambda x: (g(x), jax.grad(lambda x: (g(x) ** 2).sum())(x)))(ROWS)
        np.testing.assert_allclose(value, want, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(slope, want_slope, rtol=1e-10, atol=1e-12)


def test_slopes_at_kinks():
    assert float(xjax.grad(nn.relu)(0.0)) == 0 and float(xjax.grad(nn.relu6)(0.0)) == 0
    assert float(xjax.grad(nn.relu6)(6.0)) == 0 and float(xjax.grad(nn.softplus)(0.0)) == 0.5


def test_masked_rows():
    x = np.arange(9, dtype=np.float32).reshape(3, 3)
    y = np.asarray(nn.softmax(x, where=MASK))
    np.testing.assert_array_equal(y[1], 0)
    np.testing.assert_allclose(y[[0, 2]].sum(1), 1, rtol=1e-6)
    assert (np.asarray(nn.log_softmax(x, where=MASK))[~MASK] == -np.inf).all()
    np.testing.assert_array_equal(nn.logsumexp(x, axis=1, where=MASK)[1], -np.inf)


def test_gradient_of_masked_rows_is_as_in_jax():
    jax = real_jax()
    x = np.arange(9, dtype=np.float32).reshape(3, 3)
    grads = [library.jit(library.grad(lambda x, s=library.nn.softmax: (s(x, where=MASK)[np.array([0, 2])] ** 2).sum()))(
        x) for library in (xjax, jax)]
    np.testing.assert_allclose(*grads, atol=1e-6)


@pytest.mark.parametrize("size", [1, 5, 4096, 100_003, 1_000_000])
def test_one_nan_is_enough(size):
    """A NaN may be lost in the computation of the largest element, but not in the other computations."""
    everything = xjax.jit(lambda x, axis: (
        nn.softmax(x, axis), nn.log_softmax(x, axis), nn.logsumexp(x, axis, keepdims=True),
        nn.logmeanexp(x, axis, keepdims=True)), static_argnums=1)
    for place in {0, size // 2, size - 1}:
        x = np.zeros((2, size), np.float32)
        x[0, place] = np.nan
        for axis in (1, 0):
            touched = np.isnan(x).any(axis, keepdims=True)
            *along, one, other = everything(x, axis)
            for result in along:
                np.testing.assert_array_equal(np.isnan(result), np.broadcast_to(touched, x.shape))
            for result in (one, other):
                np.testing.assert_array_equal(np.isnan(result), touched)


def test_softmax_of_a_dtype_without_infinity():
    x = np.arange(4).astype(ml_dtypes.float8_e4m3fn)
    want = np.exp([0, 1, 2, 3]) / np.exp([0, 1, 2, 3]).sum()
    np.testing.assert_allclose(nn.softmax(x).astype(np.float32), want, rtol=2 ** -3)       # 3 bits, a few roundings


def test_no_overflow():
    x = np.array([-1e30, 0, 1e30, np.inf], np.float32)
    np.testing.assert_array_equal(nn.softmax(x[:3]), [0, 0, 1])
    np.testing.assert_array_equal(nn.logsumexp(x[:3]), np.float32(1e30))
    assert float(nn.logsumexp(x)) == np.inf and float(nn.logsumexp(-x[3:])) == -np.inf
    assert float(nn.log1mexp(1e-30)) == pytest.approx(np.log(1e-30))
    value, sign = nn.logsumexp(np.float32([1, 2]), b=np.float32([1, -1]), return_sign=True)
    assert float(sign) == -1 and float(value) == pytest.approx(np.log(np.e**2 - np.e), rel=1e-5)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_one_hot(axis):
    x = np.array([[0, 2], [3, -1], [1, 1]])
    y = np.asarray(nn.one_hot(x, 3, axis=axis))
    expected = np.moveaxis((x[..., None] == np.arange(3)).astype(np.float32), -1, axis)
    np.testing.assert_array_equal(y, expected)
    assert y.dtype == np.float32 and nn.one_hot(x, 3, dtype=jnp.int8).dtype == np.int8


def test_errors_name_a_fix():
    for call, words in ((lambda: nn.glu(np.ones(3)), "odd size 3"),
                        (lambda: nn.one_hot(np.arange(3), 2.5), "num_classes"),
                        (lambda: nn.standardize(np.ones(3), algorithm="slow"), "'slow'"),
                        (lambda: nn.softmax(np.ones(3), axis=1), "out of bounds")):
        assert_refused(call, (TypeError, ValueError), words)


def test_programs_read_as_in_jax():
    jax = real_jax()
    for name in ("silu", "softplus", "gelu"):
        ours, theirs = (str(library.make_jaxpr(getattr(library.nn, name))(1.0)) for library in (xjax, jax))
        assert ours.count("=") >= 2 and (f"name={name}" in ours) == (f"name={name}" in theirs)
