"""Hooks: stop on NaN, the metrics file, the bar; and the plot made from the records."""

import json

import matplotlib.image
import numpy as np
import pytest

from recipes.errors import DivergedError, RecipeError
from recipes.results.checkpoint import Checkpoints, Saver
from recipes.results.plots import learning_curve
from recipes.training.hooks import MetricsLog, StopOnNaN, read_metrics
from recipes.training.loop import Record, Report
from tests.sampling import each_once


def report(*values, final=False, params=()):
    """A report of steps 1, 2, ... with these train losses."""
    records = [Record(i, {"train/loss": value}) for i, value in enumerate(values, start=1)]
    return Report(len(values), records, fetch_params=lambda: params, final=final, seconds=0.5)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_nan_stops_with_the_first_bad_step_metric_and_parameter(tmp_path, bad):
    stop = StopOnNaN(Saver(Checkpoints(tmp_path), {}))
    with pytest.raises(DivergedError) as caught:
        stop(report(1.0, bad, 2.0, bad, params={"w": np.zeros(2), "b": np.array([1, bad])}))
    assert str(caught.value) == (
        f"training: train/loss is {bad} at step 2.\n"
        "  bad parameter          params['b']\n"
        "  last valid checkpoint  none was saved\n"
        "  fix: a smaller optim.lr, optim.schedule.warmup_steps, or optim.clip_norm=1.0.")
    stop(report(1.0, 2.0))


def test_what_was_logged_reads_back_and_is_json(tmp_path):
    MetricsLog(tmp_path / "metrics.jsonl", start=0)(report(0.5, float("nan"), float("inf"), -float("inf")))
    text = (tmp_path / "metrics.jsonl").read_text()
    json.loads(text.splitlines()[1], parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    values = [record.values["train/loss"] for record in read_metrics(tmp_path / "metrics.jsonl")]
    np.testing.assert_array_equal(values, [0.5, np.nan, np.inf, -np.inf])


@pytest.mark.parametrize("line", ["{}", "[]", "3", '{"step": "x"}', '{"step": 1, "a": []}', "\xff", '{"step": 2'])
def test_a_damaged_line_is_named(tmp_path, line):
    file = tmp_path / "metrics.jsonl"
    file.write_text('{"step": 1}\n' + line + "\n" + '{"step": 3}\n')
    with pytest.raises(RecipeError, match=r"(?s)the metrics of the run are damaged.*line 2.*fix: delete this line"):
        read_metrics(file)


@pytest.mark.parametrize("batch_size, more", [(None, {}), (10, {"examples_per_second": 40.0})])
def test_speed_is_one_json_line_a_report(tmp_path, batch_size, more):
    log = MetricsLog(tmp_path / "metrics.jsonl", start=0, batch_size=batch_size)
    log(report(0.5, 0.25))
    assert json.loads((tmp_path / "timing.jsonl").read_text()) == {
        "step": 2, "seconds": 0.5, "seconds_per_step": 0.25, **more}


def test_metrics_are_one_json_line_a_step(tmp_path):
    log = MetricsLog(tmp_path / "metrics.jsonl", start=0)
    log(report(0.5, 0.25))
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"step": 1, "train/loss": 0.5},
        {"step": 2, "train/loss": 0.25},
    ]
    assert log.records == read_metrics(tmp_path / "metrics.jsonl")


@pytest.mark.parametrize("tail", ["", '{"step": 4, "train/lo'])  # truncated by a crash
def test_a_resumed_run_drops_the_steps_it_does_again(tmp_path, tail):
    file = tmp_path / "metrics.jsonl"
    MetricsLog(file, start=0)(report(0.5, 0.25, 0.125))
    with file.open("a") as out:
        out.write(tail)
    log = MetricsLog(file, start=2)
    assert [r.step for r in read_metrics(file)] == [r.step for r in log.records] == [1, 2]


def test_a_new_run_starts_with_an_empty_file(tmp_path):
    file = tmp_path / "metrics.jsonl"
    MetricsLog(file, start=0)(report(0.5))
    assert MetricsLog(file, start=0).records == read_metrics(file) == []


def _curve_image(tmp_path, n_steps, score="accuracy", test=None):
    records = [
        Record(i, {"train/loss": 1 / i, f"train/{score}": 1 - 1 / i, "val/loss": 2 / i})
        for i in range(1, n_steps + 1)
    ]
    test = {"loss": 0.3, score: 0.9} if test is None else test
    file = tmp_path / "curve.png"
    learning_curve(records, score, test, "title", file)
    return matplotlib.image.imread(file)


@pytest.mark.parametrize(("n_steps", "score"), each_once([1, 20, 1000], ["accuracy", "squared_error"]))
def test_learning_curve_draws_train_val_and_test(tmp_path, n_steps, score):
    image = _curve_image(tmp_path, n_steps, score)
    assert image.shape[:2] == (540, 1440)
    for colour in ("4477aa", "cc6677", "228833"):
        rgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (0, 2, 4)])
        assert (np.abs(image[..., :3] - rgb).max(axis=-1) < 0.02).sum() > 20, colour


def test_learning_curve_without_a_test_set_has_no_dot(tmp_path):
    image = _curve_image(tmp_path, 20, test={})
    green = np.array([0x22, 0x88, 0x33]) / 255
    assert not (np.abs(image[..., :3] - green).max(axis=-1) < 0.02).any()
