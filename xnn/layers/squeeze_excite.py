"""SqueezeExcite: a gate for each feature, computed from the means of all features."""

from collections.abc import Callable

import xjax.numpy as jnp
from xjax import nn, random
from xjax.errors import bad
from xnn.checks import check_entries, check_float, check_shape
from xnn.layer import Layer, recorded
from xnn.layers.dense import Dense


@recorded()
def SqueezeExcite(reduction: int = 16, *, activation: Callable = nn.relu, gate: Callable = nn.sigmoid) -> Layer:
    """``x * gate(excite(activation(squeeze(mean of x over positions))))`` (Hu et al., 2018).

    Shape: [n, ..., features] -> the same, with at least one axis of positions.

    Args:
      reduction: `squeeze` has ``features // reduction`` outputs, at least 1.
      activation, gate: functions of arrays. MobileNetV3 uses ``gate=nn.hard_sigmoid``.
    Params: ``{"squeeze": {"w", "b"}, "excite": {"w", "b"}}``, those of two `Dense` layers.
    """
    if reduction < 1:
        raise bad("SqueezeExcite", "reduction must be at least 1", {"reduction": reduction}, "SqueezeExcite(16).",
                  ValueError)

    def denses(features):
        return Dense(max(1, features // reduction)), Dense(features)

    def init(rng, in_shape):
        features = check_shape("SqueezeExcite", in_shape, min_rank=3)[-1]
        (squeeze, excite), keys = denses(features), random.split(rng)
        hidden, squeeze_params = squeeze.init(keys[0], (-1, features))
        return in_shape, {"squeeze": squeeze_params, "excite": excite.init(keys[1], hidden)[1]}

    def apply(params, x, *, rng=None, train=False):
        x = check_float("SqueezeExcite", x, 3)
        check_entries("SqueezeExcite", "params", params, ("squeeze", "excite"))
        squeeze, excite = denses(x.shape[-1])
        means = jnp.mean(x, tuple(range(1, x.ndim - 1)), keepdims=True)
        gates = gate(excite.apply(params["excite"], activation(squeeze.apply(params["squeeze"], means))))
        return x * jnp.broadcast_to(gates, x.shape)

    return Layer(init, apply, "SqueezeExcite")
