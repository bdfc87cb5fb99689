"""Writes and reads parameters as a safetensors file, one tensor for each path of the tree."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from recipes.errors import DataError
from recipes.lazy import safetensors_numpy, tensor_files, tree_util

if TYPE_CHECKING:
    from xjax.typing import PyTree

ABOUT, ARRAYS = "exported.json", "model.safetensors"       # in an exported folder


def write_arrays(file: Path, tree: PyTree) -> None:
    """Writes the NumPy leaves of a tree; if it fails, there is no file."""
    tensor_files.write(file, {path: np.asarray(leaf) for path, leaf in _by_path(tree).items()})


def read_arrays(file: Path, shapes: PyTree) -> PyTree:
    """The tree in the structure of ``shapes``.  Raises: DataError naming the tensors that do not fit."""
    try:
        arrays = safetensors_numpy.load_file(file)
    except Exception as err:                                  # safetensors has its own type of errors
        raise DataError("exported", "the parameters cannot be read.", {"file": file, "why": err},
                        fix="export the run again.") from None
    expected = _by_path(shapes)
    there = {path: f"{a.dtype}{list(a.shape)}" for path, a in arrays.items()}
    wanted = {path: f"{np.dtype(leaf.dtype)}{list(leaf.shape)}" for path, leaf in expected.items()}
    wrong = {path: f"{there.get(path, 'nothing')} in the file, the config makes {wanted.get(path, 'nothing')}"
             for path in sorted(there.keys() | wanted.keys()) if there.get(path) != wanted.get(path)}
    if wrong:
        raise DataError("exported", "the parameters are not those of the config's model.", {"file": file, **wrong},
                        fix="export the run again.")
    leaves = [arrays[path] for path in expected]
    return tree_util.tree_unflatten(tree_util.tree_structure(shapes), leaves)


def _by_path(tree: PyTree) -> dict[str, Any]:
    leaves, _ = tree_util.tree_flatten_with_path(tree)
    return {tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in leaves}
