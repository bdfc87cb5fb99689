"""The linear family, activations and normalised weights against PyTorch's arrays: tests/xnn/peers/dense.py."""

import functools
from pathlib import Path

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn
from tests.compare import assert_close
from xjax import random

ARRAYS = dict(np.load(Path(__file__).parent / "peers/dense.npz"))
ACTIVATIONS = sorted(key.removeprefix("activations/y ") for key in ARRAYS if key.startswith("activations/y "))


def arrays_of(name):
    return {key.removeprefix(f"{name}/"): value for key, value in ARRAYS.items() if key.startswith(f"{name}/")}


def with_gradients(run, inputs):
    """y and the gradients of sum(sin(y))."""
    def total(inputs):
        y = run(inputs)
        return jnp.sum(jnp.sin(y)), y
    grads, y = xjax.grad(total, has_aux=True)(inputs)
    return y, grads


def assert_as_pytorch(y, grads, expected):
    """Sums of at most 20 terms of size 1 in float32."""
    assert_close(y, expected["y"], tol=0.5)
    assert_close(grads, {name: expected[f"grad {name}"] for name in grads}, tol=0.5)


@functools.cache
def activations():
    """All cases as one program, which compiles sooner than one for each."""
    return xjax.jit(lambda x: {name: with_gradients(lambda inputs: getattr(xnn, name).apply((), inputs["x"]), {"x": x})
                               for name in ACTIVATIONS})(arrays_of("activations")["x"])


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name):
    data = arrays_of("activations")
    assert_as_pytorch(*activations()[name], {"y": data[f"y {name}"], "grad x": data[f"grad {name}"]})


CASES = {
    "bilinear": (xnn.Bilinear(3), ("x", "other"), lambda v: {"w": v["w"], "b": v["b"]}, ("w", "b")),
    "prelu": (xnn.PReLU(per_feature=True), ("x",), lambda v: {"slope": v["slope"]}, ("slope",)),
    "weight_normed": (xnn.weight_norm(xnn.Dense(3)), ("x",), lambda v: {"w": {"g": v["g"], "v": v["v"]}, "b": v["b"]},
                      ("g", "v", "b")),
}


@pytest.mark.parametrize("name", CASES)
def test_layers(name):
    layer, inputs, params, weights = CASES[name]
    data = arrays_of(name)
    run = lambda v: layer.apply(params(v), *[v[key] for key in inputs])
    result = xjax.jit(lambda v: with_gradients(run, v))({key: data[key] for key in (*inputs, *weights)})
    assert_as_pytorch(*result, data)


def test_three_steps_of_spectral_norm():
    data = arrays_of("spectral_normed")
    layer = xnn.spectral_norm(xnn.Dense(3), epsilon=1e-12)
    state = {"u": {"w": jnp.asarray(data["u"])}, "layer": ()}
    @xjax.jit
    def step(v, state):
        run = lambda v: layer.apply_with_state({"w": v["w"], "b": v["b"]}, state, v["x"], train=True)
        return with_gradients(lambda v: run(v)[0], v), run(v)[1]

    inputs = {key: data[key] for key in ("x", "w", "b")}
    for _ in range(3):
        result, state = step(inputs, state)
    assert_as_pytorch(*result, data)
    np.testing.assert_allclose(state["u"]["w"], data["u after"], rtol=1e-5, atol=1e-6)


def test_values_of_alpha_dropout():
    y = xnn.AlphaDropout(0.3).apply((), jnp.ones(1000), rng=random.key(0), train=True)
    np.testing.assert_allclose(np.unique(y), ARRAYS["alpha_dropout/values"], rtol=1e-5)
