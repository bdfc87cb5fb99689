"""A run folder written by commit c8961d4, before modules moved, and old names of modules."""

import importlib
import json
import shutil
import sys
from pathlib import Path

import pytest

from recipes.trained import open_run

WRITTEN = Path(__file__).with_name("run_of_c8961d4")


def test_a_run_folder_opens(tmp_path):
    folder = shutil.copytree(WRITTEN, tmp_path / "run")
    result = json.loads((folder / "result.json").read_text())["last"]
    trained = open_run(folder, True)
    assert trained.step == result["step"] and trained.metrics("test") == pytest.approx(result["test"], rel=1e-6)


def test_old_names_of_modules():
    sys.modules.pop("recipes.text_models", None)
    with pytest.warns(DeprecationWarning, match="recipes.text_models is recipes.models.text now"):
        module = importlib.import_module("recipes.text_models")
    assert module is sys.modules["recipes.models.text"]
