"""Full disks, signals in commands other than train, and files that are truncated or too large when unpacked."""

import gc
import gzip
import io
import os
import shutil
import signal
import struct
import sys
import time
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from recipes import compare, export, predict, report, train
from recipes.data import limits
from recipes.data.graph_sets import read_edge_list, read_npz, read_tu
from recipes.data.images import read_files
from recipes.data.own_graph import read_graph
from recipes.data.tables import read_table
from recipes.data.text import read_file
from recipes.errors import DataError, exit_code_of
from tests.recipes.write_old_runs import ARCHIVE

FULL = Path("/dev/full")                            # every write to it fails as on a full disk


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Finished runs of all tasks, see `test_written_before`."""
    folder = tmp_path_factory.mktemp("runs")
    shutil.unpack_archive(ARCHIVE, folder)
    return folder


@pytest.fixture
def run(runs, tmp_path, monkeypatch):
    """A copy of the run of a table; the current folder has its data."""
    monkeypatch.chdir(runs / "data")
    return shutil.copytree(runs / "table", tmp_path / "run")


# ---- full disks --------------------------------------------------------------------------------------------------


def fill(file):
    """Makes the next writing of a whole file fail as on a full disk: its temporary file is there, and is full."""
    file.with_name(f".{file.name}.tmp").symlink_to(FULL)


WRITERS = {                                         # command, its arguments, the file that cannot be written
    "csv": (predict.main, ("run", "--input", "new.csv", "--output", "run/p.csv"), "p.csv"),
    "jsonl": (predict.main, ("run", "--input", "new.csv", "--output", "run/p.jsonl"), "p.jsonl"),
    "parquet": (predict.main, ("run", "--input", "new.csv", "--output", "run/p.parquet"), "p.parquet"),
    "report": (report.main, ("run",), "report.html"),
    "table": (compare.main, ("run", "run", "--plot", "run/c.png"), "c.csv"),
    "plot": (compare.main, ("run", "run", "--plot", "run/c.png"), "c.png"),
    "config": (train.main, ("--resume", "run", "--extend", "8"), "config.yaml"),
    "environment": (train.main, ("--resume", "run", "--extend", "8"), "environment.json"),
    "metrics": (train.main, ("--resume", "run", "--extend", "8"), "metrics.jsonl"),
    "result": (train.main, ("--resume", "run", "--extend", "8"), "result.json"),
    "curve": (train.main, ("--resume", "run", "--extend", "8"), "learning_curve.png"),
}
QUICK = ("csv", "plot", "config")


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full")
@pytest.mark.parametrize("name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow)
                                  for name in WRITERS])
def test_a_full_disk_is_an_error_with_the_path_and_nothing_is_lost(run, capsys, name):
    main, args, wanted = WRITERS[name]
    args = [arg.replace("run", str(run), 1) for arg in args]
    before = {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}
    fill(run / wanted)
    assert main(args) == 1
    err = capsys.readouterr().err
    assert "no space left on device" in err and str(run / wanted) in err and "fix: free space" in err
    assert (run / wanted).is_file() == (run / wanted in before)
    assert not list(run.glob(".*.tmp"))
    assert all(file.read_bytes() == before[file] for file in before if "checkpoints" in file.parts and file.exists())
    assert main(args if args[0] != "--resume" or name == "config" else args[:2]) == 0              # with space again


@pytest.mark.slow
@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full")
def test_a_log_on_a_full_disk_ends_the_run_at_the_checkpoint_before(run, capsys):
    (run / "timing.jsonl").symlink_to(FULL)
    assert train.main(["--resume", str(run), "--extend", "12"]) == 1
    assert f"path  {run / 'timing.jsonl'}" in capsys.readouterr().err
    (run / "timing.jsonl").unlink()
    assert train.main(["--resume", str(run)]) == 0


def test_an_export_that_fails_leaves_no_folder_in_the_way(run, tmp_path, monkeypatch, capsys):
    def fail(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(export, "write_arrays", fail)
        assert export.main([str(run), str(tmp_path / "exported")]) == 1
    assert "fix: free space" in capsys.readouterr().err
    assert export.main([str(run), str(tmp_path / "exported")]) == 0


def test_a_picture_of_an_unknown_kind_is_refused(run, tmp_path, capsys):
    assert compare.main([str(run), str(run), "--plot", str(tmp_path / "c.doc")]) == 2
    assert "the format of the picture is not known" in capsys.readouterr().err


# ---- signals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_closes_files_and_is_the_exit_code(number, capsys):
    closed = []

    def work():
        try:
            os.kill(os.getpid(), number)
            time.sleep(10)
        finally:
            closed.append(True)

    before = signal.signal(number, signal.SIG_DFL)            # tests in the background ignore SIGINT and SIGHUP
    try:
        assert exit_code_of(work) == 128 + number and closed
        assert f"run: stopped by {number.name}.\n  fix: start the command again" in capsys.readouterr().err
        assert signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler)
    finally:
        signal.signal(number, before)


def test_a_signal_in_a_callback_of_the_garbage_collector_is_not_lost(monkeypatch):
    """Python drops exceptions there; JAX, which optax loads, has such a callback."""
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)

    def interrupted(phase, info):
        if not sent:
            sent.append(True)
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.01)

    def work():
        gc.callbacks.append(interrupted)
        gc.collect()
        time.sleep(10)

    sent, before = [], signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        assert exit_code_of(work) == 128 + signal.SIGTERM
    finally:
        signal.signal(signal.SIGTERM, before)
        gc.callbacks.remove(interrupted)


COMMANDS = {"predict": ("--input", "new.csv", "--output", "out/p.csv"), "evaluate": (), "report": (),
            "export": ("out/exported",), "compare": ()}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_is_stopped_leaves_no_part_of_a_file(command, run, tmp_path, name):
    for file in ("new.csv", "shop.csv"):
        shutil.copy(file, tmp_path)
    for delay, number in ((0.1, signal.SIGTERM), (1, signal.SIGINT), (2.5, signal.SIGTERM), (4, signal.SIGHUP)):
        (tmp_path / "out").mkdir()
        process = command("run", *COMMANDS[name], module=("-m", f"recipes.{name}"), wait=False)
        time.sleep(delay)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
        assert process.returncode in (0, 128 + number, -number) and "Traceback" not in err, err
        assert not [file for file in tmp_path.rglob(".*.tmp") if file.is_file()]
        exported = tmp_path / "out/exported"
        assert not exported.exists() or len(list(exported.iterdir())) in (0, 3)
        shutil.rmtree(tmp_path / "out")


# ---- truncated files, and files that are small until they are unpacked -------------------------------------------

FREE = 1 << 22                                      # of memory, in these tests
LARGE = 1 << 24                                     # bytes, of zeros or spaces


def packed_npz(**arrays):
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return out.getvalue()


def npz_of_header(shape):
    """An .npz file whose array `edges` has this shape by its header, and 80 bytes."""
    header, out = io.BytesIO(), io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<i8", "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("edges.npy", header.getvalue() + bytes(80))
        archive.writestr("features.npy", header.getvalue())
    return out.getvalue()


def png_of_size(width, height):
    """A PNG that declares a size, with the data of a few pixels."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")


def parquet_of(rows):
    out = io.BytesIO()
    parquet.write_table(pa.table({"a": pa.array(np.zeros(rows, np.int8))}), out)
    return out.getvalue()


def read_tu_of(file):
    folder = file.parent / "SET"
    folder.mkdir()
    (folder / "SET_graph_indicator.txt").write_text("1\n1\n")
    (folder / file.name).symlink_to(file)
    return read_tu(folder)


EDGES = {"edges": np.zeros((2, LARGE // 16), int), "features": np.zeros((3, 2), np.float32)}
SMALL = packed_npz(edges=np.zeros((2, 1), int), features=np.ones((3, 2)), labels=np.arange(3))
NUMBERS = b"0.25,0.5\n" * 1000
FILES = {                                           # file name -> reader, bytes, words of the message
    "bomb.npz": (read_graph, packed_npz(**EDGES), "does not fit into memory"),
    "shape.npz": (read_graph, npz_of_header((2, 1 << 50)), "cannot be read"),
    "negative.npz": (read_graph, npz_of_header((2, -1)), "cannot be read"),
    "cut.npz": (read_graph, SMALL[:-40], "cannot be read"),
    "flipped.npz": (read_graph, SMALL[:60] + bytes([SMALL[60] ^ 255]) + SMALL[61:], "cannot be read"),
    "published.npz": (read_npz, packed_npz(adj_data=np.zeros(LARGE // 4, np.float32)), "does not fit into memory"),
    "edges.csv.gz": (read_edge_list, gzip.compress(b" " * LARGE), "does not fit into memory"),
    "cut.csv.gz": (read_edge_list, gzip.compress(NUMBERS)[:-12], "cannot be read"),
    "SET_A.txt.gz": (read_tu_of, gzip.compress(b"1, 1\n" * (LARGE // 5)), "does not fit into memory"),
    "large.csv": (read_table, b"a\n" + b"1\n" * (FREE // 4), "does not fit into memory"),
    "field.csv": (read_table, b"x" * 200_000 + b"\n1\n", "cannot be read"),
    "quote.csv": (read_table, b'a,b\n"' + b"x" * 200_000 + b"\n1,2\n", "cannot be read"),
    "deep.json": (read_table, b"[" * 100_000, "cannot be read"),
    "deep.jsonl": (read_table, b'{"a": ' * 20_000, "cannot be read"),
    "cut.json": (read_table, b'[{"a": 1}, {"a": ', "cannot be read"),
    "bomb.parquet": (read_table, parquet_of(LARGE), "does not fit into memory"),
    "cut.parquet": (read_table, parquet_of(10)[:-30], "cannot be read"),
    "large.txt": (read_file, b"x" * FREE, "does not fit into memory"),
    "bomb.png": (lambda file: read_files(file, 8, 1), png_of_size(60_000, 60_000), "cannot be read"),
    "large.png": (lambda file: read_files(file, 8, 1), png_of_size(2000, 2000), "do not fit into memory"),
    "cut.png": (lambda file: read_files(file, 8, 1), png_of_size(20, 20), "cannot be read"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_or_too_large_file_is_a_house_error(name, tmp_path, monkeypatch):
    read, content, words = FILES[name]
    monkeypatch.setattr(limits, "free_memory", lambda: FREE)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=words) as error:
        read(tmp_path / name)
    assert name in str(error.value) and "fix: " in str(error.value)


@pytest.mark.slow
def test_a_field_of_200_megabytes_is_a_text_with_one_value(tmp_path):
    (tmp_path / "field.csv").write_bytes(b"a,b\n" + b"x" * 200_000_000 + b",1\n" + b"y,2\n")
    assert len(read_table(tmp_path / "field.csv")["a"].texts()[0]) == 200_000_000


def test_free_memory_is_that_of_the_system():
    assert 1 << 20 < limits.free_memory() <= (os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
                                             if sys.platform == "linux" else float("inf"))


def test_too_little_memory_is_a_house_error(capsys):
    def work():
        raise MemoryError("Unable to allocate 8 EiB")

    assert exit_code_of(work) == 1 and "memory: there is too little memory" in capsys.readouterr().err
