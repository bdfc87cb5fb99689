"""Arrays so large that the CPU uses another algorithm than the plain operation: extrema and argmax by slices, sums of
short rows term by term, narrow products in the faster order, top_k by blocks, cumsum by loops."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.sampling import each_once
from xjax import lax
from xjax.core.types import ShapedArray
from xjax.ops.cpu.argmax import has_pairs
from xjax.ops.cpu.cumsum import has_loop
from xjax.ops.cpu.extrema import drops_nan
from xjax.ops.cpu.sums import has_short_rows
from xjax.ops.cpu.top_k import has_blocks
from xjax.sharding import NamedSharding
from xjax.sharding import PartitionSpec as P

pytestmark = pytest.mark.usefixtures("as_shipped")

RNG = np.random.default_rng(0)


# -- maximum and minimum ------------------------------------------------------------------------------------------

@pytest.mark.parametrize("where, dtype", each_once(
    [((5000,), (0,)), ((17, 300), (0,)), ((300, 17), (0,)), ((3, 4099), (1,)), ((400, 300), (0,)),
     ((5, 7, 211), (0, 2)), ((2, 1, 4097, 1), (2,)), ((3, 50, 700), (1,))],
    [np.float32, np.float64, np.float16, jnp.bfloat16]))
def test_extrema_equal_numpy(where, dtype):
    shape, axes = where
    x = RNG.standard_normal(shape).astype(dtype)
    nan, infinite = x.copy(), x.copy()
    nan.reshape(-1)[-1] = np.nan
    infinite.reshape(-1)[[0, -1]] = np.inf, -np.inf                         # their sum is NaN, their extrema are not
    with xjax.enable_x64():
        extrema = xjax.jit(lambda x: (jnp.max(x, axes), jnp.min(x, axes)))
        for y in (x, nan, infinite):
            assert drops_nan(ShapedArray(shape, y.dtype))
            for ours, function in zip(extrema(y), (np.max, np.min), strict=True):
                np.testing.assert_array_equal(np.asarray(ours, np.float64), function(y.astype(np.float64), axes))


# -- argmax and argmin --------------------------------------------------------------------------------------------

@pytest.mark.parametrize("shape, dtype", each_once(
    [(1024,), (3000,), (3, 1024), (2, 2, 1151)], [np.float32, np.float16, jnp.bfloat16, np.int32, np.uint8, np.uint32]))
def test_positions_equal_numpy(shape, dtype):
    assert has_pairs(ShapedArray(shape, np.dtype(dtype)), len(shape) - 1, ShapedArray((), np.dtype(np.int32)))
    positions = xjax.jit(lambda x: (jnp.argmax(x, -1), jnp.argmin(x, -1)))
    few = RNG.integers(0, 9, shape).astype(dtype)                           # many ties: the first position counts
    last = few.copy()
    last[..., -1], last[..., -2] = 99, 98                                   # in the overlapping slice
    arrays = [few, last, 100 - last, np.zeros(shape, dtype)]
    if few.dtype.kind in "iu":
        info = np.iinfo(dtype)
        arrays.append(RNG.choice(np.array([info.min, info.max, 0, 1], dtype), shape))
    else:
        nan, infinite, zeros = few.copy(), few.copy(), np.zeros(shape, dtype)
        nan.reshape(-1)[[700, 900]] = np.nan, -np.nan
        infinite.reshape(-1)[[5, 800]], infinite.reshape(-1)[[9, 801]] = np.inf, -np.inf
        zeros.reshape(-1)[::2] = -0.0
        arrays += [-few, nan, infinite, zeros, np.full(shape, -np.inf, dtype), np.full(shape, np.inf, dtype)]
    for x in arrays:
        highest, lowest = positions(x)
        np.testing.assert_array_equal(highest, np.argmax(x, -1))
        np.testing.assert_array_equal(lowest, np.argmin(x, -1))
        assert highest.dtype == np.int32


def test_argmax_under_transforms():
    x = RNG.standard_normal((4, 2000)).astype(np.float32)
    np.testing.assert_array_equal(xjax.vmap(jnp.argmax)(x), x.argmax(1))
    np.testing.assert_array_equal(xjax.vmap(jnp.argmax, 1)(x), x.argmax(0))
    np.testing.assert_array_equal(lax.map(jnp.argmax, x), x.argmax(1))
    assert float(xjax.grad(lambda x: x[0, 0] * jnp.argmax(x).astype(np.float32))(x)[0, 0]) == x.argmax()


# -- sums of short rows -------------------------------------------------------------------------------------------

@pytest.mark.parametrize("shape, axes", [((3000, 2), (1,)), ((700, 8, 8), (2,)), ((600, 7, 1), (1,)),
                                         ((300, 4, 4), (1, 2)), ((500, 1, 9, 1), (-2, -1)), ((5, 100, 16), (2,))],
                         ids=str)
def test_sums_of_short_rows_equal_numpy(shape, axes):
    assert has_short_rows(ShapedArray(shape, np.dtype(np.float32)), tuple(a % len(shape) for a in axes))
    x = RNG.standard_normal(shape)
    with xjax.enable_x64():
        for dtype, eps in ((np.float32, 6e-8), (np.float64, 2e-16)):
            y = x.astype(dtype)
            f = xjax.jit(lambda x: jnp.sum(x, axes))
            assert f(y).dtype == dtype and "stablehlo.reduce" not in f.lower(y).as_text()
            atol = 15 * eps * np.abs(y).sum(axes).max()         # 15 additions, each rounded by eps of a partial sum
            np.testing.assert_allclose(f(y), y.astype(np.float64).sum(axes), rtol=0, atol=atol)


def test_short_rows_with_nan_and_infinities():
    x = np.ones((3000, 3), np.float32)
    x[5, 1], x[6, 2], x[7, :2] = np.nan, np.inf, [np.inf, -np.inf]
    sums = np.asarray(jnp.sum(x, 1))
    np.testing.assert_array_equal(sums[4:9], [3, np.nan, np.inf, np.nan, 3])


def test_sums_of_short_rows_under_transforms():
    x, weights = (RNG.standard_normal((1000, 5)).astype(np.float32) for _ in range(2))
    slope = xjax.jit(xjax.grad(lambda x: jnp.sum(jnp.sum(x * weights, 1) ** 2)))(x)
    np.testing.assert_allclose(slope, 2 * (x * weights).sum(1, keepdims=True) * weights, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(xjax.jit(xjax.vmap(jnp.sum))(x), x.sum(1), rtol=0, atol=5e-6)
    np.testing.assert_allclose(xjax.jit(xjax.vmap(jnp.sum, 1))(x), x.sum(0), rtol=0, atol=1e-3)


def test_what_is_cut_over_devices_is_summed_and_multiplied_by_the_library():
    """Slices of a sharded axis would require a gather."""
    mesh = xjax.make_mesh((2,), ("x",))
    split = NamedSharding(mesh, P(None, "x"))
    x, y = (RNG.integers(-9, 9, (3000, n)).astype(np.float32) for n in (8, 40))
    product = lambda x, y: lax.dot_general(x, y, (((0,), (0,)), ((), ())))
    assert "optimization_barrier" in xjax.jit(product).lower(x, y).as_text()
    for f, args, want in ((lambda x: jnp.sum(x, 1), (x,), x.sum(1)), (product, (x, y), x.T @ y)):
        jitted = xjax.jit(f, in_shardings=(split,) * len(args))
        np.testing.assert_array_equal(jitted(*args), want)
        text = jitted.lower(*args).as_text()
        assert "stablehlo.slice" not in text and "optimization_barrier" not in text


@pytest.mark.parametrize("shape, axes", [((100, 8), (1,)), ((3000, 17), (1,)), ((3000, 8), (0,)), ((300, 4, 4), (0, 2)),
                                         ((5000, 1), (1,)), ((2, 8, 4096), (1,))], ids=str)
def test_other_sums_are_those_of_the_library(shape, axes):
    assert not has_short_rows(ShapedArray(shape, np.dtype(np.float32)), axes)


@pytest.mark.parametrize("shape, axes, in_stages", [
    ((2, 40, 30, 4, 2), (1, 2, 4), True), ((300, 4, 4), (0, 2), True), ((3, 50, 5, 2, 8), (1, 3, 4), True),
    ((300, 4, 33), (0, 2), False), ((300, 1, 17), (0, 2), False), ((40, 4, 4), (0, 2), False)], ids=str)
def test_sums_on_both_sides_of_a_kept_axis(shape, axes, in_stages):
    """Small integers are exact in every order; the gradient of the sum of squares is twice the operand."""
    x = RNG.integers(-9, 9, shape).astype(np.float32)
    f = xjax.jit(lambda x: jnp.sum(x * x, axes))
    np.testing.assert_array_equal(f(x), (x * x).sum(axes))
    assert ("optimization_barrier" in f.lower(x).as_text()) == in_stages
    np.testing.assert_array_equal(xjax.jit(xjax.grad(lambda x: jnp.sum(f(x))))(x), 2 * x)
    np.testing.assert_array_equal(xjax.jit(xjax.vmap(f))(np.stack([x, 2 * x])), [f(x), 4 * f(x)])


# -- narrow products ----------------------------------------------------------------------------------------------

@pytest.mark.parametrize("case, precision", each_once(
    [(100, 40, 3, True), (100, 3, 40, True), (32, 128, 64, True), (31, 40, 3, False), (100, 40, 1, False),
     (100, 20, 11, False), (100, 140, 65, True), (40, 1100, 300, False)], [None, "highest"]))
def test_products_of_columns_equal_numpy(case, precision):
    """Small integers are exact in every order."""
    n, m, k, is_turned = case
    x, y = (RNG.integers(-9, 9, (n, columns)).astype(np.float32) for columns in (m, k))
    f = xjax.jit(lambda x, y: lax.dot_general(x, y, (((0,), (0,)), ((), ())), precision))
    np.testing.assert_array_equal(f(x, y), x.T @ y)
    assert ("optimization_barrier" in f.lower(x, y).as_text()) == is_turned
    with xjax.enable_x64():
        wide = x.astype(np.float64), y.astype(np.float64)
        np.testing.assert_array_equal(f(*wide), x.T @ y)
        assert "optimization_barrier" not in f.lower(*wide).as_text()


@pytest.mark.parametrize("shape, is_turned", [((2, 3, 80, 60, 5), True), ((4, 70, 90, 45), True),
                                              ((4, 70, 90, 46), False), ((2, 3, 20, 60, 5), False)], ids=str)
def test_batched_products_over_the_rows_of_a_large_operand(shape, is_turned):
    """They are the transposes of products with the operands exchanged; small integers are exact in every order."""
    *batch, rows, m, k = shape
    x, y = (RNG.integers(-9, 9, (*batch, rows, columns)).astype(np.float32) for columns in (m, k))
    axes = tuple(range(len(batch)))
    numbers = (((len(batch),), (len(batch),)), (axes, axes))
    f = xjax.jit(lambda x, y: lax.dot_general(x, y, numbers))
    expected = np.swapaxes(x, -1, -2) @ y
    np.testing.assert_array_equal(f(x, y), expected)
    assert ("optimization_barrier" in f.lower(x, y).as_text()) == is_turned
    cts = RNG.integers(-9, 9, expected.shape).astype(np.float32)
    slopes = xjax.jit(lambda x, y, ct: xjax.vjp(f, x, y)[1](ct))(x, y, cts)
    np.testing.assert_array_equal(slopes[0], y @ np.swapaxes(cts, -1, -2))
    np.testing.assert_array_equal(slopes[1], x @ cts)
    with xjax.enable_x64():
        wide = x.astype(np.float64), y.astype(np.float64)
        np.testing.assert_array_equal(f(*wide), expected)
        assert "optimization_barrier" not in f.lower(*wide).as_text()


@pytest.mark.parametrize("x_shape, w_shape, is_turned", [
    ((1, 96), (300, 96), True), ((64, 96), (300, 96), True), ((2, 5, 96), (30, 10, 96), True), ((96,), (99, 96), False),
    ((65, 96), (300, 96), False), ((40, 96), (70, 96), False), ((1, 40), (99, 40), False), ((0, 96), (300, 96), False)],
    ids=str)
def test_products_of_few_rows_with_a_transposed_matrix(x_shape, w_shape, is_turned):
    """Small integers are exact in every order."""
    x, w = (RNG.integers(-9, 9, shape).astype(np.float32) for shape in (x_shape, w_shape))
    f = xjax.jit(lambda x, w: lax.dot_general(x, w, (((x.ndim - 1,), (w.ndim - 1,)), ((), ()))))
    expected = np.tensordot(x, w, (-1, -1))
    np.testing.assert_array_equal(f(x, w), expected)
    assert ("optimization_barrier" in f.lower(x, w).as_text()) == is_turned
    slopes = xjax.jit(xjax.grad(lambda x, w: jnp.sum(f(x, w) ** 2) / 2, (0, 1)))(x, w)
    np.testing.assert_array_equal(slopes[0], np.tensordot(expected, w, w.ndim - 1))
    np.testing.assert_array_equal(slopes[1], np.tensordot(expected, x, (range(x.ndim - 1),) * 2))
    with xjax.enable_x64():
        wide = x.astype(np.float64), w.astype(np.float64)
        np.testing.assert_array_equal(f(*wide), expected)
        assert "optimization_barrier" not in f.lower(*wide).as_text()


def test_gradients_of_narrow_layers_equal_numpy():
    x, w = RNG.integers(-9, 9, (200, 30)).astype(np.float32), RNG.integers(-9, 9, (30, 4)).astype(np.float32)
    slopes = xjax.jit(xjax.grad(lambda x, w: jnp.sum((x @ w) ** 2) / 2, (0, 1)))(x, w)
    np.testing.assert_array_equal(slopes[0], x @ w @ w.T)
    np.testing.assert_array_equal(slopes[1], x.T @ (x @ w))
    many = xjax.jit(xjax.vmap(lambda x, w: x.T @ w))(np.stack([x, 2 * x]), np.stack([x[:, :4]] * 2))
    np.testing.assert_array_equal(many, [x.T @ x[:, :4], 2 * x.T @ x[:, :4]])
    cube = x.reshape(40, 5, 30)
    batched = lax.dot_general(cube, cube[..., :4], (((0,), (0,)), ((1,), (1,))))
    np.testing.assert_array_equal(batched, np.einsum("nbi,nbj->bij", cube, cube[..., :4]))
    together = lax.dot_general(cube, cube[..., :4], (((0, 1), (0, 1)), ((), ())))
    np.testing.assert_array_equal(together, x.T @ x[:, :4])


# -- top_k --------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("shape, k", each_once([(1 << 13,), (10_007,), (2, 3, 8200)], [1, 7, 16]))
def test_largest_elements_of_blocks(shape, k):
    """In descending order: NaN of either sign first, 0 before -0, equal elements in their original order."""
    assert has_blocks(ShapedArray(shape, np.dtype(np.float32)), k)
    x = RNG.standard_normal(shape).astype(np.float32)
    few, zeros = RNG.integers(0, 5, shape).astype(np.float32), np.where(RNG.random(shape) < 0.5, 0.0, -0.0)
    nan = x.copy()
    nan[..., [5000, 5]], nan[..., -1], nan[..., 9] = np.nan, -np.nan, np.inf
    largest = xjax.jit(lambda x: lax.top_k(x, k))
    for y in (x, few, -few, zeros.astype(np.float32), nan, np.full(shape, -np.inf, np.float32)):
        is_nan = np.isnan(y)
        order = np.lexsort((np.broadcast_to(np.arange(shape[-1]), shape), np.signbit(y) & ~is_nan,
                            -np.where(is_nan, 0, y), ~is_nan))[..., :k]
        values, positions = largest(y)
        np.testing.assert_array_equal(positions, order)
        np.testing.assert_array_equal(values, np.take_along_axis(y, order, -1))


# -- cumsum -------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("where, how", each_once(
    [((1 << 14,), 0), ((50_001,), 0), ((200, 100), 0), ((2, 100, 10, 10), 1), ((40_000, 1), 0), ((1, 40_000), 1),
     ((3000, 8), 0), ((5, 2, 2017), 2), ((2, 35_001), 1), ((1029, 16), 1), ((40, 4501), 1)],
    [("float64", True), ("int64", False), ("float32", True), ("float64", False), ("int64", True), ("float32", False)]))
def test_sums_equal_numpy(where, how):
    (shape, axis), (dtype, reverse) = where, how
    assert has_loop(ShapedArray(shape, np.dtype(np.float32)), axis)
    x = RNG.standard_normal(shape)
    x = (x * 1e6).astype(np.int64) if dtype == "int64" else x
    want = np.flip(np.cumsum(np.flip(x, axis), axis), axis) if reverse else np.cumsum(x, axis)
    # each sum is rounded at most (pieces + elements of a piece + streams) times, in both directions
    atol = {"float32": 2e-6 * np.abs(x).sum(axis).max(), "float64": 1e-10, "int64": 0}[dtype]
    with xjax.enable_x64(dtype != "float32"):
        sums = xjax.jit(lambda x: lax.cumsum(x, axis, reverse))(x.astype(dtype))
    assert sums.dtype == dtype
    np.testing.assert_allclose(sums, want, rtol=0, atol=atol)


def test_a_long_sum_is_more_exact_than_one_loop():
    """A single running float32 sum drifts, as NumPy's does; sums of pieces do not."""
    x = np.full(2_000_000, 0.1, np.float32)
    exact = np.cumsum(x.astype(np.float64))
    assert np.abs(np.asarray(jnp.cumsum(x)) - exact).max() < 0.05 * np.abs(np.cumsum(x) - exact).max()


def test_infinities_and_nan_stay_where_they_come():
    x = np.zeros(1 << 14, np.float32)
    x[5000], x[9000] = np.inf, np.nan
    sums = np.asarray(jnp.cumsum(x))
    assert (sums[:5000] == 0).all() and (sums[5000:9000] == np.inf).all() and np.isnan(sums[9000:]).all()
    rows = np.zeros((200, 100), np.float32)
    rows[50, 3] = np.inf
    columns = np.asarray(jnp.cumsum(rows, 0))
    assert (columns[50:, 3] == np.inf).all() and np.isfinite(np.delete(columns, 3, 1)).all()


def test_gradient_is_the_sum_from_the_other_end():
    weights = RNG.standard_normal((200, 100))
    with xjax.enable_x64():
        slope = xjax.grad(lambda x: (jnp.cumsum(x, 0) * weights).sum())(np.ones((200, 100)))
        np.testing.assert_allclose(slope, np.flip(np.cumsum(np.flip(weights, 0), 0), 0), rtol=0, atol=1e-10)
