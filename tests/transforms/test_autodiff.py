"""The derivative functions with all their options, as in JAX in float64; operations in their programs; errors."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.compare import assert_same
from tests.oracle import real_jax
from tests.refusals import assert_refused
from tests.sampling import one_in

jax = real_jax()

X = np.array([0.3, -1.2, 0.8])
Y = np.array([[1.0, -2.0], [0.5, 0.25]])
Z = np.array([1 + 2j, -0.5 + 0.3j])
TREE = {"w": Y, "b": (X, np.float64(0.7))}


def smooth(lib, tree):
    n = lib.numpy
    return {"a": n.sum(n.sin(tree["w"]) @ tree["w"]) * tree["b"][1], "b": n.exp(tree["b"][0]) * tree["b"][1]}


def scalar(lib, tree):
    result = smooth(lib, tree)
    return result["a"] + lib.numpy.sum(result["b"] ** 2)


def with_aux(lib):
    return lambda tree: (scalar(lib, tree), {"aux": (tree["b"][1] * 2, 3)})


def pair_with_aux(lib):
    return lambda tree: (smooth(lib, tree), [tree["b"][0]])


def of_two(lib):
    return lambda x, n, z: lib.numpy.sum(x * lib.numpy.sin(z * n))


# name -> (lib -> function, arguments)
CASES = {
    "value_and_grad has_aux": (lambda lib: lib.value_and_grad(with_aux(lib), has_aux=True), (TREE,)),
    "grad has_aux": (lambda lib: lib.grad(with_aux(lib), has_aux=True), (TREE,)),
    "value_and_grad argnums": (lambda lib: lib.value_and_grad(of_two(lib), (2, 0)), (X, 2, X)),
    "grad allow_int": (lambda lib: lib.grad(of_two(lib), (0, 1), allow_int=True), (X, 2, X)),
    "grad allow_int of bools": (lambda lib: lib.grad(lambda m, x: lib.numpy.sum(lib.numpy.where(m, x, 2 * x)), (0, 1),
                                                     allow_int=True), (X > 0, X)),
    "vjp has_aux": (lambda lib: lambda t: lib.vjp(pair_with_aux(lib), t, has_aux=True)[::2], (TREE,)),
    "vjp": (lambda lib: lambda t: lib.vjp(lambda t: smooth(lib, t), t)[1](smooth(lib, t)), (TREE,)),
    "vjp of an int result": (lambda lib: lambda x: lib.vjp(lambda x: (x * 2, 3), x)[1]((x, np.zeros((), lib.float0))),
                             (X,)),
    "jvp has_aux": (lambda lib: lambda t: lib.jvp(pair_with_aux(lib), (t,), (t,), has_aux=True), (TREE,)),
    "linearize has_aux": (lambda lib: lambda t: (lambda y, f, aux: (y, f(t), aux))(
        *lib.linearize(pair_with_aux(lib), t, has_aux=True)), (TREE,)),
    "jacfwd": (lambda lib: lib.jacfwd(lambda t: smooth(lib, t)), (TREE,)),
    "jacrev": (lambda lib: lib.jacrev(lambda t: smooth(lib, t)), (TREE,)),
    "jacobian argnums": (lambda lib: lib.jacobian(lambda x, y: (x[:, None] * y[0], x[0]), (1, 0)), (X, Y)),
    "jacfwd has_aux": (lambda lib: lib.jacfwd(pair_with_aux(lib), has_aux=True), (TREE,)),
    "jacrev has_aux": (lambda lib: lib.jacrev(pair_with_aux(lib), has_aux=True), (TREE,)),
    "hessian of a tree": (lambda lib: lib.hessian(lambda t: scalar(lib, t)), (TREE,)),
    "hessian has_aux": (lambda lib: lib.hessian(with_aux(lib), has_aux=True), (TREE,)),
    "hessian argnums": (lambda lib: lib.hessian(lambda x, y: lib.numpy.sum(x[:2] ** 2 * y), (0, 1)), (X, Y)),
    "reverse over forward": (lambda lib: lib.jacrev(lib.jacfwd(lambda t: scalar(lib, t))), (TREE,)),
    "reverse over reverse": (lambda lib: lib.jacrev(lib.jacrev(lambda t: scalar(lib, t))), (TREE,)),
    "forward over forward": (lambda lib: lib.jacfwd(lib.jacfwd(lambda t: scalar(lib, t))), (TREE,)),
    "jacrev in vmap": (lambda lib: lib.vmap(lib.jacrev(lambda y: lib.numpy.outer(y, lib.numpy.sin(y)))), (Y,)),
    "jacfwd of vmap": (lambda lib: lib.jacfwd(lib.vmap(lambda y: y * lib.numpy.sum(y))), (Y,)),
    # Complex numbers, in JAX's convention.
    "grad of a real function of complex": (lambda lib: lib.grad(
        lambda z: lib.numpy.sum(lib.numpy.abs(z) ** 2 + lib.numpy.real(z) ** 3 * lib.numpy.imag(z))), (Z,)),
    "grad holomorphic": (lambda lib: lib.grad(lambda z: lib.numpy.sum(lib.numpy.sin(z) * z), holomorphic=True), (Z,)),
    "jacfwd holomorphic": (lambda lib: lib.jacfwd(lambda z: lib.numpy.exp(z) * z[0], holomorphic=True), (Z,)),
    "jacrev holomorphic": (lambda lib: lib.jacrev(lambda z: lib.numpy.exp(z) * z[0], holomorphic=True), (Z,)),
    "hessian holomorphic": (lambda lib: lib.hessian(lambda z: lib.numpy.sum(lib.numpy.exp(z) * z[0]), holomorphic=True),
                            (Z,)),
    "jvp complex": (lambda lib: lambda z: lib.jvp(lambda z: lib.numpy.conj(z) * z * lib.numpy.real(z), (z,), (1j * z,)),
                    (Z,)),
    "vjp complex": (lambda lib: lambda z: lib.vjp(lambda z: lib.numpy.conj(z) * z * lib.numpy.imag(z), z)[1](1j * z),
                    (Z,)),
    "jacrev of complex to real": (lambda lib: lib.jacrev(lambda z: lib.numpy.abs(z) * lib.numpy.real(z[0])), (Z,)),
    "stop_gradient": (lambda lib: lib.grad(lambda x: lib.numpy.sum(x * lib.lax.stop_gradient(lib.numpy.sin(x)))), (X,)),
    "linear_transpose": (lambda lib: lambda x: lib.linear_transpose(
        lambda t: (3 * t["w"] @ Y, t["b"][0][:2] + t["b"][1]), TREE)((Y, x[:2])), (X,)),
    "linear_transpose of ints": (lambda lib: lib.linear_transpose(lambda n: 3 * n[1:], np.arange(3)), (np.arange(2),)),
    "linear_transpose complex": (lambda lib: lib.linear_transpose(lambda z: (2 + 1j) * z, Z), (Z,)),
}


@pytest.mark.parametrize("name", one_in(3, CASES))
def test_as_jax(name):
    make, args = CASES[name]
    with xjax.enable_x64(True), jax.enable_x64(True):
        ours, theirs = xjax.jit(make(xjax))(*args), jax.jit(make(jax))(*args)
        assert_same(ours, theirs)


def test_forward_over_reverse_and_reverse_over_forward_agree():
    def f(t):
        return scalar(xjax, t)

    with xjax.enable_x64(True):
        one, two = xjax.jit(lambda t: (xjax.jacfwd(xjax.jacrev(f))(t), xjax.jacrev(xjax.jacfwd(f))(t)))(TREE)
    assert_same(one, two)


# -- zeros are not computed ---------------------------------------------------------------------------------------

def names_of(f, *args):
    return [eqn.primitive.name for eqn in xjax.make_jaxpr(f)(*args).eqns]


# function, arguments, operations that its program must have, in order: no zeros and no unneeded derivatives.
PROGRAMS = {
    "grad by one of many": (xjax.grad(lambda x, y, z: jnp.sum(jnp.sin(x) * y * z)), 3,
                            ["sin", "cos", "mul", "mul", "reduce_sum", "broadcast_in_dim", "mul", "mul", "mul"]),
    "vjp of an unused result": (lambda x, y: xjax.vjp(lambda x: (jnp.sin(x), jnp.exp(y)), x)[1]((y, y)), 2,
                                ["sin", "cos", "exp", "mul"]),
    "jvp of a constant result": (lambda x, y: xjax.jvp(lambda x: (x, jnp.sin(y)), (x,), (y,)), 2,
                                 ["sin", "broadcast_in_dim"]),          # the zeros of the result
    "jvp by one": (lambda x, y: xjax.jvp(lambda x: x * y, (x,), (y,))[1], 2, ["mul", "mul"]),
    "grad of an argument that does not matter": (lambda x, y: xjax.grad(lambda x, y: jnp.sum(y), 1)(x, y), 2,
                                                 ["reduce_sum", "broadcast_in_dim"]),
    "stopped": (xjax.grad(lambda x: jnp.sum(x + jnp.sin(xjax.lax.stop_gradient(x)))), 1,
                ["stop_gradient", "sin", "add", "reduce_sum", "broadcast_in_dim"]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_zeros_are_not_computed(name):
    f, count, want = PROGRAMS[name]
    assert names_of(f, *[X.astype(np.float32)] * count) == want


def test_zeros_are_not_computed_inside_loops():
    """Only the carry that depends on the argument has a tangent; the loop has no tangent for the other."""
    def f(x, y):
        (a, b), _ = xjax.lax.scan(lambda c, _: ((c[0] * y, c[1] + jnp.sin(y)), None), (x, y), None, length=4)
        return a + b

    forward, back = (e for e in xjax.make_jaxpr(xjax.grad(f))(1.0, 2.0).eqns if e.primitive.name == "scan")
    assert len(back.params["jaxpr"].out_avals) == 1 and len(forward.params["jaxpr"].out_avals) == 2


# -- functions that are returned ----------------------------------------------------------------------------------

def test_derivative_functions_are_trees_of_their_residuals():
    x = X.astype(np.float32)
    y, back = xjax.jit(lambda x: xjax.vjp(jnp.sin, x))(x)
    assert len(xjax.tree_util.tree_leaves(back)) == 1
    np.testing.assert_allclose(xjax.jit(lambda back, ct: back(ct))(back, x)[0], np.cos(x) * x, rtol=1e-6)
    doubled = xjax.tree_util.tree_map(lambda r: 2 * r, back)
    np.testing.assert_allclose(doubled(x)[0], 2 * np.cos(x) * x, rtol=1e-6)
    y, push = xjax.jit(lambda x: xjax.linearize(jnp.sin, x))(x)
    np.testing.assert_allclose(push(x), np.cos(x) * x, rtol=1e-6)
    back = xjax.jit(lambda f: xjax.linear_transpose(f, x))(push)
    np.testing.assert_allclose(back(x)[0], np.cos(x) * x, rtol=1e-6)


@pytest.mark.parametrize("jitted", [True, False])
def test_fwd_and_bwd_as_jax(jitted):
    traced = []

    def run(lib):
        def f(x, n, tree):
            traced.append(lib)
            return {"y": lib.numpy.sin(x) * tree["w"] * n}, (x, n)

        fwd, bwd = lib.fwd_and_bwd(f, (2, 0), has_aux=True, jitted=jitted)
        one = lib.fwd_and_bwd(lambda x, y: x * y, 1, jitted=jitted)
        results = []
        for k in (1, 2):
            y, residuals, aux = fwd(k * x, 3, {"w": x})
            results.append((y, aux, bwd(residuals, y), one[1](one[0](x, x)[1], y["y"])))
        return results

    x = X.astype(np.float32)
    assert_same(run(xjax), run(jax))
    assert traced.count(xjax) == (1 if jitted else 2)


ERRORS = {
    "no function": (lambda: xjax.grad(3.0), TypeError, ["grad: needs a function", "grad(f)(x)"]),
    "no function for vjp": (lambda: xjax.vjp(3.0, 1.0), TypeError, ["vjp: needs a function"]),
    "reduce_axes": (lambda: xjax.grad(jnp.sin, reduce_axes=("i",)), NotImplementedError, ["reduce_axes", "lax.psum"]),
    "reduce_axes of vjp": (lambda: xjax.vjp(jnp.sin, 1.0, reduce_axes=("i",)), NotImplementedError, ["lax.psum"]),
    "two cotangents": (lambda: xjax.vjp(lambda x: (x, x), 1.0)[1](1.0, 2.0), TypeError,
                       ["takes one cotangent, but got 2", "back((ct_1, ct_2))"]),
    "jacfwd of complex": (lambda: xjax.jacfwd(jnp.abs)(Z), TypeError, ["argument 0 is complex", "holomorphic=True"]),
    "jacfwd of int": (lambda: xjax.jacfwd(jnp.sin)(3), TypeError, ["int32"]),
    "jacfwd holomorphic to real": (lambda: xjax.jacfwd(jnp.abs, holomorphic=True)(Z), TypeError,
                                   ["needs a complex result", "float32"]),
    "jacrev to complex": (lambda: xjax.jacrev(lambda x: x * 1j)(1.0), TypeError,
                          ["real floating-point", "c64[]", "holomorphic=True"]),
    "jacrev to int": (lambda: xjax.jacrev(lambda x: jnp.floor(x).astype(int))(X), TypeError,
                      ["real floating-point array", "i32[3]"]),
    "grad to complex": (lambda: xjax.grad(lambda x: x * 1j)(1.0), TypeError, ["real floating-point scalar", "c64[]"]),
    "transpose mixed": (lambda: xjax.linear_transpose(lambda n: n * 1.5, np.arange(3)), TypeError,
                        ["all floats (or complex), or all integers", "argument 0  i32[3]", "result 0", "f32[3]"]),
    "transpose of a shape": (lambda: xjax.linear_transpose(lambda x: 2 * x, X)(1.0), TypeError,
                             ["the type of a cotangent differs", "result     f32[3]", "cotangent  f32[]"]),
    "transpose of a dtype": (lambda: xjax.linear_transpose(lambda x: 2 * x, X)(np.arange(3)), TypeError,
                             ["f32[3]", "i32[3]"]),
    "transpose of a square": (lambda: xjax.linear_transpose(lambda x: x * x, 1.0)(1.0), TypeError,
                              ["not linear", "use vjp"]),
    "linearized": (lambda: xjax.linearize(jnp.sin, X)[1](1.0), ValueError, ["tangent has the wrong type", "f32[3]"]),
    "linearized tree": (lambda: xjax.linearize(jnp.sin, X)[1]((X, X)), TypeError, ["structure of the primals"]),
    "fwd_and_bwd": (lambda: xjax.fwd_and_bwd(jnp.sin, 1)[0](X), ValueError, ["argument 1 is chosen"]),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    assert_refused(*ERRORS[case])
