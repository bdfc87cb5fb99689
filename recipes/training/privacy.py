"""Differentially private gradient descent: clipped gradients of single examples, noise, and the epsilon of a run.

Abadi et al., "Deep Learning with Differential Privacy", 2016. Each example is in a batch with probability q,
independently (Poisson sampling, as the accounting assumes), so the size of a batch varies; the gradient of a batch is
the noisy sum divided by the expected size. The bound does not cover values that are computed once from all examples,
such as the means of columns.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from recipes.batches import RowBatches, Rows
from recipes.config import Privacy, RunConfig
from recipes.errors import ConfigError
from recipes.lazy import jnp, random, tree_util, xjax
from recipes.process.parallel import Placer

if TYPE_CHECKING:
    from recipes.task import Task
    from xjax.typing import Array, ArrayLike, PRNGKey, PyTree


def check_privacy(config: RunConfig, task: Task) -> None:
    """Raises: ConfigError if the guarantee would not hold, or dp-accounting is missing."""
    if config.privacy is None:
        return
    why, fix = "", "leave privacy out, or train a task whose examples are independent with a model of other norms."
    if not task.independent_examples:
        why = f"the examples of the task {config.task.name!r} are not independent"
    elif task.model.state:
        why = "running statistics mix the examples of a batch"
    elif getattr(config.task, "class_weights", None):
        why = "class weights are computed from all examples, without noise"
    elif importlib.util.find_spec("dp_accounting") is None:
        why, fix = "dp-accounting, which computes epsilon, is not installed", "pip install dp-accounting."
    if why:
        raise ConfigError("privacy", f"{why}.", {"task.name": config.task.name}, fix=fix)


def epsilon(privacy: Privacy, steps: int, batch_size: int, n_examples: int) -> float:
    """The epsilon of ``steps`` steps, for the delta of ``privacy``."""
    accounting, rdp = importlib.import_module("dp_accounting"), importlib.import_module("dp_accounting.rdp")
    step = accounting.PoissonSampledDpEvent(min(1.0, batch_size / n_examples),
                                            accounting.GaussianDpEvent(privacy.noise_multiplier))
    accountant = rdp.RdpAccountant()
    accountant.compose(accounting.SelfComposedDpEvent(step, steps))
    return float(accountant.get_epsilon(privacy.delta))


def clipped_sum(gradient: Callable[..., Any], batch: PyTree, first: ArrayLike, clip_norm: float) -> tuple[Any, Any]:
    """(Sum of the clipped gradients, sum of the second results of ``gradient``) over the rows of a batch.

    Args:
      gradient: ``(batch of one row, number of the row) -> (gradients, sums)``.
      first: number of the first row.
    """

    def of_row(row: PyTree, i: Array) -> tuple[Any, Any]:
        grads, sums = gradient(tree_util.tree_map(lambda x: x[None], row), first + i)
        norm = jnp.sqrt(sum(jnp.sum(jnp.square(g)) for g in tree_util.tree_leaves(grads)))
        scale = jnp.minimum(1.0, clip_norm / jnp.maximum(norm, 1e-12))
        return tree_util.tree_map(lambda g: g * scale, grads), sums

    n_rows = batch["weight"].shape[0]
    results = xjax.vmap(of_row)(batch, jnp.arange(n_rows))
    return tree_util.tree_map(lambda x: x.sum(0), results)


def noisy_mean(total: PyTree, key: PRNGKey, privacy: Privacy, batch_size: int) -> PyTree:
    """(total + noise) / expected batch size; the noise of each leaf is equal on all devices."""
    leaves, structure = tree_util.tree_flatten(total)
    keys = random.split(random.fold_in(key, 0x6E6F), len(leaves))
    scale = privacy.noise_multiplier * privacy.clip_norm
    noisy = [(leaf + scale * random.normal(k, leaf.shape, leaf.dtype)) / batch_size
             for leaf, k in zip(leaves, keys, strict=True)]
    return tree_util.tree_unflatten(structure, noisy)


class PoissonBatches(RowBatches):
    """See `Batches`: in training each example is in a batch with probability ``size / examples``.

    Batches are padded to a size that a draw exceeds with a probability below 1e-9; further examples are left out.
    """

    def __init__(self, rows: Rows, placer: Placer, size: int, seed: int) -> None:
        most = min(len(rows), math.ceil(size + 7 * math.sqrt(size) + 7))
        super().__init__(rows, placer, most, seed)
        self.steps_per_launch = 1
        self._share = min(1.0, size / len(rows))

    def train(self, step: int) -> PyTree:
        drawn = np.random.default_rng([self._seed, step, 1]).random(len(self._rows)) < self._share
        return self._place(np.flatnonzero(drawn)[:self._size])
