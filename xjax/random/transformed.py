"""Random numbers computed from uniform, normal or exponential numbers by a formula with parameters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core.calls import constrained
from xjax.core.types import typeof
from xjax.lax.shapes import broadcast_shapes
from xjax.numpy.promote import check_ranks, promote_inexact
from xjax.random.arguments import check_dtype, check_key, check_shape, common_shape, compiled, draw
from xjax.random.continuous import exponential_floats, normal, normal_floats, two_keys, unit_floats
from xjax.random.discrete import signs
from xjax.typing import Array, ArrayLike, DTypeLike, PRNGKey


def lognormal(key: PRNGKey, sigma: ArrayLike = 1.0, shape: Sequence[int] | None = None,
              dtype: DTypeLike | None = None, *, out_sharding: object = None) -> Array:
    """Exponentials of normal numbers with mean 0 and standard deviation `sigma`; dtype: float or complex.

    >>> lognormal(random.PRNGKey(0), 0.5, (3,)).shape
    (3,)
    """
    if out_sharding is not None:
        return constrained("random.lognormal", lognormal(key, sigma, shape, dtype), out_sharding)
    return draw("lognormal", _lognormal, key, shape, dtype, sigma, kinds="fc")


def _lognormal(shape: tuple[int, ...], dtype: np.dtype, key: PRNGKey, sigma: Array) -> Array:
    return lax.exp(normal(key, shape, dtype) * lax.convert_element_type(sigma, dtype))


def pareto(key: PRNGKey, b: ArrayLike, shape: Sequence[int] | None = None, dtype: DTypeLike | None = None,
           *, out_sharding: object = None) -> Array:
    """Numbers >= 1 of the Pareto distribution with density ``b / x ** (b + 1)``."""
    if out_sharding is not None:
        return constrained("random.pareto", pareto(key, b, shape, dtype), out_sharding)
    return draw("pareto", _pareto, key, shape, dtype, b)


def _pareto(shape: tuple[int, ...], dtype: np.dtype, key: PRNGKey, b: Array) -> Array:
    return lax.exp(exponential_floats(shape, dtype, key) / lax.convert_element_type(b, dtype))


def rayleigh(key: PRNGKey, scale: ArrayLike, shape: Sequence[int] | None = None,
             dtype: DTypeLike | None = None, *, out_sharding: object = None) -> Array:
    """Numbers of the Rayleigh distribution: the length of a normal vector in the plane, times `scale`."""
    if out_sharding is not None:
        return constrained("random.rayleigh", rayleigh(key, scale, shape, dtype), out_sharding)
    return draw("rayleigh", _rayleigh, key, shape, dtype, scale)


def _rayleigh(shape: tuple[int, ...], dtype: np.dtype, key: PRNGKey, scale: Array) -> Array:
    scale = jnp.broadcast_to(lax.convert_element_type(scale, dtype), shape)
    return lax.mul(scale, lax.sqrt(lax.mul(lax.log(unit_floats(shape, dtype, key)), dtype.type(-2))))


def wald(key: PRNGKey, mean: ArrayLike, shape: Sequence[int] | None = None, dtype: DTypeLike | None = None,
         *, out_sharding: object = None) -> Array:
    """Numbers of the Wald (inverse normal) distribution with a mean > 0 and scale 1."""
    if out_sharding is not None:
        return constrained("random.wald", wald(key, mean, shape, dtype), out_sharding)
    return draw("wald", _wald, key, shape, dtype, mean)


def _wald(shape: tuple[int, ...], dtype: np.dtype, key: PRNGKey, mean: Array) -> Array:
    """The smaller or the larger root of a quadratic equation, chosen at random (Michael, Schucany and Haas, 1976)."""
    normal_key, uniform_key = two_keys(key)
    mean = jnp.broadcast_to(lax.convert_element_type(mean, dtype), shape)
    y = lax.integer_pow(normal_floats(shape, dtype, normal_key), 2)
    z = unit_floats(shape, dtype, uniform_key)
    square = lax.integer_pow(mean, 2)
    root = lax.sqrt(4 * mean * y + square * lax.integer_pow(y, 2))
    x = mean + square * y / 2 - mean / 2 * root
    return lax.select(lax.le(z, mean / (mean + x)), x, square / x)


def triangular(key: PRNGKey, left: ArrayLike, mode: ArrayLike, right: ArrayLike, shape: Sequence[int] | None = None,
               dtype: DTypeLike | None = None, *, out_sharding: object = None) -> Array:
    """Numbers in [left, right] whose density rises linearly up to `mode` and falls linearly from there."""
    if out_sharding is not None:
        return constrained("random.triangular", triangular(key, left, mode, right, shape, dtype), out_sharding)
    return draw("triangular", _triangular, key, shape, dtype, left, mode, right)


def _triangular(shape: tuple[int, ...], dtype: np.dtype, key: PRNGKey, left: Array, mode: Array, right: Array) -> Array:
    left, mode, right = (jnp.broadcast_to(lax.convert_element_type(x, dtype), shape) for x in (left, mode, right))
    u = unit_floats(shape, dtype, key)
    rising = left + lax.sqrt(u * (right - left) * (mode - left))
    falling = right - lax.sqrt((1 - u) * (right - left) * (right - mode))
    return lax.select(u < (mode - left) / (right - left), rising, falling)


def weibull_min(key: PRNGKey, scale: ArrayLike, concentration: ArrayLike, shape: Sequence[int] = (),
                dtype: DTypeLike | None = None) -> Array:
    """Numbers of the Weibull distribution: ``scale * e ** (1 / concentration)`` for exponential numbers e."""
    key = check_key("weibull_min", key)
    dtype = check_dtype("weibull_min", dtype, "f")
    check_ranks("random.weibull_min", [typeof(scale).shape, typeof(concentration).shape])
    return compiled(_weibull, check_shape("weibull_min", shape), dtype)(key, scale, concentration)


def _weibull(shape: tuple[int, ...], dtype: np.dtype, key: PRNGKey, scale: Array, concentration: Array) -> Array:
    return jnp.power(exponential_floats(shape, dtype, key), 1.0 / concentration) * scale


def maxwell(key: PRNGKey, shape: Sequence[int] = (), dtype: DTypeLike | None = None,
            *, out_sharding: object = None) -> Array:
    """Numbers of the Maxwell distribution: lengths of normal vectors in three dimensions."""
    if out_sharding is not None:
        return constrained("random.maxwell", maxwell(key, shape, dtype), out_sharding)
    return draw("maxwell", _maxwell, key, check_shape("maxwell", shape), dtype)


def _maxwell(shape: tuple[int, ...], dtype: np.dtype, key: PRNGKey) -> Array:
    x = normal_floats((*shape, 3), dtype, key)
    return lax.sqrt(jnp.sum(x * x, -1))


def double_sided_maxwell(key: PRNGKey, loc: ArrayLike, scale: ArrayLike, shape: Sequence[int] = (),
                         dtype: DTypeLike | None = None) -> Array:
    """Numbers ``loc + scale * s * m`` with random signs s and numbers m of the Maxwell distribution.

    Returns: float[*shape, *parameters], where `parameters` is the common shape of loc and scale. An empty `shape` is
      replaced by `parameters`.
    """
    key = check_key("double_sided_maxwell", key)
    dtype = check_dtype("double_sided_maxwell", dtype, "f")
    check_ranks("random.double_sided_maxwell", [typeof(loc).shape, typeof(scale).shape])
    parameters = broadcast_shapes(typeof(loc).shape, typeof(scale).shape)
    shape = check_shape("double_sided_maxwell", shape) or parameters
    return compiled(_double_sided_maxwell, (*shape, *parameters), dtype)(key, loc, scale)


def _double_sided_maxwell(shape: tuple[int, ...], dtype: np.dtype, key: PRNGKey, loc: Array, scale: Array) -> Array:
    size_key, sign_key = two_keys(key)
    return signs(shape, dtype, sign_key) * _maxwell(shape, dtype, size_key) * scale + loc


def geometric(key: PRNGKey, p: ArrayLike, shape: Sequence[int] | None = None, dtype: DTypeLike | None = None,
              *, out_sharding: object = None) -> Array:
    """The number, from 1, of the first successful trial, each successful with probability `p`: integers >= 1."""
    if out_sharding is not None:
        return constrained("random.geometric", geometric(key, p, shape, dtype), out_sharding)
    key = check_key("geometric", key)
    dtype = check_dtype("geometric", dtype, "i", default=int)
    return compiled(_geometric, common_shape("geometric", shape, p), dtype)(key, p)


def _geometric(shape: tuple[int, ...], dtype: np.dtype, key: PRNGKey, p: Array) -> Array:
    p, = promote_inexact("random.geometric", p)
    u = unit_floats(shape, p.dtype, key)
    u = jnp.where(u == 0, 1, u)
    trials = lax.floor(lax.div(lax.log(u), jnp.broadcast_to(lax.log1p(-p), shape)))
    return lax.convert_element_type(trials + 1, dtype)
