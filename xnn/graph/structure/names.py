"""`NodeNames`: the names of the nodes of a graph, with lookup from a name to its row and back."""

import difflib
from collections.abc import Iterable, Iterator
from typing import Any, overload

import numpy as np

from xjax.errors import bad

_SEARCHED = 20_000              # largest number of names that are searched for similar ones, which takes 0.1 s


class NodeNames:
    """The names of the nodes of a graph, such as the ids of a table; node i is called ``names[i]``.

    `save_graph` stores them with the graph. The names of a subgraph are ``NodeNames(names[ids])``, where ids are the
    rows that it kept. `Graph.to_networkx` takes names as labels.

    Args: names: one string for each node, in the order of the rows.
    Raises: TypeError for a name that is not a string; ValueError for a name that two nodes have.

    >>> names = NodeNames(["bert", "gat", "gcn"])
    >>> names.rows(["gcn", "bert"]), names.rows("gat")
    (array([2, 0], dtype=int32), 1)
    >>> names[2], names[[1, 0]], "gat" in names, len(names)
    ('gcn', ['gat', 'bert'], True, 3)
    """

    __slots__ = ("_names", "_rows")

    def __init__(self, names: Iterable[str]) -> None:
        if isinstance(names, str):
            raise bad("NodeNames", "needs one name for each node", {"names": repr(names)}, f"pass [{names!r}].")
        names = list(names)
        others = [name for name in names if not isinstance(name, str)]
        if others:
            raise bad("NodeNames", "a name must be a string", {"given": repr(others[0])}, "pass map(str, names).")
        self._names = tuple(map(str, names))                             # the names in an array are NumPy strings
        self._rows = {name: row for row, name in enumerate(self._names)}
        if len(self._rows) < len(self._names):
            twice = next(name for row, name in enumerate(self._names) if self._rows[name] != row)
            raise bad("NodeNames", f"two nodes are called {twice!r}",
                      {"names": len(self._names), "different": len(self._rows)}, "give each node a name of its own.",
                      ValueError)

    @overload
    def rows(self, names: str) -> int: ...

    @overload
    def rows(self, names: Iterable[str]) -> np.ndarray: ...

    def rows(self, names: str | Iterable[str]) -> int | np.ndarray:
        """The row of a name, or int32[k] for several names.  Raises: LookupError for a name that no node has."""
        wanted = [names] if isinstance(names, str) else list(names)
        unknown = self.unknown(wanted)
        if unknown:
            near = self.similar(unknown[0])
            raise bad("NodeNames.rows", f"no node is called {unknown[0]!r}",
                      {"unknown": f"{len(unknown)} of {len(set(wanted))} names", "similar": ", ".join(near) or "none"},
                      "pass names of nodes; `names.unknown(...)` lists the others.", LookupError)
        if isinstance(names, str):
            return self._rows[names]
        return np.array([self._rows[name] for name in wanted], np.int32)

    def unknown(self, names: Iterable[str]) -> list[str]:
        """The names that no node has, without repetition, in the given order."""
        return [name for name in dict.fromkeys(names) if name not in self._rows]

    def similar(self, name: str) -> list[str]:
        """At most three names similar to this one; an empty list if there are too many names to compare with."""
        return difflib.get_close_matches(name, self._names, 3) if len(self) <= _SEARCHED else []

    @overload
    def __getitem__(self, rows: int | np.integer) -> str: ...

    @overload
    def __getitem__(self, rows: slice | Iterable[int]) -> list[str]: ...

    def __getitem__(self, rows: Any) -> str | list[str]:
        """The name of a row; a list of names for several rows: int[k], bool[n] or a slice.  Raises: IndexError."""
        rows = np.arange(len(self))[rows]
        return self._names[rows] if rows.ndim == 0 else [self._names[row] for row in rows.tolist()]

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeNames) and self._names == other._names

    def __hash__(self) -> int:
        return hash(self._names)

    def __repr__(self) -> str:
        few = [repr(name) for name in self._names[:3]] + ["..."] * (len(self) > 3)
        return f"<NodeNames of {len(self)} nodes: {', '.join(few)}>"
