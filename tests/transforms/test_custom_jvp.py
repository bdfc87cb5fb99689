"""custom_jvp: the rule is used under every transform, static arguments, Python control flow, errors."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
from tests.lax.oracle import check
from xjax import custom_jvp, lax

jax = pytest.importorskip("jax")

X = np.array([0.3, -1.2, 0.8], np.float32)
TWO = np.stack([X, 2 * X])


def make(lib):
    """A function whose rule is three times its derivative, so that one sees which of them is used."""
    L = lib.lax

    @lib.custom_jvp
    def f(x, y):
        return L.mul(L.sin(x), y), L.mul(x, x)

    @f.defjvp
    def f_jvp(primals, tangents):
        (x, y), (dx, dy) = primals, tangents
        out = f(x, y)
        return out, (L.mul(np.float32(3), L.add(L.mul(L.mul(L.cos(x), y), dx), L.mul(L.sin(x), dy))),
                     L.mul(L.mul(np.float32(6), x), dx))

    return f


def loss(L, x, y):
    a, b = make(xjax if L is xjax.lax else jax)(x, y)
    return L.reduce_sum(L.add(a, L.sin(b)), (0,))


TRANSFORMS = {
    "value": lambda lib, f: f,
    "jvp": lambda lib, f: lambda x, y: lib.jvp(f, (x, y), (y, x)),
    "grad": lambda lib, f: lib.grad(f, (0, 1)),
    "grad of jit": lambda lib, f: lib.grad(lib.jit(f), (0, 1)),
    "vmap": lambda lib, f: lambda x, y: lib.vmap(f, (0, None))(lib.device_put(TWO), y),
    "vmap of grad": lambda lib, f: lambda x, y: lib.vmap(lib.grad(f, (0, 1)), (None, 0))(x, lib.device_put(TWO)),
    "grad of vmap": lambda lib, f: lib.grad(lambda x, y: lib.lax.reduce_sum(
        lib.vmap(f, (0, None))(lib.lax.broadcast(x, (2,)), y), (0,)), (0, 1)),
    "jvp of grad": lambda lib, f: lambda x, y: lib.jvp(lib.grad(f), (x, y), (y, x)),
    "grad of grad": lambda lib, f: lib.grad(lambda x, y: lib.lax.reduce_sum(lib.grad(f)(x, y), (0,)), (0, 1)),
    "in a scan": lambda lib, f: lib.grad(lambda x, y: lib.lax.scan(
        lambda c, _: (lib.lax.mul(c, f(x, y)), None), np.float32(1), None, length=2)[0]),
    "in a cond": lambda lib, f: lib.grad(lambda x, y: lib.lax.cond(True, f, lambda x, y: np.float32(0), x, y)),
}
EAGER = ("value", "grad", "vmap of grad", "grad of vmap")


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_as_jax(transform):
    check(jax, loss, X, X[::-1].copy(), transform=TRANSFORMS[transform], rtol=1e-4)


@pytest.mark.parametrize("transform", EAGER)
def test_eager_as_jax(transform):
    check(jax, loss, X, X[::-1].copy(), transform=TRANSFORMS[transform], rtol=1e-4, eager=True)


def test_nondiff_argnums_come_first_and_may_be_functions():
    apply = custom_jvp(lambda f, x: f(x), nondiff_argnums=(0,))
    seen = []

    @apply.defjvp
    def rule(f, primals, tangents):
        seen.append(f)
        return apply(f, *primals), lax.mul(tangents[0], 7.0)

    for transform in (lambda g: g, xjax.jit):
        assert float(transform(xjax.grad(lambda x: apply(lax.sin, x)))(1.0)) == 7.0
    assert seen == [lax.sin, lax.sin]


def test_python_control_flow_in_an_eager_rule():
    @custom_jvp
    def relu(x):
        return x if x > 0 else lax.mul(x, 0.0)

    @relu.defjvp
    def rule(primals, tangents):
        (x,), (dx,) = primals, tangents
        return relu(x), dx if float(x) > 0 else lax.mul(dx, 0.5)

    assert [float(xjax.grad(relu)(v)) for v in (2.0, -2.0)] == [1.0, 0.5]


def test_defjvps_keywords_and_defaults():
    @custom_jvp
    def f(x, y=2.0):
        return lax.mul(x, y)

    f.defjvps(lambda dx, out, x, y: lax.mul(dx, 10.0), None)
    assert float(xjax.grad(lambda x: f(x))(1.0)) == 10.0
    assert float(xjax.grad(lambda y: f(y=y, x=3.0))(1.0)) == 0.0
    assert float(f(x=3.0)) == 6.0


def test_symbolic_zeros():
    seen = []

    @custom_jvp
    def f(x, y):
        return lax.mul(x, y)

    def rule(primals, tangents):
        seen.append([type(t).__name__ for t in tangents])
        return f(*primals), lax.mul(tangents[0], primals[1])

    f.defjvp(rule, symbolic_zeros=True)
    assert float(xjax.grad(f)(2.0, 3.0)) == 3.0
    assert seen[0][1] == "SymbolicZero"


def test_integer_arguments_and_results():
    @custom_jvp
    def f(n, x):
        return lax.add(n, 1), lax.mul(x, 2.0)

    @f.defjvp
    def rule(primals, tangents):
        assert tangents[0].dtype == xjax.float0
        n, y = f(*primals)
        return (n, y), (np.zeros((), xjax.float0), lax.mul(tangents[1], 5.0))

    assert float(xjax.grad(lambda x: f(1, x)[1])(1.0)) == 5.0


def test_methods():
    class Model:
        scale = 4.0

        @custom_jvp
        def f(self, x):
            return lax.mul(x, self.scale)

    Model.f.nondiff_argnums = (0,)
    Model.f.defjvp(lambda self, primals, tangents: (self.f(*primals), lax.mul(tangents[0], self.scale)))
    assert float(xjax.grad(Model().f)(1.0)) == 4.0


def with_rule(rule):
    f = custom_jvp(lambda x: lax.mul(x, 2.0))
    f.defjvp(rule)
    return xjax.grad(lambda x: lax.reduce_sum(f(x), (0,)))


ERRORS = {
    "no rule": (lambda: custom_jvp(lambda x: x)(1.0), AttributeError, ["no derivative rule", "@f.defjvp"]),
    "no pair": (lambda: with_rule(lambda p, t: p[0])(X), TypeError, ["must return a pair", "fix:"]),
    "structure": (lambda: with_rule(lambda p, t: (p[0], (t[0], t[0])))(X), TypeError,
                  ["different structures", "got a tuple of 2", "fix:"]),
    "shape": (lambda: with_rule(lambda p, t: (p[0], lax.reduce_sum(t[0], (0,))))(X), TypeError,
              ["tangent of the wrong type", "f32[], expected f32[3]", "fix:"]),
    "dtype": (lambda: with_rule(lambda p, t: (p[0], lax.convert_element_type(t[0], np.float16)))(X), TypeError,
              ["f16[3], expected f32[3]", "fix:"]),
    "value from tangent": (lambda: with_rule(lambda p, t: (t[0], t[0]))(X), TypeError, ["depend on a tangent", "fix:"]),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    call, kind, texts = ERRORS[case]
    with pytest.raises(kind) as error:
        call()
    for text in texts:
        assert text in str(error.value)
