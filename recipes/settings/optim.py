"""Optimizers and schedules: a config class for each, with the optax transformation that it means.

A key that an optimizer would ignore is no field of its class, so it cannot be written.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag

from recipes.config import Fraction, Frozen, Index, NotNegative, Positive, RunConfig
from recipes.errors import ConfigError
from recipes.lazy import optim, tree_util, xnn

# ---- schedules: from update number to learning rate ------------------------------------------------------------------


class _Schedule(Frozen):
    warmup_steps: Index = 0
    """Updates over which the rate grows linearly from 0."""

    def rate(self, lr: float, steps: int) -> Any:
        """``update -> rate`` over ``steps`` updates, and the last rate after them."""
        if not self.warmup_steps:
            return self.decay(lr, steps)
        start = optim.linear_schedule(0.0, lr, self.warmup_steps)
        return optim.join_schedules([start, self.decay(lr, steps - self.warmup_steps)], [self.warmup_steps])

    def decay(self, lr: float, steps: int) -> Any:
        """``update -> rate`` over the updates after the warm-up."""
        raise NotImplementedError(f"{type(self).__name__} has no `decay`: a schedule says how its rate changes.")


class Constant(_Schedule):
    """The same rate."""

    name: Literal["constant"] = "constant"
    """Which schedule."""

    def decay(self, lr: float, steps: int) -> Any:
        return optim.constant_schedule(lr)


class Cosine(_Schedule):
    """Half a cosine from the rate down to ``end`` of it."""

    name: Literal["cosine"] = "cosine"
    """Which schedule."""
    end: Fraction = 0.0
    """Share of the rate that is left at the end."""

    def decay(self, lr: float, steps: int) -> Any:
        return optim.cosine_decay_schedule(lr, steps, alpha=self.end)


class Linear(_Schedule):
    """A line from the rate down to ``end`` of it."""

    name: Literal["linear"] = "linear"
    """Which schedule."""
    end: Fraction = 0.0
    """Share of the rate that is left at the end."""

    def decay(self, lr: float, steps: int) -> Any:
        return optim.linear_schedule(lr, self.end * lr, steps)


class WarmupStableDecay(_Schedule):
    """The same rate, and a line down to ``end`` of it over the last updates."""

    name: Literal["wsd"] = "wsd"
    """Which schedule."""
    decay_fraction: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Share of the updates after the warm-up that the decay takes."""
    end: Fraction = 0.0
    """Share of the rate that is left at the end."""

    def decay(self, lr: float, steps: int) -> Any:
        falling = max(1, round(self.decay_fraction * steps))
        return optim.linear_schedule(lr, self.end * lr, falling, transition_begin=steps - falling)


def _section(value: Any) -> Any:
    """``cosine`` is short for ``{name: cosine}``."""
    return {"name": value} if isinstance(value, str) else value


def _name_or(default: str) -> Discriminator:
    """Which class a section means: one that does not say means ``default``."""
    return Discriminator(lambda value: value.get("name", default) if isinstance(value, dict)
                         else getattr(value, "name", None))


Schedule = Annotated[
    Annotated[Constant, Tag("constant")] | Annotated[Cosine, Tag("cosine")] | Annotated[Linear, Tag("linear")]
    | Annotated[WarmupStableDecay, Tag("wsd")], _name_or("constant"), BeforeValidator(_section)]


# ---- optimizers --------------------------------------------------------------------------------------------------


class _Optimizer(Frozen):
    lr: Positive = 0.01
    """Learning rate, the highest of the schedule."""
    schedule: Schedule = Constant()
    """How the learning rate changes: a section, or its name alone."""
    clip_norm: Positive | None = None
    """Greatest norm of the whole gradient; a longer one is scaled down to it."""
    weight_decay: NotNegative = 0.0
    """Factor of the parameters in the gradient (L2); in adamw, lion and lamb beside the gradient."""
    decay_on: Literal["all", "first_layer", "matrices"] = "all"
    """The parameters that decay."""

    def rule(self, decay: Any) -> list[Any]:
        """The transformations between clipping and learning rate, with the one that adds the decay in its place."""
        raise NotImplementedError(f"{type(self).__name__} has no `rule`: an optimizer says what it does to gradients.")


class _WithMoments(_Optimizer):
    b1: Fraction = 0.9
    """Decay of the mean of the gradients."""
    b2: Fraction = 0.999
    """Decay of the mean of their squares."""
    eps: Positive = 1e-8
    """Added to the root of the mean of the squares."""

    def scaled(self) -> Any:
        """The mean of the gradients over the root of the mean of their squares, both without bias."""
        return optim.scale_by_adam(self.b1, self.b2, self.eps)


class Adam(_WithMoments):
    """Adam (Kingma and Ba, 2015); the decay is part of its gradient."""

    name: Literal["adam"] = "adam"
    """Which optimizer."""

    def rule(self, decay: Any) -> list[Any]:
        return [decay, self.scaled()]


class AdamW(_WithMoments):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019)."""

    name: Literal["adamw"] = "adamw"
    """Which optimizer."""

    def rule(self, decay: Any) -> list[Any]:
        return [self.scaled(), decay]


class SGD(_Optimizer):
    """Gradient descent, with momentum if asked for."""

    name: Literal["sgd"] = "sgd"
    """Which optimizer."""
    momentum: Fraction = 0.0
    """Share of the last update that the next one keeps."""
    nesterov: bool = False
    """Whether the momentum looks ahead."""

    def rule(self, decay: Any) -> list[Any]:
        return [decay] + ([optim.trace(self.momentum, self.nesterov)] if self.momentum else [])


class Lion(_Optimizer):
    """Lion (Chen et al., 2023): the sign of a momentum."""

    name: Literal["lion"] = "lion"
    """Which optimizer."""
    b1: Fraction = 0.9
    """Decay of the mean of the gradients."""
    b2: Fraction = 0.99
    """Decay of the mean that the next update begins with."""

    def rule(self, decay: Any) -> list[Any]:
        return [optim.scale_by_lion(self.b1, self.b2), decay]


class Lamb(_WithMoments):
    """LAMB (You et al., 2020): Adam whose update is as long as the parameters of each layer."""

    name: Literal["lamb"] = "lamb"
    """Which optimizer."""
    eps: Positive = 1e-6
    """Added to the root of the mean of the squares."""

    def rule(self, decay: Any) -> list[Any]:
        return [self.scaled(), decay, optim.scale_by_trust_ratio()]


Optimizer = Annotated[
    Annotated[Adam, Tag("adam")] | Annotated[AdamW, Tag("adamw")] | Annotated[SGD, Tag("sgd")]
    | Annotated[Lion, Tag("lion")] | Annotated[Lamb, Tag("lamb")],
    _name_or("adam"), Field(default=Adam())]


# ---- the transformation ------------------------------------------------------------------------------------------


def make_optimizer(config: RunConfig) -> Any:
    """The gradient transformation: clip, rule with decay, learning rate."""
    section = config.optim
    decay = optim.add_decayed_weights(section.weight_decay, mask=_MASKS[section.decay_on])
    rule = optim.chain(*section.rule(decay), optim.scale_by_learning_rate(learning_rate(config)))
    if section.clip_norm is None:
        return rule

    def update(grads: Any, state: Any, params: Any) -> tuple[Any, Any]:
        # One factor for all, which XLA joins with the rule; optax divides each entry, in a pass of its own over memory.
        return rule.update(xnn.optimizers.clip_grads(grads, section.clip_norm), state, params)

    return rule._replace(update=update)


def learning_rate(config: RunConfig) -> Any:
    """The schedule ``update -> rate``."""
    return config.optim.schedule.rate(config.optim.lr, config.schedule_steps or config.steps)


def update_factors(config: RunConfig, params: Any) -> Any:
    """A tree like ``params``: what each leaf's update is multiplied by, 0 for a frozen one.

    Raises: ConfigError if a pattern matches no path.
    """
    frozen = [("freeze", pattern, 0.0) for pattern in config.freeze]
    scaled = [("lr_multipliers", pattern, factor) for pattern, factor in config.lr_multipliers.items()]
    factors = tree_util.tree_map(lambda _: 1.0, params)
    for key, pattern, factor in reversed([*frozen, *scaled]):
        try:
            hits = xnn.params.mask(params, pattern)
        except ValueError as err:
            raise ConfigError(key, str(err).partition(": ")[2]) from None        # the text is in the house format
        factors = tree_util.tree_map(lambda hit, old, factor=factor: factor if hit else old, hits, factors)
    return factors


def _first_layer(params: Any) -> Any:
    """A tree of bools: True on the leaves of the first child of ``params`` that has any."""
    paths = [path for path, _ in tree_util.tree_flatten_with_path(params)[0]]
    return tree_util.tree_map_with_path(lambda path, _: path[0] == paths[0][0], params)


def _matrices(params: Any) -> Any:
    return tree_util.tree_map(lambda leaf: leaf.ndim >= 2, params)


_MASKS = {"all": None, "first_layer": _first_layer, "matrices": _matrices}
