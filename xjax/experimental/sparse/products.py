"""Products of sparse arrays with sparse and dense arrays."""

from __future__ import annotations

from collections.abc import Sequence

import xjax.numpy as jnp
from xjax import lax
from xjax.core.errors import bad
from xjax.experimental.sparse.arrays import BCOO
from xjax.experimental.sparse.structure import (
    _columns,
    _renumbered,
    _valid,
    bcoo_todense,
    bcoo_transpose,
    extract,
    flat,
)
from xjax.typing import Array, ArrayLike, DTypeLike

DotNumbers = tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]
# The same, as arguments: lists are accepted too.
DimensionNumbers = Sequence[Sequence[Sequence[int]]]


def bcoo_dot_general(lhs: BCOO | ArrayLike, rhs: BCOO | ArrayLike, *, dimension_numbers: DimensionNumbers,
                     precision: None = None, preferred_element_type: DTypeLike | None = None,
                     out_sharding: None = None) -> BCOO | Array:
    """`lax.dot_general` of arrays of which at least one is sparse: dense, or sparse if both are.

    Args:
      dimension_numbers: ((lhs contracting, rhs contracting), (lhs batch, rhs batch)).
      precision: accepted as in JAX; sums are in the dtype of the result.
      out_sharding: None.

    >>> m = BCOO.fromdense(jnp.array([[0., 2.], [3., 0.]]))
    >>> bcoo_dot_general(m, jnp.array([1., 10.]), dimension_numbers=(([1], [0]), ([], [])))
    Array([20.,  3.], dtype=float32)
    """
    if out_sharding is not None:
        raise bad("sparse.bcoo_dot_general", "the sharding of the result cannot be chosen",
                  {"out_sharding": repr(out_sharding)}, "constrain the result by lax.with_sharding_constraint.",
                  exc=NotImplementedError)
    numbers = _as_tuples(dimension_numbers)
    if isinstance(lhs, BCOO) and isinstance(rhs, BCOO):
        return _sparse_sparse(flat(lhs), flat(rhs), numbers)
    if isinstance(lhs, BCOO):
        return _sparse_dense(flat(lhs), jnp.asarray(rhs), numbers, preferred_element_type)
    if isinstance(rhs, BCOO):
        return _dense_sparse(jnp.asarray(lhs), flat(rhs), numbers, preferred_element_type)
    return lax.dot_general(lhs, rhs, dimension_numbers, preferred_element_type=preferred_element_type)


def _as_tuples(numbers: DimensionNumbers) -> DotNumbers:
    (lc, rc), (lb, rb) = numbers
    return (tuple(lc), tuple(rc)), (tuple(lb), tuple(rb))


def _check(a: BCOO | Array, b: BCOO | Array, numbers: DotNumbers) -> None:
    (lc, rc), (lb, rb) = numbers
    sizes = [tuple(x.shape[k] for k in axes) for x, axes in ((a, (*lc, *lb)), (b, (*rc, *rb)))]
    if sizes[0] != sizes[1]:
        raise bad("sparse.bcoo_dot_general", "contracted and batch dimensions differ in size",
                  {"lhs": a.shape, "rhs": b.shape, "dimension_numbers": numbers},
                  "pass dimensions of equal sizes.")


def _free(ndim: int, *used: Sequence[int]) -> list[int]:
    return [k for k in range(ndim) if not any(k in axes for axes in used)]


def _sparse_dense(a: BCOO, b: Array, numbers: DotNumbers, dtype: DTypeLike | None) -> Array:
    """For each entry, a row of the dense operand times the entry, added to a row of the result."""
    _check(a, b, numbers)
    (lc, rc), (lb, rb) = numbers
    free, rest = _free(a.ndim, lc, lb), _free(b.ndim, rc, rb)
    dtype = dtype or jnp.result_type(a.data, b)
    rows, at = b.transpose(*rb, *rc, *rest).astype(dtype), _columns(a.indices)
    chosen = [at[k] for k in (*lb, *lc)]
    valid = _valid(a)
    data = jnp.where(valid, a.data, jnp.zeros((), a.dtype)).astype(dtype).reshape(-1, *[1] * len(rest))
    terms = data * (rows.at[tuple(chosen)].get(mode="fill", fill_value=0) if chosen else rows[None])
    kept = [at[k] for k in (*lb, *free)]
    if not kept:
        return terms.sum(0, dtype=dtype)
    shape = (*[a.shape[k] for k in (*lb, *free)], *[b.shape[k] for k in rest])
    kept = [jnp.where(valid, c, n) for c, n in zip(kept, shape, strict=False)]
    return jnp.zeros(shape, dtype).at[tuple(kept)].add(terms, mode="drop")


def _dense_sparse(a: Array, b: BCOO, numbers: DotNumbers, dtype: DTypeLike | None) -> Array:
    (lc, rc), (lb, rb) = numbers
    out = _sparse_dense(b, a, ((rc, lc), (rb, lb)), dtype)          # batch, free of b, free of a
    batch, of_b = len(lb), b.ndim - len(rc) - len(rb)
    return out.transpose(*range(batch), *range(batch + of_b, out.ndim), *range(batch, batch + of_b))


def _sparse_sparse(a: BCOO, b: BCOO, numbers: DotNumbers) -> BCOO:
    """An entry for each pair of entries; a pair whose contracted or batch indices differ is out of range."""
    _check(a, b, numbers)
    (lc, rc), (lb, rb) = numbers
    free, rest = _free(a.ndim, lc, lb), _free(b.ndim, rc, rb)
    left = [jnp.repeat(c, b.nse) for c in _columns(a.indices)]
    right = [jnp.tile(c, a.nse) for c in _columns(b.indices)]
    valid = jnp.repeat(_valid(a), b.nse) & jnp.tile(_valid(b), a.nse)
    for k, j in zip((*lc, *lb), (*rc, *rb), strict=True):
        valid = valid & (left[k] == right[j])
    data = jnp.repeat(a.data, b.nse) * jnp.tile(b.data, a.nse)
    pairs = a.with_entries(data, jnp.zeros((data.size, 0), a.indices.dtype), ())
    return _renumbered(pairs, [*[left[k] for k in (*lb, *free)], *[right[k] for k in rest]],
                       [*[a.shape[k] for k in (*lb, *free)], *[b.shape[k] for k in rest]], valid)


def bcoo_multiply_sparse(lhs: BCOO, rhs: BCOO) -> BCOO:
    """The element-wise product of sparse arrays of one shape, with the entries of `lhs`."""
    if lhs.shape != rhs.shape:
        raise bad("sparse.bcoo_multiply_sparse", "the shapes differ", {"lhs": lhs.shape, "rhs": rhs.shape},
                  "broadcast one of them by sparse.bcoo_broadcast_in_dim.", exc=ValueError)
    return multiply_dense(lhs, bcoo_todense(rhs))


def multiply_dense(mat: BCOO, v: ArrayLike) -> BCOO:
    """The element-wise product with a dense array whose shape broadcasts to that of `mat`."""
    v = jnp.asarray(v)
    if not v.ndim:
        return mat.with_entries(mat.data * v)
    mat = flat(mat)
    v = v.reshape(*[1] * (mat.ndim - v.ndim), *v.shape)
    at = jnp.stack([c * (n != 1) for c, n in zip(_columns(mat.indices), v.shape, strict=True)], -1)
    data = mat.data * extract(at, v)
    return mat.with_entries(jnp.where(_valid(mat), data, jnp.zeros((), data.dtype)))


def bcoo_multiply_dense(sp_mat: BCOO, v: ArrayLike) -> Array:
    """The data of the element-wise product with a dense array: those of a `BCOO` with the indices of `sp_mat`.

    >>> bcoo_multiply_dense(BCOO.fromdense(jnp.array([0., 2., 3.])), jnp.array([1., 10., 100.]))
    Array([ 20., 300.], dtype=float32)
    """
    product = multiply_dense(sp_mat, v)
    if product.indices.shape != sp_mat.indices.shape:
        raise bad("sparse.bcoo_multiply_dense", "the array has batch or dense dimensions", {"array": repr(sp_mat)},
                  "multiply by sparse.sparsify(numpy.multiply), which returns the indices too.",
                  exc=NotImplementedError)
    return product.data


def transposed(mat: BCOO) -> BCOO:
    """The array with its dimensions in reverse order."""
    return bcoo_transpose(mat, permutation=[*range(mat.ndim)][::-1])
