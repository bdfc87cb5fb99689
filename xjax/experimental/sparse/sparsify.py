"""`sparsify`: functions of dense arrays, applied to sparse ones.

`SparseTrace` interprets the operations of the function. An operation with a sparse operand is computed by its rule in
the table `RULES`; all others run as usual.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import xjax.numpy as jnp
from xjax import lax
from xjax.core.calls import function_name
from xjax.core.context import context, current_trace
from xjax.core.errors import bad
from xjax.core.primitive import LINEAR, Primitive
from xjax.core.trace import Tag, Trace, Tracer
from xjax.core.tree import tree_map
from xjax.core.types import ShapedArray, is_array_like
from xjax.experimental.sparse import products, structure
from xjax.experimental.sparse.arrays import BCOO
from xjax.typing import Array, ArrayLike, DTypeLike, PyTree

Rule = Callable[..., Any]
Operand = BCOO | ArrayLike


class SparseTracer(Tracer):
    """A sparse array that a function uses like a dense one."""

    __slots__ = ("value",)

    def __init__(self, tag: Tag, value: BCOO):
        self.tag, self.value = tag, value
        self.aval = ShapedArray(value.shape, value.dtype)


class SparseTrace(Trace):
    """Trace whose tracers are sparse arrays."""

    __slots__ = ()

    parent: Trace

    def join(self, x: Operand) -> ArrayLike:
        return SparseTracer(self.tag, x) if isinstance(x, BCOO) else x

    def split(self, x: Operand) -> Operand:
        return x.value if self._is_mine(x) else x

    def _is_mine(self, x: Operand) -> bool:
        return type(x) is SparseTracer and x.tag is self.tag

    def process(self, p: Primitive, args: tuple, params: dict) -> Any:
        if not any(map(self._is_mine, args)):
            return self.parent.process(p, args, params)
        if p.calls is not None:
            with current_trace(self):
                return params[p.calls.param](*args)
        rule = RULES.get(p.name)
        if rule is None:
            raise bad(f"sparse.{self.tag.caller}", f"the operation `{p.name}` has no rule for sparse arrays",
                      {"operands": ", ".join(map(repr, map(self.split, args)))},
                      "make the array dense in the function: sparse.todense(x).", exc=NotImplementedError)
        with current_trace(self.parent):
            out = rule(p, *map(self.split, args), **params)
        return [*map(self.join, out)] if p.multiple_results else self.join(out)


def sparsify(f: Callable, use_tracer: bool = False) -> Callable:
    """A function of arrays as a function of sparse and dense arrays.

    It computes with the entries of sparse arrays only: linear operations, products, sums along axes, changes of shape,
    and functions that map 0 to 0. Another operation on a sparse array is refused; `todense` makes the array dense.

    Args: use_tracer: accepted as in JAX.
    Raises: NotImplementedError for an operation without a rule.

    >>> m = BCOO.fromdense(jnp.array([[0., 2.], [3., 0.]]))
    >>> sparsify(lambda m, x: 2 * m.T @ x)(m, jnp.array([1., 10.]))
    Array([60.,  4.], dtype=float32)
    """
    @functools.wraps(f)
    def sparse_f(*args: PyTree, **kwargs: PyTree) -> PyTree:
        trace = SparseTrace(context.trace, Tag(f"sparsify of `{function_name(f)}`"))

        def in_(x: PyTree) -> PyTree:
            return tree_map(trace.join, x, is_leaf=_is_sparse)

        with current_trace(trace):
            out = f(*[in_(x) for x in args], **{k: in_(x) for k, x in kwargs.items()})
        out = tree_map(trace.split, out)
        trace.close()
        return out

    return sparse_f


def _is_sparse(x: Operand) -> bool:
    return isinstance(x, BCOO)


def todense(arr: BCOO | ArrayLike) -> Array:
    """The dense array of a sparse or dense one, also in a function under `sparsify`.

    Raises: TypeError for another type.

    >>> todense(BCOO.fromdense(jnp.array([0., 2.])))
    Array([0., 2.], dtype=float32)
    """
    if isinstance(arr, BCOO):
        return structure.bcoo_todense(arr)
    if not is_array_like(arr):
        raise bad("sparse.todense", f"a {type(arr).__name__} is neither a sparse nor a dense array", {},
                  "pass a BCOO or an array.")
    return todense_p.bind(arr) if isinstance(arr, Tracer) else jnp.asarray(arr)


def _identity_type(x):
    return x


def _identity_lower(b, out, x):
    return x


def _identity_transpose(ct, x):
    return [ct]


def _identity_batch(axis, args, bdims):
    return args[0], bdims[0]


# The identity on dense arrays: a program that `sparsify` interprets may have it, with a sparse operand.
todense_p = Primitive("todense", type_rule=_identity_type, lower=_identity_lower, jvp=LINEAR,
                      transpose=_identity_transpose, batch=_identity_batch)


# -- rules: rule(p, *operands, **params), of which at least one operand is a BCOO ------------------------------------

def _linear(p: Primitive, x: BCOO, **params: object) -> BCOO:
    """An operation that applies to each element, and adds where elements are added."""
    return x.with_entries(p.bind(x.data, **params))


def _zero_preserving(p: Primitive, x: BCOO, **params: object) -> BCOO:
    """A function that maps 0 to 0: entries of equal indices are added first."""
    x = x if x.unique_indices else structure.bcoo_sum_duplicates(x)
    return x.with_entries(p.bind(x.data, **params))


def _integer_pow(p: Primitive, x: BCOO, *, y: int) -> BCOO | Array:
    return _zero_preserving(p, x, y=y) if y > 0 else _refuse(p, x)


def _refuse(p: Primitive, *operands: Operand) -> BCOO | Array:
    raise bad("sparse.sparsify", f"the result of `{p.name}` would be dense",
              {"operands": ", ".join(f"{x!r}" if _is_sparse(x) else f"{jnp.shape(x)}" for x in operands)},
              "make the array dense in the function: sparse.todense(x).", exc=NotImplementedError)


def _add(p: Primitive, x: Operand, y: Operand, **_: object) -> BCOO | Array:
    if _is_sparse(x) and _is_sparse(y):
        if x.shape == y.shape:
            return structure.sum_of([x, y])
        return _refuse(p, x, y)
    dense, mat = (y, x) if _is_sparse(x) else (x, y)
    return lax.add(structure.bcoo_todense(mat), dense) if jnp.shape(dense) == mat.shape else _refuse(p, x, y)


def _sub(p: Primitive, x: Operand, y: Operand, **params: object) -> BCOO | Array:
    return _add(p, x, y.with_entries(-y.data) if _is_sparse(y) else lax.neg(y), **params)


def _mul(p: Primitive, x: Operand, y: Operand, **_: object) -> BCOO | Array:
    if _is_sparse(x) and _is_sparse(y):
        shape = jnp.broadcast_shapes(x.shape, y.shape)
        return products.bcoo_multiply_sparse(_widened(x, shape), _widened(y, shape))
    mat, dense = (x, y) if _is_sparse(x) else (y, x)
    return products.multiply_dense(_widened(mat, jnp.broadcast_shapes(mat.shape, jnp.shape(dense))), dense)


def _widened(mat: BCOO, shape: Sequence[int]) -> BCOO:
    if mat.shape == tuple(shape):
        return mat
    return structure.bcoo_broadcast_in_dim(mat, shape=shape, broadcast_dimensions=[*range(len(shape))][-mat.ndim:]
                                           if mat.ndim else [])


def _div(p: Primitive, x: Operand, y: Operand, **params: object) -> BCOO | Array:
    return _refuse(p, x, y) if _is_sparse(y) else _mul(p, x, lax.div(jnp.ones_like(y), y))


def _dot_general(p: Primitive, x: Operand, y: Operand, *, dimension_numbers: products.DimensionNumbers,
                 preferred_element_type: DTypeLike | None = None, **_: object) -> BCOO | Array:
    return products.bcoo_dot_general(x, y, dimension_numbers=dimension_numbers,
                                     preferred_element_type=preferred_element_type)


def _reduce_sum(p: Primitive, x: BCOO, *, axes: Sequence[int], **_: object) -> BCOO | Array:
    out = structure.bcoo_reduce_sum(x, axes=axes)
    return out if out.ndim else structure.bcoo_todense(out)


def _transpose(p: Primitive, x: BCOO, *, permutation: Sequence[int]) -> BCOO:
    return structure.bcoo_transpose(x, permutation=permutation)


def _reshape(p: Primitive, x: BCOO, *, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None,
             **_: object) -> BCOO:
    return structure.bcoo_reshape(x, new_sizes=new_sizes, dimensions=dimensions)


def _squeeze(p: Primitive, x: BCOO, *, dimensions: Sequence[int]) -> BCOO:
    return structure.bcoo_squeeze(x, dimensions=dimensions)


def _broadcast_in_dim(p: Primitive, x: BCOO, *, shape: Sequence[int], broadcast_dimensions: Sequence[int],
                      **_: object) -> BCOO:
    return structure.bcoo_broadcast_in_dim(x, shape=shape, broadcast_dimensions=broadcast_dimensions)


def _concatenate(p: Primitive, *xs: Operand, dimension: int) -> BCOO | Array:
    if all(map(_is_sparse, xs)):
        return structure.bcoo_concatenate(xs, dimension=dimension)
    return _refuse(p, *xs)


def _slice(p: Primitive, x: BCOO, **params: object) -> BCOO:
    return structure.bcoo_slice(x, **params)


def _dynamic_slice(p: Primitive, x: Operand, *starts: ArrayLike, slice_sizes: Sequence[int]) -> BCOO | Array:
    return structure.bcoo_dynamic_slice(x, starts, slice_sizes) if _is_sparse(x) else _refuse(p, x, *starts)


def _rev(p: Primitive, x: BCOO, *, dimensions: Sequence[int]) -> BCOO:
    return structure.bcoo_rev(x, dimensions)


def _todense(p: Primitive, x: BCOO) -> Array:
    return structure.bcoo_todense(x)


_ZERO_PRESERVING = """
abs asin asinh atan atanh cbrt ceil erf erf_inv expm1 floor log1p round sign sin sinh sqrt square tan tanh
""".split()  # noqa: SIM905

RULES: dict[str, Rule] = {
    **dict.fromkeys(("neg", "real", "imag", "conj", "copy", "convert_element_type", "reduce_precision"), _linear),
    **dict.fromkeys(_ZERO_PRESERVING, _zero_preserving), "todense": _todense,
    "integer_pow": _integer_pow, "add": _add, "add_any": _add, "sub": _sub, "mul": _mul, "div": _div,
    "dot_general": _dot_general, "reduce_sum": _reduce_sum, "transpose": _transpose, "reshape": _reshape,
    "squeeze": _squeeze, "broadcast_in_dim": _broadcast_in_dim, "concatenate": _concatenate, "slice": _slice,
    "dynamic_slice": _dynamic_slice, "rev": _rev,
}
