"""Lowering of programs to StableHLO text: each equation is written by the `lower` rule of its primitive.

A sub-program that occurs more than once is written once, as a private function.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from xjax.core.depth import deep
from xjax.core.errors import scope_of
from xjax.core.forms import Limits, limits
from xjax.core.hlo import Builder, Held, Recipe, Stored, Value, return_text, tensor_type, with_location
from xjax.core.jaxpr import ClosedJaxpr, Jaxpr, Literal, Var, dce
from xjax.core.primitive import Missing
from xjax.core.staging import trace_to_jaxpr
from xjax.core.types import ShapedArray

# The maximum number of operations that `lower_again` repeats; beyond that, the result is better kept in memory.
_MOST_AGAIN = 32


@deep
def lower_closed(b: Builder, closed: ClosedJaxpr, args: Sequence[Value]) -> list[Value]:
    """Write a program in place. Its constants, if any, are host arrays created by a derivative rule."""
    j = closed.jaxpr
    consts = [b.constant(np.asarray(c, v.aval.dtype), v.aval.plain)
              for v, c in zip(j.constvars, closed.consts, strict=True)]
    return lower_jaxpr(b, j, args, consts)


def lower_jaxpr(b: Builder, jaxpr: Jaxpr, args: Sequence[Value], consts: Sequence[Value] = ()) -> list[Value]:
    """Write the equations of a program; returns its results."""
    if any(isinstance(eqn.primitive.lower, Missing) for eqn in jaxpr.eqns):
        jaxpr, _ = dce(jaxpr, (True,) * len(jaxpr.outvars))     # without a `lower` rule: an error only if used
    env: dict[Any, Value] = dict(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    chains, count = Chains.of(b), functools.cache(lambda: _readers(jaxpr))

    def store_long(variables: Sequence[Var]) -> None:
        if chains is not None:
            for v in variables:
                if chains.is_long(env[v]) and count()[v] > 1:
                    env[v], = lower_barrier(b, [env[v]])

    store_long(jaxpr.invars)
    # A scalar that a long chain of operations computes is fused into the loops that use it, and LLVM follows each path
    # through the chain. So a scalar with too many paths is computed once, in a function that is not inlined.
    apart, paths = limits("numbers apart", b.module.platform), {}
    for eqn in jaxpr.eqns:
        p = eqn.primitive
        ins = [b.constant(v.val, v.aval.plain) if type(v) is Literal else env[v] for v in eqn.invars]
        scope, written = b.scope, len(b.lines)
        if inner := scope_of(eqn.source):
            b.scope = f"{scope}/{inner}" if scope else inner
        if p.multiple_results:
            outs = p.lower(b, [v.aval.plain for v in eqn.outvars], *ins, **eqn.params)
            env.update(zip(eqn.outvars, outs, strict=True))
        else:
            out = eqn.outvars[0]
            env[out] = value = p.lower(b, out.aval.plain, *ins, **eqn.params)
            if p.fusible and value.recipe is None and not any([value is x for x in ins]):
                value.recipe = Recipe(p.lower, ins, eqn.params)
            if p.fusible and chains is not None:
                chains.note(value, ins)
            if apart is not None and not out.aval.shape:
                paths[out] = sum([1 if type(v) is Literal else paths.get(v, 1) for v in eqn.invars])
                if paths[out] > apart["paths"]:
                    env[out], paths[out] = lower_barrier(b, [env[out]])[0], 1
        store_long(eqn.outvars)
        if b.scope:
            b.lines[written:] = [with_location(line, f"{b.scope}/{p.name}") for line in b.lines[written:]]
            b.scope = scope
    return [b.constant(v.val, v.aval.plain) if type(v) is Literal else env[v] for v in jaxpr.outvars]


class Chains:
    """Chains of elementwise operations: a value that reads many arrays and has several readers is stored.

    XLA for CPUs computes a value again in each operation that it fuses it with. The layers of a residual network add
    their results to one sum, and each of them reads this sum several times. So a reader in layer n would add the
    results of all n layers, and the time of a network would grow with the square of its depth. The same holds for the
    sum of cotangents.

    `Value.reads` has the names of the arrays that the loop of a fused value reads: the reads of its operands, and the
    names of operands that are stored.
    """

    def __init__(self, bounds: Limits):
        self._elements, self._most = bounds["elements"], bounds["arrays"]

    @classmethod
    def of(cls, b: Builder) -> Chains | None:
        """None on platforms where XLA stores such values, and if it divides the program over devices."""
        bounds = limits("long chains apart", b.module.platform)
        return None if bounds is None or b.is_cut else cls(bounds)

    def note(self, value: Value, operands: Sequence[Value], more: Iterable[str] = ()) -> None:
        """Note what a fused operation reads.  Args: value: its result; more: names of further arrays."""
        size = value.aval.size
        if size >= self._elements and value.reads is None:
            large = [x for x in operands if x.aval.size >= size]
            reads = frozenset(more).union(*[(x.name,) if x.reads is None else x.reads for x in large])
            value.reads = reads if len(reads) <= self._most else frozenset([*reads][:self._most + 1])

    def is_long(self, value: Value) -> bool:
        return value.reads is not None and len(value.reads) > self._most


def _readers(jaxpr: Jaxpr) -> Counter[Var]:
    """The number of times that operations or results of a program read each of its variables."""
    read = [v for eqn in jaxpr.eqns for v in eqn.invars] + [*jaxpr.outvars]
    return Counter([v for v in read if type(v) is Var])


def lower_call(b: Builder, closed: ClosedJaxpr, args: Sequence[Value], name: str) -> list[Value]:
    """Write a call of a sub-program: in place, or as a private function if it occurs more than once.

    A program with an operation that is not `fused_with_caller` is always a function, which XLA does not inline.
    """
    apart = _is_apart(b, closed.jaxpr)              # never in a program with symbolic dimensions, nor `shared`
    shared = b.module.uses.get(closed, 0) > 1 and b.axes is None and b.token is None
    if not (apart or shared):
        return lower_closed(b, closed, args)
    written = b.module.subprograms.get(closed) if shared else None
    if written is None:
        symbol = f"@{symbol_name(name)}_{b.module.number()}"
        results = write_function(b, symbol, lambda inner, *params: lower_closed(inner, closed, params),
                                  closed.in_avals)
        written = symbol, results
        if shared:
            b.module.subprograms[closed] = written
    symbol, results = written
    chains = None if apart else Chains.of(b)
    if chains is not None:
        args = [lower_barrier(b, [x])[0] if chains.is_long(x) else x for x in args]
    outs = write_call(b, symbol, args, closed.out_avals, inlined=not apart)
    if chains is not None:
        for x in outs:
            chains.note(x, args, (x.name,))
    return [Stored(x.name, x.aval, inside.memory) if type(inside) is Stored else x
            for x, inside in zip(outs, results, strict=True)]


def _is_apart(b: Builder, jaxpr: Jaxpr) -> bool:
    return (limits("draws apart", b.module.platform) is not None and not jaxpr.effects
            and not all(eqn.primitive.fused_with_caller for eqn in jaxpr.eqns))


def lower_apart(b: Builder, body: Callable[..., Value], args: Sequence[Value]) -> Value:
    """Write ``body(builder, *args)`` as a function of its own, which XLA does not fuse with the users of its result.

    XLA recomputes cheap producers in each consumer; a long sum of them must be computed once.
    """
    return _call_apart(b, lambda inner, *params: [body(inner, *params)], args)[0]


def lower_again(b: Builder, x: Value) -> Value:
    """A second copy of the fusible operations that compute `x`; `x` itself, if there are none.

    In a branch of a conditional this avoids an array in memory: XLA does not fuse operands of a conditional with it.
    """
    steps: dict[int, Value] = {}                # each value follows its operands
    _collect(x, steps)
    if len(steps) > _MOST_AGAIN:
        return x
    again: dict[int, Value] = {}
    for step in steps.values():
        assert step.recipe is not None
        lower, operands, params = step.recipe
        again[id(step)] = lower(b, step.aval, *[again.get(id(v), v) for v in operands], **params)
    return again.get(id(x), x)


def _collect(x: Value, steps: dict[int, Value]) -> None:
    if x.recipe is None or id(x) in steps or len(steps) > _MOST_AGAIN:
        return
    for operand in x.recipe.operands:
        _collect(operand, steps)
    steps[id(x)] = x


def lower_barrier(b: Builder, args: Sequence[Value]) -> list[Value]:
    """`args` as results of a call that XLA does not inline, so operations are not fused, shared or moved across it.

    This is a barrier on CPUs, where XLA removes its own barriers before it fuses operations. Values are not copied.

    For an argument that is itself a result of a barrier, the new barrier uses the value before that barrier, and waits
    for all values of both: jaxlib 0.12 loses the layout of values passed from one such call to the next
    (`xla/compiler_faults.py`: "barriers of barriers").
    """
    before = [x.before if type(x) is Held else x for x in args]
    waited_for = {y.name: y for x in args for y in (x.together if type(x) is Held else (x,))}
    together = list(waited_for.values())
    held = dict(zip(waited_for, _call_apart(b, lambda inner, *params: params, together), strict=True))
    return [Held(held[x.name].name, x, together) for x in before]


def _call_apart(b: Builder, body: Callable[..., Sequence[Value]], args: Sequence[Value]) -> list[Value]:
    symbol = f"@apart_{b.module.number()}"
    results = write_function(b, symbol, body, [x.aval for x in args])
    return write_call(b, symbol, args, [x.aval for x in results], inlined=False)


def write_call(b: Builder, symbol: str, args: Sequence[Value], out_avals: Sequence[ShapedArray],
               inlined: bool = True) -> list[Value]:
    """Write the call of a function of the module; with `inlined` False, XLA does not fuse it with other operations."""
    attribute = "" if inlined else ' {mhlo.frontend_attributes = {inlineable = "false"}}'
    operands, ins = ", ".join(x.name for x in args), ", ".join(x.type for x in args)
    outs = ", ".join(tensor_type(a) for a in out_avals)
    return b.ops(f"func.call {symbol}({operands}){attribute} : ({ins}) -> ({outs})", out_avals)


def write_function(b: Builder, symbol: str, body: Callable[..., Sequence[Value]],
                   avals: Sequence[ShapedArray]) -> Sequence[Value]:
    """Write ``body(builder, *params)`` as a private function of the module.  Returns: its results, inside it."""
    inner, params = b.nested(), [Value(f"%{b.module.number()}", aval) for aval in avals]
    results = body(inner, *params)
    b.module.functions.append(function_text(f"private {symbol}", params, results, inner.lines))
    return results


def lower_function(b: Builder, function: Callable[..., Sequence[Any]], args: Sequence[Value]) -> list[Value]:
    """Write the operations of `function`, traced on the types of the arguments."""
    return lower_closed(b, trace_to_jaxpr(function, [x.aval for x in args]), args)


def function_text(head: str, params: Sequence[Value], results: Sequence[Value], lines: Sequence[str],
              arg_attributes: Sequence[str] = (), result_attributes: Sequence[str] = ()) -> str:
    attrs = list(arg_attributes) or [""] * len(params)
    out_attrs = list(result_attributes) or [""] * len(results)
    ins = ", ".join(f"{p.name}: {p.type}{a}" for p, a in zip(params, attrs, strict=True))
    outs = ", ".join(f"{r.type}{a}" for r, a in zip(results, out_attrs, strict=True))
    return "\n".join([f"func.func {head}({ins}) -> ({outs}) {{", *lines, return_text("return", results), "}"])


def symbol_name(name: str) -> str:
    """A user's name as an MLIR symbol."""
    return re.sub("[^A-Za-z0-9_]", "_", name) or "main"


@deep
def count_programs(jaxpr: Jaxpr, uses: Counter | None = None) -> Counter:
    """The number of occurrences of each sub-program; the equations of each sub-program are counted once."""
    uses = Counter() if uses is None else uses
    for eqn in jaxpr.eqns:
        for value in eqn.params.values():
            for item in value if isinstance(value, (tuple, list)) else (value,):
                if isinstance(item, ClosedJaxpr):
                    uses[item] += 1
                    if uses[item] == 1:
                        count_programs(item.jaxpr, uses)
                elif isinstance(item, Jaxpr):
                    count_programs(item, uses)
    return uses
