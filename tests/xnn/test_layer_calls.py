"""`layer(params, x)` is `layer.apply(params, x)`, and a layer still unpacks as a pair."""

import inspect

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn
from tests.refusals import assert_refused
from xjax import random


@pytest.fixture(scope="module")
def case():
    model = xnn.serial(xnn.Dense(3), xnn.BatchNorm(), xnn.Dropout(0.5))
    return model, model.init(random.key(0), (-1, 4))[1], jnp.ones((2, 4)), model.init_state((-1, 4))


def test_a_call_takes_the_keywords_of_apply(case):
    _, _, x, _ = case
    model = xnn.serial(xnn.Dense(3), xnn.Dropout(0.5))
    params, rng = model.init(random.key(0), (-1, 4))[1], random.key(1)
    for named in ({}, {"rng": rng, "train": True}):
        np.testing.assert_array_equal(model(params, x, **named), model.apply(params, x, **named))
    np.testing.assert_array_equal(model(params=params, x=x), model(params, x))
    jitted = xjax.jit(model, static_argnames="train")
    np.testing.assert_array_equal(jitted(params, x, rng=rng, train=True), model(params, x, rng=rng, train=True))


def test_a_call_takes_the_state(case):
    model, params, x, state = case
    np.testing.assert_array_equal(model(params, x, state=state), model.apply(params, x, state=state))


def test_errors_of_a_call_are_those_of_apply(case):
    model, params, x, _ = case
    errors = []
    for call in (model, model.apply):
        for args in ((params, x), (params, jnp.ones((2, 5)))):
            with pytest.raises(TypeError) as caught:
                call(*args)
            errors.append((str(caught.value), getattr(caught.value, "__notes__", [])))
    assert errors[:2] == errors[2:]


def test_a_call_without_params_or_input(case):
    """The `apply` of a layer may be any function, whose error is Python's."""
    model, params, x, _ = case
    for call, given in ((lambda: model(x), "given  f32[2,4]"), (lambda: model(), "given  nothing"),
                        (lambda: model(x, train=True), "model.apply(params, x)"), (lambda: model(params), "(dict")):
        assert_refused(call, TypeError, [": a layer is called with its params and an input", given])


def test_a_layer_still_is_a_pair():
    layer = xnn.Dense(3)
    init, apply = layer
    assert (init, apply) == (layer.init, layer.apply) == (layer[0], layer[1])
    with pytest.raises(TypeError, match="has no len"):
        len(layer)


def test_a_layer_is_no_function_of_arrays():
    for make in (lambda: xnn.elementwise(xnn.Relu),
                 lambda: xnn.models.MLP(xnn.models.MLPConfig((3,), 2, activation=xnn.Relu))):
        with pytest.raises(TypeError, match=r"needs a function of arrays, not a layer"):
            make()
    with pytest.raises(ValueError, match="norm"):
        xnn.models.graph_stack(xnn.GraphConvolution, xnn.models.GraphStackConfig(3, norm=xnn.LayerNorm()))


def test_a_layer_that_was_not_made_is_still_refused():
    with pytest.raises(TypeError, match=r"fix: call it: Dense\(\.\.\.\)"):
        xnn.serial(xnn.Dense)
    assert callable(xnn.Dense(3)) and inspect.isfunction(xnn.Dense)
