"""Predictions of infinitely wide networks: against neural-tangents, against training, and in themselves."""

import warnings
from pathlib import Path

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn
from tests.refusals import assert_refused
from tests.xnn.kernels.built import built
from tests.xnn.peers import kernels as peer
from xjax import random
from xnn import Conv, Dense, Relu, serial
from xnn.kernels import (
    Gaussian,
    IllConditioned,
    Kernels,
    empirical_ntk,
    gp_inference,
    gradient_descent,
    gradient_descent_mse,
    gradient_descent_mse_ensemble,
    linearize,
    max_learning_rate,
)

EXPECTED = np.load(Path(peer.__file__).with_suffix(".npz"))


@pytest.fixture
def case():
    """(model, training inputs, test inputs, targets, outputs before training for both), in float64."""
    with xjax.enable_x64(True):
        yield built(peer.PREDICTED), peer.arrays()["rows"], peer.arrays()["others"], *peer.targets()


def of(layer, x1, x2=None):
    return layer.kernel(x1, x2, parameterization="ntk")


def close(value, name):
    np.testing.assert_allclose(value, EXPECTED[name], 1e-5, 1e-7, err_msg=name)


def test_posteriors_are_those_of_the_peer(case):
    layer, x, others, y, _, _ = case
    predict = gp_inference(of(layer, x), y, peer.REGULARIZATION)
    for get in ("nngp", "ntk", "ntkgp"):
        result = predict(get, of(layer, others, x), of(layer, others))
        assert isinstance(result, Gaussian)
        close(result.mean, f"posterior mean {get}")
        close(result.covariance, f"posterior covariance {get}")
        np.testing.assert_allclose(predict(get, of(layer, others, x)), result.mean)
    assert isinstance(predict(None, of(layer, others, x)), Kernels)


def test_gradient_flow_is_that_of_the_peer(case):
    layer, x, others, y, start, start_test = case
    predict = gradient_descent_mse(of(layer, x).ntk, y, peer.RATE, peer.REGULARIZATION)
    for t in (np.array(peer.TIMES), None):
        train, test = predict(t, start, start_test, of(layer, others, x).ntk)
        close(train, f"flow {t is None} train")
        close(test, f"flow {t is None} test")
    np.testing.assert_allclose(predict(peer.TIMES[1], start), EXPECTED["flow False train"][1], 1e-5)


def test_ensembles_are_those_of_the_peer(case):
    layer, x, others, y, _, _ = case
    predict = gradient_descent_mse_ensemble(layer, x, y, peer.RATE, peer.REGULARIZATION, parameterization="ntk")
    for get in ("nngp", "ntk"):
        for t in (np.array(peer.TIMES), None):
            mean, covariance = predict(t, others, get, compute_cov=True)
            close(mean, f"ensemble {get} {t is None} mean")
            close(covariance, f"ensemble {get} {t is None} covariance")
    np.testing.assert_allclose(predict(1.0, None, "ntk"), predict(1.0, x, "ntk"))


@pytest.mark.parametrize("momentum", [None, peer.MOMENTUM])
def test_any_loss_is_that_of_the_peer(case, momentum):
    layer, x, others, y, start, start_test = case

    def loss(f, y):
        return jnp.mean(jnp.logaddexp(0, -f * y))

    predict = gradient_descent(loss, of(layer, x).ntk, y, peer.RATE, momentum, rtol=1e-9, atol=1e-9)
    train, test = predict(np.array(peer.TIMES[:3]), start, start_test, of(layer, others, x).ntk)
    close(train, f"any loss {momentum} train")
    close(test, f"any loss {momentum} test")


def test_times_in_any_order(case):
    layer, x, _, y, start, _ = case
    k = of(layer, x).ntk
    closed = gradient_descent_mse(k, y, 0.5)
    solved = gradient_descent(lambda f, y: jnp.mean((f - y) ** 2) / 2, k, y, 0.5, rtol=1e-9, atol=1e-9)
    times = np.array([[3.0, 0.0], [40.0, 3.0]])
    assert closed(times, start).shape == (2, 2, *y.shape)
    np.testing.assert_allclose(solved(times, start), closed(times, start), 1e-6, 1e-7)
    np.testing.assert_allclose(closed(1e9, start), closed(None, start), 1e-6, 1e-6)


def test_the_largest_learning_rate(case):
    layer, x, _, y, _, _ = case
    k = of(layer, x).ntk
    for momentum, expected in zip((0.0, peer.MOMENTUM), EXPECTED["rate"], strict=True):
        assert max_learning_rate(k, y.size, momentum) == pytest.approx(expected, 1e-6)
    large = np.diag(np.linspace(1, 3, 2100))
    assert max_learning_rate(large) == pytest.approx(2 * 2100 / 3, 1e-2)
    assert max_learning_rate(np.zeros((0, 0))) == float("inf")


def test_training_follows_its_prediction():
    # The linearized network is the network that the prediction is exact for; its width does not matter.
    with xjax.enable_x64(True):
        model = serial(Dense(32), xnn.Tanh, Dense(2))
        x, others, y = (np.random.default_rng(i).normal(size=s) for i, s in enumerate(((6, 3), (4, 3), (6, 2))))
        params = model.init(random.PRNGKey(0), x.shape)[1]
        params = xjax.tree.map(lambda w: jnp.asarray(w, "float64"), params)
        network = linearize(model.apply, params)
        rate, steps = 0.002, 3000
        gradient = xjax.grad(lambda p: jnp.mean((network(p, x) - y) ** 2) / 2)

        def step(p, _):
            return xjax.tree.map(lambda w, g: w - rate * g, p, gradient(p)), None

        trained = xjax.lax.scan(step, params, None, length=steps)[0]
        k = empirical_ntk(model.apply, trace_axes=())
        # All pairs of outputs: the targets are inputs and positions, with one feature.
        predict = gradient_descent_mse(k(params, x), y[..., None], rate)
        train, test = predict(steps, network(params, x)[..., None], network(params, others)[..., None],
                              k(params, others, x))
        np.testing.assert_allclose(network(trained, x), train[..., 0], 0, 1e-3)
        np.testing.assert_allclose(network(trained, others), test[..., 0], 0, 1e-3)


def test_outputs_with_positions():
    model = serial(Conv(8, (3,)), Relu, Dense(4))
    x, others = np.random.default_rng(0).normal(size=(2, 5, 6, 3)).astype(np.float32)
    y = np.random.default_rng(1).normal(size=(5, 6, 2)).astype(np.float32)
    train, across, test = model.kernel(x), model.kernel(others[:3], x), model.kernel(others[:3])
    mean, covariance = gp_inference(train, y, 1e-3)("nngp", across, test)
    assert mean.shape == (3, 6, 2) and covariance.shape == (3, 3, 6, 6)
    np.testing.assert_allclose(gp_inference(train, y, 1e-5)("ntk", train), y, 0, 0.05)      # the training targets


def test_conjugate_gradients():
    model = serial(Dense(64), Relu, Dense(64), Relu, Dense(1))
    x, others = np.random.default_rng(0).normal(size=(2, 300, 10)).astype(np.float32)
    y = np.sin(x[:, :2])
    train, across, test = model.kernel(x), model.kernel(others[:20], x), model.kernel(others[:20])
    exact = gp_inference(train, y, 1e-2)("ntk", across, test)
    solved = gp_inference(train, y, 1e-2, solver="cg", rank=60)("ntk", across, test)
    for one, other in zip(solved, exact, strict=True):
        np.testing.assert_allclose(one, other, 0, 1e-3 * np.abs(other).max())


def test_transformations():
    model = serial(Dense(64), xnn.Erf(), Dense(1))
    x, y = np.random.default_rng(0).normal(size=(2, 6, 1))
    others = np.linspace(-1, 1, 3)[:, None]

    def loss(x, regularization):
        predict = gp_inference(model.kernel(x), y, regularization)
        return jnp.sum(predict("ntk", model.kernel(others, x)) ** 2)

    with xjax.enable_x64(True):
        slopes = xjax.jit(xjax.grad(loss, (0, 1)))(x, 0.1)
        step = 1e-6
        assert slopes[1] == pytest.approx(float(loss(x, 0.1 + step) - loss(x, 0.1 - step)) / (2 * step), 1e-4)
        moved = x.copy()
        moved[2] += step
        assert slopes[0][2, 0] == pytest.approx(float(loss(moved, 0.1) - loss(x, 0.1)) / step, 1e-3)




ERRORS = {
    "targets": (lambda: gp_inference(np.eye(4), np.zeros((3, 1))), ["not that of the targets", "(3, 1)"]),
    "not square": (lambda: gradient_descent_mse(np.zeros((4, 3)), np.zeros((4, 1)))(), ["square"]),
    "not positive": (lambda: gp_inference(-np.eye(4), np.ones((4, 1)))("nngp", np.eye(4)),
                     ["not positive definite", "eigenvalues", "-1", "diag_reg"]),
    "get": (lambda: gp_inference(np.eye(4), np.ones((4, 1)))("gp", np.eye(4)), ["get", "gp"]),
    "solver": (lambda: gp_inference(np.eye(4), np.ones((4, 1)), solver="lu")("nngp", np.eye(4)), ["solver", "lu"]),
    "momentum": (lambda: gradient_descent(lambda f, y: 0.0, np.eye(4), np.ones((4, 1)), momentum=1.5), ["momentum"]),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    call, words = ERRORS[name]
    assert_refused(call, ValueError, words)


def test_a_solution_that_is_rounding_is_named():
    k = np.eye(4, dtype=np.float32)
    k[1, 0] = k[0, 1] = 1 - 6e-8
    with pytest.warns(IllConditioned, match="condition of the kernel matrix is at least .*float32.*\n  fix: "):
        gp_inference(k, np.ones((4, 1), np.float32))("nngp", k)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gp_inference(k, np.ones((4, 1), np.float32), 1e-3)("nngp", k)
