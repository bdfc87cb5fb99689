"""The config: every fault in one message, exit code 2, and no heavy import before it."""

import itertools
import re
from pathlib import Path

import pytest

from recipes.config import RunConfig
from recipes.errors import ConfigError
from recipes.settings.config_file import find_config, load_config, load_kernel_config, task_names
from recipes.settings.listing import sections
from recipes.settings.optim import SGD, Adam, Cosine
from recipes.tasks import node_classification, table
from recipes.train import main
from tests.refusals import assert_refused

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

ALL_FAULTS_MESSAGE = """\
config: 11 faults in faults.yaml.
  line 11   optim            duplicate key; first defined in line 10; there is no optim 'adma'; did you mean 'adam'?
  override  foo              an override is key.path=value
  override  seed.x=1         seed is a value (3), not a section
  line 8    task.dataset     must be 'karate', 'cora', 'citeseer', 'pubmed' or 'folder', got 'corra'; did you mean CORA?
  line 9    task.labelled.1  must be a valid integer, unable to parse string as an integer, got 'x'
  line 7    task.hiden       unknown key; did you mean 'hidden'?
  line 2    steps            must be greater than 0, got -3
  line 3    log_every        must be a number, got True
  line 1    setps            unknown key; did you mean 'steps'?
  line 4    hidden           unknown key; did you mean 'task.hidden'?
  fix: correct them all; `python -m recipes.train --list` has all keys and their defaults.""".replace("CORA", "'cora'")


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def fault(name, *overrides):
    return str(assert_refused(lambda: load_config(name, overrides), ConfigError, ()))


def test_all_faults_in_one_message():
    Path("faults.yaml").write_text(ALL_FAULTS)
    error = fault("faults.yaml", "foo", "seed=3", "seed.x=1", "optim.momentm=1")
    assert error == ALL_FAULTS_MESSAGE


def _typos():
    """Each key of each model with one letter dropped, doubled, exchanged or added."""
    sections = {"": RunConfig, "optim.": Adam, "task.": node_classification.Config}
    for prefix, model in sections.items():
        for key in model.model_fields:
            if len(key) < 3:
                continue
            a, (b, c), d = key[:len(key) // 2 - 1], key[len(key) // 2 - 1:][:2], key[len(key) // 2 + 1:]
            wrong = {a + b + d, a + b + b + c + d, a + c + b + d, key + "s"} - {key}
            yield from ((prefix, key, typo) for typo in sorted(wrong))


@pytest.mark.parametrize(("prefix", "key", "typo"), list(_typos()))
def test_one_letter_wrong_names_the_right_key(prefix, key, typo):
    error = fault("gcn.yaml", f"{prefix}{typo}=1")
    assert f"override  {prefix}{typo}  unknown key; did you mean '{key}'?" in error


def test_there_are_many_typos():
    assert len(list(_typos())) >= 50


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("task.name=tabel", "there is no task 'tabel'; did you mean 'table'?"),
        ("task={}", "task.name  needs a name: one of "),
        ("optim=3", "optim  must be a section of keys, got 3"),
        ("seed=1.5", "seed  must be a valid integer"),
        ("seed=-1", "seed  must be greater than or equal to 0, got -1"),
        ("seed=4294967296", "seed  must be less than 4294967296"),
        ("steps=true", "steps  must be a number, got True"),
        ("optim.lr=.nan", "optim.lr  must be"),
        ("optim.lr=.inf", "optim.lr  must be a finite number"),
        ("seed=[", "seed  must be a valid integer"),
        ("steps=010", "steps  YAML reads 010 as 8; write 8 for this number, or '010', in quotes, for a text"),
        ("steps=-012", "steps  YAML reads -012 as -10"),
        ("steps=1:30", "steps  YAML reads 1:30 as 90"),
        ("optim.lr=1:30.5", "optim.lr  YAML reads 1:30.5 as 90.5"),
        ("run_dir=[a]", "run_dir  must be a path, got ['a'], which YAML makes of [a]; quote it: \"run_dir='[a]'\""),
        ("run_dir=3", "quote it: \"run_dir='3'\""),
        ("=3", "an override is key.path=value"),
        ("optim..lr=3", "an override is key.path=value"),
        ("zzz=3", "zzz  unknown key; known: task, optim, steps"),
        ("task.lr=3", "task.lr  unknown key; did you mean 'optim.lr'?"),
        ("task.target=y", "task.target  unknown key"),                        # a key of the other task
        ("optim.momentum=0.9", "optim.momentum  unknown key: it is a key of sgd only"),
        ("optim.warmup_steps=3", "optim.warmup_steps  unknown key; did you mean 'optim.schedule.warmup_steps'?"),
        ("optim.schedule=cosin", "optim.schedule  there is no schedule 'cosin'; did you mean 'cosine'?"),
        ("optim.schedule.warmup_steps=200", "optim.schedule.warmup_steps  must be less than the 200 steps"),
        ("optim.schedule.end=0.5", "optim.schedule.end  unknown key: it is a key of cosine, linear, wsd only"),
        ("task.root=data", "task.root  is for the dataset cora or citeseer or pubmed, not for karate"),
        ("task={name: no.py}", "task.name  there is no file 'no.py'"),
        ("task={name: node_classification, dataset: cora, labelled: [0]}", "task.labelled  is for the dataset karate"),
    ],
)
def test_one_wrong_override(override, expected):
    message = fault("gcn.yaml", override)
    assert message.startswith("config: 1 fault in ")
    assert expected in message
    assert "fix:" in message


TABLE = ["task.file=a.csv", "task.target=t"]
# Configs that need values.
GIVEN = {"mlp_table.yaml": TABLE, "kernel_table.yaml": TABLE, "own_graph.yaml": ["task.folder=g"]}


@pytest.mark.parametrize("text", ["yes", "no", "on", "null", "~", "2020-01-01", "100", "1.0", "[a]", "{a: b}", "a: b",
                                  "{x}"])
def test_a_text_that_yaml_reads_as_another_kind(text):
    """The message shows it quoted, and quoted it is accepted."""
    with pytest.raises(ConfigError, match=re.escape(f"quote it: \"task.target='{text}'\"")):
        load_config("mlp_table", [*TABLE, f"task.target={text}"])
    assert load_config("mlp_table", [*TABLE, f"task.target='{text}'"]).task.target == text


@pytest.mark.parametrize("text", [
    "a #b", "#b", "@x", "%x", "`x", "*x", "!x", "[v2]/t.csv", "it's", "'q", "$5 [x]", "\\[x", "=", "08", "1e3", "50 %",
    "a\tb", "\x1b[31mred", "\udcff", "日本 # 語", "{x", "<<"])
def test_an_override_that_is_a_name(text, tmp_path):
    """Without quotes, since it can only be a text; the saved config has it too."""
    made = load_config("mlp_table", [*TABLE, f"task.target={text}"])
    assert made.task.target == text.strip()
    (tmp_path / "a.yaml").write_text(made.to_yaml(), "utf-8")
    assert load_config(str(tmp_path / "a.yaml")).task.target == text.strip()


def test_numbers_of_yaml_in_a_file(tmp_path):
    file = tmp_path / "a.yaml"
    for number, value in (("1_000", 1000), ("0x10", 16), ("12", 12), ("010", None), ("1:30", None)):
        file.write_text(f"task: {{name: table, file: a, target: t}}\nsteps: {number}\n")
        if value:
            assert load_config(str(file)).steps == value
        else:
            with pytest.raises(ConfigError, match=f"YAML reads {number} as .* in quotes, for a text"):
                load_config(str(file))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [", "the file cannot be read as YAML."),
        ("a: &x [*x]", "aliases (*name) are not used in configs"),
        ("a: " + "[" * 5000, "it is nested too deeply"),
        ("a: 2001-99-99", "why   month must be in 1..12"),
        ("- 1\n- 2\n", "the file must hold a mapping, and holds a list."),
        ("", "task  a value is needed here"),
        ("task: {name: table}", "task.file    a value is needed here"),
        ("task: {name: table}", "task.target  a value is needed here"),
        (
            "task: {name: table}\nsteps: 3\nsteps: 4\n",
            "line 3  steps        duplicate key; first defined in line 2",
        ),
        ("1: 2\n", "1"),
    ],
)
def test_wrong_file(text, expected):
    Path("wrong.yaml").write_text(text)
    assert expected in fault("wrong.yaml")


def test_no_such_config():
    error = fault("gnc")
    assert error.startswith("config: there is no config 'gnc'; did you mean 'gcn.yaml'?")
    assert all(name in error for name in SHIPPED)


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


def shipped(name, file=None):
    """(The config of a shipped name, from another file if there is one; its command.)"""
    load, command = (load_kernel_config, "kernel") if name.startswith("kernel_") else (load_config, "train")
    return load(file or name, () if file else GIVEN.get(name, ())), command


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_configs_load_and_say_what_they_reproduce(name):
    _, command = shipped(name)
    header = list(itertools.takewhile(lambda s: s.startswith("#"), find_config(name).open()))
    assert any(line.startswith("#   figure   ") for line in header)
    assert any(f"python -m recipes.{command} --config {name}" in line for line in header)


@pytest.mark.parametrize("overrides", [("seed=7",), ("task.name=table", *TABLE)])
def test_resolved_config_gives_itself(overrides):
    Path("base.yaml").write_text("task: {name: node_classification}\n")
    config = load_config("base.yaml", overrides)
    Path("resolved.yaml").write_text(config.to_yaml())
    assert load_config("resolved.yaml") == config


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_config_gives_itself(name):
    config, _ = shipped(name)
    Path("resolved.yaml").write_text(config.to_yaml())
    assert shipped(name, "resolved.yaml")[0] == config


def test_config_is_frozen():
    with pytest.raises(ValueError, match="frozen"):
        load_config("gcn").seed = 3


def test_paths_are_absolute_and_know_the_home_folder(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    assert load_config("gcn_cora", ["task.root=here"]).task.root == Path.cwd() / "here"
    assert load_config("gcn", ["run_dir=~/runs/a"]).run_dir == Path("/home/me/runs/a")


def test_a_schedule_is_a_section_or_its_name():
    short, long = (load_config("gcn", [f"optim.schedule={text}"]) for text in ("cosine", "{name: cosine}"))
    assert short.optim == long.optim == Adam(weight_decay=0.05, schedule=Cosine())


def test_an_optimizer_without_a_name_is_adam():
    Path("a.yaml").write_text("task: {name: node_classification}\noptim: {lr: 0.5}\n")
    assert load_config("a.yaml").optim == Adam(lr=0.5)
    assert load_config("a.yaml", ["optim.name=sgd"]).optim == SGD(lr=0.5)


def test_config_errors_exit_2_before_anything_heavy_is_imported(command):
    script = (
        "import sys; from recipes.train import main; code = main(['optim.lr=no', 'stpes=3']);"
        "heavy = {'jaxlib', 'jax', 'xjax', 'scipy', 'datasets', 'orbax', 'matplotlib', 'networkx'};"
        "print(sorted(heavy & set(sys.modules))); sys.exit(code)"
    )
    code, out, err = command(module=("-c", script))
    assert (code, out) == (2, "[]\n"), err
    assert err.startswith("config: 2 faults in ")
    assert "Traceback" not in err


def test_table_models_know_no_graph_keys():
    assert not set(table.Config.model_fields) & {"dataset", "root", "labelled"}


def test_every_task_is_a_file_that_needs_no_jaxlib(command):
    script = ("import sys; from recipes.settings.config_file import task_module, task_names\n"
              "for name in task_names(): assert task_module(name).Config.model_fields\n"
              "print(sorted({'jaxlib', 'xjax', 'datasets', 'orbax', 'matplotlib', 'scipy'} & set(sys.modules)))")
    assert command(module=("-c", script))[:2] == (0, "[]\n")
    assert {"node_classification", "table"} <= set(task_names())


def test_the_list_has_every_key_with_its_meaning(capsys):
    assert main(["--list"]) == 0
    out = capsys.readouterr().out
    for key in ("optim.schedule.warmup_steps", "task.class_weights", "keep_checkpoints", "optim.momentum"):
        assert key in out
    assert "Whether to use Nesterov momentum." in " ".join(out.split())


def test_every_key_has_a_meaning():
    described = {prefix + key: field.description for _, prefix, fields in sections() for key, field in fields.items()}
    assert len(described) > 50
    assert not [key for key, meaning in described.items() if not meaning]
