"""The table task: learns, reads csv and parquet alike, and tells what is wrong with a file."""

import os

import numpy as np
import pandas as pd
import pytest

from recipes.config import load_config
from recipes.data import tables
from recipes.data.tables import load_table
from recipes.errors import DataError
from recipes.loop import fit
from recipes.optim import make_optimizer
from recipes.parallel import Placer, choose_devices
from recipes.step import init_state
from recipes.tasks.table import Table, split_rows, standardized


def config(file, *overrides, target="ring"):
    return load_config("mlp_table.yaml", [f"task.file={file}", f"task.target={target}", *overrides])


def train(config):
    placer = Placer(choose_devices(config.devices))
    task = Table(config.task, placer, config.seed)
    optimizer = make_optimizer(config.optim, config.steps)
    losses = []

    def keep(report):
        losses.extend(record.values["train/loss"] for record in report.records)

    test = fit(config, task, optimizer, placer, init_state(task, optimizer, config.seed), [keep])
    return test, np.array(losses)


def test_it_learns_the_rings(rings):
    test, losses = train(config(rings, "steps=200", "devices=1"))
    assert test["accuracy"] >= 0.9
    assert losses[-20:].mean() < 0.2 < losses[0]


@pytest.mark.parametrize("devices", [2, 3])
def test_device_count_changes_nothing(rings, devices):
    """Batches of 50 of 210 rows: uneven over 3 devices, and the last one of an epoch is short."""
    overrides = ("steps=25", "task.batch_size=50", "task.dropout=0.3")
    one, one_losses = train(config(rings, "devices=1", *overrides))
    many, losses = train(config(rings, f"devices={devices}", *overrides))
    np.testing.assert_allclose(losses, one_losses, rtol=0, atol=1e-5)
    assert many["accuracy"] == one["accuracy"]


def test_regression_is_scored_in_the_targets_unit(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=400)
    file = tmp_path / "line.csv"
    pd.DataFrame({"x": x, "y": 1000 + 50 * x + rng.normal(size=400)}).to_csv(file, index=False)
    test, _ = train(config(file, "task.kind=regression", "steps=300", "devices=1", target="y"))
    assert set(test) == {"loss", "squared_error"}
    assert 0.5 < test["squared_error"] < 25  # noise has variance 1, the target 2500
    assert test["squared_error"] == pytest.approx(test["loss"] * 2500, rel=0.3)


def test_parquet_and_csv_are_the_same(rings, tmp_path):
    pd.read_csv(rings).to_parquet(tmp_path / "rings.parquet")
    pd.read_csv(rings).to_csv(tmp_path / "rings.tsv", sep="\t", index=False)
    csv = load_table(config(rings).task)
    for other in ("rings.parquet", "rings.tsv"):
        data = load_table(config(tmp_path / other).task)
        np.testing.assert_array_equal(csv.x, data.x)
        np.testing.assert_array_equal(csv.y, data.y)
    assert (csv.features, csv.ignored, csv.classes) == (["x", "y"], ["note"], ["inner", "outer"])


def test_the_file_is_read_anew_when_it_changes(tmp_path):
    file = tmp_path / "a.csv"
    for value in (1, 2):
        file.write_text(f"x,y\n{value},a\n5,b\n")
        assert load_table(config(file, target="y").task).x[0, 0] == value


def test_no_call_goes_to_the_network():
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    assert tables.datasets.config.HF_HUB_OFFLINE  # it was set before the import


def test_batches_are_a_function_of_seed_and_step(rings):
    placer = Placer(choose_devices(1))
    tasks = [Table(config(rings).task, placer, seed) for seed in (0, 0, 1)]
    rows = [[np.asarray(t.train_batch(step).x) for step in range(8)] for t in tasks]
    np.testing.assert_array_equal(rows[0], rows[1])
    assert not np.array_equal(rows[0], rows[2])
    np.testing.assert_array_equal(rows[0][5], np.asarray(tasks[0].train_batch(5).x))  # any order
    assert not np.array_equal(rows[0][0], rows[0][4])  # a new epoch has a new order


def test_an_epoch_has_every_training_row_once(rings):
    task = Table(config(rings, "task.batch_size=64").task, Placer(choose_devices(1)), seed=0)
    batches = [task.train_batch(step) for step in range(4)]
    weight = np.concatenate([np.asarray(b.weight).ravel() for b in batches])
    x = np.concatenate([np.asarray(b.x).reshape(-1, 2) for b in batches])[weight > 0]
    assert len(x) == 210
    assert len(np.unique(x, axis=0)) == len(np.unique(x, axis=0).round(6)) >= 205


def test_splits_are_disjoint_and_whole(rings):
    rows = split_rows(300, config(rings).task)
    assert sorted(np.concatenate(list(rows.values()))) == list(range(300))
    assert [len(rows[name]) for name in ("val", "test")] == [45, 45]


def test_standardized_uses_the_training_rows_alone():
    x = np.array([[1.0, 7], [3, 7], [99, 7]])
    np.testing.assert_allclose(standardized(x, np.array([0, 1])), [[-1, 0], [1, 0], [97, 0]])


def test_without_test_rows_there_is_no_score(rings):
    test, _ = train(config(rings, "task.test_fraction=0", "steps=2", "devices=1"))
    assert test == {}


# ---- bad inputs ----------------------------------------------------------------------------------


def fault(config):
    with pytest.raises(DataError) as caught:
        load_table(config.task)
    return str(caught.value)


def test_missing_file(tmp_path):
    assert fault(config(tmp_path / "no.csv")) == (
        "table: the data file is missing.\n"
        f"  file   {tmp_path / 'no.csv'}\n"
        "  kinds  .csv, .tsv, .parquet\n"
        "  fix: task.file=PATH of an existing csv, tsv or parquet file."
    )


def test_unknown_columns(rings):
    assert fault(config(rings, "task.features=[x, z]", target="rong")) == (
        "table: there is no column 'rong', 'z'.\n"
        f"  file     {rings}\n"
        "  columns  x, y, note, ring\n"
        "  fix: name columns of the file in task.target and task.features."
    )


@pytest.mark.parametrize(
    ("text", "overrides", "told"),
    [
        ("x,y\n1,a\n,b\n", (), "values are missing.\n  file  {file}\n  x     1 of 2\n"),
        ("x,y\n1,a\nnan,b\n", (), "values are missing."),
        ("x,y\n1,a\ninf,b\n", (), "values are missing."),
        ("x,y\n1,a\n2,\n", (), "values are missing."),
        ("x,y\n", (), "table: "),
        ("x,y\n1,a\n2,a\n", (), "the target does not suit a classification.\n"),
        ("x,y\n1,a\n2,a\n", (), "y     it has the one value 'a'"),
        ("x,y\n1,0.5\n2,0.7\n", (), "y     it holds double"),
        ("x,y\n1,a\n2,b\n", ("task.kind=regression",), "y     it holds "),
        ("x,y\na,a\nb,b\n", (), "the features must be columns of numbers"),
        ("x,y\n1,a\n2,b\n", ("task.features=[]",), "the features must be columns of numbers"),
        ("x,y\n1,a\n2,b\n", ("task.features=[y]",), "the features must be columns of numbers"),
        ("", (), "the data file cannot be read."),
        ("x,y\n1,a\n2,b,c,d\n", (), "the data file cannot be read."),
    ],
)
def test_wrong_contents(tmp_path, text, overrides, told):
    file = tmp_path / "bad.csv"
    file.write_text(text)
    message = fault(config(file, *overrides, target="y"))
    assert told.format(file=file) in message
    assert "  fix: " in message


@pytest.mark.parametrize("name", ["bad.parquet", "bad.csv"])
def test_damaged_file(tmp_path, name):
    (tmp_path / name).write_bytes(b"PAR1\xff\xfe\x00\x00" * 9)
    assert "the data file cannot be read." in fault(config(tmp_path / name))


def test_unknown_kind_of_file(tmp_path):
    (tmp_path / "a.xlsx").write_text("x")
    assert fault(config(tmp_path / "a.xlsx")).startswith("table: the file's kind is not known.\n")


def test_no_rows_left_to_train_on(rings):
    overrides = ("task.val_fraction=0.5", "task.test_fraction=0.5")
    with pytest.raises(DataError, match="no rows are left to train on"):
        split_rows(10, config(rings, *overrides).task)
