"""`linear_transpose`: the transpose of a function that the caller promises to be linear."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xjax.core.calls import flatten_function, function_name
from xjax.core.errors import bad
from xjax.core.staging import trace_to_jaxpr
from xjax.core.tree import flatten, tree_mismatch, tree_unflatten
from xjax.core.types import LinearInput, ShapedArray, typeof
from xjax.ops.convert import convert_element_type
from xjax.ops.zeros import instantiate
from xjax.transforms.transpose import backward


def linear_transpose(fun: Callable, *primals: Any, reduce_axes: tuple = ()) -> Callable:
    """Function from a cotangent of `fun(*primals)` to the tuple of cotangents of `primals`.

    Args:
      fun: a linear function. primals: arrays, or anything with shape and dtype; only their types are used.
      reduce_axes: accepted as JAX does.

    Raises: TypeError if the cotangent has the wrong structure or type, NotImplementedError (when called) if an
    operation of `fun` is not linear.

    >>> f_t = xjax.linear_transpose(lambda x, y: 0.5 * x - 2.0 * y, 1.0, 1.0)
    >>> [float(ct) for ct in f_t(1.0)]
    [0.5, -2.0]
    """
    where = f"linear_transpose of `{function_name(fun)}`"
    leaves, in_tree = flatten(primals)
    avals = [ShapedArray(tuple(x.shape), x.dtype) if hasattr(x, "shape") and hasattr(x, "dtype") else typeof(x)
             for x in leaves]
    flat = flatten_function(fun, in_tree, where=where)
    program = trace_to_jaxpr(flat, avals, where)

    def transposed(ct: Any) -> tuple:
        cts, tree = flatten(ct)
        if tree != flat.out_tree:
            raise bad(where, "the cotangent has another structure than the value",
                      given=tree_mismatch("cotangent", flat.out_tree, tree), fix="pass one cotangent for each result.")
        for x, aval in zip(cts, program.out_avals, strict=True):
            got = typeof(x)
            if got.shape != aval.shape or (got.dtype != aval.dtype and not got.weak_type):
                raise bad(where, "a cotangent has the wrong type",
                          given={"expected": aval.str_short(), "given": got.str_short()},
                          fix="pass a cotangent with the shape and dtype of the value.")
        cts = [convert_element_type(x, aval.dtype) for x, aval in zip(cts, program.out_avals, strict=True)]
        found = backward(program.jaxpr, program.consts, [LinearInput(a) for a in program.in_avals], cts)
        return tree_unflatten(in_tree, [instantiate(x) for x in found])

    return transposed
