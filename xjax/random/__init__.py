"""Random numbers from explicit keys: the public namespace `xjax.random`.

A key is created once from a seed and split for every use. It gives the same numbers as in JAX, bit for bit.

    key = random.key(0)
    key, subkey = random.split(key)
    x = random.normal(subkey, (3,))
"""

from xjax.core.public import attributes_of
from xjax.random.continuous import cauchy, exponential, gumbel, laplace, logistic, normal, truncated_normal, uniform
from xjax.random.counts import binomial, multinomial, poisson
from xjax.random.discrete import bernoulli, categorical, rademacher, randint
from xjax.random.gamma import (
    ball,
    beta,
    chisquare,
    dirichlet,
    f,
    gamma,
    generalized_normal,
    loggamma,
    random_gamma_p,
    t,
)
from xjax.random.generators import bits
from xjax.random.keys import Key, PRNGKey, clone, fold_in, key, key_data, key_dtype, key_impl, split, wrap_key_data
from xjax.random.matrices import multivariate_normal, orthogonal
from xjax.random.permute import choice, permutation
from xjax.random.transformed import (
    double_sided_maxwell,
    geometric,
    lognormal,
    maxwell,
    pareto,
    rayleigh,
    triangular,
    wald,
    weibull_min,
)

__all__ = [
    "Key", "PRNGKey", "ball", "bernoulli", "beta", "binomial", "bits", "categorical", "cauchy", "chisquare", "choice",
    "clone", "dirichlet", "double_sided_maxwell", "exponential", "f", "fold_in", "gamma", "generalized_normal",
    "geometric", "gumbel", "key", "key_data", "key_dtype", "key_impl", "laplace", "loggamma", "logistic", "lognormal",
    "maxwell", "multinomial", "multivariate_normal", "normal", "orthogonal", "pareto", "permutation", "poisson",
    "rademacher", "randint", "random_gamma_p", "rayleigh", "split", "t", "triangular", "truncated_normal", "uniform",
    "wald", "weibull_min", "wrap_key_data"]

__getattr__ = attributes_of(__name__)
