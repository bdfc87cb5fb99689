"""Dead code inside of equations that hold programs: results that nobody reads, and what only they need.

`dce` of `core/jaxpr.py` drops whole equations. `prune` asks an operation that holds programs, by its field `prune`, for
the same operation with the results and operands that are read: of a `jit`, `cond`, `scan` or `remat2`.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

from xjax.core.flags import Flags, flagged
from xjax.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Var, program_cache
from xjax.core.types import ShapedArray


class Pruned(NamedTuple):
    """Parameters of an operation with fewer results, which operands it still reads, and which results it still has."""

    params: dict[str, Any]
    operands: Flags
    results: Flags


class Saving(NamedTuple):
    """An operation in two: `first` are the parameters of one that also returns saved values, after its results; `again`
    those of one that takes them, after those `operands` that it still has, and returns the flagged `results`."""

    first: dict[str, Any]
    again: dict[str, Any]
    operands: Flags
    results: Flags
    saved: list[tuple[ShapedArray, Any]]                # type, and what the policy says of it


def prune(jaxpr: Jaxpr, used_outputs: Sequence[bool]) -> tuple[Jaxpr, list[bool]]:
    """As `dce`, inside of equations too: the outputs that are used, and which inputs are still read."""
    outvars = flagged(jaxpr.outvars, used_outputs)
    live = {v for v in outvars if type(v) is Var}
    eqns = []
    for eqn in reversed(jaxpr.eqns):
        if live.isdisjoint(eqn.outvars) and not eqn.effects:
            continue
        eqn = prune_equation(eqn, live)
        eqns.append(eqn)
        live.update(v for v in eqn.invars if type(v) is Var)
    return Jaxpr(jaxpr.constvars, jaxpr.invars, eqns[::-1], outvars), [v in live for v in jaxpr.invars]


def prune_equation(eqn: Eqn, live: set[Var]) -> Eqn:
    """The equation without results that are not among `live` and operands that only they need, if there is a rule."""
    if eqn.primitive.prune is None:
        return eqn
    params, operands, results = eqn.primitive.prune(tuple(v in live for v in eqn.outvars), **eqn.params)
    if all(operands) and all(results) and all(params[name] is value for name, value in eqn.params.items()):
        return eqn
    return Eqn(flagged(eqn.invars, operands), flagged(eqn.outvars, results), eqn.primitive, params, eqn.source)


@program_cache
def prune_program(closed: ClosedJaxpr, used: Flags, kept: Flags | None = None) -> tuple[ClosedJaxpr, Flags]:
    """The program of some outputs, without inputs that are not read; second result: which inputs it still has.

    A program with nothing to prune is returned itself, so what is remembered on it stays in use.

    Args: kept: inputs that stay in any case.
    """
    j, read = prune(closed.jaxpr, used)
    read = tuple(read) if kept is None else tuple(a or b for a, b in zip(read, kept, strict=True))
    old = closed.jaxpr
    if all(used) and all(read) and len(j.eqns) == len(old.eqns) and all(map(operator.is_, j.eqns, old.eqns)):
        return closed, read
    return ClosedJaxpr(j.replace(invars=flagged(j.invars, read)), closed.consts), read


def prune_call(used: Flags, *, jaxpr: ClosedJaxpr, **params: Any) -> Pruned:
    """The field `prune` of an operation that computes what its program computes of its operands."""
    program, read = prune_program(jaxpr, used)
    return Pruned({**params, "jaxpr": program}, read, used)
