"""Random numbers of the gamma distribution, and of distributions derived from it.

Sampling is by rejection (Marsaglia and Tsang, A simple method for generating gamma variables, 2000). The number of
draws for an element is not known in advance, so each element has its own key. A sample is differentiated in the shape
parameter at a fixed quantile (Figurnov et al., Implicit reparameterization gradients, 2018).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core import dtypes
from xjax.core.calls import constrained
from xjax.core.errors import bad
from xjax.core.key_types import is_key
from xjax.core.types import ShapedArray, Zero, typeof
from xjax.ops.checks import static_int
from xjax.random.arguments import (
    check_dtype,
    check_key,
    check_method,
    check_shape,
    common_shape,
    compiled,
    draw,
)
from xjax.random.continuous import exponential_floats, normal_floats, two_keys, unit_floats
from xjax.random.discrete import signs
from xjax.random.generators import key_operation, split_key
from xjax.transforms.batching import place_axis
from xjax.transforms.vmap import vmap
from xjax.typing import Array, ArrayLike, DTypeLike, PRNGKey

# -- the operation ------------------------------------------------------------------------------------------------

def _one_sample(key: PRNGKey, a: Array, log_space: bool) -> Array:
    """A sample for one key and one `a`; for a < 1 a sample for a + 1, times a power of a uniform number."""
    dtype = a.dtype
    zero, one, third = dtype.type(0), dtype.type(1), dtype.type(1 / 3)
    boosted = lax.ge(a, one)
    d = lax.sub(lax.select(boosted, a, lax.add(a, one)), third)
    c = lax.div(third, lax.sqrt(d))

    def rejected(carry: tuple) -> Array:
        _, square, cube, u = carry
        not_surely = lax.ge(u, lax.sub(one, lax.mul(dtype.type(0.0331), lax.mul(square, square))))
        height = lax.add(lax.mul(square, dtype.type(0.5)), lax.mul(d, lax.add(lax.sub(one, cube), lax.log(cube))))
        return lax.bitwise_and(not_surely, lax.ge(lax.log(u), height))

    def next_positive(carry: tuple) -> tuple:
        key, subkey = two_keys(carry[0])
        x = normal_floats((), dtype, subkey)
        return key, x, lax.add(one, lax.mul(x, c))

    def propose(carry: tuple) -> tuple:
        key, x_key, u_key = _rows(split_key((3,), carry[0]))
        _, x, v = lax.while_loop(lambda kxv: lax.le(kxv[2], zero), next_positive, (x_key, zero, dtype.type(-1)))
        return key, lax.mul(x, x), lax.mul(lax.mul(v, v), v), unit_floats((), dtype, u_key)

    key, subkey = two_keys(key)
    _, _, cube, _ = lax.while_loop(rejected, propose, (key, zero, one, dtype.type(2)))
    if log_space:
        drawn = lax.neg(exponential_floats((), dtype, subkey))
        unchanged = lax.bitwise_or(boosted, lax.eq(drawn, zero))
        boost = lax.select(unchanged, lax.full_like(a, 0), lax.mul(drawn, lax.div(one, a)))
        return lax.add(lax.add(lax.log(d), lax.log(cube)), boost)
    drawn = lax.sub(one, unit_floats((), dtype, subkey))
    boost = lax.select(boosted, lax.full_like(a, 1), lax.pow(drawn, lax.div(one, a)))
    return lax.mul(lax.mul(d, cube), boost)


def _rows(keys: Array) -> list[Any]:
    return [lax.squeeze(lax.slice_in_dim(keys, i, i + 1), (0,)) for i in range(keys.shape[0])]


def _samples(key: PRNGKey, a: Array, *, log_space: bool) -> Array:
    """Samples for keys[*batch] and a float[*batch, ...]; each key is split into one for each of its elements."""
    count = math.prod(a.shape[key.ndim:])
    keys = lax.reshape(split_key((count,), lax.reshape(key, (key.size,))), (a.size,))
    sample = functools.partial(_one_sample, log_space=log_space)
    # Only threefry draws the same numbers under vmap as for single keys.
    together = key.dtype.kind.name == "threefry2x32"
    samples = vmap(sample) if together else lambda keys, a: lax.map(lambda pair: sample(*pair), (keys, a))
    return lax.reshape(samples(keys, lax.reshape(a, (a.size,))), a.shape)


def _type_rule(key, a, *, log_space):
    if not is_key(key) or a.shape[:key.ndim] != key.shape:
        raise bad("random_gamma", "the shape of the parameters must start with that of the keys",
                  given={"key": key.str_short(), "a": a.str_short()}, fix="pass key[*batch] and a[*batch, ...].")
    return ShapedArray(a.shape, a.dtype)


def _jvp(primals, tangents, *, log_space):
    (key, a), (_, da) = primals, tangents
    y = random_gamma_p.bind(key, a, log_space=log_space)
    if type(da) is Zero:
        return y, Zero(y.aval.tangent())
    if not log_space:
        return y, lax.mul(da, lax.random_gamma_grad(a, y))
    sample = lax.exp(y)
    sample = lax.select(lax.eq(sample, sample.dtype.type(0)),
                        lax.full_like(sample, float(dtypes.finfo(sample.dtype).tiny)), sample)
    return y, lax.mul(da, lax.div(lax.random_gamma_grad(a, sample), sample))


def _batch(axis, args, bdims, *, log_space):
    key, a = (place_axis(x, bdim, 0, axis.size) for x, bdim in zip(args, bdims, strict=True))
    return random_gamma_p.bind(key, a, log_space=log_space), 0


random_gamma_p = key_operation("random_gamma", _samples, _type_rule, _batch, _jvp)


# -- gamma, and its quotients and powers ----------------------------------------------------------------------------

def gamma(key: PRNGKey, a: ArrayLike, shape: Sequence[int] | None = None, dtype: DTypeLike | None = None, *,
          method: str = "exact", out_sharding: object = None) -> Array:
    """Numbers of the gamma distribution with scale 1; differentiable in its shape `a`.

    Args: a: number or array > 0 that broadcasts to `shape` (None: its shape); dtype: float, default float32, with
      jax_enable_x64 float64; method: "exact" (JAX's "approximate" sampler is not supported).

    >>> gamma(random.PRNGKey(0), 2.0, (3,)).shape
    (3,)
    """
    if out_sharding is not None:
        return constrained("random.gamma", gamma(key, a, shape, dtype, method=method), out_sharding)
    check_method("gamma", method)
    return _draw_gamma("gamma", False, key, a, shape, dtype)


def loggamma(key: PRNGKey, a: ArrayLike, shape: Sequence[int] | None = None, dtype: DTypeLike | None = None, *,
             method: str = "exact", out_sharding: object = None) -> Array:
    """Logarithms of numbers of the gamma distribution; finite also for small `a`, where the numbers underflow to 0."""
    if out_sharding is not None:
        return constrained("random.loggamma", loggamma(key, a, shape, dtype, method=method), out_sharding)
    check_method("loggamma", method)
    return _draw_gamma("loggamma", True, key, a, shape, dtype)


def _draw_gamma(caller: str, log_space: bool, key: PRNGKey, a: ArrayLike, shape: Any, dtype: DTypeLike | None) -> Array:
    key = check_key(caller, key)
    dtype = check_dtype(caller, dtype, "f")
    return compiled(gamma_floats, common_shape(caller, shape, a), dtype, log_space)(key, a)


def gamma_floats(shape: tuple[int, ...], dtype: np.dtype, log_space: bool, key: PRNGKey, a: ArrayLike) -> Array:
    """Numbers of the gamma distribution or their logarithms."""
    a = jnp.broadcast_to(lax.convert_element_type(a, dtype), shape)
    return random_gamma_p.bind(key, a, log_space=log_space)


def chisquare(key: PRNGKey, df: ArrayLike, shape: Sequence[int] | None = None, dtype: DTypeLike | None = None, *,
              method: str = "exact", out_sharding: object = None) -> Array:
    """Numbers of the chi-squared distribution with `df` degrees of freedom."""
    if out_sharding is not None:
        return constrained("random.chisquare", chisquare(key, df, shape, dtype, method=method), out_sharding)
    check_method("chisquare", method)
    return draw("chisquare", _chisquare, key, shape, dtype, df)


def _chisquare(shape: tuple[int, ...], dtype: np.dtype, key: PRNGKey, df: Array) -> Array:
    half = lax.div(lax.convert_element_type(df, dtype), dtype.type(2))
    return lax.mul(lax.exp(gamma_floats(shape, dtype, True, key, half)), dtype.type(2))


def f(key: PRNGKey, dfnum: ArrayLike, dfden: ArrayLike, shape: Sequence[int] | None = None,
      dtype: DTypeLike | None = None, *, out_sharding: object = None) -> Array:
    """Numbers of Fisher's F distribution: quotients of chi-squared numbers, each divided by its degrees of freedom."""
    if out_sharding is not None:
        return constrained("random.f", f(key, dfnum, dfden, shape, dtype), out_sharding)
    return draw("f", _f, key, shape, dtype, dfnum, dfden)


def _f(shape: tuple[int, ...], dtype: np.dtype, key: PRNGKey, dfnum: Array, dfden: Array) -> Array:
    dfnum, dfden = (lax.convert_element_type(x, dtype) for x in (dfnum, dfden))
    den_key, num_key = two_keys(key)
    num, den = _chisquare(shape, dtype, num_key, dfnum), _chisquare(shape, dtype, den_key, dfden)
    return (num / dfnum) / (den / dfden)


def t(key: PRNGKey, df: ArrayLike, shape: Sequence[int] | None = None, dtype: DTypeLike | None = None,
      *, out_sharding: object = None) -> Array:
    """Numbers of Student's t distribution with `df` degrees of freedom."""
    if out_sharding is not None:
        return constrained("random.t", t(key, df, shape, dtype), out_sharding)
    return draw("t", _t, key, shape, dtype, df)


def _t(shape: tuple[int, ...], dtype: np.dtype, key: PRNGKey, df: Array) -> Array:
    normal_key, gamma_key = two_keys(key)
    half = lax.div(lax.convert_element_type(df, dtype), dtype.type(2))
    return normal_floats(shape, dtype, normal_key) * jnp.sqrt(half / gamma_floats(shape, dtype, False, gamma_key, half))


def beta(key: PRNGKey, a: ArrayLike, b: ArrayLike, shape: Sequence[int] | None = None, dtype: DTypeLike | None = None,
         *, method: str = "exact", out_sharding: object = None) -> Array:
    """Numbers of the beta distribution, in [0, 1]; differentiable in its parameters.

    Args: a, b: numbers or arrays > 0 that broadcast to `shape` (None: their common shape).
    """
    if out_sharding is not None:
        return constrained("random.beta", beta(key, a, b, shape, dtype, method=method), out_sharding)
    check_method("beta", method)
    return draw("beta", _beta, key, shape, dtype, a, b)


def _beta(shape: tuple[int, ...], dtype: np.dtype, key: PRNGKey, a: Array, b: Array) -> Array:
    x, y = (gamma_floats(shape, dtype, True, k, v) for k, v in zip(two_keys(key), (a, b), strict=True))
    top = lax.max(x, y)                     # the larger number becomes 1, since both might underflow to 0
    x, y = lax.exp(lax.sub(x, top)), lax.exp(lax.sub(y, top))
    return lax.div(x, lax.add(x, y))


def dirichlet(key: PRNGKey, alpha: ArrayLike, shape: Sequence[int] | None = None,
              dtype: DTypeLike | None = None, *, out_sharding: object = None) -> Array:
    """Points of the simplex with the Dirichlet distribution.

    Args: alpha: float[..., n] > 0, whose leading axes broadcast to `shape` (None: the shape of these axes).
    Returns: float[*shape, n]; each row sums to 1.
    Raises: ValueError if alpha is a scalar.
    """
    if out_sharding is not None:
        return constrained("random.dirichlet", dirichlet(key, alpha, shape, dtype), out_sharding)
    key = check_key("dirichlet", key)
    dtype = check_dtype("dirichlet", dtype, "f")
    aval = typeof(alpha)
    if not aval.shape:
        raise bad("random.dirichlet", "`alpha` needs an axis of parameters", given={"alpha": aval.str_short()},
                  fix="pass an array of shape (n,).", exc=ValueError)
    batch = aval.shape[:-1] if shape is None else check_shape("dirichlet", shape)
    whole = common_shape("dirichlet", (*batch, aval.shape[-1]), alpha)
    return compiled(_dirichlet, whole, dtype)(key, alpha)


def _dirichlet(shape: tuple[int, ...], dtype: np.dtype, key: PRNGKey, alpha: Array) -> Array:
    logs = gamma_floats(shape, dtype, True, key, alpha)
    parts = lax.exp(logs - lax.stop_gradient(jnp.max(logs, -1, keepdims=True)))
    return parts / jnp.sum(parts, -1, keepdims=True)


def generalized_normal(key: PRNGKey, p: ArrayLike, shape: Sequence[int] = (), dtype: DTypeLike | None = None,
                       *, out_sharding: object = None) -> Array:
    """Numbers with density proportional to ``exp(-abs(x) ** p)``. Args: p: a number > 0."""
    if out_sharding is not None:
        return constrained("random.generalized_normal", generalized_normal(key, p, shape, dtype), out_sharding)
    key = check_key("generalized_normal", key)
    dtype = check_dtype("generalized_normal", dtype, "f")
    return compiled(_generalized_normal, check_shape("generalized_normal", shape), dtype)(key, p)


def _generalized_normal(shape: tuple[int, ...], dtype: np.dtype, key: PRNGKey, p: Array) -> Array:
    size_key, sign_key = two_keys(key)
    size = gamma_floats(shape, dtype, False, size_key, 1 / p)
    return signs(shape, dtype, sign_key) * size ** (1 / p)


def ball(key: PRNGKey, d: int, p: ArrayLike = 2, shape: Sequence[int] = (), dtype: DTypeLike | None = None,
         *, out_sharding: object = None) -> Array:
    """Points of the uniform distribution on the ball of radius 1 in the p-norm.

    Args: d: static int, the dimension; p: a number > 0.
    Returns: float[*shape, d].
    """
    if out_sharding is not None:
        return constrained("random.ball", ball(key, d, p, shape, dtype), out_sharding)
    key = check_key("ball", key)
    dtype = check_dtype("ball", dtype, "f")
    return compiled(_ball, (*check_shape("ball", shape), static_int(d, "d", "random.ball")), dtype)(key, p)


def _ball(shape: tuple[int, ...], dtype: np.dtype, key: PRNGKey, p: Array) -> Array:
    point_key, radius_key = two_keys(key)
    point = _generalized_normal(shape, dtype, point_key, p)
    noise = exponential_floats(shape[:-1], dtype, radius_key)
    return point / ((jnp.sum(jnp.abs(point) ** p, -1) + noise) ** (1 / p))[..., None]
