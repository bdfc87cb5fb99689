"""The table task: learns, reads csv and parquet alike, and reports faults of a file."""

import io
import os

import numpy as np
import pandas as pd
import pytest

from recipes.batches import RowBatches, Rows
from recipes.errors import DataError
from recipes.lazy import datasets
from recipes.process.parallel import Placer, choose_devices
from recipes.settings.config_file import load_config
from recipes.tasks.table import load, split_rows
from tests.recipes.conftest import train as train_config


def config(file, *overrides, target="ring"):
    return load_config("mlp_table.yaml", [f"task.file={file}", f"task.target={target}", "optim.schedule=constant",
                                         *overrides])


def train(config):
    return train_config(config)[:2]


def test_it_learns_the_rings(rings):
    test, losses = train(config(rings, "steps=200", "devices=1"))
    assert test["accuracy"] >= 0.9
    assert losses[-20:].mean() < 0.2 < losses[0]


@pytest.mark.parametrize("devices", [pytest.param(2, marks=pytest.mark.slow), 3])
def test_device_count_changes_nothing(rings, devices):
    """Batches of 50 of 210 rows: uneven over 3 devices; the last one of an epoch is short."""
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
    assert set(test) == {"loss", "rmse", "mae", "r2"}
    assert 0.7 < test["rmse"] < 5  # noise has deviation 1, the target 50
    assert test["rmse"] == pytest.approx(test["loss"]**0.5 * 50, rel=0.15) and 0.5 < test["mae"] < test["rmse"]
    assert test["r2"] == pytest.approx(1 - test["rmse"]**2 / 2500, abs=0.01)


def arrays(config):
    """x and y of all rows, by split."""
    return {split: rows.arrays for split, rows in load(config.task).splits.items()}


@pytest.mark.parametrize("name", ["rings.parquet", "rings.tsv", "rings.json", "rings.jsonl"])
def test_all_kinds_of_files_are_the_same(rings, tmp_path, name):
    frame, file = pd.read_csv(rings), tmp_path / name
    {".parquet": frame.to_parquet, ".tsv": lambda f: frame.to_csv(f, sep="\t", index=False),
     ".json": lambda f: frame.to_json(f, orient="records"),
     ".jsonl": lambda f: frame.to_json(f, orient="records", lines=True)}[file.suffix](file)
    for one, other in zip(arrays(config(rings)).values(), arrays(config(file)).values(), strict=True):
        np.testing.assert_allclose(one["x"], other["x"], rtol=1e-6)
        np.testing.assert_array_equal(one["y"], other["y"])


def test_what_is_said_of_the_columns(rings):
    data = load(config(rings).task)
    assert data.summary["features"] == "numbers: x, y"
    assert data.summary["left out"] == "note: the same text in all 300 rows"
    assert data.artifacts["classes"] == ["inner", "outer"]


def test_the_file_is_read_anew_when_it_changes(tmp_path):
    file = tmp_path / "a.csv"
    for value in (1, 2):
        file.write_text(f"x,y\n{value},a\n5,b\n")
        fractions = ("task.val_fraction=0", "task.test_fraction=0")
        assert load(config(file, *fractions, target="y").task).artifacts["columns"][0]["mean"] == (value + 5) / 2


MIXED = """\
size,colour,day,flag,y
1,red,2020-01-01,true,0
2,blue,2020-07-01,false,1
3,red,2021-01-01,true,0
4,green,2021-07-01,false,1
"""


def test_numbers_categories_and_dates_by_hand(tmp_path):
    file = tmp_path / "mixed.parquet"
    frame = pd.read_csv(io.StringIO(MIXED), parse_dates=["day"])
    frame.to_parquet(file)
    whole = ("task.val_fraction=0", "task.test_fraction=0")
    x = arrays(config(file, *whole, target="y"))["train"]["x"]
    unit = lambda values: (values - np.mean(values)) / np.std(values)
    days = (frame["day"] - pd.Timestamp(0)).dt.days.to_numpy()
    turns = 2 * np.pi * days / 365.2425
    np.testing.assert_allclose(x[:, 0], unit([1, 2, 3, 4]), rtol=1e-5)
    np.testing.assert_array_equal(x[:, 1:4], [[0, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 0]])      # blue, green, red
    np.testing.assert_allclose(x[:, 4], unit(days), rtol=1e-5)
    np.testing.assert_allclose(x[:, 5:7].T, [np.sin(turns), np.cos(turns)], atol=1e-4)
    np.testing.assert_allclose(x[:, 9], unit([1, 0, 1, 0]))
    assert x.shape == (4, 10)


def test_gaps_are_refused_or_filled_and_marked(tmp_path):
    file = tmp_path / "gaps.csv"
    file.write_text("x,c,y\n1,a,0\n,b,1\n3,,0\nnan,a,1\n")
    whole = ("task.val_fraction=0", "task.test_fraction=0")
    assert "values are missing.\n" in fault(config(file, *whole, target="y"))
    filled = config(file, *whole, "task.missing=fill", target="y")
    x = arrays(filled)["train"]["x"]
    np.testing.assert_array_equal(x, [[-1, 0, 1, 0, 0], [0, 1, 0, 1, 0], [1, 0, 0, 0, 1], [0, 1, 1, 0, 0]])
    assert load(filled.task).summary["filled"] == "x: 2 of 4, first in row 2\nc: 1 of 4, first in row 3"


def test_no_call_goes_to_the_network():
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    assert datasets.config.HF_HUB_OFFLINE  # it was set before the import


ROWS = Rows(x=np.arange(210))


def stream(size, steps, devices=1, seed=0):
    """The examples of the first steps, in the order of the stream."""
    batches = RowBatches(ROWS, Placer(choose_devices(devices)), size, seed)
    parts = [batches.train(step) for step in range(steps)]
    kept = [np.asarray(b["x"]).ravel()[np.asarray(b["weight"]).ravel() > 0] for b in parts]
    return np.concatenate(kept)


def test_batches_are_a_function_of_seed_and_step():
    np.testing.assert_array_equal(stream(64, 8), stream(64, 8))
    assert not np.array_equal(stream(64, 8), stream(64, 8, seed=1))
    batches = RowBatches(ROWS, Placer(choose_devices(1)), 64, 0)
    late, early = (np.asarray(batches.train(step)["x"]).ravel() for step in (5, 0))       # in any order
    np.testing.assert_array_equal(np.concatenate([early, late]), [*stream(64, 1), *stream(64, 6)[-64:]])


@pytest.mark.parametrize("size", [1, 64, 210, 500])
def test_every_epoch_has_every_row_once_in_an_order_of_its_own(size):
    epochs = stream(size, -(-630 // size))[:630].reshape(3, 210)
    for epoch in epochs:
        assert sorted(epoch) == list(range(210))
    assert not np.array_equal(epochs[0], epochs[1])


@pytest.mark.parametrize("devices", [2, 3])
def test_the_stream_does_not_know_the_devices_nor_the_batch(devices):
    np.testing.assert_array_equal(stream(50, 9, devices), stream(45, 10))


@pytest.mark.parametrize("devices", [1, 3])
def test_batches_of_several_steps_are_those_of_each(devices):
    batches = RowBatches(ROWS, Placer(choose_devices(devices)), 50, 7)
    assert batches.steps_per_launch == 16
    together = batches.stacked_batches(3, 5)                        # 3 * 50 to 8 * 50: an epoch of 210 ends between
    for name in ("x", "weight"):
        steps = np.asarray(together[name])
        assert steps.shape[:3] == (devices, 16, -(-50 // devices))
        for i in range(5):
            np.testing.assert_array_equal(steps[:, i], batches.train(3 + i)[name])


@pytest.mark.parametrize(("features", "steps"), [(1, 16), (1 << 15, 3), (1 << 17, 1), (1 << 20, 1)])
def test_large_batches_are_launched_one_by_one(features, steps):
    batches = RowBatches(Rows(x=np.zeros((10, features), np.float32)), Placer(choose_devices(1)), 10, 0)
    assert batches.steps_per_launch == steps


def test_splits_are_disjoint_and_whole(rings):
    rows = split_rows(300, config(rings).task)
    assert sorted(np.concatenate(list(rows.values()))) == list(range(300))
    assert [len(rows[name]) for name in ("val", "test")] == [45, 45]


def test_columns_are_standardized_by_the_training_rows_alone(rings):
    data = load(config(rings).task)
    x = data.splits["train"].arrays["x"]
    np.testing.assert_allclose([x.mean(0), x.std(0)], [[0, 0], [1, 1]], atol=1e-6)
    assert np.abs(data.splits["test"].arrays["x"].mean(0)).max() > 1e-3


def test_without_test_rows_there_is_no_score(rings):
    test, _ = train(config(rings, "task.test_fraction=0", "steps=2", "devices=1"))
    assert test == {}


# ---- bad inputs ----------------------------------------------------------------------------------


def fault(config):
    with pytest.raises(DataError) as caught:
        load(config.task)
    return str(caught.value)


def test_missing_file(tmp_path):
    assert fault(config(tmp_path / "no.csv")) == (
        "table: the data file is missing.\n"
        f"  file   {tmp_path / 'no.csv'}\n"
        "  kinds  .csv, .tsv, .parquet, .json, .jsonl\n"
        "  fix: the path of an existing csv, tsv, parquet or json file."
    )


def test_files_of_spreadsheets_name_the_way(tmp_path):
    file = tmp_path / "sales.xlsx"
    file.touch()
    assert fault(config(file)).endswith("fix: save the sheet as csv, in Excel by Save As, CSV UTF-8.")


def test_a_column_that_resembles_the_given_one_is_named(rings):
    assert "there is no column 'rings'; did you mean 'ring'?" in fault(config(rings, target="rings"))


def test_unknown_columns(rings):
    assert fault(config(rings, "task.features=[x, z]", target="rong")) == (
        "table: there is no column 'rong', 'z'.\n"
        f"  file     {rings}\n"
        "  columns  x, y, note, ring\n"
        "  fix: name columns of the file in task.target, features, columns, id_column and split_column."
    )


@pytest.mark.parametrize(
    ("text", "overrides", "expected"),
    [
        ("x,y\n1,a\n,b\n", (), "values are missing.\n  file  {file}\n  x     1 of 2, first in row 2\n"),
        ("x,y\n1,a\nnan,b\n", (), "values are missing."),
        ("x,y\n1,a\ninf,b\n", (), "values are missing."),
        ("x,y\n1,a\n2,\n", (), "values are missing."),
        ("x,y\n", (), "table: "),
        ("x,y\n1,a\n2,a\n", (), "the target does not suit a classification.\n"),
        ("x,y\n1,a\n2,a\n", (), "y     it has only one value, 'a'"),
        ("x,y\n1,0.5\n2,0.7\n", (), "y     it holds decimal numbers, '0.5' in row 1"),
        ("x,y\n1,a\n2,b\n", ("task.kind=regression",), "y     it holds texts, 'a' in row 1"),
        ("x,y\n1,a\n2,b\nthree,b\n", (), "the column 'x' has numbers, and words in 1 of 3 rows."),
        ("x,y\n1,a\n2,b\nthree,b\n", (), "'three' in row 3 after the header"),
        ("x,y\na,a\na,b\n", (), "the features must be columns of numbers"),
        ("x,x,y\n1,2,a\n3,4,b\n", (), "the column 'x' occurs twice."),
        ("x,y\n1,a\n2,b\n", ("task.features=[]",), "the features must be columns of numbers"),
        ("x,y\n1,a\n2,b\n", ("task.features=[y]",), "the features must be columns of numbers"),
        ("", (), "the data file cannot be read."),
        ("x,y\n1,a\n2,b,c,d\n", (), "the data file cannot be read."),
    ],
)
def test_wrong_contents(tmp_path, text, overrides, expected):
    file = tmp_path / "bad.csv"
    file.write_text(text)
    message = fault(config(file, *overrides, target="y"))
    assert expected.format(file=file) in message
    assert "  fix: " in message


@pytest.mark.parametrize("name", ["bad.parquet", "bad.csv"])
def test_damaged_file(tmp_path, name):
    (tmp_path / name).write_bytes(b"PAR1\xff\xfe\x00\x00" * 9)
    assert "the data file cannot be read." in fault(config(tmp_path / name))


def test_unknown_kind_of_file(tmp_path):
    (tmp_path / "a.xlsx").write_text("x")
    assert fault(config(tmp_path / "a.xlsx")).startswith("table: the file's format is not known.\n")


def test_no_rows_left_to_train_on(rings):
    overrides = ("task.val_fraction=0.55", "task.test_fraction=0.44")
    with pytest.raises(DataError, match="no rows are left to train on"):
        split_rows(10, config(rings, *overrides).task)
