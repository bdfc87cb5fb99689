"""Initial values of weights: initializers `init(key, shape, dtype) -> array`, and functions that return one.

A weight's shape ends in (inputs, outputs) unless `in_axis` and `out_axis` are given; further axes are the window of a
convolution, whose size multiplies both numbers. The values equal JAX's, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

import xjax.numpy as jnp
from xjax import lax, random
from xjax.core import dtypes
from xjax.core.calls import constrained
from xjax.core.errors import bad, check_choice
from xjax.core.public import attributes_of
from xjax.ops.checks import static_int
from xjax.typing import Array, ArrayLike, DTypeLike, PRNGKey

__all__ = [
    "Initializer", "constant", "delta_orthogonal", "glorot_normal", "glorot_uniform", "he_normal",
    "he_uniform", "kaiming_normal", "kaiming_uniform", "lecun_normal", "lecun_uniform", "normal",
    "ones", "orthogonal", "truncated_normal", "uniform", "variance_scaling", "xavier_normal",
    "xavier_uniform", "zeros",
]

Axes = int | Sequence[int]


@runtime_checkable
class Initializer(Protocol):
    """A function that makes the initial value of a weight.

    The initializers of this module whose entries have mean 0 have a second function, `variance`: ``(shape) -> variance
    of an entry``. `xnn` computes kernels of infinitely wide networks from it.
    """

    def __call__(self, key: PRNGKey, shape: Sequence[int], dtype: DTypeLike | None = None,
                 out_sharding: object = None) -> Array:
        """An array of this shape (dtype None: the initializer's own, else the default float).

        Args: out_sharding: a NamedSharding, or a PartitionSpec over the mesh, to which the array is constrained.
        """
        ...


def _float(dtype: DTypeLike | None) -> np.dtype:
    return dtypes.canonicalize_dtype(float) if dtype is None else dtypes.user_dtype(dtype, "nn.initializers")


def _centered(init: Initializer, variance: Callable[[Sequence[int]], ArrayLike]) -> Initializer:
    """The initializer, whose entries have mean 0, with the variance of an entry as a function of the shape."""
    init.variance = variance                                        # type: ignore[attr-defined]
    return init


# -- constants ----------------------------------------------------------------------------------------------------

def zeros(key: PRNGKey, shape: Sequence[int], dtype: DTypeLike | None = None, out_sharding: object = None) -> Array:
    """An array of zeros; the key is not used."""
    if out_sharding is not None:
        return constrained("nn.initializers.zeros", zeros(key, shape, dtype), out_sharding)
    return jnp.zeros(shape, _float(dtype))


_centered(zeros, lambda shape: 0.0)


def ones(key: PRNGKey, shape: Sequence[int], dtype: DTypeLike | None = None, out_sharding: object = None) -> Array:
    """An array of ones; the key is not used."""
    if out_sharding is not None:
        return constrained("nn.initializers.ones", ones(key, shape, dtype), out_sharding)
    return jnp.ones(shape, _float(dtype))


def constant(value: ArrayLike, dtype: DTypeLike | None = None) -> Initializer:
    """Arrays filled with `value`, which broadcasts to the shape."""
    def init(key: PRNGKey, shape: Sequence[int], dtype: DTypeLike | None = dtype, out_sharding: object = None) -> Array:
        if out_sharding is not None:
            return constrained("nn.initializers", init(key, shape, dtype), out_sharding)
        return jnp.full(shape, value, _float(dtype))

    return init


# -- one distribution ---------------------------------------------------------------------------------------------

def _scaled(draw: Callable, scale: ArrayLike, default: DTypeLike | None) -> Initializer:
    """Numbers drawn by `draw(key, shape, dtype)`, times `scale`."""
    def init(key: PRNGKey, shape: Sequence[int], dtype: DTypeLike | None = default,
             out_sharding: object = None) -> Array:
        if out_sharding is not None:
            return constrained("nn.initializers", init(key, shape, dtype), out_sharding)
        dtype = _float(dtype)
        return draw(key, shape, dtype) * jnp.asarray(scale, dtype)

    return init


def uniform(scale: ArrayLike = 1e-2, dtype: DTypeLike | None = None) -> Initializer:
    """Numbers spread evenly over [0, scale)."""
    return _scaled(random.uniform, scale, dtype)


def normal(stddev: ArrayLike = 1e-2, dtype: DTypeLike | None = None) -> Initializer:
    """Normal numbers with mean 0 and this standard deviation."""
    def init(key: PRNGKey, shape: Sequence[int], dtype: DTypeLike | None = dtype, out_sharding: object = None) -> Array:
        if out_sharding is not None:
            return constrained("nn.initializers", init(key, shape, dtype), out_sharding)
        dtype = _float(dtype)
        return _scaled_normal(key, shape, dtype, jnp.asarray(stddev, dtype))

    return _centered(init, lambda shape: stddev * stddev)


def _scaled_normal(key: PRNGKey, shape: Sequence[int], dtype: DTypeLike, scale: Array) -> Array:
    """``random.normal`` times `scale`, rounded as in JAX from 0.12 on: the two factors are multiplied first."""
    if not dtypes.is_float(dtype):
        return random.normal(key, shape, dtype) * scale
    lowest = np.nextafter(np.array(-1, dtype), np.array(0, dtype), dtype=dtype)
    uniform = random.uniform(key, shape, dtype, lowest, np.array(1, dtype))
    return jnp.asarray(np.sqrt(2), dtype) * scale * lax.erf_inv(uniform)


def truncated_normal(stddev: ArrayLike = 1e-2, dtype: DTypeLike | None = None, lower: ArrayLike = -2.0,
                     upper: ArrayLike = 2.0) -> Initializer:
    """`stddev` times standard normal numbers truncated to [lower, upper], whose standard deviation is below 1."""
    def draw(key: PRNGKey, shape: Sequence[int], dtype: DTypeLike) -> Array:
        return random.truncated_normal(key, lower, upper, shape, dtype)

    init = _scaled(draw, stddev, dtype)
    if isinstance(upper, int | float) and lower == -upper:
        _centered(init, lambda shape: _truncated_variance(upper) * stddev * stddev)
    return init


def _truncated_variance(bound: float) -> float:
    """The variance of a standard normal number that is restricted to [-bound, bound]."""
    density = math.exp(-bound * bound / 2) / math.sqrt(2 * math.pi)
    return 1 - 2 * bound * density / math.erf(bound / math.sqrt(2))


# -- by the number of inputs and outputs ----------------------------------------------------------------------------

def variance_scaling(scale: ArrayLike, mode: str, distribution: str, in_axis: Axes = -2, out_axis: Axes = -1,
                     batch_axis: Axes = (), dtype: DTypeLike | None = None) -> Initializer:
    """Numbers with mean 0 and variance ``scale / n``.

    Args:
      mode: the meaning of n: "fan_in", the inputs of a unit; "fan_out", its outputs; "fan_avg", their mean;
        "fan_geo_avg", their geometric mean.
      distribution: "uniform", "normal" or "truncated_normal" (normal, truncated at two standard deviations and rescaled
        to this variance).
      in_axis, out_axis, batch_axis: axes of the weight for the inputs, the outputs, and neither.
    Raises: ValueError for an unknown mode or distribution, or (by the initializer) for a shape of fewer than 2 axes.
    """
    for name, value, choices in (("mode", mode, _FANS), ("distribution", distribution, _DRAWS)):
        check_choice("nn.initializers.variance_scaling", name, value, choices)

    def init(key: PRNGKey, shape: Sequence[int], dtype: DTypeLike | None = dtype, out_sharding: object = None) -> Array:
        if out_sharding is not None:
            return constrained("nn.initializers", init(key, shape, dtype), out_sharding)
        shape = tuple(static_int(n, "shape", "nn.initializers") for n in shape)
        dtype = _float(dtype)
        n = _FANS[mode](*_fans(shape, in_axis, out_axis, batch_axis))
        return _DRAWS[distribution](key, shape, dtype, jnp.asarray(scale / n, dtype))

    return _centered(init, lambda shape: scale / _FANS[mode](*_fans(tuple(shape), in_axis, out_axis, batch_axis)))


def _fans(shape: tuple[int, ...], in_axis: Axes, out_axis: Axes, batch_axis: Axes) -> tuple[float, float]:
    """Number of inputs and outputs of a unit, each times the size of the window."""
    if len(shape) < 2 and isinstance(in_axis, int) and in_axis == -2:
        raise bad("nn.initializers", f"a weight with {len(shape)} axes has no inputs and outputs to count",
                  given={"shape": str(shape)}, fix="give it at least 2 axes, or name in_axis.", exc=ValueError)
    n_in, n_out, n_batch = (_product(shape, axes) for axes in (in_axis, out_axis, batch_axis))
    window = math.prod(shape) / n_in / n_out / n_batch
    return n_in * window, n_out * window


def _product(shape: tuple[int, ...], axes: Axes) -> int:
    return shape[axes] if isinstance(axes, int) else math.prod(shape[a] for a in axes)


_FANS: dict[str, Callable[[float, float], float]] = {
    "fan_in": lambda n_in, n_out: n_in,
    "fan_out": lambda n_in, n_out: n_out,
    "fan_avg": lambda n_in, n_out: (n_in + n_out) / 2,
    "fan_geo_avg": lambda n_in, n_out: (n_in * n_out) ** 0.5,
}


def _draw_truncated(key: PRNGKey, shape: tuple[int, ...], dtype: np.dtype, variance: Array) -> Array:
    if dtypes.is_complex(dtype):
        part = _part(dtype)
        key_r, key_angle = random.split(key)
        inside = 1 - jnp.exp(jnp.asarray(-4, dtype))               # |z| < 2 holds with this probability
        share = inside * random.uniform(key_r, shape, part).astype(dtype)
        sample = _polar(jnp.sqrt(-jnp.log(1 - share)), key_angle, shape, dtype)
        return sample * (jnp.sqrt(variance) / jnp.asarray(_COMPLEX_DEVIATION, dtype))
    sample = random.truncated_normal(key, -2, 2, shape, dtype)
    return sample * (jnp.sqrt(variance) / jnp.asarray(_REAL_DEVIATION, dtype))


# Standard deviation of a normal number restricted to (-2, 2), and of a complex one restricted to a modulus below 2.
_REAL_DEVIATION, _COMPLEX_DEVIATION = 0.87962566103423978, 0.95311164380491208


def _draw_normal(key: PRNGKey, shape: tuple[int, ...], dtype: np.dtype, variance: Array) -> Array:
    return _scaled_normal(key, shape, dtype, jnp.sqrt(variance))


def _draw_uniform(key: PRNGKey, shape: tuple[int, ...], dtype: np.dtype, variance: Array) -> Array:
    if dtypes.is_complex(dtype):                                    # evenly over the unit disk
        key_r, key_angle = random.split(key)
        radius = jnp.sqrt(2 * random.uniform(key_r, shape, _part(dtype))).astype(dtype)
        return _polar(radius, key_angle, shape, dtype) * jnp.sqrt(variance)
    return random.uniform(key, shape, dtype, -1) * jnp.sqrt(3 * variance)


def _part(dtype: np.dtype) -> np.dtype:
    return np.empty(0, dtype).real.dtype


def _polar(radius: Array, key: PRNGKey, shape: tuple[int, ...], dtype: np.dtype) -> Array:
    """Complex numbers of this modulus and a random angle."""
    angle = 2 * np.pi * random.uniform(key, shape, _part(dtype)).astype(dtype)
    return radius * jnp.exp(1j * angle)


_DRAWS: dict[str, Callable] = {"truncated_normal": _draw_truncated, "normal": _draw_normal, "uniform": _draw_uniform}


def _named(name: str, scale: float, mode: str, distribution: str, doc: str) -> Callable[..., Initializer]:
    """`variance_scaling` with its first three arguments fixed."""
    def maker(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (),
              dtype: DTypeLike | None = None) -> Initializer:
        return variance_scaling(scale, mode, distribution, in_axis, out_axis, batch_axis, dtype)

    maker.__name__ = maker.__qualname__ = name
    maker.__doc__ = f"{doc}: ``variance_scaling({scale}, {mode!r}, {distribution!r})``."
    return maker


glorot_uniform = _named("glorot_uniform", 1.0, "fan_avg", "uniform", "Glorot & Bengio 2010")
glorot_normal = _named("glorot_normal", 1.0, "fan_avg", "truncated_normal", "Glorot & Bengio 2010")
lecun_uniform = _named("lecun_uniform", 1.0, "fan_in", "uniform", "LeCun et al. 1998")
lecun_normal = _named("lecun_normal", 1.0, "fan_in", "truncated_normal", "LeCun et al. 1998")
he_uniform = _named("he_uniform", 2.0, "fan_in", "uniform", "He et al. 2015")
he_normal = _named("he_normal", 2.0, "fan_in", "truncated_normal", "He et al. 2015")
xavier_uniform, xavier_normal = glorot_uniform, glorot_normal
kaiming_uniform, kaiming_normal = he_uniform, he_normal


# -- orthogonal ---------------------------------------------------------------------------------------------------

def orthogonal(scale: ArrayLike = 1.0, column_axis: int = -1, dtype: DTypeLike | None = None) -> Initializer:
    """Matrices with orthonormal columns (or rows, whichever are fewer), uniformly distributed, times `scale`.

    Args: column_axis: the axis of the columns; all other axes together are the rows.
    Raises: ValueError (by the initializer) for a shape of fewer than 2 axes.

    >>> w = orthogonal()(random.PRNGKey(0), (3, 2))
    >>> np.allclose(w.T @ w, np.eye(2), atol=1e-6)
    True
    """
    def init(key: PRNGKey, shape: Sequence[int], dtype: DTypeLike | None = dtype, out_sharding: object = None) -> Array:
        if out_sharding is not None:
            return constrained("nn.initializers", init(key, shape, dtype), out_sharding)
        dtype = _float(dtype)
        if len(shape) < 2:
            raise bad("nn.initializers.orthogonal", f"a weight with {len(shape)} axes is not a matrix",
                      given={"shape": str(tuple(shape))}, fix="give it at least 2 axes.", exc=ValueError)
        if not math.prod(shape):
            return jnp.zeros(shape, dtype)
        columns = shape[column_axis]
        rest = list(shape)
        del rest[column_axis]
        matrix = random.orthogonal(key, math.prod(rest), (), dtype, columns).reshape(*rest, columns)
        return jnp.asarray(scale, dtype) * jnp.moveaxis(matrix, -1, column_axis)

    def variance(shape):
        columns = shape[column_axis]
        return scale * scale / max(columns, math.prod(shape) // columns)

    return _centered(init, variance)


def delta_orthogonal(scale: ArrayLike = 1.0, column_axis: int = -1, dtype: DTypeLike | None = None) -> Initializer:
    """Convolution kernels that are an orthogonal matrix in the middle of the window and zero elsewhere (1806.05393).

    The shape is (window..., inputs, outputs), with 1 to 3 window axes and at most as many inputs as outputs.

    Raises: ValueError (by the initializer) for another shape.
    """
    def init(key: PRNGKey, shape: Sequence[int], dtype: DTypeLike | None = dtype, out_sharding: object = None) -> Array:
        if out_sharding is not None:
            return constrained("nn.initializers", init(key, shape, dtype), out_sharding)
        dtype = _float(dtype)
        *window, n_in, n_out = shape
        if len(window) not in (1, 2, 3) or n_in > n_out:
            raise bad("nn.initializers.delta_orthogonal", "the shape must be (window..., inputs, outputs), with 1 to 3 "
                      "axes of the window and inputs <= outputs", given={"shape": str(tuple(shape))},
                      fix="use orthogonal for matrices, or lecun_normal.", exc=ValueError)
        if not math.prod(shape):
            return jnp.zeros(shape, dtype)
        middle = tuple((n - 1) // 2 for n in window)
        return jnp.zeros(shape, dtype).at[middle].set(orthogonal(scale, column_axis)(key, (n_in, n_out), dtype))

    return init


__getattr__ = attributes_of(__name__)
