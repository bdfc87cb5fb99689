"""The inputs `time` and `label` of models of images: together they are the condition that the layers read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import xjax.numpy as jnp
from xjax.errors import bad
from xjax.nn import initializers
from xjax.typing import Array, ArrayLike, Shape
from xnn.checks import type_text
from xnn.combinators import serial
from xnn.composites import combine, dict_of
from xnn.inputs import Input, joined
from xnn.layer import Layer
from xnn.layers import Dense, LabelEmbedding, Silu


def embeddings(features: int, *, of_time: Layer | None, labels: int, dropout: float) -> dict[str, Layer]:
    """The layers of `time` and `label` for `conditioned`, each [batch] -> [batch, features].

    Args: of_time: layer of the features of a time, followed by two affine maps, as in DDPM and DiT; None: no `time`.
      labels: number of labels; 0: no `label`. dropout: as in `LabelEmbedding`.
    """
    dense = Dense(features, w_init=initializers.normal(0.02))
    return {**({} if of_time is None else {"time": serial(of_time, dense, Silu, dense)}),
            **({"label": LabelEmbedding(labels, features, dropout=dropout)} if labels else {})}


def conditioned(name: str, children: Mapping[str, Layer], null_label: int) -> Layer:
    """A model of images with further inputs `time` and `label`, from a network with the input `condition`.

    The condition is the sum of the embeddings of the inputs. A time or label may be one number for all images; the
    label may be left out. Other inputs of the network follow.

    Args:
      children: the `embeddings`, and the "network".
      null_label: the label in place of one that is left out.
    Params: those of the children.
    """
    keys = [key for key in children if key != "network"]
    own = {"time": Input("time"), "label": Input("label", None)}
    others = [[one for one in child.inputs if one.name != "condition"] for child in children.values()]

    def walk(visit: Callable, in_shape: Shape, shapes: Mapping[str, Any]) -> Shape:
        condition = [visit(key, in_shape[:1]) for key in keys][-1]
        return visit("network", in_shape, condition=condition)

    def forward(call: Callable, x: Array, values: Mapping[str, Any]) -> Array:
        parts = [call(key, _one_per_image(name, key, values[key], x, null_label)) for key in keys]
        return call("network", x, condition=sum(parts[1:], start=parts[0]))

    return combine(name, children, walk, forward, dict_of(children),
                   inputs=joined(name, [[own[key] for key in keys], *others]), passes=("condition",),
                   rebuild=lambda some: conditioned(name, some, null_label))


def _one_per_image(name: str, key: str, value: ArrayLike | None, x: ArrayLike, null_label: int) -> Array:
    """The values [batch] of an input, of which there is one for each image, or one for all."""
    value, shape = jnp.asarray(null_label if value is None else value), jnp.shape(x)[:1]
    if value.shape not in ((), shape):
        raise bad(name, f"`{key}` must have one number for each image", {"x": type_text(x), key: type_text(value)},
                  f"pass an array of shape {shape}, or one number for all images.")
    return jnp.broadcast_to(value, shape)
