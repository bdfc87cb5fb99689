"""`--preview` of every task: it shows what was read, at any width and with any names, and leaves nothing."""

from __future__ import annotations

import io
import re
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from recipes import train
from recipes.lazy import pil_image
from recipes.names import printable
from recipes.results.graph_plots import MOST_NODES, graph_figure, small_graph_figure
from recipes.settings.config_file import task_names
from tests.recipes.test_names import FILES, NAMES, Page, quoted, write_csv
from xjax.runtime import xla

OPTIM = "optim: {name: adam, lr: 0.01}\nsteps: 3\n"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty folder to work in; pages go to another, and a compilation is an error."""
    def refuse(*args, **kwargs):
        raise AssertionError("a preview compiles nothing")

    for name in ("pages", "home"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "pages"))
    monkeypatch.setattr(xla, "compile", refuse)
    monkeypatch.chdir(tmp_path / "home")
    return tmp_path


def shown(home, capsys, section, *overrides):
    """(What the terminal shows, the page or "") of a config with this section."""
    (home / "data.yaml").write_text(f"{OPTIM}task: {section}\n", "utf-8")
    code = train.main(["--config", str(home / "data.yaml"), "--preview", *overrides])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    assert not any((home / "home").iterdir())
    pages = [*(home / "pages").rglob("*.html")]
    assert all(str(page) in captured.out for page in pages[-1:])
    return captured.out, pages[-1].read_text("utf-8") if pages else ""


def texts_of(page):
    parser = Page()
    parser.feed(page)
    assert "script" not in {str(seen).strip() for seen in parser.seen}
    return parser.seen


# ---- every task ----------------------------------------------------------------------------------------------------

def own_table(home):
    rng = np.random.default_rng(0)
    rows = [[f"{i:03}", f"{rng.normal():.2f}", "" if i == 1 else "ab"[i % 2], f"2024-01-{i % 28 + 1:02}", "yn"[i % 2]]
            for i in range(40)]
    write_csv(home / "t.csv", ["id", "x", "kind", "day", "y"], rows)
    return f"{{name: table, file: {home / 't.csv'}, target: y, id_column: id, missing: fill}}"


def own_graph(home):
    ends = np.random.default_rng(0).integers(0, 24, (60, 2))
    (home / "graph").mkdir()
    edges = [[*each, 1 + i % 3] for i, each in enumerate(ends.tolist())]
    write_csv(home / "graph" / "edges.csv", ["source", "target", "weight"], edges)
    rows = [[i, "" if i == 2 else "ab"[i % 2], i / 10] for i in range(30)]
    write_csv(home / "graph" / "nodes.csv", ["id", "label", "size"], rows)
    return f"dataset: folder, folder: {home / 'graph'}"


def own_images(home):
    rng = np.random.default_rng(0)
    for name in ("cats", "dogs"):
        for i in range(4):
            file = home / "images" / name / "deep" / f"{i}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            pil_image.fromarray(rng.integers(0, 255, (20 + i, 30, 3), np.uint8)).save(file)
    (home / "images" / "notes.txt").write_text("x")
    return f"data: {{name: folder, path: {home / 'images'}, image: 8}}"


def own_texts(home):
    write_csv(home / "p.csv", ["text", "label"], [[f"{'ab'[i % 2]} text, number {i}", ["good", "bad"][i % 2]]
                                                 for i in range(30)])
    return f"file: {home / 'p.csv'}"


BERT = "model: {name: bert, features: 8, hidden: 8, layers: 1, heads: 2}"
GPT2 = "model: {name: gpt2, features: 8, layers: 1, heads: 2}"

# Task -> (its section, expressions in its terminal output, headings of its page).
CASES = {
    "table": (own_table, [
        r"filled +kind: 1 of 40", r"Columns\s+column +use +kind +missing +values",
        r"id +ids +category +0 +40 different: 000, 001, 002, …", r"x +feature +number +0 +-[\d.]+ to [\d.]+, mean",
        r"kind +feature +category +1 +2 different: a, b", r"day +feature +date +0 +2024-01-01 to 2024-01-28",
        r"y +target", r"kind +'a' +\(missing\) +'a' +'b'",
        r"class +train +val +test +share\s+n +14 +3 +3 +50.00 %"], []),
    "node_classification": (lambda home: f"{{name: node_classification, {own_graph(home)}}}", [
        r"nodes without an edge +\d", r"connected components +\d", r"edge weights +1 to 3, divided by their mean",
        r"node +edges +class +split", r"2 +\d +none", r"size +feature +number +0 +0 to 2.900, mean 1.450",
        r"label +target +category +1 +2 different"], ["Structure", "Graph"]),
    "link_prediction": (lambda home: f"{{name: link_prediction, {own_graph(home)}}}", [
        r"edge weights +1 to 3", r"split +edges +other pairs",
        r"split +source +target +edge"], ["Samples of pairs", "Graph"]),
    "graph_classification": (lambda home: "{name: graph_classification, count: 40}", [
        r"apart +\d+ +\d+ +\d+", r"Nodes of a graph\s+count +least +median"], ["Samples"]),
    "images": (lambda home: f"{{name: images, {own_images(home)}, model: {{name: mlp}}}}", [
        r"sizes +30x20 to 30x23, as stored; 8 of 8 are not square, and are stretched",
        r"left out +files of another kind, .txt: 1", r"cats +3 +1 +50.00 %"], ["Samples, as the model reads them"]),
    "vae": (lambda home: f"{{name: vae, {own_images(home)}}}", [
        r"Classes, which are not used"], ["Samples, as the model reads them"]),
    "text_classification": (lambda home: f"{{name: text_classification, {own_texts(home)}, {BERT}}}", [
        r"vocabulary +256 bytes", r"Characters of a text\s+count +least", r"Tokens of a text, at most 128 are read",
        r"bad +b text, number \d"], []),
    "language_model": (lambda home: f"{{name: language_model, {GPT2}}}", [
        r"files +55 +[\d,]+", r"train +[\d,]+ +[\d,]+", r"Their first tokens", r"train +\S\|"], []),
}


def test_there_is_a_case_for_each_task():
    assert set(CASES) == set(task_names())


@pytest.mark.parametrize("task", CASES)
def test_preview(task, home, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    section, expected, headings = CASES[task]
    out, page = shown(home, capsys, section(home))
    assert not [each for each in expected if not re.search(each, out)], out
    seen = texts_of(page)
    assert not [each for each in headings if each not in seen] and bool(page) == bool(headings)


def test_separator_and_forms_of_values(home, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    lines = [f"{i},5;{i % 28 + 1:02}.02.2024;{i % 2}" for i in range(20)]
    (home / "t.csv").write_text("\n".join(["größe;tag;y", *lines]), "cp1252")
    out, page = shown(home, capsys, f"{{name: table, file: {home / 't.csv'}, target: y}}")
    for expected in (r"encoding +Windows-1252", r"values +separated by semicolons",
                     r"written as +größe: numbers such as 1.234,5",
                     r"größe +feature +number +0 +0.5000 to 19.50, mean 10", r"tag +feature +date +0 +2024-02-01 to",
                     r"größe +0,5 +1,5"):
        assert re.search(expected, out), (expected, out)
    assert "features" not in out.partition("Columns")[0] and not page     # the table has them
    (home / "p.csv").write_text("text;label\n" + "".join(f"text {i};{'ab'[i % 2]}\n" for i in range(30)))
    assert "separated by semicolons" in shown(
        home, capsys, f"{{name: text_classification, file: {home / 'p.csv'}, {BERT}}}")[0]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_tables_fit_any_width(width, home, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    for make in (own_table, lambda home: f"{{name: link_prediction, {own_graph(home)}}}"):
        out = shown(home, capsys, make(home))[0]
        lines = out.partition("\n\n")[2].partition("pictures  ")[0].splitlines()          # below the summary
        assert lines and max(map(len, lines)) <= width


# ---- names and errors ----------------------------------------------------------------------------------------------

def test_names_of_columns_and_classes(home, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    rows = [[*(f"{x:.3f}" for x in np.random.default_rng(i).normal(size=20)), NAMES[i % 40]] for i in range(160)]
    for some in (NAMES[:20], NAMES[20:40], NAMES[40:60]):
        write_csv(home / "t.csv", [*some, "the [target]"], rows)
        out, _ = shown(home, capsys, f"{{name: table, file: {home / 't.csv'}, target: {quoted('the [target]')}}}")
        assert all(f"\n{printable(name)}" in out for name in [*some, *NAMES[:40]])


@pytest.mark.filterwarnings("ignore:Glyph .* missing from font")
def test_names_of_nodes_and_features(home, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    (home / "graph").mkdir()
    n = len(NAMES)
    write_csv(home / "graph" / "edges.csv", ["source", "target"], [[NAMES[i], NAMES[i * 7 % n]] for i in range(n)])
    rows = [[name, NAMES[i % 8], *range(len(FILES))] for i, name in enumerate(NAMES)]
    write_csv(home / "graph" / "nodes.csv", ["id", "label", *(f"f {name}" for name in FILES)], rows)
    out, page = shown(home, capsys, f"{{name: node_classification, dataset: folder, folder: {home / 'graph'}}}")
    assert all(f"\n{printable(name)} " in out for name in NAMES[:8])
    seen = texts_of(page)
    assert not [name for name in FILES if printable(f"f {name}", "\n\t").strip() not in seen]


def test_names_of_folders_of_images(home, capsys):
    names = [name for name in FILES if not name.startswith(".")]
    for i, name in enumerate(names):
        (home / "images" / name).mkdir(parents=True)
        pil_image.fromarray(np.full((4, 4), i, np.uint8)).save(home / "images" / name / "0.png")
    _, page = shown(home, capsys, f"{{name: vae, data: {{name: folder, path: {home / 'images'}, image: 4}}}}")
    assert not [name for name in names if printable(name, "\n\t") not in texts_of(page)]
    assert page.count("<img") == len(names)


def test_a_drawing_has_all_classes_and_no_warning():
    ring = sp.csr_matrix(np.roll(np.eye(12), 1, 1) + np.roll(np.eye(12), -1, 1))
    isolated = sp.block_diag([ring, sp.csr_matrix((3, 3))]).tocsr()
    groups = {"_hidden": np.arange(3), "$5_{max$": np.arange(3, 9)}
    many = sp.random(MOST_NODES + 1, MOST_NODES + 1, 0.01, "csr", rng=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = graph_figure(isolated, groups, [f"$n_{{{i}$" for i in range(15)], {"_cut": np.array([[0, 1]])})
        assert len(figure.legends[0].get_texts()) == 4                        # with the edges and the other nodes
        for each in (figure, graph_figure(many + many.T, groups, []), small_graph_figure(isolated, "_a $x"),
                     graph_figure(sp.csr_matrix((2, 2)), {}, ["a", "b"])):
            each.savefig(io.BytesIO(), format="png")


WRONG = {
    "no file": ("table", "{name: table, file: none.csv, target: y}"),
    "no target": ("table", "{name: table, file: t.csv, target: z}"),
    "gaps": ("table", "{name: table, file: t.csv, target: y}"),
    "no graph": ("graph", "{name: node_classification, dataset: folder, folder: none}"),
    "no images": ("images", "{name: images, data: {name: folder, path: none}, model: {name: mlp}}"),
    "no texts": ("text", "{name: language_model, files: [none], model: {name: gpt2}}"),
    "one class": ("passages", "{name: text_classification, file: p.csv, label: text, text: label, " + BERT + "}"),
}


@pytest.mark.parametrize("case", WRONG)
def test_errors_are_those_of_training(case, home, capsys):
    own_table(home)
    write_csv(home / "p.csv", ["text", "label"], [["a", "b"]] * 4)
    where, section = WRONG[case]
    section = re.sub(r"(?<=file: |path: )|(?<=folder: )(?=none)|(?<=files: \[)", f"{home}/", section)
    (home / "data.yaml").write_text(f"{OPTIM}task: {section}\n", "utf-8")
    said = []
    for flags in (["--preview"], []):
        assert train.main(["--config", str(home / "data.yaml"), *flags]) == 1
        said.append(capsys.readouterr().err)
    assert said[0] == said[1] and said[0].startswith(f"{where}: ")


def test_a_preview_shows_one_config(home, capsys):
    with pytest.raises(SystemExit, match="2"):
        train.main(["--preview", "--sweep", "seed=0,1"])
    assert "--sweep: not allowed with argument --preview" in capsys.readouterr().err


TASK = '''
import numpy as np
from recipes.batches import Rows
from recipes.config import TaskConfig
from recipes.task import Data

class Config(TaskConfig):
    """A task without a preview of its own."""

def load(config):
    return Data({"train": Rows(x=np.zeros(3))}, {}, {"rows": "3"})

def make(config, artifacts):
    raise AssertionError("a preview makes no model")
'''


def test_a_task_without_a_preview_of_its_own_shows_its_summary(home, capsys):
    Path(home, "own.py").write_text(TASK)
    assert shown(home, capsys, f"{{name: {home / 'own.py'}}}") == ("rows  3\n", "")
