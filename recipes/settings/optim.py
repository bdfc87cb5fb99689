"""Optimizers and schedules: a config class for each, with its optax transformation.

A key that an optimizer would ignore is not a field of its class, so a config cannot set it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag

from recipes.config import Fraction, Frozen, Index, NotNegative, Positive, RunConfig
from recipes.errors import ConfigError
from recipes.lazy import optim, tree_util, xnn

if TYPE_CHECKING:
    import optax

    from xjax.typing import Params, PyTree

# ---- schedules: learning rate of each update number ------------------------------------------------------------------


class _Schedule(Frozen):
    warmup_steps: Index = 0
    """Updates over which the learning rate grows linearly from 0."""

    def rate(self, lr: float, steps: int) -> optax.Schedule:
        """A function ``update -> rate`` for ``steps`` updates; after them the rate is constant."""
        if not self.warmup_steps:
            return self.decay(lr, steps)
        start = optim.linear_schedule(0.0, lr, self.warmup_steps)
        return optim.join_schedules([start, self.decay(lr, steps - self.warmup_steps)], [self.warmup_steps])

    def decay(self, lr: float, steps: int) -> optax.Schedule:
        """A function ``update -> rate`` for the updates after the warm-up."""
        raise NotImplementedError(f"{type(self).__name__} has no `decay`: a schedule must define how its rate changes.")


class Constant(_Schedule):
    """A constant rate."""

    name: Literal["constant"] = "constant"
    """Which schedule."""

    def decay(self, lr: float, steps: int) -> optax.Schedule:
        return optim.constant_schedule(lr)


class Cosine(_Schedule):
    """Half a cosine period, from the rate down to ``end`` times the rate."""

    name: Literal["cosine"] = "cosine"
    """Which schedule."""
    end: Fraction = 0.0
    """Share of the rate that is left at the end."""

    def decay(self, lr: float, steps: int) -> optax.Schedule:
        return optim.cosine_decay_schedule(lr, steps, alpha=self.end)


class Linear(_Schedule):
    """A linear decay from the rate to ``end`` times the rate."""

    name: Literal["linear"] = "linear"
    """Which schedule."""
    end: Fraction = 0.0
    """Share of the rate that is left at the end."""

    def decay(self, lr: float, steps: int) -> optax.Schedule:
        return optim.linear_schedule(lr, self.end * lr, steps)


class WarmupStableDecay(_Schedule):
    """A constant rate, then a linear decay to ``end`` times the rate over the last updates."""

    name: Literal["wsd"] = "wsd"
    """Which schedule."""
    decay_fraction: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Length of the decay, as a share of the updates after the warm-up."""
    end: Fraction = 0.0
    """Share of the rate that is left at the end."""

    def decay(self, lr: float, steps: int) -> optax.Schedule:
        falling = max(1, round(self.decay_fraction * steps))
        return optim.linear_schedule(lr, self.end * lr, falling, transition_begin=steps - falling)


def _section(value: object) -> object:
    """The section of a value: ``cosine`` is short for ``{name: cosine}``."""
    return {"name": value} if isinstance(value, str) else value


def _name_or(default: str) -> Discriminator:
    """Chooses the class of a section by its ``name``, which is ``default`` if missing."""
    return Discriminator(lambda value: value.get("name", default) if isinstance(value, dict)
                         else getattr(value, "name", None))


Schedule = Annotated[
    Annotated[Constant, Tag("constant")] | Annotated[Cosine, Tag("cosine")] | Annotated[Linear, Tag("linear")]
    | Annotated[WarmupStableDecay, Tag("wsd")], _name_or("constant"), BeforeValidator(_section)]


# ---- optimizers --------------------------------------------------------------------------------------------------


class _Optimizer(Frozen):
    lr: Positive = 0.01
    """Learning rate, the maximum of the schedule."""
    schedule: Schedule = Constant()
    """Schedule of the learning rate: a section, or its name only."""
    clip_norm: Positive | None = None
    """Greatest norm of the whole gradient; a larger gradient is scaled down to it."""
    weight_decay: NotNegative = 0.0
    """Factor of the parameters added to the gradient (L2); in adamw, lion and lamb, to the update (decoupled)."""
    decay_on: Literal["all", "first_layer", "matrices"] = "all"
    """The parameters with weight decay."""

    def rule(self, decay: optax.GradientTransformation) -> list[optax.GradientTransformation]:
        """The transformations between clipping and learning rate, including ``decay``, which adds the weight decay."""
        raise NotImplementedError(f"{type(self).__name__} has no `rule`: an optimizer must define one.")


class _WithMoments(_Optimizer):
    b1: Fraction = 0.9
    """Decay rate of the moving mean of the gradients."""
    b2: Fraction = 0.999
    """Decay rate of the moving mean of their squares."""
    eps: Positive = 1e-8
    """Added to the root of the mean of the squares."""

    def scaled(self) -> optax.GradientTransformation:
        """The mean of the gradients divided by the root of the mean of their squares, both with bias correction."""
        return optim.scale_by_adam(self.b1, self.b2, self.eps)


class Adam(_WithMoments):
    """Adam (Kingma and Ba, 2015); weight decay is added to the gradient."""

    name: Literal["adam"] = "adam"
    """Which optimizer."""

    def rule(self, decay: optax.GradientTransformation) -> list[optax.GradientTransformation]:
        return [decay, self.scaled()]


class AdamW(_WithMoments):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019)."""

    name: Literal["adamw"] = "adamw"
    """Which optimizer."""

    def rule(self, decay: optax.GradientTransformation) -> list[optax.GradientTransformation]:
        return [self.scaled(), decay]


class SGD(_Optimizer):
    """Gradient descent, optionally with momentum."""

    name: Literal["sgd"] = "sgd"
    """Which optimizer."""
    momentum: Fraction = 0.0
    """Share of the last update that the next one keeps."""
    nesterov: bool = False
    """Whether to use Nesterov momentum."""

    def rule(self, decay: optax.GradientTransformation) -> list[optax.GradientTransformation]:
        return [decay] + ([optim.trace(self.momentum, self.nesterov)] if self.momentum else [])


class Lion(_Optimizer):
    """Lion (Chen et al., 2023): the sign of a momentum."""

    name: Literal["lion"] = "lion"
    """Which optimizer."""
    b1: Fraction = 0.9
    """Weight of the momentum in the update, whose other part is the gradient."""
    b2: Fraction = 0.99
    """Decay rate of the momentum."""

    def rule(self, decay: optax.GradientTransformation) -> list[optax.GradientTransformation]:
        return [optim.scale_by_lion(self.b1, self.b2), decay]


class Lamb(_WithMoments):
    """LAMB (You et al., 2020): Adam with the update of each tensor scaled to the norm of its parameters."""

    name: Literal["lamb"] = "lamb"
    """Which optimizer."""
    eps: Positive = 1e-6
    """Added to the root of the mean of the squares."""

    def rule(self, decay: optax.GradientTransformation) -> list[optax.GradientTransformation]:
        return [self.scaled(), decay, optim.scale_by_trust_ratio()]


Optimizer = Annotated[
    Annotated[Adam, Tag("adam")] | Annotated[AdamW, Tag("adamw")] | Annotated[SGD, Tag("sgd")]
    | Annotated[Lion, Tag("lion")] | Annotated[Lamb, Tag("lamb")],
    _name_or("adam"), Field(default=Adam())]


# ---- the transformation ------------------------------------------------------------------------------------------


def make_optimizer(config: RunConfig) -> optax.GradientTransformation:
    """The gradient transformation: clip, rule with decay, learning rate."""
    section = config.optim
    decay = optim.add_decayed_weights(section.weight_decay, mask=_MASKS[section.decay_on])
    rule = optim.chain(*section.rule(decay), optim.scale_by_learning_rate(learning_rate(config)))
    if section.clip_norm is None:
        return rule

    def update(grads: PyTree, state: PyTree, params: Params) -> tuple[PyTree, PyTree]:
        # One factor for all leaves, whose product XLA fuses with the rule; optax divides in another pass over memory.
        return rule.update(xnn.optimizers.clip_grads(grads, section.clip_norm), state, params)

    return rule._replace(update=update)


def learning_rate(config: RunConfig) -> optax.Schedule:
    """The schedule ``update -> rate``."""
    return config.optim.schedule.rate(config.optim.lr, config.schedule_steps or config.steps)


def update_factors(config: RunConfig, params: Params) -> PyTree:
    """A tree like ``params`` of factors: that of each leaf's update, 0 for a frozen leaf.

    Raises: ConfigError if a pattern matches no path.
    """
    frozen = [("freeze", pattern, 0.0) for pattern in config.freeze]
    scaled = [("lr_multipliers", pattern, factor) for pattern, factor in config.lr_multipliers.items()]
    factors = tree_util.tree_map(lambda _: 1.0, params)
    for key, pattern, factor in reversed([*frozen, *scaled]):
        try:
            hits = xnn.params.mask(params, pattern)
        except ValueError as err:
            raise ConfigError(key, str(err).partition(": ")[2]) from None        # the text has our format
        factors = tree_util.tree_map(lambda hit, old, factor=factor: factor if hit else old, hits, factors)
    return factors


def _first_layer(params: Params) -> PyTree:
    """A tree of bools: True on the leaves of the first child of ``params`` that has any."""
    paths = [path for path, _ in tree_util.tree_flatten_with_path(params)[0]]
    return tree_util.tree_map_with_path(lambda path, _: path[0] == paths[0][0], params)


def _matrices(params: Params) -> PyTree:
    return tree_util.tree_map(lambda leaf: leaf.ndim >= 2, params)


_MASKS = {"all": None, "first_layer": _first_layer, "matrices": _matrices}
