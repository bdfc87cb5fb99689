"""`linear_call`: a linear function with a custom transpose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xjax.core.calls import flatten_function, function_name
from xjax.core.errors import bad
from xjax.core.jaxpr import ClosedJaxpr
from xjax.core.lowering import lower_call
from xjax.core.primitive import Primitive
from xjax.core.staging import hoist_consts, trace_to_jaxpr
from xjax.core.tree import flatten, leaf_paths, tree_mismatch, tree_structure, tree_unflatten
from xjax.core.types import Zero, is_linear, typeof
from xjax.ops.makers import accumulate
from xjax.ops.zeros import instantiate
from xjax.transforms.batching import BatchAxis, batch_flat, batch_program, with_axis
from xjax.transforms.jvp import jvp_flat
from xjax.transforms.rule_functions import check_like, closed_over, fit_cotangent, open_axis
from xjax.typing import ArrayLike, PyTree

# Returns (transposed program, captured values), computed at the first call.
Transpose = Callable[[], tuple[ClosedJaxpr, Sequence[Any]]]


def linear_call(fun: Callable, fun_transpose: Callable, residual_args: PyTree, linear_args: PyTree) -> PyTree:
    """`fun(residual_args, linear_args)`, with `fun_transpose(residual_args, ct)` as its transpose.

    Args:
      fun: linear in its second argument, a tree of arrays.
      fun_transpose: the transpose of this map, from a tree with the structure of the result of `fun` to a tree with the
        structure of `linear_args`. It is traced when it is needed; its own transpose is `fun`.
      residual_args: a tree of arrays; both functions may depend on it in any way. Derivatives with respect to it are
        the derivatives of `fun`.

    >>> def scaled(x):
    ...     return xjax.custom_derivatives.linear_call(lambda r, x: x / r, lambda r, ct: ct / r, 4.0, x)
    >>> float(xjax.linear_transpose(scaled, 1.0)(2.0)[0])
    0.5
    """
    caller = f"linear_call of `{function_name(fun)}`"
    residuals, residual_tree = flatten(residual_args)
    linear, linear_tree = flatten(linear_args)
    in_tree = tree_structure((residual_args, linear_args))
    residual_avals, linear_avals = [typeof(x) for x in residuals], [typeof(x) for x in linear]
    flat = flatten_function(fun, in_tree, caller=caller)
    callee, consts = hoist_consts(trace_to_jaxpr(flat, [*residual_avals, *linear_avals], caller))
    cached: list[tuple[ClosedJaxpr, Sequence[Any]]] = []

    def transpose() -> tuple[ClosedJaxpr, Sequence[Any]]:
        if not cached:
            back_tree = tree_structure((residual_args, tree_unflatten(flat.out_tree, callee.out_avals)))
            back = flatten_function(fun_transpose, back_tree, caller=f"{caller}: fun_transpose")
            program = trace_to_jaxpr(back, [*residual_avals, *callee.out_avals], caller)
            _check_transpose(caller, linear_tree, linear_avals, back.out_tree, program.out_avals)
            cached.append(hoist_consts(program))
        return cached[0]

    outs = linear_call_p.bind(*consts, *residuals, *linear, callee=callee, transpose_thunk=transpose,
                              num_callee_consts=len(consts), num_res=len(residuals))
    return tree_unflatten(flat.out_tree, outs)


def _check_transpose(caller: str, tree: PyTree, avals: Sequence[Any], got: PyTree, got_avals: Sequence[Any]) -> None:
    if got != tree:
        raise bad(caller, "`fun_transpose` must return a tree with the structure of the linear arguments",
                  given=tree_mismatch("result", tree, got), fix="return one cotangent for each linear argument.")
    check_like(caller, "cotangent", lambda: leaf_paths("", tree), got_avals, avals,
               fix="return cotangents with the shape and dtype of the linear arguments.")


# -- the primitive ------------------------------------------------------------------------------------------------
# Operands: the values that the callee captured, residuals, linear arguments.

def _type(*avals, callee, transpose_thunk, num_callee_consts, num_res):
    return callee.out_avals


def _evaluate(*args, callee, transpose_thunk, num_callee_consts, num_res):
    return callee(*args)


def _lower(b, outs, *args, callee, transpose_thunk, num_callee_consts, num_res):
    return lower_call(b, callee, args, "linear_call")


def _jvp(primals, tangents, *, callee, num_callee_consts, num_res, **params):
    fixed = num_callee_consts + num_res
    if any(type(dx) is not Zero for dx in tangents[:num_callee_consts]):        # fun_transpose captured them too
        raise closed_over("linear_call")
    params = {**params, "callee": callee, "num_callee_consts": num_callee_consts, "num_res": num_res}
    outs = linear_call_p.bind(*primals, **params)
    along = [Zero(y.aval.tangent()) for y in outs]
    if any(type(dx) is not Zero for dx in tangents[fixed:]):
        along = linear_call_p.bind(*primals[:fixed], *map(instantiate, tangents[fixed:]), **params)
    if any(type(dx) is not Zero for dx in tangents[:fixed]):            # derivatives with respect to residuals
        still = [Zero(typeof(x).tangent()) for x in primals[fixed:]]
        _, moved = jvp_flat(callee, primals, [*tangents[:fixed], *still])
        along = [accumulate(one, other) for one, other in zip(along, moved, strict=True)]
    return outs, along


def _transpose(cts, *args, callee, transpose_thunk, num_callee_consts, num_res):
    fixed = num_callee_consts + num_res
    if any(is_linear(x) for x in args[:fixed]):
        raise bad("linear_call", "cannot be transposed with respect to its residual arguments",
                  fix="pass the linear arguments as `linear_args`.", exc=NotImplementedError)
    program, consts = transpose_thunk()
    callee_consts = args[:num_callee_consts]
    in_cts = linear_call_p.bind(*consts, *args[num_callee_consts:fixed], *map(instantiate, cts), callee=program,
                                transpose_thunk=lambda: (callee, callee_consts), num_callee_consts=len(consts),
                                num_res=num_res)
    return [None] * fixed + list(in_cts)


def _batch(axis, args, bdims, *, callee, transpose_thunk, num_callee_consts, num_res):
    fixed = num_callee_consts + num_res
    program, out_dims = batch_program(callee, axis.mapped, tuple(bdims), True)

    def transpose() -> tuple[ClosedJaxpr, Sequence[Any]]:
        back, consts = transpose_thunk()
        residual_dims, count = bdims[num_callee_consts:fixed], len(callee.out_avals)
        return _batched_transpose(back, axis, [*[None] * len(consts), *residual_dims, *[0] * count],
                                  bdims[fixed:]), consts

    outs = linear_call_p.bind(*args, callee=program, transpose_thunk=transpose, num_callee_consts=num_callee_consts,
                              num_res=num_res)
    return outs, list(out_dims)


def _batched_transpose(program: ClosedJaxpr, axis: BatchAxis, in_dims: Sequence[int | None],
                       wanted: Sequence[int | None]) -> ClosedJaxpr:
    """The transposed program of a mapped call; cotangents of linear arguments that are not mapped are summed."""
    def run(*args: ArrayLike) -> list[Any]:
        outs, dims = batch_flat(program, open_axis(axis), args, in_dims)
        return [fit_cotangent(y, d, b, axis.size) for y, d, b in zip(outs, dims, wanted, strict=True)]

    avals = [with_axis(a, d, axis.size) for a, d in zip(program.in_avals, in_dims, strict=True)]
    return trace_to_jaxpr(run, avals, "vmap of linear_call")


linear_call_p = Primitive("linear_call", type_rule=_type, lower=_lower, jvp=_jvp, transpose=_transpose, batch=_batch,
                          evaluate=_evaluate, multiple_results=True, vary=None, cacheable=False)
