"""Runs survive signals, kills, damaged files and configs of any text. The long forms are slow tests."""

import json
import random
import re
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from recipes import train
from recipes.errors import ConfigError
from recipes.settings.config_file import load_config
from recipes.training.run import run

SMALL = ("--config", "gcn.yaml", "devices=1", "task.dropout=0.5", "checkpoint_every=50", "log_every=10")


def manifest(folder):
    newest = max((folder / "checkpoints").iterdir(), key=lambda path: int(path.name))
    return json.loads((newest / "manifest.json").read_text())


# ---- signals and kills -------------------------------------------------------------------------------------------

EXITS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGUSR1: 138}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An uninterrupted run of 1,000 steps."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    run(load_config("gcn.yaml", [*SMALL[2:], "steps=1000", f"run_dir={folder}"]), "gcn")
    return folder


@pytest.mark.parametrize("number", [signal.SIGINT, *(pytest.param(n, marks=pytest.mark.slow) for n in list(EXITS)[1:])])
def test_a_signal_is_obeyed_and_the_run_goes_on_to_the_same_bits(command, tmp_path, whole, number, monkeypatch, capsys):
    process = command(*SMALL, "steps=1000", "run_dir=run", wait=False)
    while not (tmp_path / "run/checkpoints/50").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == EXITS[number], err
    assert "Traceback" not in err
    assert f"stopped by {number.name} after step " in err and f"--resume {tmp_path / 'run'}" in err
    monkeypatch.chdir(tmp_path)
    assert train.main(["--resume", "run"]) == 0
    assert "may differ in the last bits" not in capsys.readouterr().out
    assert manifest(tmp_path / "run") == manifest(whole)
    assert (tmp_path / "run/metrics.jsonl").read_text() == (whole / "metrics.jsonl").read_text()


@pytest.mark.parametrize("delay", [0.05, 0.4, *(pytest.param(d, marks=pytest.mark.slow) for d in (0.8, 1.2, 2.0, 3.0))])
def test_a_signal_at_start_up_or_in_the_first_compilation(command, tmp_path, delay):
    process = command(*SMALL, "steps=100000", "run_dir=run", wait=False)
    time.sleep(delay)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert "Traceback" not in err
    assert process.returncode in (143, -signal.SIGTERM), err        # no handler exists before Python runs our code


def wait_for_imports(process):
    """Wait until `recipes` has replaced Python's handler of SIGINT, which prints a traceback: its first act."""
    status, started, was_caught = Path(f"/proc/{process.pid}/status"), time.monotonic(), False
    while process.poll() is None and time.monotonic() < started + 30:
        caught = int(re.search(r"SigCgt:\s*(\w+)", status.read_text())[1], 16) >> (signal.SIGINT - 1) & 1
        if was_caught and not caught:
            return
        was_caught = was_caught or caught
        time.sleep(0.001)


@pytest.mark.parametrize("delay", [0.01, 0.25, *(pytest.param(d, marks=pytest.mark.slow) for d in (0.1, 0.5, 1.0))])
def test_ctrl_c_while_modules_are_imported_has_no_traceback(command, tmp_path, delay):
    process = command(*SMALL, "steps=100000", "run_dir=run", wait=False)
    wait_for_imports(process)
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode in (130, -signal.SIGINT) and "Traceback" not in err, err


def test_a_second_ctrl_c_leaves_at_once(command):
    script = ("import time; from recipes.process.interrupts import Interrupts\n"
              "with Interrupts():\n"
              "    print('ready', flush=True)\n"
              "    while True: time.sleep(60)")                # a program that never checks for it
    process = command(module=("-c", script), wait=False)
    watchdog = threading.Timer(60, process.kill)              # ends the process if reading its output would block
    watchdog.start()
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    assert "SIGINT: stopping at the next step" in process.stderr.readline() + process.stderr.readline()
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    watchdog.cancel()
    assert process.returncode == 130
    assert err == "\nstopped at once, nothing more is saved\n"


TINY = ("task.files=[text.txt]", "task.tokenizer=null", "task.length=16", "task.stride=null", "task.batch_size=6",
        "task.model={name: gpt2, features: 16, layers: 1, heads: 2, dropout: 0.1}")
KILLED = {                                                    # name -> config and overrides; the run takes some seconds
    "graph, dropout, 3 devices": ("gcn.yaml", "task.dropout=0.5", "devices=3", "steps=2000"),
    "table, average, parts, 2 devices": ("mlp_table.yaml", "task.file=rings.csv", "task.target=ring", "ema=0.9",
                                         "accumulate=2", "devices=2", "steps=2000"),
    "images, running statistics, 1 device": (
        "resnet_digits.yaml", "task.model={name: resnet, stages: [[1, 4]], small_images: true}", "task.batch_size=24",
        "devices=1", "steps=1000"),
    "text, 3 devices": ("gpt2_stdlib.yaml", *TINY, "devices=3", "steps=1500"),
}


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("name", KILLED)
def test_killed_again_and_again(command, tmp_path, rings, name, number):
    """After 17 kills at random moments, also in start-up and in saves, the run ends as the uninterrupted one."""
    shutil.copy(rings, tmp_path / "rings.csv")
    (tmp_path / "text.txt").write_text("".join(f"{i} and {i + 1} are {2 * i + 1}.\n" for i in range(200)))
    config, *overrides = KILLED[name]
    args = ("--config", config, *overrides, "checkpoint_every=20", "log_every=10", "eval_every=100")
    code, _, err = command(*args, "run_dir=whole")
    assert code == 0, err
    rng, kills, run = random.Random(f"{name} {number}"), 0, tmp_path / "run"
    while True:
        begun = (run / "checkpoints").exists() and any((run / "checkpoints").iterdir())
        if not begun:
            shutil.rmtree(run, ignore_errors=True)            # killed before the first checkpoint
        process = command(*(("--resume", "run") if begun else (*args, "run_dir=run")), wait=False)
        try:
            _, err = process.communicate(timeout=rng.uniform(0.3, 6.0) if kills < 17 else 200)
        except subprocess.TimeoutExpired:
            process.send_signal(number)
            _, err = process.communicate(timeout=60)
            kills += 1
        assert "Traceback" not in err
        assert process.returncode in (0, -number, 128 + number), err
        if process.returncode == 0:
            assert manifest(run) == manifest(tmp_path / "whole")
            assert (run / "metrics.jsonl").read_text() == (tmp_path / "whole/metrics.jsonl").read_text()
            if kills == 17:
                break
            shutil.rmtree(run)


# ---- damaged folders ---------------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "run"
    run(load_config("gcn.yaml", ["devices=1", "steps=4", "checkpoint_every=2", f"run_dir={folder}"]), "gcn")
    return folder


GARBAGE = (b"", b"\x00" * 9, b"{", b"[]", b"null", b"3", b'{"step": {}}\n' * 2, b"\xff\xfe", b"a: [", b'{"leaves": {}}',
           b'{"format": 2, "leaves": {"a": 1}, "artifacts": ""}', b"[" * 5000, b"- - - a", b"task: 3\n", b"\n" * 50)


def damage(folder, rng):
    """Change one file of a run folder in some way; returns a description."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    file, kind = rng.choice(files), rng.choice(("flip", "cut", "garbage", "delete", "folder", "double"))
    data = file.read_bytes()
    if kind == "flip" and data:
        at = rng.randrange(len(data))
        file.write_bytes(data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1:])
    elif kind == "cut":
        file.write_bytes(data[:rng.randrange(len(data) + 1)])
    elif kind == "garbage":
        file.write_bytes(rng.choice(GARBAGE))
    elif kind == "double":
        file.write_bytes(data + data)
    else:
        file.unlink()
        if kind == "folder":
            file.mkdir()
    return f"{kind} of {file.relative_to(folder)}"


FAST = (0, 5, 7, 8, 9, 11, 12, 15, 17, 18, 20)                # each kind of damage, and most kinds of files


@pytest.mark.parametrize("seed", [pytest.param(n, marks=[] if n in FAST else pytest.mark.slow) for n in range(500)])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")     # orbax's threads
def test_a_damaged_run_folder_ends_in_a_message_or_goes_on(finished, tmp_path, capfd, seed):
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    what = damage(folder, random.Random(seed))
    code = train.main(["--resume", str(folder), "--extend", "5"])                  # it would raise a traceback here
    err = capfd.readouterr().err
    assert code in (0, 1, 2), what
    assert code == 0 or "fix: " in err, (what, err)


# ---- configs of any text -----------------------------------------------------------------------------------------

def mutated(text, rng):
    """A config with a few faults: letters, lines, values."""
    lines = text.splitlines()
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(lines))
        line, kind = lines[at], rng.randrange(6)
        if kind == 0:
            lines[at] = line[:-1] if line else "x"
        elif kind == 1:
            lines[at] = line.partition(":")[0] + ": " + rng.choice(
                ("-1", "nan", ".inf", "[]", "{}", "null", "1e400", "yes", "2020-13-01", "'", "*a", "&a 1",
                 "!!python/x 1", "99999999999999999999", "\x07", "0x", "~", "[[[", "- 1", "a: b"))
        elif kind == 2:
            lines.insert(at, rng.choice(lines))
        elif kind == 3:
            lines[at] = "  " * rng.randrange(4) + line.strip()
        elif kind == 4:
            i = rng.randrange(len(line) + 1)
            lines[at] = line[:i] + chr(rng.choice((0, 9, 34, 58, 91, 123, 0xE9, 0x1F600))) + line[i:]
        else:
            del lines[at]
            lines = lines or [""]
    return "\n".join(lines)


@pytest.mark.parametrize("chunk", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 10))])
def test_fuzzed_configs_are_right_or_house_errors(tmp_path, monkeypatch, chunk):
    monkeypatch.chdir(tmp_path)
    texts = [load_config(name).to_yaml() for name in ("gcn", "gcn_cora")]
    texts.append(load_config("mlp_table", ["task.file=a.csv", "task.target=y"]).to_yaml())
    refused = 0
    for seed in range(200 * chunk, 200 * chunk + 200):
        rng = random.Random(seed)
        (tmp_path / "fuzzed.yaml").write_text(mutated(rng.choice(texts), rng), "utf-8")
        try:
            load_config("fuzzed.yaml")
        except ConfigError as err:
            assert str(err).startswith("config: ") and "  fix: " in str(err)
            refused += 1
    assert refused > 50
