"""`jit_p`: a call of a traced program, with all its rules.

Derivatives and batching of a jitted function are again calls of programs, made once and remembered on the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xjax.core.context import current_trace
from xjax.core.jaxpr import ClosedJaxpr
from xjax.core.lowering import lower_call
from xjax.core.primitive import Primitive
from xjax.core.staging import hoist_consts
from xjax.core.types import Zero, is_linear, with_zeros
from xjax.runtime.array import to_array
from xjax.runtime.executable import program_executable
from xjax.transforms.batching import batch_program
from xjax.transforms.jvp import jvp_program
from xjax.transforms.linearize import linearize_program, split_program
from xjax.transforms.transpose import transpose_program


def bind_program(closed: ClosedJaxpr, args: Sequence[Any], name: str) -> list[Any]:
    """Call a program as one operation; its constants become arguments."""
    closed, consts = hoist_consts(closed)
    return jit_p.bind(*consts, *args, name=name, jaxpr=closed)


def _jit_type(*avals, name, jaxpr):
    return jaxpr.out_avals


def _jit_lower(b, outs, *args, name, jaxpr):
    return lower_call(b, jaxpr, args, name)


def _jit_evaluate(*args, name, jaxpr):
    args = [to_array(x) for x in args]
    return program_executable(jaxpr, name, args)(args)


def _jit_jvp(primals, tangents, *, name, jaxpr):
    nonzero = tuple(type(dx) is not Zero for dx in tangents)
    program, has_tangent = jvp_program(jaxpr, nonzero, (False,) * len(jaxpr.out_avals))
    out = bind_program(program, [*primals, *(dx for dx in tangents if type(dx) is not Zero)], name)
    n = len(jaxpr.out_avals)
    return out[:n], with_zeros(has_tangent, out[n:], jaxpr.out_avals)


def _jit_linearize(trace, primals, tangents, *, name, jaxpr):
    active = tuple(type(dx) is not Zero for dx in tangents)
    lin = linearize_program(jaxpr, active)
    out = bind_program(lin.forward, primals, name)
    n = len(jaxpr.out_avals)
    computed = iter(out[n:])
    residuals = [next(computed) if k is None else primals[k] for k in lin.forwarded]
    with current_trace(trace.tangent):
        douts = bind_program(lin.tangent, [*residuals, *(dx for dx in tangents if type(dx) is not Zero)], name)
    return out[:n], with_zeros(lin.nonzero, douts, jaxpr.out_avals)


def _jit_transpose(cts, *args, name, jaxpr):
    linear = tuple(is_linear(x) for x in args)
    nonzero = tuple(type(ct) is not Zero for ct in cts)
    program, has_ct = transpose_program(jaxpr, linear, nonzero)
    given = iter(bind_program(program, [*(x for x in args if not is_linear(x)),
                                        *(ct for ct in cts if type(ct) is not Zero)], name))
    flags = iter(has_ct)
    return [next(given) if is_linear(x) and next(flags) else None for x in args]


def _jit_batch(axis, args, bdims, *, name, jaxpr):
    program, out_dims = batch_program(jaxpr, axis.size, axis.name, tuple(bdims))
    return bind_program(program, args, name), out_dims


def _jit_split(trace, args, params):
    """A call with tangents among its arguments, from a derivative rule that calls a jitted function.

    The program is cut in two as linearize cuts it: what does not touch a tangent is called in the parent.
    """
    closed, name = params["jaxpr"], params["name"]
    tangent = tuple(trace.is_tangent(x) for x in args)
    known, unknown, in_tangent = split_program(closed, tangent)
    residuals = bind_program(known, [x for x, t in zip(args, tangent, strict=True) if not t], name)
    n = in_tangent.count(False)
    values, residuals = iter(residuals[:n]), residuals[n:]
    with current_trace(trace.tangent):
        given = iter(bind_program(unknown, [*residuals, *(x for x, t in zip(args, tangent, strict=True) if t)], name))
    return [next(given) if t else next(values) for t in in_tangent]


jit_p = Primitive("jit", type_rule=_jit_type, lower=_jit_lower, jvp=_jit_jvp, transpose=_jit_transpose,
                  batch=_jit_batch, linearize=_jit_linearize, evaluate=_jit_evaluate, split=_jit_split,
                  multiple_results=True, cacheable=False)
