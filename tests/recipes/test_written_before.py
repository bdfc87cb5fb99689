"""Run folders written by commit c8961d4, before rules and modules changed, and old names of modules.

`write_old_runs.py` made the runs of all tasks, with the numbers that the commit computes from them.
"""

import csv
import importlib
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from recipes import compare, evaluate, export, generate, predict, report, train
from recipes.trained import open_run
from tests.recipes.write_old_runs import ARCHIVE, PROMPT, RUNS

WRITTEN = Path(__file__).with_name("run_of_c8961d4")
FAST = ("table",)                                   # its columns are read in another way now


def test_a_run_folder_opens(tmp_path):
    folder = shutil.copytree(WRITTEN, tmp_path / "run")
    result = json.loads((folder / "result.json").read_text())["last"]
    trained = open_run(folder, True)
    assert trained.step == result["step"] and trained.metrics("test") == pytest.approx(result["test"], rel=1e-6)


@pytest.mark.parametrize("name", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow)
                                  for name in RUNS])
def test_all_commands_on_a_run_of_each_task(name, tmp_path, monkeypatch, capsys):
    """Predictions, texts and the metrics of more steps are those of c8961d4."""
    shutil.unpack_archive(ARCHIVE, tmp_path)
    monkeypatch.chdir(tmp_path / "data")
    run, exported = tmp_path / name, tmp_path / "exported"
    assert export.main([str(run), str(exported)]) == 0
    if RUNS[name][2] is None:
        capsys.readouterr()
        assert generate.main([str(exported), *PROMPT]) == 0
        assert capsys.readouterr().out == (run / "generated.txt").read_text()
    else:
        assert_same_table(predictions(exported, name, tmp_path), run / "predicted_best.csv")
        assert_same_table(predictions(run, name, tmp_path, "--last"), run / "predicted_last.csv")
    assert evaluate.main([str(run)]) == 0
    assert report.main([str(run)]) == 0 and "Not drawn" not in (run / "report.html").read_text()
    assert compare.main([str(run), str(run)]) == 0
    wanted = json.loads((run / "result_of_12_steps.json").read_text())
    assert train.main(["--resume", str(run), "--extend", "12"]) == 0
    result = json.loads((run / "result.json").read_text())
    for kind, split in ((kind, split) for kind in wanted for split in ("val", "test")):
        shared = wanted[kind][split].keys() & result[kind][split].keys()     # RMSE and MAE replaced two of regression
        assert "loss" in shared
        for metric in shared:                                                # six steps on another machine or jaxlib
            assert result[kind][split][metric] == pytest.approx(wanted[kind][split][metric], rel=1e-4)


def test_other_data_are_still_refused(tmp_path, monkeypatch, capsys):
    """The columns that a run recorded decide only while they describe the data."""
    shutil.unpack_archive(ARCHIVE, tmp_path)
    monkeypatch.chdir(tmp_path / "data")
    file = Path("shop.csv")
    file.write_text(file.read_text().replace(",14.62,", ",14.63,"))
    assert evaluate.main([str(tmp_path / "table")]) == 1
    assert "trained on other data" in capsys.readouterr().err


def predictions(run, name, folder, *options):
    output = folder / "predictions.csv"
    assert predict.main([str(run), "--input", RUNS[name][2], "--output", str(output), *options]) == 0
    return output


def assert_same_table(file, wanted):
    """Texts are equal, and numbers up to the rounding of float32 on another machine or jaxlib."""
    table, right = (list(csv.reader(each.open(newline=""))) for each in (file, wanted))
    assert table[0] == right[0] and len(table) == len(right)
    for cell, other in zip(np.ravel(table[1:]), np.ravel(right[1:]), strict=True):
        assert cell == other or float(cell) == pytest.approx(float(other), rel=1e-5, abs=1e-6)


def test_old_names_of_modules():
    sys.modules.pop("recipes.text_models", None)
    with pytest.warns(DeprecationWarning, match="recipes.text_models is recipes.models.text now"):
        module = importlib.import_module("recipes.text_models")
    assert module is sys.modules["recipes.models.text"]
