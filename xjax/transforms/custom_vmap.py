"""`custom_vmap`: a function with a custom rule for `vmap`.

    c:f32[] = custom_vmap_call[call={...} in_tree=... out_tree=... rule=f_vmap] a b

The function is stored as a program, the rule as a function of flat lists, `rule(size, batched, args) -> (outs,
batched)`; the axis of a mapped argument is in front. Derivatives of the call are again such calls, of the derivative of
the program with the derivative of the rule. So the rule defines `vmap` in any order of transforms. Reverse mode saves
the arguments and recomputes the value; the compiler shares the two computations within one program.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from xjax.core.calls import function_name
from xjax.core.errors import bad
from xjax.core.flags import Flags
from xjax.core.jaxpr import ClosedJaxpr, eval_jaxpr
from xjax.core.lowering import lower_call
from xjax.core.primitive import Calls, Primitive
from xjax.core.staging import hoist_consts, trace_to_jaxpr
from xjax.core.tree import PyTreeDef, flatten, leaf_paths, tree_mismatch, tree_structure, tree_unflatten
from xjax.core.types import LinearInput, Zero, typeof, with_zeros
from xjax.ops.shape import reduce_sum
from xjax.ops.zeros import instantiate
from xjax.transforms.batching import place_axis, with_axis
from xjax.transforms.call_rules import CallRules
from xjax.transforms.jvp import jvp_flat
from xjax.transforms.linearize import LinearizedProgram, linearize_flat
from xjax.transforms.remat import recomputing
from xjax.transforms.rule_functions import FunctionWithRule, check_like, positional_arguments
from xjax.transforms.trace_cache import trace_function
from xjax.transforms.transpose import backward
from xjax.typing import ArrayLike, PyTree

# (size of the axis, which arguments are mapped, arguments) -> (results, which of them are mapped)
Rule = Callable[[int, Sequence[bool], Sequence[Any]], tuple[Sequence[Any], Sequence[bool]]]


class custom_vmap(FunctionWithRule):
    """A function whose `vmap` is defined by `def_vmap`.

    >>> @xjax.custom_batching.custom_vmap
    ... def f(x, y):
    ...     return x + y
    >>> @f.def_vmap
    ... def f_vmap(axis_size, in_batched, xs, ys):
    ...     return xs * ys, True
    >>> xjax.vmap(f)(jnp.arange(3), jnp.arange(1, 4))
    Array([0, 2, 6], dtype=int32)
    """

    transform = "custom_vmap"

    def __init__(self, fun: Callable):
        super().__init__(fun)
        self.vmap_rule: Callable | None = None

    def def_vmap(self, vmap_rule: Callable) -> Callable:
        """Set the rule `vmap_rule(axis_size, in_batched, *args) -> (result, out_batched)`; returns it.

        Args:
          in_batched: a list with a tree of bools for each argument, True for mapped leaves. Their axis is in front.
          out_batched: a tree of bools with the structure of the result, True for mapped leaves.
        """
        self.vmap_rule = vmap_rule
        return vmap_rule

    def __call__(self, *args: object, **kwargs: object) -> PyTree:
        if self.vmap_rule is None:
            raise bad(self._caller, "has no rule for vmap", fix="define one with @f.def_vmap.", exc=AttributeError)
        args = positional_arguments(self.fun, args, kwargs, self._caller)
        leaves, tree = flatten(args)
        traced = trace_function(self.fun, tree, [typeof(x) for x in leaves], self._caller)
        rule = _UserRule(self.vmap_rule, self._caller, tree, traced)
        outs = custom_vmap_p.bind(*traced.consts, *leaves, call=traced.program, rule=rule,
                                  in_tree=tree_structure((traced.consts, args)), out_tree=traced.out_tree)
        return tree_unflatten(traced.out_tree, outs)


class _UserRule:
    """The user's rule on flat lists; it checks the result of the rule against the result of the function."""

    def __init__(self, rule: Callable, caller: str, in_tree: PyTreeDef, traced: Any):
        self.rule, self.caller, self.in_tree = rule, caller, in_tree
        self.out_tree, self.out_avals, self.captured = traced.out_tree, traced.program.out_avals, len(traced.consts)
        self.__name__ = function_name(rule)

    def __repr__(self) -> str:
        return repr(self.rule)

    def __call__(self, size: int, batched: Sequence[bool], args: Sequence[Any]) -> tuple[list[Any], list[bool]]:
        n = self.captured
        if any(batched[:n]):
            raise bad(self.caller, "the function closes over a value that is being mapped",
                      fix="pass this value as an argument, so that the rule receives it.", exc=ValueError)
        out = self.rule(size, list(tree_unflatten(self.in_tree, batched[n:])), *tree_unflatten(self.in_tree, args[n:]))
        if not isinstance(out, (tuple, list)) or len(out) != 2:
            raise bad(self.caller, f"`{self.__name__}` must return a pair (result, out_batched)",
                      given={"returned": f"{type(out).__name__} {out!r:.60}"}, fix="return result, True.")
        for what, tree in (("result", out[0]), ("out_batched", out[1])):
            if tree_structure(tree) != self.out_tree:
                raise bad(self.caller, f"the {what} of `{self.__name__}` has another structure than the function's "
                          "result", given=tree_mismatch(what, self.out_tree, tree),
                          fix="return trees with the structure of the function's result.", exc=ValueError)
        outs, flags = flatten(out[0])[0], [bool(flag) for flag in flatten(out[1])[0]]
        wanted = [with_axis(a, 0 if flag else None, size) for a, flag in zip(self.out_avals, flags, strict=True)]
        check_like(self.caller, "result", lambda: leaf_paths("", self.out_tree), outs, wanted,
                   fix=f"put the mapped axis (size {size}) in front of results for which out_batched is True, and only "
                       "there.")
        return outs, flags


# -- derivatives of a rule ----------------------------------------------------------------------------------------
# An argument and its tangent are mapped together: if only one of them is mapped, the other is repeated.

class _Split:
    """Arguments of a derivative's rule: primals, tangents (Zero if there is none), and flags of mapped arguments."""

    def __init__(self, size: int, batched: Sequence[bool], args: Sequence[Any], nonzero: Sequence[bool]):
        n = len(nonzero)
        self.primals, self.tangents, self.batched = list(args[:n]), [], list(batched[:n])
        pairs = iter(zip(args[n:], batched[n:], strict=True))
        for k, has in enumerate(nonzero):
            if not has:
                self.tangents.append(Zero(typeof(args[k]).tangent()))
                continue
            dx, tangent_batched = next(pairs)
            self.batched[k] = either = batched[k] or tangent_batched
            self.primals[k] = _repeat(args[k], batched[k], either, size)
            self.tangents.append(_repeat(dx, tangent_batched, either, size))


def _repeat(x: ArrayLike, batched: bool, wanted: bool, size: int) -> ArrayLike:
    return place_axis(x, None, 0, size) if wanted and not batched else x


def _value_of(rule: Rule, size: int, batched: Sequence[bool]) -> tuple[Callable, list[bool]]:
    """The rule as a flat function of its arguments, and a list that it fills with the flags of mapped results."""
    out_batched: list[bool] = []

    def run(*xs: ArrayLike) -> list[Any]:
        outs, out_batched[:] = rule(size, batched, xs)
        return list(outs)

    return run, out_batched


def _jvp_rule(rule: Rule, nonzero: Sequence[bool], has: Sequence[bool]) -> Rule:
    """The rule of (primals, tangents flagged `nonzero`) -> (results, tangents flagged `has`)."""
    def batched_jvp(size: int, batched: Sequence[bool], args: Sequence[Any]) -> tuple[list[Any], list[bool]]:
        split = _Split(size, batched, args, nonzero)
        run, out_batched = _value_of(rule, size, split.batched)
        outs, douts = jvp_flat(run, split.primals, split.tangents)
        return ([*outs, *(instantiate(dy) for dy, flag in zip(douts, has, strict=True) if flag)],
                [*out_batched, *(b for b, flag in zip(out_batched, has, strict=True) if flag)])
    return functools.wraps(rule, updated=())(batched_jvp)


def _tangent_rule(rule: Rule, nonzero: Sequence[bool], has: Sequence[bool]) -> Rule:
    """The rule of (primals, tangents flagged `nonzero`) -> tangents flagged `has`; linear in the tangents."""
    def batched_tangent(size: int, batched: Sequence[bool], args: Sequence[Any]) -> tuple[list[Any], list[bool]]:
        split = _Split(size, batched, args, nonzero)
        run, out_batched = _value_of(rule, size, split.batched)
        lin = linearize_flat(run, split.primals, nonzero, "custom_vmap")
        dxs = [dx for dx, flag in zip(split.tangents, nonzero, strict=True) if flag]
        dys = eval_jaxpr(lin.program.jaxpr, lin.program.consts, *dxs)
        douts = with_zeros(lin.nonzero, dys, [typeof(y) for y in lin.outs])
        return ([instantiate(dy) for dy, flag in zip(douts, has, strict=True) if flag],
                [b for b, flag in zip(out_batched, has, strict=True) if flag])
    return functools.wraps(rule, updated=())(batched_tangent)


def _transposed_rule(rule: Rule, linear: Sequence[bool], in_avals: Sequence[Any], nonzero: Sequence[bool],
                     has: Sequence[bool]) -> Rule:
    """The rule of (other arguments, cotangents flagged `nonzero`) -> cotangents, flagged `has`, of linear arguments.

    The linear arguments are treated as mapped, so that each element has its own cotangent.
    """
    def batched_transpose(size: int, batched: Sequence[bool], args: Sequence[Any]) -> tuple[list[Any], list[bool]]:
        others, cts = iter(zip(args, batched, strict=True)), list(zip(args, batched, strict=True))[linear.count(False):]
        fixed = [None if lin else next(others) for lin in linear]
        run, out_batched = _value_of(rule, size, [x is None or x[1] for x in fixed])

        def of_linear(*xs: ArrayLike) -> list[Any]:
            values = iter(xs)
            return run(*[next(values) if x is None else x[0] for x in fixed])

        avals = [with_axis(a, 0, size) for a, lin in zip(in_avals, linear, strict=True) if lin]
        program = trace_to_jaxpr(of_linear, avals, "custom_vmap")
        nonzeros = iter(cts)
        out_cts = [_out_cotangent(*next(nonzeros), b, size) if flag else Zero(a.tangent())
                   for b, flag, a in zip(out_batched, nonzero, program.out_avals, strict=True)]
        in_cts = backward(program.jaxpr, program.consts, [LinearInput(a) for a in avals], out_cts)
        chosen = [instantiate(ct) for ct, flag in zip(in_cts, has, strict=True) if flag]
        return chosen, [True] * len(chosen)
    return functools.wraps(rule, updated=())(batched_transpose)


def _out_cotangent(ct: ArrayLike, batched: bool, wanted: bool, size: int) -> ArrayLike:
    """The cotangent of a result of the rule: repeated for a mapped result, summed for a result that is not mapped."""
    ct = _repeat(ct, batched, True, size)
    return ct if wanted else reduce_sum(ct, (0,))


# -- the primitive ------------------------------------------------------------------------------------------------

def _type(*avals, call, rule, in_tree, out_tree):
    return call.out_avals


def _evaluate(*args, call, rule, in_tree, out_tree):
    return call(*args)


def _lower(b, outs, *args, call, rule, in_tree, out_tree):
    return lower_call(b, call, args, "custom_vmap")


class _CustomVmapRules(CallRules):
    """Rules of the call. Derivatives are calls of a derived program with a derived rule, on flat lists."""

    def bind(self, program: ClosedJaxpr, args: Sequence[Any], params: dict) -> list[Any]:
        program, consts = hoist_consts(program)
        count, inner = len(consts), params["rule"]
        rule = inner if not count else functools.wraps(inner, updated=())(
            lambda size, batched, xs: inner(size, batched[count:], xs[count:]))
        args = [*consts, *args]
        return custom_vmap_p.bind(*args, call=program, rule=rule, in_tree=tree_structure(args),
                                  out_tree=tree_structure(list(program.out_avals)))

    def linearized(self, program: ClosedJaxpr, active: Flags, params: dict) -> LinearizedProgram:
        return recomputing(program, active, None)._replace(forward=program)

    def bind_jvp(self, program, args, params, nonzero, has):
        return self.bind(program, args, {"rule": _jvp_rule(params["rule"], nonzero, has)})

    def bind_forward(self, lin, args, params):
        return custom_vmap_p.bind(*args, **params)

    def bind_tangent(self, lin, args, params, active):
        return self.bind(lin.tangent, args, {"rule": _tangent_rule(params["rule"], active, lin.nonzero)})

    def bind_transposed(self, program, args, params, linear, nonzero, has):
        rule = _transposed_rule(params["rule"], linear, params["call"].in_avals, nonzero, has)
        return self.bind(program, args, {"rule": rule})

    split = None            # type: ignore[assignment]  # there is no rule for a part of a program

    def batch(self, axis, args, bdims, *, call, rule, in_tree, out_tree):
        front = [x if b is None else place_axis(x, b, 0, axis.size) for x, b in zip(args, bdims, strict=True)]
        outs, batched = rule(axis.size, [b is not None for b in bdims], front)
        return outs, [0 if flag else None for flag in batched]


custom_vmap_p = Primitive("custom_vmap_call", type_rule=_type, lower=_lower, evaluate=_evaluate, calls=Calls("call"),
                          **_CustomVmapRules("call").fields())
