"""`reduce` and `reduce_window` by any function of two values, on one array or several together.

If function and start value are those of a sum, product, extremum or logical operation, that operation is used, because
it is faster. Any other function is traced once, on scalars. The derivative is that of a tree in which neighbours are
combined, so it exists in both modes and to any order.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.calls import constrained, flatten_function, function_name
from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value, i64_array
from xjax.core.jaxpr import ClosedJaxpr
from xjax.core.lowering import lower_closed
from xjax.core.primitive import Primitive
from xjax.core.staging import trace_to_jaxpr
from xjax.core.trace import Tracer
from xjax.core.tree import tree_mismatch, tree_unflatten, treedef_tuple
from xjax.core.types import ShapedArray, Zero, typeof
from xjax.lax.control import check_callable, flat_arrays
from xjax.ops.arrange import batched_in_front, concatenate
from xjax.ops.bitwise import bitwise_and, bitwise_or, bitwise_xor
from xjax.ops.checks import NOT_LINEAR, canonical_axes, kind_of
from xjax.ops.convert import convert_element_type
from xjax.ops.cpu.windows import window_on_cpu
from xjax.ops.elementwise import add, mul
from xjax.ops.makers import match_scalars
from xjax.ops.piecewise import max, max_p, min, min_p
from xjax.ops.reduce import (
    extreme_value,
    reduce_and,
    reduce_max,
    reduce_max_p,
    reduce_min,
    reduce_min_p,
    reduce_or,
    reduce_prod,
    reduce_xor,
)
from xjax.ops.shape import broadcast_in_dim, reduce_sum, reshape, squeeze, transpose
from xjax.ops.slice import slice_in_dim
from xjax.ops.window import Window, check_window, emit_window, make_window, window_of, windows_of
from xjax.ops.window_reduce import reduce_window_max_p, reduce_window_min_p, reduce_window_sum_p
from xjax.transforms.batching import MappedAxis, batch_program
from xjax.transforms.jvp import jvp_flat
from xjax.transforms.rule_functions import batched_call
from xjax.transforms.trace_cache import remember
from xjax.typing import PyTree


def reduce(operands: PyTree, init_values: PyTree, computation: Callable, dimensions: Sequence[int],
           out_sharding: object = None) -> PyTree:
    """Reduction of an array, or of a tree of arrays together, over `dimensions`, by any function of two values.

    Args:
      operands: tree of arrays any[...] of one shape.
      init_values: tree with the same structure, of scalars with the same dtypes: the identity of `computation`.
      computation: `computation(x, y) -> z` on trees of scalars; must be associative, since the order is not defined.
      dimensions: axes to reduce.
    Returns: tree of the arrays without the axes in `dimensions`.
    Raises: ValueError if the trees differ; TypeError if dtypes or shapes do.

    >>> x = np.array([[3, 1], [2, 5]], np.int32)
    >>> reduce(x, np.int32(0), lambda x, y: x | y, (1,))
    Array([3, 7], dtype=int32)
    """
    if out_sharding is not None:
        return constrained("lax.reduce", reduce(operands, init_values, computation, dimensions), out_sharding)
    caller = "lax.reduce"
    leaves, inits, tree, avals = _arguments(caller, operands, init_values, computation)
    axes = canonical_axes(dimensions, avals[0].ndim, caller, "dimensions")
    known = _known(computation, inits, _REDUCTIONS)
    if known is not None:
        out = known(leaves[0], axes)
        weak = avals[0].weak_type and typeof(inits[0]).weak_type
        return tree_unflatten(tree, [out if weak or not typeof(out).weak_type else
                                     convert_element_type(out, typeof(out).dtype)])
    program = _program(caller, computation, tree, inits)
    outs = reduce_p.bind(*leaves, *inits, computation=computation, jaxpr=program, dimensions=axes)
    return tree_unflatten(tree, outs)


def reduce_window(operand: PyTree, init_value: PyTree, computation: Callable, window_dimensions: Sequence[int],
                  window_strides: Sequence[int] | None = None, padding: str | Sequence[tuple[int, int]] = "VALID",
                  base_dilation: Sequence[int] | None = None, window_dilation: Sequence[int] | None = None) -> PyTree:
    """Reduction over a window at every position, on an array, or on a tree of arrays together.

    Args:
      operand: tree of arrays any[...] of one shape.
      init_value: tree of scalars of the same dtypes: the identity of `computation`, also used as padding.
      computation: `computation(x, y) -> z` on trees of scalars; must be associative, since the order is not defined.
      window_dimensions: size of the window along each axis; window_strides: its steps (None: 1).
      padding: "VALID", "SAME", "SAME_LOWER", or (low, high) for each axis.
      base_dilation, window_dilation: d inserts d - 1 padding elements between the elements of the array, or of the
        window (None: 1).
    Returns: tree of arrays, one element for each position of the window.
    Raises: ValueError if the trees differ; TypeError if the window does not fit.

    >>> reduce_window(np.arange(6.0, dtype=np.float32), -np.inf, max, (2,), (2,))
    Array([1., 3., 5.], dtype=float32)
    """
    caller = "lax.reduce_window"
    leaves, inits, tree, avals = _arguments(caller, operand, init_value, computation)
    window = make_window(caller, avals[0].shape, window_dimensions, window_strides, padding, base_dilation,
                         window_dilation)
    known = None if dtypes.is_complex(avals[0].dtype) else _known(computation, inits, _WINDOW_REDUCTIONS)
    if known is not None:
        return tree_unflatten(tree, [known.bind(leaves[0], **window._asdict())])
    program = _program(caller, computation, tree, inits)
    outs = reduce_window_p.bind(*leaves, *inits, jaxpr=program.jaxpr, consts=tuple(program.consts),
                                **window._asdict())
    return tree_unflatten(tree, outs)


# -- arguments ----------------------------------------------------------------------------------------------------

def _arguments(caller: str, operands: PyTree, inits: PyTree, computation: Callable) -> tuple[list, list, Any, list]:
    """(arrays, start values, their structure, types of the arrays)."""
    check_callable(caller, "computation", computation)
    leaves, tree, _ = flat_arrays(caller, "operand", operands)
    starts, start_tree, _ = flat_arrays(caller, "init_value", inits)
    if tree != start_tree or not leaves:
        raise bad(caller, "the start values must have the structure of the operands, which must not be empty",
                  given=tree_mismatch("init_value", tree, start_tree),
                  fix="pass one scalar for each array.", exc=ValueError)
    pairs = [match_scalars(x, start) for x, start in zip(leaves, starts, strict=True)]
    return [x for x, _ in pairs], [start for _, start in pairs], tree, [typeof(x) for x, _ in pairs]


def _known(computation: Callable, inits: Sequence[Any], table: dict) -> Any:
    """The operation of the table for a function, or None; the start value must be its identity."""
    if len(inits) != 1 or computation not in table or isinstance(inits[0], Tracer) or typeof(inits[0]).ndim:
        return None
    dtype, (identity, operation) = typeof(inits[0]).dtype, table[computation]
    kinds = "bi" if computation in (bitwise_and, bitwise_or, bitwise_xor) else "bifc"
    if kind_of(dtype) not in kinds or (computation in (add, mul) and dtypes.is_bool(dtype)):
        return None
    return operation if np.asarray(inits[0]) == np.asarray(identity(dtype), dtype) else None


_LOWEST, _HIGHEST = functools.partial(extreme_value, sign=-1), functools.partial(extreme_value, sign=1)
_REDUCTIONS = {
    add: (lambda _: 0, reduce_sum), mul: (lambda _: 1, reduce_prod), max: (_LOWEST, reduce_max),
    min: (_HIGHEST, reduce_min), bitwise_or: (lambda _: 0, reduce_or), bitwise_xor: (lambda _: 0, reduce_xor),
    bitwise_and: (lambda dtype: np.invert(np.zeros((), dtype)), reduce_and)}
_WINDOW_REDUCTIONS = {add: (lambda _: 0, reduce_window_sum_p), max: (_LOWEST, reduce_window_max_p),
                      min: (_HIGHEST, reduce_window_min_p)}


def _program(caller: str, computation: Callable, tree: PyTree, inits: Sequence[Any]) -> ClosedJaxpr:
    """The function as a program of (left leaves, right leaves), scalars of the types of the start values."""
    avals = tuple(typeof(x).update(shape=()) for x in inits)
    return remember(computation, (caller, tree, avals), lambda: _trace(caller, computation, tree, avals))


def _trace(caller: str, computation: Callable, tree: PyTree, avals: Sequence[ShapedArray]) -> tuple[ClosedJaxpr, list]:
    name = function_name(computation)
    flat = flatten_function(computation, treedef_tuple((tree, tree)), caller=f"{caller} `{name}`")
    program = trace_to_jaxpr(flat, (*avals, *avals), f"{caller} `{name}`")
    if any(isinstance(c, Tracer) for c in program.consts):
        raise bad(caller, f"`{name}` uses a traced value from outside", exc=NotImplementedError,
                  fix="pass it as one more operand, or combine it with the result afterwards.")
    if flat.out_tree != tree:
        raise bad(caller, f"`{name}` must return a tree with the structure of the start values",
                  given=tree_mismatch("result", tree, flat.out_tree), fix="return one scalar for each operand.",
                  exc=ValueError)
    for aval, out in zip(avals, program.out_avals, strict=True):
        if out.shape or out.dtype != aval.dtype:
            raise bad(caller, f"`{name}` must return scalars of the dtypes of the start values",
                      given={"start value": aval.str_short(), "returned": out.str_short()},
                      fix="convert the result with lax.convert_element_type.")
    return program, program.consts


# -- the tree -----------------------------------------------------------------------------------------------------

def _by_tree(program: ClosedJaxpr, xs: Sequence[Any], inits: Sequence[Any]) -> list[Any]:
    """Reduction over the first axis: neighbours are combined until one is left, which is combined with the start value.
    """
    n, *rest = typeof(xs[0]).shape
    starts = [broadcast_in_dim(init, rest, ()) for init in inits]
    if not n:
        return starts
    while n > 1:
        even = [slice_in_dim(x, 0, n - n % 2, 2) for x in xs]
        odd = [slice_in_dim(x, 1, n, 2) for x in xs]
        pairs = _on_arrays(program, even, odd)
        xs = [concatenate([y, slice_in_dim(x, n - 1, n)], 0) if n % 2 else y for x, y in zip(xs, pairs, strict=True)]
        n = typeof(xs[0]).shape[0]
    return _on_arrays(program, starts, [squeeze(x, (0,)) for x in xs])


def _on_arrays(program: ClosedJaxpr, xs: Sequence[Any], ys: Sequence[Any]) -> list[Any]:
    """Apply a program of scalars element by element to arrays of one shape."""
    aval = typeof(xs[0])
    mapped, _ = batch_program(program, MappedAxis(aval.size), (0,) * len(program.in_avals), True)
    return [reshape(y, aval.shape) for y in mapped(*[reshape(x, (aval.size,)) for x in (*xs, *ys)])]


def _reduce_by_tree(*args: Any, computation, jaxpr, dimensions) -> list[Any]:
    n = len(args) // 2
    shape = typeof(args[0]).shape
    rest = [d for d in range(len(shape)) if d not in dimensions]
    flat = (math.prod(shape[d] for d in dimensions), *(shape[d] for d in rest))
    xs = [reshape(transpose(x, (*dimensions, *rest)), flat) for x in args[:n]]
    return _by_tree(jaxpr, xs, args[n:])


def _window_by_tree(*args: Any, jaxpr, consts, **params) -> list[Any]:
    n, window = len(args) // 2, Window(**params)
    xs = [windows_of(x, init, window) for x, init in zip(args[:n], args[n:], strict=True)]
    shape = typeof(xs[0]).shape[len(window.padding):]
    xs = [reshape(x, (math.prod(window.window_dimensions), *shape)) for x in xs]
    return _by_tree(ClosedJaxpr(jaxpr, consts), xs, args[n:])


# -- rules --------------------------------------------------------------------------------------------------------

def _check(caller: str, avals: Sequence[ShapedArray]) -> int:
    """Raise unless arrays and start values match; returns the number of arrays."""
    n = len(avals) // 2
    given = {f"operand {i}": f"{x.str_short()}   start value {start.str_short()}"
             for i, (x, start) in enumerate(zip(avals[:n], avals[n:], strict=True))}
    if len({x.shape for x in avals[:n]}) > 1:
        raise bad(caller, "the operands differ in shape", given=given, fix="make the shapes equal.")
    if any(start.ndim for start in avals[n:]):
        raise bad(caller, "the start values must be scalars", given=given, fix="pass one number for each operand.")
    if any(x.dtype != start.dtype for x, start in zip(avals[:n], avals[n:], strict=True)):
        raise bad(caller, "a start value must have the dtype of its operand", given=given,
                  fix="write it as numpy.float32(0), with the operand's dtype.")
    return n


def _jvp_rule(p: Callable[[], Primitive], by_tree: Callable) -> Callable:
    def rule(primals, tangents, **params):
        if all(type(t) is Zero for t in tangents):
            outs = p().bind(*primals, **params)
            return outs, [Zero(y.aval.tangent()) for y in outs]
        return jvp_flat(functools.partial(by_tree, **params), primals, tangents)
    return rule


def _batch_rule(p: Callable[[], Primitive], by_tree: Callable, inside: Callable[[dict], dict]) -> Callable:
    """`inside(params)`: the parameters for operands with one more leading axis."""
    def rule(axis, args, bdims, **params):
        n = len(args) // 2
        if any(b is not None for b in bdims[n:]):       # XLA accepts one start value for all elements
            outs = batched_call(functools.partial(by_tree, **params), axis, bdims)(*args)
        else:
            outs = p().bind(*batched_in_front(axis, args[:n], bdims[:n]), *args[n:], **{**params, **inside(params)})
        return outs, [0] * n
    return rule


def _extremum_of(program: ClosedJaxpr) -> tuple[Primitive, Primitive, str] | None:
    """For a program that is only a maximum or minimum: the primitives that reduce by it, and the operation; else None.

    XLA would recognise the program in a region, and use a library that loses NaN.
    """
    j = program.jaxpr
    if len(j.eqns) != 1 or len(j.invars) != 2 or {*j.eqns[0].invars} != {*j.invars} or j.outvars != j.eqns[0].outvars:
        return None
    return {max_p: (reduce_max_p, reduce_window_max_p, "stablehlo.maximum"),
            min_p: (reduce_min_p, reduce_window_min_p, "stablehlo.minimum")}.get(j.eqns[0].primitive)


def _with_start(b: Builder, operation: str, reduced: Value, start: Value) -> list[Value]:
    return [b.binary(operation, reduced, b.broadcast(start, reduced.aval, ()))]


# -- reduce -------------------------------------------------------------------------------------------------------

def _reduce_type(*avals, computation, jaxpr, dimensions):
    n = _check("lax.reduce", avals)
    return tuple(ShapedArray(tuple(s for d, s in enumerate(x.shape) if d not in dimensions), x.dtype,
                             x.weak_type and start.weak_type)
                 for x, start in zip(avals[:n], avals[n:], strict=True))


def _reduce_lower(b: Builder, outs: Sequence[ShapedArray], *args: Value, computation, jaxpr, dimensions) -> list[Value]:
    xs, starts = args[:len(outs)], args[len(outs):]
    extremum = _extremum_of(jaxpr)
    if extremum is not None and dtypes.is_float(outs[0].dtype):
        return _with_start(b, extremum[2], extremum[0].lower(b, outs[0], xs[0], axes=dimensions), starts[0])
    region = b.region([v.aval for v in starts] * 2, lambda inner, *scalars: lower_closed(inner, jaxpr, scalars))
    return b.generic("stablehlo.reduce", args, outs, f"dimensions = {i64_array(dimensions)}", [region])


reduce_p = Primitive(
    "reduce", type_rule=_reduce_type, lower=_reduce_lower, jvp=_jvp_rule(lambda: reduce_p, _reduce_by_tree),
    transpose=NOT_LINEAR, multiple_results=True, cacheable=False,
    batch=_batch_rule(lambda: reduce_p, _reduce_by_tree,
                      lambda params: {"dimensions": tuple(d + 1 for d in params["dimensions"])}))


# -- reduce_window ------------------------------------------------------------------------------------------------

def _window_type(*avals, jaxpr, consts, **params):
    window, n = Window(**params), _check("lax.reduce_window", avals)
    check_window("lax.reduce_window", avals[0].shape, window)
    return tuple(ShapedArray(window.out_shape(x.shape), x.dtype) for x in avals[:n])


def _window_lower_by(emit: Callable) -> Callable:
    def lower(b: Builder, outs: Sequence[ShapedArray], *args: Value, jaxpr, consts, **params) -> list[Value]:
        xs, starts = args[:len(outs)], args[len(outs):]
        program = ClosedJaxpr(jaxpr, consts)
        extremum = _extremum_of(program)
        if extremum is not None and dtypes.is_float(outs[0].dtype):
            return _with_start(b, extremum[2], extremum[1].lower(b, outs[0], xs[0], **params), starts[0])
        return emit(b, outs, xs, starts, Window(**params),
                    lambda inner, *scalars: lower_closed(inner, program, scalars))
    return lower


reduce_window_p = Primitive(
    "reduce_window", type_rule=_window_type, lower=_window_lower_by(emit_window),
    lower_on={"cpu": _window_lower_by(window_on_cpu)}, jvp=_jvp_rule(lambda: reduce_window_p, _window_by_tree),
    transpose=NOT_LINEAR, multiple_results=True, cacheable=False,
    batch=_batch_rule(lambda: reduce_window_p, _window_by_tree,
                      lambda params: window_of(params).batched(0)._asdict()))
