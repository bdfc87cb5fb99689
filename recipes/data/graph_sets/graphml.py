"""GraphML files, read by networkx.

A file with a document type is refused: its entities can expand without bound, or refer to other files.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.parsers import expat

import numpy as np

from recipes.data.graph_sets.files import NodeSet, classes_of, make_graph, wrong
from recipes.data.layout import Layout
from recipes.data.tables import Table
from recipes.lazy import nx, pa


def read_graphml(file: Path, *, features: Sequence[str] | None = None, label: str | None = None,
                 weight: str | None = None) -> NodeSet:
    """Reads the one graph of the file. An undirected edge becomes two edges, one in each direction.

    Args:
      features: names of numeric data of nodes; None: all numeric data that every node has, except the label.
      label: name of the data with the class of a node, -1 for nodes without it. Classes are numbered in order.
      weight: name of numeric data of edges.
    Raises: DataError.
    """
    graph = _parsed(Path(file))
    places = {name: i for i, name in enumerate(graph)}
    rows = [graph.nodes[name] for name in graph]
    if features is None:
        shared = set.intersection(*map(set, rows)) if rows else set()
        features = sorted(name for name in shared - {label} if all(_is_number(row[name]) for row in rows))
    x = np.array([[_number(file, row, name, "node") for name in features] for row in rows], np.float32)
    labels = None if label is None else _classes(file, rows, label)
    ends = list(graph.edges(data=True))
    senders, receivers = (np.array([places[edge[i]] for edge in ends], np.int64) for i in (0, 1))
    weights = None
    if weight is not None:
        weights = np.array([_number(file, edge[2], weight, "edge") for edge in ends], np.float32)
    if not graph.is_directed():
        both = np.concatenate([np.arange(len(ends)), np.flatnonzero(senders != receivers)])   # a loop is one edge
        turned = np.arange(len(both)) >= len(ends)
        senders, receivers = (np.where(turned, one[both], other[both])
                              for one, other in ((receivers, senders), (senders, receivers)))
        weights = None if weights is None else weights[both]
    made = make_graph(senders, receivers, x if features else None, weights, len(rows), Path(file))
    return NodeSet(made, labels, {}, np.array(list(map(str, graph))))


def read_graphml_tables(file: Path) -> tuple[Table, Table]:
    """(nodes, edges) as tables: id and the data of each node; source, target and the data of each edge.

    Raises: DataError.
    """
    graph = _parsed(Path(file))
    nodes = [{**data, "id": str(name)} for name, data in graph.nodes(data=True)]
    edges = [{**data, "source": str(source), "target": str(target)} for source, target, data in graph.edges(data=True)]
    return _table(file, nodes, ["id"]), _table(file, edges, ["source", "target"])


def _table(file: Path, rows: Sequence[Mapping[str, Any]], names: Iterable[str]) -> Table:
    """Rows as a table; data that a row lacks are gaps. Args: names: of columns that exist without rows too."""
    names = dict.fromkeys([*names, *(name for row in rows for name in row)])
    return Table(Path(file), pa.table({name: _array([row.get(name) for row in rows]) for name in names}), Layout())


def _array(values: list[Any]) -> pa.Array:
    """Numbers and booleans by their type; a column with any text is text."""
    if any(isinstance(value, str) for value in values) or not values:
        return pa.array([None if value is None else str(value) for value in values], pa.large_string())
    return pa.array(values)


def _parsed(file: Path) -> nx.Graph:
    if not file.is_file():
        raise wrong(file, "the file is missing", {}, "PATH of a GraphML file.")
    content = file.read_bytes()
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = _refuse                      # called before any entity is declared or read
    try:
        parser.Parse(content, True)
        return nx.read_graphml(io.BytesIO(content))
    except _DoctypeError:
        raise wrong(file, "the file declares a document type, which GraphML does not need; nothing was read", {},
                    "do not use this file, or remove the line <!DOCTYPE ...>.") from None
    except Exception as err:                                      # networkx raises errors of many types
        raise wrong(file, "the file is not GraphML", {"why": f"{type(err).__name__}: {err}"},
                    "a file with one <graph> in <graphml>.") from None


class _DoctypeError(Exception):
    """The file declares a document type."""


def _refuse(*_: object) -> None:
    raise _DoctypeError


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and bool(np.isfinite(value))


def _number(file: Path, data: dict, name: str, of: str) -> float:
    value = data.get(name)
    if not _is_number(value):
        raise wrong(Path(file), f"the data {name!r} of a {of} is not a number",
                    {name: repr(value), "it has": ", ".join(map(str, data))}, f"a number for each {of}, or other data.")
    return float(value)


def _classes(file: Path, rows: list[dict], label: str) -> np.ndarray:
    values = np.array([str(row.get(label, "")) for row in rows])
    known = values != ""
    if not known.any():
        raise wrong(Path(file), f"no node has the data {label!r}", {}, "the name of other data.")
    labels = np.full(len(rows), -1, np.int32)
    labels[known] = classes_of(values[known])[1]
    return labels
