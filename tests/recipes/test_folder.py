"""The run folder: never overwritten, reused on resume, locked, and resumed with its own config."""

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from recipes.errors import ConfigError, RecipeError
from recipes.process.lock import locked
from recipes.results.folder import environment, find_run, new_folder, note_environment, saved_config
from recipes.settings.config_file import load_config


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def opened(*overrides):
    return new_folder(load_config("gcn.yaml", overrides), "gcn")


def test_new_runs_count_up():
    assert [opened() for _ in range(3)] == [Path.cwd() / "runs" / name for name in ("gcn", "gcn-2", "gcn-3")]


def test_runs_that_begin_at_once_have_their_own_folders():
    with ThreadPoolExecutor(8) as pool:
        folders = list(pool.map(lambda _: opened(), range(8)))
    assert len({*folders}) == 8


@pytest.mark.parametrize(("config", "overrides", "moved"), [
    ("mlp_table", ["task.file=a/t.csv", "task.target=y"], "task.file=b/t.csv"),
    ("lenet_digits", ["task.data={name: folder, path: a}"], "task.data.path=b"),
    ("gpt2_stdlib", ["task.files=[a/x.txt]"], "task.files=[b/x.txt]")])
def test_data_may_have_moved(config, overrides, moved):
    folder = new_folder(load_config(config, overrides), config)
    task = saved_config(folder, [moved]).task.model_dump_json()
    assert str(Path.cwd() / "b") in task and str(Path.cwd() / "a") not in task
    for wrong in ("task.batch_size=3", "task.data.image=9", "task.target=z", "task=x", "run_dir=b", "task.nothing=b"):
        with pytest.raises(ConfigError, match="cannot be overridden on resume"):
            saved_config(folder, [moved, wrong])


def test_resume_takes_the_newest_not_the_last_number():
    for _ in range(3):
        opened()
    now = time.time()
    for name, age in (("gcn", 10), ("gcn-2", 0), ("gcn-3", 5)):
        os.utime(f"runs/{name}/config.yaml", (now - age, now - age))
    other = new_folder(load_config("gcn"), "mlp")
    os.utime(other / "config.yaml", (now + 1, now + 1))
    assert find_run(config_name="gcn").name == "gcn-2"
    assert find_run().name == "mlp"
    assert find_run("gcn-3") == find_run("runs/gcn-3") == Path.cwd() / "runs/gcn-3"


def test_a_missing_run_in_the_middle_does_not_hide_the_later_ones():
    """A resume once took runs/gcn in place of runs/gcn-3 after runs/gcn-2 was deleted."""
    now = time.time()
    for i, path in enumerate([opened() for _ in range(3)]):
        os.utime(path / "config.yaml", (now + i, now + i))
    (Path.cwd() / "runs/gcn-2/config.yaml").unlink()
    (Path.cwd() / "runs/gcn-2").rmdir()
    assert find_run(config_name="gcn").name == "gcn-3"


def test_a_used_folder_is_not_overwritten():
    opened("run_dir=mine")
    with pytest.raises(RecipeError) as caught:
        opened("run_dir=mine")
    mine = Path.cwd() / "mine"
    assert str(caught.value) == ("run: the run folder is in use: it would be overwritten.\n"
                                 f"  run_dir  {mine}\n"
                                 f"  fix: --resume {mine} to continue that run, or another run_dir.")


@pytest.mark.parametrize(("run", "name"), [(None, None), (None, "gcn"), ("nowhere", None)])
def test_nothing_to_resume(run, name):
    new_folder(load_config("gcn"), "mlp") if name else None
    with pytest.raises(RecipeError, match="(?s)there is no .*run.*runs  .*fix: "):
        find_run(run, name)


def test_only_what_touches_no_number_may_change():
    folder = opened("run_dir=mine", "optim.schedule=cosine")
    free = ("devices=2", "log_every=7", "checkpoint_every=3", "keep_checkpoints=9")
    config = saved_config(folder, free)
    assert (config.devices, config.log_every, config.checkpoint_every, config.keep_checkpoints) == (2, 7, 3, 9)
    with pytest.raises(ConfigError) as caught:
        saved_config(folder, ("optim.lr=0.5", "steps=300", "devices=2", "eval_every=3"))
    assert str(caught.value) == (
        "run: these keys cannot be overridden on resume: they would change the results.\n"
        f"  run    {folder}\n"
        "  given  optim.lr=0.5 steps=300 eval_every=3\n"
        "  free   devices, log_every, checkpoint_every, keep_checkpoints, trackers\n"
        "  fix: --extend N for more steps, or a new run with this config and the overrides.")


def test_a_run_is_extended_and_its_schedule_stays():
    folder = opened("run_dir=mine", "schedule_steps=200")
    config = saved_config(folder, extend=500)
    assert (config.steps, config.schedule_steps) == (500, 200)
    with pytest.raises(ConfigError, match="--extend 200 is not more than the steps of the run"):
        saved_config(folder, extend=200)


def test_a_moved_folder_is_still_a_run():
    opened("run_dir=mine").rename("elsewhere")
    assert saved_config(find_run("elsewhere")).run_dir == Path.cwd() / "elsewhere"


def test_another_machine_or_code_is_told(tmp_path):
    assert note_environment(tmp_path, {"devices": 1, "cpu": "a"}) == []
    assert note_environment(tmp_path, {"devices": 1, "cpu": "a"}) == []
    changes = note_environment(tmp_path, {"devices": 2, "threads": 4, "cpu": "a"})
    assert changes == ["devices: 1 before, 2 now", "threads: None before, 4 now"]


def test_the_environment_has_a_digest_of_the_code(tmp_path, monkeypatch):
    task = tmp_path / "mine.py"
    task.write_text("from recipes.tasks.node_classification import Config, load, make\n")
    Path("mine.yaml").write_text(f"task: {{name: {task}}}\n")
    config = load_config("mine")
    before = environment(config, 1, "cpu")
    task.write_text(task.read_text() + "# changed\n")
    after = environment(config, 1, "cpu")
    assert {key for key in before if before[key] != after[key]} == {"code of the task, mine.py"}


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", "\x00", '{"a": ' * 3000])
def test_a_damaged_environment_is_a_house_error(tmp_path, text):
    (tmp_path / "environment.json").write_text(text)
    with pytest.raises(RecipeError, match="environment.json is damaged"):
        note_environment(tmp_path, {"devices": 1})


def test_the_second_process_is_told_who_holds_the_folder(tmp_path):
    with locked(tmp_path):
        with pytest.raises(RecipeError) as caught, locked(tmp_path):
            pass
        assert f"held by  process {os.getpid()} on " in str(caught.value)
    with locked(tmp_path):                                    # free again
        pass


def test_a_lock_ends_with_its_process(tmp_path):
    script = ("import os, pathlib; from recipes.process.lock import locked; "
              f"locked(pathlib.Path({str(tmp_path)!r})).__enter__(); ")
    done = subprocess.run([sys.executable, "-c", script + "print('held', flush=True); os._exit(0)"], text=True,
                          stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])})
    assert done.stdout == "held\n"
    with locked(tmp_path):
        pass


def test_json_of_the_environment_is_readable(tmp_path):
    note_environment(tmp_path, environment(load_config("gcn"), 1, "cpu"))
    assert json.loads((tmp_path / "environment.json").read_text())["devices"] == 1
