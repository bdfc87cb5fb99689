"""The config: every fault in one message, exit code 2, and nothing heavy imported before it."""

import itertools
from pathlib import Path

import pytest

from recipes.config import (
    NodeClassificationConfig,
    OptimConfig,
    TableConfig,
    TrainConfig,
    find_config,
    load_config,
)
from recipes.errors import ConfigError

ROOT = Path(__file__).parents[2]
TABLE = ("task.file=a.csv", "task.target=y")
SHIPPED = sorted(p.name for p in (ROOT / "configs").glob("*.yaml"))

ALL_FAULTS = """\
setps: 10
steps: -3
log_every: yes
hidden: 8
task:
  name: node_classification
  hiden: 16
  dataset: corra
  labelled: [0, x]
optim: {lr: 0.1}
optim: {lr: fast, name: adma}
"""

ALL_FAULTS_TOLD = """\
config: 13 faults in faults.yaml.
  line 11   optim            stands twice; first in line 10
  override  foo              an override is key.path=value
  override  seed.x=1         seed is a value (3), not a section
  line 8    task.dataset     must be 'karate', 'cora', 'citeseer' or 'pubmed', got 'corra'; did you mean 'cora'?
  line 9    task.labelled.1  must be a valid integer, unable to parse string as an integer, got 'x'
  line 7    task.hiden       unknown key; did you mean 'hidden'?
  line 11   optim.name       must be 'adam', 'adamw' or 'sgd', got 'adma'; did you mean 'adam'?
  line 11   optim.lr         must be a valid number, unable to parse string as a number, got 'fast'
  override  optim.momentm    unknown key; did you mean 'momentum'?
  line 2    steps            must be greater than 0, got -3
  line 3    log_every        must be a number, got True
  line 1    setps            unknown key; did you mean 'steps'?
  line 4    hidden           unknown key; did you mean 'task.hidden'?
  fix: correct them all; the known keys and their defaults stand in recipes/config.py."""


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def fault(name, *overrides):
    with pytest.raises(ConfigError) as caught:
        load_config(name, overrides)
    return str(caught.value)


def test_all_faults_in_one_message():
    Path("faults.yaml").write_text(ALL_FAULTS)
    told = fault("faults.yaml", "foo", "seed=3", "seed.x=1", "optim.momentm=1")
    assert told == ALL_FAULTS_TOLD


def _typos():
    """Each key of each model with one letter dropped, doubled, exchanged or added."""
    sections = {"": TrainConfig, "optim.": OptimConfig, "task.": NodeClassificationConfig}
    for prefix, model in sections.items():
        for key in model.model_fields:
            a, (b, c), d = (
                key[: len(key) // 2 - 1],
                key[len(key) // 2 - 1 :][:2],
                key[len(key) // 2 + 1 :],
            )
            wrong = {a + b + d, a + b + b + c + d, a + c + b + d, key + "s"} - {key}
            yield from ((prefix, key, typo) for typo in sorted(wrong))


@pytest.mark.parametrize(("prefix", "key", "typo"), list(_typos()))
def test_one_letter_wrong_names_the_right_key(prefix, key, typo):
    told = fault("gcn.yaml", f"{prefix}{typo}=1")
    assert f"override  {prefix}{typo}  unknown key; did you mean '{key}'?" in told


def test_there_are_many_typos():
    assert len(list(_typos())) >= 50


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("task.name=tabel", "there is no task 'tabel'; did you mean 'table'?"),
        ("task={}", "task  needs a name: one of node_classification, table"),
        ("optim=3", "optim  must be a valid dictionary"),
        ("seed=1.5", "seed  must be a valid integer"),
        ("seed=-1", "seed  must be greater than or equal to 0, got -1"),
        ("seed=4294967296", "seed  must be less than 4294967296"),
        ("steps=true", "steps  must be a number, got True"),
        ("optim.lr=.nan", "optim.lr  must be"),
        ("optim.lr=.inf", "optim.lr  must be a finite number"),
        ("seed=[", "the value is not YAML"),
        ("=3", "an override is key.path=value"),
        ("optim..lr=3", "an override is key.path=value"),
        ("zzz=3", "zzz  unknown key; known: task, optim, steps"),
        ("task.lr=3", "task.lr  unknown key; did you mean 'optim.lr'?"),
        ("task.target=y", "task.target  unknown key"),  # of the other task
    ],
)
def test_one_wrong_override(override, told):
    message = fault("gcn.yaml", override)
    assert message.startswith("config: 1 fault in ")
    assert told in message
    assert "fix:" in message


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: [", "the file is not YAML."),
        ("- 1\n- 2\n", "the file must hold a mapping, and holds a list."),
        ("", "task  a value is needed here"),
        ("task: {name: table}", "task.file    a value is needed here"),
        ("task: {name: table}", "task.target  a value is needed here"),
        (
            "task: {name: table}\nsteps: 3\nsteps: 4\n",
            "line 3  steps        stands twice; first in line 2",
        ),
        ("1: 2\n", "1"),
    ],
)
def test_wrong_file(text, told):
    Path("wrong.yaml").write_text(text)
    assert told in fault("wrong.yaml")


def test_no_such_config():
    told = fault("gnc")
    assert told.startswith("config: there is no config 'gnc'.  Did you mean 'gcn.yaml'?")
    assert all(name in told for name in SHIPPED)


def test_look_up_order():
    shipped = find_config("gcn.yaml")
    assert shipped.parent.name == "configs"
    Path("configs").mkdir()
    for folder in ("configs", "."):
        mine = Path(folder, "gcn.yaml")
        mine.write_text("task: {name: node_classification}\n")
        assert find_config("gcn.yaml") == find_config("gcn") == mine


def test_overrides_are_read_as_yaml_and_the_last_wins():
    config = load_config("gcn", ["optim.lr=3e-4", "task.labelled=[1, 2]", "seed=4", "seed=5"])
    assert (config.optim.lr, config.task.labelled, config.seed) == (3e-4, (1, 2), 5)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_configs_load_and_say_what_they_reproduce(name):
    load_config(name, TABLE if name == "mlp_table.yaml" else ())
    header = list(itertools.takewhile(lambda s: s.startswith("#"), find_config(name).open()))
    assert any(line.startswith("#   figure   ") for line in header)
    assert any(f"python -m recipes.train --config {name}" in line for line in header)


@pytest.mark.parametrize("overrides", [("seed=7",), ("task.name=table", *TABLE)])
def test_resolved_config_gives_itself(overrides):
    Path("base.yaml").write_text("task: {name: node_classification}\n")
    config = load_config("base.yaml", overrides)
    Path("resolved.yaml").write_text(config.to_yaml())
    assert load_config("resolved.yaml") == config


def test_config_is_frozen():
    with pytest.raises(ValueError, match="frozen"):
        load_config("gcn").seed = 3


def test_planetoid_folder_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("PLANETOID_DIR", "elsewhere")
    assert load_config("gcn_cora").task.root == Path("elsewhere")
    assert load_config("gcn_cora", ["task.root=here"]).task.root == Path("here")


def test_config_errors_exit_2_before_anything_heavy_is_imported(command):
    script = (
        "import sys; from recipes.train import main; code = main(['optim.lr=no', 'stpes=3']);"
        "heavy = {'jaxlib', 'jax', 'xjax', 'numpy', 'datasets', 'orbax', 'matplotlib'};"
        "print(sorted(heavy & set(sys.modules))); sys.exit(code)"
    )
    code, out, err = command(module=("-c", script))
    assert (code, out) == (2, "[]\n"), err
    assert err.startswith("config: 2 faults in ")
    assert "Traceback" not in err


def test_table_models_know_no_graph_keys():
    assert not set(TableConfig.model_fields) & {"dataset", "root", "labelled"}
