"""Errors of control flow, word for word: they use the user's names, and show paths, both types and a fix."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import xjax
import xjax.numpy as jnp
from tests.refusals import assert_refused
from xjax import lax


@xjax.tree_util.register_dataclass
@dataclasses.dataclass
class Cell:
    h: Any
    n: Any


def start():
    return {"cells": (jnp.ones(3), Cell(jnp.zeros(2), 0))}


def halve(state):
    """Changes the dtype of a field of a dataclass."""
    x, cell = state["cells"]
    return {"cells": (x, Cell(cell.h.astype(jnp.float16), cell.n))}


def cut(state):
    """Changes the shape of an array in a tuple."""
    x, cell = state["cells"]
    return {"cells": (x[:2], cell)}


def drop(state):
    """Changes the structure."""
    return {"cells": state["cells"][0]}


def scan(change):
    def step(state, row):
        return change(state), row
    return lax.scan(step, start(), jnp.arange(3))


def fori(change):
    def step(i, state):
        return change(state)
    return lax.fori_loop(0, 3, step, start())


def fori_traced(change):
    def step(i, state):
        return change(state)
    return xjax.jit(lambda n: lax.fori_loop(0, n, step, start()))(3)


def loop(change):
    def step(state):
        return change(state)
    return lax.while_loop(lambda state: True, step, start())


LOOPS = {"scan": scan, "fori_loop": fori, "fori_loop traced": fori_traced, "while_loop": loop}
CHANGES = {
    halve: """the carry changes type between input and output of `step`.
  state['cells'][1].h  in f32[2]   out f16[2]
  fix: return state['cells'][1].h.astype(f32), or start from a float16 value.""",
    cut: """the carry changes type between input and output of `step`.
  state['cells'][0]  in f32[3]   out f32[2]
  fix: return state['cells'][0] with the shape (3,), or start from an array of shape (2,).""",
    drop: """the carry changes structure between input and output of `step`.
  state['cells']  expected a tuple of 2, got a leaf
  fix: return a carry with the containers of the start value.""",
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", LOOPS)
def test_a_carry_that_changes(name, change):
    with pytest.raises(TypeError) as error:
        LOOPS[name](change)
    assert str(error.value) == f"{name.split()[0]}: {CHANGES[change]}"


def same(state):
    return state


GOLDEN = {
    "cond, types": (lambda: lax.cond(True, same, halve, start()), """cond: `false_fun` and `true_fun` return different \
types.
  result['cells'][1].h  false_fun f16[2]   true_fun f32[2]
  fix: return arrays of the same shape and dtype from each function, for example with x.astype(...)."""),
    "cond, structures": (lambda: lax.cond(True, same, drop, start()), """cond: cond branch outputs must have the same \
pytree structure; `false_fun` and `true_fun` return different structures.
  result of true_fun['cells']  expected a leaf, got a tuple of 2
  fix: return the same containers from each function."""),
    "switch, types": (lambda: lax.switch(1, [same, same, cut], start()), """switch: `branches[0]` and `branches[2]` \
return different types.
  result['cells'][0]  branches[0] f32[3]   branches[2] f32[2]
  fix: return arrays of the same shape and dtype from each function, for example with x.astype(...)."""),
    "map, rows": (lambda: lax.map(same, {"a": jnp.arange(3), "b": jnp.ones(4)}), """map: the arrays to iterate over \
differ in their number of rows.
  xs['a']  i32[3]   3 rows
  xs['b']  f32[4]   4 rows
  fix: give all arrays the same size along axis 0; use a closure for a value that every step needs whole."""),
    "map, no arrays": (lambda: lax.map(same, (), batch_size=2), """map: there are no arrays to iterate over, so the \
number of steps is unknown.
  fix: pass an array, or a tree of arrays."""),
    "fori, start value": (lambda: lax.fori_loop(0, 3, lambda i, v: v, {"k": "a"}), """fori_loop: init_val['k'] is not \
an array.
  init_val['k']  str 'a'
  fix: pass arrays, numbers, or trees of them; keep other values in a closure."""),
    "while, reverse mode": (lambda: xjax.grad(lambda x: lax.while_loop(lambda s: s < 3.0, lambda s: s * 2, x))(1.0),
                            """while_loop: reverse-mode differentiation (grad, vjp, jacrev) of a loop whose number of \
iterations is not known while tracing.
  fix: use lax.scan, or lax.fori_loop with Python ints as bounds; or use forward mode (jvp, jacfwd)."""),
}


@pytest.mark.parametrize("case", GOLDEN)
def test_messages(case):
    call, text = GOLDEN[case]
    with pytest.raises((TypeError, ValueError)) as error:
        call()
    assert str(error.value) == text


def test_traced_values_in_a_body_are_called_as_the_user_calls_them():
    with pytest.raises(TypeError, match=r"argument `k`, in fori_loop `<lambda>`"):
        lax.fori_loop(0, 3, lambda k, v: [v][k], 0.0)
    with pytest.raises(TypeError, match=r"argument `v\['s'\]`, in fori_loop `<lambda>`"):
        lax.fori_loop(0, 3, lambda k, v: {"s": float(v["s"])}, {"s": 0.0})
    with pytest.raises(TypeError, match=r"argument `row\[1\]`, in map `<lambda>`"):
        lax.map(lambda row: float(row[1]), (jnp.ones(2), jnp.ones(2)))
    with pytest.raises(TypeError, match=r"argument `n`, in while_loop `<lambda>`"):
        lax.while_loop(lambda n: n < 3, lambda n: int(n) + 1, 0)


X = jnp.ones(3)
OF_OTHER_SIGNATURES = {
    "scan": (lambda: lax.scan(lambda carry: (carry, None), 0.0, X), "scan: `f`", "f            <lambda>(carry)",
             "(carry, x)"),
    "map": (lambda: lax.map(lambda x, y: x + y, X), "map: `f`", "f            <lambda>(x, y)", "(x)"),
    "fori_loop": (lambda: lax.fori_loop(0, 3, abs, X), "fori_loop: `body_fun`", "body_fun     abs(x, /)", "(i, val)"),
    "fori_loop of a traced number": (lambda: xjax.jit(lambda n: lax.fori_loop(0, n, lambda x: x, X))(3),
                                     "fori_loop: `body_fun`", "body_fun     <lambda>(x)", "(i, val)"),
    "while_loop": (lambda: lax.while_loop(lambda: True, abs, X), "while_loop: `cond_fun`", "<lambda>()", "(val)"),
    "cond": (lambda: lax.cond(True, lambda x: x, lambda: X, X), "cond: `false_fun`", "<lambda>()", "(operand0)"),
    "cond with an operand by name": (lambda: lax.cond(True, lambda: X, lambda x: X, operand=X), "cond: `true_fun`",
                                     "called with  operand0", "(operand0)"),
    "switch": (lambda: lax.switch(0, [lambda: X, lambda x: X]), "switch: `branches[1]`",
               "missing a required argument: 'x'", "called with  no arguments"),
    "a loop in a loop": (lambda: lax.map(lambda x: lax.scan(lambda carry: carry, x, X), X), "scan: `f`", "(carry, x)"),
}


@pytest.mark.parametrize("case", OF_OTHER_SIGNATURES)
def test_a_function_that_does_not_take_its_arguments(case):
    call, *texts = OF_OTHER_SIGNATURES[case]
    assert "does not take its arguments: " in str(assert_refused(call, TypeError, texts))


@pytest.mark.parametrize("call", [
    lambda: lax.scan(lambda carry, x: (carry + "a", x), 0.0, X),
    lambda: lax.cond(True, 1.0, lambda x: x + "a", 2.0, lambda x: x),
    lambda: lax.map(lambda x: divmod(x), X),
])
def test_another_type_error_is_not_about_arguments(call):
    with pytest.raises(TypeError) as error:
        call()
    assert "does not take its arguments" not in str(error.value)
