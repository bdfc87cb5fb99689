"""The kernels of layers with random weights: maps of the features, convolutions, tables of vectors.

The variance of a weight is that of its initializer (`variance`, see `xjax.nn.initializers`). A layer that has n_in
inputs for each output, weights of variance v, and biases of variance u, has the NNGP kernel ``v n_in K + u``. Its NTK
is

- ``v n_in T + n_in K + 1`` in the standard parameterization, where the weights themselves are trained;
- ``v n_in T + v n_in K + u`` in the NTK parameterization, where a weight is ``sqrt(v) w`` and w, of variance 1, is
  trained (Jacot et al., 2018).

K and T are the two kernels of its input; the 1 and u are those of the bias.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import singledispatch
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.errors import bad
from xjax.typing import Array, ArrayLike
from xnn.covariance.kernel import Kernel, NeedsPairs, Points, new_weights


def variance_of(caller: str, name: str, init: Callable, shape: Sequence[int]) -> Any:
    """The variance of the entries of a weight of this shape. Raises: TypeError for an initializer without one."""
    variance = getattr(init, "variance", None)
    if variance is None:
        raise bad(f"{caller}.kernel", f"the variance of the initial weights is not known, because `{name}` has no "
                  "attribute `variance`", {name: getattr(init, "__name__", None) or repr(init)},
                  "pass an initializer of xjax.nn.initializers with mean 0, or give yours the attribute: "
                  "init.variance = lambda shape: ...")
    return variance(tuple(shape))


@singledispatch
def affine(kernel: Kernel, features: int, n_in: int, w_variance: ArrayLike, b_variance: ArrayLike | None) -> Kernel:
    """The kernel after a layer with random weights.

    Args:
      features: the number of output features.
      n_in: the number of inputs of one output.
      b_variance: the variance of the biases; None: the layer has no bias.
    """
    scale = w_variance * n_in                                           # type: ignore[operator]
    shift: Any = 0 if b_variance is None else b_variance

    def change(values: Array, batch: int, pairs: bool) -> Array:
        return values * scale + shift

    after = kernel.each(change, features=features, weights=new_weights(), gaussian=True)
    if kernel.ntk is None:
        return after
    standard = kernel.options.parameterization == "standard"
    own = kernel.nngp * n_in + float(b_variance is not None) if standard else after.nngp
    return after.replace(ntk=kernel.ntk * scale + own)


def after_matrix(caller: str, kernel: Any, n_out: int, w_init: Callable, b_init: Callable | None,
                 parts: int = 1) -> Any:
    """The kernel after ``x W + b``, of initializers.

    Args:
      kernel: a `Kernel`, or a value that takes its place.
      b_init: None for a layer without bias.
      parts: W has this number of blocks of rows, each of which `w_init` draws.
    """
    w_variance = variance_of(caller, "w_init", w_init, (kernel.features // parts, n_out))
    b_variance = None if b_init is None else variance_of(caller, "b_init", b_init, (n_out,))
    return affine(kernel, n_out, kernel.features, w_variance, b_variance)


def vectors_of_tokens(points: Points, features: int, variance: ArrayLike) -> Kernel:
    """The kernel of a table with a random vector for each token: equal tokens have equal vectors, others independent.

    Args: points: whole numbers of shape [n, *positions].
    """
    options, x1 = points.options, points.x1
    x2 = x1 if points.x2 is None else points.x2
    if not options.pairs and x1.shape[1:] != x2.shape[1:]:
        raise NeedsPairs("covariances")

    def equal(one: Array, other: Array, batch: int, pairs: bool) -> Array:
        """Whether tokens are equal, as floats: [n1, n2, *p1, *p2], or without n2 for one batch axis."""
        one, other = against_covariances(one, other, batch, pairs)
        return (one == other).astype(jnp.zeros(()).dtype)

    same = equal(x1, x2, 2, options.pairs)
    var1 = equal(x1, x1, 1, options.variance_pairs) * variance
    var2 = None if points.x2 is None else equal(x2, x2, 1, options.variance_pairs) * variance
    nngp = same * variance
    own = same if options.parameterization == "standard" else nngp
    return Kernel(nngp, own if options.with_ntk else None, var1, var2, features, x1.ndim - 1, points.x2 is None,
                  new_weights(), True, options)


# -- windows ----------------------------------------------------------------------------------------------------------


@singledispatch
def mean_of_windows(kernel: Kernel, sizes: Sequence[int], strides: Sequence[int], dilation: Sequence[int],
                    padded: Callable[[Array, Sequence[int]], Array]) -> Kernel:
    """The kernel of windows as vectors: the mean of the covariances of equal places in the windows of two positions.

    Args:
      sizes, strides, dilation: those of the window, over the last position axes.
      padded: ``(values, axes) -> values`` with padding along these axes, those of one position.
    """
    first = kernel.positions - len(sizes)

    def change(values: Array, batch: int, pairs: bool) -> Array:
        copies = [[batch + copy * kernel.positions + first + i for i in range(len(sizes))] for copy in range(1 + pairs)]
        for axes in copies:
            values = padded(values, axes)
        for axes, size, stride, step in zip(zip(*copies, strict=True), sizes, strides, dilation, strict=True):
            values = _sum_along(values, axes, size, stride, step)
        return values / int(np.prod(sizes))

    return kernel.each(change)


def _sum_along(values: Array, axes: Sequence[int], size: int, stride: int, step: int) -> Array:
    """The sum over windows along one axis, or along two axes whose windows move together."""
    total = None
    for place in range(size):
        part = values
        for axis in axes:
            part = at_place(part, axis, place, size, stride, step)
        total = part if total is None else total + part
    assert total is not None
    return total


def at_place(values: Array, axis: int, place: int, size: int, stride: int, step: int) -> Array:
    """The values at one place of all windows along an axis. Args: step: the dilation."""
    n = (values.shape[axis] - (size - 1) * step - 1) // stride + 1
    start = place * step
    return lax.slice_in_dim(values, start, start + (n - 1) * stride + 1, stride, axis)


@singledispatch
def of_equal_positions(kernel: Kernel) -> Kernel:
    """The kernel of values at different positions that are independent: all other covariances become zero."""

    def change(values: Array, batch: int, pairs: bool) -> Array:
        return jnp.where(same_position(values.shape, batch, kernel.positions), values, 0) if pairs else values

    return kernel.each(change)


def same_position(shape: Sequence[int], batch: int, positions: int) -> Array:
    """Whether the two positions of an entry are equal, for covariances [*batch, *positions, *positions]."""
    equal = jnp.ones((1,) * len(shape), bool)
    for axis in range(batch, batch + positions):
        equal &= lax.broadcasted_iota(np.int32, _only(shape, axis), axis) == lax.broadcasted_iota(
            np.int32, _only(shape, axis + positions), axis + positions)
    return equal


def same_value(kernel: Kernel) -> Array | None:
    """Whether the two values of an entry of `nngp` are the same one, broadcast against it; None if none can be."""
    if not kernel.same:
        return None
    n = kernel.nngp.shape[0]
    equal = jnp.reshape(jnp.eye(n, dtype=bool), (n, n, *(1,) * (kernel.nngp.ndim - 2)))
    return equal & same_position(kernel.nngp.shape, 2, kernel.positions) if kernel.pairs else equal


def against_covariances(one: Array, other: Array, batch: int, pairs: bool) -> tuple[Array, Array]:
    """Arrays [n1, *positions1] and [n2, *positions2] as they broadcast against covariances of the two."""
    ones1, ones2 = ((1,) * (x.ndim - 1) * pairs for x in (one, other))
    between = (1,) * (batch - 1)
    return (jnp.reshape(one, (one.shape[0], *between, *one.shape[1:], *ones2)),
            jnp.reshape(other, (*between, other.shape[0], *ones1, *other.shape[1:])))


def _only(shape: Sequence[int], axis: int) -> tuple[int, ...]:
    return tuple(size if i == axis else 1 for i, size in enumerate(shape))
