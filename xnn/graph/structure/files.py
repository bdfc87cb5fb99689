"""`save_graph` and `load_graph`: a graph, and optionally the names of its nodes, in one safetensors file.

Each array is a tensor named by its path, such as "nodes/year" for ``nodes={"year": ...}``. In the header, "graph" is
JSON that describes how the tensors form the graph, and "crc32" is a checksum of all tensors. Loading executes no code.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from xjax import tree_util
from xjax.errors import bad
from xjax.typing import PyTree
from xnn import safetensors
from xnn.checks import type_text
from xnn.graph.structure.graph import Graph, host
from xnn.graph.structure.masked import MaskedGraph
from xnn.graph.structure.names import NodeNames

_FORMAT, _VERSION = "xnn.graph", "1"
_KINDS = {kind.__name__: kind for kind in (Graph, MaskedGraph)}
_NAMES, _ENDS = "names of nodes", "ends of names"               # tensors: the joined names, and the end of each


class SavedGraph(NamedTuple):
    """The contents of a file: ``graph, names = load_graph(file)``; names is None if none were saved."""

    graph: Graph
    names: NodeNames | None


def save_graph(file: str | os.PathLike, graph: Graph, names: NodeNames | None = None) -> None:
    """Writes a graph, or a batch with its padding, to one file. If writing fails, no partial file remains.

    Args:
      graph: nodes, edges and globals may be pytrees of dicts, lists and tuples; other programs can read the arrays by
        their paths, with any safetensors reader.
      names: the names of all nodes, padding included.
    Raises: TypeError if the graph is traced or not a `Graph`, and for dtypes or containers that the format does not
      support, such as complex128; ValueError if the arrays are inconsistent, or the number of names is wrong.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "papers.safetensors"
    >>> save_graph(file, Graph.from_edges([0, 1], [1, 2]), NodeNames(["bert", "gat", "gcn"]))
    >>> graph, names = load_graph(file)
    >>> graph, names.rows("gcn")
    (<Graph of 3 nodes, 2 edges>, 2)
    """
    caller = "save_graph"
    if type(graph) not in _KINDS.values():
        raise bad(caller, "this is not a Graph", {"graph": type_text(graph)},
                  "make one with Graph.from_edges; of a HeteroGraph save each relation, or `joined()`.")
    has_rows, graph = graph.rows is not None, host(caller, graph.replace(rows=None))
    fault = _fault(graph)
    if fault:
        raise bad(caller, f"the graph is not valid: {fault}", {"graph": repr(graph)}, "make it with Graph.from_edges.",
                  ValueError)
    tensors: dict[str, np.ndarray] = {}
    outline = {name: _outline(name, getattr(graph, name), tensors) for name in _fields(type(graph))}
    if names is not None:
        if len(names) != graph.n_nodes:
            raise bad(caller, "every node must have one name", {"names": len(names), "nodes": graph.n_nodes},
                      "pass the names of all nodes, in the order of their rows.", ValueError)
        texts = [name.encode("utf-8", "surrogatepass") for name in names]
        tensors[_NAMES] = np.frombuffer(b"".join(texts), np.uint8)
        tensors[_ENDS] = np.cumsum([len(text) for text in texts], dtype=np.int64)
    text = json.dumps({"kind": type(graph).__name__, "fields": outline, "is_tuned": has_rows})
    safetensors.write(Path(file), tensors, {"format": _FORMAT, "version": _VERSION, "graph": text,
                                            "crc32": _checksum(tensors)})


def load_graph(file: str | os.PathLike) -> SavedGraph:
    """Reads a graph that `save_graph` wrote, with NumPy arrays, and the names of its nodes.

    Raises: FileNotFoundError; ValueError if the file has another format, or is damaged.
    """
    caller, file = "load_graph", Path(file)
    if not file.is_file():
        raise bad(caller, "there is no such file", {"file": str(file)}, "pass a file that save_graph wrote.",
                  FileNotFoundError)
    tensors, metadata = safetensors.read(file, caller, "pass a complete file that save_graph wrote.")
    if metadata.get("format") != _FORMAT or metadata.get("version") != _VERSION:
        raise bad(caller, "the file does not contain a graph in this version's format",
                  {"file": str(file), "format": f"{metadata.get('format')}, version {metadata.get('version')}",
                   "needed": f"{_FORMAT}, version {_VERSION}"}, "pass a file that save_graph wrote.", ValueError)
    tensors = {name: np.array(tensor) for name, tensor in tensors.items()}
    try:
        if _checksum(tensors) != metadata["crc32"]:
            raise ValueError("the checksum does not match the arrays")
        return _rebuilt(json.loads(metadata["graph"]), tensors)
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError) as err:
        raise bad(caller, "the file is damaged", {"file": str(file), "cause": f"{type(err).__name__}: {err}"},
                  "save the graph again.", ValueError) from err


def _fields(kind: type) -> list[str]:
    return [name for name in kind.__dataclass_fields__ if name != "rows"]


def _checksum(tensors: Mapping[str, np.ndarray]) -> str:
    checksum = 0
    for _, tensor in sorted(tensors.items()):
        checksum = zlib.crc32(safetensors.as_bytes(tensor), checksum)
    return f"{checksum:08x}"


# -- pytrees as JSON, with an array replaced by the name of its tensor -------------------------------------------------


def _outline(path: str, tree: PyTree, tensors: dict[str, np.ndarray]) -> Any:
    if tree is None:
        return None
    if type(tree) in (list, tuple):
        return {type(tree).__name__: [_outline(f"{path}/{i}", part, tensors) for i, part in enumerate(tree)]}
    if type(tree) is dict and all(type(key) is str for key in tree):
        paths = {key: f"{path}/{key.replace('~', '~0').replace('/', '~1')}" for key in tree}     # as JSON pointers
        return {"dict": {key: _outline(paths[key], part, tensors) for key, part in tree.items()}}
    if not isinstance(tree, np.ndarray) or tree.dtype.name not in safetensors.DTYPES:
        raise bad("save_graph", "this part of the graph cannot be saved", {path: type_text(tree)},
                  "use arrays of numbers in lists, tuples, and dicts with string keys; save other data separately.")
    tensors[path] = tree
    return path


def _tree(outline: Any, tensors: Mapping[str, np.ndarray]) -> Any:
    if outline is None:
        return None
    if isinstance(outline, str):
        return tensors[outline]
    (kind, parts), = outline.items()
    if kind == "dict":
        return {key: _tree(part, tensors) for key, part in parts.items()}
    return {"list": list, "tuple": tuple}[kind](_tree(part, tensors) for part in parts)


# -- the parts of a graph ----------------------------------------------------------------------------------------------


def _rebuilt(record: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> SavedGraph:
    """The graph that a header describes. A header that `save_graph` did not write may raise any exception."""
    kind = _KINDS[record["kind"]]
    if list(record["fields"]) != _fields(kind):
        raise ValueError(f"a {record['kind']} has the fields {', '.join(_fields(kind))}")
    graph = kind(**{name: _tree(outline, tensors) for name, outline in record["fields"].items()})
    fault = _fault(graph)
    if fault:
        raise ValueError(fault)
    graph = graph.tune(form="unrolled") if record["is_tuned"] else graph
    if _NAMES not in tensors:
        return SavedGraph(graph, None)
    texts, ends = tensors[_NAMES].tobytes(), tensors[_ENDS].tolist()
    names = NodeNames(texts[begin:end].decode("utf-8", "surrogatepass")
                      for begin, end in zip([0, *ends], ends, strict=False))
    if len(names) != graph.n_nodes:
        raise ValueError(f"{len(names)} names for {graph.n_nodes} nodes")
    return SavedGraph(graph, names)


def _fault(graph: Graph) -> str | None:
    """A description of the first inconsistency among the arrays of a graph; None if there is none."""
    n, e, g = (int(np.sum(graph.n_node)), len(graph.senders), len(graph.n_node))
    counts = {"nodes": n, "edges": e, "globals": g, "senders": e, "receivers": e, "n_edge": g, "mask": g,
              "by_sender": e, "keep_nodes": n, "keep_edges": e}
    for name, count in counts.items():
        leaves = tree_util.tree_leaves(getattr(graph, name, None))
        if any(np.shape(leaf)[:1] != (count,) for leaf in leaves):
            return f"`{name}` does not have {count} rows"
    for name in ("senders", "receivers", "n_node", "n_edge", "by_sender"):
        value, limit = getattr(graph, name), {"by_sender": e}.get(name, n)
        if value is None:
            continue
        if value.ndim != 1 or value.dtype.kind not in "iu":
            return f"`{name}` is not a vector of integers"
        if value.min(initial=0) < 0 or (not name.startswith("n_") and value.max(initial=-1) >= limit):
            return f"`{name}` is out of range"
    if int(np.sum(graph.n_edge)) != e:
        return f"the sum of `n_edge` is not {e}"
    ordered = graph.by_sender is None or all(
        np.all(np.diff(ends) >= 0) for ends in (graph.receivers, graph.senders[graph.by_sender]))
    return None if ordered else "the edges are not sorted by receiver, or `by_sender` does not sort them by sender"
