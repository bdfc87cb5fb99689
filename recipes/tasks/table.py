"""Predict one column of a table from the others with an MLP.

Features are standardised by the mean and deviation of the training rows.  The order of the rows is
a pure function of (seed, step): a resumed run sees the batches that the unbroken one would.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

import xjax.numpy as jnp
from recipes.config import TableConfig
from recipes.data.tables import TableData, load_table
from recipes.errors import DataError
from recipes.parallel import Placer, my_rows, weighted
from recipes.tasks.base import Sums
from xjax import nn
from xnn import Dense, Dropout, Relu, RowKey, serial


class TableBatch(NamedTuple):
    """Rows of one device: x f32[block, f]; y i32[block] or f32[block]; weight f32[block]."""

    x: Any
    y: Any
    weight: Any


class Table:
    """See `recipes.tasks.base.Task`."""

    def __init__(self, config: TableConfig, placer: Placer, seed: int) -> None:
        data = load_table(config)
        self._placer, self._seed = placer, seed
        self._rows = split_rows(len(data.y), config)
        train = self._rows["train"]
        self._batch_size = min(config.batch_size, len(train))
        self._x = standardized(data.x, train)
        self._regression = config.kind == "regression"
        self._y, self._y_scale = data.y, 1.0
        if self._regression:
            self._y_scale = float(data.y[train].std()) or 1.0
            self._y = (data.y - data.y[train].mean()) / self._y_scale
        self.score = "squared_error" if self._regression else "accuracy"
        self._model = _mlp(config, 1 if self._regression else len(data.classes))
        self.summary = _describe(config, data, self._rows)

    def init(self, rng: Any) -> Any:
        _, params = self._model.init(rng, (-1, self._x.shape[1]))
        return params

    def train_batch(self, step: int) -> TableBatch:
        train = self._rows["train"]
        per_epoch = math.ceil(len(train) / self._batch_size)
        epoch, index = divmod(step, per_epoch)
        order = np.random.default_rng([self._seed, epoch]).permutation(train)
        return self._place(order[index * self._batch_size : (index + 1) * self._batch_size])

    def eval_batches(self, split: str) -> Iterable[TableBatch]:
        rows = self._rows[split]
        for start in range(0, len(rows), self._batch_size):
            yield self._place(rows[start : start + self._batch_size])

    def sums(self, params: Any, batch: TableBatch, *, rng: Any = None, train: bool = False) -> Sums:
        if train:
            rng = RowKey(rng, my_rows(batch.x.shape[0]))
        out = self._model.apply(params, batch.x, rng=rng, train=train)
        if self._regression:
            error = jnp.square(out[:, 0] - batch.y)
            scaled = error * self._y_scale**2  # in the target's own unit
            return {
                "loss": weighted(error, batch.weight),
                "squared_error": weighted(scaled, batch.weight),
            }
        log_probs = nn.log_softmax(out)
        own = jnp.take_along_axis(log_probs, batch.y[:, None], axis=1)[:, 0]
        right = jnp.argmax(out, axis=1) == batch.y
        return {
            "loss": weighted(-own, batch.weight),
            "accuracy": weighted(right.astype(jnp.float32), batch.weight),
        }

    def _place(self, rows: np.ndarray) -> TableBatch:
        """These rows, padded to the batch size: one shape for all steps, one compilation."""
        pad = self._batch_size - len(rows)
        weight = np.ones(len(rows), np.float32)
        batch = TableBatch(self._x[rows], self._y[rows], weight)
        padded = [np.pad(a, [(0, pad)] + [(0, 0)] * (a.ndim - 1)) for a in batch]
        return self._placer.put(TableBatch(*map(self._placer.split, padded)))


def split_rows(n: int, config: TableConfig) -> dict[str, np.ndarray]:
    """Row ids of each split, a function of n and the config alone.  Raises: DataError."""
    order = np.random.default_rng(config.split_seed).permutation(n)
    n_val, n_test = round(n * config.val_fraction), round(n * config.test_fraction)
    if n_val + n_test >= n:
        raise DataError(
            "table",
            "no rows are left to train on.",
            {"rows": n, "task.val_fraction": n_val, "task.test_fraction": n_test},
            fix="smaller fractions, or a larger file.",
        )
    return {
        "val": np.sort(order[:n_val]),
        "test": np.sort(order[n_val : n_val + n_test]),
        "train": np.sort(order[n_val + n_test :]),
    }


def standardized(x: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Each column minus its mean over its deviation on the rows ``train``; constants become 0."""
    mean, deviation = x[train].mean(axis=0), x[train].std(axis=0)
    return ((x - mean) / np.where(deviation == 0, 1, deviation)).astype(np.float32)


def _mlp(config: TableConfig, n_out: int) -> Any:
    layers = []
    for width in config.hidden:
        layers += [Dense(width), Relu, Dropout(config.dropout)]
    return serial(*layers, Dense(n_out))


def _describe(config: TableConfig, data: TableData, rows: dict[str, np.ndarray]) -> dict[str, str]:
    target = f"{config.target}, {len(data.classes)} classes" if data.classes else config.target
    ignored = f" (ignored, no numbers: {', '.join(data.ignored)})" if data.ignored else ""
    return {
        "file": str(config.file),
        "target": target,
        "features": ", ".join(data.features) + ignored,
        "split": ", ".join(f"{name} {len(rows[name])}" for name in ("train", "val", "test")),
    }
