"""One run from a checked config: devices, task, folder, hooks, loop, plot, final line."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from rich.console import Console

import xjax
from recipes.checkpoint import Checkpoints
from recipes.config import TrainConfig
from recipes.folder import environment, note_environment, open_folder
from recipes.hooks import MetricsLog, ProgressBar, SaveCheckpoint, StopOnNaN
from recipes.loop import fit
from recipes.optim import make_optimizer
from recipes.parallel import Placer, choose_devices
from recipes.plots import learning_curve
from recipes.step import init_state
from recipes.tasks import build_task


def run(config: TrainConfig, name: str, *, resume: bool = False) -> dict[str, float]:
    """Trains, evaluates, and leaves a run folder.

    Args:
        name: of the config; the run folder is ``runs/<name>`` unless the config names one.
        resume: go on from the newest checkpoint of the run folder.

    Returns: the test metrics at the last step (not those of the best validation step).
    Raises: RecipeError.
    """
    started = time.perf_counter()
    xjax.config.update("cache_compiled_functions", True)        # a second run starts without compiling
    console = Console(soft_wrap=True)
    placer = Placer(choose_devices(config.devices))
    task = build_task(config, placer)
    optimizer = make_optimizer(config.optim, config.steps)
    folder = open_folder(config, name, resume=resume)
    here = environment(placer.count, placer.devices[0].device_kind)
    for change in note_environment(folder, here):
        console.print(f"[yellow]not bit for bit the unbroken run:[/] {change}", highlight=False)
    checkpoints = Checkpoints(folder / "checkpoints", config.keep_checkpoints)
    state = init_state(task, optimizer, config.seed)
    start = 0
    if saved := checkpoints.steps():
        start = saved[-1]
        state = checkpoints.restore(start, Placer.host(state))
    _announce(console, {**task.summary, "devices": str(placer.count), "folder": str(folder)})
    if resume:
        console.print(f"resumed at step {start} of {config.steps}", highlight=False)

    log = MetricsLog(folder / "metrics.jsonl", start)
    with ProgressBar(console, config.steps, start, config.eval_every) as bar:
        save = SaveCheckpoint(checkpoints, config.checkpoint_every)
        test = fit(config, task, optimizer, placer, state, [StopOnNaN(), log, save, bar])
    _conclude(console, folder, log, task.score, test, f"{name}, seed {config.seed}")
    console.print(
        f"{time.perf_counter() - started:.1f} s; all of it in {folder}",
        style="dim",
        highlight=False,
    )
    return test


def _announce(console: Console, facts: dict[str, str]) -> None:
    width = max(map(len, facts))
    for fact, value in facts.items():
        console.print(f"[bold]{fact:<{width}}[/]  {value}", highlight=False)


def _conclude(
    console: Console, folder: Path, log: MetricsLog, score: str, test: dict[str, float], title: str
) -> None:
    """Writes result and plot, prints the number the run was for."""
    last: Any = log.records[-1].step
    result = {"step": last, "test": test}
    (folder / "result.json").write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    learning_curve(log.records, score, test, title, folder / "learning_curve.png")
    if test:
        text = f"{100 * test[score]:.2f} %" if score == "accuracy" else f"{test[score]:.6g}"
        words = score.replace("_", " ")
        console.print(f"[bold]test {words} {text}[/] (last step, {last})", highlight=False)
    else:
        console.print("no test rows: nothing is measured", highlight=False)
