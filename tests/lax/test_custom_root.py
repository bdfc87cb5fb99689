"""custom_root: against real JAX in 64 bits under every transformation, eager mode, zero derivatives, errors."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
from tests.compare import assert_same
from tests.lax.compositions import solve_in_root
from tests.lax.oracle import LOOPS, float64, gradient
from tests.oracle import real_jax
from tests.refusals import assert_refused
from xjax import lax

jax = real_jax()

A = np.array([0.5, 2.0, 3.0])
B = np.array([1.0, 0.3, -0.4])


def newton(lib):
    def solve(f, x):
        def step(s):
            x, i = s
            y, dy = lib.jvp(f, (x,), (lib.numpy.ones_like(x),))
            return x - y / dy, i + 1
        return lib.lax.while_loop(lambda s: s[1] < 30, step, (x, 0))[0]
    return solve


def scalar(lib, a, b):
    """A solver without reverse mode: the derivative uses f alone."""
    return lib.lax.custom_root(lambda x: x ** 3 + a[1] * x - b[0], 1.0 + 0 * a[0], newton(lib),
                               lambda g, y: y / g(1.0)) * b


def of_trees(lib, a, b):
    """A dict of unknowns, and an auxiliary result of the solver (JAX requires floats there). A few steps are enough:
    both libraries stop at the same point, and differentiate with the same formula there."""
    jnp = lib.numpy

    def f(x):
        return {"p": 3 * x["p"] - a + 0.1 * jnp.sin(x["q"]), "q": 2 * x["q"] - b * x["p"]}

    def solve(f, x):
        for _ in range(6):
            r = f(x)
            x = {"p": x["p"] - 0.3 * r["p"], "q": x["q"] - 0.4 * r["q"]}
        return x, (jnp.sum(x["p"]), x["q"])

    def tangent_solve(g, y):
        x = {"p": 0 * y["p"], "q": 0 * y["q"]}
        for _ in range(6):
            r = g(x)
            x = {"p": x["p"] - 0.3 * (r["p"] - y["p"]), "q": x["q"] - 0.4 * (r["q"] - y["q"])}
        return x
    x, (total, _) = lib.lax.custom_root(f, {"p": a, "q": b}, solve, tangent_solve, has_aux=True)
    return x["p"], x["q"], lib.lax.stop_gradient(total)


FUNCTIONS = {"scalar": scalar, "of_trees": of_trees, "solve_in_root": solve_in_root}
TRANSFORMS = {
    "value and jvp": lambda lib, f: lambda a, b: lib.jvp(f, (a, b), (b, a)),
    "jvp of grad": lambda lib, f: lambda a, b: lib.jvp(gradient(lib, f), (a, b), (b, a)),
    "vmap of grad": lambda lib, f: lambda a, b: lib.vmap(gradient(lib, f), (0, None))(lib.numpy.stack([a, 2 * a]), b),
    "grad of vmap": lambda lib, f: gradient(lib, lambda a, b: lib.vmap(f, (None, 0))(a, lib.numpy.stack([b, 2 * b]))),
    "grad of remat of jit": lambda lib, f: gradient(lib, lib.checkpoint(lib.jit(f))),
}
SOON = {("scalar", t) for t in TRANSFORMS} | {("solve_in_root", "vmap of grad")}


@pytest.mark.parametrize("name, transform", [
    pytest.param(f, t, marks=() if (f, t) in SOON else pytest.mark.slow) for f in FUNCTIONS for t in TRANSFORMS])
def test_as_jax(name, transform):
    def run(lib):
        return lib.jit(TRANSFORMS[transform](lib, lambda a, b: FUNCTIONS[name](lib, a, b)))(A, B)
    with float64(jax):
        assert_same(run(xjax), run(jax), tol=LOOPS)


def cube_root(a):
    return lax.custom_root(lambda x: x * x * x - a, np.float32(1.5), newton(xjax), lambda g, y: y / g(np.float32(1)))


def test_eager_derivatives_of_three_orders():
    f, a = cube_root, np.float32(8)
    for want in (2.0, 1 / 12, -1 / 144, 5 / 3456):
        np.testing.assert_allclose(float(f(a)), want, rtol=1e-4)
        f = xjax.grad(f)


def test_the_guess_has_no_derivative():
    def f(guess):
        return lax.custom_root(lambda x: x - 3.0, guess, lambda f, x: x - f(x), lambda g, y: y / g(1.0))
    assert float(xjax.grad(f)(5.0)) == 0.0 and float(f(5.0)) == 3.0


def test_aux_of_integers():
    def f(a):
        return lax.custom_root(lambda x: x - a, 0.0 * a, lambda f, x: (x - f(x), {"turns": 1}), lambda g, y: y,
                               has_aux=True)
    (x, aux), (dx, daux) = xjax.jvp(f, (2.0,), (1.0,))
    assert (float(x), float(dx), int(aux["turns"]), daux["turns"].dtype) == (2.0, 1.0, 1, xjax.float0)


def step(f, x):
    return x - f(x)


ERRORS = {
    "no function": (lambda: lax.custom_root(3, 1.0, step, step), TypeError, ["`f` must be a function"]),
    "no tangent solver": (lambda: lax.custom_root(lambda x: x, 1.0, step, None), TypeError,
                          ["`tangent_solve` must be a function"]),
    "text": (lambda: lax.custom_root(lambda x: x, ["a"], step, step), TypeError, ["initial_guess[0] is not an array"]),
    "structure of f": (lambda: lax.custom_root(lambda x: (x, x), 1.0, step, step), TypeError,
                       ["`f` returns a structure that differs", "expected a leaf, got a tuple of 2"]),
    "shape of the solution": (lambda: lax.custom_root(lambda x: x, A.astype(np.float32), lambda f, x: x[:1], step),
                              TypeError, ["`solve` returns types that differ", "f32[1], expected f32[3]"]),
    "type of the tangent": (lambda: lax.custom_root(lambda x: x, 1.0, step, lambda g, y: y > 0), TypeError,
                            ["`tangent_solve` returns types that differ", "bool[], expected f32[]"]),
    "no aux": (lambda: lax.custom_root(lambda x: x, 1.0, step, step, has_aux=True), TypeError,
               ["`solve` must return a pair (x, aux)"]),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    call, kind, texts = ERRORS[case]
    assert_refused(call, kind, [*texts, "custom_root: "])
