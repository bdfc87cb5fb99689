"""`jax.interpreters.ad`: derivative rules, symbolic zeros, and placeholders of linear arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from xjax.compat.linear_util import WrappedFun
from xjax.compat.primitive import Rules
from xjax.core.jaxpr import ClosedJaxpr, Jaxpr
from xjax.core.primitive import Primitive
from xjax.core.tree_nodes import register_pytree_node
from xjax.core.types import LinearInput as UndefinedPrimal
from xjax.core.types import ShapedArray, Zero, typeof
from xjax.core.types import is_linear as is_undefined_primal
from xjax.ops.makers import accumulate as add_tangents
from xjax.ops.makers import accumulate_p as add_jaxvals_p
from xjax.ops.zeros import instantiate as instantiate_zeros
from xjax.transforms.jvp import DualTracer as JVPTracer
from xjax.transforms.jvp import JVPTrace, jvp_flat, jvp_program
from xjax.transforms.transpose import backward
from xjax.typing import Array, ArrayLike

__all__ = ["JVPTrace", "JVPTracer", "UndefinedPrimal", "Zero", "add_jaxvals", "add_jaxvals_p", "add_tangents",
           "backward_pass", "defbilinear", "defjvp", "defjvp2", "deflinear", "deflinear2", "get_primitive_transpose",
           "instantiate_zeros", "is_undefined_primal", "jvp", "jvp_jaxpr", "primitive_jvps", "primitive_transposes",
           "zeros_like_aval"]

primitive_jvps = Rules("jvp")
primitive_transposes = Rules("transpose")

# An argument of a bilinear operation; a placeholder if the operation is transposed with respect to it.
Operand: TypeAlias = ArrayLike | UndefinedPrimal

# As in JAX, both are nodes of trees without leaves.
register_pytree_node(Zero, lambda zero: ((), zero.aval), lambda aval, _: Zero(aval))
register_pytree_node(UndefinedPrimal, lambda x: ((), x.aval), lambda aval, _: UndefinedPrimal(aval))


def add_jaxvals(x: ArrayLike, y: ArrayLike) -> Array:
    """The sum of two cotangents of one type."""
    return add_jaxvals_p.bind(x, y)


def zeros_like_aval(aval: ShapedArray) -> ArrayLike:
    """An array of zeros."""
    return instantiate_zeros(Zero(aval))


def defjvp(primitive: Primitive, *rules: Callable | None) -> None:
    """Set the derivative by a rule ``rule(tangent, *primals, **params)`` for each operand; None: no contribution."""
    defjvp2(primitive, *[rule and _without_result(rule) for rule in rules])


def _without_result(rule: Callable) -> Callable:
    return lambda tangent, result, *primals, **params: rule(tangent, *primals, **params)


def defjvp2(primitive: Primitive, *rules: Callable | None) -> None:
    """As `defjvp`, with rules ``rule(tangent, result, *primals, **params)``."""
    def jvp_rule(primals: Sequence[Any], tangents: Sequence[Any], **params: object) -> tuple[Any, Any]:
        out = primitive.bind(*primals, **params)
        total: Any = Zero(typeof(out).tangent())
        for rule, tangent in zip(rules, tangents, strict=True):
            if rule is not None and type(tangent) is not Zero:
                total = add_tangents(total, rule(tangent, out, *primals, **params))
        return out, total

    primitive_jvps[primitive] = jvp_rule


def deflinear(primitive: Primitive, transpose_rule: Callable) -> None:
    """Make the operation linear in all operands; ``transpose_rule(ct, **params)`` returns their cotangents."""
    deflinear2(primitive, lambda ct, *operands, **params: transpose_rule(ct, **params))


def deflinear2(primitive: Primitive, transpose_rule: Callable) -> None:
    """As `deflinear`, with a rule ``transpose_rule(ct, *operands, **params)``."""
    def jvp_rule(primals: Sequence[Any], tangents: Sequence[Any], **params: object) -> tuple[Any, Any]:
        out = primitive.bind(*primals, **params)
        if all(type(t) is Zero for t in tangents):
            zeros = [Zero(typeof(y).tangent()) for y in (out if primitive.multiple_results else [out])]
            return out, zeros if primitive.multiple_results else zeros[0]
        return out, primitive.bind(*map(instantiate_zeros, tangents), **params)

    primitive_jvps[primitive] = jvp_rule
    primitive_transposes[primitive] = transpose_rule


def defbilinear(prim: Primitive, lhs_rule: Callable, rhs_rule: Callable) -> None:
    """Make an operation linear in each of its two operands.

    Args: lhs_rule, rhs_rule: the transpose in one operand, ``lhs_rule(ct, x, y, **params)``.
    """
    defjvp(prim, lambda tangent, x, y, **params: prim.bind(tangent, y, **params),
           lambda tangent, x, y, **params: prim.bind(x, tangent, **params))

    def transpose(ct: ArrayLike, x: Operand, y: Operand, **params: object) -> list[Any]:
        if is_undefined_primal(x):
            return [lhs_rule(ct, x, y, **params), None]
        return [None, rhs_rule(ct, x, y, **params)]

    primitive_transposes[prim] = transpose


def get_primitive_transpose(p: Primitive) -> Callable:
    """The transpose rule.  Raises: NotImplementedError if there is none."""
    return primitive_transposes.get(p, p.transpose)


def jvp(fun: WrappedFun, primals: Sequence[Any] | None = None, tangents: Sequence[Any] | None = None,
        has_aux: bool = False, instantiate: bool | Sequence[bool] = True, transform_stack: bool = True
        ) -> WrappedFun | tuple[list[Any], list[Any]]:
    """A function on flat lists, with its derivative: ``jvp(fun).call_wrapped(primals, tangents)``."""
    def run(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        outs, douts = jvp_flat(fun.call_wrapped, primals, tangents)
        flags = [instantiate] * len(outs) if isinstance(instantiate, bool) else instantiate
        return outs, [instantiate_zeros(d) if flag else d for d, flag in zip(douts, flags, strict=True)]

    transformed = WrappedFun(fun.f, run, fun.debug_info)
    return transformed if primals is None else run(primals, tangents or ())


def jvp_jaxpr(jaxpr: ClosedJaxpr, nonzeros: Sequence[bool],
              instantiate: bool | Sequence[bool]) -> tuple[ClosedJaxpr, list[bool]]:
    """The program with derivatives, and for each output whether it has a tangent.

    The program maps inputs, and tangents of those flagged in `nonzeros`, to outputs and tangents.
    """
    flags = [instantiate] * len(jaxpr.out_avals) if isinstance(instantiate, bool) else instantiate
    program, has = jvp_program(jaxpr, tuple(nonzeros), tuple(flags))
    return program, list(has)


def backward_pass(jaxpr: Jaxpr, transform_stack: bool, consts: Sequence[Any], primals_in: Sequence[Any],
                  cotangents_in: Sequence[Any]) -> list[Any]:
    """Cotangents of the inputs of a linear program that are `UndefinedPrimal`."""
    return backward(jaxpr.jaxpr, consts, primals_in, cotangents_in)
