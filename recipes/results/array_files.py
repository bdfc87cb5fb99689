"""The arrays of a checkpoint on disk, by orbax, in a folder whose path may contain any character.

orbax merges the files of a save by a pattern of their paths. In a path with ``[`` or ``\\`` the pattern matches
nothing, and orbax saves without an error a folder that it cannot read. So it gets a plain path, and the saved arrays
are read back.
"""

from __future__ import annotations

import contextlib
import logging
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from recipes.lazy import ocp
from recipes.names import plain_folder, plain_path

PART_BYTES = 1 << 28                        # so many bytes are read back at a time; they need memory


def write_arrays(folder: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes a new folder of arrays and reads it back.  Raises: OSError if it does not contain these arrays."""
    with plain_path(folder.parent) as parent, _orbax() as writer:
        writer.save(parent / folder.name, dict(arrays))
    for names in _parts(arrays):
        for name, array in read_arrays(folder, names).items():
            if array.dtype != arrays[name].dtype or not _same_bytes(array, arrays[name]):
                raise OSError(f"the array {name} reads back with other values than were written")


def read_arrays(folder: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Some arrays of a folder.  Raises: exceptions of many types if it is damaged."""
    with plain_path(folder) as path, _merged(path) as whole, _orbax() as reader:
        how = {name: ocp.RestoreArgs(restore_type=np.ndarray) for name in names}
        arrays = reader.restore(whole, args=ocp.args.PyTreeRestore(dict.fromkeys(names, 0), how, partial_restore=True))
    return {name: np.asarray(arrays[name]) for name in names}


@contextlib.contextmanager
def _orbax() -> Iterator[ocp.Checkpointer]:
    """Writes and reads arrays. Errors are raised only: orbax also logs them, with the tracebacks of its threads."""
    log = logging.getLogger("absl")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
            yield checkpointer
    finally:
        log.setLevel(level)


@contextlib.contextmanager
def _merged(folder: Path) -> Iterator[Path]:
    """The folder, or, if orbax did not merge its files, a folder of links in which they are merged.

    The first versions of this package saved such folders in paths with ``[``.
    """
    part = folder / "ocdbt.process_0"
    if (folder / "manifest.ocdbt").exists() or not (part / "manifest.ocdbt").is_file():
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="recipes.", dir=plain_folder()) as links:
        for file in (*(file for file in folder.iterdir() if file != part), *part.iterdir()):
            Path(links, file.name).symlink_to(file)
        yield Path(links)


def _parts(arrays: Mapping[str, np.ndarray]) -> Iterator[list[str]]:
    """The names of the arrays in groups of at most `PART_BYTES`, or of one array."""
    names, size = [], 0
    for name, array in arrays.items():
        if names and size + array.nbytes > PART_BYTES:
            yield names
            names, size = [], 0
        names.append(name)
        size += array.nbytes
    if names:
        yield names


def _same_bytes(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether two arrays have the same shape and the same bits, also of NaN."""
    x, y = (np.ascontiguousarray(each) for each in (x, y))
    return x.shape == y.shape and np.array_equal(x.reshape(-1).view(np.uint8), y.reshape(-1).view(np.uint8))
