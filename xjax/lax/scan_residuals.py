"""The choice of values that each step of a scan stores for its gradient.

A residual is recomputed where it is needed if a few cheap operations compute it from other residuals: if the result y
of a logistic is stored, ``y * (1 - y)`` is not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from xjax.core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from xjax.ops.compare import select_n_p
from xjax.ops.convert import convert_element_type_p
from xjax.ops.elementwise import add_p, mul_p, neg_p, one_minus_square_p, sub_p
from xjax.ops.shape import broadcast_in_dim_p

_CHEAP = frozenset({add_p, broadcast_in_dim_p, convert_element_type_p, mul_p, neg_p, one_minus_square_p, select_n_p,
                    sub_p})
_MOST = 4           # operations to recompute one residual


def without_cheap(known: Jaxpr, residuals: Sequence[Atom], second: Jaxpr) -> tuple[list[Atom], Jaxpr]:
    """(The residuals to store, the second program as a program of these, which recomputes the others).

    Args: known: the program that computes the residuals; second: the program whose first inputs they are.
    """
    inputs = second.invars[:len(residuals)]
    named = {v: name for v, name in zip(residuals, inputs, strict=True) if type(v) is Var}
    made = {eqn.outvars[0]: eqn for eqn in known.eqns if eqn.primitive in _CHEAP}
    once = {v for v, count in Counter(residuals).items() if count == 1}
    again: list[Eqn] = []
    cheap = set()
    for v in [v for v in made if v in named and v in once]:        # in order: each follows its operands
        steps = _steps(made, named, made[v])
        if steps is not None:
            cheap.add(v)
            names = {**{eqn.outvars[0]: Var(eqn.outvars[0].aval) for eqn in steps}, **named}
            again += [eqn.replace(invars=[names.get(x, x) for x in eqn.invars], outvars=[names[eqn.outvars[0]]])
                      for eqn in steps]
    stored = [(v, name) for v, name in zip(residuals, inputs, strict=True) if v not in cheap]
    invars = [*(name for _, name in stored), *second.invars[len(residuals):]]
    return [v for v, _ in stored], Jaxpr(second.constvars, invars, [*again, *second.eqns], second.outvars)


def _steps(made: Mapping[Var, Eqn], named: Mapping[Atom, Var], last: Eqn) -> list[Eqn] | None:
    """Cheap equations, in order, that compute the result of `last` from other residuals; None if that is impossible."""
    steps: dict[Eqn, None] = {}

    def visit(eqn: Eqn, depth: int) -> bool:
        for x in eqn.invars:
            if type(x) is not Literal and x not in named and not (
                    x in made and depth < _MOST and visit(made[x], depth + 1)):
                return False
        steps[eqn] = None
        return len(steps) <= _MOST

    return list(steps) if visit(last, 1) else None
