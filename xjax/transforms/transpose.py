"""Transposition: run a linear program backward, from cotangents of its outputs to cotangents of its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xjax.core.context import context
from xjax.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var, program_cache
from xjax.core.staging import trace_to_jaxpr
from xjax.core.types import LinearInput, Zero, with_zeros
from xjax.ops.makers import accumulate_p
from xjax.ops.zeros import instantiate
from xjax.typing import ArrayLike


def backward(jaxpr: Jaxpr, consts: Sequence[Any], inputs: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
    """The cotangent of each input that is a `LinearInput` (Zero if no cotangent reaches it), None for the others.

    Args:
      inputs: a value for each non-linear input, a LinearInput for each linear input.
      cts: a cotangent or Zero for each output.
    """
    env: dict[Var, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    linear: set[Var] = set()
    for v, x in zip(jaxpr.invars, inputs, strict=True):
        if type(x) is LinearInput:
            linear.add(v)
        else:
            env[v] = x
    eqns = _linear_equations(jaxpr, env, linear)
    of_zeros = _transposed_from_zeros(jaxpr, eqns) if any(e.primitive.transposes_zeros for e in eqns) else ()

    ct_of: dict[Var, Any] = {}

    def add_ct(v: Atom, ct: ArrayLike | Zero) -> None:
        if ct is None or type(ct) is Zero or type(v) is Literal or v not in linear:
            return
        ct_of[v] = accumulate_p.bind(ct_of[v], ct) if v in ct_of else ct

    for v, ct in zip(jaxpr.outvars, cts, strict=True):
        add_ct(v, ct)
    saved = context.source
    try:
        for eqn in reversed(eqns):
            outs = [ct_of.pop(v, None) for v in eqn.outvars]
            if all(ct is None for ct in outs) and eqn not in of_zeros:
                continue
            context.source = eqn.source             # backward operations get the position of their forward operation
            args = [v.val if type(v) is Literal else env[v] if v not in linear else LinearInput(v.aval)
                    for v in eqn.invars]
            if eqn.primitive.multiple_results:
                outs = [Zero(v.aval) if ct is None else ct for v, ct in zip(eqn.outvars, outs, strict=True)]
                in_cts = eqn.primitive.transpose(outs, *args, **eqn.params)
            else:
                in_cts = eqn.primitive.transpose(outs[0], *args, **eqn.params)
            for v, ct in zip(eqn.invars, in_cts, strict=True):
                add_ct(v, ct)
    finally:
        context.source = saved
    return [ct_of.get(v, Zero(v.aval)) if v in linear else None for v in jaxpr.invars]


def _linear_equations(jaxpr: Jaxpr, env: dict[Var, Any], linear: set[Var]) -> list[Any]:
    """The equations that depend on linear inputs, in order; the others are evaluated, with results in `env`.

    A tangent program from linearize has linear equations only. A tangent program of a jitted derivative rule also
    computes with residuals.
    """
    linear_eqns = []
    for eqn in jaxpr.eqns:
        if any(type(v) is Var and v in linear for v in eqn.invars):
            linear.update(eqn.outvars)
            linear_eqns.append(eqn)
            continue
        out = eqn.primitive.bind(*[v.val if type(v) is Literal else env[v] for v in eqn.invars], **eqn.params)
        env.update(zip(eqn.outvars, out if eqn.primitive.multiple_results else [out], strict=True))
    return linear_eqns


def _transposed_from_zeros(jaxpr: Jaxpr, eqns: Sequence[Eqn]) -> set[Eqn]:
    """The equations to transpose even if no cotangent reaches them: those whose results are used, as in JAX."""
    used, result = set(jaxpr.outvars), set()
    for eqn in reversed(eqns):
        if not used.isdisjoint(eqn.outvars):
            used.update(eqn.invars)
            if eqn.primitive.transposes_zeros:
                result.add(eqn)
    return result


@program_cache
def transpose_program(closed: ClosedJaxpr, linear: tuple[bool, ...], nonzero_cts: tuple[bool, ...],
                      instantiated: bool = False) -> tuple[ClosedJaxpr, tuple[bool, ...]]:
    """The program of (non-linear inputs, cotangents of outputs flagged `nonzero_cts`) -> cotangents of linear inputs.

    The second result flags the linear inputs that have a cotangent (all if `instantiated`).
    """
    has_ct: tuple[bool, ...] = ()

    def run(*args: ArrayLike) -> list[Any]:
        nonlocal has_ct
        values = iter(args)
        inputs = [LinearInput(a) if lin else next(values) for a, lin in zip(closed.in_avals, linear, strict=True)]
        cts = with_zeros(nonzero_cts, values, closed.out_avals)
        in_cts = backward(closed.jaxpr, closed.consts, inputs, cts)
        in_cts = [ct for ct, lin in zip(in_cts, linear, strict=True) if lin]
        if instantiated:
            in_cts = [instantiate(ct) for ct in in_cts]
        has_ct = tuple(type(ct) is not Zero for ct in in_cts)
        return [ct for ct in in_cts if type(ct) is not Zero]

    avals = [a for a, lin in zip(closed.in_avals, linear, strict=True) if not lin]
    avals += [a.tangent() for a, flag in zip(closed.out_avals, nonzero_cts, strict=True) if flag]
    return trace_to_jaxpr(run, avals, "transpose"), has_ct
