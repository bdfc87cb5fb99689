"""`with_remat`: a layer whose intermediate values are recomputed for the gradient instead of stored."""

import dataclasses
from collections.abc import Callable

import xjax
from xnn.layer import Layer, LayerLike, StateFns, as_layer


def with_remat(layer: LayerLike, policy: Callable | None = None) -> Layer:
    """The same layer, with only its inputs stored for the gradient: less memory, but a second evaluation.

    Around each block of a deep model, as in ``repeat(with_remat(block), 96)``, memory grows with the number of blocks
    instead of the number of operations. Values, gradients, parameters and state are those of the layer.

    Args:
      policy: which intermediate values are stored, from `xjax.checkpoint_policies`; None: none of them.
    """
    child = as_layer(layer, "with_remat")

    def apply(params, x, *extra, rng=None, train=False, **named):
        run = xjax.checkpoint(lambda *args, **kw: child.apply(*args, train=train, **kw), policy=policy)
        return run(params, x, *extra, rng=rng, **named)

    def apply_with_state(params, state, x, *extra, rng=None, train=False, **named):
        run = xjax.checkpoint(lambda *args, **kw: child.apply_with_state(*args, train=train, **kw), policy=policy)
        return run(params, state, x, *extra, rng=rng, **named)

    return dataclasses.replace(child, apply=None if child.state else apply, settings={**child.settings, "remat": True},
                               state=child.state and StateFns(child.init_state, apply_with_state),
                               parts=child.parts and child.parts.then(lambda made: with_remat(made, policy)))
