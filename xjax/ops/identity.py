"""Operations that return their operands: copy, stage, stop_gradient, computed_again, optimization_barrier."""

from __future__ import annotations

from xjax.core import dtypes, tree
from xjax.core.forms import limits
from xjax.core.hlo import Builder, Value, types_text
from xjax.core.lowering import lower_again, lower_barrier
from xjax.core.primitive import LINEAR, ZERO, Primitive
from xjax.core.trace import Tracer
from xjax.core.types import ShapedArray, Zero
from xjax.ops.checks import ANY, KEY
from xjax.ops.makers import unary, unary_function
from xjax.ops.zeros import instantiate
from xjax.typing import ArrayLike, PyTree


def _same_value(b: Builder, out: ShapedArray, x: Value) -> Value:
    return x


# -- copy ---------------------------------------------------------------------------------------------------------

def _copy_transpose(ct, x):
    return [copy(ct)]


copy_p = unary("copy", ANY + KEY, _same_value, LINEAR, transpose=_copy_transpose)
copy = unary_function(copy_p, "The same values in separate memory.")


# -- stage ---------------------------------------------------------------------------------------------------------

stage_p = unary("stage", ANY, _same_value, LINEAR, transpose=lambda ct, x: [ct])
stage = unary_function(stage_p, "The same value, as an array, or as a value of the program that is being traced.")


# -- stop_gradient ------------------------------------------------------------------------------------------------

stop_gradient_p = unary("stop_gradient", ANY + KEY, _same_value, ZERO)


def stop_gradient(x: PyTree) -> PyTree:
    """`x` (an array or a tree of arrays) as a constant: derivatives do not flow through it."""
    return tree.tree_map(stop_gradient_p.bind, x)


# -- computed_again -----------------------------------------------------------------------------------------------

computed_again_p = unary("computed_again", ANY, lambda b, out, x: lower_again(b, x), LINEAR,
                         transpose=lambda ct, x: [ct])
computed_again = unary_function(computed_again_p, "The same value, recomputed where it is read, in a branch of a "
                                "`cond`: then XLA need not keep it in memory for a branch that seldom runs.")


# -- optimization_barrier -----------------------------------------------------------------------------------------

def optimization_barrier(operand: PyTree, /) -> PyTree:
    """`operand` (an array or a tree of arrays), after a barrier across which the compiler moves no operation."""
    leaves, structure = tree.tree_flatten(operand)
    return tree.tree_unflatten(structure, optimization_barrier_p.bind(*leaves) if leaves else ())


def _barrier_type(*avals):
    return avals


def _barrier_lower(b: Builder, outs: list, *xs: Value) -> list[Value]:
    return b.ops(f"stablehlo.optimization_barrier {', '.join(x.name for x in xs)} : {types_text(outs)}", outs)


def _barrier_on_cpu(b: Builder, outs: list, *xs: Value) -> list[Value] | None:
    """A call, because XLA removes its own barriers before fusion. In programs with sharded arrays it keeps them."""
    return None if b.is_cut or limits("barriers as calls", "cpu") is None else lower_barrier(b, xs)


def _barrier_jvp(primals, tangents):
    outs = optimization_barrier_p.bind(*primals)
    smooth = [dtypes.is_inexact(y.aval.dtype) for y in outs]
    if all(type(t) is Zero for t in tangents):
        return outs, [Zero(y.aval.tangent()) for y in outs]
    passed = iter(optimization_barrier_p.bind(*[instantiate(t) for t, s in zip(tangents, smooth, strict=True) if s]))
    return outs, [next(passed) if s else t for t, s in zip(tangents, smooth, strict=True)]


def _barrier_transpose(cts, *args):
    return optimization_barrier_p.bind(*map(instantiate, cts))


def _barrier_batch(axis, args, bdims):
    return optimization_barrier_p.bind(*args), list(bdims)


optimization_barrier_p = Primitive(
    "optimization_barrier", multiple_results=True, type_rule=_barrier_type, lower=_barrier_lower,
    lower_on={"cpu": _barrier_on_cpu}, jvp=_barrier_jvp, transpose=_barrier_transpose, batch=_barrier_batch)


def computed_once(x: ArrayLike) -> ArrayLike:
    """`x`, for a comparison with a value computed from it.

    XLA may recompute an operand in each loop that reads it, and the loops may round differently. Then a number would
    not be equal to the maximum, although it is the maximum.
    """
    return optimization_barrier_p.bind(x)[0] if isinstance(x, Tracer) else x
