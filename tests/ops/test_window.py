"""Windows and reductions outside of `structural_table`: NaN, derivatives that JAX lacks, programs, errors."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
from tests.compare import assert_close
from tests.ops.structural_table import TIES, c, f, i
from tests.oracle import real_jax
from tests.refusals import assert_refused
from xjax import lax
from xjax.core.config import enable_x64
from xjax.ops.window import Window, windows_of

jax = real_jax()
from tests.core.test_printing_as_jax import Rebuild  # noqa: E402  (needs jax)

MONOIDS = {"add": 0, "mul": 1, "max": -2**31, "min": 2**31 - 1, "bitwise_or": 0, "bitwise_and": -1, "bitwise_xor": 0}


# -- values -------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", MONOIDS)
def test_known_reductions_of_integers(name):
    """With the function of `lax`, which is recognised, and with an equivalent lambda, which is traced."""
    x, start = i([3, -5, 7], [7, 7, 1]), np.int32(MONOIDS[name])
    def both(L, by):
        return L.reduce(x, start, by, (0,)), L.reduce_window(x, start, by, (1, 2), (1, 1), "SAME")
    want = jax.jit(lambda: both(jax.lax, getattr(jax.lax, name)))()
    known, traced = both(lax, getattr(lax, name)), both(lax, lambda a, b: getattr(lax, name)(a, b))
    for result in (known, traced):
        assert_close(result, want)


def test_bools_and_complex_numbers():
    flags = np.array([True, False, False, True])
    assert np.asarray(lax.reduce_window(flags, False, lax.max, (2,))).tolist() == [True, False, True]
    assert np.asarray(lax.reduce_window(flags, True, lax.bitwise_and, (2,))).tolist() == [False, False, False]
    z = c(4)
    np.testing.assert_allclose(lax.reduce_window(z, np.complex64(0), lax.add, (2,)), z[1:] + z[:-1], rtol=1e-6)
    np.testing.assert_allclose(lax.reduce_window(z, np.complex64(1), lax.mul, (2,)), z[1:] * z[:-1], rtol=1e-6)


def test_a_start_value_counts_once():
    """Also if it is not the identity, and in the value computed along with a derivative."""
    x = f(5)

    def total(x):
        return lax.reduce(x, np.float32(10), lax.add, (0,))
    np.testing.assert_allclose(total(x), 10 + x.sum(), rtol=1e-6)
    np.testing.assert_allclose(xjax.value_and_grad(total)(x)[0], 10 + x.sum(), rtol=1e-6)


def test_python_numbers_take_the_dtype_of_the_array():
    assert lax.reduce(f(3).astype(np.float16), 0, lambda a, b: a + b, (0,)).dtype == np.float16
    assert lax.reduce_window(i(1, 2, 3), 0, lax.add, (2,)).dtype == np.int32


def test_windows_of():
    """Compared with the definition, one element at a time."""
    x, window = f(5, 4), Window((2, 3), (2, 1), ((1, 0), (0, 2)), (1, 2), (3, 1))
    windows = np.asarray(windows_of(x, np.float32(-1), window))
    spread = np.full((6, 9), -1, np.float32)
    spread[1:, :7:2] = x
    assert windows.shape == (2, 3, *window.out_shape(x.shape)) == (2, 3, 2, 7)
    for (a, b, m, n), value in np.ndenumerate(windows):
        assert value == spread[3 * a + 2 * m, b + n]


# -- NaN ----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name, start", [("max", -np.inf), ("min", np.inf)])
@pytest.mark.parametrize("by_hand", [False, True])
def test_extrema_keep_nan(name, start, by_hand):
    """XLA's reduce_window drops NaN from 4,096 elements on; ours keeps NaN of either sign, in windows of every size."""
    extremum = getattr(lax, name)
    by = (lambda a, b: extremum(a, b)) if by_hand else extremum
    sizes = {(2, 50, 60): (1, 2, 2), (2, 80, 40): (1, 16, 40), (1, 5000): (1, 5000), (4992, 1): (64, 1)}
    xs, expected = [], []
    for shape, size in sizes.items():
        x = np.ones(shape, np.float32)
        x[(0,) * len(shape)], x[tuple(n // 2 for n in shape)] = np.nan, -np.nan
        blocks = x.reshape([m for n, k in zip(shape, size, strict=True) for m in (n // k, k)])
        xs.append(x)
        expected.append(getattr(np, name)(blocks, axis=tuple(range(1, 2 * len(shape), 2))))

    def pools(xs):
        return [lax.reduce_window(x, np.float32(start), by, k, k) for x, k in zip(xs, sizes.values(), strict=True)]
    for result, right in zip(xjax.jit(pools)(xs), expected, strict=True):
        np.testing.assert_array_equal(result, right)


@pytest.mark.parametrize("size", [(3,), (40,)])
def test_the_derivative_of_nan_belongs_to_the_nan(size):
    x = np.arange(100, dtype=np.float32)
    x[10] = np.nan

    def pool(x):
        return lax.reduce_window(x, -np.inf, lax.max, size, size)
    y, back = xjax.vjp(pool, x)
    cts = np.arange(1, 1 + y.shape[0], dtype=np.float32)
    expected = np.zeros(100, np.float32)
    expected[[10 if k == 10 // size[0] else (k + 1) * size[0] - 1 for k in range(y.shape[0])]] = cts
    np.testing.assert_array_equal(back(cts)[0], expected)
    np.testing.assert_array_equal(xjax.jvp(pool, (x,), (np.arange(100, dtype=np.float32),))[1],
                                  np.flatnonzero(expected))


# -- derivatives that JAX does not have ---------------------------------------------------------------------------

def check_adjoint(fun, *args):
    """<ct, J dx> = <J' ct, dx>, and J dx equals central differences."""
    rng = np.random.default_rng(3)
    with enable_x64(True):
        args = tuple(np.asarray(x, np.float64) for x in args)
        dxs = tuple(rng.standard_normal(x.shape) for x in args)
        y, dy = map(np.asarray, xjax.jit(lambda args, dxs: xjax.jvp(fun, args, dxs))(args, dxs))
        cts = rng.standard_normal(y.shape)
        pulled = map(np.asarray, xjax.jit(lambda args, ct: xjax.vjp(fun, *args)[1](ct))(args, cts))
        step = 1e-6
        after, before = (np.asarray(fun(*[x + s * dx for x, dx in zip(args, dxs, strict=True)])) for s in (step, -step))
    np.testing.assert_allclose(dy, (after - before) / (2 * step), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(np.sum(cts * dy), sum(np.sum(p * dx) for p, dx in zip(pulled, dxs, strict=True)),
                               rtol=1e-12)


DERIVATIVES = {
    "max of a window with holes": (lambda x: lax.reduce_window(
        x, -np.inf, lax.max, (2, 2), window_dilation=(1, 3), padding=((0, 1), (2, 0))), f(4, 6)),
    "max of a large window with holes": (lambda x: lax.reduce_window(
        x, -np.inf, lax.max, (40,), window_strides=(7,), window_dilation=(2,)), f(100)),
    "min of a cropped array with holes": (lambda x: lax.reduce_window(
        x, np.inf, lax.min, (2, 2), base_dilation=(2, 1), padding=((-1, 1), (0, -1))), f(4, 6)),
    "product of windows": (lambda x: lax.reduce_window(x, 1.0, lax.mul, (2, 3), (1, 2), "SAME"), f(4, 5)),
    "windows of affine maps": (lambda x, y: lax.reduce_window(
        (x, y), (np.ones((), x.dtype), np.zeros((), x.dtype)),
        lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (3,))[1], f(6), f(6)),
    "start value": (lambda x, start: lax.reduce(x, start, lambda a, b: a * b, (0,)), f(3, 2), f()),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivative(name):
    check_adjoint(*DERIVATIVES[name])


def test_ties_count_once():
    """The first of equal elements gets the whole derivative, as in JAX (for `reduce_max` all of them share it)."""
    pool = xjax.grad(lambda x: xjax.numpy.sum(lax.reduce_window(x, -np.inf, lax.max, (1, 5))))
    np.testing.assert_array_equal(pool(TIES), [[0, 1, 0, 0, 0], [1, 0, 0, 0, 0]])


@pytest.mark.parametrize("extremum, start", [("max", -np.inf), ("min", np.inf)])
@pytest.mark.parametrize("shape, size, strides", [
    ((7, 8), (2, 3), (2, 3)), ((3, 9), (1, 4), (1, 4)), ((5,), (1,), (1,)), ((7, 8), (2, 3), (1, 2)),
    ((2, 9, 5), (2, 5, 3), (1, 2, 1))], ids=str)
def test_where_the_derivative_goes(shape, size, strides, extremum, start):
    """Adjacent windows, with elements outside of all windows, and overlapping windows; some elements are equal."""
    x = np.random.default_rng(1).integers(0, 4, shape).astype(np.float32)
    y, back = xjax.vjp(lambda x: lax.reduce_window(x, start, getattr(lax, extremum), size, strides), x)
    cts = 1 + np.arange(y.size, dtype=np.float32).reshape(y.shape)
    expected = np.zeros(shape, np.float32)
    for position, ct in np.ndenumerate(cts):
        low = [i * s for i, s in zip(position, strides, strict=True)]
        window = x[tuple(slice(lo, lo + n) for lo, n in zip(low, size, strict=True))]
        first = np.unravel_index(getattr(window, f"arg{extremum}")(), size)
        expected[tuple(np.add(low, first))] += ct
    np.testing.assert_array_equal(back(cts)[0], expected)


def test_order_of_a_reduction_that_does_not_commute():
    """Composition of affine maps: value and derivative keep the order of the elements."""
    with enable_x64(True):
        a, b = f(7).astype(np.float64), f(7).astype(np.float64)

        def compose(a, b):
            return lax.reduce((a, b), (np.float64(1), np.float64(0)),
                              lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), (0,))[1]
        expected = 0.0
        for x, y in zip(a, b, strict=True):
            expected = expected * x + y
        np.testing.assert_allclose(compose(a, b), expected, rtol=1e-12)
        value, grads = xjax.jit(xjax.value_and_grad(compose, (0, 1)))(a, b)
        np.testing.assert_allclose(value, expected, rtol=1e-12)
        np.testing.assert_allclose(grads[1][::-1], np.cumprod([1, *a[:0:-1]]), rtol=1e-12)


def test_mapped_start_values():
    x, starts = f(3, 4), f(2)
    sums = xjax.vmap(lambda start: lax.reduce(x, start, lambda a, b: a + b, (0,)))(starts)
    np.testing.assert_allclose(sums, x.sum(0) + starts[:, None], rtol=1e-6)
    sums = xjax.vmap(lambda start: lax.reduce_window(x, start, lambda a, b: a + b, (3, 1)))(starts)
    np.testing.assert_allclose(sums, x.sum(0)[None] + starts[:, None, None], rtol=1e-6)


def test_inside_control_flow():
    """A pool and its gradient in a scan body, compiled."""
    xs = f(3, 6)

    def step(total, x):
        return total + xjax.numpy.sum(lax.reduce_window(x * x, -np.inf, lax.max, (2,), (2,))), None
    slope = xjax.jit(xjax.grad(lambda xs: lax.scan(step, np.float32(0), xs)[0]))(xs)
    expected = [xjax.grad(lambda x: step(np.float32(0), x)[0])(x) for x in xs]
    np.testing.assert_allclose(slope, expected, rtol=1e-6)


# -- programs -----------------------------------------------------------------------------------------------------

X = np.ones((1, 4, 4, 2), np.float32)
POOL = ((1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def pooled(start, name):
    return lambda lib: lambda x: lib.lax.reduce_window(x, start, getattr(lib.lax, name), *POOL)


PROGRAMS = {
    "max": pooled(-np.inf, "max"), "min": pooled(np.inf, "min"), "sum": pooled(0.0, "add"),
    "product": pooled(1.0, "mul"),
    "gradient of max": lambda lib: lib.grad(lambda x: pooled(-np.inf, "max")(lib)(x).sum()),
    "tangent of min": lambda lib: lambda x: lib.jvp(pooled(np.inf, "min")(lib), (x,), (x,)),
    "known reduction": lambda lib: lambda x: lib.lax.reduce(x, -np.inf, lib.lax.max, (0, 1)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_read_as_in_jax(name):
    ours = xjax.make_jaxpr(PROGRAMS[name](xjax))(X)
    assert str(ours) == str(Rebuild().bare(jax.make_jaxpr(PROGRAMS[name](jax))(X).jaxpr))


# -- errors -------------------------------------------------------------------------------------------------------

def add(a, b):
    return a + b


ERRORS = {
    "rank": (lambda: lax.reduce_window(f(3, 4), 0.0, lax.add, (2,)), TypeError, ("(3, 4)", "window_dimensions")),
    "rank with a name": (lambda: lax.reduce_window(f(3, 4), 0.0, lax.add, (2,), padding="SAME"), TypeError,
                         ("(3, 4)", "one entry for each axis")),
    "zero stride": (lambda: lax.reduce_window(f(3), 0.0, lax.add, (2,), (0,)), TypeError, ("positive",)),
    "padding": (lambda: lax.reduce_window(f(3), 0.0, lax.add, (2,), padding="SAMES"), RuntimeError, ("'SAME'",)),
    "structure": (lambda: lax.reduce((f(3), f(3)), 0.0, add, (0,)), ValueError, ("lax.reduce", "structure")),
    "nothing": (lambda: lax.reduce((), (), add, (0,)), ValueError, ("lax.reduce",)),
    "dtype": (lambda: lax.reduce(f(3), np.int32(0), add, (0,)), TypeError, ("f32[3]", "i32[]")),
    "start shape": (lambda: lax.reduce(f(3), f(3), add, (0,)), TypeError, ("scalars", "f32[3]")),
    "shapes": (lambda: lax.reduce((f(3), f(4)), (0.0, 0.0), lambda a, b: a, (0,)), TypeError, ("f32[3]", "f32[4]")),
    "axis": (lambda: lax.reduce(f(3), 0.0, add, (1,)), ValueError, ("dimensions",)),
    "result dtype": (lambda: lax.reduce(f(3), np.float32(0), lambda a, b: a < b, (0,)), TypeError,
                     ("f32[]", "bool[]")),
    "result structure": (lambda: lax.reduce(f(3), np.float32(0), lambda a, b: (a, b), (0,)), ValueError,
                         ("structure",)),
    "no function": (lambda: lax.reduce(f(3), 0.0, "add", (0,)), TypeError, ("computation",)),
    "traced": (lambda: xjax.jit(lambda x, s: lax.reduce(x, 0.0, lambda a, b: a + b * s, (0,)))(f(3), 2.0),
               NotImplementedError, ("traced value", "operand")),
    "complex": (lambda: lax.reduce_window_max_p.bind(c(3), **Window((1,), (1,), ((0, 0),), (1,), (1,))._asdict()),
                TypeError, ("complex64",)),
}


@pytest.mark.parametrize("case", ERRORS.values(), ids=ERRORS)
def test_errors(case):
    assert_refused(*case)
