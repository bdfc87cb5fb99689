"""custom_linear_solve: against real JAX in 64 bits under every transformation, which program runs when, errors."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
from tests.compare import assert_same
from tests.lax.compositions import richardson
from tests.lax.oracle import LOOPS, check, float64, gradient
from tests.oracle import real_jax
from tests.refusals import assert_refused
from xjax import lax
from xjax.core.jaxpr import check_jaxpr
from xjax.interop import from_jax

jax = real_jax()

A = np.array([[4.0, 1.0, 0.5], [0.2, 3.0, 0.1], [0.3, -0.7, 5.0]])
B = np.array([1.0, 2.0, -1.0])
AS, BS = np.stack([A, A + np.eye(3)]), np.stack([B, B[::-1]])


def general(lib, a, b):
    solver = richardson(lib, 0.2)
    return lib.lax.custom_linear_solve(lambda x: a @ x, b, solver, solver)


def symmetric(lib, a, b):
    return lib.lax.custom_linear_solve(lambda x: (a + a.T) @ x, b, richardson(lib, 0.1), symmetric=True)


def of_trees(lib, a, b):
    """A block system on a dict, with an auxiliary result; the matrix is a multiple of the identity on half of it."""
    def matvec(x):
        return {"u": a @ x["u"], "v": (2.0 * x["v"], x["v"] * 0.0 + x["v"])[0]}

    def solve(matvec, b):
        u = richardson(lib, 0.2)(lambda u: matvec({"u": u, "v": b["v"]})["u"], b["u"])
        return {"u": u, "v": b["v"] / 2.0}, {"norm": lib.numpy.sum(u * u), "turns": 80}

    def transposed(vecmat, b):
        return solve(vecmat, b)
    x, note = lib.lax.custom_linear_solve(matvec, {"u": b, "v": b[:2]}, solve, transposed, has_aux=True)
    return x["u"], x["v"], lib.lax.stop_gradient(note["norm"])


FUNCTIONS = {f.__name__: f for f in (general, symmetric, of_trees)}


def mapped(axes, out=0):
    args = [stack if axis == 0 else x if axis is None else np.moveaxis(stack, 0, axis)
            for x, stack, axis in zip((A, B), (AS, BS), axes, strict=True)]
    return lambda lib, f: lambda a, b: lib.vmap(f, axes, out)(*args)


TRANSFORMS = {
    "value and jvp": lambda lib, f: lambda a, b: lib.jvp(f, (a, b), (b[:, None] * a, b)),
    "jvp of grad": lambda lib, f: lambda a, b: lib.jvp(gradient(lib, f), (a, b), (a.T, b)),
    "grad of grad": lambda lib, f: gradient(lib, gradient(lib, f)),
    "vmap of the matrix": mapped((0, None)),
    "vmap of b": mapped((None, 1)),
    "vmap of both": mapped((2, 0), -1),
    "vmap of grad": lambda lib, f: mapped((0, None))(lib, gradient(lib, f)),
    "grad of vmap": lambda lib, f: gradient(lib, lambda a, b: lib.vmap(f, (None, 0))(a, lib.numpy.stack([b, 2 * b]))),
    "grad of remat of jit": lambda lib, f: gradient(lib, lib.checkpoint(lib.jit(f))),
}
SOON = {("general", t) for t in TRANSFORMS} | {("of_trees", "jvp of grad"), ("of_trees", "vmap of grad"),
                                               ("symmetric", "grad of remat of jit")}


WITHOUT_JAX = {("of_trees", "grad of grad")}         # an assertion in JAX fails


@pytest.mark.parametrize("name, transform", [
    pytest.param(f, t, marks=() if (f, t) in SOON else pytest.mark.slow)
    for f in FUNCTIONS for t in TRANSFORMS if (f, t) not in WITHOUT_JAX])
def test_as_jax(name, transform):
    def run(lib):
        return lib.jit(TRANSFORMS[transform](lib, lambda a, b: FUNCTIONS[name](lib, a, b)))(A, B)
    with float64(jax):
        assert_same(run(xjax), run(jax), tol=LOOPS)


def test_eager_solution_and_gradient():
    with xjax.enable_x64(True):
        np.testing.assert_allclose(np.asarray(general(xjax, A, B)), np.linalg.solve(A, B), rtol=1e-9)
        g = xjax.grad(lambda b: xjax.numpy.sum(general(xjax, A, b)))(B)
        np.testing.assert_allclose(np.asarray(g), np.linalg.solve(A.T, np.ones(3)), rtol=1e-9)


def test_complex_systems_as_jax():
    a, b = (A + 0.3j * A.T).astype(np.complex64), (B - 1j).astype(np.complex64)
    check(jax, lambda L, a, b: L.custom_linear_solve(
        lambda x: a @ x, b, richardson(xjax if L is lax else jax, 0.2), richardson(xjax if L is lax else jax, 0.2)),
        a, b, transform=lambda lib, f: lambda a, b: lib.vjp(f, a, b)[1](f(a, b)))


def test_the_solver_is_not_differentiated():
    """The derivative of this formula would be 3 b; the implicit derivative is b / 2."""
    def f(b):
        return lax.custom_linear_solve(lambda x: 2.0 * x, b, lambda matvec, b: 1.5 * b * b, symmetric=True)
    assert float(xjax.jvp(f, (np.float32(1),), (np.float32(1),))[1]) == 1.5     # solve(db), not d solve(b)
    assert float(xjax.grad(f)(np.float32(3))) == 1.5


def test_transposes_swap_the_programs():
    closed = xjax.make_jaxpr(xjax.grad(lambda b: general(xjax, A.astype(np.float32), b).sum()))(B.astype(np.float32))
    check_jaxpr(closed.jaxpr)
    forward, back = [eqn for eqn in closed.eqns if eqn.primitive.name == "custom_linear_solve"]
    for name, other in (("matvec", "vecmat"), ("solve", "transpose_solve")):
        assert getattr(forward.params["jaxprs"], name) is getattr(back.params["jaxprs"], other)


def test_programs_print_as_in_jax():
    def f(lib):
        return lambda a, b: lib.lax.custom_linear_solve(
            lambda x: lib.lax.mul(a, x), b, lambda matvec, b: lib.lax.div(b, a), symmetric=True)
    x = np.ones(2, np.float32)
    assert str(xjax.make_jaxpr(f(xjax))(x, x)) == str(jax.make_jaxpr(f(jax))(x, x))


def test_solvers_written_in_jax_cross_the_bridge():
    def f(a, b):
        return jax.scipy.sparse.linalg.cg(lambda x: a @ x, b)[0]
    a, b = (A + A.T).astype(np.float32), B.astype(np.float32)
    ours = from_jax(f)
    np.testing.assert_allclose(np.asarray(ours(a, b)), np.linalg.solve(a, b), rtol=1e-4)
    g = xjax.grad(lambda b: xjax.numpy.sum(ours(a, b)))(b)
    np.testing.assert_allclose(np.asarray(g), np.linalg.solve(a, np.ones(3)), rtol=1e-4)


ONES = np.ones(2, np.float32)


def keep(matvec, b):
    return b


ERRORS = {
    "no function": (lambda: lax.custom_linear_solve(None, ONES, keep), TypeError, ["`matvec` must be a function"]),
    "text": (lambda: lax.custom_linear_solve(lambda x: x, {"k": "a"}, keep), TypeError, ["b['k'] is not an array"]),
    "structure of matvec": (lambda: lax.custom_linear_solve(lambda x: (x, x), ONES, keep), TypeError,
                            ["`matvec` returns a structure that differs", "expected a leaf, got a tuple of 2"]),
    "shape of matvec": (lambda: lax.custom_linear_solve(lambda x: {"u": x["u"][:1]}, {"u": ONES}, keep), TypeError,
                        ["`matvec` returns types that differ", "result['u']  f32[1], expected f32[2]"]),
    "integers": (lambda: lax.custom_linear_solve(lambda x: x, 1, lambda matvec, b: b / 2), TypeError,
                 ["`solve` returns types that differ", "f32[], expected i32[]", "start from floats"]),
    "no aux": (lambda: lax.custom_linear_solve(lambda x: x, ONES, keep, has_aux=True), TypeError,
               ["`solve` must return a pair (x, aux)", "f32[2]"]),
    "no transpose": (lambda: xjax.grad(lambda b: lax.custom_linear_solve(lambda x: x, b, keep))(1.0), TypeError,
                     ["needs a solver for the transposed system", "transpose_solve="]),
    "not linear": (lambda: lax.custom_linear_solve(lax.sin, ONES, keep, keep), TypeError,
                   ["`matvec` is not linear", "sin (transpose)", "lax.custom_root"]),
    "a square": (lambda: lax.custom_linear_solve(lambda x: x * x, ONES, keep, keep), TypeError,
                 ["`matvec` is not linear"]),
    "an inverse": (lambda: lax.custom_linear_solve(lambda x: 2.0 / x, ONES, keep, keep), TypeError,
                   ["`matvec` is not linear"]),
    "vecmat": (lambda: lax.custom_linear_solve(lambda x: x, ONES, keep, lambda vecmat, b: vecmat((b, b))), TypeError,
               ["`vecmat` is called with a structure that differs"]),
    "matrix": (lambda: xjax.linear_transpose(lambda a: lax.custom_linear_solve(lambda x: a * x, 1.0, keep, keep), 2.0)(
        1.0), TypeError, ["not linear in values that `matvec` closes over"]),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    call, kind, texts = ERRORS[case]
    assert_refused(call, kind, [*texts, "custom_linear_solve: "])
