"""Checkpoints: orbax writes the arrays, and a manifest with their SHA-256 digests verifies them.

    checkpoints/200/arrays/         orbax, a flat mapping leaf name -> NumPy array
    checkpoints/200/artifacts.json  data that the model needs besides its parameters: class names, vocabulary
    checkpoints/200/manifest.json   path, dtype, shape and SHA-256 of every leaf, SHA-256 of the artifacts

A checkpoint is written under a temporary name and renamed when complete, so a folder whose name is a number is
complete, and has been read back. It holds host arrays without their placement, so it can be read with any
number of devices. orbax detects truncated files, but not flipped bits; the manifest detects both.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from recipes.errors import CheckpointError, DivergedError, RecipeError
from recipes.lazy import tree_util
from recipes.process.parallel import Placer
from recipes.results.array_files import read_arrays, write_arrays
from xnn.whole_files import whole_file

if TYPE_CHECKING:
    from xjax.typing import Params, PyTree

FORMAT = 2


class Checkpoints:
    """The checkpoints of one run."""

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self.folder = folder.absolute()
        self._keep = keep

    def steps(self) -> list[int]:
        """Steps that have a complete checkpoint, ascending."""
        if not self.folder.is_dir():
            return []
        return sorted(int(p.name) for p in self.folder.iterdir() if p.name.isdecimal())

    def save(self, step: int, tree: PyTree, artifacts: dict[str, Any]) -> None:
        """Writes ``tree`` (NumPy leaves), then drops all but the newest ``keep`` checkpoints.

        Raises: CheckpointError if anything fails; older checkpoints are not changed.
        """
        final = self.folder / str(step)
        scratch = self.folder / f".{step}.{os.getpid()}.tmp"
        try:
            for left in self.folder.glob(".*.tmp"):                     # left by a killed process
                shutil.rmtree(left)
            scratch.mkdir(parents=True)
            _write(scratch, step, tree, artifacts)
            shutil.rmtree(final, ignore_errors=True)                    # a step done again after a resume
            scratch.rename(final)
            _sync(self.folder)
        except Exception as err:                  # orbax and the file system raise errors of many types
            shutil.rmtree(scratch, ignore_errors=True)
            raise CheckpointError("checkpoint", f"saving step {step} failed.",
                                  {"folder": self.folder, "why": _why_not_saved(err)},
                                  fix="free space or correct the folder's permissions, then --resume.") from err
        for old in self.steps()[:-self._keep]:
            shutil.rmtree(self.folder / str(old), ignore_errors=True)

    def restore(self, step: int, template: PyTree) -> PyTree:
        """The tree saved at ``step``, as NumPy arrays in the structure of ``template``, a tree of arrays or of shapes.

        Raises: CheckpointError naming the leaf if the checkpoint does not fit the template, or was changed.
        """
        folder = self.folder / str(step)
        expected = _flatten(template)
        manifest = _read_manifest(folder)["leaves"]
        _compare(folder, manifest, {path: _entry(leaf) for path, leaf in expected.items()})
        stored = {path: entry for path, entry in manifest.items() if 0 not in entry["shape"]}
        try:
            arrays = read_arrays(folder / "arrays", [_key(path) for path in stored])
        except Exception as err:                  # orbax raises errors of many types for damaged files
            raise _unreadable(folder, {"why": f"arrays: {_reason(err)}"}) from err
        leaves = []
        for path, leaf in expected.items():
            array = np.asarray(arrays[_key(path)] if path in stored else np.zeros(leaf.shape, leaf.dtype))
            if _entry(array) | {"sha256": _sha256(array)} != manifest[path]:
                raise _unreadable(folder, {"leaf": path, "why": "its SHA-256 differs"})
            leaves.append(array)
        return tree_util.tree_unflatten(tree_util.tree_structure(template), leaves)

    def has_best(self, step: int) -> bool:
        """Whether the best model on a validation split was saved with step ``step``."""
        return any(path.startswith("['best']") for path in _read_manifest(self.folder / str(step))["leaves"])

    def artifacts(self, step: int) -> dict[str, Any]:
        """The artifacts saved with step ``step``.  Raises: CheckpointError if they have changed since."""
        folder = self.folder / str(step)
        manifest = _read_manifest(folder)
        try:
            text = (folder / "artifacts.json").read_bytes()
        except OSError as err:
            raise _unreadable(folder, {"why": f"artifacts.json: {err}"}) from err
        if hashlib.sha256(text).hexdigest() != manifest["artifacts"]:
            raise _unreadable(folder, {"file": "artifacts.json", "why": "its SHA-256 differs"})
        return json.loads(text)


class Saver:
    """Saves in a thread during the training, one checkpoint at a time; an error is raised after the next launch.

    A state with a NaN or an infinity is not saved; the loss would show it one step later.
    """

    def __init__(self, checkpoints: Checkpoints, artifacts: dict[str, Any]) -> None:
        self.checkpoints, self._artifacts = checkpoints, artifacts
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None

    def save(self, step: int, state: PyTree, best: PyTree) -> None:
        """Starts to save a placed state, which no step may donate, and the best model (or None)."""
        self.wait()

        def work() -> None:
            try:
                fetched = Placer.host(state)
                if (bad := first_not_finite(fetched.params)) is not None:
                    raise diverged(f"{bad} is not finite after step {step}.", self.checkpoints)
                model = best and best._replace(model=Placer.host(best.model))
                self.checkpoints.save(step, {"state": fetched, "best": model}, self._artifacts)
            except Exception as err:                                      # `check` raises it in the main thread
                self._error = err

        self._thread = threading.Thread(target=work, name=f"save step {step}")
        self._thread.start()

    def check(self) -> None:
        """Raises the error of the last save, if it failed."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def wait(self) -> None:
        """Waits for the end of the last save; raises its error, if it failed."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.check()


def first_not_finite(params: Params) -> str | None:
    """The path of the first parameter with a NaN or an infinity; None if all are finite."""
    for path, leaf in tree_util.tree_flatten_with_path(params)[0]:
        if np.issubdtype(leaf.dtype, np.inexact) and not np.isfinite(leaf).all():
            return f"params{tree_util.keystr(path)}"
    return None


def diverged(what: str, checkpoints: Checkpoints, given: Mapping[str, object] | None = None) -> RecipeError:
    """The error of a run whose numbers are no longer finite."""
    sound = checkpoints.steps()
    last = checkpoints.folder / str(sound[-1]) if sound else "none was saved"
    return DivergedError("training", what, {**(given or {}), "last valid checkpoint": last},
                         fix="a smaller optim.lr, optim.schedule.warmup_steps, or optim.clip_norm=1.0.")


def _write(folder: Path, step: int, tree: PyTree, artifacts: dict[str, Any]) -> None:
    leaves = _flatten(tree)
    arrays = {_key(path): leaf for path, leaf in leaves.items() if leaf.size}
    write_arrays(folder / "arrays", arrays)
    entries = {path: _entry(leaf) | {"sha256": _sha256(leaf)} for path, leaf in leaves.items()}
    text = json.dumps(artifacts, indent=1, allow_nan=False).encode()
    (folder / "artifacts.json").write_bytes(text)
    manifest = {"format": FORMAT, "step": step, "leaves": entries, "artifacts": hashlib.sha256(text).hexdigest()}
    with whole_file(folder / "manifest.json") as out:
        out.write(json.dumps(manifest, indent=1).encode())
    back = (folder / "artifacts.json").read_bytes(), json.loads((folder / "manifest.json").read_bytes())
    if back != (text, manifest):
        raise OSError("manifest.json or artifacts.json reads back with other content than was written")
    _sync(folder)


def _flatten(tree: PyTree) -> dict[str, Any]:
    leaves, _ = tree_util.tree_flatten_with_path(tree)
    return {tree_util.keystr(path): leaf for path, leaf in leaves}


def _key(path: str) -> str:
    """A name that every file system accepts; the manifest has the readable path."""
    return hashlib.sha256(path.encode()).hexdigest()[:16]


def _entry(leaf: np.ndarray) -> dict[str, Any]:
    return {"dtype": np.dtype(leaf.dtype).name, "shape": list(leaf.shape)}


def _sha256(leaf: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(leaf).tobytes()).hexdigest()


def _sync(folder: Path) -> None:
    """Writes the folder's entries to disk: a rename is durable only after that."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _read_manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
        version = manifest["format"]
        for entry in manifest["leaves"].values():
            if not {"dtype", "sha256", "shape"} <= entry.keys() or not isinstance(entry["shape"], list):
                raise ValueError(f"not an entry of a leaf: {entry}")
        if not isinstance(manifest["artifacts"], str):
            raise ValueError("the SHA-256 of the artifacts is not a text")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as err:
        raise _unreadable(folder, {"why": f"manifest.json: {type(err).__name__}: {err}"}) from err
    if version != FORMAT:
        raise CheckpointError("checkpoint", f"format {version} is not known here.", {"folder": folder, "known": FORMAT},
                              fix="open it with the version of recipes that wrote it.")
    return manifest


def _compare(folder: Path, saved: dict[str, dict[str, Any]], wanted: dict[str, dict]) -> None:
    """Raises CheckpointError listing every leaf in which the checkpoint and the template differ."""
    faults = {}
    for path in sorted(saved.keys() | wanted.keys()):
        there, here = _type(saved.get(path)), _type(wanted.get(path))
        if there != here:
            faults[path] = f"saved {there}, the config makes {here}"
    if faults:
        raise CheckpointError("checkpoint", "it does not fit the config's model and optimizer.",
                              {"folder": folder, **faults},
                              fix="resume with the config saved in the run folder, or start a new run_dir.")


def _type(entry: dict[str, Any] | None) -> str:
    return f"{entry['dtype']}{entry['shape']}" if entry else "nothing"


def _unreadable(folder: Path, given: dict[str, Any]) -> CheckpointError:
    """The error for a checkpoint that cannot be used. Its fix keeps the folder, which may be the only copy."""
    for file in sorted(file for file in folder.rglob("*") if file.is_file()):
        try:
            file.open("rb").close()
        except OSError as err:                    # not damaged: this process may not read it
            return CheckpointError("checkpoint", "a file of it cannot be read.", {"file": file, "why": err.strerror},
                                   fix="correct the permissions of the file, or mount its disk again, then try again.")
    earlier = [step for step in Checkpoints(folder.parent).steps() if step < int(folder.name)]
    fix = (f"move this folder elsewhere; --resume then continues from step {earlier[-1]}." if earlier else
           "keep this folder, the only checkpoint of the run: copy it again from its source, or begin a new run.")
    return CheckpointError("checkpoint", "it is damaged: it does not hold what was saved.", {"folder": folder, **given},
                           fix=fix)


def _why_not_saved(err: Exception) -> str:
    """The error of the file system, which orbax puts at the end of a long text; else the text of the error."""
    for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES):
        if os.strerror(number) in str(err):
            return os.strerror(number)
    return f"{type(err).__name__}: {err}"


def _reason(err: Exception) -> str:
    """The text of an error of orbax on one line, without the settings that it lists in brackets."""
    text = re.split(r"\s*\[(?:tensorstore_spec|source locations)", str(err))[0]
    return f"{type(err).__name__}: {' '.join(text.split())[:400]}"
