"""`Average`: a mean over batches and devices, exact for batches of different sizes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import xjax.numpy as jnp
from xjax.typing import Array, ArrayLike
from xnn.losses.reduction import ratio, reduced


class Average(NamedTuple):
    """A weighted mean stored as two sums, a pytree. Averages of batches are added; `value` is computed at the end.

    ``Average.of(cross_entropy(logits, labels, reduction=None), mask)`` is the average of one batch;
    ``lax.psum(average, "batch")`` is the average over all devices of a `pmap`.

    Attributes:
      total: sum of the weighted values, float32[].
      weight: sum of the weights, float32[].

    >>> one, two = Average.of(jnp.array([1.0, 0.0, 1.0])), Average.of(jnp.array([0.0]))
    >>> (one + two).value
    Array(0.5, dtype=float32)
    """

    total: Any
    weight: Any

    @classmethod
    def of(cls, values: ArrayLike, weights: ArrayLike | None = None) -> Average:
        """The average of numbers or bools; weights as in `xnn.losses`."""
        values = jnp.asarray(values).astype(np.float32)
        ones = jnp.ones_like(values)
        return cls(*(reduced("Average", what, weights, "sum", np.float32) for what in (values, ones)))

    @classmethod
    def empty(cls) -> Average:
        """The average of no values, the start of a loop over batches."""
        return cls(jnp.zeros((), np.float32), jnp.zeros((), np.float32))

    def __add__(self, other: Average) -> Average:      # type: ignore[override]   # a tuple's would concatenate
        return Average(self.total + other.total, self.weight + other.weight)

    @property
    def value(self) -> Array:
        """The mean; NaN if there are no values."""
        return ratio(self.total, self.weight, np.nan)
