"""Losses for variational autoencoders: the divergence from the prior, and the bound on the likelihood."""

from __future__ import annotations

import math

import xjax.numpy as jnp
from xjax import nn
from xjax.errors import bad, check_choice
from xjax.typing import Array, ArrayLike
from xnn.losses.reduction import is_share, nan_unless, reduced, same_shape, weighted_only, wide


def gaussian_kl(mean: ArrayLike, log_variance: ArrayLike, *, weights: ArrayLike | None = None,
                reduction: str | None = "mean") -> Array:
    """KL divergence of independent normal distributions from the standard normal one, summed over the last axis.

    ``sum(exp(log_variance) + mean^2 - 1 - log_variance) / 2``.
    Shape: mean and log_variance are [..., features]; the losses are [...].
    """
    mean, dtype = wide("gaussian_kl", mean, 1, weights)
    log_variance = weighted_only(same_shape("gaussian_kl", mean, log_variance, "log-variances"), weights)
    losses = jnp.sum(jnp.expm1(log_variance) + jnp.square(mean) - log_variance, -1) / 2
    return reduced("gaussian_kl", losses, weights, reduction, dtype)


def negative_elbo(outputs: ArrayLike, x: ArrayLike, mean: ArrayLike, log_variance: ArrayLike, *,
                  likelihood: str = "bernoulli", beta: float = 1.0, weights: ArrayLike | None = None,
                  reduction: str | None = "mean") -> Array:
    """Negative evidence lower bound of a variational autoencoder: ``-log p(x | z) + beta KL(q(z | x), N(0, 1))``.

    Args:
      outputs: outputs of the decoder, floats [batch, ...]; x: the data, of the same shape.
      mean, log_variance: parameters of the code's distribution, floats [batch, features].
      likelihood: "bernoulli", for outputs that are logits and data in [0, 1] (others give NaN); "normal", for means
        with variance 1.
      beta: weight of the divergence (Higgins et al., 2017); 1 is the bound (Kingma and Welling, 2014).
      weights, reduction: as in all losses; the losses are [batch].
    """
    outputs, dtype = wide("negative_elbo", outputs, 2, weights)
    x = weighted_only(same_shape("negative_elbo", outputs, x, "data"), weights)
    check_choice("negative_elbo", "likelihood", likelihood, _MINUS_LOG_LIKELIHOOD)
    terms = _MINUS_LOG_LIKELIHOOD[likelihood](outputs, x)
    losses = jnp.sum(terms, tuple(range(1, terms.ndim)))
    mean, _ = wide("negative_elbo", mean, 2, weights)
    divergence = gaussian_kl(mean, weighted_only(jnp.asarray(log_variance), weights), reduction=None)
    divergence = divergence.astype(losses.dtype)
    if divergence.shape != losses.shape:
        raise bad("negative_elbo", "code and data have different batch sizes", {"mean": mean, "x": x},
                  fix="pass a mean of shape [batch, features].")
    return reduced("negative_elbo", losses + beta * divergence, weights, reduction, dtype)


_MINUS_LOG_LIKELIHOOD = {
    "bernoulli": lambda logits, x: nan_unless(is_share(x), x * nn.softplus(-logits) + (1 - x) * nn.softplus(logits)),
    "normal": lambda means, x: (jnp.square(x - means) + math.log(2 * math.pi)) / 2,
}
