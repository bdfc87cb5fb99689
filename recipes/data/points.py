"""Examples as the inputs of a kernel: rows of an array, nodes of a graph, or graphs.

Each kind computes its kernels within a bound of memory. It is saved as arrays, from which `points_from` makes it again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from recipes.errors import RecipeError
from recipes.lazy import sp, xjax, xnn
from xnn.sizes import bytes_of

if TYPE_CHECKING:
    from xjax.typing import PyTree
    from xnn import Layer

GRAPHS_OF_A_BLOCK = 64


@dataclass(frozen=True)
class Limit:
    """The kernel of a model of infinite width.

    Attributes:
      name, parameterization, dtype, memory_budget: see `recipes.config.Kernel`.
      progress: ``(parts done, number of parts)``.
    """

    model: Layer
    name: str
    parameterization: str = "standard"
    dtype: str = "float64"
    memory_budget: str = "1GB"
    devices: list[Any] = field(default_factory=list)
    progress: Callable[[int, int], None] = lambda done, total: None

    @contextlib.contextmanager
    def precision(self) -> Iterator[None]:
        """The mode in which arrays have the dtype of the kernel."""
        with xjax.enable_x64(self.dtype == "float64"):
            yield

    def of(self, *x: PyTree, **inputs: PyTree) -> PyTree:
        """The kernel on arrays."""
        return self.model.kernel(*x, get=self.name, parameterization=self.parameterization, **inputs)

    def compiled(self, *args: PyTree) -> Callable[..., Any]:
        """The kernel of arguments ``(x, graph)`` or ``(x1, x2, graph1, graph2)`` like these, as a program.

        Raises: RecipeError if it needs more memory than the budget.
        """
        program = xjax.jit(self._on_graphs).lower(*args).compile()
        stats: Any = program.memory_analysis()
        needed = stats.temp_size_in_bytes + stats.output_size_in_bytes + stats.argument_size_in_bytes
        if needed > (budget := bytes_of(self.memory_budget)):
            raise TooLarge("kernel", "the kernel of these graphs needs more memory than the budget.",
                           {"bytes": f"{needed:.3g}", "kernel.memory_budget": f"{budget:.3g}"},
                           fix=f"kernel.memory_budget={-(-needed // 10**6):.0f}MB, if the machine has it.")
        return program

    def _on_graphs(self, *args: PyTree) -> PyTree:
        name = self.model.extra_inputs[0]
        if len(args) == 2:
            return self.of(args[0], **{name: args[1]})
        return self.of(*args[:2], **{name: args[2:]})


class TooLarge(RecipeError):
    """A kernel needs more memory than it may have."""


class Points(Protocol):
    """Examples as the inputs of a kernel."""

    def __len__(self) -> int: ...

    def arrays(self) -> dict[str, np.ndarray]:
        """All data, for a file."""
        ...

    def kernels(self, limit: Limit, others: PyTree) -> tuple[np.ndarray, np.ndarray]:
        """The kernel [n, n] of these points, and that of other points with them [m, n]."""
        ...

    def against(self, limit: Limit, others: PyTree) -> np.ndarray:
        """The kernel [n, m] of these points with others."""
        ...

    def variances(self, limit: Limit) -> np.ndarray:
        """The diagonal [n] of the kernel of these points."""
        ...


class RowPoints:
    """Examples that are rows of an array, independent of each other.  Args: x: [n, ...]."""

    def __init__(self, x: np.ndarray) -> None:
        self.x = x

    def __len__(self) -> int:
        return len(self.x)

    def arrays(self) -> dict[str, np.ndarray]:
        return {"x": self.x}

    @staticmethod
    def joined(parts: list[RowPoints]) -> RowPoints:
        return RowPoints(np.concatenate([part.x for part in parts]))

    def kernels(self, limit: Limit, others: RowPoints) -> tuple[np.ndarray, np.ndarray]:
        return self._tiled(limit, None), others.against(limit, self)

    def against(self, limit: Limit, others: RowPoints) -> np.ndarray:
        return self._tiled(limit, others)

    def _tiled(self, limit: Limit, others: RowPoints | None) -> np.ndarray:
        if not len(self) or (others is not None and not len(others)):
            return np.zeros((len(self), len(self if others is None else others)))
        with limit.precision():
            return xnn.kernels.tiled_kernel(
                limit.model, self.x.astype(limit.dtype), None if others is None else others.x.astype(limit.dtype),
                get=limit.name, parameterization=limit.parameterization, memory_budget=limit.memory_budget,
                devices=limit.devices or None, progress=limit.progress)

    def variances(self, limit: Limit) -> np.ndarray:
        with limit.precision():
            return np.asarray(xjax.jit(lambda x: xjax.lax.map(lambda row: limit.of(row[None])[0, 0], x))(
                self.x.astype(limit.dtype)))


class NodePoints:
    """Nodes of one graph, whose kernel is computed for all its nodes together.

    Args: x: csr[n, f], features; adjacency: csr[n, n], as the model takes it; ids: the nodes that are examples.
    """

    def __init__(self, x: sp.spmatrix, adjacency: sp.spmatrix, ids: np.ndarray) -> None:
        self.x, self.adjacency, self.ids = sp.csr_matrix(x), sp.csr_matrix(adjacency), np.asarray(ids)

    def __len__(self) -> int:
        return len(self.ids)

    def arrays(self) -> dict[str, np.ndarray]:
        arrays = {"ids": self.ids.astype(np.int64)}
        for name, matrix in (("x", self.x), ("adjacency", self.adjacency)):
            arrays |= {f"{name}/data": matrix.data, f"{name}/indices": matrix.indices, f"{name}/indptr": matrix.indptr,
                       f"{name}/shape": np.array(matrix.shape, np.int64)}
        return arrays

    @staticmethod
    def joined(parts: list[NodePoints]) -> NodePoints:
        """Nodes of several splits of one graph."""
        return NodePoints(parts[0].x, parts[0].adjacency, np.concatenate([part.ids for part in parts]))

    def kernels(self, limit: Limit, others: NodePoints) -> tuple[np.ndarray, np.ndarray]:
        """See `Points`.  Args: others: nodes of the same graph."""
        with limit.precision():
            inputs = self._inputs(limit)
            whole = np.asarray(limit.compiled(*inputs)(*inputs))
        limit.progress(1, 1)
        return whole[np.ix_(self.ids, self.ids)], whole[np.ix_(others.ids, self.ids)]

    def against(self, limit: Limit, others: NodePoints) -> np.ndarray:
        """See `Points`.  Args: others: nodes of this graph or of another one."""
        with limit.precision():
            (x1, adj1), (x2, adj2) = self._inputs(limit), others._inputs(limit)
            whole = np.asarray(limit.compiled(x1, x2, adj1, adj2)(x1, x2, adj1, adj2))
        return whole[np.ix_(self.ids, others.ids)]

    def variances(self, limit: Limit) -> np.ndarray:
        return np.diagonal(self.kernels(limit, self)[0])

    def _inputs(self, limit: Limit) -> tuple[Any, Any]:
        return (self.x.toarray().astype(limit.dtype), xnn.CSR.from_scipy(self.adjacency.astype(limit.dtype)))


class GraphPoints:
    """Graphs, whose kernels are computed for pairs of blocks of graphs.  Args: graph: a batch of graphs with nodes."""

    def __init__(self, graph: xnn.graph.Graph) -> None:
        self.graph = graph

    def __len__(self) -> int:
        return self.graph.n_graphs

    def arrays(self) -> dict[str, np.ndarray]:
        graph = self.graph
        edges = graph.edges if isinstance(graph.edges, Mapping) else {"": graph.edges}
        arrays = {"nodes": graph.nodes, **{f"edges/{name}": array for name, array in edges.items()}}
        arrays |= {name: getattr(graph, name) for name in _STRUCTURE}
        return {name: np.asarray(array) for name, array in arrays.items() if array is not None}

    @staticmethod
    def joined(parts: list[GraphPoints]) -> GraphPoints:
        return GraphPoints(xnn.graph.batch([each for part in parts for each in xnn.graph.unbatch(part.graph)]))

    def kernels(self, limit: Limit, others: GraphPoints) -> tuple[np.ndarray, np.ndarray]:
        both = _Blocks(limit, [self, others])
        n = both.counts(0) * (both.counts(0) + 1) // 2 + both.counts(0) * both.counts(1)
        return both.kernel(0, 0, 0, n), both.kernel(1, 0, n - both.counts(0) * both.counts(1), n)

    def against(self, limit: Limit, others: GraphPoints) -> np.ndarray:
        both = _Blocks(limit, [self, others])
        return both.kernel(0, 1, 0, both.counts(0) * both.counts(1))

    def variances(self, limit: Limit) -> np.ndarray:
        return np.diagonal(self.kernels(limit, self)[0])


_STRUCTURE = ("senders", "receivers", "n_node", "n_edge", "by_sender")


class _Blocks:
    """Sets of graphs in blocks that are padded to one size, so that two programs compute all kernels."""

    def __init__(self, limit: Limit, sets: list[GraphPoints]) -> None:
        self.limit, self.sets = limit, [points.graph for points in sets]
        self.size = min(GRAPHS_OF_A_BLOCK, max(map(len, sets)))
        while not self._fits():
            self.size = -(-self.size // 2)

    def counts(self, which: int) -> int:
        return len(self.blocks[which])

    def _fits(self) -> bool:
        """Makes the blocks and the programs for a size.  Raises: TooLarge if a single pair is too large."""
        parts = [[xnn.graph.take_graphs(graph, np.arange(start, min(start + self.size, graph.n_graphs)))
                  for start in range(0, graph.n_graphs, self.size)] for graph in self.sets]
        nodes = 1 + max(part.n_nodes for blocks in parts for part in blocks)
        edges = max(part.n_edges for blocks in parts for part in blocks)
        self.blocks = [[self._typed(xnn.graph.pad(part, nodes, edges, self.size + 1)) for part in blocks]
                       for blocks in parts]
        block = next(block for blocks in self.blocks for block in blocks)
        try:
            with self.limit.precision():
                self.equal = self.limit.compiled(block.nodes, block)
                self.pair = self.limit.compiled(block.nodes, block.nodes, block, block)
        except TooLarge:
            if self.size == 1:
                raise
            return False
        return True

    def _typed(self, graph: PyTree) -> PyTree:
        return graph.replace(nodes=np.asarray(graph.nodes).astype(self.limit.dtype), globals=None)

    def kernel(self, one: int, other: int, done: int, total: int) -> np.ndarray:
        """The kernel of two sets, which may be the same.  Args: done, total: numbers of pairs of blocks."""
        n, m = self.sets[one].n_graphs, self.sets[other].n_graphs
        out = np.empty((n, m))
        for i, a in enumerate(self.blocks[one]):
            for j, b in enumerate(self.blocks[other][:i + 1] if one == other else self.blocks[other]):
                rows, columns = (slice(k * self.size, (k + 1) * self.size) for k in (i, j))
                with self.limit.precision():
                    tile = self.equal(a.nodes, a) if one == other and i == j else self.pair(a.nodes, b.nodes, a, b)
                out[rows, columns] = tile = np.asarray(tile)[:len(out[rows]), :len(out.T[columns])]
                if one == other:
                    out[columns, rows] = tile.T
                done += 1
                self.limit.progress(done, total)
        return out


def points_from(arrays: Mapping[str, np.ndarray]) -> Points:
    """The points that `Points.arrays` saved."""
    if "ids" in arrays:
        return NodePoints(*(sp.csr_matrix(tuple(arrays[f"{name}/{part}"] for part in ("data", "indices", "indptr")),
                                          shape=tuple(arrays[f"{name}/shape"].tolist()))
                            for name in ("x", "adjacency")), arrays["ids"])
    if "nodes" not in arrays:
        return RowPoints(arrays["x"])
    edges = {name.removeprefix("edges/"): array for name, array in arrays.items() if name.startswith("edges/")}
    structure = {name: arrays.get(name) for name in _STRUCTURE}
    return GraphPoints(xnn.graph.Graph(arrays["nodes"], edges.get("", edges or None), globals=None, **structure))
