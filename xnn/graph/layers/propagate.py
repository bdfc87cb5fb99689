"""Products with a normalised adjacency, computed at each call; shared by the graph convolutions.

The normalised matrix is never computed. The node features are scaled before and after the product with the adjacency,
so any adjacency can be used: one without values, a traced one, or an object that only has ``@``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import xjax.numpy as jnp
from xjax import lax
from xjax.errors import bad, check_choice
from xjax.typing import Array, ArrayLike
from xnn.checks import check_float, type_text
from xnn.graph.layers.normalize import Norm
from xnn.graph.structure.adjacency import as_adjacency, as_edges, is_array
from xnn.graph.structure.edges import Edges
from xnn.graph.structure.graph import Graph
from xnn.precision import at_least_float32, cast_floats
from xnn.sparse import CSR, is_scipy_sparse


@dataclass(frozen=True, slots=True)
class Normalized:
    """The matrix ``after (adj + loops) before``, where `after`, `loops` and `before` are diagonal matrices.

    Attributes:
      adj: any object with ``adj @ h``.
      loops: [..., n, 1] weights of self loops, or 1; None without self loops.
      before, after: [..., n, 1]; None means ones.
    """

    adj: Any
    loops: Any = None
    before: Any = None
    after: Any = None

    def __matmul__(self, h: ArrayLike) -> Array:
        h = h if self.before is None else self.before * h
        total = self.adj @ h
        total = total if self.loops is None else total + self.loops * h
        return total if self.after is None else self.after * total

    def replace(self, **fields: object) -> Normalized:
        """A copy with another adjacency, or other weights of self loops."""
        return replace(self, **fields)


def normalized(adj: Any, h: ArrayLike, norm: Norm | None, self_loops: bool) -> Normalized:
    """The adjacency normalised by its row sums, with gradients to its values.

    Args:
      adj: any object with ``@``.
      h: [..., n, f], an array with the number of nodes and the dtype of the features that will be multiplied.
      norm: "symmetric": ``D^-1/2 (A + I) D^-1/2``; "row": ``D^-1 (A + I)``; None: A unchanged. A row whose sum is not
        positive becomes 0.
      self_loops: whether to add I, if norm is not None.
    """
    if norm is None:
        return Normalized(adj)
    degree = degrees(adj, h) + (1 if self_loops else 0)
    # The inner `where` keeps the gradient finite at a node without edges.
    safe = jnp.where(degree > 0, degree, 1)
    scale = jnp.where(degree > 0, 1 / safe if norm == "row" else lax.rsqrt(safe), 0).astype(h.dtype)
    before, after = (None, scale) if norm == "row" else (scale, scale)
    return Normalized(adj, 1 if self_loops else None, before, after)


def degrees(adj: Any, h: ArrayLike) -> Array:
    """[..., n, 1]: the row sums of an adjacency, for features h: [..., n, f].

    They are float32 for features in half precision, because a bfloat16 sum of ones stops growing at 256.
    """
    dtype = h.dtype
    if isinstance(adj, CSR | Edges) or is_array(adj):
        dtype = at_least_float32(dtype)
        adj = cast_floats(adj, dtype)
    return adj @ jnp.ones((*h.shape[:-1], 1), dtype)


def check_norm(caller: str, norm: str | None) -> None:
    """Checks `norm`. Raises: ValueError unless it is "symmetric", "row" or None."""
    check_choice(caller, "norm", norm, ("symmetric", "row", None))


def check_count(caller: str, n: int, least: int, what: str) -> None:
    """Checks a count of `what`, such as "heads". Raises: ValueError if n is below `least`."""
    if n < least:
        raise bad(caller, f"the number of {what} must be at least {least}", {"given": n}, f"pass {least} or more.",
                  ValueError)


def as_features(x: object) -> Array | CSR:
    """Node features as a dense array or a `CSR` (from a SciPy matrix)."""
    if isinstance(x, CSR):
        return x
    return CSR.from_scipy(x) if is_scipy_sparse(x) else jnp.asarray(x)


def checked_features(caller: str, x: object) -> Array | CSR:
    """`as_features` with a check. Raises: TypeError if x is dense and not a floating-point array [..., n, f]."""
    x = as_features(x)
    return x if isinstance(x, CSR) else check_float(caller, x, 2)


def is_narrower(x: Array | CSR, n_out: int) -> bool:
    """Whether to compute x W before propagation: it has fewer features, or x is sparse, which cannot be propagated."""
    return isinstance(x, CSR) or n_out < x.shape[-1]


def adjacency_of(caller: str, graph: object, x: Array | CSR) -> Any:
    """The graph as an object with ``@``, for features x. Raises: TypeError if it has another number of nodes."""
    if isinstance(graph, Graph):
        return as_edges(graph, x, caller)
    adj = as_adjacency(graph, caller)
    if not isinstance(adj, CSR | Edges) and not is_array(adj):
        return adj                          # an EdgeList checks its indices, other objects check their operand
    n_nodes = adj.n_nodes if isinstance(adj, Edges) else adj.shape[-1]
    if n_nodes != x.shape[-2]:
        raise bad(caller, f"the adjacency has {n_nodes} nodes, but the features have {x.shape[-2]} rows",
                  {"adj": type_text(adj), "x": type_text(x)}, fix="pass one row of features for each node.")
    return adj
