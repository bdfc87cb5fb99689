"""Tasks: one file each, with data, model and metrics.  `build_task` makes the one a config asks."""

from __future__ import annotations

import importlib

from recipes.config import TrainConfig
from recipes.parallel import Placer
from recipes.tasks.base import Task

# Modules by name, loaded when asked for: `datasets` alone takes a second that a graph can save.
TASKS = {
    "node_classification": ("recipes.tasks.node_classification", "NodeClassification"),
    "table": ("recipes.tasks.table", "Table"),
}


def build_task(config: TrainConfig, placer: Placer) -> Task:
    """Reads the task's data and builds its model.  Raises: DataError."""
    module, name = TASKS[config.task.name]
    return getattr(importlib.import_module(module), name)(config.task, placer, config.seed)
