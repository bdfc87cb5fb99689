"""Reports of memory: peaks of devices that count it, else of the process; the preallocation of GPUs."""

import json
from types import SimpleNamespace

import pytest

from recipes.pages.sections import Subject, timing
from recipes.process.memory import Peak, peaks, peaks_in_words, preallocation
from recipes.training.hooks import MetricsLog
from recipes.training.ranks import Ranks
from tests.recipes.test_hooks import report

GIB = 2**30


def device(number, platform="gpu", **stats):
    return SimpleNamespace(platform=platform, id=number, memory_stats=lambda: stats or None)


CARDS = [device(i, bytes_in_use=1, peak_bytes_in_use=(2 + i) * GIB, bytes_limit=60 * GIB) for i in range(2)]


def test_devices_that_count_say_their_peaks():
    highest = peaks(CARDS, rank=1)
    assert highest == [Peak("gpu 0", 2 * GIB, 60 * GIB), Peak("gpu 1", 3 * GIB, 60 * GIB)]
    assert peaks_in_words(highest) == "2.0 GiB of 60.0 GiB on gpu 0, 3.0 GiB of 60.0 GiB on gpu 1"


@pytest.mark.parametrize("stats", [{}, {"bytes_in_use": 1}])
def test_where_none_counts_it_is_the_process(stats):
    (highest,) = peaks([device(0, "cpu", **stats)])
    assert highest.where == "process" and 20 * 2**20 < highest.size < 2**40 and highest.limit is None
    assert peaks_in_words([Peak("process", 400 * 2**20)]) == "400 MiB (resident size of the process)"


def test_of_several_processes_each_is_named():
    (highest,) = peaks([device(3, "cpu")], rank=1)
    assert peaks_in_words([Peak("process 0", 2**29), highest._replace(size=2**28)]) == (
        "512 MiB resident in process 0, 256 MiB resident in process 1")
    assert Ranks().gathered("memory", [highest]) == [[highest]]


@pytest.mark.parametrize("env, said", [
    ({}, "preallocated 75 % of each GPU, 60.0 GiB (XLA_PYTHON_CLIENT_MEM_FRACTION is not set)"),
    ({"XLA_PYTHON_CLIENT_MEM_FRACTION": ".30"},
     "preallocated 30 % of each GPU, 60.0 GiB (XLA_PYTHON_CLIENT_MEM_FRACTION=.30)"),
    ({"XLA_CLIENT_MEM_FRACTION": "0.5"}, "preallocated 50 % of each GPU, 60.0 GiB (XLA_CLIENT_MEM_FRACTION=0.5)"),
    ({"XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
     "not preallocated (XLA_PYTHON_CLIENT_PREALLOCATE=false); at most 75 % of each GPU, 60.0 GiB "
     "(XLA_PYTHON_CLIENT_MEM_FRACTION is not set)"),
    ({"XLA_PYTHON_CLIENT_ALLOCATOR": "platform"}, "not preallocated (XLA_PYTHON_CLIENT_ALLOCATOR=platform)"),
])
def test_what_is_preallocated_and_by_which_variable(env, said):
    assert preallocation(CARDS, env) == said
    assert preallocation([device(0, "cpu")], env) is None


def test_the_file_of_timing_and_the_report_have_the_peaks(tmp_path):
    sizes = iter([300, 900, 700])
    log = MetricsLog(tmp_path / "metrics.jsonl", 0, memory=lambda: [Peak("gpu 0", next(sizes) * GIB // 100)])
    for _ in range(3):
        log(report(0.5))
    lines = (tmp_path / "timing.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["peak_bytes"] == {"gpu 0": 3 * GIB}
    assert "<td>peak memory</td><td>9.0 GiB on gpu 0</td>" in timing(Subject(tmp_path, None, None))
