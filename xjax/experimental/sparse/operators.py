"""Python's operators and the methods of sparse arrays."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax.core.errors import bad
from xjax.experimental.sparse import products, structure
from xjax.experimental.sparse.arrays import BCOO, JAXSparse
from xjax.experimental.sparse.sparsify import sparsify
from xjax.runtime.api import block_until_ready
from xjax.typing import Array, ArrayLike, DTypeLike


def _binary(function: Callable) -> tuple[Callable, Callable]:
    applied = sparsify(function)

    def operate(x: BCOO, y: BCOO | ArrayLike) -> BCOO | Array:
        return applied(x, y)

    def operate_reflected(x: BCOO, y: BCOO | ArrayLike) -> BCOO | Array:
        return applied(y, x)

    return operate, operate_reflected


for _name, _function in {"matmul": jnp.matmul, "mul": jnp.multiply, "add": jnp.add, "sub": jnp.subtract,
                         "truediv": jnp.true_divide}.items():
    _forward, _reflected = _binary(_function)
    setattr(JAXSparse, f"__{_name}__", _forward)
    if _name != "truediv":
        setattr(JAXSparse, f"__r{_name}__", _reflected)


def _power(x: BCOO, y: ArrayLike) -> BCOO:
    return sparsify(lambda x: x ** y)(x)


def _equal(x: BCOO, y: object) -> bool:
    if not isinstance(y, (JAXSparse, np.ndarray, Array)):
        return NotImplemented
    raise bad("x == y", "the result of comparing a sparse array would be dense", {"x": repr(x)},
              "compare the dense arrays: x.todense() == y.", exc=NotImplementedError)


def _item(x: BCOO, index: object) -> BCOO | Array:
    return sparsify(operator.itemgetter(index))(x)


def _iter(x: BCOO) -> Iterator[BCOO]:
    return (x[i] for i in range(len(x)))


def _sum(x: BCOO, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None,
         keepdims: bool = False) -> BCOO | Array:
    """The sum along axes: sparse; of all elements, an array."""
    return sparsify(lambda x: jnp.sum(x, axis, dtype=dtype, keepdims=keepdims))(x)


def _reshape(x: BCOO, *shape: int | Sequence[int]) -> BCOO:
    """The array in another shape."""
    return sparsify(lambda x: x.reshape(*shape))(x)


def _astype(x: BCOO, dtype: DTypeLike) -> BCOO:
    """The array with data of another dtype."""
    return x.with_entries(x.data.astype(dtype))


def _transpose(x: BCOO, axes: Sequence[int] | None = None) -> BCOO:
    """The array with its dimensions in another order; None reverses it."""
    if axes is None:
        return products.transposed(x)
    return structure.bcoo_transpose(x, permutation=[a % max(x.ndim, 1) for a in axes])


def _todense(x: BCOO) -> Array:
    """The dense array."""
    return structure.bcoo_todense(x)


def _sort_indices(x: BCOO) -> BCOO:
    """The same entries in the order of their indices."""
    return structure.bcoo_sort_indices(x)


def _sum_duplicates(x: BCOO, nse: int | None = None, remove_zeros: bool = True) -> BCOO:
    """The same array with one entry for each index; see `bcoo_sum_duplicates`."""
    if remove_zeros:
        x = structure.bcoo_sum_duplicates(x)
        x = structure._renumbered(x, structure._columns(x.indices), x.shape, structure._valid(x) & (x.data != 0))
    return structure.bcoo_sum_duplicates(x, nse)


def _update_layout(x: BCOO, *, n_batch: int | None = None, n_dense: int | None = None,
                   on_inefficient: str = "error") -> BCOO:
    """The same array with other numbers of batch and dense dimensions; see `bcoo_update_layout`."""
    return structure.bcoo_update_layout(x, n_batch=n_batch, n_dense=n_dense, on_inefficient=on_inefficient)


def _wait(x: BCOO) -> BCOO:
    """Wait until the entries are computed."""
    block_until_ready((x.data, x.indices))
    return x


def _fromdense(cls: type[BCOO], mat: ArrayLike, *, nse: int | None = None, index_dtype: DTypeLike = np.int32,
               n_dense: int = 0, n_batch: int = 0) -> BCOO:
    """The non-zero entries of a dense array; see `bcoo_fromdense`."""
    return structure.bcoo_fromdense(mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype)


def _from_scipy_sparse(cls: type[BCOO], mat: Any, *, index_dtype: DTypeLike | None = None, n_dense: int = 0,
                       n_batch: int = 0) -> BCOO:
    """The entries of a sparse matrix of SciPy."""
    if n_dense or n_batch:
        raise bad("BCOO.from_scipy_sparse", "matrices of SciPy have neither batch nor dense dimensions",
                  {"n_dense": n_dense, "n_batch": n_batch}, "leave them 0, or use BCOO.fromdense(mat.toarray()).",
                  exc=NotImplementedError)
    entries = mat.tocoo()
    indices = np.stack([entries.row, entries.col], -1).astype(index_dtype or np.int32)
    return BCOO((entries.data, indices), shape=mat.shape)


_METHODS: dict[str, Any] = {
    "__pow__": _power, "__eq__": _equal, "__getitem__": _item, "__iter__": _iter,
    "__neg__": sparsify(jnp.negative), "__pos__": lambda x: x, "__abs__": sparsify(jnp.abs), "T": property(_transpose),
    "sum": _sum, "reshape": _reshape, "astype": _astype, "transpose": _transpose, "todense": _todense,
    "sort_indices": _sort_indices, "sum_duplicates": _sum_duplicates, "update_layout": _update_layout,
    "block_until_ready": _wait, "fromdense": classmethod(_fromdense),
    "from_scipy_sparse": classmethod(_from_scipy_sparse),
}
for _name, _method in _METHODS.items():
    setattr(BCOO, _name, _method)
