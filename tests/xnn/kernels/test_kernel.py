"""`Layer.kernel`: its arguments, its gradients, the exactness of equal inputs, and its errors."""

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn
from tests.refusals import assert_refused
from xjax.nn.initializers import normal, variance_scaling
from xnn import Conv, Dense, Relu, Tanh, serial
from xnn.covariance.kernel import Options
from xnn.kernels import Kernel, Kernels

DEEP = serial(*[serial(Dense(64, w_init=variance_scaling(2.0, "fan_in", "normal")), Relu) for _ in range(6)], Dense(1))


def drawn(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def slow(*values):
    """The values as a parameter of a slow test."""
    return pytest.param(*values, marks=pytest.mark.slow)


def test_get():
    x = drawn(3, 4)
    both = DEEP.kernel(x)
    assert isinstance(both, Kernels) and both.nngp.shape == both.ntk.shape == (3, 3)
    np.testing.assert_array_equal(DEEP.kernel(x, get="ntk"), both.ntk)
    np.testing.assert_array_equal(DEEP.kernel(x, get=("ntk", "nngp"))[1], both.nngp)
    whole = DEEP.kernel(x, get=None)
    assert isinstance(whole, Kernel) and whole.var1.shape == (3,) and whole.var2 is None and whole.features == 1
    assert DEEP.kernel(x, get="nngp").dtype == np.float32


def test_a_kernel_value_is_mapped():
    x = drawn(3, 4)
    first = Dense(8).kernel(x, get=None)
    second = serial(Relu, Dense(2)).kernel(first)
    np.testing.assert_allclose(second.ntk, serial(Dense(8), Relu, Dense(2)).kernel(x, get="ntk"), 1e-6)


def test_a_layer_still_unpacks_as_a_pair():
    init, apply = DEEP
    assert init is DEEP.init and apply is DEEP.apply


@pytest.mark.parametrize("layer", [Relu, Tanh, xnn.Abs, xnn.Sign, xnn.ExactGelu, xnn.Erf()], ids=lambda one: one.name)
def test_equal_inputs_are_exact_in_float32(layer):
    # With the arccosine of a rounded correlation, the error of the diagonal would be about 3e-4 after one layer.
    model = serial(Dense(64), layer, Dense(64), layer, Dense(64), layer, Dense(1))
    x = drawn(40, 30)
    exact = model.kernel(x)
    with xjax.enable_x64(True):
        expected = model.kernel(np.asarray(x, np.float64))
    for one, other in zip(exact, expected, strict=True):
        np.testing.assert_allclose(np.diagonal(one), np.diagonal(other), 2e-6)


def test_x2():
    x1, x2 = drawn(5, 4), drawn(7, 4)[4:]
    stacked = DEEP.kernel(np.concatenate([x1, x2]))
    for one, whole in zip(DEEP.kernel(x1, x2), stacked, strict=True):
        assert one.shape == (5, 3)
        np.testing.assert_allclose(one, whole[:5, 5:], 1e-3)       # rounding near the diagonal, if a row is in both
    images1, images2 = drawn(3, 5, 4, 2), drawn(2, 5, 4, 2)
    model = serial(Conv(8, (3, 3)), Relu, xnn.AvgPool((2, 2)), Conv(8, (2, 2)), Relu, xnn.GlobalAvgPool(), Dense(1))
    whole = model.kernel(np.concatenate([images1, images2 + 1]), get="ntk")
    np.testing.assert_allclose(model.kernel(images1, images2 + 1, get="ntk"), whole[:3, 3:], 1e-4)


def test_the_root_of_a_difference_that_is_computed_twice():
    """With the operations of checks between, XLA rounds the difference in one place and not in the other."""
    rows = np.concatenate([drawn(5, 4), drawn(7, 4)[4:]])           # rows 4 and 5 are equal
    model = serial(Dense(8), Relu, Dense(1))
    with xjax.checking("nan"):
        nngp = np.asarray(model.kernel(rows, get="nngp"))
    np.testing.assert_allclose(nngp[4, 5], nngp[4, 4], 1e-3)


def test_inputs_of_other_sizes():
    model = serial(Conv(8, (3,)), Relu, xnn.GlobalAvgPool(), Dense(1))
    long, short = drawn(3, 9, 2), drawn(2, 6, 2)
    assert model.kernel(long, short, get="ntk").shape == (3, 2)
    model = serial(Conv(8, (3,)), Relu, Dense(1))
    assert model.kernel(long, short, get="ntk").shape == (3, 2, 9, 6)


def test_transformations():
    x = drawn(3, 4)
    expected = DEEP.kernel(x, get="ntk")
    np.testing.assert_allclose(xjax.jit(lambda x: DEEP.kernel(x, get="ntk"))(x), expected, 1e-5)
    batches = drawn(2, 3, 4)
    mapped = xjax.vmap(lambda x: DEEP.kernel(x, get="ntk"))(batches)
    np.testing.assert_allclose(mapped[0], DEEP.kernel(batches[0], get="ntk"), 1e-5)
    spread = xjax.pmap(lambda x: DEEP.kernel(x, get="ntk"), devices=xjax.devices()[:1])(batches[:1])
    np.testing.assert_allclose(spread[0], mapped[0], 1e-5)


@pytest.mark.parametrize("layer, parameterization", [
    (Relu, "ntk"), (Tanh, "standard"), slow(Relu, "standard"), slow(Tanh, "ntk"), slow(xnn.ExactGelu, "ntk"),
    slow(xnn.ExactGelu, "standard")], ids=lambda one: getattr(one, "name", one))
def test_gradients(layer, parameterization):
    def loss(x, scale, bias):
        dense = Dense(16, w_init=variance_scaling(scale, "fan_in", "normal"), b_init=normal(bias))
        both = serial(dense, layer, dense, layer, dense).kernel(x, parameterization=parameterization)
        return sum(jnp.sum(jnp.sin(kernel)) for kernel in both)

    with xjax.enable_x64(True):
        args = jnp.asarray(drawn(3, 4), "float64"), jnp.asarray(1.4), jnp.asarray(0.3)
        grads = xjax.grad(loss, (0, 1, 2))(*args)
        for i, (value, grad) in enumerate(zip(args, grads, strict=True)):
            direction = jnp.asarray(np.random.default_rng(1).normal(size=value.shape))
            step = 1e-5

            def at(t, i=i, value=value, direction=direction):
                return loss(*args[:i], value + t * direction, *args[i + 1:])

            np.testing.assert_allclose(jnp.sum(grad * direction), (at(step) - at(-step)) / (2 * step), 1e-5)


@pytest.mark.parametrize("layer", [
    Relu, Tanh, xnn.Sign, *map(slow, (xnn.Abs, xnn.Erf(), xnn.ExactGelu, xnn.RectifiedMonomial(2)))],
    ids=lambda one: one.name)
def test_gradients_are_finite_at_equal_inputs_and_zeros(layer):
    rows = np.stack([drawn(4), drawn(4), np.zeros(4, np.float32)])
    model = serial(Dense(16), layer, Dense(16), layer, Dense(1))
    for x2 in (None, rows):
        value, grad = xjax.value_and_grad(lambda x, x2=x2: sum(map(jnp.sum, model.kernel(x, x2))))(rows)
        assert np.isfinite(value) and np.all(np.isfinite(grad))


def test_empty_batches():
    assert DEEP.kernel(drawn(0, 4), get="ntk").shape == (0, 0)
    assert DEEP.kernel(drawn(0, 4), drawn(2, 4), get="ntk").shape == (0, 2)


def own_init(key, shape, dtype=None):
    return xjax.random.normal(key, shape)


ERRORS = {
    "no kernel": (lambda: serial(Conv(4, (3, 3)), Relu, xnn.MaxPool((2, 2))).kernel(drawn(2, 4, 4, 1)), TypeError,
                  ["MaxPool.kernel", "no kernel", "empirical_ntk"], "in serial[2] -> MaxPool (kernel)"),
    "unknown variance": (lambda: serial(Dense(4, w_init=own_init)).kernel(drawn(2, 3)), TypeError,
                         ["w_init", "own_init", "variance"], "in serial[0] -> Dense (kernel)"),
    "not Gaussian": (lambda: serial(Relu, Dense(4)).kernel(drawn(2, 3)), ValueError, ["Gaussian", "Dense"],
                     "in serial[0] -> Relu (kernel)"),
    "correlated": (lambda: serial(Dense(4), xnn.residual(Relu)).kernel(drawn(2, 3)), ValueError,
                   ["depend on each other"], "in serial[1] -> residual (kernel)"),
    "one value twice": (lambda: serial(Dense(4), xnn.FanOut(2), xnn.FanInSum).kernel(drawn(2, 3)), ValueError,
                        ["depend on each other"], "in serial[2] -> FanInSum (kernel)"),
    "called twice": (lambda: xnn.composite(lambda layers, x: layers.dense(layers.dense(x)), "twice",
                                           dense=Dense(3)).kernel(drawn(2, 3)), ValueError, ["called twice"], None),
    "shared": (lambda: xnn.with_shared(serial(xnn.shared("a", Dense(3)), Relu, xnn.shared("a", Dense(3)))).kernel(
        drawn(2, 3)), ValueError, ["share weights", "slot"], None),
    "get": (lambda: Dense(3).kernel(drawn(2, 3), get="nkt"), ValueError, ["get", "nkt"], None),
    "parameterization": (lambda: Dense(3).kernel(drawn(2, 3), parameterization="mup"), ValueError,
                         ["parameterization"], None),
    "features": (lambda: Dense(3).kernel(drawn(2, 3), drawn(2, 4)), ValueError, ["same features"], None),
    "unknown input": (lambda: Dense(3).kernel(drawn(2, 3), mask=None), TypeError, ["no input 'mask'"], None),
    "integers": (lambda: Dense(3).kernel(np.ones((2, 3), int)), TypeError, ["Embedding"], None),
    "positions of a kernel": (
        lambda: xnn.GlobalAvgPool().kernel(Conv(4, (3,)).kernel(drawn(2, 5, 3), get=None).replace(
            options=Options())), ValueError, ["covariances between different positions"], None),
    "dropped values": (lambda: serial(Dense(4), xnn.Dropout(0.5), Relu).kernel(drawn(2, 3), train=True), ValueError,
                       ["Gaussian"], "in serial[2] -> Relu (kernel)"),
    "late table": (lambda: serial(Dense(3), xnn.Embedding(3, 3)).kernel(drawn(2, 3)), ValueError, ["first layer"],
                   "in serial[1] -> Embedding (kernel)"),
    "grouped": (lambda: serial(Conv(4, (3,)), xnn.DepthwiseConv((3,))).kernel(drawn(2, 5, 3)), ValueError,
                ["groups"], None),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    call, kind, words, note = ERRORS[name]
    error = assert_refused(call, kind, words)
    assert note is None or note in error.__notes__
