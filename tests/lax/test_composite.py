"""`composite` and `platform_dependent`: compiled text, and every transform of them against real JAX."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.compare import assert_same
from tests.oracle import real_jax
from xjax import lax

jax = real_jax()

X = np.linspace(-1.0, 1.0, 6, dtype=np.float32).reshape(2, 3)
SHIFT = np.array([1.0, 2.0, 3.0], np.float32)


def scaled(lib):
    """A composite with a tree as its argument, all kinds of attributes, and a captured array."""
    def f(tree, *, power, shift, note):
        return {"y": tree["x"] ** power + shift + lib.numpy.cumsum(SHIFT), "twice": [tree["x"] * 2]}
    note = {"text": 'a"b', "flags": (True, 1.5)}
    return partial(lib.lax.composite(f, "my.scaled", 3), power=2, shift=SHIFT, note=note)


def test_value_and_program_as_jax():
    assert_same(xjax.jit(scaled(xjax))({"x": X}), jax.jit(scaled(jax))({"x": X}))
    assert_same(scaled(xjax)({"x": X}), jax.jit(scaled(jax))({"x": X}))
    text = xjax.jit(scaled(xjax)).lower({"x": X}).as_text()
    assert 'stablehlo.composite "my.scaled"' in text and "version = 3" in text and '"a\\"b"' in text


def test_printed_as_in_jax():
    def text(lib):
        f = lib.lax.composite(lambda x, *, n: x * n, "my.times")
        return str(lib.make_jaxpr(lambda x: f(x, n=2.0))(X)).split()
    # JAX 0.12 calls the parameter `call_jaxpr`.
    assert text(xjax) == [word.removeprefix("call_") for word in text(jax)]


def test_transforms_are_those_of_the_decomposition():
    """JAX has none of these transforms."""
    f = lax.composite(lambda x, y: jnp.sin(x) * y, "my.f")

    def every(f):
        loss = lambda x, y: f(x, y).sum()
        return [xjax.grad(loss, (0, 1))(X, X + 1), xjax.vmap(f, (0, None))(X, X + 1),
                xjax.vmap(xjax.grad(loss))(X, X + 1), xjax.jvp(xjax.grad(loss), (X, X), (X, X + 2))]
    assert_same(xjax.jit(every, static_argnums=0)(f),
                xjax.jit(every, static_argnums=0)(lambda x, y: jnp.sin(x) * y), tol=1 / 8)


def test_misuse_of_composite():
    f = lax.composite(lambda x, *, n: x * n, "my.times")
    with pytest.raises(xjax.errors.UnexpectedTracerError, match=r"(?s)attribute `n`.*fix:"):
        xjax.jit(lambda x: f(x, n=x))(1.0)
    with pytest.raises(TypeError, match=r"(?s)attribute.*fix:"):
        xjax.jit(lambda x: lax.composite(lambda x, *, n: x, "my.same")(x, n=object()))(1.0)


# -- platform_dependent -------------------------------------------------------------------------------------------

def chosen(lib, x):
    """The functions for other platforms contain an operation that must not be compiled for the CPU."""
    def elsewhere(x):
        return lib.numpy.cos(x) * 3.0
    return lib.lax.platform_dependent(x, tpu=elsewhere, cuda=elsewhere, cpu=lambda x: lib.numpy.sin(x) * 2.0,
                                      default=lambda x: x)


TRANSFORMS = {
    "eager": lambda lib: lambda x: chosen(lib, x),
    "jit": lambda lib: lib.jit(lambda x: chosen(lib, x)),
    "grad of jit": lambda lib: lib.grad(lambda x: lib.jit(lambda x: chosen(lib, x))(x).sum()),
    "jit of vmap of grad": lambda lib: lib.jit(lib.vmap(lib.grad(lambda x: chosen(lib, x).sum()))),
    "scan": lambda lib: lambda x: lib.lax.scan(lambda c, _: (chosen(lib, c), c), x, None, length=3),
    "grad of scan": lambda lib: lib.grad(
        lambda x: lib.lax.scan(lambda c, _: (chosen(lib, c), c), x, None, length=3)[0].sum()),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_platform_dependent_as_jax(name):
    assert_same(TRANSFORMS[name](xjax)(X), TRANSFORMS[name](jax)(X))


def test_only_the_chosen_function_is_compiled():
    text = xjax.jit(lambda x: chosen(xjax, x)).lower(X).as_text()
    assert "sine" in text and "cosine" not in text and "case" not in text
    ours, theirs = (str(lib.make_jaxpr(lambda x, lib=lib: chosen(lib, x))(X)) for lib in (xjax, jax))
    assert "platform_index[platforms=(('tpu', 'cuda'), ('cpu',), None)]" in ours
    assert "platform_index[platforms=(('tpu', 'cuda'), ('cpu',), None)]" in theirs


def test_misuse_of_platform_dependent():
    for run in (lambda f: f(X), lambda f: xjax.jit(f)(X)):
        with pytest.raises(NotImplementedError, match=r"(?s)platform 'cpu'.*fix: pass cpu"):
            run(lambda x: lax.platform_dependent(x, tpu=lambda x: x))
    with pytest.raises(ValueError, match="fix: use cuda"):
        lax.platform_dependent(X, gpu=lambda x: x)
    with pytest.raises(TypeError, match="must be a function"):
        lax.platform_dependent(X, cpu=3)
