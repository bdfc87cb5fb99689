"""The variational autoencoder of Kingma and Welling (2014), with dense layers."""

from __future__ import annotations

import math

import xjax
import xjax.numpy as jnp
from xjax import random
from xjax.errors import bad
from xjax.typing import Array
from xnn.checks import type_text
from xnn.combinators import serial
from xnn.compose import composite
from xnn.layer import Layer
from xnn.layers import Dense, Flatten, Relu, Reshape
from xnn.models.configs import VAEConfig
from xnn.rng import Rng, RowKey


def VAE(config: VAEConfig = VAEConfig()) -> Layer:
    """An encoder from x to a normal distribution of codes z, and a decoder from a code to x.

    In training z is drawn as ``mean + exp(log_variance / 2) * noise`` with standard normal noise; in evaluation it is
    the mean. The loss is `xnn.losses.negative_elbo`::

        outputs, mean, log_variance = model.apply(params, x, rng=key, train=True)
        loss = negative_elbo(outputs, x, mean, log_variance)

    New examples are ``nn.sigmoid(model.layers["decoder"].apply(params["decoder"], z))`` for standard normal z.

    Shape: [batch, *shape] -> (outputs [batch, *shape], mean [batch, code], log_variance [batch, code]). The outputs are
    logits for data in [0, 1], or means, depending on the likelihood in the loss.
    Params: ``{"encoder", "mean", "log_variance", "sample", "decoder"}``.
    Raises: TypeError in training without rng.

    >>> model = VAE(VAEConfig(shape=(8, 8), code=2, hidden=(16,)))
    >>> shape, params = model.init(random.key(0), (-1, 8, 8))
    >>> shape
    ((-1, 8, 8), (-1, 2), (-1, 2))
    """
    encoder = serial(Flatten, *_dense(config.hidden))
    decoder = serial(*_dense(config.hidden[::-1]), Dense(math.prod(config.shape)), Reshape(*config.shape))

    def forward(layers, x):
        if x.shape[1:] != config.shape:
            raise bad("VAE", "the examples do not have the shape in the config", {"x": type_text(x),
                      "shape": str(config.shape)}, fix=f"pass VAEConfig(shape={x.shape[1:]}), or reshape x.")
        h = layers.encoder(x)
        mean, log_variance = layers.mean(h), layers.log_variance(h)
        return layers.decoder(layers.sample((mean, log_variance))), mean, log_variance

    return composite(forward, "VAE", encoder=encoder, mean=Dense(config.code), log_variance=Dense(config.code),
                     sample=_NormalSample(), decoder=decoder)


def _dense(sizes: tuple[int, ...]) -> list[Layer]:
    return [layer for size in sizes for layer in (Dense(size), Relu)]


def _NormalSample() -> Layer:
    """A draw from independent normal distributions (mean, log_variance) in training, the mean in evaluation."""

    def init(rng, in_shape):
        return in_shape[0], ()

    def apply(params, x, *, rng=None, train=False):
        mean, log_variance = x
        if not train:
            return mean
        if rng is None:
            raise bad("VAE", "training draws a code, but rng is None", {"train": "True", "rng": "None"},
                      fix="pass rng=random.fold_in(key, step), or train=False to evaluate.")
        return mean + jnp.exp(log_variance / 2) * _normal_like(rng, mean)

    return Layer(init, apply, "NormalSample", positionwise=True)


def _normal_like(rng: Rng, x: Array) -> Array:
    """Standard normal numbers of the shape of x; a `RowKey` draws them row by row."""
    if not isinstance(rng, RowKey):
        return random.normal(rng, x.shape, x.dtype)
    keys = xjax.vmap(lambda row: random.fold_in(rng.key, row))(rng.rows(x.shape[0]))
    return xjax.vmap(lambda key: random.normal(key, x.shape[1:], x.dtype))(keys)
