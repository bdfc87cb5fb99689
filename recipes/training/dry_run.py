"""``--dry-run``: the model as a table, its memory, and one step, without a run folder."""

from __future__ import annotations

import time

from rich.console import Console
from rich.table import Table

from recipes.config import RunConfig
from recipes.lazy import tree_util, xjax, xnn
from recipes.names import on_terminal
from recipes.results.layers import HEADINGS, layer_rows
from recipes.results.numbers import duration, number
from recipes.task import Task
from recipes.training.run import announce, prepare
from recipes.training.step import TrainStep, init_state


def dry_run(config: RunConfig) -> None:
    """Prints the model, its memory and the time of two steps.  Raises: RecipeError as the run would."""
    prepared = prepare(config)
    task, placer = prepared.task, prepared.placer
    console = Console(soft_wrap=True)
    announce(console, prepared.data.summary)
    _print_model(console, task)
    state = init_state(task, config)
    for name, tree in (("parameters", state.params), ("state of the optimizer", state.opt_state)):
        devices = "the device" if placer.count == 1 else f"each of {placer.count} devices"
        console.print(f"{name}: {_megabytes(tree)} on {devices}", highlight=False)
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


def _print_model(console: Console, task: Task) -> None:
    """The whole description of the model; in a terminal that is too narrow for it, its main columns."""
    whole = xnn.describe(task.model, *task.inputs)
    if not console.is_terminal or max(map(len, whole.splitlines())) <= console.width:
        console.print(whole, highlight=False, markup=False)
        return
    headings, *rows = [(layer, shape, count) for layer, shape, _, count in
                       (HEADINGS, *layer_rows(task.model, task.inputs))]
    table, gap = Table(box=None, padding=(0, 2, 0, 0)), 2
    shapes, counts = (max(map(len, column)) + gap for column in list(zip(headings, *rows, strict=True))[1:])
    table.add_column(headings[0], no_wrap=True, max_width=max(20, console.width - shapes - counts - gap))
    table.add_column(headings[1])
    table.add_column(headings[2], justify="right")
    for row in rows:
        table.add_row(*map(on_terminal, row))
    console.print(table)


def _megabytes(tree: object) -> str:
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in tree_util.tree_leaves(tree))
    return f"{size / 1e6:.3g} MB"
