"""The screen: readable numbers, and the progress of training in terminals of several widths."""

import contextlib
import fcntl
import io
import math
import os
import pty
import re
import struct
import termios
from types import SimpleNamespace

import pytest
from rich.console import Console

from recipes.results.numbers import duration, metric, number, share, spread
from recipes.training.loop import Record, Report
from recipes.training.progress_bar import ProgressBar
from recipes.training.run import _conclude, announce

NUMBERS = [
    (0, "0"), (-0.0, "-0"), (1.0, "1.000"), (0.5, "0.5000"), (9.99996, "10.00"), (0.99996, "1.000"), (123.456, "123.5"),
    (1234.5, "1,234"), (999999.7, "1,000,000"), (1e7, "1e+07"), (0.0001, "0.0001000"), (0.00009, "9e-05"),
    (-0.071849, "-0.07185"), (1234567, "1,234,567"), (math.nan, "nan"), (-math.inf, "-inf"),
]
DURATIONS = [
    (0.0, "0 ms"), (7.85e-7, "0.000785 ms"), (0.0416, "41.6 ms"), (0.9994, "999 ms"), (0.9996, "1 s"),
    (59.94, "59.9 s"), (59.96, "1 min 00 s"), (119.6, "2 min 00 s"), (3599.4, "59 min 59 s"), (3599.6, "1 h 00 min"),
    (1e7, "2,777 h 46 min"),
]
SPREADS = [
    (("loss", [0.5]), "0.5000"), (("loss", [0.5, 0.5]), "0.5000 ± 0"), (("f1", [0.9, 0.92, 0.97]), "93.0 ± 3.6 %"),
    (("loss", [1200.0, 1500.0]), "1,350 ± 212"), (("loss", [math.nan, 1.0]), "nan"),
    (("loss", [1e-9, 3e-9]), "2e-09 ± 1.414e-09"),
    (("loss", [0.1, 0.1000001]), "0.1000 ± 7.071e-08"),
]


@pytest.mark.parametrize(("value", "text"), NUMBERS)
def test_numbers(value, text):
    assert number(value) == text


@pytest.mark.parametrize(("seconds", "text"), DURATIONS)
def test_durations(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(("args", "text"), SPREADS)
def test_means_and_deviations(args, text):
    assert spread(*args) == text


def test_shares_are_in_percent():
    assert (metric("val/accuracy", 0.96875), metric("f1", 1.0), metric("loss", 2.0)) == ("96.88 %", "100.00 %", "2.000")
    assert share(math.nan) == "nan"


VALUES = {"train/accuracy": 0.9612, "train/loss": 0.1715, "train/lr": 0.01, "val/loss": 0.2011, "val/accuracy": 0.9375,
          "val/balanced_accuracy": 0.9312, "val/f1": 0.9288, "val/brier_score": 0.0612}


def report(step, values, final=False):
    return Report(step, [Record(step, values)], lambda: None, final, 0.0413)


def shown(width, total=20_000):
    """The screen of this width after two steps and one evaluation: (lines above the bar, the last two)."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    with os.fdopen(slave, "w") as out:
        console = Console(file=out, soft_wrap=True, force_terminal=True, width=os.get_terminal_size(slave).columns)
        train = {name: value for name, value in VALUES.items() if name.startswith("train/")}
        with ProgressBar(console, total, 0, 1000, "accuracy") as bar:
            bar(report(1000, VALUES))
            bar(report(1200, train))
    data = b""
    with contextlib.suppress(OSError):                            # on Linux it means that the other end is closed
        while block := os.read(master, 1 << 16):
            data += block
    os.close(master)
    return screen(data.decode())


def screen(text):
    """The lines of a terminal after this text: line feeds, carriage returns, cursor up and erased lines."""
    lines, row, column = [""], 0, 0
    for code, plain in re.findall(r"(\x1b\[[0-9;?]*[A-Za-z]|[\r\n])|([^\x1b\r\n]+)", text):
        if plain:
            lines[row] = lines[row][:column].ljust(column) + plain + lines[row][column + len(plain):]
            column += len(plain)
        elif code == "\n":
            row += 1
            lines += [""] * (row == len(lines))
        elif code == "\r":
            column = 0
        elif code.endswith("A"):
            row -= int(code[2:-1] or 1)
        elif code.endswith("K"):
            lines[row] = ""
    return [line.rstrip() for line in lines if line.strip()]


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_a_terminal_shows_bar_and_main_numbers(width):
    *above, bar, metrics = shown(width)
    assert max(map(len, (*above, bar, metrics))) <= width
    assert "1,200/20,000" in bar and "━" * 8 in bar and "41.3 ms/step" in bar
    assert metrics == "train accuracy 96.12 %   train loss 0.1715"
    evaluation, = above
    assert evaluation.startswith("step  1,000   ") and "train loss 0.1715" in evaluation
    assert "val accuracy 93.75 %" in evaluation and ("val brier score 0.06120" in evaluation) == (width == 200)
    assert "lr" not in evaluation


def test_a_run_ends_with_a_line_for_the_last_and_one_for_the_best_parameters():
    out, task = io.StringIO(), SimpleNamespace(score="accuracy", reported=("accuracy", "f1"))
    result = {name: {"step": step, "test": {"accuracy": 0.8286, "f1": 0.7412, "loss": 0.5}}
              for name, step in (("last", 1200), ("best", 60))}
    _conclude(Console(file=out, soft_wrap=True), task, result)
    assert out.getvalue().splitlines() == ["test accuracy 82.86 %, F1 74.12 % (last step, 1,200)",
                                           "test accuracy 82.86 %, F1 74.12 % (best on validation, step 60)"]


@pytest.mark.parametrize("terminal", [True, False])
def test_facts_stay_in_their_column_on_a_terminal(terminal):
    out = io.StringIO()
    names = [f"column_{i}" for i in range(20)]
    announce(Console(file=out, soft_wrap=True, force_terminal=terminal, color_system=None, width=60),
             {"rows": "800", "features": f"numbers: {', '.join(names)}\ndates: when", "file": "/x" * 40})
    lines = out.getvalue().splitlines()
    assert len(lines) == (8 if terminal else 4) and lines[0] == "rows      800"
    assert all(line.startswith(("rows", "features", "file", " " * 10)) for line in lines)
    assert lines[-1] == f"file      {'/x' * 40}"
    assert max(map(len, lines[:-1])) <= 60 or not terminal


def test_the_time_that_remains():
    bar = shown(80)[-2]
    assert re.search(r"\d (ms|s|min|h) left", bar) or " s left" in bar


def test_without_a_terminal_lines_are_printed_when_due():
    out = io.StringIO()
    with ProgressBar(Console(file=out, soft_wrap=True), total=4000, start=0, every=1000, score="accuracy") as bar:
        for step in (1000, 1500, 2000):
            bar(report(step, {"train/loss": 1 / step}))
        bar(report(4000, VALUES, final=True))
    lines = out.getvalue().splitlines()
    assert lines[0] == "step 1,000   train loss 0.001000   41.3 ms/step"
    assert lines[1] == "step 2,000   train loss 0.0005000   41.3 ms/step"
    assert len(lines) == 3 and "val brier score 0.06120" in lines[2]
