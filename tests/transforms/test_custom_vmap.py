"""custom_vmap and sequential_vmap: the rule is used in any order of transforms; errors."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.compare import assert_same
from tests.lax.oracle import check
from tests.oracle import real_jax
from tests.refusals import assert_refused
from xjax import lax
from xjax.core.jaxpr import check_jaxpr
from xjax.custom_batching import custom_vmap, sequential_vmap

jax = real_jax()
oracle = real_jax("custom_batching").custom_batching

X = np.array([0.3, -1.2, 0.8], np.float32)
Y = np.array([1.5, 0.7, -0.4], np.float32)
S = np.float32(0.6)


def make(lib):
    """sin(x) y, but twice that under vmap, which shows that the rule is used; the second result is x."""
    L = lib.lax

    @(custom_vmap if lib is xjax else oracle.custom_vmap)
    def f(x, y):
        return {"a": L.mul(L.sin(x), y), "b": x}

    @f.def_vmap
    def rule(axis_size, in_batched, x, y):
        assert type(in_batched) is list and axis_size == (np.shape(x) if in_batched[0] else np.shape(y))[0]
        x, y = (v if b else L.broadcast(v, (axis_size,)) for v, b in zip((x, y), in_batched, strict=True))
        return {"a": L.mul(np.float32(2), L.mul(L.sin(x), y)), "b": x}, {"a": True, "b": True}

    return f


def of(L):
    return make(xjax if L is lax else jax)


# Cases that JAX supports too: (transform(lib, f), arguments).
AS_JAX = {
    "value": (lambda lib, f: f, (S, S)),
    "vmap": (lambda lib, f: lib.vmap(f), (X, Y)),
    "vmap of one": (lambda lib, f: lib.vmap(f, (0, None)), (X, S)),
    "vmap of the other, axis 1": (lambda lib, f: lib.vmap(f, (None, 1), 1), (np.ones(2, np.float32), np.stack([X, Y]))),
    "vmap of vmap": (lambda lib, f: lib.vmap(lib.vmap(f), (0, None)), (np.stack([X, Y]), Y)),
    "jvp": (lambda lib, f: lambda x, y: lib.jvp(f, (x, y), (y, x)), (S, S)),
    "vmap of jvp": (lambda lib, f: lib.vmap(lambda x, y: lib.jvp(f, (x, y), (y, x))), (X, Y)),
    "jvp of vmap": (lambda lib, f: lambda x, y: lib.jvp(lib.vmap(f), (x, y), (y, x)), (X, Y)),
    "vmap of scan": (lambda lib, f: lib.vmap(lambda x, y: lib.lax.scan(
        lambda c, _: (f(c, y)["a"], c), x, None, length=3)), (X, Y)),
    "vmap of cond": (lambda lib, f: lib.vmap(lambda x, y: lib.lax.cond(
        lib.lax.gt(x, np.float32(0)), f, lambda x, y: {"a": x, "b": y}, x, y)), (X, Y)),
}


@pytest.mark.parametrize("case", AS_JAX)
def test_as_jax(case):
    transform, args = AS_JAX[case]
    check(jax, lambda L, x, y: of(L)(x, y), *args, transform=transform)


@pytest.mark.parametrize("case", ["vmap", "vmap of jvp"])
def test_eager_as_jax(case):
    transform, args = AS_JAX[case]
    check(jax, lambda L, x, y: of(L)(x, y), *args, transform=transform, eager=True)


def plain(L, factor):
    return lambda x, y: L.mul(np.float32(factor), L.mul(L.sin(x), y))


# Cases that JAX does not support (reverse mode) or computes otherwise (its second derivatives run the rule with
# unmapped # arguments). Each equals the same transform of a function that computes the rule's result.
BEYOND = {
    "vmap of jvp of jvp": (2, lambda lib, f: lib.vmap(lambda x, y: lib.jvp(
        lambda x: lib.jvp(f, (x, y), (y, x)), (x,), (y,))), (X, Y)),
    "grad": (1, lambda lib, f: lib.grad(f, (0, 1)), (S, S)),
    "vmap of grad": (2, lambda lib, f: lib.vmap(lib.grad(f, (0, 1))), (X, Y)),
    "vmap of grad by a shared argument": (2, lambda lib, f: lib.vmap(lib.grad(f, (0, 1)), (0, None)), (X, S)),
    "grad of vmap": (2, lambda lib, f: lib.grad(
        lambda x, y: lib.lax.reduce_sum(lib.vmap(f, (0, None))(x, y), (0,)), (0, 1)), (X, S)),
    "vmap of grad of grad": (2, lambda lib, f: lib.vmap(lib.grad(lib.grad(f), (0, 1))), (X, Y)),
    "vmap of jvp of grad": (2, lambda lib, f: lib.vmap(lambda x, y: lib.jvp(lib.grad(f), (x, y), (y, x))), (X, Y)),
    "vmap of grad of remat": (2, lambda lib, f: lib.vmap(lib.grad(lib.checkpoint(f))), (X, Y)),
    "vmap of grad of scan": (2, lambda lib, f: lib.vmap(lib.grad(lambda x, y: lib.lax.scan(
        lambda c, _: (f(c, y), None), x, None, length=3)[0], (0, 1))), (X, Y)),
    "vmap of linearize": (2, lambda lib, f: lib.vmap(lambda x, y: lib.linearize(f, x, y)[1](y, x)), (X, Y)),
}


@pytest.mark.parametrize("case", BEYOND)
def test_beyond_jax(case):
    factor, transform, args = BEYOND[case]
    result = xjax.jit(transform(xjax, lambda x, y: make(xjax)(x, y)["a"]))(*args)
    assert_same(result, jax.jit(transform(jax, plain(jax.lax, factor)))(*args))


def test_the_program_has_the_name_and_parameters_of_jax():
    ours = xjax.make_jaxpr(make(xjax))(S, S)
    theirs = jax.make_jaxpr(make(jax))(S, S)
    check_jaxpr(ours.jaxpr)
    (a,), (b,) = ours.eqns, theirs.eqns
    assert a.primitive.name == b.primitive.name and a.params.keys() == b.params.keys()


def test_sequential_vmap_runs_one_element_after_the_other():
    seen = []

    def f(x, tree):
        seen.append(x.shape)
        return {"product": x * tree["y"], "next": x + 1}

    for args, axes in (((X, {"y": Y}), (0, 0)), ((X, {"y": S}), (0, None))):
        ours = xjax.vmap(sequential_vmap(f), axes)(*args)
        assert_same(ours, jax.vmap(oracle.sequential_vmap(f), axes)(*args))
    assert set(seen) == {()}
    names = {e.primitive.name for e in xjax.make_jaxpr(xjax.vmap(sequential_vmap(f)))(X, {"y": Y}).eqns}
    assert "scan" in names
    g = xjax.vmap(xjax.grad(lambda x: sequential_vmap(f)(x, {"y": x})["product"]))(X)
    np.testing.assert_allclose(g, 2 * X, rtol=1e-6)


def test_keywords_and_defaults_are_filled_in():
    f = custom_vmap(lambda x, y=2.0: x * y)
    f.def_vmap(lambda n, batched, x, y: (x * y + 100, True))
    np.testing.assert_allclose(xjax.vmap(lambda x: f(y=3.0, x=x))(X), 3 * X + 100, rtol=1e-6)
    np.testing.assert_allclose(f(S), 1.2, rtol=1e-6)


def with_rule(rule):
    f = custom_vmap(lambda x: (x, x))
    f.def_vmap(rule)
    return xjax.vmap(f)(X)


def closing_over_a_mapped_value(y):
    f = custom_vmap(lambda x: x * y)
    f.def_vmap(lambda n, b, x: (x, True))
    return f(y)


ERRORS = {
    "no rule": (lambda: custom_vmap(lambda x: x)(1.0), AttributeError, ["no rule for vmap", "@f.def_vmap"]),
    "no pair": (lambda: with_rule(lambda n, b, x: x), TypeError, ["must return a pair (result, out_batched)"]),
    "structure of the result": (lambda: with_rule(lambda n, b, x: (x, True)), ValueError,
                                ["the result of `<lambda>`", "expected a tuple of 2"]),
    "structure of out_batched": (lambda: with_rule(lambda n, b, x: ((x, x), True)), ValueError,
                                 ["the out_batched of", "expected a tuple of 2"]),
    "result is not mapped": (lambda: with_rule(lambda n, b, x: ((x, jnp.sum(x)), (True, True))), TypeError,
                             ["result[1]", "f32[], expected f32[3]", "size 3"]),
    "result is mapped": (lambda: with_rule(lambda n, b, x: ((x, x), (True, False))), TypeError,
                         ["result[1]", "f32[3], expected f32[]"]),
    "closure": (lambda: xjax.vmap(closing_over_a_mapped_value)(X), ValueError, ["closes over a value"]),
    "call": (lambda: make(xjax)(1.0, z=2.0), TypeError, ["custom_vmap `f`", "do not match the function"]),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    assert_refused(*ERRORS[case])
