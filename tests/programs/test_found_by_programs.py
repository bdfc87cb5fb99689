"""Faults that random programs exposed, each as a small direct test against real JAX."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
from tests.compare import assert_same
from tests.oracle import real_jax

X = np.linspace(0.3, 1.1, 3)


@pytest.fixture
def libraries():
    """(xjax, jax) with 64-bit types on."""
    jax = real_jax()
    with jax.enable_x64(True), xjax.enable_x64(True):
        yield xjax, jax


def agree(libraries, f, *args) -> None:
    """Assert that f(library, *args) is the same in both libraries."""
    assert_same(*(f(lib, *map(lib.numpy.asarray, args)) for lib in libraries))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_numbers_beside_arrays_with_x64(libraries, dtype):
    """A Python number takes the dtype of a narrow array, also if numbers alone are 64 bits wide."""
    agree(libraries, lambda lib, x: [2 * x + 1, x * 0.5, x > 1, x % 2, 3 - x], X.astype(dtype))


@pytest.mark.parametrize("around", [
    lambda lib, f: lib.jit(f),
    lambda lib, f: lambda x: lib.lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0],
    lambda lib, f: lib.vmap(f),
    lambda lib, f: lib.checkpoint(f)])
def test_the_function_of_vjp_as_residual(libraries, around):
    """A custom rule may save the function that vjp returns: its residuals are leaves of a tree."""
    def run(lib, x):
        f = lib.custom_vjp(lambda x: lib.numpy.sin(x) * x)
        f.defvjp(lambda x: lib.vjp(lambda x: lib.numpy.sin(x) * x, x), lambda pull, ct: pull(1.5 * ct))
        return lib.grad(lambda x: lib.numpy.sum(around(lib, f)(x)))(x)
    agree(libraries, run, X)


def test_the_function_of_vjp_leaves_jit(libraries):
    def run(lib, x):
        y, pull = lib.jit(lambda x: lib.vjp(lib.numpy.sin, x))(x)
        return pull(y)
    agree(libraries, run, X)


def test_jacfwd_of_a_loop_that_stops_element_by_element(libraries):
    """Under a second vmap, carries of such a loop that lack the new axis stay without it."""
    def run(lib, x):
        def loop(x, limit):
            return lib.lax.while_loop(lambda c: c[0] < limit, lambda c: (c[0] + 1, lib.numpy.sin(c[1])), (0, x))[1]
        f = lib.vmap(loop)
        return [lib.jacfwd(f)(x, lib.numpy.arange(3)), lib.vmap(f, (None, 0))(x, lib.numpy.arange(6).reshape(2, 3)),
                lib.vmap(f, (0, None))(lib.numpy.stack([x, 2 * x]), lib.numpy.arange(3))]
    agree(libraries, run, X)


def test_dead_call_with_a_rule_for_reverse_mode_alone(libraries):
    """linearize drops calls that no tangent needs, before it looks up their rules."""
    def run(lib, x):
        f = lib.custom_vjp(lib.numpy.sin)
        f.defvjp(lambda x: (lib.numpy.sin(x), x), lambda x, ct: (ct,))

        def g(x):
            f(x)
            return 3 * x
        return lib.linearize(g, x)[1](x)
    agree(libraries, run, X)


@pytest.mark.parametrize("around", ["jit", "vmap"])
def test_forward_mode_of_a_rule_for_reverse_mode_is_a_type_error(libraries, around):
    for lib in libraries:
        f = lib.custom_vjp(lib.numpy.sin)
        f.defvjp(lambda x: (x, x), lambda x, ct: (ct,))
        with pytest.raises(TypeError, match="custom_vjp"):
            getattr(lib, around)(lambda x: lib.jvp(f, (x,), (x,)))(lib.numpy.asarray(X))


def test_diagonals_of_empty_matrices(libraries):
    def run(lib, x):
        n = lib.numpy
        return [f(n.zeros(shape)) for shape in ((0, 2), (2, 0), (0, 0)) for f in (n.diagonal, n.diag, n.trace)]
    agree(libraries, run, X)


def test_results_of_pmap_without_elements(libraries):
    """Real JAX cannot read such an array either."""
    ours, _ = libraries
    assert np.asarray(ours.pmap(lambda x: ours.numpy.full((2, 0), x))(ours.numpy.asarray(X[:2]))).shape == (2, 2, 0)
