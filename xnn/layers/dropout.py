"""Dropout of values, features or examples, and alpha dropout for Selu networks."""

from __future__ import annotations

from collections.abc import Sequence

import xjax.numpy as jnp
from xjax.errors import bad
from xjax.typing import Array, ArrayLike, PRNGKey
from xnn import rng as rng_lib
from xnn.checks import as_axes, check_float, type_text
from xnn.covariance.fixed import dropped, in_evaluation
from xnn.layer import Layer, recorded, shape_kept
from xnn.rng import RowKey, check_rng
from xnn.sparse import CSR


@recorded()
def Dropout(rate: float, *, broadcast: int | Sequence[int] = ()) -> Layer:
    """In training, set each value to zero with probability `rate` and scale the others to keep the mean.

    Shape: any -> the same. Without `train`, and for rate 0, it is the identity. For a `CSR` input, stored values are
    dropped. With an `xnn.RowKey` as rng, the mask of a row depends only on its number in the whole array.

    Args:
      rate: probability to *drop*, 0 <= rate < 1. (In stax, the rate is the probability to keep.)
      broadcast: axes along which values are dropped together. For images [batch, height, width, features],
        ``Dropout(0.5, broadcast=(1, 2))`` drops whole features, like PyTorch's Dropout2d.
    Params: ``()``.
    Raises: ValueError for a rate outside [0, 1). apply raises TypeError in training if rng is None, and for an input
      without the axes of `broadcast`.
    """
    check_rate("Dropout", rate)
    broadcast = as_axes(broadcast)

    def apply(params, x, *, rng=None, train=False):
        if not train or rate == 0:
            return x
        check_rng("Dropout", rng, rate=rate)
        if broadcast:
            x = jnp.asarray(_with_axes("Dropout", x, broadcast))
        return keep_some(rng, x, 1.0 - rate, broadcast)

    return Layer(shape_kept, apply, "Dropout", settings={"broadcast": broadcast}, positionwise=True,
                 kernel_rule=in_evaluation("Dropout", rate > 0) if broadcast else lambda kernel: dropped(kernel, rate))


def StochasticDepth(rate: float) -> Layer:
    """In training, set whole examples to zero with probability `rate` and scale the others to keep the mean.

    At the end of a residual branch it drops the branch for some examples (Huang et al., 2016), also called drop path:
    ``residual(block, StochasticDepth(0.1))``. Shape: [n, ...] -> the same.

    Args: rate: probability to drop, 0 <= rate < 1.
    Params: ``()``.  Raises, `xnn.RowKey`: as in `Dropout`.
    """
    check_rate("StochasticDepth", rate)

    def apply(params, x, *, rng=None, train=False):
        if not train or rate == 0:
            return x
        check_rng("StochasticDepth", rng, rate=rate)
        x = check_float("StochasticDepth", x)
        return keep_some(rng, x, 1.0 - rate, range(1, x.ndim))

    return Layer(shape_kept, apply, "StochasticDepth", settings={"rate": rate}, positionwise=True,
                 kernel_rule=in_evaluation("StochasticDepth", rate > 0))


_SELU_MINIMUM = -1.0507009873554805 * 1.6732632423543772           # the limit of selu(x) for small x


@recorded()
def AlphaDropout(rate: float, *, broadcast: int | Sequence[int] = ()) -> Layer:
    """Dropout that keeps mean 0 and variance 1 of values after `Selu` (Klambauer et al., 2017).

    In training, values are set to the minimum of Selu with probability `rate`; an affine map of all values restores
    mean and variance. Shape: any -> the same.

    Args: rate, broadcast: as in `Dropout`; ``broadcast=(1, 2)`` is PyTorch's FeatureAlphaDropout for images.
    Params: ``()``.  Raises: as in `Dropout`.
    """
    check_rate("AlphaDropout", rate)
    broadcast = as_axes(broadcast)
    a = ((1 - rate) * (1 + rate * _SELU_MINIMUM**2)) ** -0.5
    b = -a * rate * _SELU_MINIMUM

    def apply(params, x, *, rng=None, train=False):
        if not train or rate == 0:
            return x
        check_rng("AlphaDropout", rng, rate=rate)
        x = check_float("AlphaDropout", _with_axes("AlphaDropout", x, broadcast), 0)
        return a * jnp.where(_mask(rng, x, 1.0 - rate, broadcast), x, _SELU_MINIMUM) + b

    return Layer(shape_kept, apply, "AlphaDropout", settings={"broadcast": broadcast}, positionwise=True,
                 kernel_rule=in_evaluation("AlphaDropout", rate > 0))


def keep_some(rng: PRNGKey | RowKey, x: ArrayLike | CSR, keep: float, broadcast: Sequence[int] = ()) -> Array | CSR:
    """x, an array or CSR, where each value is kept with probability `keep` and divided by it; the others are 0."""
    if isinstance(x, CSR):
        mask = rng_lib.bernoulli_at(rng, keep, x.rows, x.indices)
        return x.with_data(_scaled(mask, x.data, keep))
    x = jnp.asarray(x)
    return _scaled(_mask(rng, x, keep, broadcast), x, keep)


def _scaled(mask: Array, x: Array, keep: float) -> Array:
    return jnp.where(mask, x / keep, 0.0)


def _mask(rng: PRNGKey | RowKey, x: Array, keep: float, broadcast: Sequence[int]) -> Array:
    """A random bool mask of the shape of x, constant along the axes of `broadcast`."""
    axes = {a % x.ndim for a in broadcast}
    if isinstance(rng, RowKey) and 0 in axes:
        rng = rng.key                               # one draw for all rows, in any block
    drawn = rng_lib.bernoulli(rng, keep, tuple(1 if a in axes else n for a, n in enumerate(x.shape)))
    return jnp.broadcast_to(drawn, x.shape)


def _with_axes(caller: str, x: ArrayLike, axes: Sequence[int]) -> ArrayLike:
    rank = len(x.shape) if hasattr(x, "shape") else jnp.ndim(x)
    if axes and (isinstance(x, CSR) or not all(-rank <= a < rank for a in axes)):
        raise bad(caller, "`broadcast` must be axes of a dense input", {"x": type_text(x), "broadcast": str(axes)},
                  fix="pass axes that x has; for a sparse matrix leave `broadcast` out.")
    return x


def check_rate(caller: str, rate: float) -> None:
    """Raises: ValueError unless the rate is in [0, 1)."""
    if not 0 <= rate < 1:
        raise bad(caller, "rate is the probability to drop, and must be in [0, 1)", {"rate": repr(rate)},
                  fix="0.5 drops half of the values; a keep rate r of stax is 1 - r here.", exc=ValueError)
