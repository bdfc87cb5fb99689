"""Optimizers: an optax chain from an `OptimConfig`."""

from __future__ import annotations

from typing import Any

from recipes.config import OptimConfig
from xjax import tree_util
from xnn import optim


def make_optimizer(config: OptimConfig, steps: int) -> Any:
    """The gradient transformation: clip, L2 term, rule, learning rate.

    ``adam`` and ``sgd`` see the weight decay as part of the gradient (the L2 loss of the GCN
    paper); ``adamw`` adds it after its own scaling.
    """
    decay = optim.add_decayed_weights(config.weight_decay, mask=_MASKS[config.decay_on])
    parts = [optim.clip_by_global_norm(config.clip_norm)] if config.clip_norm else []
    if config.name == "adamw":
        parts += [optim.scale_by_adam(), decay]
    elif config.name == "adam":
        parts += [decay, optim.scale_by_adam()]
    else:
        parts += [decay] + ([optim.trace(config.momentum)] if config.momentum else [])
    return optim.chain(*parts, optim.scale_by_learning_rate(learning_rate(config, steps)))


def learning_rate(config: OptimConfig, steps: int) -> Any:
    """A float, or a schedule ``step -> rate``: linear warm-up, then constant or cosine to 0."""
    if config.schedule == "cosine":
        return optim.warmup_cosine_decay_schedule(
            init_value=0.0 if config.warmup_steps else config.lr,
            peak_value=config.lr,
            warmup_steps=config.warmup_steps,
            decay_steps=max(steps, config.warmup_steps + 1),
        )
    if config.warmup_steps:
        return optim.linear_schedule(0.0, config.lr, config.warmup_steps)
    return config.lr


def first_layer_only(params: Any) -> Any:
    """A tree of bools: True on the leaves of the first child of ``params`` that has any."""
    paths = [path for path, _ in tree_util.tree_flatten_with_path(params)[0]]
    return tree_util.tree_map_with_path(lambda path, _: path[0] == paths[0][0], params)


_MASKS = {"all": None, "first_layer": first_layer_only}
