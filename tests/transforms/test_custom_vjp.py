"""custom_vjp: the rule is used under every transform, static arguments, Python control flow, errors."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
from tests.lax.oracle import check
from xjax import custom_vjp, lax

jax = pytest.importorskip("jax")

X = np.array([0.3, -1.2, 0.8], np.float32)
TWO = np.stack([X, 2 * X])


def make(lib):
    """A function whose rule is three times its gradient, with a tree of residuals."""
    L = lib.lax

    @lib.custom_vjp
    def f(args):
        return L.mul(L.sin(args["x"]), args["y"]), L.mul(args["x"], args["x"])

    def fwd(args):
        return f(args), {"cos": L.cos(args["x"]), "args": args}

    def bwd(res, cts):
        x, y = res["args"]["x"], res["args"]["y"]
        a, b = cts
        dx = L.add(L.mul(L.mul(a, y), res["cos"]), L.mul(L.mul(b, x), np.float32(2)))
        return {"x": L.mul(dx, np.float32(3)), "y": L.mul(L.mul(a, L.sin(x)), np.float32(3))},

    f.defvjp(fwd, bwd)
    return f


def loss(L, x, y):
    a, b = make(xjax if L is xjax.lax else jax)({"x": x, "y": y})
    return L.reduce_sum(L.add(a, L.sin(b)), (0,))


TRANSFORMS = {
    "value": lambda lib, f: f,
    "grad": lambda lib, f: lib.grad(f, (0, 1)),
    "grad of jit": lambda lib, f: lib.grad(lib.jit(f), (0, 1)),
    "vmap": lambda lib, f: lambda x, y: lib.vmap(f, (0, None))(lib.device_put(TWO), y),
    "vmap of grad": lambda lib, f: lambda x, y: lib.vmap(lib.grad(f, (0, 1)), (None, 0))(x, lib.device_put(TWO)),
    "grad of vmap": lambda lib, f: lib.grad(lambda x, y: lib.lax.reduce_sum(
        lib.vmap(f, (0, None))(lib.lax.broadcast(x, (2,)), y), (0,)), (0, 1)),
    "grad of grad": lambda lib, f: lib.grad(lambda x, y: lib.lax.reduce_sum(lib.grad(f)(x, y), (0,)), (0, 1)),
    "in a scan": lambda lib, f: lib.grad(lambda x, y: lib.lax.scan(
        lambda c, _: (lib.lax.mul(c, f(x, y)), None), np.float32(1), None, length=2)[0]),
    "in a cond": lambda lib, f: lib.grad(lambda x, y: lib.lax.cond(True, f, lambda x, y: np.float32(0), x, y)),
    "in a checkpoint": lambda lib, f: lib.grad(lib.checkpoint(f), (0, 1)),
}
EAGER = ("value", "grad", "vmap of grad", "grad of vmap")


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_as_jax(transform):
    check(jax, loss, X, X[::-1].copy(), transform=TRANSFORMS[transform], rtol=1e-4)


@pytest.mark.parametrize("transform", EAGER)
def test_eager_as_jax(transform):
    check(jax, loss, X, X[::-1].copy(), transform=TRANSFORMS[transform], rtol=1e-4, eager=True)


def test_nondiff_argnums_come_first_in_bwd():
    f = custom_vjp(lambda x, g, n: g(x), nondiff_argnums=(1, 2))
    f.defvjp(lambda x, g, n: (g(x), x), lambda g, n, res, ct: (lax.mul(ct, float(n)),))
    assert float(xjax.grad(lambda x: f(x, lax.sin, 7))(1.0)) == 7.0
    assert float(xjax.jit(xjax.grad(lambda x: f(x, lax.sin, 5)))(1.0)) == 5.0


def test_python_control_flow_in_an_eager_rule():
    seen = []
    f = custom_vjp(lambda x: lax.sin(x))

    def bwd(x, ct):
        seen.append(float(x))
        return (ct if x > 0 else lax.mul(ct, 0.5),)

    f.defvjp(lambda x: (f(x), x), bwd)
    assert [float(xjax.grad(f)(v)) for v in (2.0, -2.0)] == [1.0, 0.5]
    assert seen == [2.0, -2.0]


def test_none_is_a_zero_cotangent_and_integers_need_none():
    f = custom_vjp(lambda n, x, y: lax.mul(x, y))
    f.defvjp(lambda n, x, y: (f(n, x, y), y), lambda y, ct: (None, lax.mul(ct, y), None))
    dx, dy = xjax.grad(f, (1, 2))(2, 3.0, 4.0)
    assert (float(dx), float(dy)) == (4.0, 0.0)


def test_keywords_and_defaults():
    f = custom_vjp(lambda x, y=2.0: lax.mul(x, y))
    f.defvjp(lambda x, y: (f(x, y), None), lambda _, ct: (lax.mul(ct, 10.0), None))
    assert float(xjax.grad(lambda x: f(x))(1.0)) == 10.0
    assert float(f(y=3.0, x=1.0)) == 3.0


def with_rule(fwd, bwd):
    f = custom_vjp(lambda x: lax.mul(x, 2.0))
    f.defvjp(fwd, bwd)
    return xjax.grad(lambda x: lax.reduce_sum(f(x), (0,)))


def keep(x):
    return lax.mul(x, 2.0), None


ERRORS = {
    "no rule": (lambda: custom_vjp(lambda x: x)(1.0), AttributeError, ["no derivative rule", "defvjp"]),
    "fwd": (lambda: with_rule(lambda x: x, lambda r, ct: (ct,))(X), TypeError, ["`fwd` must return a pair", "fix:"]),
    "bwd is no tuple": (lambda: with_rule(keep, lambda r, ct: ct)(X), TypeError, ["a tuple of 1 cotangents", "fix:"]),
    "bwd has two": (lambda: with_rule(keep, lambda r, ct: (ct, ct))(X), TypeError, ["a tuple of 1", "tuple of 2"]),
    "structure": (lambda: with_rule(keep, lambda r, ct: ({"a": ct},))(X), TypeError,
                  ["argument 0 with another structure", "fix:"]),
    "shape": (lambda: with_rule(keep, lambda r, ct: (lax.reduce_sum(ct, (0,)),))(X), TypeError,
              ["of argument 0", "f32[], expected f32[3]", "fix:"]),
    "forward mode": (lambda: xjax.jvp(make(xjax), ({"x": X, "y": X},), ({"x": X, "y": X},)), TypeError,
                     ["custom_vjp", "forward-mode", "custom_jvp rule"]),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    call, kind, texts = ERRORS[case]
    with pytest.raises(kind) as error:
        call()
    for text in texts:
        assert text in str(error.value)
