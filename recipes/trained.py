"""A trained model: `open_run` reads it from a run folder or an exported folder, without training data.

    from recipes.trained import open_run
    trained = open_run("runs/gcn")
    trained.predict("new.csv")                                # {column: array}
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from recipes.batches import Batches
from recipes.config import RunConfig
from recipes.errors import DataError, RecipeError
from recipes.lazy import tree_util, xjax
from recipes.process.parallel import Placer, choose_devices
from recipes.results.checkpoint import Checkpoints
from recipes.results.exported import ABOUT, ARRAYS, read_arrays
from recipes.results.folder import as_written, find_run, is_kernel_run, saved_config
from recipes.results.numbers import number
from recipes.settings.config_file import load_config
from recipes.task import Bound, Task
from recipes.training.kernel_model import open_kernel_run
from recipes.training.loop import begin
from recipes.training.opened import Opened
from recipes.training.run import make_task
from recipes.training.step import init_state, make_eval_step, totals_over

if TYPE_CHECKING:
    from xjax.typing import PyTree


class Trained(Opened):
    """A trained model, made by `open_run`.

    Attributes:
      folder, config, task: see `Opened`.
      params, state: parameters and state of the model, NumPy arrays.
      step: number of updates before these parameters.
      kind: "best" (on the validation split) or "last".
    """

    config: RunConfig

    def __init__(self, folder: Path, config: RunConfig, task: Task, model: tuple[Any, Any], step: int,
                 kind: str) -> None:
        super().__init__(folder, config, task)
        self.step, self.kind = step, kind
        self.params, self.state = model
        self.placer = Placer(choose_devices(config.devices), steps=config.schedule_steps or config.steps)

    @property
    def exported(self) -> bool:                                                # type: ignore[override]
        """Whether `recipes.export` wrote the folder, which then has one set of parameters only."""
        return (self.folder / ARRAYS).is_file()

    def about(self) -> dict[str, str]:
        return {"parameters": self.kind, "step": number(self.step)}

    def origin(self) -> str:
        return f"the {self.kind} parameters (step {self.step})"

    def columns(self, rows: Any) -> dict[str, np.ndarray]:
        return self.task.columns(self._outputs_of(self._batches(rows), len(rows)))

    def totals(self, split: str) -> dict[str, tuple[Any, Any]]:
        """Sums and weights of the metrics on a split."""
        if split not in self._splits:
            return {}
        batches = self._batches(self._splits[split])
        return totals_over(self._eval_step, self._placed, batches.all())

    def outputs(self, split: str) -> PyTree:
        """The outputs of the model for each row of a split, as NumPy arrays; None if there is no such split."""
        rows = self._splits.get(split)
        return None if rows is None else self._outputs_of(self._batches(rows), len(rows))

    def _batches(self, rows: Any) -> Batches:
        return self.task.batches(rows, self.placer, self.config.seed)

    @functools.cached_property
    def _placed(self) -> PyTree:
        return self.placer.replicate((self.params, self.state))

    @functools.cached_property
    def _eval_step(self) -> Callable[..., Any]:
        return make_eval_step(self.task, self.placer)

    @functools.cached_property
    def _output_step(self) -> Callable[..., Any]:
        return self.placer.pmap(lambda model, batch: self.task.outputs(Bound(self.task.model, *model), batch),
                                in_axes=(None, 0))

    def _outputs_of(self, batches: Batches, n_rows: int) -> np.ndarray:
        outputs = (xjax.device_get(self._output_step(self._placed, batch)) for batch in batches.all())
        parts = [tree_util.tree_map(_rows_of_all, each) for each in outputs]
        return tree_util.tree_map(lambda *arrays: np.concatenate(arrays)[:n_rows], *parts)


def _rows_of_all(blocks: np.ndarray) -> np.ndarray:
    """[devices, block, ...] -> [devices * block, ...]."""
    return np.asarray(blocks).reshape(-1, *blocks.shape[2:])


def open_run(run: str | Path, last: bool = False) -> Opened:
    """The model of a run folder, or of an exported one: a `Trained`, or a `KernelModel` of a kernel regression.

    Args:
      run: a folder, or a name in ./runs.
      last: whether to read the parameters of the last step, not the best ones on the validation split.
    Raises: RecipeError if there is no such run, or it has no checkpoint; CheckpointError, DataError for damaged files.
    """
    xjax.config.update("cache_compiled_functions", True)
    folder = Path(run).expanduser()
    if (folder / ARRAYS).is_file():
        return _exported(folder.absolute(), last)
    folder = find_run(str(run))
    return open_kernel_run(folder, last) if is_kernel_run(folder) else _of_run(folder, last)


def _of_run(folder: Path, last: bool) -> Trained:
    config = saved_config(folder)
    checkpoints = Checkpoints(folder / "checkpoints")
    saved = checkpoints.steps()
    if not saved:
        raise RecipeError("run", "it has no checkpoint yet.", {"run": folder}, fix=f"--resume {folder} first.")
    task = make_task(config, checkpoints.artifacts(saved[-1]))
    splits = ("train", "val") if checkpoints.has_best(saved[-1]) else ("train",)
    template = xjax.eval_shape(lambda: begin(init_state(task, config), dict.fromkeys(splits))._asdict())
    tree = checkpoints.restore(saved[-1], template)
    state, best = tree["state"], tree["best"]
    if last or best is None or int(best.step) == 0:
        return Trained(folder, config, task, state.model, int(state.step), "last")
    return Trained(folder, config, task, best.model, int(best.step), "best")


def _exported(folder: Path, last: bool) -> Trained:
    config = as_written(load_config(str(folder / "config.yaml")), folder / "config.yaml")
    try:
        about = json.loads((folder / ABOUT).read_text("utf-8"))
        artifacts, step, kind = about["artifacts"], int(about["step"]), str(about["kind"])
    except (ValueError, KeyError, TypeError, RecursionError) as err:
        raise DataError("exported", f"{ABOUT} is damaged.", {"folder": folder, "why": err},
                        fix="export the run again.") from None
    if last and kind != "last":
        raise RecipeError("exported", "the folder does not have the last parameters.", {"folder": folder, "here": kind},
                          fix="leave out --last, or export the run with it.")
    task = make_task(config, artifacts)
    shapes = xjax.eval_shape(lambda: init_state(task, config).model)
    return Trained(folder, config, task, read_arrays(folder / ARRAYS, shapes), step, kind)

