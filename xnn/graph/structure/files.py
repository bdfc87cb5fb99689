"""`save_graph` and `load_graph`: a graph in one file of the format safetensors, with the names of its nodes.

The arrays are tensors named by their place, such as "nodes/year" of ``nodes={"year": ...}``. The text "graph" of the
header is JSON that says how they make the graph, and "crc32" a checksum of all of them. Nothing in a file is executed.
"""

import json
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from xjax import tree_util
from xjax.errors import bad
from xnn import safetensors
from xnn.checks import type_text
from xnn.graph.structure.graph import Graph, host
from xnn.graph.structure.masked import MaskedGraph
from xnn.graph.structure.names import NodeNames

_FORMAT, _VERSION = "xnn.graph", "1"
_KINDS = {kind.__name__: kind for kind in (Graph, MaskedGraph)}
_NAMES, _ENDS = "names of nodes", "ends of names"               # tensors: the texts joined, and where each ends


class SavedGraph(NamedTuple):
    """What a file holds: ``graph, names = load_graph(file)``; names is None for a graph that was saved without."""

    graph: Graph
    names: NodeNames | None


def save_graph(file: str | os.PathLike, graph: Graph, names: NodeNames | None = None) -> None:
    """Writes a graph, or a batch with its padding, to one file; the whole file or, where that fails, none of it.

    Args:
      graph: nodes, edges and globals may be trees of dicts, lists and tuples; other programs find the arrays in the
        file by their paths, with any reader of safetensors.
      names: of all nodes, those of padding included.
    Raises: TypeError for a traced graph, another object, and arrays or trees that the format does not have, such as
      complex numbers; ValueError for arrays that do not fit one another, and names of another number of nodes.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "papers.safetensors"
    >>> save_graph(file, Graph.from_edges([0, 1], [1, 2]), NodeNames(["bert", "gat", "gcn"]))
    >>> graph, names = load_graph(file)
    >>> graph, names.rows("gcn")
    (<Graph of 3 nodes, 2 edges>, 2)
    """
    caller = "save_graph"
    if type(graph) not in _KINDS.values():
        raise bad(caller, "this is no Graph", {"graph": type_text(graph)},
                  "make one with Graph.from_edges; of a HeteroGraph save each relation, or `joined()`.")
    has_rows, graph = graph.rows is not None, host(caller, graph.replace(rows=None))
    wrong = _fault(graph)
    if wrong:
        raise bad(caller, f"the graph is not whole: {wrong}", {"graph": repr(graph)}, "make it with Graph.from_edges.",
                  ValueError)
    tensors: dict[str, np.ndarray] = {}
    outline = {name: _outline(name, getattr(graph, name), tensors) for name in _fields(type(graph))}
    if names is not None:
        if len(names) != graph.n_nodes:
            raise bad(caller, "every node has one name", {"names": len(names), "nodes": graph.n_nodes},
                      "pass the names of all nodes, in the order of their rows.", ValueError)
        texts = [name.encode("utf-8", "surrogatepass") for name in names]
        tensors[_NAMES] = np.frombuffer(b"".join(texts), np.uint8)
        tensors[_ENDS] = np.cumsum([len(text) for text in texts], dtype=np.int64)
    text = json.dumps({"kind": type(graph).__name__, "fields": outline, "is_tuned": has_rows})
    safetensors.write(Path(file), tensors, {"format": _FORMAT, "version": _VERSION, "graph": text,
                                            "crc32": _checksum(tensors)})


def load_graph(file: str | os.PathLike) -> SavedGraph:
    """Reads a graph that `save_graph` wrote, with NumPy arrays, and the names of its nodes.

    Raises: FileNotFoundError; ValueError for a file of something else, and for a damaged one.
    """
    where, file = "load_graph", Path(file)
    if not file.is_file():
        raise bad(where, "there is no such file", {"file": str(file)}, "pass a file that save_graph wrote.",
                  FileNotFoundError)
    tensors, metadata = safetensors.read(file, where, "pass a whole file that save_graph wrote.")
    if metadata.get("format") != _FORMAT or metadata.get("version") != _VERSION:
        raise bad(where, "the file holds no graph of this version",
                  {"file": str(file), "format": f"{metadata.get('format')}, version {metadata.get('version')}",
                   "needed": f"{_FORMAT}, version {_VERSION}"}, "pass a file that save_graph wrote.", ValueError)
    tensors = {name: np.array(tensor) for name, tensor in tensors.items()}
    try:
        if _checksum(tensors) != metadata["crc32"]:
            raise ValueError("the checksum is that of other arrays")
        return _made(json.loads(metadata["graph"]), tensors)
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError) as err:
        raise bad(where, "the file is damaged", {"file": str(file), "cause": f"{type(err).__name__}: {err}"},
                  "save the graph again.", ValueError) from err


def _fields(kind: type) -> list[str]:
    return [name for name in kind.__dataclass_fields__ if name != "rows"]


def _checksum(tensors: Mapping[str, np.ndarray]) -> str:
    checksum = 0
    for _, tensor in sorted(tensors.items()):
        checksum = zlib.crc32(safetensors.as_bytes(tensor), checksum)
    return f"{checksum:08x}"


# -- trees of arrays as JSON, with the names of tensors for arrays -----------------------------------------------------


def _outline(path: str, tree: Any, tensors: dict[str, np.ndarray]) -> Any:
    if tree is None:
        return None
    if type(tree) in (list, tuple):
        return {type(tree).__name__: [_outline(f"{path}/{i}", part, tensors) for i, part in enumerate(tree)]}
    if type(tree) is dict and all(type(key) is str for key in tree):
        paths = {key: f"{path}/{key.replace('~', '~0').replace('/', '~1')}" for key in tree}     # as JSON pointers
        return {"dict": {key: _outline(paths[key], part, tensors) for key, part in tree.items()}}
    if not isinstance(tree, np.ndarray) or tree.dtype.name not in safetensors.DTYPES:
        raise bad("save_graph", "a file has no form for this part of the graph", {path: type_text(tree)},
                  "put numbers in dicts with names, lists and tuples; save other data apart.")
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


def _made(record: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> SavedGraph:
    """Raises: anything, for a record that is not one of `save_graph`."""
    kind = _KINDS[record["kind"]]
    if list(record["fields"]) != _fields(kind):
        raise ValueError(f"a {record['kind']} has the fields {', '.join(_fields(kind))}")
    graph = kind(**{name: _tree(outline, tensors) for name, outline in record["fields"].items()})
    wrong = _fault(graph)
    if wrong:
        raise ValueError(wrong)
    graph = graph.tune(form="unrolled") if record["is_tuned"] else graph
    if _NAMES not in tensors:
        return SavedGraph(graph, None)
    texts, ends = tensors[_NAMES].tobytes(), tensors[_ENDS].tolist()
    names = NodeNames(texts[begin:end].decode("utf-8", "surrogatepass")
                      for begin, end in zip([0, *ends], ends, strict=False))
    if len(names) != graph.n_nodes:
        raise ValueError(f"{len(names)} names of {graph.n_nodes} nodes")
    return SavedGraph(graph, names)


def _fault(graph: Graph) -> str | None:
    """What arrays of a graph do not fit one another; None if all do."""
    n, e, g = (int(np.sum(graph.n_node)), len(graph.senders), len(graph.n_node))
    counts = {"nodes": n, "edges": e, "globals": g, "senders": e, "receivers": e, "n_edge": g, "mask": g,
              "by_sender": e, "keep_nodes": n, "keep_edges": e}
    for name, count in counts.items():
        leaves = tree_util.tree_leaves(getattr(graph, name, None))
        if any(np.shape(leaf)[:1] != (count,) for leaf in leaves):
            return f"`{name}` has not {count} rows"
    for name in ("senders", "receivers", "n_node", "n_edge", "by_sender"):
        value, limit = getattr(graph, name), {"by_sender": e}.get(name, n)
        if value is None:
            continue
        if value.ndim != 1 or value.dtype.kind not in "iu":
            return f"`{name}` is no vector of integers"
        if value.min(initial=0) < 0 or (not name.startswith("n_") and value.max(initial=-1) >= limit):
            return f"`{name}` is out of range"
    if int(np.sum(graph.n_edge)) != e:
        return f"`n_edge` has not the sum {e}"
    ordered = graph.by_sender is None or all(
        np.all(np.diff(ends) >= 0) for ends in (graph.receivers, graph.senders[graph.by_sender]))
    return None if ordered else "the edges are not in the order that `by_sender` promises"
