"""Conditioning on a time and on a class, as in diffusion models: their features, and layers that depend on them.

A condition is an array [batch, n], such as the sum of the features of a time and of a label. `FiLM`, `AdaLN` and
`AdaLNZero` compute scales and shifts from it, by an affine map that starts at zero: at first, the condition has no
effect.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import nn, random
from xjax.errors import bad
from xjax.nn import initializers
from xjax.typing import Array, ArrayLike, Params, PRNGKey, Shape
from xnn import rng as rng_lib
from xnn.checks import at_least_int32, check_float, check_params, check_shape, type_text
from xnn.compose import composite
from xnn.composites import apply_child, check_kept, combine, dict_of
from xnn.layer import Layer, as_layer, recorded
from xnn.layers.dropout import check_rate
from xnn.layers.embed import Embedding
from xnn.layers.norm import LayerNorm
from xnn.layers.positions import angles_of, frequencies_of, sines_and_cosines
from xnn.rng import Rng, check_rng

# -- features of a time and of a label -----------------------------------------------------------------------------


@recorded()
def SinusoidalFeatures(features: int, *, base: float = 10_000.0, scale: float = 1.0) -> Layer:
    """Sines and cosines of a number, such as the time of a diffusion model (Ho et al., 2020).

    Shape: [...] -> [..., features]. Feature 2i is sin(scale x / base^(2i / features)), feature 2i + 1 the cosine of the
    same angle, as in `SinusoidalPositions`. Implementations of DDPM and DiT list all sines before or after all cosines;
    for their weights, reorder the rows of the next matrix.

    Args: scale: factor of x: 1 for the steps 0, 1, 2, ... of DDPM, 1000 for times in [0, 1].
    Params: ``()``.
    x may have integers, which are not rounded by half precision; the result is then float32.
    Raises: ValueError for an odd number of features.
    """
    _check_even("SinusoidalFeatures", features)
    return _of_numbers("SinusoidalFeatures", features, lambda: scale * frequencies_of(features, base))


@recorded()
def FourierFeatures(features: int, *, scale: float = 16.0, seed: int = 0) -> Layer:
    """Sines and cosines of ``2 pi w x`` for random frequencies w (Tancik et al., 2020; for times Song et al., 2021).

    Shape: [...] -> [..., features], sines and cosines alternately.

    Args:
      scale: standard deviation of the frequencies. NCSN++ applies 16 to the logarithm of the noise level.
      seed: of the frequencies, which are constants and not parameters.
    Params: ``()``.  Raises: ValueError for an odd number of features.
    """
    _check_even("FourierFeatures", features)

    def frequencies() -> Array:
        return 2 * math.pi * scale * random.normal(random.key(seed), (features // 2,), np.float32)

    return _of_numbers("FourierFeatures", features, frequencies)


def _of_numbers(name: str, features: int, frequencies: Callable[[], ArrayLike]) -> Layer:
    """The layer of sines and cosines of the numbers in x with these frequencies."""

    def init(rng: PRNGKey | None, in_shape: Shape) -> tuple[Shape, Params]:
        return (*in_shape, features), ()

    def apply(params: Params, x: ArrayLike, *, rng: Rng = None, train: bool = False) -> Array:
        x = jnp.asarray(x)
        x = x.astype(np.float32) if jnp.issubdtype(x.dtype, np.integer) else check_float(name, x, 0)
        return sines_and_cosines(angles_of(x, x, frequencies())).astype(x.dtype)

    return Layer(init, apply, name, computes_in="float32", positionwise=True)


@recorded()
def LabelEmbedding(n: int, features: int, *, dropout: float = 0.1, init: Callable | None = None) -> Layer:
    """A row of a table for each label, and one more row for "no label" (Ho and Salimans, 2022).

    In training, each label is replaced by the null label n with probability `dropout`. So one model learns outputs with
    and without labels, which classifier-free guidance combines.

    Shape: integers in [0, n], [...] -> [..., features]. Other integers give NaN.
    Args: n: number of labels; dropout: probability of the null label, 0 <= dropout < 1; init: initializer
      ``(key, shape) -> array``, None: normal with standard deviation 0.02, as in DiT.
    Params: ``{"table": [n + 1, features]}``.
    Raises: ValueError for a dropout outside [0, 1). apply raises TypeError in training if rng is None.
    """
    check_rate("LabelEmbedding", dropout)
    table = Embedding(n + 1, features, init=init or initializers.normal(0.02))

    def apply(params: Params, x: ArrayLike, *, rng: Rng = None, train: bool = False) -> Array:
        if train and dropout:
            check_rng("LabelEmbedding", rng, dropout=dropout)
            x = at_least_int32(jnp.asarray(x))
            x = jnp.where(rng_lib.bernoulli(rng, dropout, x.shape), n, x)
        return apply_child("LabelEmbedding", table, params, x, {})

    return Layer(table.init, apply, "LabelEmbedding", positionwise=True)


def _check_even(caller: str, features: int) -> None:
    if features % 2:
        raise bad(caller, "sines and cosines need an even number of features", {"features": features},
                  f"{caller}({features + 1}).", ValueError)


# -- layers that depend on a condition -----------------------------------------------------------------------------


@recorded()
def FiLM(*, activation: Callable | None = None, w_init: Callable | None = None) -> Layer:
    """``x * (1 + scale) + shift``, where scale and shift are affine maps of a condition (Perez et al., 2018).

    Shape: x [batch, ..., features] -> the same.
    Args:
      activation: function of arrays, applied to the condition before the map; None: no activation.
      w_init: initializer ``(key, shape) -> array`` of w; None: zeros, so that the layer is initially the identity.
    Inputs: condition: [batch, n], or with more leading axes of x, such as [batch, time, n]. `init` needs its shape.
    Params: ``{"w": [n, 2 * features], "b": [2 * features]}``: scales first, then shifts.
    """

    def apply(params: Params, x: ArrayLike, condition, *, rng: Rng = None, train: bool = False) -> Array:
        scale, shift = _maps("FiLM", params, x, condition, 2, activation)
        return jnp.asarray(x) * (1 + scale) + shift

    return Layer(_init_maps("FiLM", 2, w_init), apply, "FiLM", positionwise=False)


@recorded("norm")
def AdaLN(norm: Layer | None = None, *, activation: Callable | None = nn.silu, w_init: Callable | None = None) -> Layer:
    """A norm whose scale and shift depend on a condition: `FiLM` of ``norm(x)``.

    With `LayerNorm` it is the adaptive layer norm of DiT (Peebles and Xie, 2023), with ``GroupNorm(32)`` the adaptive
    group norm of Dhariwal and Nichol (2021).

    Shape: x [batch, ..., features] -> the same.
    Args:
      norm: the norm; None: `LayerNorm` with epsilon 1e-6, without parameters.
      activation, w_init: as in `FiLM`.
    Inputs: condition, as in `FiLM`; row_mask, if the norm has it.
    Params: ``{"norm": ..., "film": {"w", "b"}}``.
    """
    norm = _plain_norm() if norm is None else as_layer(norm, "AdaLN['norm']")

    def adapted(layers: Any, x: Array, condition, row_mask=None) -> Array:
        rows = {"row_mask": row_mask} if "row_mask" in norm.extra_inputs else {}
        return layers.film(layers.norm(x, **rows), condition=condition)

    return composite(adapted, "AdaLN", norm=norm, film=FiLM(activation=activation, w_init=w_init))


@recorded("layer", "norm")
def AdaLNZero(layer: Layer, norm: Layer | None = None, *, activation: Callable | None = nn.silu) -> Layer:
    """``x + gate * layer(norm(x) * (1 + scale) + shift)``, where gate, scale and shift are affine maps of a condition.

    The maps are initially zero, so the layer is initially the identity (adaLN-Zero; Peebles and Xie, 2023). The block
    of DiT is ``serial(AdaLNZero(MultiHeadAttention(n, heads)), AdaLNZero(FeedForward(n, 4 * n)))``.

    Shape: x [batch, ..., features] -> the same.
    Args: layer: a layer that keeps the shape; norm, activation: as in `AdaLN`.
    Inputs: condition, as in `FiLM`; then those of `layer`.
    Params: ``{"norm": ..., "maps": {"w": [n, 3 * features], "b"}, "layer": ...}``: scales, shifts, gates.
    Raises: TypeError from `init` if `layer` changes the shape.
    """
    return _gated({"maps": _Maps(3, activation), "norm": _plain_norm() if norm is None else norm,
                   "layer": as_layer(layer, "AdaLNZero")})


def _gated(children: dict[str, Layer]) -> Layer:
    """The composite of the children of `AdaLNZero`."""

    def walk(visit: Callable, in_shape: Shape, shapes: Mapping[str, Any]) -> Shape:
        visit("maps", in_shape)
        check_kept("AdaLNZero", children["layer"], in_shape, visit("layer", visit("norm", in_shape)))
        return in_shape

    def forward(call: Callable, x: Array, values: Mapping[str, Any]) -> Array:
        scale, shift, gate = call("maps", x)
        return x + gate * call("layer", call("norm", x) * (1 + scale) + shift)

    return combine("AdaLNZero", children, walk, forward, dict_of(children), rebuild=_gated)


def _plain_norm() -> Layer:
    return LayerNorm(epsilon=1e-6, scale=False, bias=False)


@recorded()
def _Maps(n: int, activation: Callable | None) -> Layer:
    """n affine maps of a condition, each with the shape of x, initially zero."""

    def apply(params: Params, x: ArrayLike, condition, *, rng: Rng = None, train: bool = False) -> tuple[Array, ...]:
        return tuple(_maps("AdaLNZero", params, x, condition, n, activation))

    init_maps = _init_maps("AdaLNZero", n, None)

    def init(rng: PRNGKey | None, in_shape: Shape, condition: Shape) -> tuple[tuple[Shape, ...], Params]:
        in_shape, params = init_maps(rng, in_shape, condition)
        return (in_shape,) * n, params

    return Layer(init, apply, "maps")


def _init_maps(caller: str, n: int, w_init: Callable | None) -> Callable:
    """The `init` of n affine maps of a condition."""
    w_init = w_init or initializers.zeros

    def init(rng: PRNGKey | None, in_shape: Shape, condition: Shape) -> tuple[Shape, Params]:
        in_shape, condition = check_shape(caller, in_shape, min_rank=2), check_shape(caller, condition, min_rank=2)
        size = n * in_shape[-1]
        return in_shape, {"w": w_init(rng, (condition[-1], size)), "b": jnp.zeros(size)}

    return init


def _maps(caller: str, params: Params, x: ArrayLike, condition: ArrayLike, n: int,
          activation: Callable | None) -> list[Array]:
    """n affine maps of the condition, broadcast to the shape of x, in its dtype."""
    x, condition = check_float(caller, x, 2), check_float(caller, condition, 2)
    leading = condition.shape[:-1]
    if leading != x.shape[:len(leading)] or condition.ndim > x.ndim:
        raise bad(caller, "the condition must have the leading axes of x",
                  {"x": type_text(x), "condition": type_text(condition)}, f"pass [{x.shape[0]}, n].")
    size = n * x.shape[-1]
    check_params(caller, params, condition, w=(condition.shape[-1], size), b=(size,))
    y = (condition if activation is None else activation(condition)) @ params["w"]
    y = jnp.reshape(y + jnp.broadcast_to(params["b"], y.shape), (*leading, *[1] * (x.ndim - condition.ndim), size))
    return [jnp.broadcast_to(part, x.shape).astype(x.dtype) for part in jnp.split(y, n, -1)]
