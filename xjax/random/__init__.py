"""Random numbers from explicit keys: the public namespace `xjax.random`.

A key is made once from a seed, split for every use, and gives the same numbers as JAX's, bit for bit.

    key = random.PRNGKey(0)
    key, subkey = random.split(key)
    x = random.normal(subkey, (3,))
"""

from xjax.random.continuous import cauchy, exponential, gumbel, laplace, logistic, normal, truncated_normal, uniform
from xjax.random.discrete import bernoulli, categorical, rademacher, randint
from xjax.random.keys import PRNGKey, clone, fold_in, key, key_data, key_impl, split, wrap_key_data
from xjax.random.permute import choice, permutation
from xjax.random.threefry import bits

__all__ = [
    "PRNGKey", "bernoulli", "bits", "categorical", "cauchy", "choice", "clone", "exponential", "fold_in",
    "gumbel", "key", "key_data", "key_impl", "laplace", "logistic", "normal", "permutation", "rademacher",
    "randint", "split", "truncated_normal", "uniform", "wrap_key_data"]
