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
from typing import Any, NamedTuple

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
from xjax.core.context import current_trace
from xjax.core.dtypes import is_float
from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value
from xjax.core.jaxpr import ClosedJaxpr, Jaxpr, Var, dce, inlined, program_cache
from xjax.core.lowering import lower_closed
from xjax.core.primitive import Primitive
from xjax.core.staging import hoist_consts, trace_to_jaxpr
from xjax.core.tree import flatten, tree_unflatten
from xjax.core.types import ShapedArray, Zero, is_linear, with_zeros
from xjax.ops.arrange import reshape_text, slice_text
from xjax.ops.identity import optimization_barrier_p
from xjax.transforms.batching import batch_program
from xjax.transforms.checkpoint_policies import Policy
from xjax.transforms.jvp import jvp_program
from xjax.transforms.linearize import linearize_program, split_program
from xjax.transforms.trace_cache import remember, trace_function
from xjax.transforms.transpose import transpose_program


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

def _bind(closed: ClosedJaxpr, args: Sequence[Any], params: dict, differentiated: bool) -> list[Any]:
    closed, consts = hoist_consts(closed)
    return remat_p.bind(*consts, *args, jaxpr=closed, differentiated=differentiated, **params)


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


def _jvp(primals, tangents, *, jaxpr, differentiated, **params):
    nonzero = tuple(type(dx) is not Zero for dx in tangents)
    program, has = jvp_program(jaxpr, nonzero, (False,) * len(jaxpr.out_avals))
    found = _bind(program, [*primals, *(dx for dx in tangents if type(dx) is not Zero)], params, differentiated)
    n = len(jaxpr.out_avals)
    return found[:n], with_zeros(has, found[n:], jaxpr.out_avals)


def _linearize(trace, primals, tangents, *, jaxpr, differentiated, **params):
    active = tuple(type(dx) is not Zero for dx in tangents)
    passes = two_passes(jaxpr, active, params["policy"])
    found = _bind(passes.forward, primals, params, differentiated)
    n = len(jaxpr.out_avals)
    known = [*found[n:], *primals]
    program, needed = _without_unused(passes.tangent, len(known))
    with current_trace(trace.tangent):
        douts = _bind(program, [*(x for x, flag in zip(known, needed, strict=True) if flag),
                                *(dx for dx in tangents if type(dx) is not Zero)], params, True)
    return found[:n], with_zeros(passes.nonzero, douts, jaxpr.out_avals)


@program_cache
def _without_unused(closed: ClosedJaxpr, count: int) -> tuple[ClosedJaxpr, tuple[bool, ...]]:
    """The program without those of its first `count` inputs that it does not read; second result: which it keeps."""
    j, used = dce(closed.jaxpr, (True,) * len(closed.out_avals))
    needed = tuple(used[:count])
    invars = [v for v, flag in zip(j.invars, needed + (True,) * (len(used) - count), strict=True) if flag]
    return ClosedJaxpr(Jaxpr(j.constvars, invars, j.eqns, j.outvars), closed.consts), needed


class TwoPasses(NamedTuple):
    forward: ClosedJaxpr            # inputs -> outputs, saved values
    tangent: ClosedJaxpr            # saved values, inputs, tangents -> tangents of the outputs flagged in `nonzero`
    nonzero: tuple[bool, ...]


@program_cache
def two_passes(jaxpr: ClosedJaxpr, active: tuple[bool, ...], policy: Policy | None) -> TwoPasses:
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
    return TwoPasses(ClosedJaxpr(first, forward.consts), trace_to_jaxpr(tangent, avals, "checkpoint"), lin.nonzero)


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


def _transpose(cts, *args, jaxpr, differentiated, **params):
    linear = tuple(is_linear(x) for x in args)
    nonzero = tuple(type(ct) is not Zero for ct in cts)
    program, has = transpose_program(jaxpr, linear, nonzero)
    found = iter(_bind(program, [*(x for x in args if not is_linear(x)), *(ct for ct in cts if type(ct) is not Zero)],
                       params, True))
    flags = iter(has)
    return [next(found) if lin and next(flags) else None for lin in linear]


def _batch(axis, args, bdims, *, jaxpr, differentiated, **params):
    program, out_dims = batch_program(jaxpr, axis.size, axis.name, tuple(bdims))
    return _bind(program, args, params, differentiated), list(out_dims)


def _split(trace, args, all_params):
    """A checkpointed function of tangents, from a derivative rule that calls one."""
    params = {k: all_params[k] for k in ("prevent_cse", "policy")}
    tangent = tuple(trace.is_tangent(x) for x in args)
    known, unknown, in_tangent = split_program(all_params["jaxpr"], tangent)
    found = _bind(known, [x for x, t in zip(args, tangent, strict=True) if not t], params, all_params["differentiated"])
    n = in_tangent.count(False)
    values = iter(found[:n])
    with current_trace(trace.tangent):
        given = iter(_bind(unknown, [*found[n:], *(x for x, t in zip(args, tangent, strict=True) if t)], params,
                           all_params["differentiated"]))
    return [next(given) if t else next(values) for t in in_tangent]


remat_p = Primitive("remat2", type_rule=_type, lower=_lower, jvp=_jvp, transpose=_transpose, batch=_batch,
                    linearize=_linearize, split=_split, multiple_results=True, cacheable=False)
