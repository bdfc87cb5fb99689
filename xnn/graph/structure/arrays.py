"""Arrays of a graph on the host: conversion, and checks of their shapes."""

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from xjax import dtypes, tree_util
from xjax.errors import TracerArrayConversionError, bad
from xnn.checks import type_text

_MANY = 50_000                 # keys from which counting is worth loading SciPy


def as_arrays(tree: Any) -> Any:
    """A tree whose leaves are arrays: lists of numbers become NumPy's."""
    return tree_util.tree_map(lambda x: x if hasattr(x, "shape") else np.asarray(x), tree,
                              is_leaf=lambda x: isinstance(x, list))


def canonical(x: Any) -> np.ndarray:
    """An array of any library on the host, of the type that it gets on a device: float32 for float64 without x64 mode.

    A tensor of PyTorch is taken without its gradient.
    """
    x = np.asarray(x.detach().cpu() if hasattr(x, "detach") else x)
    return x.astype(dtypes.canonicalize_dtype(x.dtype), copy=False)


def host(caller: str, graph: Any) -> Any:
    """The graph with NumPy arrays, for work on its structure. Raises: TypeError if it is traced."""
    try:
        return tree_util.tree_map(np.asarray, graph)
    except TracerArrayConversionError as err:
        raise bad(caller, "the graph is traced, but its structure must be known", {"graph": repr(graph)},
                  "call it outside jit.") from err


def without_padding(caller: str, graph: Any) -> Any:
    """The graph on the host. Raises: ValueError if it has padding."""
    graph = host(caller, graph)
    if graph.mask is not None and not np.all(graph.mask):
        raise bad(caller, "the graph has padding", {"graph": repr(graph)},
                  "call it before pad, or on the graphs of unbatch(graph).", ValueError)
    return graph


def host_indices(caller: str, name: str, x: Any) -> np.ndarray:
    """A known vector of integers. Raises: TypeError if it is traced or something else."""
    try:
        x = np.asarray(x)
    except TracerArrayConversionError as err:
        raise bad(caller, f"{name} is traced, but the structure of a graph must be known", {name: type_text(x)},
                  "make the graph outside jit and pass it in: it is a pytree.") from err
    x = x.astype(np.int32) if x.size == 0 else x                    # an empty list is float64 to NumPy
    if x.ndim != 1 or x.dtype.kind not in "iu":
        raise bad(caller, f"{name} must be a vector of integers", {name: type_text(x)}, "pass int[e].")
    return x.astype(np.int64) if x.dtype.kind == "u" else x


def indices_or_mask(caller: str, name: str, ids: Any, count: int) -> np.ndarray:
    """Indices below `count`, from such or from bool[count]. Raises: ValueError if one is out of range."""
    ids = host(caller, ids) if hasattr(ids, "shape") else np.asarray(ids)
    if ids.dtype == bool and ids.shape == (count,):
        return np.flatnonzero(ids)
    ids = host_indices(caller, name, ids)
    if len(ids) and (ids.min() < 0 or ids.max() >= count):
        raise bad(caller, f"`{name}` is out of range", {name: f"{ids.min()} to {ids.max()}", "count": count},
                  f"pass numbers from 0 to {count - 1}.", ValueError)
    return ids


def row_count(caller: str, name: str, tree: Any) -> int | None:
    """Number of rows of a tree of arrays; None for a tree without. Raises: ValueError if leaves differ in it."""
    lengths = {np.shape(leaf)[:1] for leaf in tree_util.tree_leaves(as_arrays(tree))}
    if len(lengths) > 1 or () in lengths:
        raise bad(caller, f"the arrays of `{name}` differ in their number of rows", {name: tree_text(tree)},
                  "pass arrays with one row for each.", ValueError)
    return lengths.pop()[0] if lengths else None


def tree_text(tree: Any) -> str:
    """The types of the arrays of a tree, for messages."""
    if isinstance(tree, Mapping):
        return "{" + ", ".join(f"{key}: {tree_text(value)}" for key, value in tree.items()) + "}"
    return type_text(tree)


def stable_order(keys: np.ndarray, count: int) -> np.ndarray:
    """``np.argsort(keys, kind="stable")`` of keys below `count`; of many keys in time that grows with their number."""
    if len(keys) < _MANY:
        return np.argsort(keys, kind="stable")
    # A matrix with one entry in each row, brought to columns, is a counting sort: a tenth of the time at 10^6 keys.
    places = np.arange(len(keys) + 1)
    rows = library("scipy.sparse").csr_array((places[:-1], keys, places), shape=(len(keys), count))
    return rows.tocsc().data


def edge_order(senders: np.ndarray, receivers: np.ndarray, n_nodes: int) -> np.ndarray:
    """The order by receiver, then by sender; repeated edges as they are: ``np.lexsort((senders, receivers))``."""
    order = stable_order(senders, n_nodes)
    return order[stable_order(receivers[order], n_nodes)]


def library(name: str, caller: str = "") -> Any:
    """A module that is optional or slow to load, as SciPy's are: on demand. Raises: ImportError if it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError as err:
        package = name.partition(".")[0]
        raise bad(caller, f"{package} is not installed", {"import": str(err)}, f"pip install {package}.",
                  ImportError) from err
