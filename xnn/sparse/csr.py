"""`CSR`: a sparse matrix that also stores the tables of its transpose.

The tables of both are computed once, on the host. No array of size rows x columns is allocated, except by `todense`.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

import xjax.numpy as jnp
from xjax import tree_util
from xjax.errors import TracerArrayConversionError, bad, check_choice, old_keywords
from xjax.typing import Array, ArrayLike, DTypeLike
from xnn.checks import type_text
from xnn.moved_modules import old_attribute
from xnn.sparse.product import Form, Side, best_form, other_values, product, sampled, with_blocks
from xnn.sparse.rows import converted, spread
from xnn.sparse.segment import segment_max, segment_mean, segment_min, segment_softmax, segment_sum

_MAX_INDEX = np.iinfo(np.int32).max
_REDUCTIONS = {"sum": segment_sum, "mean": segment_mean, "max": segment_max, "min": segment_min}
Reduce = Literal["sum", "mean", "max", "min"]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class CSR:
    """Sparse matrix in compressed row form; a pytree of its arrays, with a static shape.

    Make one with `from_scipy`, `from_edges`, `from_arrays` or `from_dense`, outside `jit`, because the structure must
    not be traced. The values may be traced (`from_edges`, `with_data`).

    Products are computed in one of two forms. "segments" is a gather and a sorted segment sum, quick to compile.
    "unrolled" writes out the terms of each row (`xnn.sparse.rows`): it runs several times faster, and takes half a
    second longer to compile. The form of a new matrix depends only on its structure; `tune` chooses a form for a
    given amount of work.

    Attributes:
      data: [nnz] stored values, row after row. Repeated positions count as their sum.
      by_row, by_col: tables of the matrix and of its transpose, with the values in the order of rows and of columns.
      shape: (n_rows, n_cols).
    """

    data: Any
    by_row: Side
    by_col: Side
    shape: tuple[int, int]

    __array_ufunc__ = None  # so that `ndarray @ csr` calls __rmatmul__
    near, far = old_attribute("CSR.near", "by_row"), old_attribute("CSR.far", "by_col")

    @classmethod
    def from_edges(cls, rows: Any, cols: Any, values: Any = None, *, shape: Any) -> CSR:
        """Matrix with ``values[k]`` at ``(rows[k], cols[k])``, in any order.

        Args:
          rows, cols: int[nnz], not traced.
          values: [nnz] array, may be traced; None: ones (float32).
          shape: (n_rows, n_cols).
        Raises: ValueError if lengths differ or an index is outside `shape`; TypeError if the
          indices are traced or not integers.
        """
        caller = "CSR.from_edges"
        n_rows, n_cols = _checked_shape(caller, shape)
        rows, cols = _host_indices(caller, "rows", rows), _host_indices(caller, "cols", cols)
        values = np.ones(len(rows), np.float32) if values is None else values
        values = values if hasattr(values, "shape") else np.asarray(values)
        if not len(rows) == len(cols) or tuple(values.shape) != rows.shape:
            raise bad(caller, "rows, cols and values have different lengths",
                      {"rows": type_text(rows), "cols": type_text(cols), "values": type_text(values)},
                      fix="pass one row, one column and one value for each edge.", exc=ValueError)
        _check_range(caller, "rows", rows, n_rows)
        _check_range(caller, "cols", cols, n_cols)
        order = np.lexsort((cols, rows))
        rows, cols = rows[order], cols[order]
        in_order = bool(np.all(order[1:] > order[:-1]))
        data = jnp.asarray(values) if in_order else jnp.asarray(values)[order]
        return cls(data, *_sides(rows, cols, n_rows, n_cols), (n_rows, n_cols)).tune()

    @classmethod
    def from_arrays(cls, data: ArrayLike, indices: ArrayLike, indptr: ArrayLike, *, shape: Any) -> CSR:
        """Matrix from the three arrays of the CSR format, with SciPy's names.

        Args:
          data: [nnz] values, row after row; may be traced.
          indices: int[nnz], column of each value.
          indptr: int[n_rows + 1], ascending from 0 to nnz.
          shape: (n_rows, n_cols).
        Raises: ValueError if the arrays do not describe a matrix of that shape.
        """
        caller = "CSR.from_arrays"
        n_rows, n_cols = _checked_shape(caller, shape)
        indptr = _host_indices(caller, "indptr", indptr)
        indices = _host_indices(caller, "indices", indices)
        counts = np.diff(indptr)
        ends_ok = len(indptr) == n_rows + 1 and indptr[0] == 0 and indptr[-1] == len(indices)
        if not ends_ok or np.any(counts < 0):
            raise bad(caller, "indptr is not a valid row pointer array",
                      {"indptr": type_text(indptr), "indices": type_text(indices), "shape": repr(shape)},
                      fix="pass n_rows + 1 ascending numbers, from 0 to the number of values.", exc=ValueError)
        rows = np.repeat(np.arange(n_rows, dtype=np.int32), counts)
        return cls.from_edges(rows, indices, data, shape=shape)

    @classmethod
    def from_scipy(cls, matrix: Any) -> CSR:
        """The same matrix from any SciPy sparse matrix or array; repeated positions are summed."""
        if not is_scipy_sparse(matrix) or matrix.ndim != 2:
            raise bad("CSR.from_scipy", "takes a two-dimensional SciPy sparse matrix", {"matrix": type_text(matrix)},
                      fix="use CSR.from_dense for a dense array, CSR.from_edges for lists of edges.")
        matrix = matrix.tocsr(copy=True)
        matrix.sum_duplicates()
        return cls.from_arrays(matrix.data, matrix.indices, matrix.indptr, shape=matrix.shape)

    @classmethod
    def from_dense(cls, x: ArrayLike) -> CSR:
        """The matrix of the non-zero values of a two-dimensional array, not traced."""
        x = _host_array("CSR.from_dense", "x", x)
        if x.ndim != 2:
            raise bad("CSR.from_dense", "x is not a matrix", {"x": type_text(x)}, "pass [n, m].")
        rows, cols = np.nonzero(x)
        return cls.from_edges(rows, cols, x[rows, cols], shape=x.shape)

    @property
    def rows(self) -> Array:
        """int32[nnz]: the row of each stored value."""
        return self.by_row.rows

    @property
    def indices(self) -> Array:
        """int32[nnz]: the column of each stored value."""
        return self.by_row.cols

    @property
    def indptr(self) -> Array:
        """int32[n_rows + 1]: where each row starts in `data`."""
        return self.by_row.indptr

    @property
    def nnz(self) -> int:
        """Number of stored values."""
        return self.data.shape[-1]

    @property
    def dtype(self) -> Any:
        """Dtype of the stored values."""
        return self.data.dtype

    @property
    def ndim(self) -> int:
        """Always 2."""
        return 2

    @property
    def T(self) -> CSR:
        """The transpose: its tables are already stored, so only the values are reordered."""
        return CSR(self.data[self.by_col.order], self.by_col, self.by_row, self.shape[::-1])

    @property
    def form(self) -> Form:
        """Form in which products are computed: "unrolled" or "segments"."""
        return "segments" if self.by_row.blocks is None else "unrolled"

    def tune(self, *, columns: int = 32, steps: int = 200, form: Form | None = None) -> CSR:
        """The same matrix, in the form of products with the least total time, including compilation.

        The choice depends only on the arguments and the structure, so results are reproducible: the two forms add in
        different orders and agree up to rounding.

        Args:
          columns: typical number of columns of the dense operand.
          steps: how often a program with the product will run.
          form: "unrolled" or "segments"; None: the form that is expected to be faster.
        Raises: TypeError within `jit`, because the structure must not be traced.

        >>> CSR.from_dense(np.eye(3)).tune(form="unrolled").form
        'unrolled'
        """
        check_choice("CSR.tune", "form", form, ("unrolled", "segments", None))
        form = form or best_form(self.nnz, columns, steps)
        if form == "segments":
            return replace(self, by_row=self.by_row._replace(blocks=None), by_col=self.by_col._replace(blocks=None))
        by_row, by_col = (tree_util.tree_map(lambda x: _host_array("CSR.tune", "csr", x), side._replace(blocks=None))
                          for side in (self.by_row, self.by_col))
        try:
            values = np.asarray(self.data)
            by_col_values = values[by_col.order]
        except TracerArrayConversionError:
            values = by_col_values = None                               # traced: each product reorders them
        return replace(self, by_row=_on_device(with_blocks(by_row, values)),
                       by_col=_on_device(with_blocks(by_col, by_col_values)))

    def with_data(self, data: ArrayLike) -> CSR:
        """The same positions with other values.  Raises: ValueError if the number of values differs."""
        if tuple(data.shape) != tuple(self.data.shape):
            raise bad("CSR.with_data", "the number of values differs",
                      {"stored": type_text(self.data), "given": type_text(data)},
                      fix="pass one value for each stored value, in the order of csr.rows and csr.indices.",
                      exc=ValueError)
        return replace(self, data=data, by_row=other_values(self.by_row), by_col=other_values(self.by_col))

    def astype(self, dtype: DTypeLike) -> CSR:
        """The same matrix with values of another dtype."""
        data = self.data.astype(dtype)
        by_row, by_col = (side if side.blocks is None else side._replace(blocks=converted(side.blocks, data.dtype))
                          for side in (self.by_row, self.by_col))
        return replace(self, data=data, by_row=by_row, by_col=by_col)

    def todense(self) -> Array:
        """The dense array [n_rows, n_cols], for inspection and tests of small matrices."""
        return jnp.zeros(self.shape, self.dtype).at[self.rows, self.indices].add(self.data)

    def to_scipy(self) -> Any:
        """`scipy.sparse.csr_array` with copies of the arrays.  Raises: ImportError without SciPy."""
        return _to_scipy("CSR.to_scipy", self)

    def __matmul__(self, dense: Any) -> Any:
        """Product with a dense vector or matrix, or with a sparse one.

        Shape: [n_rows, n_cols] @ [n_cols] -> [n_rows];  @ [n_cols, f] -> [n_rows, f]. With a `CSR` or a SciPy matrix
        [n_cols, m] the result is a `CSR` [n_rows, m], computed on the host: neither operand may be traced.
        Differentiable in both modes, any number of times; use `vmap` for more axes.
        """
        if isinstance(dense, CSR) or is_scipy_sparse(dense):
            return _sparse_product(self, dense)
        dense = _dense_operand(dense, self)
        dtype = jnp.promote_types(self.dtype, dense.dtype)
        columns = dense.astype(dtype)
        columns = columns if dense.ndim == 2 else columns[:, None]
        if self.nnz == 0:
            out = jnp.zeros((self.shape[0], columns.shape[1]), dtype)
        else:
            csr = self if self.dtype == dtype else self.astype(dtype)
            out = product(csr.data, columns, csr.by_row, csr.by_col)
        return out if dense.ndim == 2 else out[:, 0]

    def __rmatmul__(self, dense: ArrayLike) -> Array:
        """``dense @ csr``: [f, n_rows] @ [n_rows, n_cols] -> [f, n_cols]."""
        dense = jnp.asarray(dense)
        return (self.T @ dense.T).T

    def product(self, dense: ArrayLike, reduce: Reduce = "sum") -> Array:
        """As ``csr @ dense``, with a choice of reduction of the terms ``value * row``; equal extremes share a gradient.

        Shape: [n_rows, n_cols], [n_cols, f] -> [n_rows, f], or without f; 0 in rows without values.
        Args: reduce: "sum", "mean" (over the stored values of a row), "max" or "min".
        Raises: ValueError for any other reduction.
        """
        check_choice("CSR.product", "reduction", reduce, _REDUCTIONS)
        if reduce == "sum":
            return self @ dense
        dense = _dense_operand(dense, self)
        columns = dense if dense.ndim == 2 else dense[:, None]
        terms = spread(columns, self.indices) * self.data[:, None]
        y = _REDUCTIONS[reduce](terms, self.rows, self.shape[0], is_sorted=True, rows=self.by_row.blocks)
        return y if dense.ndim == 2 else y[:, 0]

    def softmax(self) -> CSR:
        """The softmax of the stored values of each row, at the same positions."""
        return self.with_data(segment_softmax(self.data, self.rows, self.shape[0], is_sorted=True,
                                              rows=self.by_row.blocks))

    def sampled(self, left: ArrayLike, right: ArrayLike) -> CSR:
        """``left @ right.T`` at the stored positions only, such as scores of edges; the stored values are not used.

        Args: left: [n_rows, f]; right: [n_cols, f].
        Raises: TypeError if the shapes do not match.

        >>> CSR.from_dense(np.eye(2)).sampled(np.array([[1.0], [2.0]]), np.array([[3.0], [4.0]])).todense()
        Array([[3., 0.],
               [0., 8.]], dtype=float32)
        """
        left, right = jnp.asarray(left), jnp.asarray(right)
        if left.ndim != 2 or right.ndim != 2 or (left.shape[0], right.shape[0]) != self.shape or \
                left.shape[1] != right.shape[1]:
            raise bad("CSR.sampled", "`left` must have a row for each row, `right` a row for each column",
                      {"csr": type_text(self), "left": type_text(left), "right": type_text(right)},
                      fix=f"pass [{self.shape[0]}, f] and [{self.shape[1]}, f].")
        return self.with_data(sampled(left, right, self.rows, self.indices))

    def __repr__(self) -> str:
        return f"<CSR {type_text(self)}>"


CSR.__init__ = old_keywords(near="by_row", far="by_col")(CSR.__init__)
tree_util.register_dataclass(CSR, ["data", "by_row", "by_col"], ["shape"])


def is_scipy_sparse(x: object) -> bool:
    """Whether x is a SciPy sparse matrix or array, without importing SciPy."""
    scipy_sparse = sys.modules.get("scipy.sparse")  # always loaded if such a matrix exists
    return scipy_sparse is not None and scipy_sparse.issparse(x)


def _on_device(side: Side) -> Side:
    return tree_util.tree_map(jnp.asarray, side)


def _sides(rows: np.ndarray, cols: np.ndarray, n_rows: int, n_cols: int) -> tuple[Side, Side]:
    """Tables of a matrix and of its transpose, from positions sorted by row."""
    to_cols = np.argsort(cols, kind="stable")
    to_rows = np.empty_like(to_cols)
    to_rows[to_cols] = np.arange(len(to_cols))
    return _side(rows, cols, n_rows, to_rows), _side(cols[to_cols], rows[to_cols], n_cols, to_cols)


def _side(rows: np.ndarray, cols: np.ndarray, n_rows: int, order: np.ndarray) -> Side:
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n_rows))])
    return Side(*(jnp.asarray(table.astype(np.int32)) for table in (rows, cols, indptr, order)))


def _checked_shape(caller: str, shape: Any) -> tuple[int, int]:
    ok = isinstance(shape, tuple | list) and len(shape) == 2
    if not ok or not all(isinstance(n, int | np.integer) and 0 <= n <= _MAX_INDEX for n in shape):
        raise bad(caller, "shape must be (n_rows, n_cols), each below 2**31", {"shape": repr(shape)},
                  fix="pass the number of rows and of columns, such as shape=(2708, 2708).")
    return int(shape[0]), int(shape[1])


def _host_array(caller: str, name: str, x: object) -> np.ndarray:
    try:
        return np.asarray(x)
    except TracerArrayConversionError as err:
        raise bad(
            caller,
            f"{name} is traced, but the structure of a sparse matrix must be concrete",
            {name: type_text(x)},
            fix="make the CSR outside jit and pass it as an argument (it is a pytree); csr.with_data(values) "
            "takes traced values.",
        ) from err


def _host_indices(caller: str, name: str, x: object) -> np.ndarray:
    x = _host_array(caller, name, x)
    x = x.astype(np.int64) if x.size == 0 else x  # an empty list is float64 to NumPy
    if x.ndim != 1 or x.dtype.kind not in "iu" or x.size > _MAX_INDEX:
        raise bad(caller, f"{name} must be a one-dimensional array of integers", {name: type_text(x)},
                  fix="pass int32 or int64 indices, at most 2**31 - 1 of them.")
    return x


def _check_range(caller: str, name: str, x: np.ndarray, size: int) -> None:
    wrong = np.flatnonzero((x < 0) | (x >= size))
    if wrong.size:
        raise bad(caller, f"an index in {name} is outside the matrix",
                  {f"{name}[{wrong[0]}]": str(x[wrong[0]]), "size": str(size)},
                  fix=f"pass indices from 0 to {size - 1}, or a larger shape.", exc=ValueError)


def _sparse_product(left: CSR, right: Any) -> CSR:
    if left.shape[1] != right.shape[0]:
        raise bad("CSR.__matmul__", "the shapes of two sparse matrices do not match",
                  {"left": type_text(left), "right": type_text(right)},
                  fix=f"pass a matrix with {left.shape[1]} rows.")
    both = [_to_scipy("CSR.__matmul__", m) if isinstance(m, CSR) else m for m in (left, right)]
    return CSR.from_scipy(both[0] @ both[1])


def _to_scipy(caller: str, csr: CSR) -> Any:
    arrays = (_host_array(caller, "csr", part) for part in (csr.data, csr.indices, csr.indptr))
    scipy_sparse = importlib.import_module("scipy.sparse")  # on demand: it is optional, and takes 0.2 s to import
    return scipy_sparse.csr_array(tuple(np.array(part) for part in arrays), shape=csr.shape)


def _dense_operand(dense: ArrayLike, csr: CSR) -> Array:
    dense = jnp.asarray(dense)
    if dense.ndim not in (1, 2) or dense.shape[0] != csr.shape[1]:
        what = "takes a dense vector or matrix with one row for each column of the sparse matrix"
        raise bad("CSR.__matmul__", what, {"sparse": type_text(csr), "operand": type_text(dense)},
                  fix=f"pass [{csr.shape[1]}] or [{csr.shape[1]}, f]; use vmap for more axes.")
    return dense
