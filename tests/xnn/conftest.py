"""xnn is tested under strict promotion: no dtype may change implicitly."""

import numpy as np
import pytest

import xjax
from xjax import random


@pytest.fixture(autouse=True)
def strict_promotion():
    with xjax.numpy_dtype_promotion("strict"), xjax.numpy_rank_promotion("raise"):
        yield


@pytest.fixture
def key():
    return random.PRNGKey(0)


@pytest.fixture
def npr():
    return np.random.default_rng(0)
