"""custom_gradient: one function that returns the value and the rule, as in JAX; errors."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
from tests.lax.oracle import check
from tests.oracle import real_jax
from tests.refusals import assert_refused
from xjax import custom_gradient

jax = real_jax()

X = np.array([0.3, -1.2, 0.8], np.float32)


def make(lib):
    """sin(x) y of a tree, with three times its gradient; the rule uses values that the function computed."""
    n = lib.numpy

    @lib.custom_gradient
    def f(args, y):
        c, s = n.cos(args["x"]), n.sin(args["x"])

        def rule(ct):
            return {"x": 3 * (ct["a"] * y * c + ct["b"])}, 3 * ct["a"] * s

        return {"a": s * y, "b": args["x"]}, rule

    return lambda x, y: f({"x": x}, y)


def loss(lib, x, y):
    result = make(lib)(x, y)
    return lib.numpy.sum(result["a"] ** 2 + result["b"])


TRANSFORMS = {
    "value": lambda lib, f: lambda x, y: make(lib)(x, y),
    "grad": lambda lib, f: lib.grad(f, (0, 1)),
    "grad of jit": lambda lib, f: lib.grad(lib.jit(f), (0, 1)),
    "grad of grad": lambda lib, f: lib.grad(lambda x, y: lib.numpy.sum(lib.grad(f)(x, y)), (0, 1)),
    "vmap of grad": lambda lib, f: lambda x, y: lib.vmap(lib.grad(f, (0, 1)), (0, None))(lib.numpy.stack([x, y]), y),
    "grad of vmap": lambda lib, f: lib.grad(lambda x, y: lib.numpy.sum(lib.vmap(f)(x, y)), (0, 1)),
    "grad of scan": lambda lib, f: lib.grad(lambda x, y: lib.lax.scan(
        lambda c, _: (c * f(x, y), None), np.float32(1), None, length=2)[0], (0, 1)),
    "grad of checkpoint": lambda lib, f: lib.grad(lib.checkpoint(f), (0, 1)),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_as_jax(transform):
    def both(lib, _):
        return TRANSFORMS[transform](lib, lambda x, y: loss(lib, x, y))
    check(jax, None, X, X[::-1].copy(), transform=both)


def test_one_argument_may_have_a_bare_cotangent_and_arguments_keywords():
    f = custom_gradient(lambda x, scale=2.0: (x * scale, lambda ct: (10 * ct, None)))
    assert [float(g) for g in xjax.grad(lambda x, s: f(x, scale=s), (0, 1))(1.0, 5.0)] == [10.0, 0.0]
    g = custom_gradient(lambda x: (x, lambda ct: 7 * ct))
    assert float(xjax.grad(g)(1.0)) == 7.0 and float(f(scale=3.0, x=2.0)) == 6.0


ERRORS = {
    "no pair": (lambda: custom_gradient(lambda x: x)(1.0), ["must return (value, rule)"]),
    "no rule": (lambda: custom_gradient(lambda x: (x, x))(1.0), ["must return (value, rule)"]),
    "count": (lambda: xjax.grad(custom_gradient(lambda x, y: (x * y, lambda ct: (ct,))))(1.0, 2.0),
              ["custom_gradient `<lambda>`", "must return a tuple of 2 cotangents", "return (ct0, ct1)"]),
    "shape": (lambda: xjax.grad(lambda x: custom_gradient(lambda x: (x, lambda ct: ct.sum()))(x).sum())(X),
              ["cotangent of argument 0", "f32[], expected f32[3]"]),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    call, texts = ERRORS[case]
    assert_refused(call, TypeError, texts)
