"""Predict one column of a table from the others with an MLP."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import model_validator

from recipes.batches import Rows
from recipes.classification import ClassesConfig, Classifier, class_artifacts
from recipes.config import AbsolutePath, Count, Fraction, Index, StratifiedSplit, TestFraction, ValFraction, fault
from recipes.data import tables
from recipes.data.cells import Kind, StatedKind
from recipes.data.columns import (
    Described,
    choose_features,
    describe_columns,
    encoded,
    forms_in_words,
    n_features,
    unseen,
    zones_in_words,
)
from recipes.data.facts import by_kind, listed, ranges
from recipes.data.forms import StatedForm, saved_form
from recipes.data.points import RowPoints
from recipes.data.recorded import classes_as_recorded, columns_as_recorded, recorded_features
from recipes.data.splits import (
    class_counts,
    class_facts,
    inputs_of,
    repeated_fact,
    sizes_of,
    split_by_order,
    stratified_order,
)
from recipes.errors import DataError
from recipes.lazy import nn, xnn
from recipes.names import composed
from recipes.regression import Regressor, standardised
from recipes.results.numbers import number
from recipes.results.table_facts import columns_of, first_rows
from recipes.task import Artifacts, Bound, Data, Inputs, Preview, Sums, Task

if TYPE_CHECKING:
    from xjax.typing import Array, PyTree


class Config(ClassesConfig, StratifiedSplit):
    """An MLP on a table: csv, tsv, parquet or json."""

    training_only: ClassVar = ("class_weights", "dropout", "batch_size")

    file: AbsolutePath
    """csv, tsv, parquet, json or jsonl."""
    target: str
    """The column to predict."""
    features: tuple[str, ...] | None = None
    """The columns to predict from; none: all others that a model can use, see docs/training.md."""
    columns: dict[str, Literal[StatedKind, StatedForm]] = {}
    """Kinds of columns by name: {zip: category, visited: date 31/12/2024, note: ignore}; else their cells decide."""
    id_column: str | None = None
    """A column that is not a feature, and that predictions repeat."""
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
    split_column: str | None = None
    """A column with train, val or test in each row, which is its split; none: rows are split at random."""

    @model_validator(mode="after")
    def _check_columns(self) -> Config:
        if self.id_column == self.target:
            raise fault("task.id_column", f"{self.target!r} is the target")
        for key in ("val_fraction", "test_fraction", "split_seed", "stratify"):
            if self.split_column is not None and self.is_changed(key):
                raise fault(f"task.{key}", f"is for a split at random, and the column {self.split_column!r} has it")
        return self

    @property
    def apart(self) -> tuple[str, ...]:
        """Columns that are not features."""
        return (self.target, *filter(None, [self.id_column, self.split_column]))


class Read(NamedTuple):
    """The file with the choices that are made once.

    Attributes:
      y: ids of classes, or numbers.
      classes: names; [] in a regression.
      rows: split -> its rows.
      target: the kind of the target.
      columns: the features, as `recipes.data.columns` describes them.
      ignored: names of columns that predictions do without.
      facts: for the summary: columns that are left out or have gaps.
    """

    table: tables.Table
    y: np.ndarray
    classes: list[str]
    rows: dict[str, np.ndarray]
    target: Kind
    columns: list[Described]
    ignored: list[str]
    facts: dict[str, str]

    @property
    def kinds(self) -> dict[str, Kind]:
        """The kinds of the features."""
        return {column["name"]: column["kind"] for column in self.columns}

    @property
    def y_of_splits(self) -> dict[str, np.ndarray]:
        return {split: self.y[ids] for split, ids in self.rows.items()}


def load(config: Config) -> Data:
    return load_again(config, None)


def load_again(config: Config, recorded: Artifacts | None) -> Data:
    """The data of a run that has begun, with its columns and classes.

    Args: recorded: the artifacts of the run; None: a new run.
    """
    return _data(config, _read(config, recorded))


def preview(config: Config) -> Preview:
    read = _read(config)
    target = read.table[config.target].name
    kinds, uses = {**read.kinds, target: read.target}, {**dict.fromkeys(read.kinds, "feature"), target: "target"}
    for name, use in ((config.id_column, "ids"), (config.split_column, "split")):
        uses |= {} if name is None else {read.table[name].name: use}
    of_target = {"Classes": class_counts(read.y_of_splits, read.classes)} if read.classes else {
        f"Target, {target}": ranges(read.y_of_splits)}
    columns = columns_of(read.table, kinds, uses)._replace(instead_of=["features", "ids"])
    return Preview(_data(config, read), {"Columns": columns, "First rows": first_rows(read.table, kinds), **of_target})


def _read(config: Config, recorded: Artifacts | None = None) -> Read:
    table = tables.read_table(config.file)
    named = dict.fromkeys((*config.apart, *(config.features or ()), *config.columns))
    tables.check_columns(table, named, "task.target, features, columns, id_column and split_column")
    target, classes = table[config.target], []
    kinds = table.state(config.columns)
    stated = kinds.get(config.target)
    is_class = config.kind == "classification"
    wanted = tables.class_kind(target, stated) if is_class else tables.check_number_target(target)
    tables.refuse_gaps(tables.gaps_in(table, {config.target: wanted}), config.file, "fill or drop these rows.")
    if is_class:
        y, classes = tables.class_target(target, stated)
        if recorded is not None:
            classes, y = classes_as_recorded(classes, y, recorded["classes"])
    else:
        y = target.numbers()
    if config.split_column is not None:
        rows = tables.stated_split(table[config.split_column])
    else:
        rows = split_rows(table.num_rows, config, y if is_class else None)
    known = None if recorded is None else recorded_features(table, recorded, config.apart)
    features = known or choose_features(table, kinds, config.features, config.apart, rows["train"])
    gaps = tables.gaps_in(table, features.kinds)
    if config.missing == "refuse":
        tables.refuse_gaps(gaps, config.file, "task.missing=fill, fill or drop these rows, or leave the column out of "
                                              "task.features.")
    if recorded is None or known is None:
        columns, left_out = describe_columns(table, features.kinds, rows["train"]), list(features.left_out)
    else:
        columns = columns_as_recorded(table, recorded["columns"], rows["train"])
        left_out = [name for name in recorded["ignored"] if name in features.left_out]
    return Read(table, y, classes, rows, wanted, columns, [*left_out, *filter(None, [config.split_column])],
                listed("left out", features.left_out) | listed("filled", gaps))


def _data(config: Config, read: Read) -> Data:
    y, classes, rows = read.y, read.classes, read.rows
    artifacts: Artifacts = {"columns": read.columns, "target": config.target, "ignored": read.ignored}
    if classes:
        artifacts |= class_artifacts(classes, y[rows["train"]], config)
    else:
        y, moments = standardised(y, rows["train"])
        artifacts |= moments
    x = encoded(read.table, read.columns)
    splits = {split: Rows(x=x[ids], y=y[ids]) for split, ids in rows.items() if len(ids)}
    summary = {"file": str(config.file), **read.table.layout.facts(), "rows": number(read.table.num_rows),
               "target": config.target + (f", {len(classes)} classes" if classes else ""),
               "features": by_kind(read.kinds)}
    summary |= {"ids": config.id_column} if config.id_column else {}
    form = saved_form(read.table[config.target].form)
    target = [] if classes else [{"name": config.target, "kind": "number", **form}]
    summary |= listed("written as", forms_in_words(read.table, [*read.columns, *target])) | read.facts
    summary |= listed("time zones", zones_in_words(read.table, read.kinds))
    summary["split"] = sizes_of(rows)
    if classes:
        summary |= class_facts(read.y_of_splits, classes)
    summary |= repeated_fact({split: inputs_of(x[ids]) for split, ids in rows.items()})
    return Data(splits, artifacts, summary | tables.total_fact(read.table))


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
        """The columns of training, in any order; other columns are not used, which a note says."""
        table, columns = tables.read_table(file), self.artifacts["columns"]
        wanted = [*(column["name"] for column in columns), *filter(None, [self.config.id_column])]
        known = {*map(composed, (*wanted, *self.artifacts["ignored"], self.artifacts["target"]))}
        missing = [name for name in wanted if name not in table]
        unknown = [name for name in table if composed(name) not in known]
        if missing:
            raise DataError("predict", "the columns are not those of the training data.",
                            {"file": file, "missing": ", ".join(missing), "unknown": ", ".join(unknown) or "none"},
                            fix=f"a file with the columns {', '.join(wanted)}.")
        notes = [f"not used: the column {name!r}, which the training data did not have" for name in unknown]
        notes += [f"not known from training: the column {name!r} in {rows}" for name, rows in
                  unseen(table, columns).items()]
        names = {"row": np.arange(1, table.num_rows + 1)}
        if self.config.id_column:
            ids = table[self.config.id_column].texts()
            names[self.config.id_column] = np.array(["" if each is None else each for each in ids], object)
        return Inputs(Rows(x=encoded(table, columns)), names, tuple(notes))

    def points(self, split: Rows) -> RowPoints:
        return RowPoints(split.arrays["x"])

    def targets(self, split: Rows) -> np.ndarray:
        return split.arrays["y"]


class TableClassifier(_Columns, Classifier):
    """See `recipes.task.Task`."""

    def sums(self, model: Bound, batch: PyTree) -> Sums:
        return self.sums_of(model, model(batch["x"]), batch["y"], batch["weight"])

    def outputs(self, model: Bound, batch: PyTree) -> Array:
        return nn.softmax(model(batch["x"]))


class TableRegression(_Columns, Regressor):
    """See `recipes.task.Task`."""

    def sums(self, model: Bound, batch: PyTree) -> Sums:
        return self.sums_of(model, model(batch["x"])[:, 0], batch["y"], batch["weight"])

    def outputs(self, model: Bound, batch: PyTree) -> Array:
        return model(batch["x"])[:, 0]


def split_rows(n: int, config: Config, labels: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """Row numbers of each split, a function of n, the config and the classes only.  Raises: DataError.

    Args: labels: classes of the rows, for a stratified split.
    """
    order = np.random.default_rng(config.split_seed).permutation(n)
    if labels is not None and config.stratify:
        order = stratified_order(order, labels)
    rows = split_by_order(order, config.fractions)
    if not len(rows["train"]):
        raise DataError("table", "no rows are left to train on.",
                        {"rows": n, "task.val_fraction": len(rows["val"]), "task.test_fraction": len(rows["test"])},
                        fix="smaller fractions, or a larger file.")
    return rows
