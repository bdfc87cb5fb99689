"""Sums of many half-precision numbers: results in float16's range are correct though partial sums exceed 65,504."""

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from xjax import nn

N = 2 ** 17
ONES = np.full(N, 1.5, np.float16)
SIGNS = np.where(np.arange(N) % 2, -3, 3).astype(np.float16)
LARGE = np.where(np.arange(8) % 2, -300, 300).astype(np.float16)         # squares above 65,504
MASK = np.arange(N) > 0

# name -> (function, argument, result in exact arithmetic)
ROWS = {
    "logsumexp": (nn.logsumexp, ONES, 1.5 + np.log(N)),
    "logsumexp, weights": (lambda x: nn.logsumexp(x, b=x), ONES, 1.5 + np.log(1.5 * N)),
    "logmeanexp": (nn.logmeanexp, ONES, 1.5),
    "softmax": (lambda x: nn.softmax(x)[0], ONES, 1 / N),
    "softmax, where": (lambda x: nn.softmax(x, where=MASK)[1], ONES, 1 / (N - 1)),
    "log_softmax": (lambda x: nn.log_softmax(x)[0], ONES, -np.log(N)),
    "mean": (jnp.mean, ONES, 1.5), "var": (jnp.var, SIGNS, 9), "std": (jnp.std, LARGE, 300),
    "cov": (jnp.cov, SIGNS, 9),
    "norm": (jnp.linalg.norm, ONES, 1.5 * np.sqrt(N)), "norm of large": (jnp.linalg.norm, LARGE, 300 * np.sqrt(8)),
    "norm 3": (lambda x: jnp.linalg.norm(x, 3), ONES, 1.5 * N ** (1 / 3)),
    "vector_norm": (jnp.linalg.vector_norm, LARGE, 300 * np.sqrt(8)),
    "matrix_norm": (lambda x: jnp.linalg.matrix_norm(x.reshape(2, 4)), LARGE, 300 * np.sqrt(8)),
    "standardize": (lambda x: nn.standardize(x)[1], LARGE, -1),
    "corrcoef": (lambda x: jnp.corrcoef(x, x / 64)[0, 1], LARGE, 1),
    "slope of logsumexp": (lambda x: xjax.grad(nn.logsumexp)(x)[1], ONES, 1 / N),
    "slope of log_softmax": (lambda x: xjax.grad(lambda x: nn.log_softmax(x)[0])(x)[1], ONES, -1 / N),
    "slope of norm": (lambda x: xjax.grad(jnp.linalg.norm)(x)[0], ONES, 1 / np.sqrt(N)),
    "slope of std": (lambda x: xjax.grad(jnp.std)(x)[0], SIGNS, 1 / N),
}


@pytest.mark.parametrize("name", ROWS)
def test_results_in_range_of_float16(name):
    """Correct up to the last two of 10 bits; results below 6.1e-5 are multiples of 6e-8, and 1 / N is one exactly."""
    function, x, want = ROWS[name]
    result = xjax.jit(function)(x)
    assert result.dtype == np.float16
    np.testing.assert_allclose(float(result), want, rtol=2 ** -9)


def test_bfloat16_keeps_its_range_and_gains_its_digits():
    x = jnp.full(N, 1.5, jnp.bfloat16)
    for function, want in ((nn.logsumexp, 1.5 + np.log(N)), (jnp.linalg.norm, 1.5 * np.sqrt(N))):
        result = function(x)
        assert result.dtype == jnp.bfloat16
        np.testing.assert_allclose(float(result), want, rtol=2 ** -8)


@pytest.mark.parametrize("a", [[0.0, 0.0], [1.0, 3.0], [2.0, np.inf], [2.0, np.nan], [-np.inf, 0.0], [0.0, 200.0]])
def test_slopes_by_weights_that_are_zero(a):
    """The slope of ``log(b0 exp(a0) + b1 exp(a1))`` by b is ``exp(a) / sum``. At b1 = 0 the value is that of one term.
    Where exp(a1) overflows, the slope by b1 is the largest finite number or infinite, not NaN."""
    a = np.array(a, np.float32)
    b = np.float32([1, 0])
    assert float(nn.logsumexp(a, b=b)) == a[0]
    da, db = xjax.grad(lambda a, b: nn.logsumexp(a, b=b), (0, 1))(a, b)
    if np.isfinite(a).all() and a[1] < 80:
        np.testing.assert_allclose(da, [1, 0])
        np.testing.assert_allclose(db, np.exp(a - a[0]), rtol=1e-6)
    assert not np.isnan(db[1])


@pytest.mark.parametrize("b", [[0.0, 0.0, 0.0], [1.0, -1.0, 0.0]])
def test_slopes_of_weighted_sums_that_are_zero(b):
    """The logarithm is -inf. A term whose weight is 0 does not change it; its weight would."""
    b = np.float32(b)
    da, db = xjax.grad(lambda a, b: nn.logsumexp(a, b=b, return_sign=True)[0], (0, 1))(np.zeros(3, np.float32), b)
    np.testing.assert_array_equal(da, [np.inf * x if x else 0 for x in b])
    np.testing.assert_array_equal(db, np.inf)
