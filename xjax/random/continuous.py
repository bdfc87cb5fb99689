"""Random floats: uniform, normal, and distributions that one formula derives from uniform numbers.

The operations and their order must not change: they make the numbers equal to those of JAX, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xjax import lax
from xjax.core import dtypes
from xjax.core.calls import constrained
from xjax.core.config import config
from xjax.core.errors import bad
from xjax.core.types import typeof
from xjax.numpy.promote import check_ranks
from xjax.random.arguments import UINTS, check_dtype, check_key, check_shape, common_shape, compiled
from xjax.random.generators import random_bits, split_key
from xjax.typing import Array, ArrayLike, DTypeLike, PRNGKey

# -- uniform ------------------------------------------------------------------------------------------------------

def uniform(key: PRNGKey, shape: Sequence[int] = (), dtype: DTypeLike | None = None, minval: ArrayLike = 0.,
            maxval: ArrayLike = 1., *, out_sharding: object = None) -> Array:
    """Numbers of the uniform distribution on [minval, maxval).

    Args:
      key: a random key; shape: that of the result; dtype: a float of 8 to 64 bits (default float32, with jax_enable_x64
        float64).
      minval, maxval: numbers or arrays that broadcast to `shape`.
    Raises: ValueError if they do not broadcast, or the dtype is not a float.
    """
    if out_sharding is not None:
        return constrained("random.uniform", uniform(key, shape, dtype, minval, maxval), out_sharding)
    key = check_key("uniform", key)
    dtype = check_dtype("uniform", dtype, "f")
    _check_width("uniform", dtype)
    if type(minval) is float and type(maxval) is float and minval == 0 and maxval == 1:
        return compiled(unit_floats, check_shape("uniform", shape), dtype)(key)
    return compiled(floats_between, common_shape("uniform", shape, minval, maxval), dtype)(key, minval, maxval)


def _check_width(caller: str, dtype: np.dtype) -> None:
    if dtypes.itemsize_bits(dtype) not in UINTS:
        raise bad(f"random.{caller}", f"cannot draw {dtype.name}: its elements are not 8, 16, 32 or 64 bits wide",
                  fix="draw bfloat16 and convert with x.astype(...).")


def unit_floats(shape: tuple[int, ...], dtype: np.dtype, key: PRNGKey) -> Array:
    """Floats in [0, 1): random bits become the fraction of a number in [1, 2), from which 1 is subtracted."""
    info = dtypes.finfo(dtype)
    width, uint = info.bits, UINTS[info.bits]
    # A fraction of fewer than 8 bits needs only a byte of randomness.
    drawn = 8 if info.nmant < 8 else width
    bits = lax.convert_element_type(random_bits(drawn, shape, key), uint)
    fraction = lax.shift_right_logical(bits, uint.type(drawn - info.nmant))
    one = np.array(1, dtype)
    return lax.sub(lax.bitcast_convert_type(lax.bitwise_or(fraction, one.view(uint)[()]), dtype), one[()])


def floats_between(shape: tuple[int, ...], dtype: np.dtype, key: PRNGKey, low: ArrayLike, high: ArrayLike) -> Array:
    """Floats in [low, high)."""
    low, high = (lax.broadcast_to_rank(x, len(shape)) if typeof(x).shape else x
                 for x in (lax.convert_element_type(low, dtype), lax.convert_element_type(high, dtype)))
    scaled = lax.add(lax.mul(unit_floats(shape, dtype, key), lax.sub(high, low)), low)
    return lax.max(low, scaled)         # rounding must not give less than low


def _literal_between(low: ArrayLike, high: ArrayLike, shape: tuple[int, ...], dtype: np.dtype, key: PRNGKey) -> Array:
    return floats_between(shape, dtype, key, np.array(low, dtype)[()], np.array(high, dtype)[()])


# -- normal -------------------------------------------------------------------------------------------------------

def normal(key: PRNGKey, shape: Sequence[int] = (), dtype: DTypeLike | None = None,
           *, out_sharding: object = None) -> Array:
    """Numbers of the standard normal distribution.

    Args: key: a random key; shape: that of the result; dtype: float, or complex with variance 1/2 in each part; default
      float32, with jax_enable_x64 float64.
    """
    if out_sharding is not None:
        return constrained("random.normal", normal(key, shape, dtype), out_sharding)
    key = check_key("normal", key)
    dtype = check_dtype("normal", dtype, "fc")
    if dtypes.is_float(dtype):
        _check_width("normal", dtype)
        return compiled(normal_floats, check_shape("normal", shape), dtype)(key)
    return compiled(_complex_normal, check_shape("normal", shape), dtype)(key)


def normal_floats(shape: tuple[int, ...], dtype: np.dtype, key: PRNGKey) -> Array:
    """Normal numbers from uniform numbers in (-1, 1), by the inverse of the distribution function."""
    lowest = np.nextafter(np.array(-1, dtype), np.array(0, dtype), dtype=dtype)
    u = _literal_between(lowest, 1, shape, dtype, key)
    return lax.mul(np.array(np.sqrt(2), dtype)[()], lax.erf_inv(u))


def _complex_normal(shape: tuple[int, ...], dtype: np.dtype, key: PRNGKey) -> Array:
    part = np.empty(0, dtype).real.dtype
    re, im = (lax.convert_element_type(normal_floats(shape, part, k), dtype) for k in two_keys(key))
    return lax.div(lax.add(re, lax.mul(dtype.type(1j), im)), dtype.type(np.sqrt(2)))


def two_keys(key: PRNGKey) -> tuple[Array, Array]:
    """Two keys from one."""
    keys = split_key((2,), key)
    first, second = (lax.squeeze(lax.slice_in_dim(keys, i, i + 1), (0,)) for i in (0, 1))
    return first, second


def truncated_normal(key: PRNGKey, lower: ArrayLike, upper: ArrayLike, shape: Sequence[int] | None = None,
                     dtype: DTypeLike | None = None, *, out_sharding: object = None) -> Array:
    """Numbers of the standard normal distribution, truncated to the open interval (lower, upper).

    Args: lower, upper: numbers or arrays that broadcast to `shape` (None: their common shape); dtype: float.
    """
    if out_sharding is not None:
        return constrained("random.truncated_normal", truncated_normal(key, lower, upper, shape, dtype), out_sharding)
    key = check_key("truncated_normal", key)
    dtype = check_dtype("truncated_normal", dtype, "f")
    _check_width("truncated_normal", dtype)
    shape = common_shape("truncated_normal", shape, lower, upper)
    check_ranks("random.truncated_normal", [typeof(lower).shape, typeof(upper).shape])
    return compiled(_truncated_normal, shape, dtype)(key, lower, upper)


def _truncated_normal(shape: tuple[int, ...], dtype: np.dtype, key: PRNGKey, lower: Array, upper: Array) -> Array:
    root = np.array(np.sqrt(2), dtype)[()]
    lower, upper = (lax.convert_element_type(x, dtype) for x in (lower, upper))
    u = floats_between(shape, dtype, key, lax.erf(lax.div(lower, root)), lax.erf(lax.div(upper, root)))
    out = lax.mul(root, lax.erf_inv(u))
    # Rounding must not give numbers outside of the interval.
    first = lax.nextafter(lax.stop_gradient(lower), np.array(np.inf, dtype)[()])
    last = lax.nextafter(lax.stop_gradient(upper), np.array(-np.inf, dtype)[()])
    first, last = (lax.broadcast_to_rank(x, len(shape)) if typeof(x).shape else x for x in (first, last))
    return lax.min(lax.max(out, first), last)


# -- by a formula from uniform numbers ------------------------------------------------------------------------------

def _by_formula(caller: str, formula: Callable[..., Any], key: PRNGKey, shape: Any, dtype: DTypeLike | None) -> Array:
    key = check_key(caller, key)
    dtype = check_dtype(caller, dtype, "f")
    _check_width(caller, dtype)
    return compiled(formula, check_shape(caller, shape), dtype)(key)


def exponential(key: PRNGKey, shape: Sequence[int] = (), dtype: DTypeLike | None = None,
                *, out_sharding: object = None) -> Array:
    """Numbers of the exponential distribution with mean 1."""
    if out_sharding is not None:
        return constrained("random.exponential", exponential(key, shape, dtype), out_sharding)
    return _by_formula("exponential", exponential_floats, key, shape, dtype)


def exponential_floats(shape: tuple[int, ...], dtype: np.dtype, key: PRNGKey) -> Array:
    """Exponential numbers: minus the logarithm of uniform numbers."""
    return lax.neg(lax.log1p(lax.neg(unit_floats(shape, dtype, key))))


def cauchy(key: PRNGKey, shape: Sequence[int] = (), dtype: DTypeLike | None = None,
           *, out_sharding: object = None) -> Array:
    """Numbers of the standard Cauchy distribution."""
    if out_sharding is not None:
        return constrained("random.cauchy", cauchy(key, shape, dtype), out_sharding)
    return _by_formula("cauchy", _cauchy, key, shape, dtype)


def _cauchy(shape: tuple[int, ...], dtype: np.dtype, key: PRNGKey) -> Array:
    u = _literal_between(dtypes.finfo(dtype).eps, 1, shape, dtype, key)
    return lax.tan(lax.mul(dtype.type(np.pi), lax.sub(u, dtype.type(0.5))))


def laplace(key: PRNGKey, shape: Sequence[int] = (), dtype: DTypeLike | None = None,
            *, out_sharding: object = None) -> Array:
    """Numbers of the Laplace distribution with mean 0 and scale 1."""
    if out_sharding is not None:
        return constrained("random.laplace", laplace(key, shape, dtype), out_sharding)
    return _by_formula("laplace", _laplace, key, shape, dtype)


def _laplace(shape: tuple[int, ...], dtype: np.dtype, key: PRNGKey) -> Array:
    u = _literal_between(-1. + dtypes.finfo(dtype).epsneg, 1, shape, dtype, key)
    return lax.mul(lax.sign(u), lax.log1p(lax.neg(lax.abs(u))))


def logistic(key: PRNGKey, shape: Sequence[int] = (), dtype: DTypeLike | None = None,
             *, out_sharding: object = None) -> Array:
    """Numbers of the standard logistic distribution."""
    if out_sharding is not None:
        return constrained("random.logistic", logistic(key, shape, dtype), out_sharding)
    return _by_formula("logistic", _logistic, key, shape, dtype)


def _logistic(shape: tuple[int, ...], dtype: np.dtype, key: PRNGKey) -> Array:
    u = _literal_between(dtypes.finfo(dtype).tiny, 1, shape, dtype, key)
    return lax.sub(lax.log(u), lax.log1p(lax.neg(u)))


def gumbel(key: PRNGKey, shape: Sequence[int] = (), dtype: DTypeLike | None = None, mode: str | None = None,
           *, out_sharding: object = None) -> Array:
    """Numbers of the standard Gumbel distribution.

    Args: mode: "low" draws one float for each number; "high" draws two, for larger numbers in the tail; None: "low", or
      "high" with jax_high_dynamic_range_gumbel.
    """
    if out_sharding is not None:
        return constrained("random.gumbel", gumbel(key, shape, dtype, mode), out_sharding)
    return _by_formula("gumbel", gumbel_formula(mode), key, shape, dtype)


def gumbel_formula(mode: str | None) -> Callable[..., Any]:
    """The sampler `f(shape, dtype, key)` for a mode; None: by the option `jax_high_dynamic_range_gumbel`."""
    if mode is None:
        mode = "high" if config.high_dynamic_range_gumbel else "low"
    formula = {"low": _gumbel, "high": _fine_gumbel}.get(mode)
    if formula is None:
        raise bad("random.gumbel", f"unknown mode {mode!r}", given={"modes": "'low', 'high'"},
                  fix="pass one of them.", exc=ValueError)
    return formula


def _gumbel(shape: tuple[int, ...], dtype: np.dtype, key: PRNGKey) -> Array:
    u = _literal_between(dtypes.finfo(dtype).tiny, 1, shape, dtype, key)
    return lax.neg(lax.log(lax.neg(lax.log(u))))


def _fine_gumbel(shape: tuple[int, ...], dtype: np.dtype, key: PRNGKey) -> Array:
    info = dtypes.finfo(dtype)
    pair = unit_floats((2, *shape), dtype, key)
    high, low = (lax.squeeze(lax.slice_in_dim(pair, i, i + 1), (0,)) for i in (0, 1))
    # Below 1/2 floats have a finer resolution than `high`; the second number fills the additional digits.
    filled = lax.add(lax.add(high, lax.mul(dtype.type(2.0 ** -info.nmant), low)), dtype.type(info.tiny))
    u = lax.select(lax.ge(high, dtype.type(0.5)), high, filled)
    return lax.neg(lax.log(lax.neg(lax.log1p(lax.neg(u)))))
