"""Control flow in control flow: functions f(lib, w, x) of two float vectors of length 3, for either library."""

from __future__ import annotations

import numpy as np

W = np.array([0.5, -1.0, 1.5])
X = np.array([0.3, 0.9, -0.4])


# -- differentiable in both modes ---------------------------------------------------------------------------------

def cond_in_scan(lib, w, x):
    lax, jnp = lib.lax, lib.numpy

    def body(c, k):
        c = lax.cond(jnp.sum(c) * k > 0, lambda c: jnp.sin(c) * w, lambda c: c + w * k, c)
        return c, c * k
    return lax.scan(body, x, jnp.linspace(-1.0, 1.0, 4))


def scan_in_cond(lib, w, x):
    lax, jnp = lib.lax, lib.numpy
    return lax.cond(jnp.sum(w) > 0, lambda x: lax.scan(lambda c, k: (jnp.sin(c) * k, c), x, w)[0], lambda x: x * w, x)


def cond_in_cond(lib, w, x):
    lax, jnp = lib.lax, lib.numpy

    def inner(x):
        return lax.cond(w[0] > 0, lambda: x * w, lambda: jnp.sin(x))
    return lax.cond(x[0] > 0, inner, jnp.exp, x)


def switch_in_scan(lib, w, x):
    lax, jnp = lib.lax, lib.numpy
    branches = [jnp.sin, lambda c: c * w, lambda c: jnp.exp(-c)]
    return lax.scan(lambda c, i: (lax.switch(i, branches, c), c * i), x, jnp.arange(4))


def scan_of_scan(lib, w, x):
    lax, jnp = lib.lax, lib.numpy

    def inner(c, k):
        return jnp.tanh(c * w + k), c[0] * k
    return lax.scan(lambda c, k: lax.scan(inner, c * k, x, reverse=True), x, jnp.linspace(0.5, 1.0, 3), unroll=2)


def fori_in_scan(lib, w, x):
    lax, jnp = lib.lax, lib.numpy
    return lax.scan(lambda c, k: (lax.fori_loop(0, 3, lambda i, c: jnp.sin(c) + w * i, c), k * c), x, jnp.arange(3.0))


def scan_in_fori(lib, w, x):
    """The weights are in the carry, which returns them unchanged."""
    lax, jnp = lib.lax, lib.numpy

    def body(i, state):
        w, c = state
        return w, lax.scan(lambda c, k: (jnp.cos(c * k), None), c + i, w)[0]
    return lax.fori_loop(0, 3, body, (w, x))


def map_in_scan(lib, w, x):
    lax, jnp = lib.lax, lib.numpy
    return lax.scan(lambda c, k: (c * lax.map(lambda v: jnp.sin(v) * k, w), k), x, jnp.arange(1.0, 4.0))


def scan_in_map(lib, w, x):
    lax, jnp = lib.lax, lib.numpy
    return lax.map(lambda v: lax.scan(lambda c, k: (jnp.sin(c * k), c), v, w), x, batch_size=2)


def associative_in_scan(lib, w, x):
    lax, jnp = lib.lax, lib.numpy

    def affine(a, b):
        return a[0] * b[0], a[1] * b[0] + b[1]
    return lax.scan(lambda c, k: (lax.associative_scan(affine, (c, w * k))[1], c), x, jnp.arange(1.0, 4.0))


def fori_in_associative(lib, w, x):
    lax = lib.lax
    return lax.associative_scan(lambda a, b: lax.fori_loop(0, 2, lambda i, c: c * 1.0, a * b), w * x, reverse=True)


def richardson(lib, rate):
    """A solver of A v = b by steps along the residual, in a loop without reverse mode."""
    def solve(matvec, b):
        def step(state):
            v, i = state
            return v + rate * (b - matvec(v)), i + 1
        return lib.lax.while_loop(lambda state: state[1] < 80, step, (0 * b, 0))[0]
    return solve


def root_in_scan(lib, w, x):
    lax, jnp = lib.lax, lib.numpy

    def newton(f, y):
        return lax.fori_loop(0, 30, lambda i, y: y - f(y) / (3 * y ** 2 + 1.0), y)

    def body(c, k):
        y = lax.custom_root(lambda y: y ** 3 + y - k * c[0] - w[0], 1.0 + 0 * k, newton, lambda g, y: y / g(1.0))
        return c * y, y
    return lax.scan(body, x, jnp.arange(1.0, 3.0))


def solve_in_root(lib, w, x):
    lax, jnp = lib.lax, lib.numpy

    def f(v):
        return 3 * v + 0.1 * w * jnp.tanh(v[::-1]) - x

    def solve(f, v):
        return lax.while_loop(lambda s: s[1] < 60, lambda s: (s[0] - 0.3 * f(s[0]), s[1] + 1), (v, 0))[0]
    solver = richardson(lib, 0.3)
    return lax.custom_root(f, 0 * x, solve, lambda g, y: lax.custom_linear_solve(g, y, solver, solver))


def solve_in_scan(lib, w, x):
    lax, jnp = lib.lax, lib.numpy
    a = jnp.outer(w, np.array([0.2, 0.1, 0.04])) + np.diag([2.0, 3.0, 4.0])
    solver = richardson(lib, 0.25)
    return lax.scan(lambda c, k: (lax.custom_linear_solve(lambda v: a @ v, jnp.sin(c) * k, solver, solver), c), x,
                    jnp.arange(1.0, 3.0))


def remat_in_scan(lib, w, x):
    lax, jnp = lib.lax, lib.numpy
    return lax.scan(lib.checkpoint(lambda c, k: (jnp.sin(c * w) * k, jnp.exp(-c * c))), x, jnp.arange(1.0, 4.0))


def scan_in_remat(lib, w, x):
    lax, jnp = lib.lax, lib.numpy
    return lib.checkpoint(lambda w, x: lax.scan(lambda c, k: (jnp.sin(c * k), c), x, w))(w, x)


def while_without_tangent_in_scan(lib, w, x):
    """Loops whose results have no derivative: a loop over a stop_gradient value, and a count."""
    lax, jnp = lib.lax, lib.numpy

    def body(c, k):
        m = lax.while_loop(lambda s: s < 10.0, lambda s: s * 2.0, lax.stop_gradient(jnp.abs(c[0]) + k))
        i = lax.while_loop(lambda s: s[1] < 10.0, lambda s: (s[0] + 1, s[1] * 1.5), (0, jnp.abs(c[1]) + k))[0]
        return jnp.sin(c * m) * w * i, m
    return lax.scan(body, x, jnp.arange(1.0, 3.0))


def while_without_tangent_in_remat(lib, w, x):
    lax, jnp = lib.lax, lib.numpy

    def body(w, x):
        n = lax.while_loop(lambda s: s < 10.0, lambda s: s * 2.0, lax.stop_gradient(jnp.sum(x * x)))
        return jnp.sin(n * w) * x
    return lib.checkpoint(body)(w, x)


def vmap_in_scan(lib, w, x):
    lax, jnp = lib.lax, lib.numpy

    def element(a, b):
        return lax.cond(a > 0, jnp.sin, lambda z: z * b, a)
    return lax.scan(lambda c, k: (lib.vmap(element)(c, w), k * c), x, jnp.arange(1.0, 3.0))


def jit_of_grad_in_scan(lib, w, x):
    lax, jnp = lib.lax, lib.numpy
    g = lib.jit(lib.grad(lambda c: jnp.sum(jnp.sin(c * w) ** 2)))
    return lax.scan(lambda c, k: (c - 0.1 * k * g(c), g(c)[0]), x, jnp.arange(1.0, 3.0))


SMOOTH = {f.__name__: f for f in (
    cond_in_scan, scan_in_cond, cond_in_cond, switch_in_scan, scan_of_scan, fori_in_scan, scan_in_fori, map_in_scan,
    scan_in_map, associative_in_scan, fori_in_associative, root_in_scan, solve_in_root, solve_in_scan, remat_in_scan,
    scan_in_remat, while_without_tangent_in_scan, while_without_tangent_in_remat, vmap_in_scan, jit_of_grad_in_scan)}


# -- forward mode only --------------------------------------------------------------------------------------------

def while_in_cond(lib, w, x):
    lax, jnp = lib.lax, lib.numpy

    def loop(x):
        return lax.while_loop(lambda c: jnp.sum(jnp.abs(c)) < 9.0, lambda c: c * 1.5 + w * 0.1, x)
    return lax.cond(x[0] > 0, loop, jnp.sin, x)


def cond_in_while(lib, w, x):
    lax, jnp = lib.lax, lib.numpy

    def body(s):
        return s[0] + 1, lax.cond(s[1][0] > 0.2, lambda c: c * w, jnp.cos, s[1])
    return lax.while_loop(lambda s: s[0] < 4, body, (0, x))[1]


def scan_in_while(lib, w, x):
    lax, jnp = lib.lax, lib.numpy

    def body(s):
        return s[0] + 1, lax.scan(lambda c, k: (jnp.sin(c + k), k), s[1], w)[0]
    return lax.while_loop(lambda s: (s[0] < 3) & (jnp.sum(s[1]) < 50), body, (0, x))[1]


def while_in_scan(lib, w, x):
    lax, jnp = lib.lax, lib.numpy

    def shrink(c):
        return lax.while_loop(lambda s: jnp.sum(s * s) > 1.0, lambda s: s * 0.7 + 0.01 * w, c)
    return lax.scan(lambda c, k: (shrink(c + k), c[0]), x, jnp.arange(1.0, 4.0))


def fori_in_while(lib, w, x):
    """The inner bound is the counter of the outer loop."""
    lax, jnp = lib.lax, lib.numpy

    def body(s):
        return lax.fori_loop(0, s[1], lambda i, c: jnp.sin(c) * w, s[0]) + 0.1, s[1] + 1
    return lax.while_loop(lambda s: s[1] < 3, body, (x, 0))[0]


FORWARD = {f.__name__: f for f in (while_in_cond, cond_in_while, scan_in_while, while_in_scan, fori_in_while)}
