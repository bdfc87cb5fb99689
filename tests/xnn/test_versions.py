"""Newer versions of layers read parameters that older versions saved."""

import json

import numpy as np
import pytest

import xjax.numpy as jnp
from tests.refusals import assert_refused
from xnn import Dense, Layer, Relu, named, residual, serial, shared, with_precision, with_shared
from xnn.params import upgrade, versions

X = jnp.ones((2, 3))


def Scale(version):
    """x times a factor, which version 1 stored as its logarithm."""

    def init(rng, in_shape):
        return in_shape, {"log": jnp.zeros(())} if version == 1 else {"factor": jnp.ones(())}

    def apply(params, x, *, rng=None, train=False):
        return x * (jnp.exp(params["log"]) if version == 1 else params["factor"])

    def read(params, saved):
        return {"factor": jnp.exp(params["log"])}

    return Layer(init, apply, "Scale", version=version, upgrade=read if version > 1 else None)


MODELS = {
    "alone": (lambda scale: scale, {"": 2}),
    "serial": (lambda scale: serial(Dense(3), residual(scale, Relu)), {"1/0": 2}),
    "named": (lambda scale: named(body=serial(scale, scale), head=Dense(1)), {"body/0": 2, "body/1": 2}),
    "shared": (lambda scale: with_shared(serial(shared("s", scale), Relu, shared("s", scale))), {"shared/s": 2}),
    "precision": (lambda scale: with_precision(serial(scale), "float32"), {"0": 2}),
}


@pytest.mark.parametrize("name", MODELS)
def test_old_parameters_are_read(name, key):
    make, expected = MODELS[name]
    old, new = make(Scale(1)), make(Scale(2))
    assert versions(old) == {} and versions(new) == expected
    params = old.init(key, X.shape)[1]
    upgraded = upgrade(new, params, json.loads(json.dumps(versions(old))))
    np.testing.assert_allclose(new.apply(upgraded, X), old.apply(params, X), rtol=1e-6)
    fresh = new.init(key, X.shape)[1]
    assert upgrade(new, fresh, versions(new)) == fresh


WRONG = {
    "newer": (lambda: upgrade(serial(Scale(1)), ({},), {"0": 2}), ["newer than the layer", "0: Scale"]),
    "not readable": (lambda: upgrade(Layer(Relu.init, Relu.apply, "Own", version=3), (), {}),
                     ["cannot read older parameters", "the model: Own", "upgrade="]),
    "another model": (lambda: upgrade(serial(Relu), ((),), {"7": 2}), ["belong to another model", "7"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_say_what_and_how_to_fix_it(name):
    call, fragments = WRONG[name]
    assert_refused(call, ValueError, [*fragments, "params.upgrade"])
