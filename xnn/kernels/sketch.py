"""Features whose inner products approximate a kernel, for more inputs than a kernel matrix may have.

A kernel of n inputs has n**2 entries; features have n times their number, and linear regression on them takes the place
of kernel regression. They follow the layers of a model, as its kernel does (Zandieh et al., 2021; Han et al., 2022):

- after random weights w of variance 1, ``f(w x) / sqrt(m)`` for m weights are features of the NNGP kernel, because
  their inner products have the expectation of ``f(u) f(v)``;
- the NTK is then multiplied by the expectation of ``f'(u) f'(v)``. Features of a product of two kernels are products of
  random combinations, with weights 1 and -1, of the features of each.

The errors of inner products are about ``1 / sqrt(number of features)`` of the kernel of equal inputs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

import xjax
import xjax.numpy as jnp
from xjax import random
from xjax.errors import bad, check_choice
from xjax.typing import Array, ArrayLike, PRNGKey
from xnn.covariance.affine import affine, at_place, mean_of_windows, of_equal_positions
from xnn.covariance.elementwise import Moments, after_function
from xnn.covariance.evaluation import kernel_after
from xnn.covariance.fixed import (
    dropped,
    flattened,
    noisy,
    normalized,
    on_positions,
    reshaped,
    scaled_positions,
    with_bias,
    with_scale,
)
from xnn.covariance.kernel import Options, Pair, Parameterization
from xnn.layer import Layer


class Features(NamedTuple):
    """Features of both kernels: inner products of rows approximate the entries of a kernel.

    Attributes: nngp: [n, features]; ntk: [n, features], None if they were not asked for.
    """

    nngp: Array
    ntk: Array | None


def sketched_features(model: Layer, key: PRNGKey, *, nngp_features: int = 1024, ntk_features: int = 1024,
                      parameterization: Parameterization = "standard",
                      get: str = "ntk") -> Callable[..., Features]:
    """``(x, **inputs) -> Features``: a random map to features, whose inner products approximate ``model.kernel``.

    The map is fixed by the key, so inputs may be mapped in parts, under `jit`, and at different times.

    Args:
      model: made of Dense, convolutions, elementwise functions, pools, Flatten and Dropout, in `serial`.
      nngp_features: the number of random weights of each nonlinear layer; for slopes too.
      ntk_features: the number of features of the NTK.
      parameterization: as in `Layer.kernel`.
      get: "nngp" for features of this kernel only, "ntk" for both.
    Raises: TypeError for a layer without such features.

    >>> from xnn import Dense, Relu, serial
    >>> model = serial(Dense(64), Relu, Dense(1))
    >>> features = sketched_features(model, random.key(0), nngp_features=4096, ntk_features=4096)(np.eye(2))
    >>> bool(np.allclose(features.ntk @ features.ntk.T, model.kernel(np.eye(2), get="ntk"), atol=0.2))
    True
    """
    check_choice("sketched_features", "get", get, ("nngp", "ntk"))
    for name, number in (("nngp_features", nngp_features), ("ntk_features", ntk_features)):
        if number < 1:
            raise bad("sketched_features", f"`{name}` must be at least 1", {name: number}, f"{name}=1024.", ValueError)
    options = Options(parameterization, get == "ntk")

    @xjax.jit
    def features(x: ArrayLike, **inputs: Any) -> Features:
        x = jnp.asarray(x)
        x = x if jnp.issubdtype(x.dtype, np.floating) else x.astype(jnp.zeros(()).dtype)
        start = Sketch(x / math.sqrt(x.shape[-1]), None, x.shape[-1], options, key, itertools.count(),
                       (nngp_features, ntk_features))
        end = kernel_after(model, start, {name: Pair(value, value) for name, value in inputs.items()})
        if not isinstance(end, Sketch) or end.positions:
            raise bad("sketched_features", "the output of the model has positions", {"model": model.name},
                      "end it with Flatten or GlobalAvgPool().", ValueError)
        return Features(end.nngp, end.ntk if end.ntk is not None or get == "nngp" else jnp.zeros_like(end.nngp[:, :1]))

    return features


@dataclass(frozen=True)
class Sketch:
    """Features of the values of a layer, where `xnn.covariance.kernel.Kernel` has their covariances.

    Attributes:
      nngp: [n, *positions, features of the NNGP kernel].
      ntk: [n, *positions, features of the NTK]; None for an NTK of 0.
      features: the number of features of the finite network.
      key, draws: a key, and the number of the next draw from it.
      sizes: the numbers of features that a nonlinear layer makes, of both kernels.
    """

    nngp: Array
    ntk: Array | None
    features: int
    options: Options
    key: PRNGKey
    draws: Any
    sizes: tuple[int, int]

    @property
    def positions(self) -> int:
        """The number of position axes."""
        return self.nngp.ndim - 2

    @property
    def rows(self) -> Pair:
        """As `Kernel.rows`; x1 is the only input."""
        return Pair(self.nngp.shape[:-1], self.nngp.shape[:-1])

    def drawn(self, draw: Callable[..., Array], shape: tuple[int, ...]) -> Array:
        """Random numbers that differ from all draws before."""
        return draw(random.fold_in(self.key, next(self.draws)), shape, self.nngp.dtype)

    def each(self, change: Callable[[Array], Array], **fields: Any) -> Sketch:
        """The features of both kernels changed by a linear map."""
        return replace(self, nngp=change(self.nngp), ntk=None if self.ntk is None else change(self.ntk), **fields)


def _joined(*parts: Array | None) -> Array | None:
    """Features of a sum of kernels."""
    some = [part for part in parts if part is not None]
    return jnp.concatenate(some, -1) if some else None


@affine.register
def _(sketch: Sketch, features: int, n_in: int, w_variance: ArrayLike, b_variance: ArrayLike | None) -> Sketch:
    scale = jnp.sqrt(jnp.asarray(w_variance * n_in, sketch.nngp.dtype))        # type: ignore[operator]
    ones = jnp.ones((*sketch.nngp.shape[:-1], 1), sketch.nngp.dtype)
    bias = None if b_variance is None else ones * jnp.sqrt(jnp.asarray(b_variance, ones.dtype))
    nngp = _joined(sketch.nngp * scale, bias)
    ntk = None
    if sketch.options.with_ntk:
        before = None if sketch.ntk is None else sketch.ntk * scale
        if sketch.options.parameterization == "standard":
            ntk = _joined(before, sketch.nngp * math.sqrt(n_in), None if b_variance is None else ones)
        else:
            ntk = _joined(before, nngp)
    return replace(sketch, nngp=nngp, ntk=ntk, features=features)


@after_function.register
def _(sketch: Sketch, name: str, fun: Callable[[Array], Array], moments: Moments) -> Sketch:
    width, ntk_width = sketch.sizes
    weights = sketch.drawn(random.normal, (sketch.nngp.shape[-1], width))
    value, slope = xjax.jvp(fun, (values := sketch.nngp @ weights,), (jnp.ones_like(values),))
    ntk = None
    if sketch.ntk is not None:
        signs = [sketch.drawn(random.rademacher, (n, ntk_width)) for n in (sketch.ntk.shape[-1], width)]
        ntk = (sketch.ntk @ signs[0]) * (slope @ signs[1]) / math.sqrt(width * ntk_width)
    return replace(sketch, nngp=value / math.sqrt(width), ntk=ntk)


@mean_of_windows.register
def _(sketch: Sketch, sizes: Sequence[int], strides: Sequence[int], dilation: Sequence[int],
      padded: Callable[[Array, Sequence[int]], Array]) -> Sketch:
    axes = list(range(1 + sketch.positions - len(sizes), 1 + sketch.positions))

    def windows(values: Array) -> Array:
        values = padded(values, axes)
        parts = []
        for place in itertools.product(*map(range, sizes)):
            part = values
            for axis, at, size, stride, step in zip(axes, place, sizes, strides, dilation, strict=True):
                part = at_place(part, axis, at, size, stride, step)
            parts.append(part)
        return jnp.concatenate(parts, -1) / math.sqrt(len(parts))

    return sketch.each(windows)


@on_positions.register
def _(sketch: Sketch, linear: Callable[[Array], Array], second: Callable[[Array], Array] | None = None) -> Sketch:
    return sketch.each(linear)


@scaled_positions.register
def _(sketch: Sketch, factors: Pair) -> Sketch:
    return sketch.each(lambda values: values * factors.of1[..., None])


@flattened.register
def _(sketch: Sketch) -> Sketch:
    # The sum over positions with random signs has the expectation of the sum of the positions' inner products.
    n = math.prod(sketch.nngp.shape[1:-1])

    def summed(values: Array) -> Array:
        values = jnp.reshape(values, (values.shape[0], n, values.shape[-1]))
        signs = sketch.drawn(random.rademacher, values.shape[1:])
        return jnp.einsum("npf,pf->nf", values, signs) / math.sqrt(n)

    return sketch.each(summed, features=sketch.features * n)


@reshaped.register
def _(sketch: Sketch, caller: str, sizes_of: Callable[[tuple[int, ...]], tuple[int, ...]]) -> Sketch:
    sizes = sizes_of((*sketch.rows.of1, sketch.features))
    if len(sizes) == 2:
        return flattened(sketch)                                                # type: ignore[arg-type, return-value]
    return sketch.each(lambda values: jnp.reshape(values, (*sizes[:-1], values.shape[-1])))


@with_scale.register
def _(sketch: Sketch, value: float) -> Sketch:
    after = sketch.each(lambda values: values * value)
    return replace(after, ntk=_joined(after.ntk, sketch.nngp)) if sketch.options.with_ntk else after


@with_bias.register
def _(sketch: Sketch, variance: ArrayLike) -> Sketch:
    ones = jnp.ones((*sketch.nngp.shape[:-1], 1), sketch.nngp.dtype)
    bias = ones * jnp.sqrt(jnp.asarray(variance, ones.dtype))
    after = replace(sketch, nngp=_joined(sketch.nngp, bias))
    own = ones if sketch.options.parameterization == "standard" else bias
    return replace(after, ntk=_joined(sketch.ntk, own)) if sketch.options.with_ntk else after


@noisy.register
def _(sketch: Sketch, variance: float) -> Sketch:
    return sketch                                                               # as in evaluation


@dropped.register
def _(sketch: Sketch, rate: float) -> Sketch:
    return sketch


def _refused(name: str) -> Callable[..., Sketch]:
    def refuse(sketch: Sketch, *args: object, **settings: object) -> Sketch:
        raise bad("sketched_features", f"a layer has no features: it needs {name}", fix="compute the kernel itself: "
                  "tiled_kernel(model, x), or replace the layer.")

    return refuse


normalized.register(Sketch, _refused("the variances of values"))
of_equal_positions.register(Sketch, _refused("independent weights at each position"))
