"""Gaussian noise in training, added or multiplied. In evaluation these layers are the identity."""

from collections.abc import Callable

import xjax.numpy as jnp
from xjax.errors import bad
from xnn import rng as rng_lib
from xnn.checks import check_float
from xnn.covariance.fixed import dropped, noisy
from xnn.covariance.kernel import Rule
from xnn.layer import Layer, shape_kept
from xnn.layers.dropout import check_rate
from xnn.rng import check_rng


def GaussianNoise(std: float) -> Layer:
    """``x + std * noise`` in training, with standard normal noise for each value.  Shape: any -> the same.

    With an `xnn.RowKey` as rng, the noise of a row depends only on its number in the whole array.
    Args: std: standard deviation, 0 or more.
    Params: ``()``.  Raises: ValueError for a negative std; apply raises TypeError in training if rng is None.
    """
    if not std >= 0:
        raise bad("GaussianNoise", "std is a standard deviation, and must not be negative", {"std": std},
                  fix="GaussianNoise(0.1).", exc=ValueError)
    return _noisy("GaussianNoise", std, {"std": std}, lambda x, noise: x + noise,
                  lambda kernel: noisy(kernel, std * std))


def GaussianDropout(rate: float) -> Layer:
    """``x * (1 + noise)`` in training: noise with the variance of dropout, rate / (1 - rate) (Srivastava et al., 2014).

    Shape: any -> the same. With an `xnn.RowKey` as rng, the noise of a row depends only on its number in the whole
    array.
    Args: rate: rate of a dropout with noise of the same variance, 0 <= rate < 1.
    Params: ``()``.  Raises: ValueError for a rate outside [0, 1); apply raises TypeError in training if rng is None.
    """
    check_rate("GaussianDropout", rate)
    std = (rate / (1 - rate)) ** 0.5
    return _noisy("GaussianDropout", std, {"rate": rate}, lambda x, noise: x + x * noise,
                  lambda kernel: dropped(kernel, rate))


def _noisy(name: str, std: float, settings: dict, combine: Callable, kernel_rule: Rule) -> Layer:
    def apply(params, x, *, rng=None, train=False):
        if not train or std == 0:
            return x
        check_rng(name, rng, **settings)
        x = check_float(name, x, 0)
        return combine(x, jnp.asarray(std, x.dtype) * rng_lib.normal(rng, x.shape, x.dtype))

    return Layer(shape_kept, apply, name, settings=settings, positionwise=True, kernel_rule=kernel_rule)
