"""Arrays of a graph on the host: conversion, and checks of their shapes."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from xjax import dtypes, tree_util
from xjax.errors import TracerArrayConversionError, bad
from xjax.typing import PyTree
from xnn.checks import type_text

_MANY = 50_000                 # number of keys from which a counting sort justifies loading SciPy


def as_arrays(tree: PyTree) -> PyTree:
    """A pytree whose leaves are arrays: lists of numbers become NumPy arrays."""
    return tree_util.tree_map(lambda x: x if hasattr(x, "shape") else np.asarray(x), tree,
                              is_leaf=lambda x: isinstance(x, list))


def canonical(x: Any) -> np.ndarray:
    """An array of any library as a NumPy array of the dtype that a device uses: without x64 mode float64 -> float32.

    A PyTorch tensor is detached first.
    """
    x = np.asarray(x.detach().cpu() if hasattr(x, "detach") else x)
    return x.astype(dtypes.canonicalize_dtype(x.dtype), copy=False)


def host(caller: str, graph: Any) -> Any:
    """The graph with NumPy arrays, for work on its structure. Raises: TypeError if it is traced."""
    try:
        return tree_util.tree_map(np.asarray, graph)
    except TracerArrayConversionError as err:
        raise bad(caller, "the graph is traced, but its structure must be concrete", {"graph": repr(graph)},
                  "call it outside jit.") from err


def without_padding(caller: str, graph: Any) -> Any:
    """The graph on the host. Raises: ValueError if it has padding."""
    graph = host(caller, graph)
    if graph.mask is not None and not np.all(graph.mask):
        raise bad(caller, "the graph has padding", {"graph": repr(graph)},
                  "call it before pad, or on the graphs of unbatch(graph).", ValueError)
    return graph


def host_indices(caller: str, name: str, x: Any) -> np.ndarray:
    """x as a NumPy vector of integers. Raises: TypeError if it is traced, or not a vector of integers."""
    try:
        x = np.asarray(x)
    except TracerArrayConversionError as err:
        raise bad(caller, f"{name} is traced, but the structure of a graph must be concrete", {name: type_text(x)},
                  "make the graph outside jit and pass it in: it is a pytree.") from err
    x = x.astype(np.int32) if x.size == 0 else x                    # np.asarray([]) is float64
    if x.ndim != 1 or x.dtype.kind not in "iu":
        raise bad(caller, f"{name} must be a vector of integers", {name: type_text(x)}, "pass int[e].")
    return x.astype(np.int64) if x.dtype.kind == "u" else x


def indices_or_mask(caller: str, name: str, ids: Any, count: int) -> np.ndarray:
    """Indices below `count`, from indices or from bool[count]. Raises: ValueError if an index is out of range."""
    ids = host(caller, ids) if hasattr(ids, "shape") else np.asarray(ids)
    if ids.dtype == bool and ids.shape == (count,):
        return np.flatnonzero(ids)
    ids = host_indices(caller, name, ids)
    if len(ids) and (ids.min() < 0 or ids.max() >= count):
        raise bad(caller, f"`{name}` is out of range", {name: f"{ids.min()} to {ids.max()}", "count": count},
                  f"pass numbers from 0 to {count - 1}.", ValueError)
    return ids


def row_count(caller: str, name: str, tree: PyTree) -> int | None:
    """Number of rows of the arrays of a pytree; None if it has no leaves. Raises: ValueError if the leaves differ."""
    lengths = {np.shape(leaf)[:1] for leaf in tree_util.tree_leaves(as_arrays(tree))}
    if len(lengths) > 1 or () in lengths:
        raise bad(caller, f"the arrays of `{name}` differ in their number of rows", {name: tree_text(tree)},
                  "pass arrays with equal numbers of rows.", ValueError)
    return lengths.pop()[0] if lengths else None


def tree_text(tree: PyTree) -> str:
    """The types of the arrays of a pytree, for messages."""
    if isinstance(tree, Mapping):
        return "{" + ", ".join(f"{key}: {tree_text(value)}" for key, value in tree.items()) + "}"
    return type_text(tree)


def stable_order(keys: np.ndarray, count: int) -> np.ndarray:
    """``np.argsort(keys, kind="stable")`` of keys below `count`; in linear time if there are many keys."""
    if len(keys) < _MANY:
        return np.argsort(keys, kind="stable")
    # CSR to CSC conversion of a matrix with one entry in each row is a counting sort; at 10^6 keys it takes a tenth of
    # the time of argsort.
    places = np.arange(len(keys) + 1)
    rows = library("scipy.sparse").csr_array((places[:-1], keys, places), shape=(len(keys), count))
    return rows.tocsc().data


def edge_order(senders: np.ndarray, receivers: np.ndarray, n_nodes: int) -> np.ndarray:
    """The stable order by receiver, then by sender: ``np.lexsort((senders, receivers))``."""
    order = stable_order(senders, n_nodes)
    return order[stable_order(receivers[order], n_nodes)]


def library(name: str, caller: str = "") -> Any:
    """Imports an optional or slow module, such as SciPy's, on first use. Raises: ImportError if it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError as err:
        package = name.partition(".")[0]
        raise bad(caller, f"{package} is not installed", {"import": str(err)}, f"pip install {package}.",
                  ImportError) from err
