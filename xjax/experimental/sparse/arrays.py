"""`BCOO`: a sparse array as its non-zero entries and their indices, in the layout of JAX.

A `BCOO` has `nse` entries: `data` [*batch, nse, *dense] and `indices` [*batch, nse, n_sparse]. An entry whose index is
out of range does not exist: such entries pad the others. Entries with equal indices are added. The operations are in
`structure` (of one array) and `products`; `sparsify` applies them to functions of dense arrays, `operators` has
Python's operators and the methods.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xjax.core.errors import bad
from xjax.core.tree_nodes import register_pytree_node
from xjax.core.types import typeof
from xjax.numpy.creation import asarray
from xjax.numpy.promote import broadcast_to
from xjax.ops.checks import static_int
from xjax.typing import Array


class SparseEfficiencyWarning(UserWarning):
    """A sparse operation takes much more memory or time than a dense one would."""


class SparseEfficiencyError(ValueError):
    """A sparse operation would take much more memory or time than a dense one would."""


class CuSparseEfficiencyWarning(SparseEfficiencyWarning):
    """NVIDIA's library for sparse matrices is not used; xjax never uses it, and never warns."""


class JAXSparse:
    """The base class of sparse arrays."""

    __array_priority__ = 100
    __hash__: Any = None
    # NumPy's operators leave the expression to the reflected operators here.
    __array_ufunc__ = None

    shape: tuple[int, ...]
    dtype: np.dtype
    nse: int

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements of the dense array."""
        return math.prod(self.shape)

    def __len__(self) -> int:
        return self.shape[0]


class BCOO(JAXSparse):
    """A sparse array: entries `data` at `indices`; a pytree with these two arrays as leaves.

    Args:
      args: (data, indices): number[*batch, nse, *dense] and int[*batch, nse, n_sparse]. Batch dimensions of size 1 are
        repeated.
      shape: of the dense array: (*batch, *sparse, *dense).
      indices_sorted: whether the indices are known to be in lexicographic order.
      unique_indices: whether the indices are known to differ from each other.

    Raises: ValueError if the shapes of the three do not fit.

    >>> m = BCOO.fromdense(jnp.array([[0., 1.], [2., 0.]]))
    >>> m
    BCOO(float32[2, 2], nse=2)
    >>> m @ jnp.ones(2)
    Array([1., 2.], dtype=float32)
    """

    __slots__ = ("data", "indices", "_tail", "indices_sorted", "unique_indices")

    def __init__(self, args: tuple[Any, Any], *, shape: Sequence[int], indices_sorted: bool = False,
                 unique_indices: bool = False):
        if len(args) != 2:
            raise bad("BCOO", "needs data and indices", {"given": f"{len(args)} values"},
                      "pass BCOO((data, indices), shape=shape).", exc=ValueError)
        self.data, self.indices = map(asarray, args)
        shape = tuple([static_int(n, "shape", "BCOO") for n in shape])
        self.indices_sorted, self.unique_indices = bool(indices_sorted), bool(unique_indices)
        self._tail = shape[max(self.indices.ndim - 2, 0):]
        self._check(shape)

    def _check(self, shape: tuple[int, ...]) -> None:
        data, indices = self.data.shape, self.indices.shape
        batch = len(indices) - 2
        fits = (batch >= 0 and len(data) == len(shape) - indices[-1] + 1 and len(shape) >= batch + indices[-1]
                and data[batch:batch + 1] == indices[batch:batch + 1]
                and data[batch + 1:] == shape[batch + indices[-1]:]
                and all({d, i} <= {n, 1} for d, i, n in zip(data, indices, shape[:batch], strict=False))
                and self.indices.dtype.kind in "iu")
        if not fits:
            raise bad("BCOO", "the shapes of data, indices and the array do not fit",
                      {"data": typeof(self.data).str_short(), "indices": typeof(self.indices).str_short(),
                       "shape": shape},
                      "pass data [*batch, nse, *dense], integer indices [*batch, nse, n_sparse], and the shape "
                      "(*batch, *sparse, *dense).", exc=ValueError)
        if np.broadcast_shapes(data[:batch], indices[:batch]) != shape[:batch]:
            self.data = broadcast_to(self.data, (*shape[:batch], *data[batch:]))

    # -- the layout -------------------------------------------------------------------------------------------------

    @property
    def n_batch(self) -> int:
        """The number of leading dimensions that have entries of their own."""
        n = self.indices.ndim - 2
        if n < 0:
            raise bad("BCOO", "the entries of one array are mapped, as if they were a batch of arrays",
                      {"indices": typeof(self.indices).str_short()},
                      "map a BCOO with batch dimensions (n_batch=1), or capture the array in the mapped function.",
                      exc=ValueError)
        return n

    @property
    def n_sparse(self) -> int:
        """The number of dimensions that have indices."""
        return self.indices.shape[-1]

    @property
    def n_dense(self) -> int:
        """The number of trailing dimensions of each entry."""
        return self.data.ndim - 1 - self.n_batch

    @property
    def nse(self) -> int:                               # type: ignore[override]
        """The number of entries, of each batch element; padding included."""
        return self.indices.shape[-2]

    @property
    def dtype(self) -> np.dtype:                        # type: ignore[override]
        return self.data.dtype

    @property
    def shape(self) -> tuple[int, ...]:                 # type: ignore[override]
        n = self.n_batch
        return (*np.broadcast_shapes(self.data.shape[:n], self.indices.shape[:n]), *self._tail)

    @property
    def sparse_shape(self) -> tuple[int, ...]:
        """The sizes of the dimensions that have indices."""
        return self._tail[:self.n_sparse]

    def with_entries(self, data: Array, indices: Array | None = None, tail: Sequence[int] | None = None,
                     indices_sorted: bool | None = None, unique_indices: bool | None = None) -> BCOO:
        """An array with other entries, and other sparse and dense sizes `tail`; else like this one."""
        out = object.__new__(BCOO)
        out.data, out.indices = data, self.indices if indices is None else indices
        out._tail = self._tail if tail is None else tuple(tail)
        out.indices_sorted = self.indices_sorted if indices_sorted is None else indices_sorted
        out.unique_indices = self.unique_indices if unique_indices is None else unique_indices
        return out

    def __repr__(self) -> str:
        name = type(self).__name__
        try:
            counts = {"nse": self.nse, "n_batch": self.n_batch, "n_dense": self.n_dense}
            shown = ", ".join(f"{k}={v}" for k, v in counts.items() if v or k == "nse")
            return f"{name}({self.dtype.name}{[*self.shape]}, {shown})"
        except Exception:                               # leaves that are not arrays, in a tree
            return f"{name}({self.data!r}, {self.indices!r})"

    # -- pytree -----------------------------------------------------------------------------------------------------

    def tree_flatten(self) -> tuple[tuple[Any, Any], Any]:
        return (self.data, self.indices), _Static(self._tail, self.indices_sorted, self.unique_indices)

    @classmethod
    def tree_unflatten(cls, aux_data: tuple, children: Sequence[Any]) -> BCOO:
        out = object.__new__(cls)
        out.data, out.indices = children
        out._tail, out.indices_sorted, out.unique_indices = aux_data
        return out


class _Static(NamedTuple):
    """The part of a `BCOO` that is not an array: sparse and dense sizes, and knowledge about the indices."""

    tail: tuple[int, ...]
    indices_sorted: bool
    unique_indices: bool


register_pytree_node(BCOO, BCOO.tree_flatten, BCOO.tree_unflatten)
