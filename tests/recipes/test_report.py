"""The page of a run: its sections, and the messages in place of missing ones."""

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import xnn
from recipes import export, predict, report
from recipes.lazy import mpl_figure
from recipes.pages.figures import figures
from recipes.pages.frame import facts, page, table
from recipes.results import plots
from recipes.results.layers import HEADINGS, LONGEST, layer_rows
from recipes.settings.config_file import load_config
from recipes.training.hooks import read_timing
from recipes.training.run import run

WRITTEN = Path(__file__).with_name("run_of_c8961d4")


class Page(HTMLParser):
    """Attributes: titles: of the sections; texts: all that is read; tags: with their attributes."""

    def __init__(self, text):
        super().__init__()
        self.titles, self.texts, self.tags, self._open = [], [], [], []
        self.feed(text)
        assert not self._open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag != "meta":
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if "style" not in self._open:
            self.texts.append(data)
        if self._open[-1:] == ["h2"]:
            self.titles.append(data)

    @property
    def text(self):
        return "\n".join(self.texts).replace("\xa0", " ")


def written(folder):
    """The page of a run, which loads nothing from elsewhere."""
    assert report.main([str(folder)]) == 0
    text = (Path(folder) / "report.html").read_text("utf-8")
    made = Page(text)
    loaded = [value for _, attrs in made.tags for name, value in attrs.items() if name in ("src", "href", "xlink:href")]
    assert all(value.startswith(("data:", "#")) for value in loaded) and "http" not in text
    return made


@pytest.fixture(scope="module")
def home(rings, tmp_path_factory):
    """Finished runs, "rings" with classes and "prices" with a number, next to their data."""
    home, rng = tmp_path_factory.mktemp("report"), np.random.default_rng(0)
    shutil.copy(rings, home / "rings.csv")
    size = rng.normal(size=200)
    rows = zip(size, 1000 + 50 * size + 5 * rng.normal(size=200), strict=True)
    (home / "prices.csv").write_text("size,note,price\n" + "".join(f"{a:.4f},x,{b:.2f}\n" for a, b in rows))
    for name, more in (("rings", ["task.target=ring", "task.metrics=[f1]"]),
                       ("prices", ["task.target=price", "task.kind=regression"])):
        config = load_config("mlp_table", [f"task.file={home / name}.csv", "steps=40", "eval_every=10", "devices=1",
                                           "optim.schedule=constant", f"run_dir={home / name}", *more])
        with pytest.MonkeyPatch.context() as patch:           # a curve takes longer than the training
            patch.setattr("recipes.training.run.learning_curve", lambda *_: None)
            run(config, name)
    return home


@pytest.fixture
def copied(home, tmp_path):
    """Copies a run; its data then seem to be gone."""
    def copy(name):
        folder = shutil.copytree(home / name, tmp_path / name)
        (folder / "config.yaml").write_text((folder / "config.yaml").read_text().replace(f"{name}.csv", "gone.csv"))
        return folder

    return copy


def test_the_report_of_a_classification(home):
    made, result = written(home / "rings"), json.loads((home / "rings/result.json").read_text())
    assert made.titles == ["Data", "Results", "Classes, test", "Confusion, test", "Calibration, test", "Curves",
                           "Model", "Timing and memory", "Environment", "Config"]
    assert f"{100 * result['best']['test']['accuracy']:.2f} %" in made.texts[2:5]          # in large type, at the top
    assert any(text.startswith("accuracy on the test split") for text in made.texts)
    for words in ("inner", "precision", "F1", "numbers: x, y", "note: the same text in all 300 rows",
                  "time of training", "train 210, val 45, test 45", "b f32[64], w f32[2,64]"):
        assert words in made.text, words
    shown = made.texts[made.texts.index("Classes, test"):made.texts.index("Confusion, test")]
    assert sum(int(text) for text in shown if text.isdecimal()) == 45                      # examples of both classes


def test_the_report_of_a_regression(home):
    made, result = written(home / "prices"), json.loads((home / "prices/result.json").read_text())
    assert "Predictions, test" in made.titles and {"RMSE", "MAE", "R²"} <= set(made.texts)
    assert f"{result['best']['test']['rmse']:.4g}" in made.texts[2:5]
    assert [name for tag, attrs in made.tags if (name := attrs.get("aria-label"))].count("Predictions, test") == 2


def test_files_have_decimals_that_people_can_read(home, tmp_path):
    for name, columns in (("rings", 2), ("prices", 1)):
        predict.main([str(home / name), "--input", str(home / f"{name}.csv"), "--output", str(tmp_path / "out.csv")])
        rows = [line.split(",")[-columns:] for line in (tmp_path / "out.csv").read_text().splitlines()[1:]]
        assert all(re.fullmatch(r"-?\d+\.\d+", cell) and len(cell.strip("-0.")) <= 11 for row in rows for cell in row)
    for file in ("rings/metrics.jsonl", "rings/result.json"):
        values = re.findall(r"\d+\.\d+", (home / file).read_text())
        assert len(values) > 10 and all(len(value.strip("0.")) <= 10 for value in values)


def test_a_run_whose_data_are_gone(copied):
    made = written(copied("rings"))
    assert "numbers: x, y" in made.text                                                    # kept with the run
    assert "Predictions" in made.titles and "the data file is missing" in made.text
    assert "Confusion, test" not in made.titles and "Model" in made.titles


def test_a_run_that_is_not_finished(copied):
    folder = copied("rings")
    (folder / "result.json").unlink()
    lines = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_text("".join(lines[:25]))
    made = written(folder)
    assert "The run is not finished" in made.text and "accuracy on the validation split, step 20 of 40" in made.text
    shutil.rmtree(folder / "checkpoints")
    (folder / "metrics.jsonl").unlink()
    made = written(folder)
    assert "no step is logged yet" in made.text and "it has no checkpoint yet" in made.text
    assert made.titles == ["Data", "Timing and memory", "Environment", "Config"]


def test_damaged_files_cost_their_section_only(copied):
    folder = copied("prices")
    (folder / "result.json").write_text("{")
    (folder / "metrics.jsonl").write_text("x\n" * 3)
    (folder / "timing.jsonl").write_text('{"step": 1}\nx\n')
    made = written(folder)
    assert "a file of the run is damaged" in made.text and "the metrics of the run are damaged" in made.text
    assert "Model" in made.titles and "Timing and memory" not in made.titles


def test_an_exported_folder(home, tmp_path):
    assert export.main([str(home / "rings"), str(tmp_path / "exported")]) == 0
    made = written(tmp_path / "exported")
    assert "results and curves are in the folder of its run" in made.text
    assert {"Data", "Confusion, test", "Model", "Config"} <= set(made.titles)


def test_a_run_of_an_earlier_version(tmp_path):
    made = written(shutil.copytree(WRITTEN, tmp_path / "run"))
    assert {"Data", "Results", "Confusion, test", "Curves", "Model", "Timing and memory"} <= set(made.titles)
    assert "accuracy on the test split" in made.text and "time of training" in made.text


def test_the_time_of_runs_without_seconds_is_that_of_their_steps(tmp_path):
    file = tmp_path / "timing.jsonl"
    file.write_text('{"step": 10, "seconds_per_step": 0.5}\n{"step": 30, "seconds_per_step": 0.1, "seconds": 2.5}\n{"s')
    assert [each.seconds for each in read_timing(file)] == [5.0, 2.5]


@pytest.mark.parametrize(("largest", "label"), [(1.5e6, "1,200,000"), (5, "4.5"), (3e9, "2.4")])
def test_axes_have_separated_thousands_where_numbers_are_large(largest, label):
    values = np.linspace(0, largest, 7)
    figures = plots.residual_figures(values, values, "price")
    figures[0].canvas.draw()
    labels = [each.get_text() for each in figures[0].axes[0].get_xticklabels()]
    assert any(text.startswith(label) for text in labels), labels


def test_long_rows_of_layers_are_cut():
    attention = xnn.MultiHeadAttention(4, 2, causal=True, dropout=0.25)
    rows = layer_rows(xnn.serial(xnn.serial(attention)), [(1, 5, 4)])
    assert max(len(name) for name, *_ in rows) <= LONGEST
    assert any(name.endswith("…") for name, *_ in rows) and [len(row) for row in rows] == [len(HEADINGS)] * len(rows)


def test_figures_have_the_colours_of_the_page():
    figure = mpl_figure.Figure(figsize=(4, 3))
    axis = figure.subplots()
    axis.plot(range(10), color="#4477aa", label="few")
    axis.plot(range(3000), range(3000), "o")
    axis.scatter(range(3000), range(3000))
    axis.legend()
    text = figures([figure], 'a "title" <b>')
    assert "var(--blue)" in text and "currentColor" in text and "#000000" not in text and "#ffffff" not in text
    assert text.count("<use") < 100 and text.count("<image") >= 1                          # points are one image
    assert "&lt;b&gt;" in text and "<metadata" not in text


def test_parts_escape_what_they_show():
    parts = [table(["<a>"], [["<script>"]]), facts({"<b>": '"&\x1b'})]
    text = page("<title>", parts)
    assert "<script>" not in text and "<title><title>" not in text and "\x1b" not in text
    assert "&lt;script&gt;" in text and "&quot;&amp;\\x1b" in text
