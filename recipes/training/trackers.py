"""Trackers, which receive metrics besides the run folder if a config names them: TensorBoard, W&B, MLflow."""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Callable
from pathlib import Path

from recipes.config import RunConfig
from recipes.errors import ConfigError
from recipes.training.loop import Report

Log = Callable[[int, dict[str, float]], None]                 # (step, metrics)


class Tracker:
    """A hook that passes records to a tracker, without numbers that are not finite."""

    def __init__(self, log: Log, start: int) -> None:
        self._log, self._start = log, start

    def __call__(self, report: Report) -> None:
        for record in report.records:
            finite = {name: value for name, value in record.values.items() if math.isfinite(value)}
            if record.step > self._start and finite:
                self._log(record.step, finite)


def check_trackers(config: RunConfig) -> None:
    """Raises: ConfigError for a tracker that is not installed; called before the data are read."""
    for name in config.trackers:
        if importlib.util.find_spec(name) is None:
            raise ConfigError("config", f"the tracker {name} is not installed.",
                              {"trackers": ", ".join(config.trackers)},
                              fix=f"pip install {name}, or leave it out.")


def make_trackers(config: RunConfig, folder: Path, start: int) -> list[Tracker]:
    """The trackers of a config.  Args: start: steps done before a resume, whose metrics are logged already."""
    return [Tracker(_MAKERS[name](config, folder), start) for name in config.trackers]


def _tensorboard(config: RunConfig, folder: Path) -> Log:
    writer = importlib.import_module("tensorboard.summary").Writer(str(folder / "tensorboard"))

    def log(step: int, values: dict[str, float]) -> None:
        for name, value in values.items():
            writer.add_scalar(name, value, step)
        writer.flush()

    return log


def _wandb(config: RunConfig, folder: Path) -> Log:
    """Offline if WANDB_MODE is "offline". The id is the name of the run folder, so a resumed run continues its log."""
    wandb = importlib.import_module("wandb")
    run = wandb.init(project="recipes", dir=str(folder), id=folder.name, name=folder.name, resume="allow",
                     config=config.model_dump(mode="json"))
    return lambda step, values: run.log(values, step=step)


def _mlflow(config: RunConfig, folder: Path) -> Log:
    """Logs to $MLFLOW_TRACKING_URI, or to a database in the run folder."""
    mlflow = importlib.import_module("mlflow")
    if not mlflow.environment_variables.MLFLOW_TRACKING_URI.get():
        mlflow.set_tracking_uri(f"sqlite:///{folder / 'mlflow.db'}")
    mlflow.set_experiment("recipes")
    matches = mlflow.search_runs(filter_string=f"tags.mlflow.runName = '{folder.name}'", output_format="list")
    run = mlflow.start_run(run_id=matches[0].info.run_id) if matches else mlflow.start_run(run_name=folder.name)
    client = mlflow.MlflowClient()
    if not matches:
        mlflow.log_params({key: str(value)[:500] for key, value in config.model_dump(mode="json").items()})
    mlflow.end_run()

    def log(step: int, values: dict[str, float]) -> None:
        for name, value in values.items():
            client.log_metric(run.info.run_id, name, value, step=step)

    return log


_MAKERS = {"tensorboard": _tensorboard, "wandb": _wandb, "mlflow": _mlflow}              # by the name of its package
