"""Loops that write rows of a carried array, and their derivatives: the cost of a step is that of its rows.

The tests read the optimised HLO of the loops: no operation in them copies, adds or selects whole carries. Values equal
JAX's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.compare import assert_close, assert_same
from tests.lax.oracle import LOOPS
from tests.oracle import real_jax
from tests.sampling import one_in
from xjax import lax
from xjax.test_util import check_grads

ROWS = 61                               # a size that occurs nowhere else in the programs
X = np.random.default_rng(0).normal(size=(ROWS, 3)).astype(np.float32)
SHORT = np.random.default_rng(1).normal(size=(7, 3))


# -- bodies: (library, c, i) -> c ---------------------------------------------------------------------------------

def written(lib, c, i):
    return c.at[i].set(lib.numpy.sin(c[i - 1]))


def moved(lib, c, i):
    return c.at[i].set(c[i - 1])


def added(lib, c, i):
    return c.at[i].add(lib.numpy.sin(c[i - 1]) * c[i])


def subtracted(lib, c, i):
    return c.at[i].subtract(c[i - 1] * c[i])


def multiplied(lib, c, i):
    return c.at[i].multiply(lib.numpy.cos(c[i - 1]))


def largest(lib, c, i):
    return c.at[i].max(lib.numpy.sin(c[i - 1]))


def smallest(lib, c, i):
    return c.at[i].min(lib.numpy.cos(c[i - 1]) * c[i - 2])


def two_rows(lib, c, i):
    return c.at[i].set(lib.numpy.sin(c[i - 1]) * c[i - 2]).at[i + 1].set(c[i - 1] + c[i])


def read_between(lib, c, i):
    c = c.at[i].set(lib.numpy.sin(c[i - 1]))
    return c.at[i - 2].add(c[i] * 2)


def old_row_kept(lib, c, i):
    """The old value of the replaced row is read first, and used after the write."""
    old = c[i]
    c = c.at[i].set(lib.numpy.sin(c[i - 1]))
    return c.at[i - 1].set(old * c[i])


def fixed_row(lib, c, i):
    return c.at[i].set(lib.numpy.sin(c[0]) * c[i - 1])


def block(lib, c, i):
    return lib.lax.dynamic_update_slice(c, lib.numpy.sin(lib.lax.dynamic_slice(c, (i - 2, 0), (2, 3))), (i, 0))


def index_arrays(lib, c, i):
    two = lib.numpy.stack([i, i + 1])
    return c.at[two].add(lib.numpy.sin(c[two - 2]))


def in_a_call(lib, c, i):
    return lib.jit(lambda c, i: written(lib, c, i))(c, i)


BODIES = [written, moved, added, subtracted, multiplied, largest, smallest, two_rows, read_between, old_row_kept,
          fixed_row, block, index_arrays, in_a_call]


# -- loops: (library, body, c) -> arrays --------------------------------------------------------------------------

def scan(lib, body, c):
    return lib.lax.scan(lambda c, i: (body(lib, c, i), None), c, lib.numpy.arange(2, len(c) - 1))[0]


def scan_with_results(lib, body, c):
    def step(c, i):
        new = body(lib, c, i)
        return new, lib.numpy.tanh(c[i - 1]) + new[i]
    return lib.lax.scan(step, c, lib.numpy.arange(2, len(c) - 1))


def fori_loop(lib, body, c):
    return lib.lax.fori_loop(2, len(c) - 1, lambda i, c: body(lib, c, i), c)


def several_arrays(lib, body, c):
    def step(i, state):
        c, d, total = state
        return body(lib, c, i), d.at[i].set(d[i - 1] * c[i - 1]), total + d[i]
    return lib.lax.fori_loop(2, len(c) - 1, step, (c, c + 1, c[0]))


def array_read(lib, body, c):
    """An array that the loop only reads: its cotangent is a sum over the steps."""
    return lib.lax.scan(lambda s, i: (s * c[i] + c[i - 1], None), c[0], lib.numpy.arange(1, len(c)))[0]


LOOPS_OVER = [scan, scan_with_results, fori_loop, several_arrays]


# -- operations of the compiled loops -----------------------------------------------------------------------------

def whole_operations(hlo: str, rows: int) -> list[str]:
    """Operations inside loops whose result has as many rows as the carry, except updates in place."""
    bodies = {m[1]: m[2] for m in re.finditer(r"^%?([\w.-]+) [^\n]*\{\n(.*?)^\}", hlo, re.M | re.S)}

    def called(text: str) -> Iterator[str]:
        for name in re.findall(r"(?:calls|to_apply|body|condition)=%?([\w.-]+)", text):
            yield name
            yield from called(bodies[name])

    entered = {name for text in bodies.values() for body in re.findall(r"body=%?([\w.-]+)", text)
               for name in (body, *called(bodies[body]))}
    assert entered, "no loop"
    result = re.compile(rf"= \w+\[(?:\d+,)?{rows},[\d,]*\]\S* ([\w-]+)\(")
    harmless = {"bitcast", "call", "dynamic-update-slice", "fusion", "get-tuple-element", "parameter", "scatter",
                "while"}
    return sorted({op for name in entered for op in result.findall(bodies[name])} - harmless)


def gradient(lib, f: Callable) -> Callable:
    return lib.grad(lambda *xs: sum(lib.numpy.sum(y * y) for y in xjax.tree_util.tree_leaves(f(*xs))))


TRANSFORMS = {
    "value": lambda lib, f: f,
    "jvp": lambda lib, f: lambda c: lib.jvp(f, (c,), (c,)),
    "grad": gradient,
    "grad of checkpoint": lambda lib, f: gradient(lib, lib.checkpoint(f)),
    "vmap of grad": lambda lib, f: lambda c: lib.vmap(gradient(lib, f))(lib.numpy.stack([c, c + 1])),
    "grad of vmap": lambda lib, f: lambda c: gradient(lib, lib.vmap(f))(lib.numpy.stack([c, c + 1])),
    "grad of grad": lambda lib, f: gradient(lib, gradient(lib, f)),
}
QUICK = [(written, fori_loop, "vmap of grad"), (added, scan, "grad"), (two_rows, several_arrays, "grad"),
         (read_between, scan_with_results, "grad of checkpoint"), (old_row_kept, scan, "value"),
         (written, array_read, "grad"), (largest, scan, "grad")]
ALL = [(body, loop, name) for body in BODIES for loop in LOOPS_OVER for name in TRANSFORMS]


def _name(case) -> str:
    return "-".join([case[0].__name__, case[1].__name__, case[2]])


def compiled_loops(body, loop, name: str) -> list[str]:
    f = TRANSFORMS[name](xjax, lambda c: loop(xjax, body, c))
    return whole_operations(xjax.jit(f).lower(X).compile().as_text(), ROWS)


@pytest.mark.usefixtures("as_shipped")
@pytest.mark.parametrize("case", [*QUICK, *(pytest.param(case, marks=pytest.mark.slow)
                                            for case in ALL if case not in QUICK)],
                         ids=lambda case: _name(case))
def test_no_step_touches_the_whole_carry(case):
    assert compiled_loops(*case) == []


@pytest.mark.usefixtures("as_shipped")
def test_the_check_finds_copies():
    """A loop that carries both the old and the new array copies one of them in each step."""
    def step(state, i):
        new, old = state
        return (new.at[i].set(old[i - 1]), new), None
    f = xjax.jit(lambda c: lax.scan(step, (c, c + 1), jnp.arange(1, ROWS))[0])
    assert "copy" in whole_operations(f.lower(X).compile().as_text(), ROWS)


@pytest.mark.usefixtures("as_shipped")
def test_sums_of_the_old_array_are_read_before_the_write():
    f = xjax.jit(lambda c: lax.scan(lambda c, i: (c.at[i].set(c[i - 1]), c[0] + jnp.sum(c)), c, jnp.arange(1, ROWS)))
    assert whole_operations(f.lower(X).compile().as_text(), ROWS) == []


# -- values -------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("case", one_in(83, ALL, _name))
def test_values_as_jax(case):
    jax = real_jax()
    body, loop, name = case
    ours, theirs = (TRANSFORMS[name](lib, lambda c, lib=lib: loop(lib, body, c)) for lib in (xjax, jax))
    with xjax.enable_x64(True), jax.enable_x64(True):
        assert_same(xjax.jit(ours)(SHORT), jax.jit(theirs)(SHORT), tol=LOOPS)


@pytest.mark.parametrize("body", one_in(len(BODIES), BODIES))
def test_derivatives_against_differences(body):
    with xjax.enable_x64(True):
        check_grads(xjax.jit(lambda c: scan_with_results(xjax, body, c)), (SHORT,), order=2, rtol=1e-5, atol=1e-5)


def test_rows_that_coincide_and_rows_outside():
    """The same row read and written, a row beyond the end (dropped), and a row counted from the end."""
    jax = real_jax()
    at = np.array([2, 2, 9, -1, 0], np.int32)

    def f(lib, c):
        return lib.lax.scan(lambda c, i: (c.at[i].set(lib.numpy.sin(c[i]) * c[i - 1]).at[i].add(c[2]), None), c, at)[0]
    ours, theirs = (lib.jit(gradient(lib, lambda c, lib=lib: f(lib, c)))(SHORT.astype(np.float32))
                    for lib in (xjax, jax))
    assert_same(ours, theirs, tol=8)


def test_effects_keep_their_order(capfd):
    def step(c, i):
        xjax.debug.print("old {}", c[i, 0], ordered=True)
        new = c.at[i].set(c[i - 1])
        xjax.debug.print("old {} new {}", c[i, 0], new[i, 0], ordered=True)
        return new, c[i]
    out, rows = xjax.jit(lambda c: lax.scan(step, c, jnp.arange(1, 3)))(jnp.arange(3.0).reshape(3, 1))
    xjax.effects_barrier()
    assert capfd.readouterr().out.split("\n")[:4] == ["old 1.0", "old 1.0 new 0.0", "old 2.0", "old 2.0 new 0.0"]
    assert (out.ravel().tolist(), rows.ravel().tolist()) == ([0, 0, 0], [1, 2])


def test_while_loop_and_unrolled_steps():
    def step(s):
        i, c = s
        return i + 1, c.at[i].set(c[i - 1]).at[0].add(c[i])
    want, n = SHORT.astype(np.float32), len(SHORT)
    for i in range(1, n):
        old = want[i].copy()
        want[i] = want[i - 1]
        want[0] += old
    assert_close(xjax.jit(lambda c: lax.while_loop(lambda s: s[0] < n, step, (1, c)))(SHORT)[1], want, tol=8)
    for unroll in (4, True):
        turns = xjax.jit(lambda c, unroll=unroll: lax.scan(lambda c, i: (step((i, c))[1], None), c, jnp.arange(1, n),
                                                          unroll=unroll))
        assert_close(turns(SHORT)[0], want, tol=8)


@pytest.mark.parametrize("term", [lambda lib, x: lib.numpy.sum(x), lambda lib, x: x[0]], ids=["sum", "first"])
def test_a_block_added_to_a_term_without_a_batch_axis(term):
    """Under vmap, the gradient of the term has an axis of size 1 for the batch, and that of the block has all rows."""
    jax = real_jax()

    def descent(lib, x):
        force = lib.grad(lambda x: lib.numpy.sum(x[1:] ** 2) + term(lib, x))
        return lib.lax.scan(lambda x, _: (x - 0.1 * force(x), None), x, length=3)[0]
    ours, theirs = (lib.jit(lib.vmap(lambda x, lib=lib: descent(lib, x)))(X) for lib in (xjax, jax))
    assert_same(ours, theirs, tol=8)
