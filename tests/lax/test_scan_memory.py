"""Memory for the gradient of a loop: at most 1.2 times that of real JAX, without copies of invariant values."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
from tests.compare import assert_same
from tests.oracle import real_jax
from xjax import lax

pytestmark = pytest.mark.usefixtures("as_shipped")

jax = real_jax()

WIDTH = 8
W = np.eye(WIDTH, dtype=np.float32)
C = np.ones((4, WIDTH), np.float32)


def gated(lib, w, c, x):
    jnp = lib.numpy
    h = jnp.tanh(c @ w + x)
    g = lib.nn.sigmoid(h @ w)
    return g * h + (1 - g) * c, jnp.sum(h)


def plain(lib):
    return lambda w, c, xs: lib.lax.scan(lambda c, x: gated(lib, w, c, x), c, xs)


def remat(lib):
    body = lib.checkpoint(lambda w, c, x: gated(lib, w, c, x))
    return lambda w, c, xs: lib.lax.scan(lambda c, x: body(w, c, x), c, xs)


def remat_without_barrier(lib):
    body = lib.checkpoint(lambda w, c, x: gated(lib, w, c, x), prevent_cse=False)
    return lambda w, c, xs: lib.lax.scan(lambda c, x: body(w, c, x), c, xs)


def dots_saved(lib):
    body = lib.checkpoint(lambda w, c, x: gated(lib, w, c, x), policy=lib.checkpoint_policies.dots_saveable)
    return lambda w, c, xs: lib.lax.scan(lambda c, x: body(w, c, x), c, xs)


def weights_in_the_carry(lib):
    def loop(w, c, xs):
        def body(state, x):
            c, y = gated(lib, state["w"], state["c"], x)
            return {"w": state["w"], "c": c}, y
        final, ys = lib.lax.scan(body, {"w": w, "c": c}, xs)
        return final["c"], ys
    return loop


def weights_in_the_carry_of_fori(lib):
    def loop(w, c, xs):
        return lib.lax.fori_loop(0, len(xs), lambda i, s: (s[0], gated(lib, s[0], s[1], xs[i])[0]), (w, c))[1]
    return loop


def jitted_body_with_an_invariant(lib):
    def loop(w, c, xs):
        return lib.lax.scan(lib.jit(lambda c, x: gated(lib, lib.numpy.exp(w), c, x)), c, xs)
    return loop


def nested_remat(lib):
    def loop(w, c, xs):
        inner = lib.checkpoint(lambda c, rows: lib.lax.scan(lambda c, x: gated(lib, w, c, x), c, rows))
        return lib.lax.scan(inner, c, xs.reshape(-1, 10, *C.shape))
    return loop


def branches(lib):
    def loop(w, c, xs):
        def body(c, x):
            return lib.lax.cond(x[0, 0] > 0, lambda c: gated(lib, w, c, x)[0], lambda c: lib.numpy.sin(c @ w), c), None
        return lib.lax.scan(body, c, xs)
    return loop


# Functions with numbers of steps.
SOON = [(plain, 1000), (remat, 1000), (weights_in_the_carry, 200), (jitted_body_with_an_invariant, 200)]
LATER = [(remat_without_barrier, 1000), (dots_saved, 200), (weights_in_the_carry_of_fori, 200), (nested_remat, 200),
         (branches, 200)]


def temporary_bytes(lib, loop, steps: int) -> int:
    def loss(w, c, xs):
        return sum(lib.numpy.sum(y) for y in lib.tree_util.tree_leaves(loop(lib)(w, c, xs)))
    xs = np.ones((steps, *C.shape), np.float32)
    return lib.jit(lib.grad(loss)).lower(W, C, xs).compile().memory_analysis().temp_size_in_bytes


@pytest.mark.parametrize("loop, steps", [
    *(pytest.param(*row, id=row[0].__name__) for row in SOON),
    *(pytest.param(*row, id=row[0].__name__, marks=pytest.mark.slow) for row in LATER)])
def test_bytes_as_in_jax(loop, steps):
    ours, theirs = temporary_bytes(xjax, loop, steps), temporary_bytes(jax, loop, steps)
    assert 0 < ours <= 1.2 * theirs


def test_remat_keeps_only_the_carries():
    kept = temporary_bytes(xjax, remat, 1000)
    carries = 1000 * C.nbytes
    assert carries <= kept <= 1.2 * carries < 0.5 * temporary_bytes(xjax, plain, 1000)


def residual_shapes(f, *args) -> list[tuple[int, ...]]:
    """Shapes of the residuals that the forward loop of a gradient passes to the backward loop."""
    closed = xjax.make_jaxpr(xjax.grad(f))(*args)
    forward, back = [eqn for eqn in closed.eqns if eqn.primitive.name == "scan"]
    made = set(forward.outvars)
    return sorted(v.aval.shape for v in back.invars if not hasattr(v, "val") and v in made)


def test_carries_that_pass_through_are_not_stacked():
    def loss(w):
        (_, c), _ = lax.scan(lambda s, x: ((s[0], lax.mul(lax.sin(s[1]), s[0])), None), (w, w), None, length=7)
        return lax.reduce_sum(c, (0,))
    w = np.linspace(1, 2, 3, dtype=np.float32)
    assert residual_shapes(loss, w) == [(7, 3), (7, 3)]             # sin c and cos c, but not seven copies of w
    ours = xjax.grad(loss)(w)

    def unrolled(w):
        c = w
        for _ in range(7):
            c = jax.numpy.sin(c) * w
        return c.sum()
    assert_same(ours, jax.grad(unrolled)(w))


def test_a_start_value_that_passes_through_comes_back_as_an_array():
    def f(x):
        (n, a, c), _ = lax.scan(lambda s, _: ((s[0], s[1], lax.mul(s[2], s[2])), None), (3, np.ones(2), x), None, 2)
        return c, (n, a)
    (_, (n, a)), g = xjax.value_and_grad(f, has_aux=True)(np.float32(2))
    assert (int(n), n.dtype, a.tolist(), float(g)) == (3, np.int32, [1.0, 1.0], 32.0)
    assert isinstance(n, xjax.Array) and isinstance(a, xjax.Array)
