"""Checkpoints: complete or absent, verified bit by bit, with clear errors."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from recipes.errors import CheckpointError, DivergedError
from recipes.lazy import ocp
from recipes.process.parallel import Placer, choose_devices
from recipes.results.checkpoint import Checkpoints, Saver, _flatten, _key


class Moments(NamedTuple):
    count: np.ndarray
    mu: dict


def tree(scale=1.0):
    rng = np.random.default_rng(0)
    return (
        {"w": (scale * rng.normal(size=(5, 3))).astype(np.float32), "none": np.zeros((0, 4))},
        Moments(np.int32(7), {"w": rng.integers(0, 9, 64).astype(np.uint32)}),
        (),
    )


@pytest.fixture
def checkpoints(tmp_path):
    return Checkpoints(tmp_path / "checkpoints", keep=2)


def leaves(value):
    (params, moments, _) = value
    return [params["w"], params["none"], moments.count, moments.mu["w"]]


def test_round_trip_keeps_every_bit_and_the_structure(checkpoints):
    checkpoints.save(3, tree(), {})
    back = checkpoints.restore(3, tree(scale=0.0))
    assert isinstance(back[1], Moments)
    for got, want in zip(leaves(back), leaves(tree()), strict=True):
        assert got.tobytes() == want.tobytes()
        assert (got.dtype, got.shape) == (want.dtype, want.shape)


def test_nan_and_minus_zero_keep_their_bits(checkpoints):
    special = {"x": np.array([np.nan, -0.0, np.inf, 1e-45], np.float32)}
    checkpoints.save(1, special, {})
    assert checkpoints.restore(1, special)["x"].tobytes() == special["x"].tobytes()


def test_manifest_lists_every_leaf(checkpoints):
    checkpoints.save(3, tree(), {})
    manifest = json.loads((checkpoints.folder / "3" / "manifest.json").read_text())
    assert (manifest["format"], manifest["step"], len(manifest["leaves"])) == (2, 3, 4)
    entry = manifest["leaves"]["[0]['w']"]
    assert (entry["dtype"], entry["shape"], len(entry["sha256"])) == ("float32", [5, 3], 64)


def test_the_newest_are_kept(checkpoints):
    for step in (10, 20, 100):
        checkpoints.save(step, tree(), {})
    assert checkpoints.steps() == [20, 100]


def test_scratch_of_a_killed_save_is_no_checkpoint_and_goes(checkpoints):
    checkpoints.save(1, tree(), {})
    left = checkpoints.folder / ".2.99.tmp"
    shutil.copytree(checkpoints.folder / "1", left)
    assert checkpoints.steps() == [1]
    checkpoints.save(2, tree(), {})
    assert sorted(os.listdir(checkpoints.folder)) == ["1", "2"]


def _largest_file(folder: Path) -> Path:
    return max((p for p in folder.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # orbax's threads
def test_one_flipped_bit_anywhere_is_never_restored(checkpoints):
    """Each flip is an error, or changes a byte that holds no value (padding, time stamps)."""
    checkpoints.save(1, tree(), {})
    arrays = checkpoints.folder / "1" / "arrays"
    rng, caught = np.random.default_rng(0), 0
    for file in sorted(p for p in arrays.rglob("*") if p.is_file() and p.stat().st_size):
        whole = file.read_bytes()
        for _ in range(3):
            flipped = bytearray(whole)
            flipped[rng.integers(len(whole))] ^= 1 << int(rng.integers(8))
            file.write_bytes(flipped)
            try:
                back = checkpoints.restore(1, tree())
            except CheckpointError as err:
                assert "it is damaged" in str(err)
                caught += 1
            else:
                for got, want in zip(leaves(back), leaves(tree()), strict=True):
                    assert got.tobytes() == want.tobytes()
        file.write_bytes(whole)
    assert caught > 3


def test_a_wrong_digest_names_the_leaf(checkpoints):
    checkpoints.save(1, tree(), {})
    file = checkpoints.folder / "1" / "manifest.json"
    manifest = json.loads(file.read_text())
    manifest["leaves"]["[0]['w']"]["sha256"] = "0" * 64
    file.write_text(json.dumps(manifest))
    with pytest.raises(CheckpointError) as caught:
        checkpoints.restore(1, tree())
    assert str(caught.value) == (
        "checkpoint: it is damaged: it does not hold what was saved.\n"
        f"  folder  {checkpoints.folder / '1'}\n"
        "  leaf    [0]['w']\n"
        "  why     its SHA-256 differs\n"
        "  fix: keep this folder, the only checkpoint of the run: copy it again from its source, or begin a new run."
    )
    shutil.copytree(checkpoints.folder / "1", checkpoints.folder / "7")
    with pytest.raises(CheckpointError, match="fix: move this folder elsewhere; .*from step 1"):
        checkpoints.restore(7, tree())


ODD = ["lr=[0.1]", "a[b", "a]b", "back\\slash", "gs:", "s3:", "memory:", "star*", "quest?ion", "{a,b}", "a::b",
       "new\nline", "p%20c", "ha#sh", "日本", "a b", "~", "$HOME", "-x", "\udcff", "tmp.orbax-checkpoint-tmp-1"]


@pytest.mark.parametrize("name", ODD, ids=ascii)
def test_a_folder_of_any_name(tmp_path, name):
    there = Checkpoints(tmp_path / name / "checkpoints")
    there.save(1, tree(), {"n": 1})
    for got, want in zip(leaves(there.restore(1, tree())), leaves(tree()), strict=True):
        assert got.tobytes() == want.tobytes()
    assert os.listdir(tmp_path) == [name]                     # no other file, such as "back/slash"


def test_a_checkpoint_that_orbax_saved_in_a_path_with_brackets(checkpoints, tmp_path):
    """The versions before this test did not give orbax a plain path: it wrote the arrays, and could not read them."""
    checkpoints.save(1, tree(), {})
    lost = tmp_path / "run[1]" / "checkpoints"
    shutil.copytree(checkpoints.folder / "1", lost / "1")
    shutil.rmtree(lost / "1" / "arrays")
    arrays = {_key(path): leaf for path, leaf in _flatten(tree()).items() if leaf.size}
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as writer:
        writer.save(lost / "1" / "arrays", arrays)
    assert leaves(Checkpoints(lost).restore(1, tree()))[0].tobytes() == leaves(tree())[0].tobytes()


@pytest.mark.parametrize("what", ["changed", "missing"])
def test_what_was_saved_is_read_back(checkpoints, monkeypatch, what):
    """A disk that loses what is written to it: the save fails, and the checkpoint before it stays."""
    checkpoints.save(1, tree(), {})
    save = ocp.Checkpointer.save

    def lossy(self, folder, arrays, *args, **options):
        save(self, folder, {key: leaf + 1 for key, leaf in arrays.items()}, *args, **options)
        if what == "missing":
            shutil.rmtree(folder / "d")

    monkeypatch.setattr(ocp.Checkpointer, "save", lossy)
    with pytest.raises(CheckpointError, match="saving step 2 failed"):
        checkpoints.save(2, tree(), {})
    assert os.listdir(checkpoints.folder) == ["1"]
    checkpoints.restore(1, tree())


def test_a_file_that_may_not_be_read_is_not_called_damaged(checkpoints, monkeypatch):
    checkpoints.save(1, tree(), {})
    refused = PermissionError(13, "Permission denied")
    monkeypatch.setattr(Path, "open", lambda *_, **__: (_ for _ in ()).throw(refused))
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: (_ for _ in ()).throw(refused))
    with pytest.raises(CheckpointError, match="(?s)a file of it cannot be read.*Permission denied.*fix: corr"):
        checkpoints.restore(1, tree())


@pytest.mark.parametrize("damage", ["truncate", "delete", "no manifest"])
def test_missing_pieces_are_an_error(checkpoints, damage):
    checkpoints.save(1, tree(), {})
    folder = checkpoints.folder / "1"
    if damage == "truncate":
        file = _largest_file(folder / "arrays")
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    elif damage == "delete":
        shutil.rmtree(folder / "arrays")
    else:
        (folder / "manifest.json").unlink()
    with pytest.raises(CheckpointError, match="it is damaged"):
        checkpoints.restore(1, tree())


def test_another_model_is_told_leaf_by_leaf(checkpoints):
    checkpoints.save(1, tree(), {})
    params, moments, rest = tree()
    other = ({"w": params["w"].astype(np.float64), "b": params["none"]}, moments, rest)
    with pytest.raises(CheckpointError) as caught:
        checkpoints.restore(1, other)
    message = str(caught.value)
    assert "it does not fit the config's model and optimizer." in message
    assert "[0]['w']     saved float32[5, 3], the config makes float64[5, 3]" in message
    assert "[0]['b']     saved nothing, the config makes float64[0, 4]" in message
    assert "[0]['none']  saved float64[0, 4], the config makes nothing" in message


def test_artifacts_belong_to_a_checkpoint_and_are_proved(checkpoints):
    artifacts = {"classes": ["a", "ä"], "mean": [0.1, -2.5e-7], "n": 3}
    checkpoints.save(1, tree(), artifacts)
    assert checkpoints.artifacts(1) == artifacts
    file = checkpoints.folder / "1" / "artifacts.json"
    file.write_text(file.read_text().replace("0.1", "0.2"))
    with pytest.raises(CheckpointError, match="(?s)artifacts.json.*its SHA-256 differs"):
        checkpoints.artifacts(1)
    file.unlink()
    with pytest.raises(CheckpointError, match="it is damaged"):
        checkpoints.artifacts(1)


class State(NamedTuple):
    params: dict


def placed(value):
    placer = Placer(choose_devices(1))
    return placer.replicate(State({"w": np.array([1.0, value], np.float32)}))


def test_saves_run_beside_and_the_state_may_go_on(checkpoints):
    saver = Saver(checkpoints, {"n": 1})
    for step in (1, 2):
        saver.save(step, placed(step), None)
    saver.wait()
    template = {"state": State({"w": np.zeros(2, np.float32)}), "best": None}
    assert checkpoints.restore(2, template)["state"].params["w"].tolist() == [1.0, 2.0]
    assert checkpoints.artifacts(2) == {"n": 1}


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_diverged_state_is_not_saved(checkpoints, bad):
    saver = Saver(checkpoints, {})
    saver.save(1, placed(2.0), None)
    saver.save(2, placed(bad), None)
    with pytest.raises(DivergedError) as caught:
        saver.wait()
    assert str(caught.value).startswith("training: params['w'] is not finite after step 2.\n"
                                        f"  last valid checkpoint  {checkpoints.folder / '1'}\n")
    assert checkpoints.steps() == [1]
    saver.check()                                             # the error is raised once


def test_a_save_that_fails_is_told_at_the_next_step(checkpoints, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    saver = Saver(checkpoints, {})
    saver.save(1, placed(2.0), None)
    saver._thread.join()
    with pytest.raises(CheckpointError, match="No space left"):
        saver.check()


def test_unknown_format(checkpoints):
    checkpoints.save(1, tree(), {})
    file = checkpoints.folder / "1" / "manifest.json"
    file.write_text(file.read_text().replace('"format": 2', '"format": 9'))
    with pytest.raises(CheckpointError, match="format 9 is not known"):
        checkpoints.restore(1, tree())


def test_a_failing_save_is_loud_and_harmless(checkpoints, monkeypatch):
    checkpoints.save(1, tree(), {})

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError, match=r"(?s)saving step 2 failed.*No space left.*fix: "):
        checkpoints.save(2, tree(), {})
    monkeypatch.undo()
    assert sorted(os.listdir(checkpoints.folder)) == ["1"]
    checkpoints.restore(1, tree())


def test_a_folder_that_cannot_be_made_is_loud(tmp_path):
    (tmp_path / "checkpoints").write_text("a file")
    with pytest.raises(CheckpointError, match="saving step 1 failed"):
        Checkpoints(tmp_path / "checkpoints").save(1, tree(), {})


@pytest.mark.slow
def test_a_failed_write_is_raised_and_not_logged_too(tmp_path):
    code = """
import resource, sys
from pathlib import Path
import numpy as np
from recipes.results.array_files import write_arrays
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    write_arrays(Path(sys.argv[1]), {"w": np.random.default_rng(0).normal(size=100_000)})
except Exception as err:
    print("File too large" in str(err))
"""
    command = [sys.executable, "-c", code, tmp_path / "arrays"]
    result = subprocess.run(command, text=True, capture_output=True, check=True)
    assert (result.stdout, result.stderr) == ("True\n", "")
