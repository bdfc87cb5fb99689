"""`linear_transpose`: the transpose of a function that is already linear."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xjax.core import dtypes
from xjax.core.calls import flatten_function, function_name
from xjax.core.errors import bad
from xjax.core.staging import trace_to_jaxpr
from xjax.core.tree import flatten, tree_mismatch, tree_unflatten
from xjax.core.types import LinearInput, ShapedArray, typeof
from xjax.ops.zeros import instantiate
from xjax.transforms.transpose import backward


def linear_transpose(fun: Callable, *primals: Any, reduce_axes: Any = ()) -> Callable:
    """Transpose of a linear function: maps a cotangent of its result to the tuple of cotangents of its arguments.

    Args:
      primals: arrays, or anything with `shape` and `dtype`; only their types count.

    >>> t = xjax.linear_transpose(lambda x: 3.0 * x, xjax.ShapeDtypeStruct((), "float32"))
    >>> float(t(2.0)[0])
    6.0
    """
    where = f"linear_transpose of `{function_name(fun)}`"
    leaves, tree = flatten(primals)
    avals = [_type(x) for x in leaves]
    if not all(dtypes.is_inexact(a.dtype) for a in avals):
        raise bad(where, "needs floating-point or complex arguments",
                  given={f"argument {i}": a.str_short() for i, a in enumerate(avals)},
                  fix="close over integer arguments instead of passing them.")
    flat = flatten_function(fun, tree, where=where)
    closed = trace_to_jaxpr(flat, avals, where)

    def transposed(ct: Any) -> Any:
        cts, ct_tree = flatten(ct)
        if ct_tree != flat.out_tree:
            raise bad(where, "the cotangent has another structure than the function's result",
                      given=tree_mismatch("cotangent", flat.out_tree, ct_tree), fix="pass one cotangent per result.")
        for x, aval in zip(cts, closed.out_avals, strict=True):
            if typeof(x).shape != aval.shape:
                raise bad(where, "a cotangent has another shape than the result",
                          given={"result": aval.str_short(), "cotangent": typeof(x).str_short()},
                          fix="pass a cotangent with the shape and dtype of the result.")
        found = backward(closed.jaxpr, closed.consts, [LinearInput(a) for a in avals], cts)
        return tree_unflatten(tree, [instantiate(ct) for ct in found])

    return transposed


def _type(x: Any) -> ShapedArray:
    if hasattr(x, "shape") and hasattr(x, "dtype") and not hasattr(x, "aval"):
        return ShapedArray(tuple(x.shape), dtypes.canonicalize_dtype(x.dtype))
    return typeof(x)
