"""``--dry-run``: the model as a table, its memory, and one step, without a run folder."""

from __future__ import annotations

import time

from rich.console import Console

from recipes.config import RunConfig
from recipes.lazy import tree_util, xjax, xnn
from recipes.results.numbers import duration, number
from recipes.training.run import announce, prepare
from recipes.training.step import TrainStep, init_state


def dry_run(config: RunConfig) -> None:
    """Prints the model, its memory and the time of two steps.  Raises: RecipeError as the run would."""
    prepared = prepare(config)
    task, placer = prepared.task, prepared.placer
    console = Console(soft_wrap=True)
    announce(console, prepared.data.summary)
    console.print(xnn.describe(task.model, *task.inputs), highlight=False, markup=False)
    state = init_state(task, config)
    for name, tree in (("parameters", state.params), ("state of the optimizer", state.opt_state)):
        console.print(f"{name}: {_megabytes(tree)} on each of {placer.count} devices", highlight=False)
    batch = prepared.batches()["train"].train(0)
    console.print(f"a batch: {_megabytes(batch)} on all devices", highlight=False)
    step = TrainStep(task, config, placer)
    started = time.perf_counter()
    state, sums = step(placer.replicate(state), batch)
    metrics = task.metrics(step.sums_of([(1, sums)])[0])
    compiled = time.perf_counter()
    xjax.block_until_ready(step(state, batch))
    console.print(f"the first step, with its compilation: {duration(compiled - started)}; the second: "
                  f"{duration(time.perf_counter() - compiled)}; loss {number(metrics['loss'])}", highlight=False)


def _megabytes(tree: object) -> str:
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in tree_util.tree_leaves(tree))
    return f"{size / 1e6:.3g} MB"
