"""Products that sum over axes: dot, matmul, einsum and related functions, with one `dot_general` per pair of operands.

A product is described by labels, one for each axis, as in einsum: `contract_pair(x, "ij", y, "jk", "ik")`.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xjax.core import dtypes
from xjax.core.calls import constrained
from xjax.core.errors import bad
from xjax.core.promotion import lattice_join
from xjax.numpy.composed import conjugate
from xjax.numpy.creation import near_diagonal
from xjax.numpy.einsum_parse import Labels, parse_einsum
from xjax.numpy.promote import as_dtype, aval_of, check_ranks, promote, shape_of
from xjax.numpy.reductions import sum
from xjax.numpy.selection import HostOrArray, operand
from xjax.numpy.ufuncs import multiply
from xjax.ops.arrange import broadcasted_iota, stack
from xjax.ops.checks import canonical_axes, canonical_axis
from xjax.ops.compare import eq, select
from xjax.ops.convert import convert_element_type
from xjax.ops.dot import PrecisionLike, dot_general
from xjax.ops.elementwise import add, sub
from xjax.ops.makers import filled_like
from xjax.ops.shape import expand_dims, move_axis, reduce_sum, reshape, squeeze, transpose
from xjax.ops.slice import index_in_dim
from xjax.runtime.one_launch import one_launch
from xjax.typing import Array, ArrayLike, DTypeLike

# -- one pair -----------------------------------------------------------------------------------------------------

class _Plan(NamedTuple):
    """How to contract a pair: axes to drop first, dot_general's numbers, operand order, and the final transposition."""

    drop_x: tuple[int, ...]
    drop_y: tuple[int, ...]
    numbers: tuple
    swapped: bool
    order: tuple[int, ...]


@functools.lru_cache(4096)
def _plan(xs: Labels, x_shape: tuple, ys: Labels, y_shape: tuple, out: Labels) -> _Plan:
    # An axis of size 1 whose label has a larger size in the other operand broadcasts: it is dropped.
    x_size, y_size = dict(zip(xs, x_shape, strict=True)), dict(zip(ys, y_shape, strict=True))
    shared = [c for c in xs if c in y_size]
    drop_x = tuple(i for i, c in enumerate(xs) if c in y_size and x_size[c] == 1 != y_size[c])
    drop_y = tuple(i for i, c in enumerate(ys) if c in x_size and y_size[c] == 1 != x_size[c])
    xs = tuple(c for i, c in enumerate(xs) if i not in drop_x)
    ys = tuple(c for i, c in enumerate(ys) if i not in drop_y)
    shared = [c for c in shared if c in xs and c in ys]
    batch, contract = [c for c in out if c in shared], [c for c in shared if c not in out]
    free_x, free_y = [c for c in xs if c not in shared], [c for c in ys if c not in shared]
    numbers = tuple(tuple(tuple(map(s.index, group)) for s in (xs, ys)) for group in (contract, batch))
    made = (*batch, *free_x, *free_y)
    swapped = made != tuple(out) and (*batch, *free_y, *free_x) == tuple(out)
    if swapped:
        made, numbers = tuple(out), tuple(pair[::-1] for pair in numbers)
    return _Plan(drop_x, drop_y, numbers, swapped, tuple(map(made.index, out)))


def contract_pair(x: ArrayLike, xs: Labels, y: ArrayLike, ys: Labels, out: Labels, precision: PrecisionLike = None,
                  preferred_element_type: DTypeLike | None = None, product: Callable = dot_general) -> Array:
    """Sum of products over the labels that are not in `out`.

    Every label of `out` is a label of x or y and occurs once. Labels of only one operand must be in `out`.
    """
    plan = _plan(xs, x.shape, ys, y.shape, out)
    x = squeeze(x, plan.drop_x) if plan.drop_x else x
    y = squeeze(y, plan.drop_y) if plan.drop_y else y
    x, y = (y, x) if plan.swapped else (x, y)
    return transpose(product(x, y, plan.numbers, precision, preferred_element_type=preferred_element_type), plan.order)


def _pair(caller: str, a: ArrayLike, b: ArrayLike,
          preferred_element_type: DTypeLike | None) -> tuple[HostOrArray, HostOrArray, np.dtype, bool]:
    """Checked operands, and dtype and weak type of the result."""
    a, b = operand(caller, a), operand(caller, b)
    dtype, weak = lattice_join((a.dtype, _weak(a)), (b.dtype, _weak(b)))
    if preferred_element_type is not None:
        dtype, weak = as_dtype(preferred_element_type, caller), False
    return a, b, dtype, weak


def _weak(x: ArrayLike) -> bool:
    return hasattr(x, "aval") and x.aval.weak_type


def _product(caller: str, a: ArrayLike, xs: Labels, b: ArrayLike, ys: Labels, out: Labels, precision: PrecisionLike,
             preferred_element_type: DTypeLike | None) -> Array:
    a, b, dtype, weak = _pair(caller, a, b, preferred_element_type)
    return convert_element_type(contract_pair(a, xs, b, ys, out, precision, dtype), dtype, weak)


def _mismatch(caller: str, a: Array, b: Array, i: int, j: int, names: str = "ab") -> Exception:
    avals = aval_of(caller, a), aval_of(caller, b)
    return bad(caller, "contracting dimensions differ in size",
               given={names[0]: f"{avals[0].str_short()}   contracts axis {i}, size {avals[0].shape[i]}",
                      names[1]: f"{avals[1].str_short()}   contracts axis {j}, size {avals[1].shape[j]}"},
               fix="transpose one of them, or check the order of the operands.")


# -- vectors and matrices -----------------------------------------------------------------------------------------

@one_launch(arrays=2)
def dot(a: ArrayLike, b: ArrayLike, *, precision: PrecisionLike = None,
        preferred_element_type: DTypeLike | None = None, out_sharding: object = None) -> Array:
    """Sum of products over the last axis of `a` and the second to last (or only) axis of `b`; 0-d arguments multiply.

    Args: precision: of float32 products on accelerators: None, "default", "high", "highest", or a `lax.Precision`.
    Raises: TypeError if the sizes differ.
    """
    if out_sharding is not None:
        y = dot(a, b, precision=precision, preferred_element_type=preferred_element_type)
        return constrained("numpy.dot", y, out_sharding)
    caller = "numpy.dot"
    n, m = len(shape_of(a)), len(shape_of(b))
    xs, ys = tuple(range(n)), tuple(range(n, n + m))
    if n and m:
        j = m - 2 if m > 1 else 0
        if shape_of(a)[-1] != shape_of(b)[j]:
            raise _mismatch(caller, a, b, n - 1, j)
        ys = tuple(n - 1 if i == j else y for i, y in enumerate(ys))
    out = tuple(c for c in (*xs, *ys) if not (n and m) or c != n - 1)
    return _product(caller, a, xs, b, ys, out, precision, preferred_element_type)


@functools.lru_cache(1024)
def _matmul_labels(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[Labels, Labels, Labels]:
    """Labels for matmul: -1 contracts, -2 and -3 are rows and columns, 0, 1, ... batch axes from the last one."""
    n, m = len(a), len(b)
    batch_a, batch_b = tuple(range(n - 3, -1, -1)), tuple(range(m - 3, -1, -1))
    xs = (*batch_a, -2, -1) if n > 1 else (-1,)
    ys = (*batch_b, -1, -3) if m > 1 else (-1,)
    batch = batch_a if len(batch_a) >= len(batch_b) else batch_b
    return xs, ys, (*batch, *((-2,) if n > 1 else ()), *((-3,) if m > 1 else ()))


@one_launch(arrays=2)
def matmul(a: ArrayLike, b: ArrayLike, *, precision: PrecisionLike = None,
           preferred_element_type: DTypeLike | None = None, out_sharding: object = None) -> Array:
    """Matrix product of the last two axes; the axes before broadcast. A vector `a` is a row, a vector `b` a column.

    Args: a: any[..., n, k] or any[k];  b: any[..., k, m] or any[k].
    Raises: ValueError for 0-d arguments, TypeError if the inner sizes differ.

    >>> matmul(np.ones((2, 3)), np.ones((3, 4))).shape
    (2, 4)
    """
    if out_sharding is not None:
        y = matmul(a, b, precision=precision, preferred_element_type=preferred_element_type)
        return constrained("numpy.matmul", y, out_sharding)
    caller = "numpy.matmul"
    a, b, dtype, weak = _pair(caller, a, b, preferred_element_type)
    if not a.ndim or not b.ndim:
        raise bad(caller, "0-d arguments are not accepted", given={"a": aval_of(caller, a), "b": aval_of(caller, b)},
                  fix="multiply by a number with *.", exc=ValueError)
    j = b.ndim - 2 if b.ndim > 1 else 0
    if a.shape[-1] != b.shape[j]:
        raise _mismatch(caller, a, b, a.ndim - 1, j)
    xs, ys, out = _matmul_labels(a.shape, b.shape)
    if a.ndim > 2 and b.ndim > 2:
        _check_batch(caller, a, b)
    return convert_element_type(contract_pair(a, xs, b, ys, out, precision, dtype), dtype, weak)


def _check_batch(caller: str, a: ArrayLike, b: ArrayLike) -> None:
    pairs = zip(a.shape[:-2][::-1], b.shape[:-2][::-1], strict=False)
    if any(n != m and 1 not in (n, m) for n, m in pairs):
        raise bad(caller, "the axes before the last two do not broadcast",
                  given={"a": aval_of(caller, a), "b": aval_of(caller, b)}, fix="make them equal or 1.", exc=ValueError)


@one_launch(arrays=2)
def vecdot(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1, precision: PrecisionLike = None,
           preferred_element_type: DTypeLike | None = None) -> Array:
    """Sum over one axis of ``conj(x1) * x2``; the other axes broadcast."""
    caller = "numpy.vecdot"
    x1, x2 = operand(caller, x1), operand(caller, x2)
    i, j = canonical_axis(axis, x1.ndim, caller), canonical_axis(axis, x2.ndim, caller)
    if x1.shape[i] != x2.shape[j]:
        raise _mismatch(caller, x1, x2, i, j, ["x1", "x2"])
    check_ranks(caller, [x1.shape, x2.shape])
    rows, columns = expand_dims(move_axis(conjugate(x1), i, x1.ndim - 1), (x1.ndim - 1,)), move_axis(x2, j, x2.ndim - 1)
    out = matmul(rows, expand_dims(columns, (x2.ndim,)), precision=precision,
                 preferred_element_type=preferred_element_type)
    return squeeze(out, (out.ndim - 2, out.ndim - 1))


@one_launch(arrays=2)
def matvec(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Matrices times vectors: any[..., n, k] and any[..., k] give any[..., n]."""
    x2 = operand("numpy.matvec", x2)
    out = matmul(x1, expand_dims(x2, (x2.ndim,)))
    return squeeze(out, (out.ndim - 1,))


@one_launch(arrays=2)
def vecmat(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Conjugated vectors times matrices: any[..., n] and any[..., n, k] give any[..., k]."""
    x1 = conjugate(operand("numpy.vecmat", x1))
    out = matmul(expand_dims(x1, (x1.ndim - 1,)), x2)
    return squeeze(out, (out.ndim - 2,))


@one_launch(arrays=2)
def vdot(a: ArrayLike, b: ArrayLike, *, precision: PrecisionLike = None,
         preferred_element_type: DTypeLike | None = None) -> Array:
    """Sum of ``conj(a) * b`` over all elements."""
    a, b = operand("numpy.vdot", a), operand("numpy.vdot", b)
    if dtypes.is_complex(a.dtype):
        a = conjugate(a)
    return dot(reshape(a, (a.size,)), reshape(b, (b.size,)), precision=precision,
               preferred_element_type=preferred_element_type)


@one_launch(arrays=2)
def inner(a: ArrayLike, b: ArrayLike, *, precision: PrecisionLike = None,
          preferred_element_type: DTypeLike | None = None) -> Array:
    """Sum of products over the last axes of both; 0-d arguments multiply."""
    a, b = operand("numpy.inner", a), operand("numpy.inner", b)
    axes: Any = ((), ()) if not a.ndim or not b.ndim else ((a.ndim - 1,), (b.ndim - 1,))
    return tensordot(a, b, axes, precision=precision, preferred_element_type=preferred_element_type)


@one_launch(arrays=2)
def outer(a: ArrayLike, b: ArrayLike, out: None = None) -> Array:
    """Products of all pairs: any[n] and any[m] (others are flattened) give any[n, m]."""
    a, b = promote("numpy.outer", operand("numpy.outer", a), operand("numpy.outer", b))
    return multiply(expand_dims(reshape(a, (a.size,)), (1,)), expand_dims(reshape(b, (b.size,)), (0,)))


@one_launch(arrays=2)
def tensordot(a: ArrayLike, b: ArrayLike, axes: int | Sequence[int] | Sequence[Sequence[int]] = 2, *,
              precision: PrecisionLike = None, preferred_element_type: DTypeLike | None = None,
              out_sharding: object = None) -> Array:
    """Sum of products over several axes.

    Args: axes: n (the last n of `a` with the first n of `b`), or a pair of axes or of sequences of axes.
    Raises: TypeError if the sizes differ.
    """
    if out_sharding is not None:
        y = tensordot(a, b, axes, precision=precision, preferred_element_type=preferred_element_type)
        return constrained("numpy.tensordot", y, out_sharding)
    caller = "numpy.tensordot"
    a, b = operand(caller, a), operand(caller, b)
    if isinstance(axes, (int, np.integer)):
        if not 0 <= axes <= min(a.ndim, b.ndim):
            raise bad(caller, f"cannot contract {axes} axes", given={"a": aval_of(caller, a), "b": aval_of(caller, b)},
                      fix="pass a number of axes that both operands have.")
        pairs = (tuple(range(a.ndim - axes, a.ndim)), tuple(range(axes)))
    else:
        i, j = axes
        pairs = (canonical_axes(i, a.ndim, caller, "axes"), canonical_axes(j, b.ndim, caller, "axes"))
    if len(pairs[0]) != len(pairs[1]):
        raise bad(caller, "`axes` names different numbers of axes", given={"axes": str(axes)},
                  fix="name one axis of b for each of a.")
    for i, j in zip(*pairs, strict=True):
        if a.shape[i] != b.shape[j]:
            raise _mismatch(caller, a, b, i, j)
    partner = dict(zip(pairs[1], pairs[0], strict=True))
    xs = tuple(range(a.ndim))
    ys = tuple(partner.get(j, a.ndim + j) for j in range(b.ndim))
    out = (*(c for c in xs if c not in pairs[0]), *(c for c in ys if c >= a.ndim))
    return _product(caller, a, xs, b, ys, out, precision, preferred_element_type)


# -- einsum -------------------------------------------------------------------------------------------------------

def einsum(subscripts: Any, /, *operands: Any, out: None = None,
           optimize: bool | str | Sequence[tuple[int, ...]] = "auto", precision: PrecisionLike = None,
           preferred_element_type: DTypeLike | None = None, _dot_general: Callable = dot_general,
           out_sharding: object = None) -> Array:
    """Sum of products described by labels: ``einsum("ij,jk->ik", a, b)``.

    Args:
      subscripts: labels for each operand and, after "->", for the result (without it: the labels that occur once, in
        alphabetical order); "..." stands for broadcast axes. Or alternating operands and lists of integer labels.
      optimize: order of the products for 3 and more operands, as in opt_einsum.
      _dot_general: computes each product of two operands, with the arguments of `lax.dot_general`; libraries replace
        it, for example by products of 8-bit numbers.
    Raises: ValueError for subscripts that do not fit.

    >>> einsum("ii->", np.eye(3))
    Array(3., dtype=float32)
    """
    if out_sharding is not None:
        y = einsum(subscripts, *operands, out=out, optimize=optimize, precision=precision,
                   preferred_element_type=preferred_element_type, _dot_general=_dot_general)
        return constrained("numpy.einsum", y, out_sharding)
    caller = "numpy.einsum"
    terms, result, arrays = parse_einsum(caller, subscripts, operands)
    xs = [operand(caller, x) for x in arrays]
    dtype, weak = lattice_join(*[(x.dtype, _weak(x)) for x in xs])
    if preferred_element_type is not None:
        dtype, weak = as_dtype(preferred_element_type, caller), False
    # A sum of bools is true if any is true: computed as a count, and converted to bool at the end.
    computed = np.dtype(np.int32) if dtypes.is_bool(dtype) else dtype
    xs = [convert_element_type(x, computed) if dtypes.is_bool(x.dtype) else x for x in xs]
    xs, terms = _without_broadcast(xs, terms)
    work = list(zip(xs, terms, strict=True))
    for step in _path(terms, result, xs, optimize):
        chosen = [work.pop(i) for i in sorted(step, reverse=True)][::-1]
        rest = {c for _, labels in work for c in labels}
        while len(chosen) > 1:
            (x, s), (y, t), *others = chosen
            keep = rest | set(result) | {c for _, labels in others for c in labels}
            chosen = [_multiply_pair(x, s, y, t, keep, result if not others and not work else None, precision,
                                     computed, _dot_general), *others]
        work.append(chosen[0])
    x, labels = _sum_alone(*work[0], set(result))
    return convert_element_type(transpose(x, tuple(map(labels.index, result))), dtype, weak)


def _without_broadcast(xs: list[Any], terms: list[Labels]) -> tuple[list[Any], list[Labels]]:
    """The operands without axes of size 1 whose label has a larger size in another operand: these axes broadcast."""
    if not any(1 in x.shape for x in xs):
        return xs, terms
    large = {c for x, labels in zip(xs, terms, strict=True) for c, n in zip(labels, x.shape, strict=True) if n != 1}
    for k, (x, labels) in enumerate(zip(xs, terms, strict=True)):
        axes = tuple(i for i, c in enumerate(labels) if x.shape[i] == 1 and c in large)
        if axes:
            xs[k], terms[k] = squeeze(x, axes), tuple(c for i, c in enumerate(labels) if i not in axes)
    return xs, terms


def _path(terms: Sequence[Labels], result: Labels, xs: Sequence[Any], optimize: Any) -> Sequence[tuple[int, ...]]:
    if len(xs) < 3 or optimize is False:
        return [tuple(range(len(xs)))]
    if isinstance(optimize, (list, tuple)) and optimize and optimize[0] != "einsum_path":
        return optimize
    return _optimizer().contract_path(f"{','.join(map(''.join, terms))}->{''.join(result)}", *[x.shape for x in xs],
                                      shapes=True, optimize="auto" if optimize is True else optimize)[0]


@functools.cache
def _optimizer() -> Any:
    # Imported on first use: only products of three and more operands need it.
    return importlib.import_module("opt_einsum")


def einsum_path(subscripts: str, /, *operands: Any, optimize: str = "auto") -> tuple[list, Any]:
    """The order in which `einsum` multiplies, and a description of its cost."""
    terms, result, arrays = parse_einsum("numpy.einsum_path", subscripts, operands)
    text = f"{','.join(map(''.join, terms))}->{''.join(result)}"
    return _optimizer().contract_path(text, *[shape_of(x) for x in arrays], shapes=True,
                                      optimize="auto" if optimize is True else optimize)


def _multiply_pair(x: ArrayLike, xs: Labels, y: ArrayLike, ys: Labels, keep: set, result: Labels | None,
                   precision: PrecisionLike, dtype: DTypeLike, product: Callable) -> tuple[Any, Labels]:
    """Product of two operands, summed over unneeded labels; in the order of `result` if only its labels remain."""
    x, xs = _sum_alone(x, xs, keep | set(ys))
    y, ys = _sum_alone(y, ys, keep | set(xs))
    out = result if result is not None and set(result) == (set(xs) | set(ys)) & keep else None
    if out is None:
        shared = [c for c in xs if c in ys and c in keep]
        out = (*shared, *(c for c in xs if c not in ys), *(c for c in ys if c not in xs))
    return contract_pair(x, xs, y, ys, out, precision, dtype, product), out


def _sum_alone(x: ArrayLike, labels: Labels, keep: set) -> tuple[Any, Labels]:
    """The diagonal of repeated labels of one operand, summed over the labels that are not in `keep`."""
    for c in dict.fromkeys(labels):
        while labels.count(c) > 1:
            i, j = [k for k, d in enumerate(labels) if d == c][:2]
            x, labels = _diagonal_of(x, i, j), labels[:i] + labels[i + 1:]
    axes = tuple(i for i, c in enumerate(labels) if c not in keep)
    return reduce_sum(x, axes) if axes else x, tuple(c for c in labels if c in keep)


def _diagonal_of(x: ArrayLike, i: int, j: int) -> Array:
    """`x` where the indices along axes i and j agree, without axis i: the sum over it of the masked `x`."""
    on_diagonal = eq(broadcasted_iota(np.int32, x.shape, i), broadcasted_iota(np.int32, x.shape, j))
    return reduce_sum(select(on_diagonal, x, filled_like(x, 0)), (i,))


# -- further products ---------------------------------------------------------------------------------------------

@one_launch(arrays=2)
def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """Kronecker product: `b` times each element of `a`, in blocks."""
    a, b = promote("numpy.kron", operand("numpy.kron", a), operand("numpy.kron", b))
    rank = max(a.ndim, b.ndim)
    a, b = (expand_dims(x, range(rank - x.ndim)) for x in (a, b))
    product = multiply(expand_dims(a, range(1, 2 * rank, 2)), expand_dims(b, range(0, 2 * rank, 2)))
    return reshape(product, [n * m for n, m in zip(a.shape, b.shape, strict=True)])


@one_launch(arrays=2)
def cross(a: ArrayLike, b: ArrayLike, axisa: int = -1, axisb: int = -1, axisc: int = -1,
          axis: int | None = None) -> Array:
    """Cross product of vectors with 3 or 2 components.

    The missing third component counts as 0; of two vectors with 2 components, only the third component is returned.

    Args: axisa, axisb, axisc: axes of the components in a, b and the result; axis: all three.
    """
    caller = "numpy.cross"
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = promote(caller, operand(caller, a), operand(caller, b))
    a, b = (move_axis(x, canonical_axis(d, x.ndim, caller), x.ndim - 1) for x, d in ((a, axisa), (b, axisb)))
    if a.shape[-1] not in (2, 3) or b.shape[-1] not in (2, 3):
        raise bad(caller, "vectors must have 2 or 3 components",
                  given={"a": aval_of(caller, a), "b": aval_of(caller, b)},
                  fix="name the axis of the components with axis=....", exc=ValueError)

    def component(x: Array, i: int) -> Array | None:
        return index_in_dim(x, i, x.ndim - 1, keepdims=False) if i < x.shape[-1] else None

    def minor(i: int, j: int) -> Array:
        terms = [None if p is None or q is None else multiply(p, q)
                 for p, q in ((component(a, i), component(b, j)), (component(a, j), component(b, i)))]
        first, second = terms
        if second is None:
            assert first is not None                    # only one of the third components is missing
            return first
        return sub(filled_like(second, 0) if first is None else first, second)

    if a.shape[-1] == b.shape[-1] == 2:
        return minor(0, 1)
    out = stack([minor(1, 2), minor(2, 0), minor(0, 1)], -1)
    return move_axis(out, out.ndim - 1, canonical_axis(axisc, out.ndim, caller))


@one_launch
def trace(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike | None = None,
          out: None = None) -> Array:
    """Sum along a diagonal of two axes; narrow integers are summed as default integers."""
    caller = "numpy.trace"
    a = operand(caller, a)
    i, j = canonical_axes((axis1, axis2), a.ndim, caller)
    rows, columns = (broadcasted_iota(np.int32, a.shape, d) for d in (i, j))
    shift = near_diagonal((a.shape[i], a.shape[j]), offset)
    kept = select(eq(add(rows, shift) if shift else rows, columns), a, filled_like(a, 0))
    return sum(kept, (i, j), dtype=dtype)
