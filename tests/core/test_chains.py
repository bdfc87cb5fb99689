"""Long chains of elementwise operations on CPUs: values that read many arrays and have several readers are stored."""

from __future__ import annotations

import re

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from xjax.core.forms import FORMS, limits

ROWS, FEATURES = 64, 128                                        # more elements than the limit
LONGEST = limits("long chains apart", "cpu")["arrays"]


def residual(x, ws):
    for w in ws:
        x = x + jnp.tanh(x) @ w
    return x


def nested(x, ws):
    """Each layer is a program of its own, which is written in place."""
    layer = xjax.jit(lambda x, w: (x + jnp.tanh(x) @ w, w))
    for w in ws:
        x, _ = layer(x, w)
    return x


def gradients(x, ws):
    return xjax.grad(lambda x, ws: jnp.sum(residual(x, ws) ** 2), (0, 1))(x, ws)


def mapped(x, ws):
    return xjax.vmap(residual, (0, None))(jnp.stack([x, 2 * x]), ws)


def several_results(x, ws):
    sums = [x]
    for w in ws:
        sums.append(sums[-1] + x @ w)
    return sums


PROGRAMS = {"residual": residual, "nested": nested, "gradients": gradients, "mapped": mapped,
            "several results": several_results}


def arguments(layers, rows=ROWS, features=FEATURES):
    npr = np.random.default_rng(0)
    ws = npr.standard_normal((layers, features, features)).astype(np.float32) / features
    return npr.standard_normal((rows, features)).astype(np.float32), list(ws)


def text(function, *args, platform="cpu"):
    return xjax.jit(function).trace(*args).lower(lowering_platforms=(platform,)).as_text()


def count_stored(*program, platform="cpu"):
    return len(re.findall(r"call @apart", text(*program, platform=platform)))


def most_operands(function, *args):
    """The number of arrays of the loop that reads the most of them, after XLA's optimizations."""
    bodies = re.split(r"\n\n", xjax.jit(function).lower(*args).compile().as_text())
    return max(len(re.findall(r"= f32\[64,128\]\S* parameter\(", body)) for body in bodies if "ENTRY" not in body)


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_those_of_the_whole_chain(name, monkeypatch):
    args = arguments(20)
    assert count_stored(PROGRAMS[name], *args) >= 2
    stored = xjax.jit(PROGRAMS[name])(*args)
    xjax.clear_caches()
    monkeypatch.setitem(FORMS, "long chains apart", FORMS["long chains apart"]._replace(cpu=None))
    assert count_stored(PROGRAMS[name], *args) == 0
    # The operations are the same, but XLA may contract a product and a sum, or order the terms of a product otherwise.
    for x, y in zip(xjax.tree.leaves(xjax.jit(PROGRAMS[name])(*args)), xjax.tree.leaves(stored), strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=2e-6 * np.abs(y).max())
    xjax.clear_caches()


@pytest.mark.parametrize("name", ["residual", "gradients", "nested"])
def test_the_arrays_that_a_loop_reads_do_not_grow_with_the_depth(name):
    assert most_operands(PROGRAMS[name], *arguments(40)) <= most_operands(PROGRAMS[name], *arguments(20)) <= 3 * LONGEST


def test_short_chains_are_fused():
    args = arguments(LONGEST - 1)
    assert count_stored(residual, *args) == 0
    assert count_stored(gradients, *arguments(LONGEST // 3)) == 0       # a layer's gradient reads up to 3 arrays


def test_small_arrays_are_fused():
    assert count_stored(gradients, *arguments(20, rows=2)) == 0


def test_a_value_with_one_reader_is_fused():
    def total(*xs):
        return sum(xs[1:], xs[0])

    xs = [np.ones((ROWS, FEATURES), np.float32)] * 50
    assert count_stored(total, *xs) == 0
    assert count_stored(lambda *xs: (y := total(*xs)) * jnp.tanh(y), *xs) == 1


def test_constants_are_not_counted():
    def polynomial(x):
        for c in range(20):
            x = x * (x + c)
        return x

    assert count_stored(polynomial, arguments(1)[0]) == 0


def test_programs_for_gpus_are_the_same_as_before():
    assert count_stored(gradients, *arguments(20), platform="cuda") == 0
