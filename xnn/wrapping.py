"""`wrapped`: a layer with a computation before and after it, for all ways to call it."""

import dataclasses
from collections.abc import Callable
from typing import Any

from xnn.layer import CacheFns, Layer, StateFns


def wrapped(layer: Layer, around: Callable, **fields: Any) -> Layer:
    """The layer with `around` wrapped around its computation, in `apply`, `apply_with_state` and `apply_with_cache`.

    Args:
      around: ``(call, params, x, *extra, **named) -> y``. ``call(params, x, *extra, **named)`` is the layer's own
        computation; `call` passes state, cache and key to it.
      fields: fields of the result that differ from those of the layer; `init` if the parameters differ.
    """

    def apply(params, x, *extra, rng=None, train=False, **named):
        def call(params, x, *extra, **named):
            return layer.apply(params, x, *extra, rng=rng, train=train, **named)

        return around(call, params, x, *extra, **named)

    def apply_with_state(params, state, x, *extra, rng=None, train=False, **named):
        def call(params, x, *extra, **named):
            nonlocal state
            y, state = layer.apply_with_state(params, state, x, *extra, rng=rng, train=train, **named)
            return y

        return around(call, params, x, *extra, **named), state

    def apply_with_cache(params, cache, x, *extra, state=(), **named):
        def call(params, x, *extra, **named):
            nonlocal cache
            y, cache = layer.apply_with_cache(params, cache, x, *extra, state=state, **named)
            return y

        return around(call, params, x, *extra, **named), cache

    return dataclasses.replace(layer, **{
        "apply": None if layer.state else apply,
        "state": layer.state and StateFns(layer.init_state, apply_with_state),
        "cache": layer.cache and CacheFns(layer.init_cache, apply_with_cache), **fields})
