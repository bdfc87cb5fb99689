"""The layers after a transformer's last block, chosen by the field `head` of its config."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

import numpy as np

import xjax.numpy as jnp
from xjax.errors import check_choice
from xjax.typing import Array, ArrayLike, PyTree
from xnn.layer import Layer
from xnn.layers import Dense
from xnn.layers.positions import check_mask

T = TypeVar("T")


class Head(NamedTuple):
    """Layers by name, and a function ``(layers, vectors) -> outputs`` that calls them, for `composite`."""

    layers: Mapping[str, Layer]
    apply: Callable[..., PyTree]


VECTORS = Head({}, lambda layers, x: x)


def chosen(model: str, head: str, heads: Mapping[str, T]) -> T:
    """The entry for the head.  Raises: ValueError for a head that the model does not have."""
    check_choice(model, "head", head, heads)
    return heads[head]


def pooler_head(features: int, activation: Callable = jnp.tanh, w_init: Callable | None = None) -> Head:
    """The vectors, and one for the whole: the first vector after a `Dense`."""
    return Head({"pooler": Dense(features, w_init=w_init)},
                lambda layers, x: (x, activation(layers.pooler(x[:, 0]))))


def kept_tokens(tokens: Array, mask: ArrayLike | None, padding: int | None) -> ArrayLike | None:
    """The mask; without one, where the tokens are not padding. None: there is neither."""
    return tokens != padding if mask is None and padding is not None else mask


def last_kept(caller: str, x: Array, mask: ArrayLike | None) -> Array:
    """The last vector of each row where a mask [batch, time] is True: [batch, features].

    It is the last of all for a row without any True, without a mask, and for a mask of pairs.
    """
    if mask is None or np.ndim(mask) != 2:
        return x[:, -1]
    batch, time, _ = x.shape
    from_end = jnp.argmax(check_mask(caller, mask, (batch, 1, time, time))[:, ::-1], 1)
    return jnp.take_along_axis(x, (time - 1 - from_end)[:, None, None], 1)[:, 0]
