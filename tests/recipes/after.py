"""The arguments of a task's `read`, `outputs`, `columns` and `draw` after a training."""

from typing import NamedTuple

import numpy as np

from recipes.process.parallel import Placer, choose_devices
from recipes.task import Bound
from recipes.training.loop import Loop
from recipes.training.run import prepare
from xjax import tree_util


class After(NamedTuple):
    """A trained model, with the fields that `Task.draw` uses."""

    task: object
    splits: dict
    params: object
    state: object
    loop: Loop

    def totals(self, split):
        return self.loop.totals(self._model(), split)

    def outputs(self, split):
        return self.outputs_of(self.splits[split]) if split in self.splits else None

    def outputs_of(self, rows):
        """The outputs for all rows of a split or a file, in their order."""
        step = self.loop.placer.pmap(lambda model, batch: self.task.outputs(Bound(self.task.model, *model), batch),
                                     in_axes=(None, 0))
        parts = [self._kept(step(self._model(), batch), batch) for batch in
                 self.task.batches(rows, self.loop.placer, 0).all()]
        return tree_util.tree_map(lambda *arrays: np.concatenate(arrays), *parts)

    def _kept(self, outputs, batch):
        real = np.asarray(batch["weight"]).ravel() > 0
        return tree_util.tree_map(lambda a: np.asarray(a).reshape(-1, *a.shape[2:])[real], outputs)

    def _model(self):
        return self.loop.placer.replicate((self.params, self.state))


def after(config, trained):
    """Args: config: of the training; trained: the result of ``conftest.train``."""
    data = prepare(config).data
    placer = Placer(choose_devices(config.devices))
    splits = {split: trained.task.batches(rows, placer, config.seed) for split, rows in data.splits.items()}
    params, state = Placer.host(trained.progress.state.model)
    return After(trained.task, data.splits, params, state, Loop(config, trained.task, placer, splits))
