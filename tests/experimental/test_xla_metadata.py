"""Attributes of operations: the same operations have the same attributes as in JAX, and results do not change."""

from __future__ import annotations

import importlib
import re

import numpy as np
import pytest

import xjax
from tests.oracle import real_jax
from xjax.experimental.xla_metadata import set_xla_metadata, xla_metadata_call

jax = real_jax("experimental.xla_metadata")
X = np.arange(3, dtype=np.float32)


def tagged(lib, f):
    """Operations with attributes in the text of a program, in order."""
    text = lib.jit(f).lower(X).as_text()
    return re.findall(r"(stablehlo\.\w+)(?:(?!stablehlo\.).)*?mhlo\.frontend_attributes = (\{.*?\})", text)


def setter(lib):
    return importlib.import_module(f"{lib.__name__}.experimental.xla_metadata").set_xla_metadata


def in_blocks(lib):
    def f(x):
        with setter(lib)(a="1", b=True, c=3):
            y = lib.lax.sin(x) * 2
            with setter(lib)(d=1.5, a="2"):
                y = y + x
        return lib.lax.cos(y)
    return f


FUNCTIONS = {
    "blocks": in_blocks,
    "values": lambda lib: lambda x: setter(lib)(lib.lax.sin(x), e="z") * 2,
    "tree": lambda lib: lambda x: sum(
        lib.tree.leaves(setter(lib)({"a": lib.lax.sin(x), "b": (lib.lax.cos(x),)}, e='q"'))),
    "twice": lambda lib: lambda x: setter(lib)(setter(lib)(lib.lax.sin(x), e="z"), g="y") * 2,
    "argument": lambda lib: lambda x: setter(lib)(x, e="z"),
    "decorator": lambda lib: setter(lib)(k="v")(lambda x: lib.lax.exp(x) + x),
    "dot": lambda lib: setter(lib)(k="v")(lambda x: lib.lax.dot(x, x)),
    "nothing": lambda lib: setter(lib)()(lambda x: lib.lax.exp(x)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_operations_are_tagged_as_in_jax(name):
    ours, theirs = (FUNCTIONS[name](lib) for lib in (xjax, jax))
    assert tagged(xjax, ours) == tagged(jax, theirs)
    for transform in (lambda lib, f: lib.jit(f), lambda lib, f: f, lambda lib, f: lib.vmap(f) if name != "dot" else f,
                      lambda lib, f: lib.grad(lambda x: lib.numpy.sum(f(x)))):
        a, b = (transform(lib, f)(X) for lib, f in ((xjax, ours), (jax, theirs)))
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_programs_inside_are_tagged():
    @set_xla_metadata(k="v")
    def f(x):
        y = xjax.lax.fori_loop(0, 3, lambda i, y: xjax.lax.tanh(y), xjax.jit(xjax.lax.sin)(x))
        return xjax.lax.cond(y[0] > 0, xjax.lax.exp, xjax.lax.cos, y)

    names = [name for name, _ in tagged(xjax, f)]
    assert {"stablehlo.tanh", "stablehlo.sine", "stablehlo.exponential", "stablehlo.cosine"} <= set(names)
    np.testing.assert_allclose(xjax.jit(f)(X), np.cos(np.tanh(np.tanh(np.tanh(np.sin(X))))), rtol=1e-5)
    np.testing.assert_allclose(f(X), xjax.jit(f)(X), rtol=1e-6)
    for g in (xjax.lax.sort, xjax.numpy.cumsum, lambda x: xjax.lax.linalg.cholesky(xjax.numpy.eye(3) + x[0])):
        np.testing.assert_allclose(xjax.jit(set_xla_metadata(k="v")(g))(X), g(X), rtol=1e-6)
    jitted = xjax.jit(lambda x: xjax.lax.sin(x) + 1)
    with set_xla_metadata(k="v"):
        np.testing.assert_allclose(jitted(X), np.sin(X) + 1, rtol=1e-6)


def test_compiled_programs_keep_the_attributes():
    assert 'frontend_attributes={e="z"}' in xjax.jit(FUNCTIONS["values"](xjax)).lower(X).compile().as_text()


def test_the_call_form():
    for f in (xla_metadata_call(xjax.lax.sin, k=1), xla_metadata_call(k=1)(xjax.lax.sin)):
        assert tagged(xjax, f) == [("stablehlo.sine", '{k = "1"}')]


def test_mistakes():
    with pytest.raises(TypeError, match="fix:"):
        set_xla_metadata(a=[1])
    with pytest.raises(ZeroDivisionError), set_xla_metadata(a=1):
        raise ZeroDivisionError
    assert xjax.numpy.ones(2).tolist() == [1, 1]
