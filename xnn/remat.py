"""`with_remat`: a layer whose intermediate values are computed again for the gradient instead of kept."""

import dataclasses
from collections.abc import Callable

import xjax
from xnn.layer import Layer, StateFns, as_layer


def with_remat(layer: Layer, policy: Callable | None = None) -> Layer:
    """The same layer, which keeps only its inputs for the gradient: memory for a second evaluation.

    Around each block of a deep model, memory grows with the number of blocks and not of their operations:
    ``repeat(with_remat(block), 96)``. Values, gradients, parameters and state are those of the layer.

    Args:
      policy: what is kept besides, from `xjax.checkpoint_policies`; None keeps nothing.
    """
    child = as_layer(layer, "with_remat")

    def apply(params, x, *extra, rng=None, train=False, **named):
        run = xjax.checkpoint(lambda *args, **kw: child.apply(*args, train=train, **kw), policy=policy)
        return run(params, x, *extra, rng=rng, **named)

    def apply_with_state(params, state, x, *extra, rng=None, train=False, **named):
        run = xjax.checkpoint(lambda *args, **kw: child.apply_with_state(*args, train=train, **kw), policy=policy)
        return run(params, state, x, *extra, rng=rng, **named)

    def rebuild(some):
        return with_remat(child.parts.rebuild(some), policy)

    return dataclasses.replace(child, apply=None if child.state else apply, settings={**child.settings, "remat": True},
                               state=child.state and StateFns(child.init_state, apply_with_state),
                               parts=child.parts and child.parts._replace(rebuild=rebuild))
