"""``python -m recipes``: its output, the commands that it runs, and the help of each command."""

import importlib
import tomllib
from pathlib import Path

import pytest

import recipes
from recipes.__main__ import COMMANDS, EXAMPLES, main
from recipes.settings.config_file import task_names

HOME = Path(recipes.__file__).parent


def test_the_overview_has_each_command_and_each_task(capsys):
    assert main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines[:-3])) <= 80                         # a command can be copied from one line
    named = [line.split()[0] for line in lines if line.startswith("  ")]
    assert named == [*COMMANDS, *task_names(), *["python"] * 3]


def test_no_command_is_left_out():
    with_main = {file.stem for file in HOME.glob("[!_]*.py") if "\ndef main(argv" in file.read_text("utf-8")}
    assert with_main == COMMANDS.keys()


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_has_an_example(name, capsys):
    with pytest.raises(SystemExit, match="0"):
        main([name, "--help"])
    out = capsys.readouterr().out
    assert f"usage: recipes.{name} " in out and f"example: python -m recipes.{name} " in out


def test_examples_name_commands_and_configs():
    for line in EXAMPLES.splitlines():
        _, _, package, command, *rest = line.split()
        assert package == "recipes" and command in COMMANDS
        assert all((HOME / "configs" / word).is_file() for word in rest if word.endswith(".yaml"))


def test_a_command_runs(capsys):
    assert main(["train", "--print-config", "--config", "gcn.yaml"]) == 0
    assert "name: node_classification" in capsys.readouterr().out


def test_an_option_before_the_command_is_refused(capsys):
    assert main(["--list", "table"]) == 2
    assert "fix: python -m recipes train --list ..." in capsys.readouterr().err


def test_an_unknown_command_is_refused(capsys):
    assert main(["trian"]) == 2
    assert "there is no command 'trian'; did you mean 'train'?" in capsys.readouterr().err


def test_the_console_script_is_the_same():
    scripts = tomllib.loads((HOME.parent / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    module, _, function = scripts["xjax-recipes"].partition(":")
    assert getattr(importlib.import_module(module), function) is main


def test_list_of_one_task(capsys):
    assert main(["train", "--list", "vae"]) == 0
    listed = capsys.readouterr().out
    assert "task, vae" in listed and "task, table" not in listed and "optim" not in listed
    assert main(["train", "--list", "vea"]) == 2
    assert "there is no task 'vea'; did you mean 'vae'?" in capsys.readouterr().err
