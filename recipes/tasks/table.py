"""Predict one column of a table from the others with an MLP."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from recipes.batches import Rows
from recipes.classification import ClassesConfig, Classifier, class_artifacts
from recipes.config import AbsolutePath, Count, Fraction, Index, SplitFractions, TestFraction, ValFraction
from recipes.data import tables
from recipes.data.columns import describe_columns, encoded, kind_of, n_features
from recipes.data.splits import split_by_order
from recipes.errors import DataError
from recipes.lazy import jnp, nn, pa, xnn
from recipes.process.parallel import weighted
from recipes.results.plots import residual_figure
from recipes.task import Bound, Data, Inputs, Sums, Task

if TYPE_CHECKING:
    from recipes.trained import Trained
    from xjax.typing import Array, PyTree


class Config(ClassesConfig, SplitFractions):
    """An MLP on a table: csv, tsv, parquet or json."""

    file: AbsolutePath
    """csv, tsv, parquet, json or jsonl."""
    target: str
    """The column to predict."""
    features: tuple[str, ...] | None = None
    """The columns to predict from; none: all others except texts with one or with more than 50 different values."""
    missing: Literal["refuse", "fill"] = "refuse"
    """Gaps in features: an error, or filled by the mean (or no category), with an additional input that marks gaps."""
    kind: Literal["classification", "regression"] = "classification"
    """Whether the target is a class or a number."""
    hidden: tuple[Count, ...] = (64, 64)
    """Numbers of units of the hidden layers."""
    dropout: Fraction = 0.0
    """Dropout rate after each hidden layer."""
    batch_size: Count = 64
    """Number of rows in a batch, of all devices together."""
    val_fraction: ValFraction = 0.15
    test_fraction: TestFraction = 0.15
    split_seed: Index = 0
    """Seed of the split of rows."""


def load(config: Config) -> Data:
    table = tables.read_table(config.file)
    tables.check_columns(table, (config.target, *(config.features or ())), config.file, "task.target and task.features")
    features, ignored = _features(table, config)
    gaps = tables.gaps_in(table, features)
    tables.refuse_gaps(tables.gaps_in(table, [config.target]) | (gaps if config.missing == "refuse" else {}),
                       config.file, "task.missing=fill for features, fill or drop these rows, or leave the column out "
                                    "of task.features.")
    rows = split_rows(table.num_rows, config)
    columns = describe_columns(table, features, rows["train"])
    artifacts: dict[str, Any] = {"columns": columns, "ignored": ignored, "target": config.target}
    target = f"{config.target}"
    if config.kind == "classification":
        y, classes = tables.class_target(table, config.target, config.file)
        artifacts |= class_artifacts(classes, y[rows["train"]], config)
        target += f", {len(classes)} classes"
    else:
        y = tables.number_target(table, config.target, config.file)
        mean, unit = float(y[rows["train"]].mean()), float(y[rows["train"]].std()) or 1.0
        artifacts |= {"target_mean": mean, "target_unit": unit}
        y = (y - mean) / unit
    x = encoded(table, columns)
    splits = {split: Rows(x=x[ids], y=y[ids]) for split, ids in rows.items() if len(ids)}
    summary = {"file": str(config.file), "target": target, "features": ", ".join(features)}
    summary |= {"ignored": f"texts with one or too many different values: {', '.join(ignored)}"} if ignored else {}
    summary |= {"filled": ", ".join(f"{name} {count}" for name, count in gaps.items())} if gaps else {}
    return Data(splits, artifacts, summary | {"split": ", ".join(f"{name} {len(ids)}" for name, ids in rows.items())})


def _features(table: pa.Table, config: Config) -> tuple[list[str], list[str]]:
    """(Columns to predict from, columns left out).  Raises: DataError."""
    others = [name for name in table.column_names if name != config.target]
    wanted = others if config.features is None else list(config.features)
    tables.check_no_stray_words(table, [name for name in wanted if name != config.target], config.file)
    words = [name for name in wanted if kind_of(table.column(name)) == "words" or name == config.target]
    features = [name for name in wanted if name not in words]
    if not features or (config.features is not None and words):
        raise DataError("table", "the features must be columns of numbers, dates or categories other than the target.",
                        {"file": config.file, "no features": ", ".join(words) or "-"},
                        fix="other columns in task.features.")
    return features, [name for name in others if name not in features]


def make(config: Config, artifacts: dict[str, Any]) -> TableClassifier | TableRegression:
    return (TableClassifier if config.kind == "classification" else TableRegression)(config, artifacts)


class _Columns(Task):
    """Base of classification and regression; inputs are the encoded columns of a table."""

    independent_examples = True

    def __init__(self, config: Config, artifacts: dict[str, Any]) -> None:
        super().__init__(config, artifacts)
        n_out = len(artifacts["classes"]) if config.kind == "classification" else 1
        self.model = xnn.models.MLP(xnn.models.MLPConfig(config.hidden, n_out, dropout=config.dropout))
        self.inputs = ((-1, n_features(artifacts["columns"])),)

    def read(self, file: Path) -> Inputs:
        table = tables.read_table(file)
        wanted = [column["name"] for column in self.artifacts["columns"]]
        known = {*wanted, *self.artifacts["ignored"], self.artifacts["target"]}
        differing = {"missing": ", ".join(name for name in wanted if name not in table.column_names),
                     "unknown": ", ".join(name for name in table.column_names if name not in known)}
        if any(differing.values()):
            raise DataError("predict", "the columns are not those of the training data.",
                            {"file": file, **{what: names for what, names in differing.items() if names}},
                            fix=f"a file with the columns {', '.join(wanted)}.")
        tables.check_no_stray_words(table, wanted, file)
        return Inputs(Rows(x=encoded(table, self.artifacts["columns"])), {"row": np.arange(1, table.num_rows + 1)})


class TableClassifier(_Columns, Classifier):
    """See `recipes.task.Task`."""

    def sums(self, model: Bound, batch: PyTree) -> Sums:
        return self.sums_of(model, model(batch["x"]), batch["y"], batch["weight"])

    def outputs(self, model: Bound, batch: PyTree) -> Array:
        return nn.softmax(model(batch["x"]))


class TableRegression(_Columns):
    """See `recipes.task.Task`; the model predicts (y - mean) / unit, and metrics are in the unit of the target."""

    score = "squared_error"

    def sums(self, model: Bound, batch: PyTree) -> Sums:
        error, weight, unit = model(batch["x"])[:, 0] - batch["y"], batch["weight"], self.artifacts["target_unit"]
        return {"loss": weighted(error**2, weight), "squared_error": weighted((unit * error)**2, weight),
                "absolute_error": weighted(unit * jnp.abs(error), weight)}

    def outputs(self, model: Bound, batch: PyTree) -> PyTree:
        return model(batch["x"])[:, 0]

    def columns(self, outputs: PyTree) -> dict[str, np.ndarray]:
        return {self.artifacts["target"]: self.artifacts["target_mean"] + self.artifacts["target_unit"] * outputs}

    def draw(self, trained: Trained) -> dict[str, Any]:
        rows, outputs = trained.rows("test"), trained.outputs("test")
        if rows is None:
            return {}
        name = self.artifacts["target"]
        truth = self.columns(rows.arrays["y"])[name]
        return {"Predictions, test": residual_figure(truth, self.columns(outputs)[name], name)}


def split_rows(n: int, config: Config) -> dict[str, np.ndarray]:
    """Row numbers of each split, a function of n and the config only.  Raises: DataError."""
    rows = split_by_order(np.random.default_rng(config.split_seed).permutation(n), config.fractions)
    if not len(rows["train"]):
        raise DataError("table", "no rows are left to train on.",
                        {"rows": n, "task.val_fraction": len(rows["val"]), "task.test_fraction": len(rows["test"])},
                        fix="smaller fractions, or a larger file.")
    return rows
