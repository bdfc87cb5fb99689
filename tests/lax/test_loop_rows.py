"""Rows of stacked constants that a scan without a loop reads in a loop: they are taken once, before the loop."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.compare import assert_close
from xjax import lax

LAYERS, STEPS = 3, 4
LARGE, SMALL = 128, 8                                           # features of matrices above and below the limit


def applied(stack, x, unroll):
    return lax.scan(lambda x, w: (jnp.tanh(x @ w), jnp.sum(x)), x, stack, unroll=unroll)


def by_while(stack, x, unroll):
    return lax.while_loop(lambda carry: carry[0] < STEPS,
                          lambda carry: (carry[0] + 1, applied(stack, carry[1], unroll)[0]), (0, x))[1]


def by_scan(stack, x, unroll):
    def step(x, _):
        return applied(stack, x, unroll)
    return lax.scan(step, x, length=STEPS + 1, unroll=2)        # one step follows the loop


def by_nested_loops(stack, x, unroll):
    return lax.fori_loop(0, 2, lambda _, x: by_while(stack, x, unroll), x)


def transformed(loop):
    """A program that differentiates the loop, and maps it over two stacks."""
    def run(stack, x, unroll):
        f = functools.partial(loop, unroll=unroll)
        return xjax.jvp(f, (stack, x), (stack, x)), xjax.vmap(f)(jnp.stack([stack] * 2), jnp.stack([x] * 2))
    return run


LOOPS = {"while": by_while, "scan": by_scan, "nested": by_nested_loops, "while, transformed": transformed(by_while),
         "scan, transformed": transformed(by_scan)}


def arguments(n):
    npr = np.random.default_rng(0)
    return npr.standard_normal((LAYERS, n, n)).astype(np.float32) / n, npr.standard_normal((2, n)).astype(np.float32)


@pytest.mark.parametrize("name", LOOPS)
def test_values(name):
    """The reference has a loop over the layers too, so that rows are read where they are used."""
    with_rows, without = (xjax.jit(functools.partial(LOOPS[name], unroll=unroll)) for unroll in (True, 1))
    assert_close(with_rows(*arguments(LARGE)), without(*arguments(LARGE)))


def slices_before_the_loop(loop, n):
    """The numbers of slices of rows before the first loop of a program's text, and after it begins."""
    text = xjax.jit(functools.partial(loop, unroll=True)).lower(*arguments(n)).as_text()
    row = f"tensor<{LAYERS}x{n}x{n}xf32>) -> tensor<1x{n}x{n}xf32>"
    return tuple(part.count(row) for part in text.split("stablehlo.while", 1))


@pytest.mark.parametrize("loop, counts", [(by_while, (LAYERS, 0)), (by_scan, (LAYERS, LAYERS)),
                                          (by_nested_loops, (0, LAYERS))])
def test_rows_are_taken_before_the_loop(loop, counts):
    """The step that follows the loop of the scan takes its own; nested loops take them before the inner one."""
    assert slices_before_the_loop(loop, LARGE) == counts


def test_small_rows_are_taken_where_they_are_used():
    before, inside = slices_before_the_loop(by_while, SMALL)
    assert before == 0 and inside == LAYERS


def test_gradients():
    def loss(loop, unroll):
        return xjax.jit(xjax.grad(lambda stack, x: jnp.sum(loop(stack, x, unroll)[0]), (0, 1)))(*arguments(LARGE))

    assert_close(loss(by_scan, True), loss(by_scan, 1))


@pytest.mark.parametrize("features, platform, apart", [(8, "cpu", 1), (4096, "cpu", 0), (8, "cuda", 0)])
def test_small_rows_of_arguments_are_not_fused_with_the_steps(features, platform, apart):
    """One call has the rows of all steps. Large rows and rows of computed arrays are read where they are needed."""
    def chain(b, w, x):
        return lax.scan(lambda x, bw: (jnp.tanh(x + bw[0] + bw[1]), None), x, (b, 2 * w), unroll=True)[0]

    args = [np.ones(shape, np.float32) for shape in ((3, features, 4), (3, features, 4), (features, 4))]
    text = xjax.jit(chain).trace(*args).lower(lowering_platforms=(platform,)).as_text()
    calls = [line for line in text.splitlines() if 'inlineable = "false"' in line]
    assert len(calls) == apart and all(line.count(f"tensor<{features}x4xf32>") == 6 for line in calls)
    np.testing.assert_allclose(xjax.jit(chain)(*args), chain(*args), rtol=1e-6)
