"""The run folder: never overwritten, found again, and resumed with its own config only."""

import pytest

from recipes.config import load_config
from recipes.errors import RecipeError
from recipes.folder import note_environment, open_folder


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def opened(*overrides, resume=False):
    return str(open_folder(load_config("gcn.yaml", overrides), "gcn", resume=resume))


def test_new_runs_count_up_and_resume_takes_the_last():
    assert [opened() for _ in range(3)] == ["runs/gcn", "runs/gcn-2", "runs/gcn-3"]
    assert opened(resume=True) == "runs/gcn-3"


def test_a_used_folder_is_not_overwritten():
    opened("run_dir=mine")
    with pytest.raises(RecipeError) as caught:
        opened("run_dir=mine")
    assert str(caught.value) == (
        "run: the run folder is in use: it would be overwritten.\n"
        "  run_dir  mine\n"
        "  fix: --resume to go on with that run, or another run_dir."
    )
    assert opened("run_dir=mine", resume=True) == "mine"


@pytest.mark.parametrize("overrides", [(), ("run_dir=nowhere",)])
def test_nothing_to_resume(overrides):
    with pytest.raises(RecipeError, match="there is no run to resume"):
        opened(*overrides, resume=True)


def test_resume_with_another_config_names_the_keys():
    opened("run_dir=mine")
    changed = ("run_dir=mine", "optim.lr=0.5", "task.hidden=8", "steps=300", "devices=2")
    with pytest.raises(RecipeError) as caught:
        opened(*changed, resume=True)
    assert str(caught.value) == (
        "run: the config differs from that of the run to resume.\n"
        "  run          mine\n"
        "  optim.lr     0.01 in the run, 0.5 now\n"
        "  task.hidden  16 in the run, 8 now\n"
        "  fix: --config mine/config.yaml --resume run_dir=mine, or start a new run."
    )


def test_what_touches_no_number_may_change_on_resume():
    opened("run_dir=mine")
    free = ("steps=300", "devices=2", "log_every=7", "eval_every=9", "checkpoint_every=3")
    assert opened("run_dir=mine", *free, resume=True) == "mine"
    assert load_config("mine/config.yaml").steps == 300  # the newest config stands there


def test_another_machine_is_told(tmp_path):
    assert note_environment(tmp_path, {"devices": 1, "cpu": "a"}) == []
    assert note_environment(tmp_path, {"devices": 1, "cpu": "a"}) == []
    told = note_environment(tmp_path, {"devices": 2, "threads": 4, "cpu": "a"})
    assert told == ["devices: 1 before, 2 now", "threads: None before, 4 now"]
