"""`checkpoint` (also `remat`): compute values again for the derivative instead of keeping them, to save memory.

    b:f32[] = remat2[differentiated=False jaxpr={...} policy=None prevent_cse=True] a

Linearizing runs the program once and puts one equation into the tangent program: a program of (inputs, saved values,
tangents) that first computes the residuals again and then applies the derivative. Its transpose is such a program too.
What is saved besides the inputs is the policy's choice: a function (primitive, *types, **params) -> bool that is asked
about each equation of the forward program.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from xjax.core.calls import (
    argument_names,
    argument_types,
    as_argnums,
    canonical_argnums,
    check_callable,
    function_name,
    merge_args,
    split_args,
)
from xjax.core.dtypes import is_float
from xjax.core.errors import bad
from xjax.core.flags import Flags, flagged
from xjax.core.hlo import Builder, Value
from xjax.core.jaxpr import ClosedJaxpr, Jaxpr, Var, dce, inlined, program_cache
from xjax.core.lowering import lower_closed
from xjax.core.primitive import Calls, Primitive
from xjax.core.staging import hoist_consts, trace_to_jaxpr
from xjax.core.tree import flatten, tree_unflatten
from xjax.core.types import ShapedArray
from xjax.ops.identity import optimization_barrier_p
from xjax.ops.text import reshape_text, slice_text
from xjax.transforms.call_rules import CallRules
from xjax.transforms.checkpoint_policies import Policy
from xjax.transforms.linearize import LinearizedProgram, linearize_program
from xjax.transforms.trace_cache import remember, trace_function


def checkpoint(fun: Callable | None = None, *, prevent_cse: bool | Sequence[bool] = True, policy: Policy | None = None,
               static_argnums: int | Sequence[int] = (), static_argnames: str | Iterable[str] = (),
               concrete: Any = None) -> Callable:
    """`fun`, with the values that its derivative needs computed again instead of kept.

    Args:
      prevent_cse: keep the compiler from sharing the two computations, which would undo the saving. Inside `scan`
        False is as good. A sequence, one entry for each argument, counts as True if one entry does.
      policy: which intermediate values are kept all the same; None: none. See `xjax.checkpoint_policies`.
      static_argnums, static_argnames: arguments passed as Python values; they must be hashable.
      concrete: no longer exists (JAX removed it too): use static_argnums.

    Returns: a function with the values and derivatives of `fun`. It is traced, also in eager mode.

    >>> float(xjax.grad(checkpoint(lambda x: xjax.lax.sin(xjax.lax.sin(x))))(0.0))
    1.0
    """
    options = {"prevent_cse": prevent_cse, "policy": policy, "static_argnums": static_argnums,
               "static_argnames": static_argnames, "concrete": concrete}
    if fun is None:
        return functools.partial(checkpoint, **options)
    _check_options(fun, policy, concrete)
    names = {static_argnames} if isinstance(static_argnames, str) else set(static_argnames)
    where = f"checkpoint of `{function_name(fun)}`"
    nums = tuple(dict.fromkeys(as_argnums(static_argnums, where, "static_argnums")))

    @functools.wraps(fun)
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        static = set(canonical_argnums(nums, len(args), where, "static_argnums"))
        if names:
            static |= {i for i, name in enumerate(argument_names(fun, args, kwargs)[:len(args)]) if name in names}
        static = sorted(static)
        fixed, rest = split_args(args, static)
        fixed_kwargs = {k: v for k, v in kwargs.items() if k in names}
        leaves, tree = flatten((rest, {k: v for k, v in kwargs.items() if k not in names}))
        avals = tuple(argument_types(f"checkpoint of `{function_name(fun)}`", fun, leaves, tree, static))
        fixed_key = fixed, tuple(sorted(fixed_kwargs.items()))
        _check_hashable(fun, fixed_key)

        def call(*xs: Any, **kw: Any) -> Any:
            return fun(*merge_args(fixed, xs, static, len(args)), **kw, **fixed_kwargs)

        def trace() -> tuple:
            found = trace_function(call, tree, avals, f"checkpoint of `{function_name(fun)}`", keywords=True)
            return found, found.consts

        traced = remember(fun, ("checkpoint", tree, avals, tuple(static), fixed_key), trace)
        outs = remat_p.bind(*traced.consts, *leaves, jaxpr=traced.program, prevent_cse=any(flatten(prevent_cse)[0]),
                            differentiated=False, policy=policy)
        return tree_unflatten(traced.out_tree, outs)

    return checkpointed


def _check_options(fun: Any, policy: Any, concrete: Any) -> None:
    check_callable("checkpoint", fun)
    if policy is not None and not callable(policy):
        raise bad("checkpoint", "`policy` must be a function (primitive, *types, **params) -> bool, or None",
                  given={"policy": repr(policy)[:80]}, fix="choose one of checkpoint_policies.")
    if concrete is not None:
        raise bad("checkpoint", "`concrete` does not exist any more", fix="name the arguments that Python control flow "
                  "looks at with static_argnums.", exc=NotImplementedError)


def _check_hashable(fun: Any, key: Any) -> None:
    try:
        hash(key)
    except TypeError as error:
        raise bad(f"checkpoint of `{function_name(fun)}`", f"a static argument is not hashable: {error}",
                  fix="pass a tuple instead of a list, or leave the argument out of static_argnums.",
                  exc=ValueError) from None


# -- the primitive ------------------------------------------------------------------------------------------------

def _type(*avals, jaxpr, **params):
    return jaxpr.out_avals


_MOST_LEVELS = 16       # of branches: XLA's compiler takes long for more, and its stack overflows at some hundreds


def _lower(b, outs, *args, jaxpr, prevent_cse, differentiated, policy):
    if not (differentiated and prevent_cse and args):
        return lower_closed(b, jaxpr, args)
    numbers = [x for x in args if is_float(x.aval.dtype) and x.aval.size]
    if b.module.platform == "cpu" and numbers and not jaxpr.effects and b.level < _MOST_LEVELS:
        return _as_branch(b, outs, args, jaxpr, (numbers[0], numbers[-1]))
    return lower_closed(b, jaxpr, optimization_barrier_p.lower(b, [x.aval for x in args], *args))


def _as_branch(b: Builder, outs: Sequence[ShapedArray], args: Sequence[Value], jaxpr: ClosedJaxpr,
               ends: tuple[Value, Value]) -> list[Value]:
    """The program as one of two branches, always the same; but XLA cannot know which one.

    XLA's CPU backend removes barriers before it looks for equal computations, but does not look into branches. The
    branch depends on the first floating-point input and on the last one, which is a cotangent in a gradient: it does
    not run long before it is needed.
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
    """The linearized program whose second pass computes the residuals again, from the inputs and what `policy` saves.

    `forward`: inputs -> outputs, saved values; `tangent`: saved values, inputs, tangents -> tangents of the outputs.
    """
    lin = linearize_program(jaxpr, active)
    n = len(jaxpr.out_avals)
    forward = inlined(lin.forward) if policy is not None else lin.forward
    j = forward.jaxpr
    computed = iter(j.outvars[n:])
    residuals = [next(computed) if i is None else j.invars[i] for i in lin.forwarded]
    saved, again = _recomputed(j, residuals, policy)
    # Constants, if any, are small arrays that derivative rules made: both programs have them.
    recompute = ClosedJaxpr(Jaxpr(j.constvars, [*saved, *j.invars], again, residuals), forward.consts)
    known = len(saved) + len(jaxpr.in_avals)

    def tangent(*args: Any) -> list[Any]:
        return lin.tangent(*recompute(*args[:known]), *args[known:])

    avals = [*(v.aval for v in saved), *jaxpr.in_avals, *lin.tangent.in_avals[len(residuals):]]
    outs = [*j.outvars[:n], *saved]
    first, _ = dce(Jaxpr(j.constvars, j.invars, j.eqns, outs), (True,) * len(outs))
    return LinearizedProgram(ClosedJaxpr(first, forward.consts), trace_to_jaxpr(tangent, avals, "checkpoint"),
                             lin.nonzero, (*[None] * len(saved), *range(len(jaxpr.in_avals))))


@program_cache
def _without_unused(jaxpr: ClosedJaxpr, active: Flags, policy: Policy | None) -> LinearizedProgram:
    """`recomputing`, without the saved values and inputs that the second pass does not read."""
    lin = recomputing(jaxpr, active, policy)
    j, used = dce(lin.tangent.jaxpr, (True,) * len(lin.tangent.out_avals))
    needed = used[:len(lin.forwarded)]
    invars = flagged(j.invars, [*needed, *[True] * (len(used) - len(needed))])
    f, n = lin.forward.jaxpr, len(jaxpr.out_avals)
    saved = flagged(f.outvars[n:], needed[:len(f.outvars) - n])
    return LinearizedProgram(
        ClosedJaxpr(Jaxpr(f.constvars, f.invars, f.eqns, [*f.outvars[:n], *saved]), lin.forward.consts),
        ClosedJaxpr(Jaxpr(j.constvars, invars, j.eqns, j.outvars), lin.tangent.consts), lin.nonzero,
        tuple(flagged(lin.forwarded, needed)))


def _recomputed(j: Jaxpr, residuals: Sequence[Any], policy: Policy | None) -> tuple[list[Var], list]:
    """(Values to save, equations to run again) so that the residuals can be had; backwards from these.

    Where values are computed again, that is told again; what acts on the world acts once, and its results are saved.
    """
    needed = {v for v in residuals if type(v) is Var}
    saved, again = [], []
    for eqn in reversed(j.eqns):
        wanted = [v for v in eqn.outvars if v in needed]
        effects = eqn.effects
        if not wanted and not effects:
            continue
        if "io" in effects or (policy is not None and
                               policy(eqn.primitive, *[v.aval for v in eqn.invars], **eqn.params)):
            saved += wanted
        else:
            again.append(eqn)
            needed.update(v for v in eqn.invars if type(v) is Var)
    return saved, again[::-1]


class _RematRules(CallRules):
    def bind(self, program: ClosedJaxpr, args: Sequence[Any], params: dict) -> list[Any]:
        program, consts = hoist_consts(program)
        return remat_p.bind(*consts, *args, **{**params, "jaxpr": program})

    def linearized(self, program: ClosedJaxpr, active: Flags, params: dict) -> LinearizedProgram:
        return _without_unused(program, active, params["policy"])

    def bind_tangent(self, lin: LinearizedProgram, args: Sequence[Any], params: dict, active: Flags) -> list[Any]:
        return self.bind(lin.tangent, args, {**params, "differentiated": True})

    def bind_transposed(self, program: ClosedJaxpr, args: Sequence[Any], params: dict, *flags: Flags) -> list[Any]:
        return self.bind(program, args, {**params, "differentiated": True})


remat_p = Primitive("remat2", type_rule=_type, lower=_lower, calls=Calls("jaxpr"), **_RematRules().fields())
