"""From programs to StableHLO text.

Each equation is written by its primitive's `lower` rule. Programs that are lowered capture nothing: whoever traced them
made their constants leading arguments (a literal in the text would be parsed, hashed and copied). A sub-program that
occurs more than once is written once, as a private function.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from xjax.core.hlo import Builder, Module, Value, return_text, tensor_type
from xjax.core.jaxpr import ClosedJaxpr, Jaxpr, Literal
from xjax.core.primitive import Primitive
from xjax.core.types import ShapedArray


def lower_closed(b: Builder, closed: ClosedJaxpr, args: Sequence[Value]) -> list[Value]:
    """Write a program in place. Its constants, if any, are host arrays that a derivative rule made."""
    j = closed.jaxpr
    consts = [b.constant(np.asarray(c, v.aval.dtype), v.aval) for v, c in zip(j.constvars, closed.consts, strict=True)]
    return lower_jaxpr(b, j, args, consts)


def lower_jaxpr(b: Builder, jaxpr: Jaxpr, args: Sequence[Value], consts: Sequence[Value] = ()) -> list[Value]:
    """Write the equations of a program; returns its results."""
    env: dict[Any, Value] = dict(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    for eqn in jaxpr.eqns:
        p = eqn.primitive
        ins = [b.constant(v.val, v.aval) if type(v) is Literal else env[v] for v in eqn.invars]
        if p.multiple_results:
            outs = p.lower(b, [v.aval for v in eqn.outvars], *ins, **eqn.params)
            env.update(zip(eqn.outvars, outs, strict=True))
        else:
            env[eqn.outvars[0]] = p.lower(b, eqn.outvars[0].aval, *ins, **eqn.params)
    return [b.constant(v.val, v.aval) if type(v) is Literal else env[v] for v in jaxpr.outvars]


def lower_call(b: Builder, closed: ClosedJaxpr, args: Sequence[Value], name: str) -> list[Value]:
    """Write a call of a sub-program: in place, or as a private function if it occurs more than once."""
    if b.module.uses.get(closed, 0) < 2 or b.axes is not None:
        return lower_closed(b, closed, args)
    symbol = b.module.subprograms.get(closed)
    if symbol is None:
        symbol = b.module.subprograms[closed] = f"@{_symbol(name)}_{b.module.number()}"
        inner = b.nested()
        params = [Value(f"%{b.module.number()}", aval) for aval in closed.in_avals]
        results = lower_closed(inner, closed, params)
        b.module.functions.append(_function(f"private {symbol}", params, results, inner.lines))
    operands = ", ".join(a.name for a in args)
    ins = ", ".join(tensor_type(a) for a in closed.in_avals)
    outs = ", ".join(tensor_type(a) for a in closed.out_avals)
    return b.ops(f"func.call {symbol}({operands}) : ({ins}) -> ({outs})", closed.out_avals)


def _function(head: str, params: Sequence[Value], results: Sequence[Value], lines: Sequence[str],
              arg_attributes: Sequence[str] = (), result_attributes: Sequence[str] = ()) -> str:
    attrs = list(arg_attributes) or [""] * len(params)
    out_attrs = list(result_attributes) or [""] * len(results)
    ins = ", ".join(f"{p.name}: {p.type}{a}" for p, a in zip(params, attrs, strict=True))
    outs = ", ".join(f"{r.type}{a}" for r, a in zip(results, out_attrs, strict=True))
    return "\n".join([f"func.func {head}({ins}) -> ({outs}) {{", *lines, return_text("return", results), "}"])


class Shardings:
    """`sdy` text of each argument, and of each result (None: XLA chooses); all over one mesh."""

    __slots__ = ("mesh", "ins", "outs")

    def __init__(self, mesh: Any, ins: Sequence[str], outs: Sequence[str | None]):
        self.mesh, self.ins, self.outs = mesh, ins, outs


def lower_program(closed: ClosedJaxpr, name: str = "main", *, shardings: Shardings | None = None,
                  donated: Sequence[bool] = ()) -> str:
    """The module of a program; `name` is what profilers show.

    Args:
      shardings: how arguments and results are cut over a mesh; None for one device.
      donated: for each argument, whether its memory may be taken for a result.
    """
    module = Module()
    module.uses = count_programs(closed.jaxpr)
    b = Builder(module)
    params = [Value(f"%{module.number()}", aval) for aval in closed.in_avals]
    results = lower_closed(b, closed, params)
    arg_attributes, result_attributes = _attributes(module, params, results, shardings, donated)
    module.functions.append(_function("public @main", params, results, b.lines, arg_attributes, result_attributes))
    return f"module @{_symbol(name)} {{\n{module.text()}\n}}\n"


def _symbol(name: str) -> str:
    """A user's name as an MLIR symbol."""
    return re.sub("[^A-Za-z0-9_]", "_", name) or "main"


def _attributes(module, params, results, shardings, donated):
    """Attribute texts of main's arguments and results."""
    args = [[] for _ in params]
    outs = [""] * len(results)
    if shardings is not None:
        module.mesh(shardings.mesh)
        for attrs, text in zip(args, shardings.ins, strict=True):
            attrs.append(f"sdy.sharding = {text}")
        outs = [f" {{sdy.sharding = {text}}}" if text else "" for text in shardings.outs]
    for i, attribute in _donations(params, results, donated, sharded=shardings is not None):
        args[i].append(attribute)
    return [f" {{{', '.join(attrs)}}}" if attrs else "" for attrs in args], outs


def _donations(params, results, donated, sharded):
    """Pair each donated argument with a result of its type; one without a partner is only freed early."""
    where: dict[str, list[int]] = {}
    for k, r in enumerate(results):
        where.setdefault(r.type, []).append(k)
    for i, (p, give) in enumerate(zip(params, donated, strict=False)):
        if not give:
            continue
        partners = where.get(p.type, [])
        if partners and not sharded:
            yield i, f"tf.aliasing_output = {partners.pop(0)} : i32"
        else:
            yield i, "jax.buffer_donor = true"


def count_programs(jaxpr: Jaxpr, uses: Counter | None = None) -> Counter:
    """How often each sub-program occurs; one that was seen is not entered again."""
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


def lower_primitive(p: Primitive, avals: Sequence[ShapedArray], params: dict) -> tuple[str, tuple[ShapedArray, ...]]:
    """The module of one operation, and its result types."""
    out = p.out_type(tuple(avals), params)
    module = Module()
    b = Builder(module)
    args = [Value(f"%{module.number()}", aval) for aval in avals]
    if p.multiple_results:
        outs = tuple(out)
        results = p.lower(b, list(outs), *args, **params)
    else:
        outs = (out,)
        results = [p.lower(b, out, *args, **params)]
    module.functions.append(_function("public @main", args, results, b.lines))
    return f"module @{_symbol(p.name)} {{\n{module.text()}\n}}\n", outs
