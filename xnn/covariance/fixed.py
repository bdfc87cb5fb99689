"""The kernels of layers without random weights: fixed linear maps of positions, Flatten, normalization, Dropout, noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import singledispatch
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import ShapeDtypeStruct
from xjax.errors import bad
from xjax.typing import Array, ArrayLike
from xnn.checks import as_row_mask
from xnn.covariance.affine import against_covariances, same_position, same_value
from xnn.covariance.kernel import Kernel, NeedsPairs, Pair, Rule, new_weights


@singledispatch
def on_positions(kernel: Kernel, linear: Callable[[Array], Array], second: Callable[[Array], Array] | None = None,
                 ) -> Kernel:
    """The kernel after a fixed linear map of the positions, which is applied to both positions of each covariance.

    Args:
      linear: the map, of arrays [batch, *positions, features]; it keeps the features.
      second: the map for the positions of x2, if it is another one.
    """
    if not kernel.pairs:
        raise NeedsPairs("covariances")
    maps = (linear, second or linear)
    left = 0

    def both(values: Array, batch: int, maps: Sequence[Callable[[Array], Array]]) -> Array:
        nonlocal left
        n, p = values.shape[:batch], kernel.positions
        first, other = values.shape[batch:batch + p], values.shape[batch + p:]
        flat = maps[0](jnp.reshape(values, (_size(n), *first, _size(other))))           # [n, *new first, other]
        new_first = flat.shape[1:-1]
        flat = jnp.reshape(flat, (_size(n), _size(new_first), *other))
        flat = maps[1](jnp.moveaxis(flat, 1, -1))                                       # [n, *new other, new first]
        left = flat.ndim - 2
        return jnp.reshape(jnp.moveaxis(flat, -1, 1), (*n, *new_first, *flat.shape[1:-1]))

    def variance(values: Array | None, at: int) -> Array | None:
        return both(values, 1, (maps[at],) * 2) if values is not None and kernel.variance_pairs else None

    nngp = both(kernel.nngp, 2, maps)
    return kernel.replace(nngp=nngp, ntk=None if kernel.ntk is None else both(kernel.ntk, 2, maps),
                          var1=variance(kernel.var1, 0), var2=variance(kernel.var2, 1), positions=left)


@singledispatch
def scaled_positions(kernel: Kernel, factors: Pair) -> Kernel:
    """The kernel after a product of the values at each position with a number.

    Args: factors: arrays of the shapes `Kernel.rows`, for x1 and for x2.
    """

    def scaled(values: Array | None, batch: int, pairs: bool, one: Array, other: Array) -> Array | None:
        if values is None:
            return None
        one, other = against_covariances(one, other, batch, pairs)
        return values * one * other

    one, other = factors
    return kernel.replace(
        nngp=scaled(kernel.nngp, 2, kernel.pairs, one, other), ntk=scaled(kernel.ntk, 2, kernel.pairs, one, other),
        var1=scaled(kernel.var1, 1, kernel.variance_pairs, one, one),
        var2=scaled(kernel.var2, 1, kernel.variance_pairs, other, other))


def row_masks(caller: str, x: Any, row_mask: Pair) -> Pair:
    """The row masks of x1 and x2 as numbers 1 and 0, of the shapes `Kernel.rows`.

    Args: x: a `Kernel`, or a value that takes its place.
    Raises: TypeError for a mask of another shape or dtype.
    """
    dtype = x.nngp.dtype
    return Pair(*(as_row_mask(caller, ShapeDtypeStruct((*rows, x.features), dtype), mask).astype(dtype)
                  for rows, mask in zip(x.rows, row_mask, strict=True)))


def linear_rule(apply: Callable) -> Rule:
    """The rule of a layer without parameters whose `apply` is a linear map of the positions."""
    return lambda kernel: on_positions(kernel, lambda x: apply((), x))


def on_nodes(kernel: Kernel, propagate: Callable[[Any, Array], Array], graph: Pair) -> Kernel:
    """The kernel after a linear map of the nodes, which are the positions.

    Args: propagate: ``(graph, x) -> y`` of node features x [n, f].
    """
    if not kernel.options.rows:
        raise NeedsPairs("rows")
    return on_positions(kernel, *(lambda x, one=one: propagate(one, x[0])[None] for one in graph))


def _size(shape: Sequence[int]) -> int:
    return int(np.prod(shape, dtype=int))


@singledispatch
def flattened(kernel: Kernel) -> Kernel:
    """The kernel of all positions as features: the mean of the covariances of equal positions."""
    if not kernel.positions:
        return kernel
    sizes = kernel.nngp.shape[2:2 + kernel.positions]
    if kernel.pairs and sizes != kernel.nngp.shape[2 + kernel.positions:]:
        raise bad("Flatten.kernel", "x1 and x2 have different numbers of positions",
                  {"positions": f"{sizes} and {kernel.nngp.shape[2 + kernel.positions:]}"},
                  "pool the positions: GlobalAvgPool().", ValueError)
    n = _size(sizes)

    def change(values: Array, batch: int, pairs: bool) -> Array:
        shape = values.shape[:batch]
        if not pairs:
            return jnp.mean(jnp.reshape(values, (*shape, n)), -1)
        return jnp.trace(jnp.reshape(values, (*shape, n, n)), axis1=batch, axis2=batch + 1) / n

    return kernel.each(change, features=kernel.features * n, positions=0, gaussian=False)


@singledispatch
def reshaped(kernel: Kernel, caller: str, sizes_of: Callable[[tuple[int, ...]], tuple[int, ...]]) -> Kernel:
    """The kernel after a new shape of the positions, or of the positions and features together if none are left.

    Args: sizes_of: the shape of an input, [n, *positions, features], to that of the output.
    Raises: ValueError if features and positions are mixed.
    """
    shapes = [sizes_of((*rows, kernel.features)) for rows in kernel.rows]
    if all(len(shape) == 2 for shape in shapes):
        return flattened(kernel)
    if any(shape[-1] != kernel.features for shape in shapes):
        raise bad(f"{caller}.kernel", "a new shape that mixes positions and features has no kernel",
                  {"features": f"{kernel.features}, then {shapes[0][-1]}"},
                  "keep the number of features, or make all values features, as Flatten does.", ValueError)
    first, second = (shape[1:-1] for shape in shapes)

    def change(values: Any, batch: int, sizes: tuple[int, ...]) -> Any:
        return None if values is None else jnp.reshape(values, (*values.shape[:batch], *sizes))

    between = (*first, *second) if kernel.pairs else first
    return kernel.replace(nngp=change(kernel.nngp, 2, between), ntk=change(kernel.ntk, 2, between),
                          var1=change(kernel.var1, 1, first * (1 + kernel.variance_pairs)),
                          var2=change(kernel.var2, 1, second * (1 + kernel.variance_pairs)), positions=len(first))


@singledispatch
def normalized(kernel: Kernel, epsilon: float, over_positions: bool, scale: bool, bias: bool,
               centered: bool = False) -> Kernel:
    """The kernel after a division by the root mean square of the features, and with `over_positions` of all positions.

    Args:
      scale, bias: whether the layer has a factor and a bias for each feature, initially 1 and 0.
      centered: whether the mean over the features is subtracted first; it must be 0 in the limit.
    """
    if centered and not kernel.gaussian:
        raise bad("LayerNorm.kernel", "the mean over the features is not 0 for values after a nonlinear function",
                  fix="put LayerNorm after a layer with random weights, or use RMSNorm.", exc=ValueError)
    at1, at2 = kernel.variances()
    if over_positions:
        axes = tuple(range(1, at1.ndim))
        at1, at2 = (jnp.broadcast_to(jnp.mean(at, axes, keepdims=True), at.shape) for at in (at1, at2))
    root1, root2 = (jnp.sqrt(at + epsilon) for at in (at1, at2))

    def divided(values: Array, batch: int, pairs: bool, one: Array, other: Array) -> Array:
        one, other = against_covariances(one, other, batch, pairs)
        return values / (one * other)

    nngp = divided(kernel.nngp, 2, kernel.pairs, root1, root2)
    ntk = None if kernel.ntk is None else divided(kernel.ntk, 2, kernel.pairs, root1, root2)
    var1 = divided(kernel.var1, 1, kernel.variance_pairs, root1, root1)
    var2 = None if kernel.var2 is None else divided(kernel.var2, 1, kernel.variance_pairs, root2, root2)
    after = kernel.replace(nngp=nngp, ntk=ntk, var1=var1, var2=var2)
    after = with_scale(after, 1.0) if scale else after
    return with_bias(after, 0.0) if bias else after


# -- a parameter for each feature --------------------------------------------------------------------------------------


@singledispatch
def with_scale(kernel: Kernel, value: ArrayLike) -> Kernel:
    """The kernel after a factor for each feature, a parameter with this initial value."""
    after = kernel.each(lambda values, batch, pairs: values * value * value)     # type: ignore[operator]
    return after if after.ntk is None else after.replace(ntk=after.ntk + kernel.nngp)


@singledispatch
def with_bias(kernel: Kernel, variance: ArrayLike) -> Kernel:
    """The kernel after a bias for each feature, a parameter with mean 0 and this variance before training."""
    after = kernel.each(lambda values, batch, pairs: values + variance, weights=kernel.weights | new_weights())
    if kernel.ntk is None:
        return after
    own = 1.0 if kernel.options.parameterization == "standard" else variance
    return after.replace(ntk=kernel.ntk + own)


# -- noise -------------------------------------------------------------------------------------------------------------


@singledispatch
def dropped(kernel: Kernel, rate: float) -> Kernel:
    """The kernel after Dropout: in training, the variance of a value is larger, its covariances are as before."""
    if not (kernel.options.train and rate):
        return kernel
    after = _at_same_values(kernel, lambda values: values / (1 - rate), of_ntk=True)
    return after.replace(gaussian=False)


@singledispatch
def noisy(kernel: Kernel, variance: float) -> Kernel:
    """The kernel after the addition of independent Gaussian noise to each value, in training."""
    return _at_same_values(kernel, lambda values: values + variance) if kernel.options.train and variance else kernel


def in_evaluation(name: str, is_active: bool) -> Rule:
    """The rule of a layer that is the identity in evaluation and that has no kernel in training.

    For many features, products of the values then have no limit, or the values have another mean than 0.
    Args: is_active: whether the layer does anything in training.
    """

    def rule(kernel: Any) -> Any:
        if kernel.options.train and is_active:
            raise bad(f"{name}.kernel", "the layer has a kernel in evaluation only", {"train": True},
                      "leave out `train`, or take Dropout in its place.", ValueError)
        return kernel

    return rule


def _at_same_values(kernel: Kernel, change: Callable[[Array], Array], of_ntk: bool = False) -> Kernel:
    """The kernel with its variances changed: the covariances of one value of one example with itself."""

    def changed(values: Array | None, equal: Array | bool) -> Any:
        return None if values is None else jnp.where(equal, change(values), values)

    def of_variance(values: Array | None) -> Any:
        pairs = kernel.variance_pairs and kernel.positions
        equal = same_position(values.shape, 1, kernel.positions) if values is not None and pairs else True
        return changed(values, equal)

    equal = same_value(kernel)
    equal = False if equal is None else equal
    return kernel.replace(nngp=changed(kernel.nngp, equal), ntk=changed(kernel.ntk, equal) if of_ntk else kernel.ntk,
                          var1=of_variance(kernel.var1), var2=of_variance(kernel.var2))


# -- positions ---------------------------------------------------------------------------------------------------------


def with_random_positions(kernel: Kernel, variance: ArrayLike) -> Kernel:
    """The kernel after the addition of a row of a random table, one for each position of one position axis."""
    _check_sequence(kernel)

    def equal(values: Array, batch: int, pairs: bool) -> Array:
        shape = values.shape
        at = same_position(shape, batch, 1).astype(values.dtype) if pairs else jnp.ones((1,) * len(shape), values.dtype)
        return jnp.broadcast_to(at, shape)

    def change(values: Array, batch: int, pairs: bool) -> Array:
        return values + equal(values, batch, pairs) * variance

    after = kernel.each(change, weights=kernel.weights | new_weights())
    if kernel.ntk is None:
        return after
    own = 1.0 if kernel.options.parameterization == "standard" else variance
    return after.replace(ntk=kernel.ntk + equal(kernel.ntk, 2, kernel.pairs) * own)


def with_fixed_positions(kernel: Kernel, table: Callable[[int], Array]) -> Kernel:
    """The kernel after the addition of a fixed row for each position. Args: table: length -> [length, features]."""
    _check_sequence(kernel)
    if not kernel.gaussian:
        raise bad("SinusoidalPositions.kernel", "the values that positions are added to must have mean 0",
                  fix="add them after a layer with random weights, such as Embedding or Dense.", exc=ValueError)

    def change(values: Array, batch: int, pairs: bool) -> Array:
        if not pairs:
            rows = table(values.shape[-1])
            return values + jnp.broadcast_to(jnp.sum(rows * rows, -1) / kernel.features, values.shape)
        products = table(values.shape[-2]) @ table(values.shape[-1]).T / kernel.features
        return values + jnp.broadcast_to(products, values.shape)

    return kernel.each(change, gaussian=False).replace(ntk=kernel.ntk)


def _check_sequence(kernel: Kernel) -> None:
    if kernel.positions != 1:
        raise bad("positions", "the values need one position axis", {"position axes": kernel.positions},
                  "pass inputs [batch, time, features].", ValueError)
