"""Random numbers: laws that hold whatever the stream, and the parts that no small stream reaches."""

import math

import numpy as np
import pytest

import xjax
from xjax import random
from xjax.random import threefry


def test_wide_positions_equal_narrow_ones():
    with xjax.threefry_partitionable(True):
        high, low = threefry._wide_positions((3, 5, 2))
        np.testing.assert_array_equal(low, threefry._positions((3, 5, 2))[1])
        np.testing.assert_array_equal(high, np.zeros((3, 5, 2)))


def test_wide_positions_are_chosen_beyond_32_bits():
    program = str(xjax.make_jaxpr(lambda: threefry._positions((2**20, 2**13)))())
    assert "u64[1048576,8192]" in program


def test_older_stream_takes_a_key_for_each_block(monkeypatch):
    monkeypatch.setattr(threefry, "_BLOCK", 6)
    key = random.PRNGKey(3)
    with xjax.threefry_partitionable(False):
        words = np.asarray(threefry._words_in_pairs(15, key))
        keys = random.split(key, 3)
        parts = [threefry.encrypt_in_pairs(tuple(np.asarray(k)), np.arange(n, dtype=np.uint32))
                 for k, n in zip(keys, (6, 6, 3), strict=True)]
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


def test_raw_keys_are_their_own_data():
    key = random.PRNGKey(7)
    assert random.key_data(key) is key and random.wrap_key_data(key) is key and random.clone(key) is key
    assert random.key_impl(key) == "threefry2x32"


def test_negative_sizes_are_refused():
    for call in (lambda: random.normal(random.PRNGKey(0), (-1,)), lambda: random.split(random.PRNGKey(0), -1)):
        with pytest.raises(ValueError, match="fix: pass "):
            call()
