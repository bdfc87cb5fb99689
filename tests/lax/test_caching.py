"""When bodies are traced again; neither functions nor the objects that they hold outlive their last user."""

from __future__ import annotations

import functools
import gc
import weakref

import numpy as np
import pytest

import xjax
from xjax import lax
from xjax.core.jaxpr import ClosedJaxpr
from xjax.runtime import xla

XS = np.ones(3, np.float32)


class Model:
    """A body as a method and as a callable object; counts how often it is traced."""

    def __init__(self):
        self.traced = 0

    def __call__(self, c, x):
        self.traced += 1
        return c + x, c

    def step(self, c, x):
        return self(c, x)

    def body(self, i, c):
        return self(c, 1.0)[0]

    def below(self, c):
        return c < 5.0

    def grow(self, c):
        return self(c, 1.0)[0]

    def row(self, x):
        return self(x, 1.0)[0]


def scan(f):
    return lax.scan(f, np.float32(0), XS)


CALLS = {
    "scan": (scan, lambda m: m.step), "fori_loop": (lambda f: lax.fori_loop(0, 3, f, 0.0), lambda m: m.body),
    "while_loop": (lambda f: lax.while_loop(f.__self__.below, f, 0.0), lambda m: m.grow),
    "map": (lambda f: lax.map(f, XS), lambda m: m.row),
    "map in batches": (lambda f: lax.map(f, XS, batch_size=3), lambda m: m.row),
    "cond": (lambda f: lax.cond(True, f, lax.sin, np.float32(1)), lambda m: m.row),
    "switch": (lambda f: lax.switch(1, [lax.sin, f], np.float32(1)), lambda m: m.row),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_same_bound_method_is_traced_once(name):
    call, method = CALLS[name]
    model = Model()
    body = method(model)
    for _ in range(3):
        call(body)
    assert model.traced == 1


@pytest.mark.parametrize("name", CALLS)
def test_nothing_keeps_a_method_or_its_object_alive(name, quick_collections):
    call, method = CALLS[name]
    model = Model()
    for _ in range(2):
        call(method(model))
    assert model.traced == 2            # a new bound method is another function: its object may have changed
    alive = weakref.ref(model)
    del model
    gc.collect()
    assert alive() is None


def scaled(traced, scale, c, x):
    traced.append(1)
    return c * scale + x, c


BODIES = {
    "partial": lambda traced: functools.partial(scaled, traced, 2.0),
    "lambda": lambda traced: lambda c, x: scaled(traced, 2.0, c, x),
    "partial of a partial": lambda traced: functools.partial(functools.partial(scaled, traced), 2.0),
}


@pytest.mark.parametrize("kind", BODIES)
def test_partials_and_lambdas(kind, quick_collections):
    traced: list = []
    body = BODIES[kind](traced)
    for _ in range(3):
        carry, _ = scan(body)
    assert float(carry) == 7.0 and len(traced) == 1
    scan(BODIES[kind](traced))
    assert len(traced) == 2
    alive = weakref.ref(body)
    del body
    gc.collect()
    assert alive() is None


def test_a_callable_object_is_traced_once_and_released(quick_collections):
    model = Model()
    for _ in range(3):
        scan(model)
    assert model.traced == 1
    alive = weakref.ref(model)
    del model
    gc.collect()
    assert alive() is None


def test_a_function_that_is_not_hashable_works():
    class Unhashable(Model):
        __hash__ = None

    model = Unhashable()
    for _ in range(2):
        carry, _ = scan(model)
        assert float(lax.fori_loop(0, 3, lambda i, c: model(c, 1.0)[0], 0.0)) == 3.0
    assert float(carry) == 3.0 and model.traced == 4


def double(x):
    return x * 2.0


def below_five(x):
    return x < 5.0


X = np.float32(1)
MIXED = {
    "while_loop, new body": lambda: lax.while_loop(below_five, lambda x: x + 1.0, X),
    "while_loop, new condition": lambda: lax.while_loop(lambda x: x < 5.0, double, X),
    "cond, new true_fun": lambda: lax.cond(True, lambda x: x * 3.0, double, X),
    "cond, new false_fun": lambda: lax.cond(True, double, lambda x: x * 3.0, X),
    "grad of switch": lambda: xjax.grad(lambda x: lax.switch(1, [double, lambda x: x * x, double], x))(X),
    "vmap of fori_loop": lambda: xjax.vmap(lambda n: lax.fori_loop(0, n, lambda i, x: x + 1.0, X))(np.arange(3)),
    "custom_linear_solve": lambda: lax.custom_linear_solve(double, X, lambda matvec, b: b / 2.0, symmetric=True),
}


def programs_alive() -> int:
    gc.collect()
    return sum(type(x) is ClosedJaxpr for x in gc.get_objects())


@pytest.mark.parametrize("case", MIXED)
def test_new_functions_beside_lasting_ones_leave_nothing_behind(case, quick_collections):
    call = MIXED[case]
    call()
    before = programs_alive()
    for _ in range(3):
        call()
    assert programs_alive() == before


def test_programs_made_in_a_loop_are_compiled_once(monkeypatch):
    """New functions with the same operations are traced again, but not compiled again."""
    compiled = []
    real = xla.compile
    monkeypatch.setattr(xla, "compile", lambda *args, **kwargs: compiled.append(1) or real(*args, **kwargs))
    for _ in range(3):
        scan(lambda c, x: (c * 1.25 + x, c * 0.75))
    assert len(compiled) <= 1
