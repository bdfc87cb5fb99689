"""Lists of edges: a line for each, with the ids of its two nodes, and optionally a weight and a time."""

from __future__ import annotations

import gzip
import warnings
from pathlib import Path

import numpy as np

from recipes.data.encodings import encoding_of
from recipes.data.graph_sets.files import NodeSet, make_graph, wrong
from recipes.data.limits import check_file
from recipes.errors import DataError

Column = str | int


def read_edge_list(file: Path, source: Column | None = None, target: Column | None = None, *,
                   weight: Column | None = None, time: Column | None = None, delimiter: str | None = None,
                   header: bool | None = None, both_directions: bool = False) -> NodeSet:
    """The graph of the edges; its nodes are the ends of edges, in the order of their ids.

    Ids are texts; if all ids are integers, their order is numeric. Lines that begin with # or % are comments.

    Args:
      source, target, weight, time: names of columns, or their numbers from 0. Defaults: "source" and "target" in a file
        with a header, else the first two columns.
      delimiter: None: "," for .csv, a tab for .tsv, whitespace for other files.
      header: whether the first line has the names of columns; None: in .csv and .tsv files.
      time: numbers, or dates such as 2024-05-17, which become seconds since 1970.
      both_directions: add each edge in the other direction.
    Raises: DataError.
    """
    file = Path(file)
    kind = file.with_suffix("").suffix if file.suffix == ".gz" else file.suffix
    header = kind in (".csv", ".tsv") if header is None else header
    delimiter = delimiter or {".csv": ",", ".tsv": "\t"}.get(kind)
    names, cells = _cells(file, delimiter, header)
    first, second = ("source", "target") if header else (0, 1)
    ends = [_column(file, names, cells, first if source is None else source),
            _column(file, names, cells, second if target is None else target)]
    edges = {}
    if weight is not None:
        edges["weight"] = _floats(file, _column(file, names, cells, weight), weight).astype(np.float32)
    if time is not None:
        edges["time"] = _times(file, _column(file, names, cells, time), time)
    ids, places = np.unique(_as_integers(np.concatenate(ends)), return_inverse=True)
    if ids.dtype.kind == "U" and not ids[:1].all():
        raise wrong(file, "an edge has an empty id", {"edge": int(np.flatnonzero(places == 0)[0]) % len(cells) + 1},
                    "an id at both ends of each edge.")
    senders, receivers = places[:len(cells)], places[len(cells):]
    if both_directions:
        senders, receivers = np.append(senders, receivers), np.append(receivers, senders)
        edges = {name: np.append(values, values) for name, values in edges.items()}
    graph = make_graph(senders, receivers, None, edges or None, len(ids), file)
    times = graph.edges.get("time") if edges else None
    return NodeSet(graph.replace(edges=graph.edges.get("weight") if edges else None), None, {}, ids, times)


def _cells(file: Path, delimiter: str | None, header: bool) -> tuple[list[str] | None, np.ndarray]:
    """(names of the columns, texts [rows, columns])."""
    if not file.is_file():
        raise wrong(file, "the file is missing", {}, "PATH of a list of edges.")
    try:
        check_file(file)
        packed = file.suffix == ".gz"
        encoding = "utf-8-sig" if packed else encoding_of(file)
        with (gzip.open if packed else open)(file, "rt", encoding=encoding) as lines, \
                warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)          # of an empty file
            kept = (line for line in lines if not line.startswith(("#", "%")))       # an id may have "#" in it
            rows = np.loadtxt(kept, str, delimiter=delimiter, comments=None, quotechar='"', ndmin=2)
    except DataError:
        raise
    except Exception as err:                                      # NumPy, gzip and zlib raise many types
        raise wrong(file, "the file cannot be read", {"why": f"{type(err).__name__}: {' '.join(str(err).split())}"},
                    "the same number of values in each line; delimiter=',' if commas separate them.") from None
    rows = np.strings.strip(rows)
    names = rows[0].tolist() if header and len(rows) else None
    rows = rows[1:] if header else rows
    if not len(rows) or rows.shape[1] < 2:
        raise wrong(file, "there are no edges", {"lines": len(rows), "columns": rows.shape[1]},
                    "a line for each edge, with two ids; delimiter=',' if commas separate them.")
    return names, rows


def _column(file: Path, names: list[str] | None, cells: np.ndarray, which: Column) -> np.ndarray:
    if isinstance(which, int) and 0 <= which < cells.shape[1]:
        return cells[:, which]
    if names is None or names.count(which) != 1:
        raise wrong(file, f"there is not exactly one column {which!r}",
                    {"columns": ", ".join(names) if names else f"0 to {cells.shape[1] - 1}, without names"},
                    "the name of a column, or its number from 0; header=True if the first line has names.")
    return cells[:, names.index(which)]


def _as_integers(texts: np.ndarray) -> np.ndarray:
    try:
        values = texts.astype(np.int64)
    except (ValueError, OverflowError):
        return texts
    return values if (values.astype(str) == texts).all() else texts                  # "007" is not "7"


def _floats(file: Path, texts: np.ndarray, name: Column) -> np.ndarray:
    try:
        values = texts.astype(np.float64)
    except ValueError as err:
        raise wrong(file, f"the column {name!r} does not hold numbers", {"why": err}, "another column.") from None
    if not np.isfinite(values).all():
        raise wrong(file, f"the column {name!r} has NaN or infinite values", {}, "finite numbers.")
    return values


def _times(file: Path, texts: np.ndarray, name: Column) -> np.ndarray:
    try:
        if "-" in texts[0][1:]:                                   # a date; a number may begin with a sign
            return texts.astype("datetime64[s]").astype(np.int64)
        return _floats(file, texts, name)
    except ValueError as err:
        raise wrong(file, f"the column {name!r} does not hold times", {"why": err},
                    "numbers, or dates such as 2024-05-17T12:00:00.") from None
