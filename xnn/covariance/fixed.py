"""The kernels of layers without random weights: fixed linear maps of positions, Flatten, normalization, Dropout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import singledispatch
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax.errors import bad
from xjax.typing import Array, ArrayLike
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
    ntk = None
    if kernel.ntk is not None:
        ntk = divided(kernel.ntk, 2, kernel.pairs, root1, root2) + float(scale) * nngp + float(bias)
    var1 = divided(kernel.var1, 1, kernel.variance_pairs, root1, root1)
    var2 = None if kernel.var2 is None else divided(kernel.var2, 1, kernel.variance_pairs, root2, root2)
    return kernel.replace(nngp=nngp, ntk=ntk, var1=var1, var2=var2)


@singledispatch
def dropped(kernel: Kernel, rate: float) -> Kernel:
    """The kernel after Dropout: in training, the variance of a value is larger, its covariances are as before."""
    if not (kernel.options.train and rate):
        return kernel
    keep = 1 - rate

    def scaled(values: Array | None, equal: Array | bool) -> Any:
        return None if values is None else jnp.where(equal, values / keep, values)

    def of_variance(values: Array | None) -> Any:
        pairs = kernel.variance_pairs and kernel.positions
        equal = same_position(values.shape, 1, kernel.positions) if values is not None and pairs else True
        return scaled(values, equal)

    equal = same_value(kernel)
    equal = False if equal is None else equal
    return kernel.replace(nngp=scaled(kernel.nngp, equal), ntk=scaled(kernel.ntk, equal),
                          var1=of_variance(kernel.var1), var2=of_variance(kernel.var2), gaussian=False)


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
