"""After training: evaluate, predict, export, compare, report, each from the run folder alone."""

import csv
import json
import shutil

import numpy as np
import pandas as pd
import pytest

from recipes import compare, evaluate, export, predict, report
from recipes.errors import CheckpointError, DataError, RecipeError
from recipes.settings.config_file import load_config
from recipes.trained import open_run
from recipes.training.loop import Record
from recipes.training.run import run
from tests.refusals import assert_refused


@pytest.fixture(scope="module")
def folder(rings, tmp_path_factory):
    """A finished run on a copy of the rings."""
    home = tmp_path_factory.mktemp("after")
    shutil.copy(rings, home / "rings.csv")
    config = load_config("mlp_table", [
        f"task.file={home / 'rings.csv'}", "task.target=ring", "steps=60", "eval_every=20", "devices=2",
        "optim.schedule=constant", "task.metrics=[f1]", f"run_dir={home / 'run'}"])
    run(config, "mlp_table")
    return home / "run"


@pytest.fixture
def inputs(rings, tmp_path):
    file = tmp_path / "inputs.csv"
    pd.read_csv(rings)[["y", "x"]].to_csv(file, index=False)               # in another order
    return file


def test_evaluation_repeats_the_result_of_the_run(folder, capsys):
    result = json.loads((folder / "result.json").read_text())
    for last, kind in ((True, "last"), (False, "best")):
        trained = open_run(folder, last)
        assert (trained.kind, trained.step) == (kind, result[kind]["step"])
        for split in ("val", "test"):
            assert trained.metrics(split) == pytest.approx(result[kind][split], rel=1e-6)
    assert evaluate.main([str(folder), "--split", "test", "--split", "train"]) == 0
    out = capsys.readouterr().out
    assert [line.split()[2] for line in out.splitlines()[2:]] == ["test", "train", "test", "train"]


def test_predictions_are_those_of_the_task_row_by_row(folder, rings, inputs, tmp_path):
    for name in ("out.csv", "out.jsonl", "out.parquet"):
        assert predict.main([str(folder), "--input", str(inputs), "--output", str(tmp_path / name)]) == 0
    csv = pd.read_csv(tmp_path / "out.csv")
    truth = pd.read_csv(rings)["ring"]
    assert (csv["label"] == truth).mean() > 0.9
    assert csv["row"].tolist() == list(range(1, 301))
    np.testing.assert_allclose(csv["probability of inner"] + csv["probability of outer"], 1, rtol=1e-6)
    for other in (pd.read_parquet(tmp_path / "out.parquet"), pd.read_json(tmp_path / "out.jsonl", lines=True)):
        pd.testing.assert_frame_equal(csv, other, check_dtype=False)


def test_the_folder_of_the_output_is_made(folder, inputs, tmp_path, capsys):
    inputs.write_text("\n".join(inputs.read_text().splitlines()[:2]))
    assert predict.main([str(folder), "--input", str(inputs), "--output", str(tmp_path / "new" / "out.csv")]) == 0
    assert capsys.readouterr().out.startswith("1 row in ") and (tmp_path / "new" / "out.csv").is_file()


def test_a_missing_input_is_named_without_keys_of_the_training(folder, tmp_path, capsys):
    assert predict.main([str(folder), "--input", "no.csv", "--output", str(tmp_path / "out.csv")]) == 1
    assert "fix: the path of an existing csv" in capsys.readouterr().err


def test_prediction_needs_no_training_data(folder, inputs, tmp_path):
    moved = tmp_path / "run"
    shutil.copytree(folder, moved)
    config = (moved / "config.yaml").read_text()
    (moved / "config.yaml").write_text(config.replace("rings.csv", "gone.csv"))
    assert len(open_run(moved).predict(inputs)["label"]) == 300
    with pytest.raises(DataError, match="the data file is missing"):
        open_run(moved).metrics("test")


def test_other_data_are_not_evaluated_as_if_they_were_the_same(folder, tmp_path):
    moved, file = tmp_path / "run", tmp_path / "other.csv"
    shutil.copytree(folder, moved)
    file.write_text("x,y,ring\n" + "".join(f"{i},{i % 7},{'ab'[i % 2]}\n" for i in range(40)))
    config = (moved / "config.yaml").read_text().splitlines()
    config = [f"  file: {file}" if line.startswith("  file: ") else line for line in config]
    (moved / "config.yaml").write_text("\n".join(config))
    with pytest.raises(CheckpointError, match="(?s)it was trained on other data.*changed  classes"):
        open_run(moved).metrics("test")


@pytest.mark.parametrize(("text", "message"), [
    ("x,z\n1,2\n", "  missing  y\n  unknown  z\n"), ("x\n1\n", "  missing  y\n"),
    ("x,y\n1,\n", "the column 'y' has gaps, and had none in training."), ("x,y\n", "the file has no rows"),
    ("x,y\n1,2\nred,3\n", "the column 'x' must have numbers"), ("x,y\n1,2\nred,3\n", "'red' in row 2 after the header"),
])
def test_columns_that_differ_are_named(folder, tmp_path, text, message):
    file = tmp_path / "inputs.csv"
    file.write_text(text)
    assert_refused(lambda: open_run(folder).predict(file), DataError, message)


def test_an_export_loads_alone_and_predicts_the_same(folder, inputs, tmp_path, capsys):
    out = tmp_path / "exported"
    assert export.main([str(folder), str(out)]) == 0
    assert sorted(file.name for file in out.iterdir()) == ["config.yaml", "exported.json", "model.safetensors"]
    one, other = open_run(folder).predict(inputs), open_run(out).predict(inputs)
    for name, values in one.items():
        np.testing.assert_array_equal(values, other[name])
    printed = capsys.readouterr().out
    assert f"open_run({str(out)!r})" in printed and "trained.predict(FILE)" in printed
    assert evaluate.main([str(out), "--split", "test"]) == 0
    assert capsys.readouterr().out.count("best") == 1         # there are no other parameters
    with pytest.raises(RecipeError, match="the folder does not have the last parameters"):
        open_run(out, last=True)
    assert export.main([str(folder), str(out)]) == 1
    assert "the folder is not empty" in capsys.readouterr().err


@pytest.mark.parametrize("damage", ["exported.json", "model.safetensors", "config.yaml", "other sizes"])
def test_a_damaged_export_is_a_house_error(folder, tmp_path, damage):
    out = tmp_path / "exported"
    export.main([str(folder), str(out)])
    if damage == "other sizes":
        config = (out / "config.yaml").read_text()
        (out / "config.yaml").write_text(config.replace("- 64\n  - 64", "- 64\n  - 32"))
    else:
        (out / damage).write_bytes(b"\x00garbage")
    with pytest.raises(RecipeError, match="fix: "):
        open_run(out)


def test_a_comparison_shows_what_differs(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    (other / "config.yaml").write_text((other / "config.yaml").read_text().replace("lr: 0.003", "lr: 0.004"))
    assert compare.main([str(folder), str(other)]) == 0
    out = capsys.readouterr().out
    assert "the table in comparison.csv, the curves in comparison.png" in out
    assert [line.split() for line in out.splitlines() if line.startswith("optim")] == [["optim.lr", "0.003", "0.004"]]
    assert "test accuracy, best" in out and (tmp_path / "comparison.png").stat().st_size > 10_000
    table = list(csv.reader((tmp_path / "comparison.csv").read_text().splitlines()))
    results = [json.loads((each / "result.json").read_text())["last"]["test"]["loss"] for each in (folder, other)]
    assert [float(cell) for row in table if row[0] == "test loss, last" for cell in row[1:]] == results


@pytest.mark.parametrize(("logged", "drawn"), [
    (["train/loss", "train/accuracy", "val/accuracy", "val/loss"], ["val/accuracy", "val/loss"]),
    (["train/loss", "train/accuracy"], ["train/accuracy", "train/loss"]), (["train/loss", "val/loss"], ["val/loss"])])
def test_a_comparison_draws_the_main_metric_and_the_loss(logged, drawn):
    records = [Record(1, dict.fromkeys(logged, 1.0))]
    assert compare._curves([compare.Compared("run", {}, {}, records)]) == drawn


@pytest.mark.parametrize("command", [evaluate, report, compare])
def test_a_missing_run_is_a_house_error(command, capsys):
    assert command.main(["no-such-run"]) == 1
    assert "there is no such run" in capsys.readouterr().err


def test_a_run_without_a_checkpoint(tmp_path, folder, capsys):
    shutil.copy(folder / "config.yaml", tmp_path / "config.yaml")
    assert evaluate.main([str(tmp_path)]) == 1
    assert "it has no checkpoint yet" in capsys.readouterr().err
