"""Normalisation layers. The features are the last axis. All layers compute in float32 under `with_precision`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import xjax
import xjax.numpy as jnp
from xjax import lax
from xjax.errors import bad
from xjax.typing import Array, ArrayLike, Params
from xnn.checks import as_axes, as_row_mask, check_float, check_params, check_shape, check_state
from xnn.covariance.fixed import normalized
from xnn.inputs import ROW_MASK
from xnn.layer import Layer, StateFns, recorded
from xnn.precision import at_least_float32


@recorded()
def LayerNorm(axis: int | Sequence[int] = -1, *, epsilon: float = 1e-5, scale: bool = True, bias: bool = True) -> Layer:
    """Zero mean and unit variance over `axis` of each example (Ba et al., 2016).  Shape: any -> the same.

    Args: axis: the axes to normalise over, which are also the axes of the parameters; scale, bias: False leaves the
      parameter out.
    Params: ``{"scale": ones, "bias": zeros}`` with the sizes of `axis`. The defaults are PyTorch's.
    """
    axes = as_axes(axis)

    def init(rng, in_shape):
        in_shape = check_shape("LayerNorm", in_shape)
        sizes = tuple(in_shape[a] for a in sorted(a % len(in_shape) for a in axes))
        return in_shape, _affine(sizes, scale, bias)

    def apply(params, x, *, rng=None, train=False):
        x = check_float("LayerNorm", x)
        return _scaled("LayerNorm", params, _standardized(x, axes, epsilon), axes, scale, bias)

    def kernel_rule(kernel):
        every = set(range(1, kernel.positions + 2))
        over = {axis % (kernel.positions + 2) for axis in axes}
        if over not in ({max(every)}, every):
            raise bad("LayerNorm.kernel", "the kernel needs the features, or the features and all positions",
                      {"axis": axis}, "LayerNorm(), or LayerNorm(axis=(1, 2, -1)) for images.", ValueError)
        return normalized(kernel, epsilon, len(over) > 1, scale, bias, centered=True)

    return Layer(init, apply, "LayerNorm", computes_in="float32", positionwise=axes == (-1,), kernel_rule=kernel_rule)


@recorded()
def RMSNorm(*, epsilon: float = 1e-6, scale: bool = True, offset: float = 0.0) -> Layer:
    """Each example divided by the root of its mean square over the features (Zhang and Sennrich, 2019).

    Args: scale: False leaves the parameter out; offset: number that is added to the parameter, 1 in Gemma, where weight
      decay pulls the factor towards 1 and not towards 0.
    Params: ``{"scale": [features]}``, initially 1 - offset. The default epsilon is that of Llama.
    """

    def init(rng, in_shape):
        in_shape = check_shape("RMSNorm", in_shape)
        made = _affine(in_shape[-1:], scale, False)
        return in_shape, {name: value - offset for name, value in made.items()} if offset else made

    def apply(params, x, *, rng=None, train=False):
        x = check_float("RMSNorm", x, 1)
        wide = x.astype(at_least_float32(x.dtype))                 # squares of numbers above 256 overflow float16
        mean_square = jnp.mean(jnp.square(wide), -1, keepdims=True)
        y = wide * lax.rsqrt(mean_square + epsilon)
        if not offset:
            return _scaled("RMSNorm", params, y.astype(x.dtype), (-1,), scale, False)
        check_params("RMSNorm", params, x, scale=x.shape[-1:] if scale else None)
        # The sum is in float32, because bfloat16 has only 8 bits for it.
        shifted = {name: value.astype(wide.dtype) + offset for name, value in params.items()}
        return _scaled("RMSNorm", shifted, y, (-1,), scale, False).astype(x.dtype)

    def kernel_rule(kernel):
        return normalized(kernel, epsilon, False, scale, False)

    return Layer(init, apply, "RMSNorm", computes_in="float32", positionwise=True, kernel_rule=kernel_rule)


@recorded()
def GroupNorm(groups: int = 32, *, epsilon: float = 1e-5, scale: bool = True, bias: bool = True) -> Layer:
    """Zero mean and unit variance over all positions and the features of each group (Wu and He, 2018).

    Shape: [n, ..., features] -> the same.
    Args: groups: number of groups of adjacent features; it must divide the number of features.
    Inputs: row_mask: as in `BatchNorm`, such as bool [n, time] for sequences with padding.
    Params: ``{"scale": ones [features], "bias": zeros [features]}``.
    Raises: ValueError from `init` if the features do not divide into groups.
    """

    def init(rng, in_shape):
        in_shape = check_shape("GroupNorm", in_shape, min_rank=2)
        if in_shape[-1] % groups:
            raise bad("GroupNorm", "the features do not divide into groups of equal size",
                      {"in_shape": str(in_shape), "groups": groups}, f"pass a divisor of {in_shape[-1]}: "
                      f"GroupNorm({math.gcd(in_shape[-1], groups)}).", ValueError)
        return in_shape, _affine(in_shape[-1:], scale, bias)

    def apply(params, x, row_mask=None, *, rng=None, train=False):
        x = check_float("GroupNorm", x, 2)
        return _scaled("GroupNorm", params, _by_group("GroupNorm", x, groups, epsilon, row_mask), (-1,), scale, bias)

    return Layer(init, apply, "GroupNorm", computes_in="float32")


@recorded()
def InstanceNorm(*, epsilon: float = 1e-5, scale: bool = False, bias: bool = False) -> Layer:
    """Zero mean and unit variance of each feature over the positions of each example (Ulyanov et al., 2016).

    Shape: [n, ..., features] -> the same, with at least one axis of positions.
    Inputs: row_mask: as in `BatchNorm`, such as bool [n, time] for sequences with padding.
    Params: ``{}`` by default, as in PyTorch; else ``{"scale", "bias"}``, each [features].
    """

    def init(rng, in_shape):
        in_shape = check_shape("InstanceNorm", in_shape, min_rank=3)
        return in_shape, _affine(in_shape[-1:], scale, bias)

    def apply(params, x, row_mask=None, *, rng=None, train=False):
        x = check_float("InstanceNorm", x, 3)
        y = _by_group("InstanceNorm", x, x.shape[-1], epsilon, row_mask)
        return _scaled("InstanceNorm", params, y, (-1,), scale, bias)

    return Layer(init, apply, "InstanceNorm", computes_in="float32")


@recorded()
def BatchNorm(*, momentum: float = 0.1, epsilon: float = 1e-5, unbiased: bool = True, axis_name: str | None = None,
              scale: bool = True, bias: bool = True, scale_init: Callable | None = None) -> Layer:
    """Zero mean and unit variance of each feature over the batch and its positions (Ioffe and Szegedy, 2015).

    In evaluation it uses running statistics instead of those of the batch. Shape: [..., features] -> the same.

    Args:
      momentum: weight of the new batch in the running statistics, as in PyTorch. ``0.99`` in Flax and Keras is
        ``momentum=0.01`` here.
      unbiased: whether the running variance has Bessel's correction n / (n - 1), as in PyTorch; False: no correction,
        as in Flax. The batch itself is always normalised without the correction.
      axis_name: axis of a `pmap` whose devices share one batch.
      scale_init: initializer ``(key, shape) -> array`` of the scale; None: ones.
    Inputs: row_mask: bool of the leading axes of x, False for padding, which is left out of the statistics: ``[n]`` for
      x [n, features], such as `xnn.graph.Graph.node_mask`. None: all rows count. Layers and stacks on graphs pass it
      automatically, as `EncoderBlock` and `DecoderBlock` do; see also `xnn.graph.with_node_mask`. In a composite it is
      the last input. If other layers have a `mask` of the same rows, use ``renamed(BatchNorm(), row_mask="mask")``.
    Params: ``{"scale": ones, "bias": zeros}`` [features].  State: ``{"mean": zeros, "var": ones}`` [features].
    Raises: ValueError in training if each feature has only one value, because the variance is then unknown. With a mask
      that leaves fewer than two rows the running statistics do not change. TypeError for a mask of another shape or
      dtype.
    """
    if scale_init and not scale:
        raise bad("BatchNorm", "scale_init needs a scale", {"scale": "False", "scale_init": repr(scale_init)},
                  "leave out scale_init, or scale=False.")

    def init(rng, in_shape):
        in_shape = check_shape("BatchNorm", in_shape, min_rank=2)
        params = _affine(in_shape[-1:], scale, bias)
        return in_shape, {**params, "scale": scale_init(rng, in_shape[-1:])} if scale and scale_init else params

    def init_state(in_shape, rng=None):
        return {"mean": jnp.zeros(in_shape[-1:]), "var": jnp.ones(in_shape[-1:])}

    def with_moments(params, x, mean, var):
        wide = x.astype(at_least_float32(x.dtype))           # squares of numbers above 256 overflow float16
        y = (wide - _along_features(mean, x)) * _along_features(lax.rsqrt(var + epsilon), x)
        return _scaled("BatchNorm", params, y.astype(x.dtype), (-1,), scale, bias)

    def apply_with_state(params, state, x, row_mask=None, *, rng=None, train=False):
        x = check_float("BatchNorm", x, 2)
        check_state("BatchNorm", state, x, mean=x.shape[-1:], var=x.shape[-1:])
        mask = None if row_mask is None else as_row_mask("BatchNorm", x, row_mask)
        x = x if mask is None else jnp.where(mask[..., None], x, 0)          # padding may be NaN
        if not train:
            return with_moments(params, x, state["mean"], state["var"]), state
        before = state
        if mask is None and axis_name is None:
            y, mean, var, n = _of_batch(params, x, epsilon, scale, bias)
        else:
            wide = x.astype(at_least_float32(x.dtype))
            mean, var, n = _batch_moments(wide, axis_name) if mask is None else _masked_moments(wide, mask, axis_name)
            y = with_moments(params, x, mean, var)
        ratio = n / (n - 1) if mask is None else (n / jnp.maximum(n - 1, 1)).astype(var.dtype)
        running = var * ratio if unbiased else var
        state = {"mean": _moved(before["mean"], mean, momentum), "var": _moved(before["var"], running, momentum)}
        state = state if mask is None else {key: jnp.where(n > 1, state[key], before[key]) for key in state}
        return y, state

    return Layer(init, None, "BatchNorm", (ROW_MASK,),
                 state=StateFns(init_state, apply_with_state), computes_in="float32", positionwise=True)


def _of_batch(params: Params, x: Array, epsilon: float, scale: bool, bias: bool) -> tuple[Any, Any, Any, int]:
    """(x normalised, and of each feature mean, biased variance and number of values)."""
    n, axes = _checked_count(x, 1), tuple(range(x.ndim - 1))
    check_params("BatchNorm", params, x, scale=x.shape[-1:] if scale else None, bias=x.shape[-1:] if bias else None)
    wide = x.astype(at_least_float32(x.dtype))
    fits = x.dtype == wide.dtype and all(jnp.asarray(value).dtype == x.dtype for value in params.values())
    factors = [jnp.expand_dims(params[name], axes) if fits and name in params else None for name in ("scale", "bias")]
    y, mean, var = _standardize(wide, *factors, axes, epsilon)
    if not fits:
        y = _scaled("BatchNorm", params, y.astype(x.dtype), (-1,), scale, bias)
    return y, jnp.ravel(mean), jnp.ravel(var), n


def _batch_moments(x: Array, axis_name: str | None) -> tuple[Any, Any, int]:
    """(Mean, biased variance, number of values) of each feature over the devices, in two passes."""
    axes, n = tuple(range(x.ndim - 1)), _checked_count(x, lax.axis_size(axis_name))
    mean = lax.pmean(jnp.mean(x, axes), axis_name)
    return mean, lax.pmean(jnp.mean(jnp.square(x - _along_features(mean, x)), axes), axis_name), n


def _checked_count(x: Array, devices: int) -> int:
    n = math.prod(x.shape[:-1]) * devices
    if n < 2:
        raise bad("BatchNorm", "training needs more than one value of each feature", {"x": str(x.shape)},
                  fix="train on a larger batch, or use LayerNorm or GroupNorm.", exc=ValueError)
    return n


def _masked_moments(x: Array, mask: Array, axis_name: str | None) -> tuple[Any, Any, Any]:
    """As `_batch_moments`, for the rows where the mask is True; x must be 0 in the others."""
    axes, over_devices = tuple(range(x.ndim - 1)), lambda v: v if axis_name is None else lax.psum(v, axis_name)
    n = over_devices(jnp.sum(mask, dtype=x.dtype))
    mean = over_devices(jnp.sum(x, axes)) / jnp.maximum(n, 1)
    apart = jnp.where(mask[..., None], x - _along_features(mean, x), 0)
    return mean, over_devices(jnp.sum(jnp.square(apart), axes)) / jnp.maximum(n, 1), n


def _moved(running: Array, new: Array, momentum: float) -> Array:
    return ((1 - momentum) * running.astype(new.dtype) + momentum * new).astype(running.dtype)


def _by_group(caller: str, x: Array, groups: int, epsilon: float, row_mask: ArrayLike | None) -> Array:
    mask = None if row_mask is None else as_row_mask(caller, x, row_mask)[..., None, None]
    split = jnp.reshape(x, (*x.shape[:-1], groups, x.shape[-1] // groups))
    axes = (*range(1, x.ndim - 1), x.ndim)                             # positions, and the features of a group
    return jnp.reshape(_standardized(split, axes, epsilon, mask), x.shape)


def _standardized(x: Array, axes: Sequence[int], epsilon: float, mask: Array | None = None) -> Array:
    """Zero mean and unit variance over `axes`, for the elements where the mask is True."""
    wide = x.astype(at_least_float32(x.dtype))                     # squares of numbers above 256 overflow float16
    if mask is None:
        return _standardize(wide, None, None, tuple(axes), epsilon)[0].astype(x.dtype)

    def mean(v: Array) -> Array:
        n = jnp.sum(jnp.broadcast_to(mask, v.shape), axes, keepdims=True, dtype=v.dtype)
        return jnp.sum(v, axes, keepdims=True) / jnp.maximum(n, 1)

    wide = jnp.where(mask, wide, 0)                                # padding may be NaN
    centered = jnp.where(mask, wide - mean(wide), 0)
    return (centered * lax.rsqrt(mean(jnp.square(centered)) + epsilon)).astype(x.dtype)


# -- zero mean and unit variance -----------------------------------------------------------------------------------

@functools.partial(xjax.custom_jvp, nondiff_argnums=(3, 4))
def _standardize(x: Array, scale: Array | None, bias: Array | None, axes: Sequence[int],
                 epsilon: float) -> tuple[Array, Array, Array]:
    """(``scale * (x - mean) / sqrt(var + epsilon) + bias``, mean, biased variance), with moments over `axes` of x.

    The moments are computed in two passes, because E[x²] - E[x]² cancels. The chain rule would give a derivative with
    five sums over the axes, of arrays that are stored for them. This one (Ioffe and Szegedy, 2015), with
    ``k = scale / sqrt(var + epsilon)``,

        d(scale y + bias) = k dx - k mean(dx) - k mean(y dx) y + y d(scale) + d(bias)

    has two sums in its transpose: of the cotangent, and of the cotangent times y. The gradients of bias and scale have
    the same two. The computed mean of y is not 0 but the error of the mean of x; without it, large means of x would
    make gradients wrong.

    Args:
      x: float[...], at least float32.
      scale, bias: arrays of the rank of x, of size 1 along `axes`; None: 1 and 0.
    Returns: an array with the shape of x, and the moments, of size 1 along `axes`.

    >>> y, mean, var = _standardize(jnp.array([[1.0, 3.0]]), None, None, (1,), 0.0)
    >>> y.tolist(), mean.tolist(), var.tolist()
    ([[-1.0, 1.0]], [[2.0]], [[1.0]])
    """
    mean = jnp.mean(x, axes, keepdims=True)
    centered = x - mean
    var = jnp.mean(jnp.square(centered), axes, keepdims=True)
    y = centered * lax.rsqrt(var + epsilon)
    y = y if scale is None else y * scale
    return y if bias is None else y + bias, mean, var


@_standardize.defjvp
def _standardize_jvp(axes: Sequence[int], epsilon: float, primals: tuple, tangents: tuple) -> tuple[Any, Any]:
    (x, scale, bias), (dx, dscale, dbias) = primals, tangents
    out, mean, var = _standardize(x, scale, bias, axes, epsilon)
    factor = lax.rsqrt(var + epsilon)
    y = (x - mean) * factor
    by_scale = factor if scale is None else factor * scale
    dmean, error = jnp.mean(dx, axes, keepdims=True), jnp.mean(y, axes, keepdims=True)
    covariance = jnp.mean(y * dx, axes, keepdims=True) - error * dmean
    dout = dx * by_scale - dmean * by_scale - (y - error) * (covariance * by_scale)
    dout = dout if scale is None else dout + y * dscale
    dout = dout if bias is None else dout + dbias
    return (out, mean, var), (dout, dmean, 2 * covariance / factor)


# -- parameters ----------------------------------------------------------------------------------------------------

def _affine(sizes: Sequence[int], scale: bool, bias: bool) -> dict[str, Any]:
    return {**({"scale": jnp.ones(sizes)} if scale else {}), **({"bias": jnp.zeros(sizes)} if bias else {})}


def _along_features(v: Array, x: Array) -> Array:
    return jnp.broadcast_to(v, x.shape)


def _scaled(caller: str, params: Params, x: Array, axes: Sequence[int], scale: bool, bias: bool) -> Array:
    """``scale * x + bias``, with parameters along `axes` of x."""
    axes = sorted(a % x.ndim for a in axes)
    sizes, others = tuple(x.shape[a] for a in axes), [a for a in range(x.ndim) if a not in axes]
    check_params(caller, params, x, scale=sizes if scale else None, bias=sizes if bias else None)
    for name, combine in (("scale", jnp.multiply), ("bias", jnp.add)):
        if name in params:
            x = combine(x, jnp.broadcast_to(jnp.expand_dims(params[name], others), x.shape))
    return x
