"""The forms in which a graph may come, brought to one: something whose ``@`` is the product.

Dense arrays, SciPy matrices, `CSR`, the edge form ``((rows, cols), values)`` of older programs,
and any other object that has ``__matmul__`` (say one whose product gathers rows over devices).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

import xjax
import xjax.numpy as jnp
from xjax import ops
from xjax.errors import TracerArrayConversionError, bad
from xnn.checks import type_text
from xnn.sparse import CSR, is_scipy_sparse


@dataclass(frozen=True, slots=True)
class EdgeList:
    """A square matrix given by its edges: ``values[k]`` at ``(rows[k], cols[k])``, in any order.

    Unlike `CSR` it needs no tables, so rows and cols may be traced; its product and gradient are
    slower (unsorted sums). A traced index that is out of range gives NaN or is left out; a known
    one raises IndexError.
    """

    rows: Any
    cols: Any
    values: Any

    def __matmul__(self, h: Any) -> Any:
        """[n, n] @ [n, f] -> [n, f]; n is taken from h."""
        h = jnp.asarray(h)
        _check_edges(self.rows, self.cols, h.shape[0])
        picked = jnp.take(h, jnp.asarray(self.cols), axis=0)  # out of range: NaN, never a number
        values = jnp.asarray(self.values)
        weights = values.reshape(values.shape + (1,) * (h.ndim - 1))
        rows = jnp.asarray(self.rows)
        return ops.segment_sum(picked * weights, rows, num_segments=h.shape[0])


def as_adjacency(adj: Any, where: str = "as_adjacency") -> Any:
    """`adj` as something whose ``adj @ h`` is the product with node features h: [n, f].

    Args: adj: dense array [..., n, n], SciPy sparse matrix, `CSR`, ``((rows, cols), values)``, or
      any object with ``__matmul__``, which is returned as it is.
    A SciPy matrix is converted at every call: convert it once with `CSR.from_scipy` in a loop.
    Raises: TypeError for anything else.
    """
    if isinstance(adj, CSR | EdgeList):
        return adj
    if is_scipy_sparse(adj):
        return CSR.from_scipy(adj)
    edges = edge_form(adj)
    if edges is not None:
        return EdgeList(*edges)
    if not is_array(adj) and hasattr(adj, "__matmul__"):
        return adj
    dense = _dense(adj, where)
    if dense.ndim < 2 or dense.shape[-1] != dense.shape[-2]:
        raise bad(
            where,
            "the adjacency is not a square matrix",
            {"adj": type_text(dense)},
            fix="pass one row and one column for each node: [n, n].",
        )
    return dense


def edge_form(adj: Any) -> tuple[Any, Any, Any] | None:
    """(rows, cols, values) if adj is ``((rows, cols), values)``, else None."""
    if not isinstance(adj, tuple | list) or len(adj) != 2:
        return None
    places, values = adj
    pair = isinstance(places, tuple | list) and len(places) == 2
    if pair and all(_ndim(part) == 1 for part in places):
        return (*places, values)
    if getattr(places, "ndim", None) == 2 and places.shape[0] == 2 and _ndim(values) == 1:
        return places[0], places[1], values
    return None


def is_array(x: Any) -> bool:
    """Whether x is a dense array: ours, NumPy's, or one that turns into NumPy's."""
    return isinstance(x, np.ndarray | xjax.Array) or hasattr(x, "__array__")


def _ndim(x: Any) -> int:
    return x.ndim if hasattr(x, "ndim") else np.ndim(x)


def _dense(adj: Any, where: str) -> Any:
    try:
        return jnp.asarray(adj)
    except (TypeError, ValueError) as err:
        raise bad(
            where,
            "this is not an adjacency",
            {"adj": type_text(adj)},
            fix="pass a square array, a SciPy sparse matrix, an xnn CSR, ((rows, cols), values), "
            "or an object with __matmul__.",
        ) from err


def _check_edges(rows: Any, cols: Any, n: int) -> None:
    for name, index in (("rows", rows), ("cols", cols)):
        try:
            index = np.asarray(index)
        except TracerArrayConversionError:
            continue
        if index.size and (index.min() < 0 or index.max() >= n):
            raise bad(
                "adjacency",
                f"an index in {name} names no node",
                {name: f"from {index.min()} to {index.max()}", "nodes": str(n)},
                fix=f"pass indices from 0 to {n - 1}, or features for every node.",
                exc=IndexError,
            )
