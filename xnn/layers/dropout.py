"""Dropout, for dense arrays and for the stored values of a sparse matrix."""

from typing import Any

import xjax.numpy as jnp
from xjax.errors import bad
from xnn import rng as rng_lib
from xnn.layer import Layer
from xnn.sparse import CSR


def Dropout(rate: float) -> Layer:
    """In training set each value to zero with probability `rate`, scale the rest to keep the mean.

    Shape: any -> the same. Without `train`, and for rate 0, it is the identity. Of a `CSR` input
    the stored values are dropped: the zeros between them stay zero either way.

    Args:
      rate: probability to *drop*, 0 <= rate < 1. (stax counts the other way round: its rate is
        the probability to keep.)
    Params: ``()``.
    Raises: ValueError for a rate outside [0, 1); apply raises TypeError if `train` is true and
      rng is None.
    With an `xnn.RowKey` as rng the mask of a row depends on the row's global number only.
    """
    if not 0 <= rate < 1:
        raise bad(
            "Dropout",
            "rate is the probability to drop a value, and must be in [0, 1)",
            {"rate": repr(rate)},
            fix="Dropout(0.5) drops half of the values; stax's keep rate r is Dropout(1 - r).",
            exc=ValueError,
        )

    def init(rng, in_shape):
        return in_shape, ()

    def apply(params, x, *, rng=None, train=False):
        if not train or rate == 0:
            return x
        if rng is None:
            raise bad(
                "Dropout",
                "training needs random bits, but rng is None",
                {"rate": repr(rate), "train": "True", "rng": "None"},
                fix="pass rng=random.fold_in(key, step), or train=False to evaluate.",
            )
        return keep_some(rng, x, 1.0 - rate)

    return Layer(init, apply, "Dropout", settings={"rate": rate}, positionwise=True)


def keep_some(rng: Any, x: Any, keep: float) -> Any:
    """x, an array or CSR: each value stays with probability `keep`, divided by it; the others are 0."""
    if isinstance(x, CSR):
        mask = rng_lib.bernoulli_at(rng, keep, x.rows, x.indices)
        return x.with_data(_masked(mask, x.data, keep))
    x = jnp.asarray(x)
    return _masked(rng_lib.bernoulli(rng, keep, x.shape), x, keep)


def _masked(mask, x, keep):
    return jnp.where(mask, x / keep, 0.0)
