"""The pure step: one update of the state, and one evaluation, each a pmap over the devices.

A metric is (sum, weight), summed over the devices by psum, and divided on the host. Padding rows have weight zero, so
the number of devices changes metrics by rounding only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from recipes.config import RunConfig
from recipes.lazy import chex, jnp, lax, optim, random, tree_util, xjax, xnn
from recipes.process.parallel import AXIS, Placer, my_rows
from recipes.process.progress import tick
from recipes.settings.optim import learning_rate, make_optimizer, update_factors
from recipes.task import Bound, Sums, Task
from recipes.training.privacy import clipped_sum, noisy_mean

if TYPE_CHECKING:
    from xjax.typing import Array, ArrayLike, Params, PRNGKey, PyTree


class TrainState(NamedTuple):
    """The state that a run carries from one step to the next.

    Attributes:
      params, model_state: parameters and state of the model.
      opt_state: state of the optimizer.
      ema: moving average of the parameters; () if the config has none.
      rng: u32[2], the same at every step; a step draws from fold_in(rng, step).
      step: i32[], number of updates done.
    """

    params: Any
    model_state: Any
    opt_state: Any
    ema: Any
    rng: Any
    step: Any

    @property
    def model(self) -> tuple[Any, Any]:
        """(parameters, state) for evaluation and prediction."""
        return (self.ema if tree_util.tree_leaves(self.ema) else self.params), self.model_state


def init_state(task: Task, config: RunConfig) -> TrainState:
    """The state before the first step, not yet placed."""
    init_rng, rng = random.split(random.PRNGKey(config.seed))
    params, model_state = task.init(init_rng)
    ema = params if config.ema is not None else ()
    return TrainState(params, model_state, make_optimizer(config).init(params), ema, rng, np.int32(0))


class TrainStep:
    """``(state, batch, count) -> (state, sums)``: ``count`` updates in one launch; the state is donated.

    The sums of a launch are one array, so they need one transfer; `sums_of` reads it.
    """

    def __init__(self, task: Task, config: RunConfig, placer: Placer, steps_per_launch: int = 1,
                 full_batch: bool = True) -> None:
        """Args: steps_per_launch: the greatest count; full_batch: whether all updates have one batch: see `Batches`."""
        self._names: list[str] = []
        self._steps_per_launch, self._full_batch = steps_per_launch, full_batch
        self._step = _step_function(task, config)
        launch, in_axes = (self._one, (None, 0)) if steps_per_launch == 1 else (self._several, (None, 0, None))
        self._call = placer.pmap(launch, in_axes=in_axes, out_axes=None, donate_argnums=0)

    def __call__(self, state: TrainState, batch: PyTree, count: int = 1) -> tuple[TrainState, Any]:
        counted = () if self._steps_per_launch == 1 else (np.int32(count),)
        return self._call(state, batch, *counted)

    def sums_of(self, launches: Sequence[tuple[int, Any]]) -> list[dict[str, tuple[Any, Any]]]:
        """The (sum, weight) of each metric, for each update.  Args: launches: (count, sums) of each call."""
        counts = [count for count, _ in launches]
        arrays = xjax.device_get([packed for _, packed in launches])
        updates = [each for count, array in zip(counts, arrays, strict=True) for each in array[:count]]
        return [dict(zip(self._names, zip(*each, strict=True), strict=True)) for each in updates]

    def _one(self, state: TrainState, batch: PyTree) -> tuple[TrainState, Any]:
        """The sums: f32[1, 2, metrics]."""
        state, sums = self._step(state, batch)
        self._names = list(sums)                              # the same at each trace
        pairs = [[jnp.asarray(pair[i], jnp.float32) for pair in sums.values()] for i in (0, 1)]
        return state, jnp.array([pairs])

    def _several(self, state: TrainState, batch: PyTree, count: Array) -> tuple[TrainState, Any]:
        """The sums: f32[steps_per_launch, 2, metrics], of which the first ``count`` are set."""
        def at(i: ArrayLike) -> PyTree:
            if self._full_batch:
                return batch
            return tree_util.tree_map(lambda x: lax.dynamic_index_in_dim(x, i, 0, keepdims=False), batch)

        def update(i: Array, carry: tuple[TrainState, Array]) -> tuple[TrainState, Array]:
            state, sums = self._one(carry[0], at(i))
            return state, lax.dynamic_update_slice_in_dim(carry[1], sums, i, 0)

        _, one = xjax.eval_shape(lambda state, batch: self._one(state, at(0)), state, batch)
        sums = jnp.zeros((self._steps_per_launch, *one.shape[1:]), one.dtype)
        return lax.fori_loop(0, count, update, (state, sums))


def _step_function(task: Task, config: RunConfig) -> Callable[..., Any]:
    """The step of one device."""
    optimizer, rate = make_optimizer(config), learning_rate(config)

    def step(state: TrainState, batch: PyTree) -> tuple[TrainState, Sums]:
        key = random.fold_in(state.rng, state.step)
        grads, model_state, sums = _gradients(task, config, state, batch, key)
        updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
        factors = update_factors(config, state.params)
        updates = tree_util.tree_map(lambda u, factor: u if factor == 1 else u * factor, updates, factors)
        params = optim.apply_updates(state.params, updates)
        ema = () if config.ema is None else xnn.params.ema(state.ema, params, config.ema, step=state.step)
        new = TrainState(params, model_state, opt_state, ema, state.rng, state.step + 1)
        _check_same_types(state, new)
        sums = {**sums, "lr": (jnp.asarray(rate(state.step), float), 1.0),
                "gradient_norm": (xnn.optimizers.l2_norm(grads), 1.0)}
        return new, sums

    return step


def _gradients(task: Task, config: RunConfig, state: TrainState, batch: PyTree, key: PRNGKey) -> tuple[Any, Any, Sums]:
    """(Mean gradient, new state of the model, sums of metrics), over the rows of all devices."""
    n_rows = batch["weight"].shape[0]
    first = my_rows(n_rows)

    def objective(params: Params, model_state: PyTree, part: PyTree, start: Array) -> tuple[Any, Any]:
        for pattern in config.freeze:
            params = xnn.params.freeze(params, pattern)
        model = Bound(task.model, params, model_state, xnn.RowKey(key, start), train=True)
        sums = {name: pair for name, pair in task.sums(model, part).items() if jnp.ndim(pair[0]) == 0}
        _check_sums(sums)
        return sums["loss"][0], (model.state, sums)

    gradient = xjax.grad(objective, has_aux=True)
    if config.privacy is not None:
        def of_row(row: PyTree, number: Array) -> tuple[Any, Sums]:
            grads, (_, sums) = gradient(state.params, state.model_state, row, number)
            return grads, sums

        grads, sums = lax.psum(clipped_sum(of_row, batch, first, config.privacy.clip_norm), AXIS)
        return noisy_mean(grads, key, config.privacy, config.task.batch_size), state.model_state, sums
    if config.accumulate == 1:
        _, pull_back, (model_state, sums) = xjax.vjp(
            lambda params: objective(params, state.model_state, batch, first), state.params, has_aux=True)
        sums = lax.psum(sums, AXIS)
        loss, weight = sums["loss"]
        grads, = pull_back(jnp.asarray(1 / weight, loss.dtype))         # one division, not one for each gradient
        return lax.psum(grads, AXIS), model_state, sums

    size = n_rows // config.accumulate
    parts = tree_util.tree_map(lambda x: x.reshape(config.accumulate, size, *x.shape[1:]), batch)

    def add(carry: tuple[PyTree, PyTree], indexed: tuple[PyTree, Array]) -> tuple[tuple[PyTree, PyTree], Sums]:
        total, model_state = carry
        part, i = indexed
        grads, (model_state, sums) = gradient(state.params, model_state, part, first + i * size)
        return (tree_util.tree_map(jnp.add, total, grads), model_state), sums

    zeros = tree_util.tree_map(jnp.zeros_like, state.params)
    (grads, model_state), sums = lax.scan(add, (zeros, state.model_state), (parts, jnp.arange(config.accumulate)))
    grads, sums = lax.psum((grads, tree_util.tree_map(lambda x: x.sum(0), sums)), AXIS)
    return tree_util.tree_map(lambda g: g / sums["loss"][1], grads), model_state, sums


def make_eval_step(task: Task, placer: Placer) -> Callable[..., Any]:
    """The evaluation ``((params, model state), batch) -> sums`` of placed trees."""

    def step(model: tuple[Any, Any], batch: PyTree) -> Sums:
        return lax.psum(task.sums(Bound(task.model, *model), batch), AXIS)

    return placer.pmap(step, in_axes=(None, 0), out_axes=None)


def totals_over(eval_step: Callable[..., Any], model: PyTree, batches: Iterable[PyTree]) -> dict[str, tuple[Any, Any]]:
    """Sums and weights over all batches, in float64; {} if there are no batches."""
    totals: dict[str, tuple[Any, Any]] = {}
    for batch in batches:
        tick()
        for name, (total, weight) in Placer.host(eval_step(model, batch)).items():
            before = totals.get(name, (0.0, 0.0))
            totals[name] = (before[0] + np.float64(total), before[1] + np.float64(weight))
    return totals


# ---- checks of types, done when the step is traced: without cost in a compiled step ----------------------


def _check_sums(sums: Sums) -> None:
    for total, weight in sums.values():
        chex.assert_shape([total, weight], ())


def _check_same_types(old: TrainState, new: TrainState) -> None:
    chex.assert_trees_all_equal_shapes_and_dtypes(old._asdict(), new._asdict())
