"""`custom_jvp`: a function with a custom forward-mode derivative rule.

The rule runs where a built-in jvp rule would run: in linearize, under the split trace. So Python control flow works in
it, and reverse mode is derived from it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from xjax.core.calls import function_name, merge_args, split_args
from xjax.core.context import context
from xjax.core.dtypes import float0
from xjax.core.errors import bad
from xjax.core.jaxpr import ClosedJaxpr
from xjax.core.lowering import lower_call
from xjax.core.primitive import Calls, Primitive
from xjax.core.staging import StagingTrace, hoist_consts, trace_to_jaxpr
from xjax.core.trace import Tracer
from xjax.core.tree import PyTreeDef, flatten, leaf_paths, tree_map, tree_mismatch, tree_unflatten
from xjax.core.types import Zero, is_linear, typeof
from xjax.ops.identity import stop_gradient
from xjax.ops.makers import accumulate
from xjax.ops.zeros import instantiate
from xjax.transforms.rule_functions import (
    FunctionWithRule,
    PrimalFunction,
    as_arrays,
    batched_call,
    call_rule,
    check_closure,
    check_like,
    closed_over,
    fit_vma,
    positional_arguments,
    symbolic,
    unsymbolic,
)
from xjax.transforms.transpose import backward
from xjax.typing import ArrayLike, PyTree


class custom_jvp(FunctionWithRule):
    """A function whose derivative is defined by `defjvp` (or `defjvps`).

    Args:
      nondiff_argnums, nondiff_argnames: arguments that are passed to the rule unchanged, before the others.

    >>> @xjax.custom_jvp
    ... def f(x):
    ...     return x * 2.0
    >>> @f.defjvp
    ... def f_jvp(primals, tangents):
    ...     return f(*primals), 10.0 * tangents[0]
    >>> float(xjax.grad(f)(3.0))
    10.0
    """

    transform = "custom_jvp"

    def __init__(self, fun: Callable, nondiff_argnums: Sequence[int] = (), nondiff_argnames: Sequence[str] = ()):
        super().__init__(fun, nondiff_argnums, nondiff_argnames)
        self.jvp, self.symbolic_zeros = None, False

    def defjvp(self, jvp: Callable, symbolic_zeros: bool = False) -> Callable:
        """Set the rule `jvp(*nondiff, primals, tangents) -> (value, tangent)`, linear in the tangents.

        With `symbolic_zeros`, a zero tangent is a `SymbolicZero` instead of an array of zeros.
        """
        self.jvp, self.symbolic_zeros = jvp, symbolic_zeros
        return jvp

    def defjvps(self, *jvps: Callable | None) -> None:
        """Set the rule by one function `jvp(tangent, value, *primals)` for each argument; None: no contribution."""
        if self.nondiff_argnums:
            raise bad(self._caller, "defjvps does not support nondiff_argnums", fix="use defjvp.")

        def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
            if len(jvps) != len(primals):
                raise bad(self._caller, f"defjvps got {len(jvps)} rules for {len(primals)} arguments",
                          fix="pass one rule for each argument, or None for no contribution.", exc=ValueError)
            value = self(*primals)
            leaves, tree = flatten(value)
            total = [Zero(typeof(y).tangent()) for y in leaves]
            for jvp, dx in zip(jvps, tangents, strict=True):
                if jvp is not None:
                    total = [accumulate(t, s) for t, s in zip(total, flatten(jvp(dx, value, *primals))[0],
                                                              strict=True)]
            return value, tree_unflatten(tree, [instantiate(t) for t in total])

        self.defjvp(rule)

    def __call__(self, *args: object, **kwargs: object) -> PyTree:
        if self.jvp is None:
            raise bad(self._caller, "has no derivative rule", fix="define one with @f.defjvp.", exc=AttributeError)
        args = positional_arguments(self.fun, args, kwargs, self._caller)
        static = self._static_positions(len(args))
        nums = tuple(i for i in range(len(args)) if i not in static)
        chosen, rest = split_args(args, nums)
        rest = tree_map(lambda x: stop_gradient(x) if isinstance(x, Tracer) else x, rest) if rest else rest
        leaves, tree = flatten(chosen)
        flat = PrimalFunction(lambda *xs: self.fun(*merge_args(xs, rest, nums, len(args))), tree, self._caller)
        rule = _Rule(functools.partial(self.jvp, *rest), flat, tree, self.symbolic_zeros, function_name(self.jvp))
        outs = custom_jvp_call_p.bind(*leaves, name=function_name(self.fun), call_jaxpr=flat, jvp=rule,
                                      symbolic_zeros=self.symbolic_zeros)
        return tree_unflatten(flat.out_tree, outs)


class _Rule:
    """The user's rule on flat lists; it checks the result of the rule against the result of the function."""

    def __init__(self, rule: Callable, flat: PrimalFunction, in_tree: PyTreeDef, symbolic_zeros: bool, name: str):
        self.rule, self.flat, self.in_tree, self.symbolic_zeros = rule, flat, in_tree, symbolic_zeros
        self.__name__ = name

    def __call__(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        caller = self.flat.caller
        tangents = [symbolic(dx) if self.symbolic_zeros else instantiate(dx) for dx in tangents]
        out = call_rule(caller, self.rule, tree_unflatten(self.in_tree, primals),
                        tree_unflatten(self.in_tree, tangents))
        if not isinstance(out, (tuple, list)) or len(out) != 2:
            raise bad(caller, "the rule must return a pair (value, tangent)",
                      given={"returned": f"{type(out).__name__} {out!r:.60}"}, fix="return f(x), df.")
        ys, tree = flatten(out[0])
        dys, dtree = flatten(out[1])
        if tree != dtree:
            raise bad(caller, "the rule's value and tangent have different structures",
                      given=tree_mismatch("tangent", tree, dtree), fix="return one tangent for each result.")
        self.flat.take_value(self.__name__, ys, tree)
        check_like(caller, "tangent", lambda: leaf_paths("", tree), dys, [typeof(y).tangent() for y in ys],
                   fix="return tangents with the shape and dtype of the value: astype where they differ.")
        dys = [unsymbolic(dy) for dy in dys]
        if context.axes:
            dys = [fit_vma(caller, "tangent", dy, typeof(y).vma, total=False) for y, dy in zip(ys, dys, strict=True)]
        return ys, [dy if type(dy) is Zero or typeof(dy).dtype != float0 else Zero(typeof(dy)) for dy in dys]


# -- the primitive ------------------------------------------------------------------------------------------------
# `call_jaxpr` is a flat function: the user's function in a call from Python, a ClosedJaxpr after staging. `jvp` maps
# (primals, tangents) to (outs, tangents), all flat lists.

def _evaluate(*args, name, call_jaxpr, jvp, symbolic_zeros):
    outs = call_jaxpr(*args)
    check_closure(f"custom_jvp `{name}`", outs)
    return outs


def _type(*avals, name, call_jaxpr, jvp, symbolic_zeros):
    return call_jaxpr.out_avals


def _stage(trace: StagingTrace, args, params):
    caller = f"custom_jvp `{params['name']}`"
    closed, consts = hoist_consts(trace_to_jaxpr(params["call_jaxpr"], [typeof(x) for x in args], caller))
    check_closure(caller, consts)
    rule = params["jvp"] if not consts else _without_consts(params["jvp"], len(consts), params["name"])
    return trace.record(custom_jvp_call_p, [*consts, *args], {**params, "call_jaxpr": closed, "jvp": _on_arrays(rule)})


def _on_arrays(rule: Callable) -> Callable:
    @functools.wraps(rule, updated=())
    def jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple:
        return rule(as_arrays(primals), tangents)
    return jvp


def _without_consts(rule: Callable, count: int, name: str) -> Callable:
    """The rule for a staged call whose first `count` arguments are values that the function captured."""
    @functools.wraps(rule, updated=())
    def jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple:
        if any(type(dx) is not Zero for dx in tangents[:count]):
            raise closed_over(f"custom_jvp `{name}`")
        return rule(primals[count:], tangents[count:])
    return jvp


def _jvp(primals, tangents, *, name, call_jaxpr, jvp, symbolic_zeros):
    return jvp(primals, tangents)


def _batch(axis, args, bdims, *, name, call_jaxpr, jvp, symbolic_zeros):
    def batched_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        nonzero = [type(dx) is not Zero for dx in tangents]
        moving: list[bool] = []                         # which results have a tangent; integers have none

        def rule(*flat: ArrayLike) -> list[Any]:
            nonzeros = iter(flat[len(primals):])
            inner = [next(nonzeros) if flag else Zero(typeof(x).tangent())
                     for x, flag in zip(flat[:len(primals)], nonzero, strict=True)]
            ys, dys = jvp(flat[:len(primals)], inner)
            moving[:] = [type(dy) is not Zero for dy in dys]
            return [*ys, *(dy for dy in dys if type(dy) is not Zero)]

        flags = [b for b, flag in zip(bdims, nonzero, strict=True) if flag]
        flat = batched_call(rule, axis, [*bdims, *flags])(*primals, *(dx for dx in tangents if type(dx) is not Zero))
        ys, dys = flat[:len(moving)], iter(flat[len(moving):])
        return ys, [next(dys) if moves else Zero(typeof(y).tangent()) for y, moves in zip(ys, moving, strict=True)]

    outs = custom_jvp_call_p.bind(*args, name=name, call_jaxpr=batched_call(call_jaxpr, axis, bdims), jvp=batched_jvp,
                                  symbolic_zeros=symbolic_zeros)
    return outs, [0] * len(outs)


def _lower(b, outs, *args, name, call_jaxpr, jvp, symbolic_zeros):
    return lower_call(b, call_jaxpr, args, name)


def _transpose(cts, *args, name, call_jaxpr, jvp, symbolic_zeros):
    """The transpose of the program: a derivative rule applied the function, which must be linear, to a tangent."""
    avals = [x.aval if is_linear(x) else typeof(x) for x in args]
    closed = call_jaxpr if isinstance(call_jaxpr, ClosedJaxpr) else trace_to_jaxpr(call_jaxpr, avals, name)
    return backward(closed.jaxpr, closed.consts, args, cts)


custom_jvp_call_p = Primitive(
    "custom_jvp_call", type_rule=_type, lower=_lower, jvp=_jvp, batch=_batch, evaluate=_evaluate, stage=_stage,
    transpose=_transpose, multiple_results=True, calls=Calls("call_jaxpr"), vary=None, cacheable=False)
