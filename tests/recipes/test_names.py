"""Names are names: odd ones through every command, picture and report; of columns, classes, nodes, files, folders."""

from __future__ import annotations

import csv
import html.parser
import io
import json
import os
import warnings

import numpy as np
import pytest
from rich.console import Console

from recipes import compare, evaluate, export, generate, new_edges, predict, report, train
from recipes.lazy import parquet, pil_image
from recipes.names import alike, composed, in_html, in_utf8, on_plot, on_terminal, plain_path, printable
from recipes.results import image_plots, plots
from recipes.sweep import folder_name
from recipes.training.loop import Record
from tests.sampling import one_in

# Names that a cell, a folder and a config may have.
NAMES = [
    "sales[1]", "[v2]", "[bold]y", "[/bold]", "[/100km]", "speed [m-s]", "[", "]", "[]", "\\[x]", "x\\",
    "back\\slash", "$5_{max$", "$50k-$100k", "$", "$$", "\\$5", "$x^2$", "\\frac{1}{2}", "$\\alpha$",
    "50 %", "%s", "{x}", "{", "{0}", "f{x!r}", "star*", "quest?ion", "t?.csv", "a::b", "s3:", "gs:x", "a:b",
    "a: b", ":smile:", "#1", "a #b", "a=b", "a,b", "a;b", "a|b", "a&b", "&amp;", "<b>x", "</pre>",
    "<script>alert(1)<", "it's", "say \"x\"", "'q'", "`id`", "~", "!x", "*x", "&x", "@home", "-dash",
    "--help", "_hidden", ".dot", "^caret", "(x)", "p%20c", "new\nline", "tab\tx", "\x1b[31mred", "bell\x07",
    "\u202ertl", "zero\u200bwidth", "Größe", "日本語", "🚗", "👩\u200d🔬", "e\u0301", "nbsp\xa0x", "true", "yes",
    "null", "007", "1.0", "1:30", "long " * 30 + "x"]


FILES = [name.replace("/", "-") for name in NAMES if len(name) < 100]


def test_there_are_sixty():
    assert len(set(NAMES)) >= 60


# ---- the functions -------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_name_on_each_place(name):
    shown = printable(name)
    assert shown.isprintable() or set(shown) & {"\u200d", "\xa0"}
    out = io.StringIO()
    Console(file=out, force_terminal=True, soft_wrap=True, color_system=None, width=300).print(on_terminal(name))
    assert out.getvalue() == f"{shown}\n"

    figure = plots.mpl_figure.Figure()
    text = figure.text(0, 0, on_plot(name, 1000))
    assert text._preprocess_math(text.get_text()) == (shown, False)
    assert len(on_plot(name).replace("\\$", "$")) <= 40

    page = Page()
    page.feed(f'<p title="{in_html(name)}">{in_html(name)}</p>')
    assert page.seen == [printable(name, "\n\t")] * 2


class Page(html.parser.HTMLParser):
    """The texts of an HTML page, and the values of its attributes."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def handle_starttag(self, tag, attrs):
        self.seen += [value for _, value in attrs]

    def handle_data(self, data):
        self.seen.append(data)


@pytest.mark.parametrize("name", [*FILES, "\udcff"], ids=ascii)
def test_a_plain_path_is_the_same_file(tmp_path, name):
    file = tmp_path / f"{name}.csv"
    file.write_text("x")
    with plain_path(file) as plain:
        assert plain.read_text() == "x" and plain.suffix == ".csv"
        assert plain == file or not set(str(plain)) & set("[]*?{}\\:\n")
    assert file.read_text() == "x" and os.listdir(tmp_path) == [file.name]


def test_bytes_of_a_file_name_in_a_file_of_utf8():
    assert in_utf8("a\udcffb") == "a\\udcffb" and in_utf8("Größe 🚗") == "Größe 🚗"


# ---- pictures ------------------------------------------------------------------------------------------------------

def drawn(figure):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "Glyph .* missing from font")           # fonts of this machine
        figure.savefig(io.BytesIO(), format="png")


def test_names_on_pictures():
    records = [Record(step, {"val/loss": 1.0 / step, "train/loss": 0.5}) for step in (1, 2)]
    for k in range(0, len(NAMES), 20):
        some = NAMES[k:k + 20]
        drawn(plots.confusion_figure(np.eye(len(some)), some))
        figure = plots.comparison_figure(dict.fromkeys(some, records), ["val/loss"])
        assert len(figure.legends[0].get_texts()) == len(some)          # also names that begin with _
        drawn(figure)
    drawn(plots.scores_figure(dict.fromkeys(NAMES[:3], np.linspace(0, 1, 5))))


@pytest.mark.parametrize("name", one_in(20, NAMES), ids=ascii)
def test_a_name_as_a_title(name):
    records = [Record(step, {"val/loss": 1.0 / step}) for step in (1, 2)]
    drawn(plots.curve_figure(records, "loss", {"loss": 0.5}, f"{name}, seed 0"))
    for figure in plots.residual_figures(np.arange(3.0), np.arange(3.0), name):
        drawn(figure)
    drawn(image_plots.image_grid(np.zeros((2, 4, 4, 1)), [on_plot(name, 16)] * 2, rows=[name]))


# ---- all commands --------------------------------------------------------------------------------------------------

SMALL = ["optim.schedule.warmup_steps=0", "task.hidden=[4]", "steps=3", "devices=1", "eval_every=3"]


def call(command, *args):
    assert command.main([*map(str, args)]) == 0, args


def quoted(text):
    return "'" + str(text).replace("'", "''") + "'"


def write_csv(file, header, rows):
    with file.open("w", newline="", encoding="utf-8") as out:
        csv.writer(out).writerows([header, *rows])


def after_training(run, input_file, folder):
    """Every command that reads a run; the columns of the predictions."""
    call(evaluate, run)
    call(report, run)
    call(export, run, folder / "exported")
    for ending in ("csv", "jsonl", "parquet"):
        call(predict, run, "--input", input_file, "--output", folder / f"p.{ending}")
    call(predict, folder / "exported", "--input", input_file, "--output", folder / "q.csv")
    call(compare, run, run, "--plot", folder / "c.png")
    assert (folder / "p.csv").read_text("utf-8") == (folder / "q.csv").read_text("utf-8")
    with (folder / "p.csv").open(newline="", encoding="utf-8") as lines:
        columns = next(csv.reader(lines))
    assert list(json.loads((folder / "p.jsonl").read_text("utf-8").split("\n")[0])) == columns
    with (folder / "p.parquet").open("rb") as content:
        assert parquet.read_table(content).column_names == columns
    return columns


def test_names_of_columns_and_classes(tmp_path, capsys):
    rng, classes = np.random.default_rng(0), NAMES[1::4]
    rows = [[*(f"{x:.3f}" for x in rng.normal(size=len(NAMES))), classes[i % len(classes)]] for i in range(240)]
    target = "the [target] $x_{1$ :car: <b>"
    write_csv(tmp_path / "t.csv", [*NAMES, target], rows)
    write_csv(tmp_path / "new.csv", NAMES, [row[:-1] for row in rows[:5]])
    call(train, "--config", "mlp_table.yaml", f"task.file={tmp_path / 't.csv'}", f"task.target={quoted(target)}",
         f"run_dir={tmp_path / 'run'}", *SMALL)
    message = capsys.readouterr().out
    assert all(printable(name, "\n") in message.replace("\n" + " " * 10, "\n") or "\n" in name for name in NAMES)
    assert "\x1b[31mred" not in message and target in message
    columns = after_training(tmp_path / "run", tmp_path / "new.csv", tmp_path)
    assert columns[1:] == ["label", *(f"probability of {name}" for name in sorted(classes))]
    page = Page()
    page.feed((tmp_path / "run" / "report.html").read_text("utf-8"))
    assert "script" not in {seen.strip() for seen in page.seen}


@pytest.mark.parametrize("name", one_in(100, ["sales[1] $x", *FILES, "\udcff"]), ids=ascii)
def test_a_name_of_files_and_folders(tmp_path, monkeypatch, name):
    """A folder, a table and a run of this name, and everything below them; the target has the name too."""
    monkeypatch.chdir(tmp_path)
    home = tmp_path / name
    home.mkdir()
    target, x = in_utf8(name), np.random.default_rng(0).normal(size=60)
    write_csv(home / f"{name}.csv", ["a", target], [[f"{v:.3f}", f"{2 * v:.3f}"] for v in x])
    write_csv(home / "new.csv", ["a"], [["1"], ["2"]])
    call(train, "--config", "mlp_table.yaml", "task.file=" + quoted(home / f"{name}.csv"),
         f"task.target={quoted(target)}", "task.kind=regression", "run_dir=" + quoted(home / "runs" / name), *SMALL)
    assert after_training(home / "runs" / name, home / "new.csv", home) == ["row", target]
    call(train, "--resume", home / "runs" / name, "--extend", "4")
    assert sorted(os.listdir(tmp_path)) == [name]


@pytest.mark.slow
def test_names_of_images(tmp_path, capsys):
    """Folders of classes, and files in them; one file name is not UTF-8."""
    folders = FILES[:12]
    rng = np.random.default_rng(0)
    for k, name in enumerate(folders):
        (tmp_path / "data" / name).mkdir(parents=True)
        for other in [*FILES[12 + 6 * k % 30:][:6], "\udcff"]:
            picture = pil_image.fromarray(rng.integers(0, 255, (8, 8, 3), np.uint8))
            picture.save(tmp_path / "data" / name / f"{other}.png")
    call(train, "--config", "lenet_digits.yaml",
         f"task.data={{name: folder, path: {tmp_path / 'data'}, image: 12}}", "steps=2", "devices=1",
         f"run_dir={tmp_path / 'run'}", "optim.schedule=constant", "task.batch_size=16")
    columns = after_training(tmp_path / "run", tmp_path / "data" / folders[0], tmp_path)
    assert {f"probability of {name}" for name in folders} <= set(columns)
    assert "\\udcff.png" in (tmp_path / "p.csv").read_text("utf-8")


def test_names_of_nodes(tmp_path, capsys):
    ids = [name.strip() for name in NAMES]
    graph = tmp_path / "graph"
    graph.mkdir()
    rng = np.random.default_rng(0)
    write_csv(graph / "nodes.csv", ["id", "f [m]", "$g$"], [[name, f"{x:.3f}", f"{y:.3f}"] for name, (x, y) in
                                                            zip(ids, rng.normal(size=(len(ids), 2)), strict=True)])
    write_csv(graph / "edges.csv", ["source", "target"], [[ids[i], ids[(i + k) % len(ids)]] for i in range(len(ids))
                                                          for k in (1, 5)])
    call(train, "--config", "gae_cora.yaml", "task.dataset=folder", f"task.folder={graph}", "steps=2", "devices=1",
         f"run_dir={tmp_path / 'run'}")
    capsys.readouterr()
    for name in ids[::9]:
        call(new_edges, tmp_path / "run", f"--node={name}", "--top", "3")
        rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
        assert {row[0] for row in rows[1:]} == {name} and {row[1] for row in rows[1:]} <= {*ids}


def test_a_prompt_that_is_not_utf8(capsys):
    assert generate.main(["run", "--prompt", "caf\udce9"]) == 1
    message = capsys.readouterr().err
    assert "generate: the prompt is not UTF-8 text." in message and "'caf\\udce9'" in message and "fix: " in message


@pytest.mark.parametrize("choice, name", [
    (("task.hidden=[4]",), "task.hidden=[4]"), (("a=1", "seed=0"), "a=1_seed=0"),
    (("task.file=/data/a.csv",), "task.file=-data-a.csv-"), (("task.target=" + "x" * 300,), "task.target=xxx")])
def test_the_folder_of_a_choice_of_a_sweep(choice, name):
    folder = folder_name(choice)
    assert folder.startswith(name) and "/" not in folder and len(os.fsencode(folder)) <= 200
    assert folder != folder_name((choice[0] + "y", *choice[1:]))


@pytest.mark.parametrize(("names", "groups"), [
    (["No", "Yes", "yes"], ["'Yes', 'yes'"]), (["New  York", "New York"], ["'New  York', 'New York'"]),
    (["a", "a\u200b"], ["'a', 'a\\u200b'"]), (["caf\xe9", "cafe\u0301", "bar"], ["'caf\\xe9', 'cafe\\u0301'"]),
    (["x\xa0y", "x y", "xy"], ["'x\\xa0y', 'x y', 'xy'"]), (["\uff21", "a", "B", "b"], ["'\uff21', 'a'", "'B', 'b'"]),
    (["STRASSE", "stra\xdfe"], ["'STRASSE', 'stra\xdfe'"]), (["-1", "1", "01", "1.0", "a-b", "ab"], []), ([], [])])
def test_names_that_are_alike(names, groups):
    assert alike(names) == groups


@pytest.mark.parametrize(("one", "other"), [("caf\xe9", "cafe\u0301"), ("\ud55c", "\u1112\u1161\u11ab"), ("a", "a")])
def test_two_codings_of_a_name(one, other):
    assert composed(one) == composed(other) == one
