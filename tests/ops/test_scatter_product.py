"""Products of several updates of one element have all derivatives, also where factors are 0; JAX refuses them."""

import itertools

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.compare import assert_close
from xjax import lax, ops

X = np.array([2.0, 3.0, 5.0, 7.0])
INDICES = np.array([0, 1, 0, 2, 0, 1, -1, 9, 9])                # 9 is dropped
UPDATES = {
    "no zero": np.array([1.5, -2.0, 0.5, 3.0, -4.0, 0.25, 2.0, 3.0, 4.0]),
    "one zero": np.array([1.5, 0.0, 0.0, 3.0, -4.0, 0.25, 0.0, 0.0, 4.0]),
    "zeros": np.array([0.0, 0.0, 0.0, 0.0, -4.0, 0.0, 2.0, 0.0, 0.0]),
}
WEIGHTS = np.array([1.0, 10.0, 100.0, 1000.0])


def _others(x, u, left_out):
    """Derivative by the updates in `left_out` of the weighted sum over elements of the product of x and the updates."""
    hit = np.where(INDICES < 0, INDICES + len(x), INDICES)
    places = {hit[i] for i in left_out}
    if len(places) > 1 or places & {9}:
        return 0.0
    (place,) = places
    factors = [u[i] for i in range(len(u)) if hit[i] == place and i not in left_out]
    return WEIGHTS[place] * x[place] * np.prod(factors)


@pytest.mark.parametrize("name, compile", [
    *[(name, xjax.jit) for name in UPDATES], pytest.param("one zero", lambda f: f, marks=pytest.mark.slow)])
def test_first_and_second_derivatives(name, compile):
    u, n = UPDATES[name], len(INDICES)
    with xjax.enable_x64(True):
        def cost(x, u):
            return (x.at[INDICES].multiply(u) * WEIGHTS).sum()
        x = jnp.array(X)
        slope = np.array([_others(X, u, {i}) for i in range(n)])
        assert_close(compile(xjax.grad(cost, 1))(x, u), slope)
        direction = np.arange(1.0, n + 1)
        assert_close(compile(lambda x, u, du: xjax.jvp(lambda u: cost(x, u), (u,), (du,))[1])(x, u, direction),
                     slope @ direction)
        seconds = np.zeros((n, n))
        for i, k in itertools.permutations(range(n), 2):
            seconds[i, k] = _others(X, u, {i, k})
        assert_close(compile(xjax.hessian(cost, 1))(x, u), seconds)
        by_both = compile(xjax.jacfwd(xjax.grad(cost, 1), 0))(x, u)
        assert_close(by_both * X, slope[:, None] * (np.where(INDICES < 0, 3, INDICES)[:, None] == np.arange(4)))


def test_infinite_factors_do_not_reach_other_elements():
    """Dropped factors do not reach each other either."""
    u = np.array([np.inf, 2.0, 0.0, np.inf, 3.0, np.inf, 2.0])
    index = np.array([0, 0, 1, 9, 1, 9, 2])
    slope = xjax.grad(lambda u: jnp.ones(3).at[index].multiply(u)[1:].sum())(u)
    np.testing.assert_array_equal(np.asarray(slope)[2:], [3, 0, 0, 0, 1])


@pytest.mark.parametrize("mode", ["drop", "clip"])
def test_windows_and_batches(mode):
    """Rows of a matrix, one of them out of bounds, under vmap over everything, compared with a loop of products."""
    rng = np.random.default_rng(0)
    x, u = rng.normal(size=(3, 4, 2)), rng.normal(size=(3, 5, 2))
    index = np.array([[0, 1, 0, 9, 3], [2, 2, 2, 2, 2], [3, 9, 9, 1, 1]])

    def cost(x, i, u):
        return jnp.sin(x.at[i].multiply(u, mode=mode)).sum()

    def looped(x, i, u):
        for k in range(5):
            place = jnp.clip(i[k], 0, 3)
            factor = jnp.where((i[k] < 4) | (mode == "clip"), u[k], 1)
            x = x.at[place].set(x[place] * factor)
        return jnp.sin(x).sum()
    with xjax.enable_x64(True):
        slopes, wanted = (xjax.jit(xjax.vmap(xjax.grad(f, (0, 2))))(x, index, u) for f in (cost, looped))
    assert_close(slopes, wanted)


@pytest.mark.parametrize("method, wanted", [("divide", [-2 / 9 / 3, -2 / 27]), ("power", [3 * 2 ** 9 * np.log(2)] * 2)])
def test_what_is_made_of_products(method, wanted):
    with xjax.enable_x64(True):
        slope = xjax.grad(lambda u: getattr(jnp.array([2.0, 1.0]).at[jnp.array([0, 0])], method)(u)[0])
        np.testing.assert_allclose(slope(np.array([3.0, 3.0])), wanted, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16, np.complex64])
def test_other_dtypes(dtype):
    u = np.array([2, 3, 4, 5], dtype)
    slope = xjax.jit(xjax.grad(lambda u: jnp.real(ops.segment_prod(u, jnp.array([0, 0, 1, 0]), 2)).sum()))(u)
    assert slope.dtype == dtype
    np.testing.assert_array_equal(np.asarray(slope), [15, 10, 1, 6])


def test_segment_prod_and_buckets():
    ids, x = np.array([0, 0, 1, 1, 1, 3]), np.array([0.0, 5, 0, 2, 0, 4], np.float32)
    for size in (None, 4):
        slope = xjax.jit(xjax.grad(lambda x: (ops.segment_prod(x, ids, 4, bucket_size=size) * np.r_[1:5]).sum()))
        np.testing.assert_array_equal(slope(x), [5, 0, 0, 0, 0, 4])


def test_nothing_to_multiply():
    for x, i in ((np.ones(3), np.zeros(0, int)), (np.zeros((0, 2)), np.array([1, 1]))):
        u = np.ones((len(i), *x.shape[1:]), np.float32)
        assert not np.any(xjax.grad(lambda u: jnp.array(x, np.float32).at[i].multiply(u, mode="drop").sum())(u))


def test_a_promise_of_unique_indices_costs_no_sorting():
    def cost(u, unique):
        return lax.scatter_mul(jnp.ones(3), np.array([[0], [2]]), u, lax.ScatterDimensionNumbers((), (0,), (0,)),
                               unique_indices=unique).sum()
    for unique in (True, False):
        program = str(xjax.make_jaxpr(xjax.grad(lambda u: cost(u, unique)))(np.ones(2, np.float32)))
        assert ("sort[" in program) == (not unique)
