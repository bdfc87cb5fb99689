"""`xjax.random`: a set of values is a key and parameters. Integers and bits are JAX's exactly, floats up to rounding.

NumPy draws other numbers, so only JAX is compared. If numbers depend on several results of one sampler, one call draws
all of them with one key, in one program.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.oracle import holds
from tests.values.row import library_of, rows

KEY = "u4[2]:wide"
NARROW = ("float32", "bfloat16", "float16")


def random_of(function: Any) -> Any:
    """The module `random` of the function's library."""
    return library_of(function).random


def of_key(*parameters: str) -> tuple[str, ...]:
    return tuple(f"{KEY} {p}" for p in parameters)


# -- keys ---------------------------------------------------------------------------------------------------------

def from_seed(f: Any, seed: Any) -> Any:
    """The words of keys of each generator, made from one seed."""
    r = random_of(f)
    words = (lambda key: key) if f.__name__ == "PRNGKey" else r.key_data
    return [words(f(seed, impl=impl)) for impl in (None, "threefry2x32", "rbg", "unsafe_rbg")]


def typed(f: Any, words: Any) -> Any:
    """The words of the results of a function of keys, for typed keys of two generators."""
    r = random_of(f)
    keys = [r.wrap_key_data(words), r.wrap_key_data(np.tile(np.uint32(3), 4) + words[0], impl="rbg")]
    return [words if f.__name__ == "key_data" else r.key_data(words) for words in map(f, keys)]


def wrapped(f: Any, words: Any) -> Any:
    r = random_of(f)
    key, rbg = f(words), f(np.stack([np.arange(4, dtype=np.uint32)] * 2), impl="rbg")
    assert rbg.shape == (2,) and key.dtype == r.key_dtype()
    return r.key_data(key), r.normal(key, (3,)), r.key_data(rbg[1]), r.bits(r.split(key)[1])


def named(f: Any, words: Any) -> Any:
    """The dtype of keys, or the name of their generator, as a number."""
    r = random_of(f)
    key = r.wrap_key_data(words)
    if f.__name__ == "key_dtype":
        return np.int32(f() == key.dtype), np.int32(f("rbg") == key.dtype)
    return np.int32(f(key) == "threefry2x32"), np.int32(f(r.key(0, impl="rbg")) == "rbg")


def split(f: Any, key: Any) -> Any:
    r = random_of(f)
    return f(key), f(key, 1), f(key, 0), f(key, (2, 2)), f(key, ()), r.key_data(f(r.wrap_key_data(key), 3))


KEY_ROWS = [
    *rows("random", "PRNGKey key", "i8[]:wide", "i4[]:wide", "u4[]:wide", "u8[]:wide", "i1[]:wide", "i4[]",
          call=from_seed),
    *rows("random", "split", KEY, call=split),
    *rows("random", "fold_in", *of_key("u4[]:wide", "i4[]:wide", "i8[]:wide", "u1[]:wide"),
          call=lambda f, key, n: (f(key, n), f(key, 7), random_of(f).key_data(f(random_of(f).wrap_key_data(key), n)))),
    *rows("random", "clone key_data", KEY, call=typed),
    *rows("random", "wrap_key_data", KEY, call=wrapped),
    *rows("random", "key_dtype key_impl", KEY, call=named, vmap=False),
]

# -- of a key alone -----------------------------------------------------------------------------------------------


def floats(f: Any, key: Any) -> Any:
    return f(key), f(key, (3,)), f(key, (0, 2)), [f(key, (5,), dtype) for dtype in NARROW]


def complex_too(f: Any, key: Any) -> Any:
    return floats(f, key), f(key, (2, 2), "complex64"), f(key, (2,), complex)


PLAIN = [
    *rows("random", "bits", KEY, call=lambda f, key: [f(key), f(key, (0,)), *(
        f(key, (2, 3), dtype) for dtype in ("uint8", "uint16", "uint32", "uint64"))]),
    *rows("random", "exponential cauchy laplace logistic gumbel maxwell", KEY, call=floats),
    *rows("random", "gumbel", KEY, call=lambda f, key: [
        f(key, (5,), dtype, mode=mode) for dtype in ("float32", "float64") for mode in ("low", "high")], id="mode",
          tol=8),                               # -log(-log(u)), where u was rounded near 1
    *rows("random", "normal", KEY, call=complex_too),
    *rows("random", "uniform", KEY, call=lambda f, key: (
        floats(f, key), f(key, (3,), "float8_e4m3fn").astype("float32"), f(key, (2,), minval=-3, maxval=7.5))),
    *rows("random", "rademacher", KEY, call=lambda f, key: (
        f(key), f(key, (3,), "int8"), f(key, (2, 2), "float32"), f(key, (2,), bool), f(key, (2,), "complex64"))),
    *rows("random", "orthogonal", KEY, call=lambda f, key: (
        f(key, 2), f(key, 3, (2,), "float32"), f(key, 2, m=3), f(key, 3, dtype=complex, m=2))),
]

# -- of a key and parameters --------------------------------------------------------------------------------------

BETWEEN = of_key("f8[3]:-8..0 f8[]:0.5..8", "f4[2,1]:-8..0 f4[3]:0.5..8", "bf[2]:-8..0 bf[2]:0.5..8", "f4[]:edges f4[]")
SMOOTH = of_key("f8[3]:0.5..4")
POSITIVE = of_key("f8[3]:positive", "f4[2,3]:positive", "bf[2]:positive")
POSITIVE_PAIRS = of_key("f8[3]:positive f8[]:positive", "f4[2,1]:positive f4[3]:positive")
LIMITS = of_key("i4[3] i4[]:9..40", "i8[]:wide i8[2]:wide", "u1[2]:wide i4[2]:wide", "u8[2]:wide u8[2]:wide")
NARROWER = {"int32": "uint16", "int64": "uint32", "uint8": "int8", "uint64": "int64"}


def own_dtype(f: Any, key: Any, *parameters: Any) -> Any:
    """Numbers of the dtype of the parameters: in their shape, or in a larger one."""
    dtype = parameters[0].dtype
    if dtype == np.float64:
        return f(key, *parameters)
    return f(key, *parameters, (2, *np.broadcast_shapes(*[p.shape for p in parameters])), dtype)


def shape_given(f: Any, key: Any, *parameters: Any) -> Any:
    """As `own_dtype`, for a shape that the parameters alone do not have."""
    shape = np.broadcast_shapes(*[p.shape for p in parameters])
    return f(key, *parameters, (2, *shape), parameters[0].dtype)


def integers(f: Any, key: Any, low: Any, high: Any) -> Any:
    """In the dtype of the limits, and in one that cannot represent all of them."""
    shape = np.broadcast_shapes(low.shape, high.shape)
    return [f(key, shape, low, high, dtype) for dtype in (low.dtype, NARROWER[str(low.dtype)])]


PARAMETERS = [
    *rows("random", "uniform", *BETWEEN, call=lambda f, key, low, high: f(
        key, np.broadcast_shapes(low.shape, high.shape), low.dtype, low, high), grad=BETWEEN[:1], id="limits"),
    *rows("random", "truncated_normal", *BETWEEN, call=own_dtype, grad=BETWEEN[:1]),
    *rows("random", "randint", *LIMITS, call=integers),
    *rows("random", "pareto rayleigh wald lognormal", *POSITIVE, call=own_dtype, grad=SMOOTH),
    *rows("random", "weibull_min", *POSITIVE_PAIRS, call=shape_given,
          grad=of_key("f8[3]:0.5..4 f8[3]:0.5..4")),
    *rows("random", "double_sided_maxwell", *POSITIVE_PAIRS, call=lambda f, key, loc, scale: (
        f(key, loc, scale), f(key, loc, scale, (2,), loc.dtype))),
    *rows("random", "triangular", *of_key("f8[3]:-8..0 f8[]:0.5..2 f8[3]:3..8", "f4[2,1]:-8..0 f4[] f4[3]:3..8"),
          call=own_dtype, grad=of_key("f8[3]:-8..0 f8[]:0.5..2 f8[3]:3..8")),
    *rows("random", "geometric", *of_key("f8[3]:unit", "f4[2]:0.0625..1", "bf[3]:0.0625..1", "f4[]:inner"),
          call=lambda f, key, p: (f(key, p), f(key, p, (2, *p.shape), "int32"))),
    *rows("random", "bernoulli", *of_key("f8[3]:unit", "f4[2,2]:unit", "bf[3]:unit", "f2[]:unit"),
          call=lambda f, key, p: (f(key), f(key, p), f(key, p, (2, *p.shape)), f(key, p, mode="high"))),
]

# Rejection makes a sample jump where its parameter changes; tests/random/test_as_jax.py covers the derivatives.
GAMMA = [
    *rows("random", "gamma loggamma chisquare t", *POSITIVE, call=own_dtype),
    *rows("random", "beta", *POSITIVE_PAIRS, call=own_dtype),
    *rows("random", "f", *of_key("f8[3]:positive f8[3]:positive", "f4[2,1]:positive f4[2,3]:positive"),
          call=lambda f, key, n, m: f(key, n, m, dtype=n.dtype),            # JAX does not support a larger shape
          tol=8),                               # powers 1 / n of uniform numbers, which multiply their errors
    *rows("random", "dirichlet", *of_key("f8[3]:positive", "f4[2,3]:positive", "bf[2]:positive"), call=lambda f, k, a: (
        f(k, a, dtype=a.dtype), f(k, a, (3, *a.shape[:-1]), a.dtype))),
    *rows("random", "generalized_normal", *of_key("f8[]:positive", "f4[]:positive"), call=lambda f, key, p: (
        f(key, p, (3,)), f(key, p, (2, 2), "float32"))),
    *rows("random", "ball", *of_key("f8[]:positive", "f4[]:positive"), call=lambda f, key, p: (
        f(key, 2, p), f(key, 3, p, (2,), "float32"), f(key, 2, shape=(2,)))),
]

# -- picks --------------------------------------------------------------------------------------------------------


def categories(f: Any, key: Any, logits: Any) -> Any:
    rest = logits.shape[1:]
    return (f(key, logits), f(key, logits, 0), f(key, logits, 0, (2, *rest)), f(key, logits, 0, (2, *rest), False),
            f(key, logits, mode="high"))


PICKS = [
    *rows("random", "categorical", *of_key("f4[3]", "f8[3,2]", "bf[3,2]", "f4[3]:edges"), call=categories),
    *rows("random", "permutation", *of_key("f4[3,2]", "i4[4]:distinct", "b1[3]", "c8[2,2]"), call=lambda f, key, x: (
        f(key, x), f(key, x, -1), f(key, x, x.ndim - 1, independent=True), f(key, 5), f(key, 0))),
    *rows("random", "choice", *of_key("f4[3,2]", "i4[4]", "c8[2,3]"), call=lambda f, key, x: (
        f(key, x), f(key, x, (2, 2), axis=-1), f(key, x, (2,), False), f(key, 9, (3,)), f(key, 4, (2,), False),
        f(key, x, (0,)))),
    *rows("random", "choice", *of_key("f4[4]:simplex", "f8[3]:simplex", "f4[3]:unit"), call=lambda f, key, p: (
        f(key, p.size, (3,), p=p), f(key, p.size, (2,), False, p), f(key, p, (2,), False, p, mode="high")), id="p"),
    *rows("random", "multivariate_normal", *of_key("f8[2] f8[2,2]:definite", "f4[3,2] f4[2,2]:definite"),
          call=lambda f, key, mean, cov: (f(key, mean, cov), f(key, mean, cov, (2, *mean.shape[:-1]))),
          grad=of_key("f8[2] f8[2,2]:definite")),
    # Factors are unique up to the signs of their columns.
    *rows("random", "multivariate_normal", *of_key("f8[1] f8[1,1]:positive"),
          call=lambda f, key, mean, cov: [f(key, mean, cov, (3,), method=method) for method in ("eigh", "svd")],
          id="method"),
]


def successes(f: Any, key: Any, n: Any, p: Any) -> Any:
    p = library_of(f).numpy.where(p == 0, 0, p)             # JAX never returns for a probability of -0
    return f(key, n, p), f(key, n, p, (2, *np.broadcast_shapes(n.shape, p.shape)), "float32")


def outcomes(f, key, n, p):
    """Also with a shape, which before JAX 0.12 included the axis of outcomes."""
    shape = (2, *p.shape) if library_of(f).__name__ == "jax" and holds(until="0.12") else (2, *p.shape[:-1])
    return f(key, n, p), f(key, n, p, shape=shape, dtype="int32", unroll=2)


COUNTS = [
    # Rates on both sides of 10 in one array: tests/random/test_as_jax.py.
    *rows("random", "poisson", *of_key("f4[3]:0..9", "f4[3]:10..20", "f8[2]:10..600", "bf[2]"),
          call=lambda f, key, a: (f(key, a), f(key, a, (2, *a.shape), "int32"))),
    # JAX draws 0 of infinite rates, which are nan here.
    *rows("random", "poisson", *of_key("f4[3]:edges"), id="edges", call=lambda f, key, a: f(key, a - a + a)),
    # JAX never returns for infinitely many draws of probability 0 or 1 either.
    *rows("random", "binomial", *of_key("f4[3]:0..40 f4[]:unit", "f8[2]:0..900 f8[2,1]:unit", "f4[3] f4[3]:edges",
                                        "f4[3]:edges f4[3]:inner", "i4[3]:0..40 f4[3]:unit"), call=successes),
    *rows("random", "multinomial", *of_key("f4[]:count f4[3]:simplex", "f8[2]:0..90 f8[2,3]:simplex"), call=outcomes),
]

ROWS = [*KEY_ROWS, *PLAIN, *PARAMETERS, *GAMMA, *PICKS, *COUNTS]
