"""Command line: ``python -m recipes.report RUN``: one self-contained HTML page of a run, RUN/report.html."""

from __future__ import annotations

import argparse
import base64
import io
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from recipes.errors import RecipeError, exit_code_of
from recipes.lazy import mpl_figure
from recipes.names import in_html, printable
from recipes.process.memory import Peak, peaks_in_words
from recipes.results.folder import read_json
from recipes.results.numbers import duration, metric, number
from recipes.results.plots import curve_figure
from recipes.trained import Trained, open_run
from recipes.training.hooks import read_metrics

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
img { max-width: 100%; height: auto; } .wide { overflow-x: auto; } .curves img { min-width: 40rem; }
table { border-collapse: collapse; }
td, th { padding: .2rem 1.2rem .2rem 0; text-align: left; vertical-align: top; white-space: nowrap; }
th { border-bottom: 1px solid #ccc; font-weight: 600; } td.number { font-variant-numeric: tabular-nums; }
pre { background: #f6f6f6; padding: .8rem; overflow-x: auto; white-space: pre-wrap; overflow-wrap: anywhere; }
@media (max-width: 40rem) { td, th { padding-right: .8rem; } td { white-space: normal; } }
"""
PIXELS = 100                                                  # for each inch of a figure, on a page that is wide enough


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the report.  Returns: 0, or 1 if the run or its data cannot be read."""
    parser = argparse.ArgumentParser(prog="recipes.report", description="Writes RUN/report.html.",
                                     epilog="example: python -m recipes.report gcn")
    parser.add_argument("run", help="a run folder, or a name in ./runs")
    args = parser.parse_args(argv)
    return exit_code_of(lambda: print(printable(write_report(open_run(args.run)))))


def write_report(trained: Trained) -> Path:
    """Writes ``report.html`` into the run folder; returns its path."""
    folder = trained.folder
    parts = [_heading(trained), _results(trained), _curves(trained), _drawings(trained),
             _timing(folder), _pairs("Environment", read_json(folder / "environment.json")),
             f"<h2>Config</h2><pre>{in_html(trained.config.to_yaml())}</pre>"]
    title = in_html(f"{folder.name}: {trained.config.task.name}")
    page = (f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head>'
            f'<body>{"".join(parts)}</body></html>\n')
    file = folder / "report.html"
    file.write_text(page, "utf-8")
    return file


def _heading(trained: Trained) -> str:
    name = in_html(trained.folder.name)
    return (f"<h1>{name}</h1><p>Task {in_html(trained.config.task.name)}, seed {trained.config.seed}, "
            f"{trained.config.steps} steps. Pictures and samples are of the {trained.kind} parameters, of step "
            f"{trained.step}.</p>")


def _results(trained: Trained) -> str:
    """The metrics of the last and the best parameters; the score of the task is the first column."""
    result, score = read_json(trained.folder / "result.json"), trained.task.score
    rows = [(kind, entry["step"], split, entry[split])
            for kind, entry in result.items() for split in ("val", "test") if entry.get(split)]
    names = sorted({name for *_, metrics in rows for name in metrics}, key=lambda name: (name != score, name))
    headings = ("parameters", "step", "split", *(name.replace("_", " ") for name in names))
    head = "".join(f"<th>{in_html(heading)}</th>" for heading in headings)
    body = "".join(
        f"<tr><td>{kind}</td><td>{step}</td><td>{split}</td>"
        + "".join(f'<td class="number">{metric(name, metrics[name])}</td>' for name in names) + "</tr>"
        for kind, step, split, metrics in rows)
    table = f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'
    none = "They are in the folder of the run." if trained.exported else "The run is not finished."
    return f"<h2>Results</h2>{table if rows else f'<p>{none}</p>'}"


def _curves(trained: Trained) -> str:
    records = read_metrics(trained.folder / "metrics.jsonl")
    if not records:
        return ""
    result = read_json(trained.folder / "result.json")
    figure = curve_figure(records, trained.task.score, result.get("last", {}).get("test", {}), "")
    return f'<h2>Curves</h2><div class="wide curves">{_image(figure, "learning curves")}</div>'


def _drawings(trained: Trained) -> str:
    """The figures and texts of the task; without its data, the error instead, and the rest of the page."""
    try:
        drawn = trained.task.draw(trained)
    except RecipeError as err:
        return f"<h2>Data</h2><p>Not drawn:</p><pre>{in_html(str(err))}</pre>"
    return "".join(f"<h2>{in_html(title)}</h2>" + (f"<pre>{in_html(what)}</pre>" if isinstance(what, str)
                                                     else _image(what, title)) for title, what in drawn.items())


def _timing(folder: Path) -> str:
    file = folder / "timing.jsonl"
    try:
        lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        times = [float(line["seconds_per_step"]) for line in lines]
        speeds = [float(line["examples_per_second"]) for line in lines if "examples_per_second" in line]
        used = [(str(where), int(size)) for line in lines for where, size in line.get("peak_bytes", {}).items()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        times, speeds, used = [], [], []
    if not times:
        return ""
    speed = {"examples": f"{number(statistics.median(speeds))} per second"} if speeds else {}
    most = [Peak(where, max(size for other, size in used if other == where)) for where in dict(used)]
    memory = {"peak memory": peaks_in_words(most)} if most else {}
    return _pairs("Timing and memory", {
        "median step": duration(statistics.median(times)), **speed,
        "slowest report": f"{duration(max(times))} per step", "reports": len(times), **memory})


def _pairs(title: str, values: dict[str, Any]) -> str:
    rows = "".join(f"<tr><td>{in_html(str(key))}</td><td>{in_html(str(value))}</td></tr>"
                   for key, value in values.items())
    return f'<h2>{title}</h2><div class="wide"><table>{rows}</table></div>' if rows else ""


def _image(figure: mpl_figure.Figure, title: str) -> str:
    out = io.BytesIO()
    figure.savefig(out, format="png")
    data = base64.b64encode(out.getvalue()).decode()
    width = round(PIXELS * figure.get_size_inches()[0])       # the same text size in all figures
    return f'<img alt="{in_html(title)}" width="{width}" src="data:image/png;base64,{data}">'


if __name__ == "__main__":
    sys.exit(main())
