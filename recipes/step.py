"""The pure step: one update of the state, and one evaluation, each a pmap over the devices.

A metric leaves the device as (sum, weight), is psum'ed, and is divided on the host: padded rows
have weight zero, so the device count changes no number beyond rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import numpy as np

import xjax
from recipes.parallel import AXIS, Placer
from recipes.tasks.base import Sums, Task
from xjax import lax, random, tree_util
from xnn import optim


class TrainState(NamedTuple):
    """All that a run carries from one step to the next; a checkpoint holds exactly this."""

    params: Any
    opt_state: Any
    rng: Any  # u32[2], the same at every step; a step draws from fold_in(rng, step)
    step: Any  # i32[], updates done


def init_state(task: Task, optimizer: Any, seed: int) -> TrainState:
    """The state before the first step, not yet placed."""
    init_rng, rng = random.split(random.PRNGKey(seed))
    params = task.init(init_rng)
    return TrainState(params, optimizer.init(params), rng, np.int32(0))


def make_train_step(task: Task, optimizer: Any, placer: Placer) -> Callable[..., Any]:
    """``(state, batch) -> (state, sums)`` over placed trees; the state is donated."""

    def step(state: TrainState, batch: Any) -> tuple[TrainState, Sums]:
        rng = random.fold_in(state.rng, state.step)

        def objective(params: Any) -> tuple[Any, Sums]:
            sums = task.sums(params, batch, rng=rng, train=True)
            _check_sums(sums)
            return sums["loss"][0], sums

        grads, sums = xjax.grad(objective, has_aux=True)(state.params)
        grads, sums = lax.psum((grads, sums), AXIS)
        weight = sums["loss"][1]
        grads = tree_util.tree_map(lambda g: g / weight, grads)
        updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
        params = optim.apply_updates(state.params, updates)
        new = TrainState(params, opt_state, state.rng, state.step + 1)
        _check_same_types(state, new)
        return new, sums

    return xjax.pmap(step, axis_name=AXIS, devices=placer.devices, donate_argnums=0)


def make_eval_step(task: Task, placer: Placer) -> Callable[..., Any]:
    """``(params, batch) -> sums`` over placed trees."""

    def step(params: Any, batch: Any) -> Sums:
        return lax.psum(task.sums(params, batch), AXIS)

    return xjax.pmap(step, axis_name=AXIS, devices=placer.devices)


def evaluate(eval_step: Callable[..., Any], params: Any, batches: Any) -> dict[str, float]:
    """Means over all batches; {} if there are none."""
    totals: dict[str, tuple[float, float]] = {}
    for batch in batches:
        for name, (total, weight) in Placer.fetch(eval_step(params, batch)).items():
            before = totals.get(name, (0.0, 0.0))
            totals[name] = (before[0] + float(total), before[1] + float(weight))
    return means(totals)


def means(sums: Sums) -> dict[str, float]:
    """Sum over weight of each metric, on the host."""
    return {name: float(total) / float(weight) for name, (total, weight) in sums.items()}


# ---- checks at the borders: they look at types only, so they cost nothing once compiled ----------


def _check_sums(sums: Sums) -> None:
    for total, weight in sums.values():
        chex.assert_shape([total, weight], ())


def _check_same_types(old: TrainState, new: TrainState) -> None:
    chex.assert_trees_all_equal_shapes_and_dtypes(old._asdict(), new._asdict())
