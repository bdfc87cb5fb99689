"""The transforms together: nesting, perturbation confusion, escaped values, exceptions, trees, argument checks."""

from __future__ import annotations

import math

import numpy as np
import pytest

import xjax
from tests.compare import assert_same
from tests.oracle import real_jax
from tests.refusals import assert_refused
from xjax import lax
from xjax.core.context import context
from xjax.runtime.dispatch import eval_trace

jax = real_jax()

X = np.array([0.3, -1.2, 0.8], np.float32)


def total(x):
    return lax.reduce_sum(x, tuple(range(x.ndim)))


# -- nesting ------------------------------------------------------------------------------------------------------

def test_perturbation_confusion():
    """d/dx [x * d/dy (x + y)] is 1; confusing the two perturbations gives 2."""
    for d in (xjax.grad, lambda f: lambda x: xjax.jvp(f, (x,), (1.0,))[1]):
        for e in (xjax.grad, lambda f: lambda x: xjax.jvp(f, (x,), (1.0,))[1]):
            assert float(d(lambda x: lax.mul(x, e(lambda y: lax.add(x, y))(1.0)))(1.0)) == 1.0
    assert float(xjax.grad(lambda x: xjax.grad(lambda y: lax.mul(x, lax.mul(y, y)))(x))(3.0)) == 12.0


@pytest.mark.parametrize("outer", [lambda f: f, xjax.jit])
def test_third_derivative_of_sin(outer):
    d = xjax.grad
    assert float(outer(d(d(d(lax.sin))))(0.5)) == pytest.approx(-math.cos(0.5), rel=1e-6)
    j = xjax.jacfwd
    assert float(outer(j(d(j(lax.sin))))(0.5)) == pytest.approx(-math.cos(0.5), rel=1e-6)


NESTINGS = {
    "vmap of grad of jit": lambda lib: lib.vmap(lib.grad(lib.jit(lib.lax.sin))),
    "jit of vmap": lambda lib: lib.jit(lib.vmap(lambda x: lib.lax.mul(lib.lax.sin(x), x))),
    "jit of vmap of grad": lambda lib: lib.jit(lib.vmap(lib.grad(lib.lax.sin))),
    "vmap of jit of grad of grad": lambda lib: lib.vmap(lib.jit(lib.grad(lib.grad(lib.lax.sin)))),
    "grad in a scan in a vmap": lambda lib: lib.vmap(lambda x: lib.lax.scan(
        lambda c, _: (lib.grad(lambda y: lib.lax.mul(lib.lax.sin(y), x))(c), c), x, None, length=3)),
    "vmap in a cond in a grad": lambda lib: lib.grad(lambda x: lib.lax.cond(
        True, lambda x: lib.lax.reduce_sum(lib.vmap(lib.lax.sin)(x), (0,)), lambda x: np.float32(0), x)),
    "scan in a cond in a scan": lambda lib: lambda x: lib.lax.scan(
        lambda c, y: (lib.lax.cond(lib.lax.gt(y, np.float32(0)), lambda: lib.lax.scan(
            lambda a, _: (lib.lax.mul(a, y), None), c, None, length=2)[0], lambda: lib.lax.sin(c)), c),
        np.float32(2), x),
}


@pytest.mark.parametrize("name", NESTINGS)
def test_nesting_as_jax(name):
    assert_same(NESTINGS[name](xjax)(X), jax.jit(NESTINGS[name](jax))(X))


def test_closure_over_tracers():
    def f(x):
        y = lax.sin(x)
        a = xjax.jit(lambda z: lax.mul(y, z))(x)
        b = lax.scan(lambda c, _: (lax.mul(c, y), None), a, None, length=2)[0]
        c = lax.cond(True, lambda: lax.mul(b, y), lambda: b)
        d = lax.while_loop(lambda n: False, lambda n: n, c)
        return xjax.vmap(lambda k: lax.mul(k, y))(np.ones(2, np.float32)), b, c, d

    def g(x):
        return x * math.sin(x) ** 3

    result = f(0.7)
    assert float(result[1]) == pytest.approx(g(0.7), rel=1e-6)
    slope = xjax.grad(lambda x: f(x)[1])
    want = (g(0.7 + 1e-5) - g(0.7 - 1e-5)) / 2e-5
    for h in (slope, xjax.jit(slope)):
        assert float(h(0.7)) == pytest.approx(want, rel=1e-4)
    assert np.asarray(xjax.vmap(slope)(np.full(2, 0.7, np.float32))) == pytest.approx(want, rel=1e-4)


def test_recursion():
    @xjax.jit
    def power(x, n=0):
        return x

    def nth(f, n):
        return f if n == 0 else xjax.grad(nth(f, n - 1))

    assert float(nth(lax.exp, 5)(1.0)) == pytest.approx(math.e, rel=1e-6)

    def factorial(n, x):
        return x if n == 0 else lax.mul(float(n), xjax.jit(factorial, static_argnums=0)(n - 1, x))

    assert float(xjax.grad(lambda x: factorial(5, x))(1.0)) == 120.0
    assert float(power(2.0)) == 2.0


# -- state --------------------------------------------------------------------------------------------------------

TRANSFORMS = {
    "jit": xjax.jit, "grad": xjax.grad, "vmap": lambda f: lambda x: xjax.vmap(f)(x.reshape(1)),
    "jvp": lambda f: lambda x: xjax.jvp(f, (x,), (x,)), "make_jaxpr": xjax.make_jaxpr,
    "scan": lambda f: lambda x: lax.scan(lambda c, y: (f(c), y), x, X),
    "cond": lambda f: lambda x: lax.cond(True, f, f, x), "while": lambda f: lambda x: lax.while_loop(f, f, x),
    "linearize": lambda f: lambda x: xjax.linearize(f, x)}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_an_exception_restores_the_state(name):
    def fails(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        TRANSFORMS[name](fails)(np.float32(1))
    assert context.trace is eval_trace and context.axes == ()
    assert float(lax.sin(np.float32(0))) == 0.0


@pytest.mark.parametrize("name", TRANSFORMS)
def test_escaped_values(name):
    leak = []

    def f(x):
        leak.append(x)
        return lax.lt(x, 0.0) if name == "while" else lax.mul(x, 1.0)

    if name == "while":
        lax.while_loop(f, lambda x: x, np.float32(1))
    else:
        TRANSFORMS[name](f)(np.float32(1))
    for use in (lambda: lax.sin(leak[0]), xjax.jit(lambda: lax.sin(leak[0])), lambda: xjax.grad(lax.mul)(1.0, leak[0])):
        with pytest.raises(xjax.errors.UnexpectedTracerError, match="fix: return it"):
            use()


def test_a_traced_value_as_python():
    def check(convert, kind, text):
        assert_refused(lambda: xjax.jit(lambda x: convert(x))(np.int32(1)), kind, [text, "argument `x`"])

    check(bool, xjax.errors.TracerBoolConversionError, "lax.cond")
    check(int, xjax.errors.ConcretizationTypeError, "int()")
    check(float, xjax.errors.ConcretizationTypeError, "float()")
    check(lambda x: [1, 2][x], xjax.errors.TracerIntegerConversionError, "static_argnums")
    check(np.asarray, xjax.errors.TracerArrayConversionError, "xjax.numpy")


def test_values_are_known_in_eager_derivatives():
    def f(x):
        assert float(x) == 2.0 and int(x) == 2 and bool(x)
        return lax.mul(x, x) if x > 1 else x

    assert float(xjax.grad(f)(2.0)) == 4.0
    assert float(xjax.jvp(f, (2.0,), (1.0,))[1]) == 4.0


# -- derivative functions -----------------------------------------------------------------------------------------

def tree_function(lib):
    L = lib.lax

    def f(params, x):
        h = L.tanh(L.add(L.dot_general(params["w"], x, (((1,), (0,)), ((), ()))), params["b"]))
        return {"h": h, "s": L.reduce_sum(L.mul(h, h), (0,))}
    return f


PARAMS = {"w": np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3), "b": np.array([0.1, 0.2], np.float32)}


@pytest.mark.parametrize("name", ["jacfwd", "jacrev"])
@pytest.mark.parametrize("argnums", [0, 1, (0, 1), (1,)])
def test_jacobians_of_trees_as_jax(name, argnums):
    ours, theirs = (lib.jit(getattr(lib, name)(tree_function(lib), argnums))(PARAMS, X) for lib in (xjax, jax))
    assert_same(ours, theirs)


@pytest.mark.parametrize("argnums", [0, (0, 1)])
def test_hessian_of_trees_as_jax(argnums):
    ours, theirs = (lib.jit(lib.hessian(lambda p, x, lib=lib: tree_function(lib)(p, x)["s"], argnums))(PARAMS, X)
                    for lib in (xjax, jax))
    assert_same(ours, theirs)


@pytest.mark.parametrize("argnums", [0, 1, (0, 1), (1, 0), -1, (0, -1), [0]])
def test_argnums_as_jax(argnums):
    ours, theirs = (lib.grad(lambda p, x, lib=lib: tree_function(lib)(p, x)["s"], argnums)(PARAMS, X)
                    for lib in (xjax, jax))
    assert_same(ours, theirs)


def test_aux_may_hold_anything():
    def f(x, *, scale):
        return lax.mul(x, scale), {"name": "loss", "n": 3, "y": lax.sin(x), "none": None}

    (value, aux), g = xjax.value_and_grad(f, has_aux=True)(2.0, scale=5.0)
    assert (float(value), float(g), aux["name"], aux["n"], aux["none"]) == (10.0, 5.0, "loss", 3, None)
    assert float(lax.add(aux["y"], 0.0)) == pytest.approx(math.sin(2.0))        # no tracer leaves the transform
    g, aux = xjax.grad(f, has_aux=True)(2.0, scale=5.0)
    assert float(g) == 5.0 and aux["name"] == "loss"
    y, back, aux = xjax.vjp(lambda x: f(x, scale=5.0), 2.0, has_aux=True)
    assert (float(y), float(back(1.0)[0]), aux["n"]) == (10.0, 5.0, 3)
    y, dy, aux = xjax.jvp(lambda x: f(x, scale=5.0), (2.0,), (1.0,), has_aux=True)
    assert (float(y), float(dy), aux["name"]) == (10.0, 5.0, "loss")


def test_linearize_and_vjp_are_reusable():
    y, lin = xjax.linearize(lambda x, n: {"y": lax.mul(lax.sin(x), 2.0), "n": n}, X, 3)
    for k in (1.0, 2.0):
        out = lin(np.full(3, k, np.float32), np.zeros((), xjax.float0))
        np.testing.assert_allclose(np.asarray(out["y"]), 2 * k * np.cos(X), rtol=1e-6)
        assert out["n"].dtype == xjax.float0
    _, back = xjax.vjp(lambda x, y: lax.mul(x, y), X, 2 * X)
    for k in (1.0, 2.0):
        dx, dy = back(np.full(3, k, np.float32))
        np.testing.assert_allclose(np.asarray(dx), 2 * k * X, rtol=1e-6)
        np.testing.assert_allclose(np.asarray(dy), k * X, rtol=1e-6)


def test_integer_inputs():
    g = xjax.grad(lambda n, x: lax.mul(lax.convert_element_type(n, np.float32), x), (0, 1), allow_int=True)(3, 2.0)
    assert g[0].dtype == xjax.float0 and float(g[1]) == 3.0


def test_holomorphic():
    z = np.complex64(1 + 2j)
    assert complex(xjax.grad(lambda z: lax.mul(z, z), holomorphic=True)(z)) == 2 + 4j


BATCH = {"w": np.ones((4, 2), np.float32), "b": np.ones((3, 2), np.float32)}
ERRORS = {
    "grad of an array": (lambda: xjax.grad(lax.sin)(X), TypeError, ["return a scalar", "f32[3]", "jacrev"]),
    "grad of an int input": (lambda: xjax.grad(lambda d: d["k"])({"k": 3}), TypeError,
                             ["argument 0['k']", "int32", "2.0 instead of 2"]),
    "grad of an int result": (lambda: xjax.grad(lambda x: lax.convert_element_type(x, np.int32))(1.0), TypeError,
                              ["real floating-point scalar", "i32[]"]),
    "grad of a tree": (lambda: xjax.grad(lambda x: (x, x))(1.0), TypeError, ["must return one scalar", "has_aux"]),
    "grad of text": (lambda: xjax.grad(lambda x: x)("a"), TypeError, ["argument 0 is not an array"]),
    "argnums": (lambda: xjax.grad(lambda x: x, 2)(1.0), TypeError, ["argument 2 is chosen", "1 positional"]),
    "argnums twice": (lambda: xjax.grad(lax.mul, (0, 0))(1.0, 2.0), ValueError, ["names an argument twice"]),
    "aux": (lambda: xjax.grad(lambda x: x, has_aux=True)(1.0), TypeError, ["pair (value, aux)"]),
    "vmap sizes": (lambda: xjax.vmap(lambda params, x: x)(BATCH, np.ones(4, np.float32)), ValueError,
                   ["inconsistent sizes", "params['b']: f32[3,2], axis 0 has size 3"]),
    "vmap of nothing": (lambda: xjax.vmap(lambda x: x, in_axes=None)(X), ValueError, ["no argument is mapped"]),
    "vmap axis": (lambda: xjax.vmap(lambda x: x, in_axes=2)(X), ValueError, ["cannot map axis 2", "f32[3]"]),
    "vmap in_axes": (lambda: xjax.vmap(lambda x: x, in_axes=(0, 0))(X), ValueError, ["2 entries for 1"]),
    "vmap out_axes": (lambda: xjax.vmap(lambda x: x, out_axes=None)(X), ValueError, ["out_axes is None"]),
    "vmap of a scalar": (lambda: xjax.vmap(lambda x: x)(1.0), ValueError, ["cannot map axis 0"]),
    "jvp structure": (lambda: xjax.jvp(lax.sin, (1.0,), (1.0, 2.0)), TypeError, ["same structure"]),
    "jvp type": (lambda: xjax.jvp(lax.sin, (X,), (np.ones(2, np.float32),)), ValueError,
                 ["tangent has the wrong type", "f32[3]", "f32[2]"]),
    "vjp cotangent": (lambda: xjax.vjp(lax.sin, X)[1]((X, X)), ValueError, ["structure of the cotangent differs"]),
    "no array": (lambda: xjax.grad(lambda x: "loss")(1.0), TypeError, ["type str, which is not an array"]),
    "holomorphic": (lambda: xjax.grad(lax.sin, holomorphic=True)(1.0), TypeError, ["needs complex inputs"]),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    assert_refused(*ERRORS[case])
