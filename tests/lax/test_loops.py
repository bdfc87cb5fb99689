"""fori_loop and map: against real JAX, when they become a scan, errors."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
from tests.lax.oracle import DERIVATIVES, check
from tests.oracle import real_jax
from tests.refusals import assert_refused
from tests.sampling import one_in
from xjax import lax

jax = real_jax()

X = np.array([0.3, -1.2, 0.8], np.float32)


def polynomial(L, x):
    return L.fori_loop(1, 5, lambda i, s: L.add(L.mul(s, x), L.convert_element_type(i, np.float32)), x)


# These loops become scans (tested below); test_scan tests the derivatives of scans.
@pytest.mark.parametrize("transform", one_in(3, DERIVATIVES))
def test_known_bounds_as_jax(transform):
    check(jax, polynomial, X, transform=DERIVATIVES[transform])


@pytest.mark.parametrize("lower,upper", [(0, 5), (2, 2), (5, 1), (-3, 2), (np.int8(1), 4), (np.int32(0), np.int32(3))])
def test_bounds(lower, upper):
    def f(i, s):
        return lax.add(s, lax.convert_element_type(i, np.int32))
    want = sum(range(int(lower), int(upper)))
    assert int(lax.fori_loop(lower, upper, f, np.int32(0))) == want
    assert int(xjax.jit(lambda a, b: lax.fori_loop(a, b, f, np.int32(0)))(lower, upper)) == want
    with xjax.disable_jit():
        assert int(lax.fori_loop(lower, upper, f, np.int32(0))) == want


def index_type(lib, lower, upper):
    seen = []
    lib.lax.fori_loop(lower, upper, lambda i, s: seen.append((i.dtype, i.weak_type)) or s, 0)
    return seen[0]


def test_dtype_of_the_index_as_jax():
    for lower, upper in [(0, 3), (np.int8(0), np.int8(3)), (np.uint8(1), np.uint8(3)), (0.0, 3.0),
                         (False, True)]:
        assert index_type(jax, lower, upper) == index_type(xjax, lower, upper), (lower, upper)


def test_known_bounds_are_a_scan_and_others_a_while():
    def f(n, x):
        return lax.fori_loop(0, n, lambda i, x: lax.sin(x), x)
    assert [e.primitive.name for e in xjax.make_jaxpr(lambda x: f(4, x))(X).eqns] == ["scan"]
    assert [e.primitive.name for e in xjax.make_jaxpr(f)(4, X).eqns] == ["while"]
    np.testing.assert_allclose(np.asarray(xjax.jit(f)(4, X)), np.asarray(f(4, X)), rtol=1e-6)
    np.testing.assert_allclose(np.asarray(xjax.grad(lambda x: lax.reduce_sum(f(xjax.device_put(2), x), (0,)))(X)),
                               np.cos(np.sin(X)) * np.cos(X), rtol=1e-6)


def test_mapped_bounds_as_jax():
    def f(L, n, x):
        return L.fori_loop(0, n, lambda i, s: L.mul(s, 2.0), x)
    check(jax, f, np.array([0, 3, 1], np.int32), np.float32(1), transform=lambda lib, f: lib.vmap(f, (0, None)))


def test_repeated_eager_calls_trace_once():
    traced = []

    def body(i, x):
        traced.append(1)
        return lax.sin(x)

    for _ in range(3):
        lax.fori_loop(0, 3, body, X)
        lax.map(lax.sin, X)
    assert len(traced) == 1
    for n in (1, 2, 3):
        lax.fori_loop(0, xjax.device_put(n), body, X)
    assert len(traced) == 1                         # the bound is known in eager mode: the same scan body


def batched_maps(L, xs):
    """Batches: none, one row each, with and without a remainder, one batch, batches larger than the number of rows."""
    return [L.map(lambda x: {"s": L.sin(x["a"]), "p": L.mul(x["b"], x["a"])}, xs, batch_size=n)
            for n in (None, 1, 2, 3, 5, 8)]


def test_map_as_jax():
    xs = {"a": np.arange(6, dtype=np.float32), "b": np.ones((6, 2), np.float32)}
    check(jax, lambda L, a, b: batched_maps(L, {"a": a, "b": b}), *xs.values(),
          transform=lambda lib, f: lambda *xs: (DERIVATIVES["jvp"](lib, f)(*xs), DERIVATIVES["grad"](lib, f)(*xs)))


def test_a_map_in_batches_traces_a_batch_and_the_remainder():
    traced = []

    def row(x):
        traced.append(x.shape)
        return x
    lax.map(row, np.ones((7, 2), np.float32), batch_size=3)
    assert traced == [(2,), (2,)]


def test_map_over_no_rows_as_jax():
    xs = np.ones((0, 3), np.float32)
    check(jax, lambda L, xs: [L.map(L.sin, xs), L.map(L.sin, xs, batch_size=2)], xs)


def test_gradient_of_map_as_jax():
    check(jax, lambda L, xs: L.map(lambda x: L.mul(L.sin(x), x), xs), X, transform=DERIVATIVES["grad"])


ERRORS = {
    "float bound": (lambda: lax.fori_loop(0, 3.5, lambda i, x: x, 0), TypeError,
                    ["the bounds differ in dtype", "i32[]", "f32[]", "int(upper)"]),
    "fractional bound": (lambda: lax.fori_loop(0.0, 3.5, lambda i, x: x, 0), ValueError,
                         ["`upper` is not integral", "3.5", "int(x)"]),
    "infinite bound": (lambda: lax.fori_loop(0.0, np.inf, lambda i, x: x, 0), ValueError, ["not integral", "inf"]),
    "complex bound": (lambda: lax.fori_loop(0j, 3j, lambda i, x: x, 0), TypeError,
                      ["`lower` must be an integer scalar", "c64[]"]),
    "bound with axes": (lambda: lax.fori_loop(np.arange(2), 3, lambda i, x: x, 0), TypeError,
                        ["`lower` must be an integer scalar", "i32[2]"]),
    "dtypes": (lambda: lax.fori_loop(np.int8(0), np.int16(3), lambda i, x: x, 0), TypeError,
               ["differ in dtype", "i8[]", "i16[]"]),
    "unroll": (lambda: xjax.jit(lambda n: lax.fori_loop(0, n, lambda i, x: x, 0, unroll=2))(3), ValueError,
               ["`unroll` needs bounds that are known"]),
    "carry": (lambda: lax.fori_loop(0, 3, lambda i, x: lax.broadcast(x, (2,)), 0.0), TypeError,
              ["the carry changes type", "in f32[]   out f32[2]"]),
    "batch_size": (lambda: lax.map(lax.sin, X, batch_size=-1), ValueError, ["`batch_size` is negative"]),
    "reverse mode": (lambda: xjax.grad(lambda x, n: lax.fori_loop(0, n, lambda i, x: x * 2.0, x))(1.0, 3) and
                     xjax.jit(xjax.grad(lambda x, n: lax.fori_loop(0, n, lambda i, x: lax.mul(x, 2.0), x)))(1.0, 3),
                     ValueError, ["reverse-mode", "Python ints as bounds"]),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    assert_refused(*ERRORS[case])
