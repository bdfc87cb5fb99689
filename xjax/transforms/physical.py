"""Conversion of programs of random keys to programs of words, for the compiler.

An array of keys of shape S is an array uint32[S, n]: n arrays of plain numbers, batched along the last axis. So an
operation that treats keys as elements (that moves, repeats or selects them) is applied to their words by its batching
rule. Operations have no rule of their own for keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xjax.core.config import config, enable_x64
from xjax.core.context import context, current_trace
from xjax.core.errors import bad
from xjax.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var, program_cache, programs_in, subjaxprs
from xjax.core.key_types import is_key, physical
from xjax.core.primitive import ByProgram
from xjax.core.staging import StagingTrace, StagingTracer, trace_to_jaxpr
from xjax.ops.compare import eq_p, ne_p
from xjax.ops.keys import random_unwrap_p, random_wrap_p
from xjax.ops.reduce import reduce_and, reduce_or
from xjax.ops.shape import move_axis
from xjax.transforms.batching import BatchAxis
from xjax.typing import Array, ArrayLike

# Comparisons of keys are computed word by word; these functions combine the results of the words.
_ANSWERS = {eq_p: reduce_and, ne_p: reduce_or}


def physical_program(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program on words instead of keys, including its sub-programs; the program itself if there are no keys."""
    return _on_words(closed) if _has_keys(closed.jaxpr) else closed


def _has_keys(jaxpr: Jaxpr) -> bool:
    """Whether keys occur in a program or in its sub-programs."""
    return any(is_key(v.aval) for program in programs_in(jaxpr) for v in (
        *program.constvars, *program.invars, *(v for eqn in program.eqns for v in eqn.outvars)))


@program_cache
def _on_words(closed: ClosedJaxpr) -> ClosedJaxpr:
    j = closed.jaxpr
    trace = StagingTrace(context.trace, "a program of random keys")
    args = [trace.new_arg(physical(v.aval)) for v in j.invars]
    env: dict[Any, Any] = dict(zip(j.invars, args, strict=True))
    env |= {v: random_unwrap_p.bind(c) if is_key(v.aval) else c
            for v, c in zip(j.constvars, closed.consts, strict=True)}
    saved = context.source
    try:
        for eqn in j.eqns:
            context.source = eqn.source
            _rewrite(trace, eqn, env)
    finally:
        context.source = saved
    return trace.finish(args, [_value(v, env) for v in j.outvars])


def _value(v: Atom, env: dict) -> ArrayLike:
    return v.val if type(v) is Literal else env[v]


def _rewrite(trace: StagingTrace, eqn: Eqn, env: dict) -> None:
    """Record one equation on words."""
    p, keys = eqn.primitive, [v.aval.dtype for v in (*eqn.invars, *eqn.outvars) if is_key(v.aval)]
    programs = subjaxprs(eqn.params)
    if p is random_wrap_p or p is random_unwrap_p:
        env[eqn.outvars[0]] = env[eqn.invars[0]]
    elif isinstance(p.lower, ByProgram):
        closed = trace_to_jaxpr(lambda *args: [p.lower.f(*args, **eqn.params)], [v.aval for v in eqn.invars], p.name)
        words = physical_program(closed)
        # In a program with 64-bit counters, scalars keep 64 bits, independent of the user's option.
        with current_trace(trace), enable_x64(config.enable_x64 or _counts_in_64_bits(words.jaxpr)):
            env.update(zip(eqn.outvars, words(*[_value(v, env) for v in eqn.invars]), strict=True))
    elif keys and not programs:
        env.update(zip(eqn.outvars, _by_batching(trace, eqn, env, keys[0].kind.words), strict=True))
    else:                       # an operation without keys, or one that uses them only in its programs
        params = {name: _physical_parameter(x) for name, x in eqn.params.items()} if programs else eqn.params
        invars = [v if type(v) is Literal else trace.atom(env[v]) for v in eqn.invars]
        outvars = [Var(physical(v.aval)) for v in eqn.outvars]
        trace.eqns.append(Eqn(invars, outvars, p, params, eqn.source))
        env.update(zip(eqn.outvars, [StagingTracer(trace.tag, v) for v in outvars], strict=True))


def _counts_in_64_bits(jaxpr: Jaxpr) -> bool:
    return any(v.aval.dtype == np.uint64 for eqn in jaxpr.eqns for v in eqn.outvars)


def _physical_parameter(x: Any) -> Any:
    """A parameter of an operation, with programs converted to words."""
    if isinstance(x, ClosedJaxpr):
        return physical_program(x)
    if isinstance(x, (tuple, list)):
        items = [_physical_parameter(item) for item in x]
        return type(x)(*items) if hasattr(x, "_fields") else type(x)(items)
    return x


def _by_batching(trace: StagingTrace, eqn: Eqn, env: dict, words: int) -> list[Any]:
    """The results, on words, of an operation that treats keys as elements."""
    p = eqn.primitive
    axis = BatchAxis(words, None, trace.tag)
    bdims = [v.aval.ndim if is_key(v.aval) else None for v in eqn.invars]
    with current_trace(trace):
        outs, dims = p.batch(axis, tuple([_value(v, env) for v in eqn.invars]), bdims, **eqn.params)
        if not p.multiple_results:
            outs, dims = [outs], [dims]
        return [_placed(eqn, v, y, dim) for v, y, dim in zip(eqn.outvars, outs, dims, strict=True)]


def _placed(eqn: Eqn, v: Var, y: Array, dim: int | None) -> Array:
    """A result with its words along the last axis; the results of the words are combined if it is not a key."""
    p = eqn.primitive
    if is_key(v.aval):
        return y if dim == v.aval.ndim else move_axis(y, dim, v.aval.ndim)
    if dim is None:
        return y
    if p not in _ANSWERS:
        raise bad(p.name, "does not work on random keys", given=_types(eqn.invars),
                  fix="use their bits, random.key_data(keys).")
    return _ANSWERS[p](y, (dim,))


def _types(atoms: Sequence[Any]) -> dict[str, str]:
    return {f"argument {i}": v.aval.str_short() for i, v in enumerate(atoms)}
