"""associative_scan: against real JAX and running loops, sizes, trees, axes, derivatives, errors."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
from tests.lax.oracle import DERIVATIVES, check
from tests.oracle import real_jax
from tests.refusals import assert_refused
from xjax import lax

jax = real_jax()

X = np.linspace(-0.9, 1.1, 7, dtype=np.float32)


def affine(L):
    """Composition of functions x -> u x + v: associative, but not commutative."""
    return lambda a, b: {"u": L.mul(a["u"], b["u"]), "v": L.add(L.mul(a["v"], b["u"]), b["v"])}


def test_every_size_as_jax():
    """Each combination of odd and even sizes on two levels."""
    elems = [{"u": np.linspace(0.5, 1.5, n * 2, dtype=np.float32).reshape(n, 2),
              "v": np.arange(n * 2, dtype=np.float32).reshape(n, 2)} for n in (0, 1, 2, 3, 5, 6, 7)]
    check(jax, lambda L, elems: [L.associative_scan(affine(L), e, reverse=len(e["u"]) == 5) for e in elems], elems)


def test_axes_as_jax():
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    check(jax, lambda L, x: [L.associative_scan(affine(L), {"u": x, "v": x}, axis=axis, reverse=axis > 0)
                             for axis in (1, 2, -2)], x)


def test_backwards_along_an_axis_counted_from_the_end():
    """Real JAX refuses reverse=True with a negative axis."""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    sums = xjax.jit(lambda x: lax.associative_scan(lambda a, b: a + b, x, axis=-1, reverse=True))(x)
    np.testing.assert_array_equal(sums, np.add.accumulate(x[:, ::-1], 1)[:, ::-1])


@pytest.mark.parametrize("transform", ["jvp", "grad", "jvp of grad", "vmap", "vmap over the scanned axis' neighbour"])
def test_transforms_as_jax(transform):
    def f(L, x, y):
        return L.associative_scan(affine(L), {"u": x, "v": L.mul(x, y)})
    if transform in DERIVATIVES:
        check(jax, f, X, X[::-1].copy(), transform=DERIVATIVES[transform])
    elif transform == "vmap":
        check(jax, f, np.stack([X, 2 * X]), X, transform=lambda lib, f: lib.vmap(f, (0, None)))
    else:
        check(jax, f, np.stack([X, 2 * X], 1), X, transform=lambda lib, f: lib.vmap(f, (1, None), 1))


def test_other_elements_than_floats():
    flags = np.array([0, 1, 0, 0, 1], bool)
    n = np.arange(1, 6, dtype=np.int32)
    some, products = xjax.jit(lambda flags, n: (lax.associative_scan(lax.bitwise_or, flags),
                                                lax.associative_scan(lax.mul, n)))(flags, n)
    np.testing.assert_array_equal(some, np.logical_or.accumulate(flags))
    np.testing.assert_array_equal(products, np.multiply.accumulate(n))


def test_every_element_keeps_its_bits():
    """Elements are moved, never added to zeros: -0 stays -0 (0 in JAX), and inf and nan do not spread."""
    x = np.array([-0.0, 0.0, np.inf, -np.inf, np.nan, -0.0, 1.0], np.float32)
    y = np.asarray(xjax.jit(lambda x: lax.associative_scan(lambda a, b: b, x))(x))
    np.testing.assert_array_equal(y.view(np.int32), x.view(np.int32))


def test_calls_of_the_function_grow_with_the_logarithm():
    calls = []
    xjax.eval_shape(lambda x: lax.associative_scan(lambda a, b: calls.append(a.shape) or a + b, x),
                    np.ones(1000, np.float32))
    assert len(calls) <= 20 and sum(shape[0] for shape in calls) <= 2000


def test_one_element_comes_back_as_an_array():
    assert isinstance(lax.associative_scan(lax.add, np.ones(1)), xjax.Array)
    assert lax.associative_scan(lax.add, np.ones((0, 2), np.float32)).shape == (0, 2)


ERRORS = {
    "no function": (lambda: lax.associative_scan(3, X), TypeError, ["`fn` must be a function"]),
    "no array": (lambda: lax.associative_scan(lax.add, ()), ValueError, ["`elems` holds no array"]),
    "text": (lambda: lax.associative_scan(lax.add, {"k": "a"}), TypeError, ["elems['k'] is not an array"]),
    "axis": (lambda: lax.associative_scan(lax.add, X, axis=1), ValueError, ["`axis` 1 is out of bounds"]),
    "a scalar": (lambda: lax.associative_scan(lax.add, 1.0), ValueError, ["`axis` 0 is out of bounds"]),
    "sizes": (lambda: lax.associative_scan(lambda a, b: a, {"a": X, "b": X[:3]}), ValueError,
              ["differ in size along axis 0", "elems['a']  f32[7]", "elems['b']  f32[3]"]),
    "structure": (lambda: lax.associative_scan(lambda a, b: (a, b), X), TypeError,
                  ["a structure that differs", "expected a leaf, got a tuple of 2"]),
    "dtype": (lambda: lax.associative_scan(lambda a, b: {"s": a["s"] > b["s"]}, {"s": X}), TypeError,
              ["result['s']  bool[3], given f32[3]"]),
    "shape": (lambda: lax.associative_scan(lambda a, b: (a + b)[:1], X), TypeError, ["result  f32[1], given f32[3]"]),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    call, kind, texts = ERRORS[case]
    assert_refused(call, kind, [*texts, "associative_scan: "])
