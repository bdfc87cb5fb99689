"""Vector quantisation: the public namespace `xjax.scipy.cluster.vq`."""

from __future__ import annotations

from typing import Any

import xjax.numpy as jnp
from xjax.core.errors import bad
from xjax.core.public import attributes_of
from xjax.core.types import typeof
from xjax.numpy.linalg.arguments import inexact
from xjax.runtime.one_launch import one_launch
from xjax.typing import ArrayLike


@one_launch(arrays=2)
def vq(obs: ArrayLike, code_book: ArrayLike, check_finite: bool = True) -> tuple[Any, Any]:
    """The entry of a code book with the least Euclidean distance to each observation.

    Args:
      obs: number[m, n], or [m] for n = 1. code_book: number[k, n], or [k]. check_finite: accepted; nothing is checked.
    Returns: (int[m]: indices of rows of the code book; float[m]: distances).
    Raises: ValueError for shapes that do not fit.

    >>> vq(np.array([[1.0, 1.0], [4.0, 5.0]]), np.array([[0.0, 0.0], [1.0, 2.0], [4.0, 4.0]]))
    (Array([1, 2], dtype=int32), Array([1., 1.], dtype=float32))
    """
    caller = "scipy.cluster.vq.vq"
    obs, code_book = inexact(caller, obs, code_book)
    if obs.ndim != code_book.ndim or obs.ndim not in (1, 2) or obs.shape[1:] != code_book.shape[1:]:
        raise bad(caller, "observations and code book do not fit",
                  given={"obs": typeof(obs), "code_book": typeof(code_book)},
                  fix="pass obs[m, n] and code_book[k, n], or two vectors.", exc=ValueError)
    if obs.ndim == 1:
        obs, code_book = obs[:, None], code_book[:, None]
    distances = jnp.linalg.norm(obs[:, None] - code_book[None], axis=-1)
    codes = jnp.argmin(distances, -1)
    return codes, jnp.take_along_axis(distances, codes[:, None], -1)[:, 0]


__all__ = ["vq"]

__getattr__ = attributes_of(__name__)
