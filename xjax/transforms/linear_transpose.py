"""`linear_transpose`: the transpose of a function that is already linear."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xjax.core import dtypes
from xjax.core.calls import api_boundary, check_callable, flatten_function, function_name
from xjax.core.errors import bad
from xjax.core.jaxpr import ClosedJaxpr
from xjax.core.staging import trace_to_jaxpr
from xjax.core.tree import PyTreeDef, flatten, tree_mismatch, tree_unflatten
from xjax.core.tree_nodes import Partial
from xjax.core.types import LinearInput, ShapedArray, typeof
from xjax.ops.convert import convert_element_type
from xjax.ops.zeros import instantiate
from xjax.transforms.autodiff import check_no_reduce_axes
from xjax.transforms.transpose import backward
from xjax.typing import Array, PyTree


@api_boundary
def linear_transpose(fun: Callable, *primals: PyTree, reduce_axes: tuple[Array, ...] = ()) -> Callable:
    """The transpose of a linear function: maps a cotangent of its result to the tuple of cotangents of its arguments.

    Args:
      primals: arrays, or objects with `shape` and `dtype`; only their types are used.
      reduce_axes: must be empty; JAX has removed this option.

    >>> t = xjax.linear_transpose(lambda x: 3.0 * x, xjax.ShapeDtypeStruct((), "float32"))
    >>> float(t(2.0)[0])
    6.0
    """
    check_callable("linear_transpose", fun)
    caller = f"linear_transpose of `{function_name(fun)}`"
    check_no_reduce_axes(caller, reduce_axes)
    leaves, tree = flatten(primals)
    avals = [_type(x) for x in leaves]
    flat = flatten_function(fun, tree, caller=caller)
    closed = trace_to_jaxpr(flat, avals, caller)
    if len({dtypes.is_inexact(a.dtype) for a in (*avals, *closed.out_avals)}) > 1:
        raise bad(caller, "needs arguments and results that are all floats (or complex), or all integers",
                  given={**{f"argument {i}": a.str_short() for i, a in enumerate(avals)},
                         **{f"result {i}": a.str_short() for i, a in enumerate(closed.out_avals)}},
                  fix="close over integer arguments instead of passing them.")

    return Partial(_Transposed(closed, avals, tree, flat.out_tree, caller), closed.consts)


class _Transposed:
    """Maps the captured values and a cotangent of the result to cotangents of the arguments.

    `Partial` binds the captured values, as leaves of a tree.
    """

    def __init__(self, closed: ClosedJaxpr, avals: Sequence[ShapedArray], in_tree: PyTreeDef, out_tree: PyTreeDef,
                 caller: str):
        self.jaxpr, self.out_avals, self.avals = closed.jaxpr, closed.out_avals, avals
        self.in_tree, self.out_tree, self.caller = in_tree, out_tree, caller

    def __call__(self, consts: Sequence[Any], ct: PyTree) -> tuple[Array, ...]:
        cts, tree = flatten(ct)
        if tree != self.out_tree:
            raise bad(self.caller, "the structure of the cotangent differs from that of the function's result",
                      given=tree_mismatch("cotangent", self.out_tree, tree), fix="pass one cotangent per result.")
        for x, aval in zip(cts, self.out_avals, strict=True):
            got = typeof(x)
            fits = got.dtype == aval.dtype or (got.weak_type and dtypes.can_cast(got.dtype, aval.dtype, "same_kind"))
            if got.shape != aval.shape or not fits:
                raise bad(self.caller, "the type of a cotangent differs from that of the result",
                          given={"result": aval.str_short(), "cotangent": got.str_short()},
                          fix="pass a cotangent with the shape and dtype of the result.")
        cts = [x if typeof(x).dtype == a.dtype else convert_element_type(x, a.dtype)
               for x, a in zip(cts, self.out_avals, strict=True)]
        in_cts = backward(self.jaxpr, consts, [LinearInput(a) for a in self.avals], cts)
        return tree_unflatten(self.in_tree, [instantiate(ct) for ct in in_cts])


def _type(x: object) -> ShapedArray:
    if hasattr(x, "shape") and hasattr(x, "dtype") and not hasattr(x, "aval"):
        return ShapedArray(tuple(x.shape), dtypes.canonicalize_dtype(x.dtype))
    return typeof(x)
