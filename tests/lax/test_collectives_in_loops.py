"""Collectives inside the bodies of control flow, under pmap and vmap(axis_name), against real JAX in 64 bits."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
from tests.compare import assert_same
from tests.lax.compositions import richardson
from tests.lax.oracle import LOOPS, float64, gradient
from tests.oracle import real_jax

jax = real_jax()

W = np.array([[0.5, -1.0, 1.5], [0.2, 0.3, -0.7]])
X = np.array([[0.3, 0.9, -0.4], [1.0, -0.2, 0.1]])


def psum_in_scan(lib, w, x):
    lax, jnp = lib.lax, lib.numpy
    return lax.scan(lambda c, k: (jnp.sin(lax.psum(c * w, "i")) * k, lax.pmean(c, "i")), x, jnp.arange(1.0, 4.0))


def all_gather_in_cond(lib, w, x):
    lax, jnp = lib.lax, lib.numpy
    return lax.cond(lax.psum(w[0], "i") > 0, lambda x: jnp.sum(lax.all_gather(x * w, "i") ** 2, 0), lambda x: x * 1.0,
                    x)


def axis_index_in_switch(lib, w, x):
    return lib.lax.switch(lib.lax.axis_index("i"), [lambda x: x * w, lib.numpy.sin], x)


def psum_in_fori(lib, w, x):
    lax = lib.lax
    return lax.fori_loop(0, 3, lambda i, c: lib.numpy.tanh(lax.psum(c, "i") * w + i * lax.axis_index("i")), x)


def psum_in_remat_in_scan(lib, w, x):
    lax, jnp = lib.lax, lib.numpy
    return lax.scan(lib.checkpoint(lambda c, k: (jnp.sin(lax.psum(c * w, "i")) * k, k)), x, jnp.arange(1.0, 4.0))[0]


def all_gather_in_map(lib, w, x):
    return lib.lax.map(lambda v: lib.lax.all_gather(v * w[0], "i"), x)


def psum_in_cond_in_scan(lib, w, x):
    lax, jnp = lib.lax, lib.numpy

    def body(c, k):
        return lax.cond(k > 1.0, lambda c: lax.psum(c * w, "i"), jnp.cos, c), None
    return lax.scan(body, x, jnp.arange(1.0, 4.0))[0]


def ppermute_in_scan(lib, w, x):
    lax, jnp = lib.lax, lib.numpy
    return lax.scan(lambda c, k: (lax.ppermute(jnp.sin(c) * w, "i", [(0, 1), (1, 0)]) + k, c[0]), x,
                    jnp.arange(1.0, 4.0))


def psum_in_associative_scan(lib, w, x):
    def add(a, b):
        return a + b * (1.0 + 0.0 * lib.lax.psum(1, "i"))
    return lib.lax.associative_scan(add, lib.lax.psum(x, "i") * w)


def psum_in_linear_solve(lib, w, x):
    lax = lib.lax

    def solve(matvec, b):
        return lax.fori_loop(0, 30, lambda i, v: v + 0.4 * (b - matvec(v)), b)
    return lax.custom_linear_solve(lambda v: 2 * v + 0.1 * lax.psum(v * w, "i"), x, solve, solve)


def psum_in_root(lib, w, x):
    lax, jnp = lib.lax, lib.numpy

    def f(v):
        return 2 * v + 0.1 * jnp.tanh(lax.psum(v, "i") * w) - x

    def solve(f, v):
        return lax.fori_loop(0, 30, lambda i, v: v - 0.4 * f(v), v)
    solver = richardson(lib, 0.4)
    return lax.custom_root(f, x, solve, lambda g, y: lax.custom_linear_solve(g, y, solver, solver))


SMOOTH = {f.__name__: f for f in (
    psum_in_scan, all_gather_in_cond, axis_index_in_switch, psum_in_fori, psum_in_remat_in_scan, all_gather_in_map,
    psum_in_cond_in_scan, ppermute_in_scan, psum_in_associative_scan, psum_in_linear_solve, psum_in_root)}


def psum_in_while(lib, w, x):
    lax = lib.lax
    return lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, lib.numpy.sin(lax.psum(s[1] * w, "i"))), (0, x))[1]


def psum_in_condition(lib, w, x):
    lax, jnp = lib.lax, lib.numpy
    return lax.while_loop(lambda s: jnp.sum(lax.psum(jnp.abs(s), "i")) < 20, lambda s: s * 1.5 + 0.1 * w, x)


FORWARD = {f.__name__: f for f in (psum_in_while, psum_in_condition)}


def twice(lib, f):
    return lambda w, x: f(w, lib.numpy.stack([x, 2 * x]))


# transform(lib, f) for functions of one element of the axis
TRANSFORMS = {
    "vmap of grad": lambda lib, f: lib.jit(lib.vmap(gradient(lib, f), axis_name="i")),
    "pmap of grad": lambda lib, f: lib.pmap(gradient(lib, f), axis_name="i"),
    "vmap": lambda lib, f: lib.jit(lib.vmap(f, axis_name="i")),
    "pmap": lambda lib, f: lib.pmap(f, axis_name="i"),
    "grad of vmap": lambda lib, f: lib.jit(gradient(lib, lib.vmap(f, axis_name="i"))),
    "grad of pmap": lambda lib, f: gradient(lib, lib.pmap(f, axis_name="i")),
    "pmap of vmap": lambda lib, f: twice(lib, lib.pmap(lib.vmap(f, (None, 0)), axis_name="i", in_axes=(0, 1))),
    "vmap of pmap": lambda lib, f: twice(lib, lib.vmap(lib.pmap(f, axis_name="i"), (None, 0))),
    "pmap of jvp": lambda lib, f: lib.pmap(lambda w, x: lib.jvp(f, (w, x), (x, w)), axis_name="i"),
    "vmap of jit of jvp": lambda lib, f: lib.vmap(lib.jit(lambda w, x: lib.jvp(f, (w, x), (x, w))), axis_name="i"),
}
# These pairs run always; the whole product runs with `slow`.
ON_DEVICES = ("psum_in_scan", "all_gather_in_cond", "psum_in_fori", "ppermute_in_scan", "psum_in_root")
SOON = [("vmap of grad", "ppermute_in_scan"),
        *(("pmap of grad" if name in ON_DEVICES else "vmap of grad", name) for name in SMOOTH)]


def check(f, transform) -> None:
    def run(lib):
        return transform(lib, lambda w, x: f(lib, w, x))(W, X)
    with float64(jax):
        assert_same(run(xjax), run(jax), tol=LOOPS)


@pytest.mark.parametrize("transform, name", [
    pytest.param(t, name, marks=() if (t, name) in SOON else pytest.mark.slow) for t in TRANSFORMS for name in SMOOTH])
def test_smooth_as_jax(transform, name):
    check(SMOOTH[name], TRANSFORMS[transform])


@pytest.mark.parametrize("transform", ["pmap of jvp", *(pytest.param(t, marks=pytest.mark.slow) for t in TRANSFORMS
                                                        if "grad" not in t and t != "pmap of jvp")])
@pytest.mark.parametrize("name", FORWARD)
def test_forward_mode_as_jax(name, transform):
    check(FORWARD[name], TRANSFORMS[transform])
