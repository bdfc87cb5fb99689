"""LayerScale: one factor for each feature."""

import xjax.numpy as jnp
from xnn.checks import check_float, check_params, check_shape
from xnn.layer import Layer, recorded


@recorded()
def LayerScale(value: float = 1e-6) -> Layer:
    """Multiplies each feature by a small parameter, at the end of a residual branch (Touvron et al., 2021).

    Shape: [..., features] -> the same.
    Args: value: initial value of the parameters; the default is that of ConvNeXt.
    Params: ``{"scale": [features]}``.
    """

    def init(rng, in_shape):
        in_shape = check_shape("LayerScale", in_shape)
        return in_shape, {"scale": jnp.full(in_shape[-1:], value, float)}

    def apply(params, x, *, rng=None, train=False):
        x = check_float("LayerScale", x)
        check_params("LayerScale", params, x, scale=x.shape[-1:])
        return x * jnp.broadcast_to(params["scale"], x.shape)

    return Layer(init, apply, "LayerScale", positionwise=True)
