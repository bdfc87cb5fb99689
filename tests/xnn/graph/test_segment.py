"""Segment reductions: against loops in NumPy, derivatives against differences, rows excluded by masks and ids."""

import functools
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import xjax
import xjax.numpy as jnp
from tests.ops import test_extrema_compiled as compiled
from tests.refusals import assert_refused
from tests.sampling import each_once, one_in
from xnn import CSR
from xnn import graph as xg
from xnn.sparse.rows import make_rows

N = 5
IDS = np.array([3, 0, 0, 3, 3, 1, 7, -1, 0, 1], np.int32)  # segments 2 and 4 are empty; two ids belong to no segment
ROWS = np.random.default_rng(0).normal(size=(10, 3))
MASK = np.array([1, 1, 0, 1, 0, 0, 1, 1, 1, 0], bool)               # segment 1 has no unmasked row


def softmax(rows):
    grown = np.exp(rows - rows.max(0))
    return grown / grown.sum(0)


REDUCE = {"sum": lambda r: r.sum(0), "mean": lambda r: r.mean(0), "max": lambda r: r.max(0), "min": lambda r: r.min(0),
          "prod": lambda r: r.prod(0), "std": lambda r: r.std(0)}
REDUCTIONS = {name: getattr(xg, f"segment_{name}") for name in REDUCE}
ALL = {**REDUCTIONS, "softmax": xg.segment_softmax}


def looped(name, x, ids, mask=None, n=N):
    """The unmasked rows of each segment, reduced in float64; softmax returns them in their places."""
    x = np.asarray(x, np.float64)
    mask = np.ones(len(x), bool) if mask is None else mask
    out = np.zeros(x.shape if name == "softmax" else (n, *x.shape[1:]))
    for i in range(n):
        rows = np.flatnonzero((ids == i) & mask)
        if len(rows) and name == "softmax":
            out[rows] = softmax(x[rows])
        elif len(rows):
            out[i] = REDUCE[name](x[rows])
    return out


def in_fast_set(dtype, masked, is_sorted):
    """Whether a case is fast: some masked, some sorted, with float32 and with bfloat16."""
    return dtype != np.float16 and (dtype == np.float32) == (masked == is_sorted)


CASES = [pytest.param(*case, marks=[] if in_fast_set(*case) else [pytest.mark.slow])
         for case in itertools.product([np.float32, jnp.bfloat16, np.float16], [False, True], [False, True])]


@functools.cache
def reduced(name, dtype, alike):
    """(masked, sorted) -> (the result, its arguments x, ids, mask), both equal or both different; in one program."""
    given = {}
    for masked in (False, True):
        is_sorted = masked == alike
        at = np.argsort(IDS) if is_sorted else np.arange(10)
        given[masked, is_sorted] = np.asarray(ROWS, dtype)[at], IDS[at], MASK[at] if masked else None
    compute = xjax.jit(lambda given: {case: ALL[name](x, ids, N, mask=mask, is_sorted=case[1])
                                      for case, (x, ids, mask) in given.items()})
    return {case: (y, *given[case]) for case, y in compute(given).items()}


@pytest.mark.parametrize(("dtype", "masked", "is_sorted"), CASES)
@pytest.mark.parametrize("name", ALL)
def test_values(name, dtype, masked, is_sorted):
    got, *arguments = reduced(name, dtype, masked == is_sorted)[masked, is_sorted]
    assert got.dtype == dtype
    # Up to three roundings of numbers below 3; the std of a narrow type squares rounded numbers.
    np.testing.assert_allclose(np.asarray(got, np.float64), looped(name, *arguments),
                               rtol=4 * float(jnp.finfo(dtype).eps), atol=8 * float(jnp.finfo(dtype).eps))


@pytest.mark.parametrize("name", one_in(3, ALL))
def test_eager_and_compiled_agree(name):
    y, x, ids, mask = reduced(name, np.float32, True)[True, True]
    np.testing.assert_allclose(ALL[name](x, ids, N, mask=mask, is_sorted=True), y, rtol=1e-6, atol=1e-6)


@functools.cache
def compiled_for(name):
    return xjax.jit(lambda x, ids, mask: ALL[name](x, ids, N, mask=mask))


@settings(deadline=None, max_examples=30)
@given(st.data(), st.sampled_from(sorted(ALL)))
def test_any_rows_and_ids(data, name):
    x = data.draw(arrays.arrays(np.float32, st.just((9, 2)), elements=st.floats(-3, 3, width=16)))
    ids = data.draw(arrays.arrays(np.int32, 9, elements=st.integers(-2, N + 2)))
    mask = data.draw(st.none() | arrays.arrays(bool, 9))
    got = compiled_for(name)(x, ids, mask)
    want = looped(name, x, ids, mask)
    if name == "std":                                               # a variance up to epsilon counts as 0
        want = np.where(want**2 > 1e-5, want, 0)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 if name != "std" else 4e-3)


@pytest.mark.parametrize("dtype", [np.int32, pytest.param(np.int8, marks=pytest.mark.slow), np.uint8])
@pytest.mark.parametrize("name", REDUCE)
def test_integers(name, dtype):
    x = np.random.default_rng(1).integers(1, 5, (10, 2)).astype(dtype)
    extreme = np.array([np.iinfo(dtype).min, np.iinfo(dtype).max], dtype)
    got, of_extreme = xjax.jit(lambda x, extreme: (
        REDUCTIONS[name](x, IDS, N, mask=MASK), REDUCTIONS[name](extreme, np.array([0, 1]), 3)))(x, extreme)
    assert got.dtype == (np.float32 if name in ("mean", "std") else dtype)
    np.testing.assert_allclose(got, looped(name, x, IDS, MASK), rtol=1e-6)
    if name in ("max", "min"):
        np.testing.assert_array_equal(of_extreme, [*extreme, 0])


def test_counts():
    assert xg.segment_count(IDS, N).tolist() == [3, 2, 0, 3, 0]
    assert xg.segment_count(IDS, N, mask=MASK, dtype=jnp.bfloat16).tolist() == [2, 0, 0, 2, 0]
    assert xg.segment_count(np.zeros(1000, np.int32), 1, dtype=jnp.bfloat16).tolist() == [1000]
    assert xg.segment_count(np.zeros(300, np.uint8), 300)[0] == 300


def test_long_sums_of_narrow_types():
    """In bfloat16 a sum of ones would stop at 256, in int8 at 127."""
    ids = np.zeros(1000, np.int32)
    ones, hundreds = np.ones(1000, jnp.bfloat16), np.full(1000, 100, np.int8)
    total, mean, shares, of_hundreds = xjax.jit(lambda ones, hundreds: (
        xg.segment_sum(ones, ids, 1), xg.segment_mean(ones, ids, 1), xg.segment_softmax(ones, ids, 1).sum(),
        xg.segment_mean(hundreds, ids, 1)))(ones, hundreds)
    assert total.tolist() == [1000] and mean.tolist() == [1] and of_hundreds.tolist() == [100]
    assert float(shares) == pytest.approx(1, rel=0.01)


@pytest.mark.parametrize("form", ["ids", "masked", "rows"])
@pytest.mark.parametrize("scale", [1, 1e3, 3e38])
def test_softmax_with_a_score_of_the_segment_itself(form, scale):
    """One more row for each segment, of any size: also where the segment has no other row, or only smaller ones."""
    ids, n = np.array([0, 0, 1, 4, 4, 4], np.int32), 6
    scores = np.float32([0.3, -0.2, -0.9, 0.5, 0.1, -0.4]) * np.float32(scale)
    own = np.float32([-0.9, -0.1, -0.8, 0.7, -1, 0]) * np.float32(scale)
    mask = np.arange(6) != 2 if form == "masked" else np.ones(6, bool)
    more = {"ids": {}, "masked": {"mask": mask},
            "rows": {"is_sorted": True, "rows": make_rows(np.searchsorted(ids, np.arange(n + 1)), np.arange(6))}}[form]
    weigh = xjax.jit(lambda scores, own: xg.segment_softmax(scores, ids, n, own, **more))
    weights, of_own = weigh(scores, own)
    for i in range(n):
        rows = np.flatnonzero((ids == i) & mask)
        want = softmax(np.float64([*scores[rows], own[i]])[:, None])[:, 0]
        np.testing.assert_allclose([*np.asarray(weights)[rows], of_own[i]], want, rtol=1e-5, atol=1e-30)
    slope = xjax.grad(lambda scores, own: weigh(scores, own)[1].sum(), (0, 1))(scores, own)
    assert all(np.isfinite(each).all() for each in slope) and slope[1][2] == 0


@pytest.mark.parametrize("name", ALL)
def test_no_rows_and_no_segments(name):
    x, ids = np.ones((2, 2), np.float32), np.zeros(2, np.int32)
    no_rows, no_segments = xjax.jit(lambda x, ids: (ALL[name](x[:0], ids[:0], 3), ALL[name](x, ids, 0)))(x, ids)
    assert no_rows.tolist() == ([] if name == "softmax" else [[0, 0]] * 3)
    assert no_segments.shape == ((2, 2) if name == "softmax" else (0, 2))


@pytest.mark.parametrize("name", ALL)
def test_what_does_not_count_changes_nothing(name):
    """NaN and infinity in masked rows and in rows of no segment do not change values and gradients; their own are 0."""
    out = ~MASK | (IDS < 0) | (IDS >= N)
    clean = np.where(out[:, None], 0.5, ROWS).astype(np.float32)
    loss = xjax.jit(xjax.value_and_grad(lambda x: (ALL[name](x, IDS, N, mask=MASK) ** 2).sum()))
    want, want_grad = loss(clean)
    for fill in (np.nan, np.inf, -np.inf, 1e38):
        got, grad = loss(np.where(out[:, None], fill, ROWS).astype(np.float32))
        assert got == want
        np.testing.assert_array_equal(grad, want_grad)
    assert not np.asarray(want_grad)[out].any()


@pytest.mark.parametrize("name", ALL)
def test_nan_stays_in_its_segment(name):
    x = ROWS.astype(np.float32).copy()
    x[1] = np.nan

    def total(x):
        y = ALL[name](x, IDS, N)
        return jnp.nansum(y), y

    grad, got = map(np.asarray, xjax.jit(xjax.grad(total, has_aux=True))(x))
    want = looped(name, ROWS, IDS)
    own = IDS == 0 if name == "softmax" else np.arange(N) == 0
    assert np.isnan(got[own]).all()
    np.testing.assert_allclose(got[~own], want[~own], rtol=1e-5)
    assert np.isfinite(grad[IDS != 0]).all()


@pytest.mark.parametrize("mask", [pytest.param(None, marks=pytest.mark.slow), MASK], ids=["all", "masked"])
@pytest.mark.parametrize("name", ALL)
def test_derivatives(name, mask):
    """In float64: forward mode against differences, reverse against forward, second order against differences."""
    with xjax.enable_x64(True):
        f = lambda x: jnp.sin(ALL[name](x, IDS, N, mask=mask)).sum()
        step = np.random.default_rng(2).normal(size=ROWS.shape)
        derivatives = xjax.jit(lambda x: (xjax.jvp(f, (x,), (step,)), xjax.jvp(xjax.grad(f), (x,), (step,))))
        ((_, slope), (grad, curve)), *moved = (derivatives(ROWS + 1e-6 * sign * step) for sign in (0, 1, -1))
        (y, grads), (y_back, grads_back) = (tuple(np.asarray(values) for values, _ in pair) for pair in moved)
        np.testing.assert_allclose(slope, (y - y_back) / 2e-6, rtol=1e-7, atol=1e-8)
        np.testing.assert_allclose(np.sum(grad * step), slope, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(curve, (grads - grads_back) / 2e-6, rtol=1e-6, atol=1e-7)


def test_equal_rows_share_the_gradient_of_the_largest():
    x, ids = np.array([2, 2, 1, 5, -1], np.float32), np.array([0, 0, 0, 1, 1])
    largest, smallest, pushed = xjax.jit(lambda x: (
        xjax.grad(lambda x: xg.segment_max(x, ids, 3).sum())(x),
        xjax.grad(lambda x: xg.segment_min(x, ids, 3).sum())(x),
        xjax.jvp(lambda x: xg.segment_max(x, ids, 3), (x,), (jnp.arange(5.0),))[1]))(x)
    assert largest.tolist() == [0.5, 0.5, 0, 1, 0] and smallest.tolist() == [0, 0, 1, 0, 1]
    assert pushed.tolist() == [0.5, 3, 0]


def test_all_derivatives_of_products_exist_at_zeros():
    with xjax.enable_x64(True):
        ids = np.zeros(3, np.int32)
        product = lambda x: xg.segment_prod(x, ids, 1)[0]
        both = xjax.jit(lambda x: (xjax.grad(product)(x), xjax.hessian(product)(x)))
        for x in ([2.0, 3, 5], [0.0, 3, 5], [0.0, 3, 0], [0.0, 0, 0]):
            a, b, c = x
            grad, hessian = both(np.array(x))
            np.testing.assert_array_equal(grad, [b * c, a * c, a * b])
            np.testing.assert_array_equal(hessian, [[0, c, b], [c, 0, a], [b, a, 0]])


def test_an_infinite_product_does_not_reach_the_gradient_of_another():
    x, ids = np.array([1e30, 1e30, 2, 0], np.float32), np.array([0, 0, 1, 1], np.int32)
    grad = xjax.jit(xjax.grad(lambda x: xg.segment_prod(x, ids, 2)[1]))(x)
    assert grad.tolist() == [0, 0, 0, 2]


def test_std_of_equal_rows_has_no_gradient():
    x = np.array([2, 2, 5], np.float32)
    value, grad = xjax.jit(xjax.value_and_grad(lambda x: xg.segment_std(x, np.array([0, 0, 1]), 2).sum()))(x)
    assert value == 0 and grad.tolist() == [0, 0, 0]


@pytest.mark.parametrize("name", ALL)
def test_vmap(name):
    x = np.random.default_rng(3).normal(size=(4, 10, 2)).astype(np.float32)
    ids = np.random.default_rng(4).integers(-1, N + 1, (4, 10)).astype(np.int32)
    mask = np.random.default_rng(5).random((4, 10)) < 0.7
    got, shared = xjax.jit(xjax.vmap(lambda x, ids, mask: (ALL[name](x, ids, N, mask=mask), ALL[name](x, IDS, N))))(
        x, ids, mask)
    for i in range(4):
        np.testing.assert_allclose(got[i], looped(name, x[i], ids[i], mask[i]), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(shared[i], looped(name, x[i], IDS), rtol=1e-5, atol=1e-6)


def best(x, ids, n, k, mask):
    """Positions of the k largest of each segment: equal ones in order, NaN first."""
    chosen = []
    for i in range(n):
        rows = [r for r in range(len(x)) if ids[r] == i and mask[r]]
        chosen.append(sorted(rows, key=lambda r: (not np.isnan(x[r]), -x[r] if not np.isnan(x[r]) else 0, r))[:k])
    return chosen


@functools.cache
def top(k):
    return xjax.jit(lambda x, ids, mask: xg.segment_top_k(x, ids, 4, k, mask=mask))


@settings(deadline=None, max_examples=30)
@given(st.data(), st.sampled_from([0, 1, 2, 3, 6]))
def test_top_k(data, k):
    x = data.draw(arrays.arrays(np.float32, 9, elements=st.sampled_from([-1.0, 0.0, 2.0, 2.5, np.inf, np.nan])))
    ids = data.draw(arrays.arrays(np.int32, 9, elements=st.integers(-1, 4)))
    mask = data.draw(arrays.arrays(bool, 9))
    places, exists = top(k)(x, ids, mask)
    assert places.shape == exists.shape == (4, k) and not np.asarray(places)[~np.asarray(exists)].any()
    assert [np.asarray(row)[there].tolist() for row, there in zip(places, np.asarray(exists), strict=True)] == best(
        x, ids, 4, k, mask)


@pytest.mark.parametrize("dtype", [np.int32, np.uint8])
def test_top_k_of_integers(dtype):
    x = np.array([np.iinfo(dtype).min, 3, np.iinfo(dtype).max, 3], dtype)
    (of_four, _), (places, exists) = xjax.jit(lambda x: (
        xg.segment_top_k(x, np.zeros(4, np.int32), 1, 4), xg.segment_top_k(x[:0], np.zeros(0, np.int32), 1, 2)))(x)
    assert of_four.tolist() == [[2, 1, 3, 0]]
    assert places.tolist() == [[0, 0]] and not np.asarray(exists).any()


X, IDS0 = jnp.ones((3, 2)), jnp.zeros(3, np.int32)
WRONG = {
    "fewer ids": (lambda: xg.segment_sum(X, IDS0[:2], 2), TypeError, ["segment_sum", "f32[3,2]", "i32[2]"]),
    "ids of floats": (lambda: xg.segment_max(X, X[:, 0], 2), TypeError, ["segment_max", "one segment id for each row"]),
    "ids with two axes": (lambda: xg.segment_mean(X, IDS0[:, None], 2), TypeError, ["segment_mean"]),
    "a scalar": (lambda: xg.segment_prod(jnp.float32(1), IDS0, 2), TypeError, ["segment_prod"]),
    "mask of numbers": (lambda: xg.segment_std(X, IDS0, 2, mask=IDS0), TypeError, ["segment_std", "mask"]),
    "longer mask": (lambda: xg.segment_softmax(X, IDS0, 2, mask=np.ones(4, bool)), TypeError, ["mask", "bool[4]"]),
    "bools": (lambda: xg.segment_sum(X > 0, IDS0, 2), TypeError, ["segment_sum", "needs numbers", "astype"]),
    "softmax of integers": (lambda: xg.segment_softmax(IDS0, IDS0, 2), TypeError, ["floating-point", "i32[3]"]),
    "count of floats": (lambda: xg.segment_count(X[:, 0], 2), TypeError, ["segment_count"]),
    "number of segments": (lambda: xg.segment_sum(X, IDS0, 2.5), TypeError, ["num_segments"]),
    "top k of rows": (lambda: xg.segment_top_k(X, IDS0, 2, 1), TypeError, ["segment_top_k", "one value"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_bad_input(name):
    assert_refused(*WRONG[name])


# -- compiled extrema, of values that XLA recomputes in comparisons ----------------------------------------------------

OF_TWENTY = np.random.default_rng(6).integers(0, N, compiled.N)
NEIGHBOURS = CSR.from_dense((np.arange(N)[:, None] == OF_TWENTY).astype(np.float32))
EXTREMA = {
    "segment_max": lambda x: xg.segment_max(x, OF_TWENTY, N),
    "segment_min": lambda x: xg.segment_min(x, OF_TWENTY, N),
    **{f"product, {form}": lambda x, form=form: NEIGHBOURS.tune(form=form).product(x, "max")
       for form in ("unrolled", "segments")}}


@pytest.mark.parametrize(("name", "convolution"), each_once(EXTREMA, compiled.CONVOLUTIONS))
def test_gradients_of_extrema_compiled_and_eager_agree(name, convolution):
    compiled.assert_compiled_as_eager(lambda x, y: EXTREMA[name](x), compiled.CONVOLUTIONS[convolution])
