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

from xjax.core import tree as trees
from xjax.core.calls import argument_names, function_name, merge_args, split_args
from xjax.core.context import current_trace
from xjax.core.errors import bad, did_you_mean
from xjax.core.jaxpr import ClosedJaxpr, Jaxpr, Literal, Var, dce, program_cache
from xjax.core.lowering import lower_closed
from xjax.core.primitive import LINEAR, Primitive
from xjax.core.staging import hoist_consts, trace_to_jaxpr
from xjax.core.tree import flatten, tree_unflatten
from xjax.core.types import Zero, is_linear, typeof
from xjax.ops.checks import ANY
from xjax.ops.dot import dot_general_p
from xjax.ops.identity import optimization_barrier_p
from xjax.ops.makers import unary
from xjax.transforms.batching import batch_program
from xjax.transforms.jvp import jvp_program
from xjax.transforms.linearize import linearize_program, split_program
from xjax.transforms.trace_cache import remember, trace_function
from xjax.transforms.transpose import transpose_program

Policy = Callable[..., bool]


def checkpoint(fun: Callable | None = None, *, prevent_cse: bool = True, policy: Policy | None = None,
               static_argnums: int | Sequence[int] = (), static_argnames: str | Iterable[str] = (),
               concrete: Any = None) -> Callable:
    """`fun`, with the values that its derivative needs computed again instead of kept.

    Args:
      prevent_cse: keep the compiler from sharing the two computations, which would undo the saving. Inside `scan`
        False is as good and faster.
      policy: which intermediate values are kept all the same; None: none. See `checkpoint_policies`.
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
    nums = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)

    @functools.wraps(fun)
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        static = {n % len(args) for n in nums if -len(args) <= n < len(args)}
        if names:
            static |= {i for i, name in enumerate(argument_names(fun, args, kwargs)[:len(args)]) if name in names}
        static = sorted(static)
        fixed, rest = split_args(args, static)
        fixed_kwargs = {k: v for k, v in kwargs.items() if k in names}
        leaves, tree = flatten((rest, {k: v for k, v in kwargs.items() if k not in names}))
        avals = tuple([typeof(x) for x in leaves])
        fixed_key = fixed, tuple(sorted(fixed_kwargs.items()))
        _check_hashable(fun, fixed_key)

        def call(*xs: Any, **kw: Any) -> Any:
            return fun(*merge_args(fixed, xs, static, len(args)), **kw, **fixed_kwargs)

        def trace() -> tuple:
            found = trace_function(call, tree, avals, f"checkpoint of `{function_name(fun)}`", keywords=True)
            return found, found.consts

        traced = remember(fun, ("checkpoint", tree, avals, tuple(static), fixed_key), trace)
        outs = remat_p.bind(*traced.consts, *leaves, jaxpr=traced.program, prevent_cse=bool(prevent_cse),
                            differentiated=False, policy=policy)
        return tree_unflatten(traced.out_tree, outs)

    return checkpointed


def _check_options(fun: Any, policy: Any, concrete: Any) -> None:
    if not callable(fun):
        raise bad("checkpoint", "needs a function", given={"fun": repr(fun)[:80]},
                  fix="write checkpoint(f), not checkpoint(f(x)).")
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


# -- policies -----------------------------------------------------------------------------------------------------

name_p = unary("name", ANY, lambda b, out, x, *, name: x, LINEAR, transpose=lambda ct, x, *, name: [ct])


def checkpoint_name(x: Any, name: str) -> Any:
    """`x` (a tree of arrays) under a name by which policies know it; the value is the same."""
    return trees.tree_map(lambda leaf: name_p.bind(leaf, name=name), x)


def everything_saveable(prim: Primitive, *_: Any, **params: Any) -> bool:
    """Keep all values, as without checkpoint."""
    return True


def nothing_saveable(prim: Primitive, *_: Any, **params: Any) -> bool:
    """Keep the inputs only, as without a policy."""
    return False


def dots_saveable(prim: Primitive, *_: Any, **params: Any) -> bool:
    """Keep the results of matrix products and convolutions."""
    return prim.name in ("dot_general", "conv_general_dilated", "ragged_dot_general")


def dots_with_no_batch_dims_saveable(prim: Primitive, *_: Any, **params: Any) -> bool:
    """Keep the results of matrix products without batch dimensions, such as activation times weight."""
    return prim is dot_general_p and not params["dimension_numbers"][1][0]


def save_only_these_names(*names: str) -> Policy:
    """Keep the values marked with one of these names by `checkpoint_name`."""
    chosen = frozenset(names)
    return lambda prim, *_, **params: prim is name_p and params["name"] in chosen


def save_any_names_but_these(*names: str) -> Policy:
    """Keep the values marked by `checkpoint_name`, except those with one of these names."""
    other = frozenset(names)
    return lambda prim, *_, **params: prim is name_p and params["name"] not in other


def save_anything_except_these_names(*names: str) -> Policy:
    """Keep all values except those marked with one of these names by `checkpoint_name`."""
    other = frozenset(names)
    return lambda prim, *_, **params: prim is not name_p or params["name"] not in other


def save_from_both_policies(policy_1: Policy, policy_2: Policy) -> Policy:
    """Keep the values that one of two policies keeps."""
    return lambda prim, *avals, **params: policy_1(prim, *avals, **params) or policy_2(prim, *avals, **params)


class _Policies:
    """The policies by name, as `checkpoint_policies.dots_saveable`."""

    everything_saveable = staticmethod(everything_saveable)
    nothing_saveable = staticmethod(nothing_saveable)
    dots_saveable = checkpoint_dots = staticmethod(dots_saveable)
    dots_with_no_batch_dims_saveable = checkpoint_dots_with_no_batch_dims = staticmethod(
        dots_with_no_batch_dims_saveable)
    save_only_these_names = staticmethod(save_only_these_names)
    save_any_names_but_these = staticmethod(save_any_names_but_these)
    save_anything_except_these_names = staticmethod(save_anything_except_these_names)
    save_from_both_policies = staticmethod(save_from_both_policies)

    def __getattr__(self, name: str) -> Any:
        if "offload" in name:
            raise bad("checkpoint_policies", f"{name} is not supported: values stay on the device",
                      fix="use save_only_these_names or dots_saveable.", exc=NotImplementedError)
        known = [k for k in vars(_Policies) if not k.startswith("_")]
        raise bad("checkpoint_policies", f"there is no policy {name!r}", fix=did_you_mean(name, known)
                  or f"choose one of {', '.join(known)}.", exc=AttributeError)


checkpoint_policies = _Policies()


# -- the primitive ------------------------------------------------------------------------------------------------

def _bind(closed: ClosedJaxpr, args: Sequence[Any], params: dict, differentiated: bool) -> list[Any]:
    closed, consts = hoist_consts(closed)
    return remat_p.bind(*consts, *args, jaxpr=closed, differentiated=differentiated, **params)


def _type(*avals, jaxpr, **params):
    return jaxpr.out_avals


def _lower(b, outs, *args, jaxpr, prevent_cse, differentiated, policy):
    if differentiated and prevent_cse and args:
        args = optimization_barrier_p.lower(b, [x.aval for x in args], *args)
    return lower_closed(b, jaxpr, args)


def _jvp(primals, tangents, *, jaxpr, differentiated, **params):
    nonzero = tuple(type(dx) is not Zero for dx in tangents)
    program, has = jvp_program(jaxpr, nonzero, (False,) * len(jaxpr.out_avals))
    found = _bind(program, [*primals, *(dx for dx in tangents if type(dx) is not Zero)], params, differentiated)
    n = len(jaxpr.out_avals)
    return found[:n], _with_zeros(has, found[n:], jaxpr.out_avals)


def _with_zeros(flags, given, avals):
    given = iter(given)
    return [next(given) if flag else Zero(a.tangent()) for flag, a in zip(flags, avals, strict=True)]


def _linearize(trace, primals, tangents, *, jaxpr, differentiated, **params):
    active = tuple(type(dx) is not Zero for dx in tangents)
    passes = _two_passes(jaxpr, active, params["policy"])
    found = _bind(passes.forward, primals, params, differentiated)
    n = len(jaxpr.out_avals)
    with current_trace(trace.tangent):
        douts = _bind(passes.tangent, [*found[n:], *primals, *(dx for dx in tangents if type(dx) is not Zero)], params,
                      True)
    return found[:n], _with_zeros(passes.nonzero, douts, jaxpr.out_avals)


class _TwoPasses(NamedTuple):
    forward: ClosedJaxpr            # inputs -> outputs, saved values
    tangent: ClosedJaxpr            # saved values, inputs, tangents -> tangents of the outputs flagged in `nonzero`
    nonzero: tuple[bool, ...]


@program_cache
def _two_passes(jaxpr: ClosedJaxpr, active: tuple[bool, ...], policy: Policy | None) -> _TwoPasses:
    lin = linearize_program(jaxpr, active)
    n = len(jaxpr.out_avals)
    forward = _inlined(lin.forward) if policy is not None else lin.forward
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
    return _TwoPasses(ClosedJaxpr(first, forward.consts), trace_to_jaxpr(tangent, avals, "checkpoint"), lin.nonzero)


def _recomputed(j: Jaxpr, residuals: Sequence[Any], policy: Policy | None) -> tuple[list[Var], list]:
    """(Values to save, equations to run again) so that the residuals can be had; backwards from these."""
    needed = {v for v in residuals if type(v) is Var}
    saved, again = [], []
    for eqn in reversed(j.eqns):
        wanted = [v for v in eqn.outvars if v in needed]
        if not wanted:
            continue
        if policy is not None and policy(eqn.primitive, *[v.aval for v in eqn.invars], **eqn.params):
            saved += wanted
        else:
            again.append(eqn)
            needed.update(v for v in eqn.invars if type(v) is Var)
    return saved, again[::-1]


def _inlined(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with calls of jitted functions written out, so that a policy sees what is inside."""
    if not any(eqn.primitive.name == "jit" for eqn in closed.jaxpr.eqns):
        return closed
    new: dict[Var, Any] = {}
    eqns: list = []

    def atom(v: Any) -> Any:
        return v if type(v) is Literal else new.get(v, v)

    def write(j: Jaxpr) -> None:
        for eqn in j.eqns:
            ins = [atom(v) for v in eqn.invars]
            if eqn.primitive.name != "jit" or eqn.params["jaxpr"].consts:
                outs = [Var(v.aval) for v in eqn.outvars]
                eqns.append(type(eqn)(ins, outs, eqn.primitive, eqn.params, eqn.source))
                new.update(zip(eqn.outvars, outs, strict=True))
                continue
            inner = eqn.params["jaxpr"].jaxpr
            new.update(zip(inner.invars, ins, strict=True))
            write(inner)
            new.update(zip(eqn.outvars, [atom(v) for v in inner.outvars], strict=True))

    j = closed.jaxpr
    write(j)
    return ClosedJaxpr(Jaxpr(j.constvars, j.invars, eqns, [atom(v) for v in j.outvars]), closed.consts)


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
