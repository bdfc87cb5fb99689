"""`normal_weights`: initializers by the two standard deviations with which papers on wide networks describe a layer."""

from __future__ import annotations

from typing import Any

from xjax.nn.initializers import normal, variance_scaling
from xjax.typing import ArrayLike

__all__ = ["normal_weights"]


def normal_weights(w_std: ArrayLike = 1.0, b_std: ArrayLike | None = None) -> dict[str, Any]:
    """Arguments for `Dense`, `Conv` and other layers with weights: ``Dense(512, **normal_weights(1.5, 0.1))``.

    A weight is normal with standard deviation ``w_std / sqrt(n)``, where n is the number of inputs of an output. A bias
    is normal with standard deviation `b_std`; with None the layer has no bias. The kernel of the layer's output is
    ``w_std**2 K + b_std**2`` for the kernel K of its input.

    >>> from xnn import Dense
    >>> Dense(512, **normal_weights(1.5)).kernel(xjax.numpy.eye(2), get="nngp")
    Array([[1.125, 0.   ],
           [0.   , 1.125]], dtype=float32)
    """
    weights = {"w_init": variance_scaling(w_std * w_std, "fan_in", "normal")}       # type: ignore[operator]
    return {**weights, "bias": False} if b_std is None else {**weights, "b_init": normal(b_std)}
