"""`switch`: one of several layers, chosen in each call by an index."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.errors import bad
from xjax.typing import Array, ArrayLike
from xnn.checks import type_text
from xnn.combinators import check_names
from xnn.composites import combine, dict_of
from xnn.inputs import Input, joined
from xnn.layer import Layer, LayerLike, as_layer

_INDEX = Input("index", meaning="integer, the number of the layer to apply")


def switch(*layers: LayerLike, **by_name: LayerLike) -> Layer:
    """Layer number `index` of several, applied to x; only the chosen layer runs, as in `lax.switch`.

    Extra inputs: ``index``, an integer scalar, which may be traced and is clamped to [0, number of layers - 1]; then
    the inputs of the layers. `renamed` gives the index another name.
    Params, state, cache: tuple with one entry for each layer; a dict for ``switch(small=..., large=...)``. Only the
    entry of the chosen layer changes; the gradients of the other entries are zeros.
    Raises: TypeError from `init` if the layers have different output shapes, and from `apply` unless the index is an
      integer scalar. ValueError without layers.

    >>> from xnn import Dense, Identity, switch
    >>> model = switch(Identity, Dense(2))
    >>> _, params = model.init(random.PRNGKey(0), (-1, 2))
    >>> model.apply(params, jnp.ones((1, 2)), 0)
    Array([[1., 1.]], dtype=float32)
    """
    check_names("switch", layers, by_name)
    children = {key: as_layer(layer, f"switch[{key!r}]") for key, layer in (by_name or dict(enumerate(layers))).items()}
    if not children:
        raise bad("switch", "there are no layers to choose from", fix="switch(layer, other_layer).", exc=ValueError)
    inputs = joined("switch", [[_INDEX], *(child.inputs for child in children.values())])

    def walk(visit, in_shape, shapes):
        outs = {key: visit(key, in_shape) for key in children}
        if any(shape != next(iter(outs.values())) for shape in outs.values()):
            raise bad("switch", "the layers have different output shapes",
                      {"in_shape": str(in_shape), **{repr(key): str(shape) for key, shape in outs.items()}},
                      fix="choose layers with outputs of one shape.")
        return next(iter(outs.values()))

    def forward(call, x, values):
        index = _checked(values["index"])
        memory = {} if call.memory is None else call.memory.entries

        def branch(key):
            def run(x, before):
                if call.memory is not None:
                    call.memory.entries = dict(before)
                return call(key, x), before if call.memory is None else call.memory.entries
            return run

        y, after = lax.switch(index, [branch(key) for key in children], x, memory)
        if call.memory is not None:
            call.memory.entries = after
        return y

    def rebuild(some: Mapping[Any, Layer]) -> Layer:
        return switch(**some) if by_name else switch(*some.values())

    return combine("switch", children, walk, forward, dict_of(children) if by_name else tuple, rebuild=rebuild,
                   inputs=inputs, has_kernel=False)


def _checked(index: ArrayLike) -> Array:
    index = jnp.asarray(index)
    if index.ndim or not jnp.issubdtype(index.dtype, np.integer):
        raise bad("switch", "the index must be an integer scalar", {"index": type_text(index)},
                  fix="pass a scalar; for one index per example, use xjax.vmap over x and index.")
    return index
