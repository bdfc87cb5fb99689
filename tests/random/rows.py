"""The draws in the tests of random streams: name -> function of (random, key).

The same rows are compared with real JAX (`test_as_jax.py`) and with its recorded numbers (`golden.json`).
"""

import numpy as np

from tests.oracle import holds

SIZES = np.array([0.05, 0.7, 1.0, 3.5, 40.0], np.float32)      # parameters of shape, mean, rate ...
COVARIANCE = np.array([[2.0, 0.5], [0.5, 1.0]], np.float32)
LOGITS = np.linspace(-2, 2, 20, dtype=np.float32).reshape(4, 5)
WEIGHTS = np.linspace(0.1, 1, 50, dtype=np.float32)

SHAPES = ((), (0,), (7,), (2, 3), (3, 0, 2), (1001,))
FLOATS = ("uniform", "normal", "exponential", "gumbel", "laplace", "logistic", "cauchy")


def _sampler(name, shape, dtype=None):
    return lambda random, key: getattr(random, name)(key, shape, dtype)


def _counts_of_4(random, n):
    """The shape of n draws of `multinomial`; before JAX 0.12 it includes the axis of outcomes."""
    return (n, 4) if random.__name__ == "jax.random" and holds(until="0.12") else (n,)


ROWS = {
    **{f"{name}{shape}": _sampler(name, shape) for name in ("uniform", "normal") for shape in SHAPES},
    **{f"{name}": _sampler(name, (1001,)) for name in FLOATS},
    **{f"{name} {dtype}": _sampler(name, (301,), dtype) for name in ("uniform", "normal", "gumbel", "logistic")
       for dtype in ("bfloat16", "float16")},
    **{f"uniform {dtype}": _sampler("uniform", (301,), dtype) for dtype in ("float8_e4m3fn", "float8_e5m2")},
    **{f"bits {dtype}{shape}": _sampler("bits", shape, dtype) for dtype in ("uint8", "uint16", "uint32", "uint64")
       for shape in ((), (7,), (3, 5))},
    **{f"split{shape}": (lambda random, key, shape=shape: random.split(key, shape))
       for shape in (0, 1, 2, 5, (), (2, 3), (0, 2))},
    **{f"randint {dtype}": (lambda random, key, dtype=dtype: random.randint(key, (301,), -7, 100, dtype))
       for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")},
    "fold_in": lambda random, key: random.fold_in(key, 2**32 - 1),
    "fold_in array": lambda random, key: random.fold_in(key, np.int64(-5)),
    "uniform limits": lambda random, key: random.uniform(
        key, (4, 5), minval=LOGITS[:, :1], maxval=np.float32(9)),
    "uniform row": lambda random, key: random.uniform(key, (4, 5), None, LOGITS[0], 3.3),
    "normal complex": lambda random, key: random.normal(key, (301,), complex),
    "randint all": lambda random, key: random.randint(key, (301,), 0, 2**31 - 1),
    "randint 256": lambda random, key: random.randint(key, (301,), 0, 256, "uint8"),
    "randint empty range": lambda random, key: random.randint(key, (7,), 5, 5),
    "randint limits": lambda random, key: random.randint(key, (4, 5), np.arange(4)[:, None], np.arange(5) * 3),
    "truncated_normal": lambda random, key: random.truncated_normal(key, -2.0, 2.0, (301,)),
    "truncated_normal rows": lambda random, key: random.truncated_normal(key, LOGITS, 2.5),
    "truncated_normal bfloat16": lambda random, key: random.truncated_normal(key, -2, 1, (301,), "bfloat16"),
    "gumbel high": lambda random, key: random.gumbel(key, (301,), mode="high"),
    "bernoulli": lambda random, key: random.bernoulli(key, 0.3, (301,)),
    "bernoulli half": lambda random, key: random.bernoulli(key),
    "bernoulli rows": lambda random, key: random.bernoulli(key, np.linspace(0, 1, 7, dtype=np.float32), (5, 7)),
    "bernoulli high": lambda random, key: random.bernoulli(key, 0.3, (301,), mode="high"),
    "rademacher": _sampler("rademacher", (301,)),
    "rademacher float": _sampler("rademacher", (7,), "float32"),
    "categorical": lambda random, key: random.categorical(key, LOGITS),
    "categorical axis": lambda random, key: random.categorical(key, LOGITS, axis=0),
    "categorical shape": lambda random, key: random.categorical(key, LOGITS, shape=(6, 4)),
    "categorical without replacement": lambda random, key: random.categorical(
        key, LOGITS, shape=(3, 4), replace=False),
    "permutation": lambda random, key: random.permutation(key, 7),
    "permutation 3000": lambda random, key: random.permutation(key, 3000),
    "permutation rows": lambda random, key: random.permutation(key, LOGITS, 1),
    "permutation independent": lambda random, key: random.permutation(key, LOGITS, -1, independent=True),
    "choice": lambda random, key: random.choice(key, 7, (3,)),
    "choice array": lambda random, key: random.choice(key, LOGITS, (3, 2), axis=1),
    "choice once": lambda random, key: random.choice(key, LOGITS, (3,), axis=1, replace=False),
    "choice p": lambda random, key: random.choice(key, 50, (300,), p=WEIGHTS),
    "choice p once": lambda random, key: random.choice(key, 50, (5, 2), p=WEIGHTS, replace=False),
    "gamma": lambda random, key: random.gamma(key, SIZES, (60, 5)),
    "gamma number": lambda random, key: random.gamma(key, 2.5, (301,)),
    "gamma float16": lambda random, key: random.gamma(key, 2.5, (31,), "float16"),
    "loggamma": lambda random, key: random.loggamma(key, SIZES),
    "beta": lambda random, key: random.beta(key, SIZES, 0.6, (60, 5)),
    "dirichlet": lambda random, key: random.dirichlet(key, SIZES, (7,)),
    "dirichlet rows": lambda random, key: random.dirichlet(key, np.exp(LOGITS)),
    "chisquare": lambda random, key: random.chisquare(key, SIZES),
    "f": lambda random, key: random.f(key, SIZES, 3),
    "t": lambda random, key: random.t(key, SIZES, (6, 5)),
    "generalized_normal": lambda random, key: random.generalized_normal(key, 1.3, (31,)),
    "ball": lambda random, key: random.ball(key, 3, 1.5, (7,)),
    "lognormal": lambda random, key: random.lognormal(key, SIZES, (3, 5)),
    "lognormal complex": lambda random, key: random.lognormal(key, 0.5, (7,), complex),
    "pareto": lambda random, key: random.pareto(key, SIZES, (6, 5)),
    "rayleigh": lambda random, key: random.rayleigh(key, SIZES, (6, 5)),
    "wald": lambda random, key: random.wald(key, SIZES, (6, 5)),
    "triangular": lambda random, key: random.triangular(key, -SIZES, 0.5, 50, (6, 5)),
    "weibull_min": lambda random, key: random.weibull_min(key, SIZES, 1.7, (6, 5)),
    "maxwell": _sampler("maxwell", (31,)),
    "double_sided_maxwell": lambda random, key: random.double_sided_maxwell(key, 2.0, SIZES, (4,)),
    "geometric": lambda random, key: random.geometric(key, np.array([1e-3, 0.3, 1.0], np.float32), (9, 3)),
    "poisson": lambda random, key: random.poisson(key, np.array([0, 0.5, 9, 11, 400, np.nan], np.float32), (40, 6)),
    "poisson int8": lambda random, key: random.poisson(key, 4, (31,), "int8"),
    "binomial": lambda random, key: random.binomial(key, np.array([0, 5, 100, 9000, -1], np.float32),
                                                    np.array([[0.1], [0.7], [np.nan], [0.0]], np.float32), (20, 4, 5)),
    "multinomial": lambda random, key: random.multinomial(key, 90, np.array([0.1, 0.0, 0.6, 0.3], np.float32),
                                                          shape=_counts_of_4(random, 5)),
    **{f"multivariate_normal {method}": (lambda random, key, method=method: random.multivariate_normal(
        key, SIZES[:2], COVARIANCE, (6,), method=method)) for method in ("cholesky", "svd", "eigh")},
    "orthogonal": lambda random, key: random.orthogonal(key, 3, (2,), m=4),
}

# Rows that depend on threefry_partitionable directly, not only through the bits of `uniform`.
BOTH_MODES = [name for name in ROWS if name.startswith(("bits", "split", "uniform(", "permutation", "gumbel high"))]
# Rows whose default dtypes are 64-bit under jax_enable_x64, or that draw 64 bits.
BOTH_WIDTHS = ["uniform", "normal", "bits uint64(7,)", "bits uint64(3, 5)", "randint int64", "randint uint64",
               "randint all", "randint limits", "normal complex", "truncated_normal", "choice", "rademacher",
               "permutation", "gamma number", "poisson", "geometric", "t"]

NARROW = [name for name in ROWS if "int64" not in name]
CASES = ([(name, False, True) for name in NARROW] + [(name, False, False) for name in BOTH_MODES if name in NARROW]
         + [(name, True, mode) for name in BOTH_WIDTHS for mode in (True, False)])


def label(name, x64, partitionable):
    return f"{name}{' x64' if x64 else ''}{'' if partitionable else ' in pairs'}"
