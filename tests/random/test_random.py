"""Random numbers: laws that hold for every stream, and branches that no small stream reaches."""

import functools
import math

import numpy as np
import pytest
from scipy import special

import xjax
from tests.sampling import each_once
from xjax import random
from xjax.core.key_types import KEY_TYPES
from xjax.random import threefry


def test_wide_positions_equal_narrow_ones():
    with xjax.threefry_partitionable(True):
        high, low = threefry._wide_positions((3, 5, 2))
        np.testing.assert_array_equal(low, threefry._positions((3, 5, 2))[1])
        np.testing.assert_array_equal(high, np.zeros((3, 5, 2)))


def test_wide_positions_are_chosen_beyond_32_bits():
    program = str(xjax.make_jaxpr(lambda: threefry._positions((2**20, 2**13)))())
    assert "u64[1048576,8192]" in program


def test_wide_positions_do_not_need_64_bits_of_the_user(monkeypatch):
    shape = (7, 11, 3)  # a shape of no other test, since programs are cached
    with xjax.enable_x64(False):
        monkeypatch.setattr(threefry, "_WORDS", 6)
        wide = random.bits(random.key(3), shape)
        monkeypatch.undo()
        xjax.clear_caches()
        np.testing.assert_array_equal(wide, random.bits(random.key(3), shape))


def test_older_stream_takes_a_key_for_each_block(monkeypatch):
    monkeypatch.setattr(threefry, "_BLOCK", 6)
    key = random.PRNGKey(3)
    with xjax.threefry_partitionable(False):
        words, parts = xjax.jit(lambda key: (threefry._words_in_pairs(15, key), [
            threefry.encrypt_in_pairs(tuple(k), np.arange(n, dtype=np.uint32))
            for k, n in zip(random.split(key, 3), (6, 6, 3), strict=True)]))(key)
    np.testing.assert_array_equal(words, np.concatenate(parts))


@pytest.mark.parametrize(("name", "cdf"), [
    ("uniform", lambda x: x), ("exponential", lambda x: 1 - np.exp(-x)),
    ("normal", lambda x: 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))),
    ("gumbel", lambda x: np.exp(-np.exp(-x))), ("logistic", lambda x: 1 / (1 + np.exp(-x))),
    ("cauchy", lambda x: 0.5 + np.arctan(x) / np.pi),
    ("laplace", lambda x: np.where(x < 0, np.exp(np.minimum(x, 0)) / 2, 1 - np.exp(-np.maximum(x, 0)) / 2))])
def test_distribution(name, cdf):
    n = 20_000
    x = np.sort(np.asarray(getattr(random, name)(random.PRNGKey(5), (n,)), np.float64))
    distance = np.abs(cdf(x) - (np.arange(n) + 0.5) / n).max()
    assert distance < 1.95 / math.sqrt(n)               # Kolmogorov: exceeded once in 1000 streams


def test_parts_of_a_partitionable_stream_stand_for_themselves():
    key = random.PRNGKey(0)
    np.testing.assert_array_equal(random.bits(key, (4, 5))[:2], random.bits(key, (2, 5)))


def test_split_keys_differ():
    keys = np.asarray(random.split(random.PRNGKey(0), 1000))
    assert len(np.unique(keys, axis=0)) == 1000


def test_limits_are_kept():
    x = np.asarray(random.truncated_normal(random.PRNGKey(0), 0.5, 0.6, (10_000,)))
    assert (x > 0.5).all() and (x < 0.6).all()
    n = np.asarray(random.randint(random.PRNGKey(0), (10_000,), -3, 4))
    assert set(n) == set(range(-3, 4))


def test_permutation_keeps_the_elements():
    x = np.arange(12).reshape(3, 4)
    np.testing.assert_array_equal(np.sort(random.permutation(random.PRNGKey(0), x, 1, independent=True), 1), x)
    assert len(np.unique(random.choice(random.PRNGKey(1), 50, (40,), replace=False))) == 40


def test_words_are_their_own_data():
    words = random.PRNGKey(7)
    np.testing.assert_array_equal(random.key_data(words), words)
    assert random.clone(words) is words and random.key_impl(words) == "threefry2x32"


def test_negative_sizes_are_refused():
    for call in (lambda: random.normal(random.PRNGKey(0), (-1,)), lambda: random.split(random.PRNGKey(0), -1)):
        with pytest.raises(ValueError, match="fix: pass "):
            call()


CDFS = {
    "gamma": (lambda k, n: random.gamma(k, 0.6, n), lambda x: special.gammainc(0.6, x)),
    "gamma 7": (lambda k, n: random.gamma(k, 7.0, n), lambda x: special.gammainc(7.0, x)),
    "beta": (lambda k, n: random.beta(k, 0.5, 3.0, n), lambda x: special.betainc(0.5, 3.0, x)),
    "t": (lambda k, n: random.t(k, 4.0, n), lambda x: special.stdtr(4.0, x)),
    "f": (lambda k, n: random.f(k, 5.0, 8.0, n), lambda x: special.fdtr(5.0, 8.0, x)),
    "wald": (lambda k, n: random.wald(k, 2.0, n), lambda x: special.ndtr((x / 2 - 1) / np.sqrt(x))
             + np.exp(1.0) * special.ndtr(-(x / 2 + 1) / np.sqrt(x))),
    "pareto": (lambda k, n: random.pareto(k, 3.0, n), lambda x: 1 - x ** -3),
    "rayleigh": (lambda k, n: random.rayleigh(k, 2.0, n), lambda x: 1 - np.exp(-x * x / 8)),
    "maxwell": (lambda k, n: random.maxwell(k, n), lambda x: special.gammainc(1.5, x * x / 2)),
    "triangular": (lambda k, n: random.triangular(k, 0.0, 1.0, 1.0, n), lambda x: x * x),
    "weibull_min": (lambda k, n: random.weibull_min(k, 2.0, 1.5, n), lambda x: 1 - np.exp(-((x / 2) ** 1.5))),
    "generalized_normal": (lambda k, n: abs(random.generalized_normal(k, 3.0, n)),
                           lambda x: special.gammainc(1 / 3, x ** 3)),
    "lognormal": (lambda k, n: random.lognormal(k, 0.5, n), lambda x: special.ndtr(np.log(x) / 0.5)),
}


@functools.cache
def drawn_together(n):
    """n numbers of each distribution, in one program, which contains the generator once."""
    return xjax.jit(lambda key: {name: draw(key, (n,)) for name, (draw, _) in CDFS.items()})(random.PRNGKey(5))


@pytest.mark.parametrize("name", CDFS)
def test_distribution_with_parameters(name):
    n, (_, cdf) = 4000, CDFS[name]
    x = np.sort(np.asarray(drawn_together(n)[name], np.float64))
    assert np.abs(cdf(x) - (np.arange(n) + 0.5) / n).max() < 1.95 / math.sqrt(n)


COUNTS = {
    "poisson 3": (lambda k, n: random.poisson(k, 3.0, n), lambda i: special.pdtr(i, 3.0)),
    "poisson 50": (lambda k, n: random.poisson(k, 50.0, n), lambda i: special.pdtr(i, 50.0)),
    "binomial 9": (lambda k, n: random.binomial(k, 9, 0.7, n), lambda i: special.bdtr(i, 9, 0.7)),
    "binomial 900": (lambda k, n: random.binomial(k, 900, 0.1, n), lambda i: special.bdtr(i, 900, 0.1)),
    "geometric": (lambda k, n: random.geometric(k, 0.2, n), lambda i: 1 - 0.8 ** i),
}


@pytest.mark.parametrize(("name", "impl"), each_once(COUNTS, KEY_TYPES))
def test_counts(name, impl):
    n = 4000
    draw, cdf = COUNTS[name]
    x = np.asarray(draw(random.key(5, impl=impl), (n,)), np.float64)
    for i in np.unique(x)[:-1]:
        assert abs(np.mean(x <= i) - cdf(i)) < 1.95 / math.sqrt(n)


def test_vectors():
    shapes, cov = ((3, 3), (2, 4), (4, 2)), np.float32([[2, 0.5], [0.5, 1]])
    counts, shares, inside, *bases, x = map(np.asarray, xjax.jit(lambda key: [
        random.multinomial(key, 50, np.float32([0.2, 0.5, 0.3]), shape=(9,)),
        random.dirichlet(key, np.float32([0.1, 1, 9]), (5,)), random.ball(key, 4, 2, (500,)),
        *[random.orthogonal(key, n, m=m) for n, m in shapes],
        random.multivariate_normal(key, np.float32([1, -1]), cov, (20_000,))])(random.PRNGKey(3)))
    assert (counts.sum(-1) == 50).all() and (counts >= 0).all()
    np.testing.assert_allclose(shares.sum(-1), 1, rtol=1e-6)
    assert (np.linalg.norm(inside, axis=-1) <= 1 + 1e-6).all()
    for shape, q in zip(shapes, bases, strict=True):
        square = q @ q.T if shape[0] < shape[1] else q.T @ q
        np.testing.assert_allclose(square, np.eye(min(shape)), atol=1e-6)
    np.testing.assert_allclose(x.mean(0), [1, -1], atol=0.05)
    np.testing.assert_allclose(np.cov(x.T), cov, atol=0.08)


def test_endless_trials():
    """Infinitely many trials give infinitely many successes; also for p = 0 and -0, where JAX never returns."""
    n, p = np.float32([np.inf, np.inf, 5, 5, 0]), np.float32([0.5, 0, 1, -0.0, -0.0])
    np.testing.assert_array_equal(random.binomial(random.PRNGKey(0), n, p), [np.inf, np.inf, 5, 0, 0])


@pytest.mark.parametrize("dtype", [np.int8, np.int32])
def test_means_that_counts_do_not_reach(dtype):
    """A count beyond the dtype or of infinite mean is the largest number; an undefined mean gives the count -1."""
    largest = np.iinfo(dtype).max
    means = {np.inf: largest, 3e38: largest, 1e20: largest, 3e9: largest, 0.0: 0, 1e-40: 0, np.nan: -1,
             -1.0: -1, -20.0: -1, -np.inf: -1}
    draws = random.poisson(random.PRNGKey(0), np.float32([*means])[:, None], (len(means), 9), dtype)
    np.testing.assert_array_equal(draws, np.repeat([*means.values()], 9).reshape(-1, 9))


def test_wider_parameters_are_refused():
    with pytest.raises(ValueError, match="fix: pass dtype='float32'"):
        random.beta(random.PRNGKey(0), np.ones(3, np.float32), 1.0, dtype="float16")
