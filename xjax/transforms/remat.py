"""`checkpoint` (also `remat`): recompute values for the derivative instead of saving them, to save memory.

    b:f32[] = remat2[differentiated=False jaxpr={...} policy=None prevent_cse=True] a

Linearization runs the program once and records one equation in the tangent program. It holds a program of (inputs,
saved values, tangents), which first recomputes the residuals and then applies the derivative. Its transpose has the
same form. A policy selects the values that are saved in addition to the inputs: a function (primitive, *types,
**params) -> bool, which is called for each equation of the forward program.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xjax.core.aliases import alias
from xjax.core.calls import (
    argument_names,
    argument_types,
    as_argnums,
    bounded,
    canonical_argnums,
    check_callable,
    function_name,
    merge_args,
    split_args,
)
from xjax.core.dtypes import is_float
from xjax.core.errors import bad
from xjax.core.flags import Flags, flagged
from xjax.core.forms import limits
from xjax.core.hlo import Builder, Value
from xjax.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Var, inlined, is_plain_call, program_cache
from xjax.core.lowering import lower_closed
from xjax.core.primitive import Calls, Primitive
from xjax.core.pruning import prune, prune_call, prune_equation, prune_program
from xjax.core.staging import hoist_consts, trace_to_jaxpr
from xjax.core.tree import flatten, tree_unflatten
from xjax.core.types import ShapedArray, typeof
from xjax.ops.identity import optimization_barrier_p
from xjax.ops.text import reshape_text, slice_text
from xjax.transforms import refs
from xjax.transforms.call_rules import CallRules
from xjax.transforms.checkpoint_policies import Offloadable, Policy, verdict, with_moves
from xjax.transforms.linearize import LinearizedProgram, linearize_program
from xjax.transforms.residuals import log_residuals
from xjax.transforms.trace_cache import remember, trace_function
from xjax.typing import ArrayLike, PyTree


def checkpoint(fun: Callable | None = None, *, prevent_cse: bool | Sequence[bool] = True, policy: Policy | None = None,
               static_argnums: int | Sequence[int] = (), static_argnames: str | Iterable[str] = (),
               concrete: object = None) -> Callable:
    """`fun`, but the values that its derivative needs are recomputed instead of saved.

    Args:
      prevent_cse: prevent the compiler from sharing the two computations, which would undo the saving. Inside `scan`
        it is not needed. A sequence, with one entry for each argument, counts as True if any entry is true.
      policy: selects intermediate values that are saved nevertheless; None: none. See `xjax.checkpoint_policies`.
      static_argnums, static_argnames: arguments passed as Python values; they must be hashable.
      concrete: no longer exists (JAX removed it too): use static_argnums.

    Returns: a function with the values and derivatives of `fun`. `fun` is traced, also in eager mode.

    >>> float(xjax.grad(checkpoint(lambda x: xjax.lax.sin(xjax.lax.sin(x))))(0.0))
    1.0
    """
    options = {"prevent_cse": prevent_cse, "policy": policy, "static_argnums": static_argnums,
               "static_argnames": static_argnames, "concrete": concrete}
    if fun is None:
        return functools.partial(checkpoint, **options)
    _check_options(fun, policy, concrete)
    names = {static_argnames} if isinstance(static_argnames, str) else set(static_argnames)
    caller = f"checkpoint of `{function_name(fun)}`"
    nums = tuple(dict.fromkeys(as_argnums(static_argnums, caller, "static_argnums")))

    @functools.wraps(fun)
    @bounded
    def checkpointed(*args: object, **kwargs: object) -> PyTree:
        static = set(canonical_argnums(nums, len(args), caller, "static_argnums"))
        if names:
            static |= {i for i, name in enumerate(argument_names(fun, args, kwargs)[:len(args)]) if name in names}
        static = sorted(static)
        fixed, rest = split_args(args, static)
        fixed_kwargs = {k: v for k, v in kwargs.items() if k in names}
        leaves, tree = flatten((rest, {k: v for k, v in kwargs.items() if k not in names}))
        avals = tuple(argument_types(f"checkpoint of `{function_name(fun)}`", fun, leaves, tree, static,
                                     refs.typeof if refs.has_refs(leaves) else typeof))
        fixed_key = fixed, tuple(sorted(fixed_kwargs.items()))
        _check_hashable(fun, fixed_key)

        def call(*xs: object, **kw: object) -> PyTree:
            return fun(*merge_args(fixed, xs, static, len(args)), **kw, **fixed_kwargs)

        def trace() -> tuple:
            result = trace_function(call, tree, avals, f"checkpoint of `{function_name(fun)}`", keywords=True,
                                    refs=True)
            return result, result.captured

        traced = remember(fun, ("checkpoint", tree, avals, tuple(static), fixed_key), trace)
        operands = leaves if traced.uses is None else traced.uses.values(caller, leaves)
        outs = remat_p.bind(*traced.consts, *operands, jaxpr=traced.program, prevent_cse=any(flatten(prevent_cse)[0]),
                            differentiated=False, policy=policy)
        if traced.uses is not None:
            outs = traced.uses.store(outs, leaves)
        return tree_unflatten(traced.out_tree, outs)

    return checkpointed


remat = alias(checkpoint, "remat")


def _check_options(fun: object, policy: object, concrete: object) -> None:
    check_callable("checkpoint", fun)
    if policy is not None and not callable(policy):
        raise bad("checkpoint", "`policy` must be a function (primitive, *types, **params) -> bool, or None",
                  given={"policy": repr(policy)[:80]}, fix="choose one of checkpoint_policies.")
    if concrete is not None:
        raise bad("checkpoint", "`concrete` has been removed", fix="name the arguments that Python control flow "
                  "depends on by static_argnums.", exc=NotImplementedError)


def _check_hashable(fun: Callable, key: object) -> None:
    try:
        hash(key)
    except TypeError as error:
        raise bad(f"checkpoint of `{function_name(fun)}`", f"a static argument is not hashable: {error}",
                  fix="pass a tuple instead of a list, or leave the argument out of static_argnums.",
                  exc=ValueError) from None


# -- the primitive ------------------------------------------------------------------------------------------------

def _type(*avals, jaxpr, **params):
    return jaxpr.out_avals


def _lower(b, outs, *args, jaxpr, prevent_cse, differentiated, policy):
    if differentiated and prevent_cse and args:
        args = optimization_barrier_p.lower(b, [x.aval for x in args], *args)
    return lower_closed(b, jaxpr, args)


def _lower_on_cpu(b, outs, *args, jaxpr, prevent_cse, differentiated, policy):
    branches = limits("recomputation in a branch", "cpu")
    numbers = [x for x in args if is_float(x.aval.dtype) and x.aval.size]
    if (branches is None or not (differentiated and prevent_cse and numbers) or jaxpr.effects
            or b.level >= branches["levels"]):
        return None
    return _as_branch(b, outs, args, jaxpr, (numbers[0], numbers[-1]))


def _as_branch(b: Builder, outs: Sequence[ShapedArray], args: Sequence[Value], jaxpr: ClosedJaxpr,
               ends: tuple[Value, Value]) -> list[Value]:
    """The program as one of two branches. The same branch is always taken, but XLA cannot infer this.

    XLA's CPU backend removes barriers before it searches for equal computations, but does not search inside branches.
    The branch depends on the first and on the last floating-point input. In a gradient, the last one is a cotangent, so
    the branch does not run long before its results are needed.
    """
    def element(x: Value) -> Value:
        one = slice_text(b, x, [0] * x.aval.ndim, [1] * x.aval.ndim)
        return b.convert(reshape_text(b, one, ()), np.dtype(np.float32))

    x = b.add(*map(element, ends))
    is_nan, is_number = b.compare("NE", x, x), b.compare("EQ", x, x)
    both = b.op(f"stablehlo.and {is_nan}, {is_number} : {is_nan.type}", is_nan.aval)
    return b.case(b.convert(both, np.dtype(np.int32)), [
        lambda inner: lower_closed(inner, jaxpr, args),
        lambda inner: [inner.constant(0, aval.strong()) for aval in outs]], outs)


@program_cache
def recomputing(jaxpr: ClosedJaxpr, active: Flags, policy: Policy | None) -> LinearizedProgram:
    """The linearized program; its second pass recomputes residuals from the inputs and the values saved by `policy`.

    `forward`: inputs -> outputs, saved values; `tangent`: saved values, inputs, tangents -> tangents of the outputs.
    """
    lin = linearize_program(jaxpr, active)
    n = len(jaxpr.out_avals)
    # Without a policy, calls are not inlined: a function that is called often is compiled once.
    forward = inlined(lin.forward, _is_forward_call) if policy is not None else lin.forward
    j = forward.jaxpr
    computed = iter(j.outvars[n:])
    residuals = [next(computed) if i is None else j.invars[i] for i in lin.forwarded]
    eqns, saved, again = with_moves(*_passes(j, residuals, policy))
    # Constants, if any, are small arrays created by derivative rules; both programs have them.
    recompute = ClosedJaxpr(Jaxpr(j.constvars, [*saved, *j.invars], again, residuals), forward.consts)
    known = len(saved) + len(jaxpr.in_avals)

    def tangent(*args: ArrayLike) -> list[Any]:
        return lin.tangent(*recompute(*args[:known]), *args[known:])

    avals = [*(v.aval for v in saved), *jaxpr.in_avals, *lin.tangent.in_avals[len(residuals):]]
    outvars = [*j.outvars[:n], *saved]
    first, _ = prune(j.replace(eqns=eqns, outvars=outvars), (True,) * len(outvars))
    return LinearizedProgram(ClosedJaxpr(first, forward.consts), trace_to_jaxpr(tangent, avals, "checkpoint"),
                             lin.nonzero, (*[None] * len(saved), *range(len(jaxpr.in_avals))))


def _is_forward_call(eqn: Eqn) -> bool:
    """Whether an equation is a call, or the forward pass of a checkpoint inside this one."""
    return is_plain_call(eqn) or (eqn.primitive is remat_p and not eqn.params["differentiated"]
                                  and not eqn.params["jaxpr"].consts)


@program_cache
def _without_unused(jaxpr: ClosedJaxpr, active: Flags, policy: Policy | None) -> LinearizedProgram:
    """`recomputing`, without the saved values and inputs that the second pass does not use."""
    lin = recomputing(jaxpr, active, policy)
    j, used = prune(lin.tangent.jaxpr, (True,) * len(lin.tangent.out_avals))
    needed = used[:len(lin.forwarded)]
    invars = flagged(j.invars, [*needed, *[True] * (len(used) - len(needed))])
    f, n = lin.forward.jaxpr, len(jaxpr.out_avals)
    first, _ = prune(f, [*[True] * n, *needed[:len(f.outvars) - n]])
    return LinearizedProgram(
        ClosedJaxpr(first, lin.forward.consts),
        ClosedJaxpr(Jaxpr(j.constvars, invars, j.eqns, j.outvars), lin.tangent.consts), lin.nonzero,
        tuple(flagged(lin.forwarded, needed)))


class _Passes(NamedTuple):
    """Two passes: `first` is the whole program, `again` recomputes some values from its inputs and saved values.

    `saved`: variable of `first` -> None, or the `Offloadable` that selects another memory.
    """

    first: list[Eqn]
    saved: dict[Var, Offloadable | None]
    again: list[Eqn]


def _passes(j: Jaxpr, residuals: Sequence[Any], policy: Policy | None) -> _Passes:
    """The passes in which `residuals` are saved or recomputed; equations are visited backward from the residuals.

    Debug effects repeat on recomputation; I/O runs once and its results are saved.
    """
    needed = {v for v in residuals if type(v) is Var}
    saved: dict[Var, Offloadable | None] = {}
    first, again = [], []
    for eqn in reversed(j.eqns):
        wanted = [v for v in eqn.outvars if v in needed]
        effects = eqn.effects
        if not wanted and not effects:
            first.append(eqn)
            continue
        keep = "io" in effects or (policy is not None and verdict(
            policy, eqn.primitive, [v.aval for v in eqn.invars], eqn.params))
        if keep:
            saved |= dict.fromkeys(wanted, keep if isinstance(keep, Offloadable) else None)
        else:
            inside = _saved_inside(eqn, needed, policy)
            if inside is not None:
                eqn, repeated, values = inside
                saved |= values
            else:
                repeated = eqn
            again.append(prune_equation(repeated, needed))
            needed.update(v for v in again[-1].invars if type(v) is Var)
        first.append(eqn)
    return _Passes(first[::-1], saved, again[::-1])


def _saved_inside(eqn: Eqn, needed: set[Var], policy: Policy | None) -> tuple[Eqn, Eqn, dict] | None:
    """An operation that holds a program, as two operations; None if the policy saves no value inside.

    Returns: the equation that also returns the saved values, the equation that has them as inputs, the saved values.
    """
    if policy is None or eqn.primitive.save is None:
        return None

    def split(program: ClosedJaxpr, used: Flags) -> tuple[ClosedJaxpr, _Passes]:
        program = inlined(program, _is_forward_call)
        return program, _passes(program.jaxpr, flagged(program.jaxpr.outvars, used), policy)

    saving = eqn.primitive.save(split, tuple(v in needed for v in eqn.outvars), **eqn.params)
    if saving is None:
        return None
    values = {Var(aval): memory for aval, memory in saving.saved}
    return (Eqn(eqn.invars, [*eqn.outvars, *values], eqn.primitive, saving.first, eqn.source),
            Eqn([*flagged(eqn.invars, saving.operands), *values], flagged(eqn.outvars, saving.results), eqn.primitive,
                saving.again, eqn.source), values)


class _RematRules(CallRules):
    def bind(self, program: ClosedJaxpr, args: Sequence[Any], params: dict) -> list[Any]:
        program, consts = hoist_consts(program)
        return remat_p.bind(*consts, *args, **{**params, "jaxpr": program})

    def linearized(self, program: ClosedJaxpr, active: Flags, params: dict) -> LinearizedProgram:
        lin = _without_unused(program, active, params["policy"])
        log_residuals(lin)
        return lin

    def bind_tangent(self, lin: LinearizedProgram, args: Sequence[Any], params: dict, active: Flags) -> list[Any]:
        return self.bind(lin.tangent, args, {**params, "differentiated": True})

    def transposed_of(self, program: ClosedJaxpr, linear: Flags, nonzero: Flags, params: dict) -> tuple[Any, Flags]:
        """The transposed program, without residuals that only zero cotangents would need."""
        transposed, has = super().transposed_of(program, linear, nonzero, params)
        all_outs, all_ins = ((True,) * len(avals) for avals in (transposed.out_avals, transposed.in_avals))
        return prune_program(transposed, all_outs, all_ins)[0], has

    def bind_transposed(self, program: ClosedJaxpr, args: Sequence[Any], params: dict, *flags: Flags) -> list[Any]:
        return self.bind(program, args, {**params, "differentiated": True})


remat_p = Primitive("remat2", type_rule=_type, lower=_lower, lower_on={"cpu": _lower_on_cpu}, calls=Calls("jaxpr"),
                    prune=prune_call, **_RematRules().fields())
