"""Dead-code elimination inside equations that hold programs: drops unused results, and the equations only they need.

`dce` in `core/jaxpr.py` drops whole equations. For an operation that holds programs (`jit`, `cond`, `scan`, `remat2`),
`prune` calls the rule `prune` of its primitive, which returns the operation with the used results and operands only.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

from xjax.core.flags import Flags, flagged
from xjax.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Var, program_cache
from xjax.core.types import ShapedArray


class Pruned(NamedTuple):
    """The parameters of an operation with fewer results, and flags of the operands and results that are kept."""

    params: dict[str, Any]
    operands: Flags
    results: Flags


class Saving(NamedTuple):
    """An operation as two operations.

    `first` are the parameters of an operation that returns the saved values after its results. `again` are the
    parameters of an operation whose inputs are the flagged `operands`, then the saved values; it returns the flagged
    `results`.
    """

    first: dict[str, Any]
    again: dict[str, Any]
    operands: Flags
    results: Flags
    saved: list[tuple[ShapedArray, Any]]                # type, and the answer of the policy


def prune(jaxpr: Jaxpr, used_outputs: Sequence[bool]) -> tuple[Jaxpr, list[bool]]:
    """As `dce`, but inside equations too.

    Returns: the program of the used outputs, and for each input whether it is still used.
    """
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
    """The equation without results that are not in `live`, and without operands that only they need.

    An equation whose primitive has no rule `prune` is returned itself.
    """
    if eqn.primitive.prune is None:
        return eqn
    params, operands, results = eqn.primitive.prune(tuple(v in live for v in eqn.outvars), **eqn.params)
    if all(operands) and all(results) and all(params[name] is value for name, value in eqn.params.items()):
        return eqn
    return Eqn(flagged(eqn.invars, operands), flagged(eqn.outvars, results), eqn.primitive, params, eqn.source)


@program_cache
def prune_program(closed: ClosedJaxpr, used: Flags, kept: Flags | None = None) -> tuple[ClosedJaxpr, Flags]:
    """The program of the used outputs, without unused inputs; the second result flags the inputs that are kept.

    A program with nothing to prune is returned itself, so that results cached on it remain in use.

    Args: kept: flags of inputs that are always kept.
    """
    j, read = prune(closed.jaxpr, used)
    read = tuple(read) if kept is None else tuple(a or b for a, b in zip(read, kept, strict=True))
    old = closed.jaxpr
    if all(used) and all(read) and len(j.eqns) == len(old.eqns) and all(map(operator.is_, j.eqns, old.eqns)):
        return closed, read
    return ClosedJaxpr(j.replace(invars=flagged(j.invars, read)), closed.consts), read


def prune_call(used: Flags, *, jaxpr: ClosedJaxpr, **params: object) -> Pruned:
    """The rule `prune` of an operation whose results are the results of its program on its operands."""
    program, read = prune_program(jaxpr, used)
    return Pruned({**params, "jaxpr": program}, read, used)
